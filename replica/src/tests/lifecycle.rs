//! Waiting, cancelling, timing out, queueing, draining.

use std::time::Duration;

use sealcast_common::bucket::Store;
use sealcast_common::seams::Seams;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::kit::{Bucket, Replica, event};

/// Runs until it is stopped.
const ENDLESS: &str = "select sum(value) from generate_series(1, 1000000000000)";

async fn state(replica: &Replica, id: Uuid) -> String {
    let info: Value = replica.get(&format!("/v1/queries/{id}")).await.json().await.unwrap();
    info["state"].as_str().unwrap_or_default().to_owned()
}

async fn until(replica: &Replica, id: Uuid, wanted: &str) {
    for _ in 0..1_000 {
        if state(replica, id).await == wanted {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("query {id} is {}, not {wanted}", state(replica, id).await);
}

fn endless(replica: &Replica, id: Uuid) -> reqwest::RequestBuilder {
    let url = replica.url("/v1/sql");
    let request = replica.client.post(url).header("sealcast-query-id", id.to_string());
    request.json(&json!({ "sql": ENDLESS }))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn min_waits_for_what_a_flush_named() {
    let mut bucket = Bucket::filled(1, 30).await;
    let replica = bucket.replica().await;
    let next = {
        let mut vector = sealcast_common::wire::Token::parse(&bucket.token()).unwrap();
        vector.0.insert(0, 60);
        vector.to_text()
    };
    let body = json!({ "sql": "select count(*) from events", "min": next, "wait_ms": 50 });
    let response = replica.post(&body).await;
    assert_eq!(response.status(), 412);
    assert_eq!(response.headers()["retry-after"], "1");
    let problem: Value = response.json().await.unwrap();
    assert_eq!(
        (&problem["code"], &problem["vector"]),
        (&json!("not_yet_replicated"), &json!({ "0": 30 }))
    );
    let body = json!({ "sql": "select count(*) from events", "min": next, "wait_ms": 20_000 });
    let (answer, ()) = tokio::join!(replica.answer(&body), async {
        bucket.ship(0, (30..60).map(|seq| event(0, seq)).collect()).await;
    });
    assert_eq!(answer["rows"], json!([[60]]));
    let request =
        replica.client.get(replica.url("/v1/sql?q=select%201")).header("sealcast-min", next);
    assert_eq!(request.send().await.unwrap().status(), 200);
    let (status, problem) = replica.refusal(&json!({ "sql": "select 1", "min": "nonsense" })).await;
    assert_eq!((status, &problem["code"]), (400, &json!("token_invalid")));
    let (status, _) = replica.refusal(&json!({ "sql": "select 1", "wait_ms": 10_000_000 })).await;
    assert_eq!(status, 400);
    replica.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn queries_are_cancelled_by_request_and_by_leaving() {
    let bucket = Bucket::filled(1, 30).await;
    let replica = bucket.replica().await;
    let id = Uuid::from_u128(1);
    let running = tokio::spawn(endless(&replica, id).send());
    until(&replica, id, "running").await;
    let again = endless(&replica, id).send().await.unwrap();
    assert_eq!(again.status(), 409);
    let deleted =
        replica.client.delete(replica.url(&format!("/v1/queries/{id}"))).send().await.unwrap();
    assert_eq!(deleted.status(), 202);
    let answer = running.await.unwrap().unwrap();
    let problem: Value = answer.json().await.unwrap();
    assert_eq!(problem["code"], "query_cancelled");
    until(&replica, id, "cancelled").await;

    let id = Uuid::from_u128(2);
    let running = tokio::spawn(endless(&replica, id).send());
    until(&replica, id, "running").await;
    running.abort();
    until(&replica, id, "cancelled").await;

    // A body that nobody reads any more.
    let id = Uuid::from_u128(3);
    let body = json!({ "sql": "select value from generate_series(1, 1000000000000)" });
    let url = replica.url("/v1/sql");
    let request = replica.client.post(url).header("sealcast-query-id", id.to_string()).json(&body);
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), 200);
    drop(response);
    until(&replica, id, "cancelled").await;
    let unknown = replica.get(&format!("/v1/queries/{}", Uuid::from_u128(9))).await;
    assert_eq!(unknown.status(), 404);
    let list: Value = replica.get("/v1/queries").await.json().await.unwrap();
    assert!(list["queries"].as_array().unwrap().len() >= 3);
    replica.stop().await;
}

/// Whoever has the whole answer, or had it already, leaves a query that has finished.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn answers_that_were_given_are_finished() {
    let bucket = Bucket::filled(1, 30).await;
    let replica = bucket.replica().await;
    replica.wait(&bucket.token()).await;
    let ask = || replica.client.get(replica.url("/v1/sql?q=select+max(_seq)+from+events"));
    let first = ask().send().await.unwrap();
    let etag = first.headers()["etag"].clone();
    assert!(first.bytes().await.is_ok());
    for _ in 0..30 {
        assert_eq!(
            ask().send().await.unwrap().bytes().await.map(|b| b.is_empty()).ok(),
            Some(false)
        );
        let again = ask().header("if-none-match", etag.clone()).send().await.unwrap();
        assert_eq!(again.status(), 304);
    }
    let list: Value = replica.get("/v1/queries").await.json().await.unwrap();
    for info in list["queries"].as_array().unwrap() {
        let id = Uuid::try_parse(info["query_id"].as_str().unwrap()).unwrap();
        until(&replica, id, "finished").await;
    }
    replica.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_folder_in_use_is_left_alone() {
    let bucket = Bucket::filled(1, 3).await;
    let replica = bucket.replica().await;
    let spill = bucket.config().dir.join("spill");
    std::fs::create_dir(spill.join("what a query has spilled")).unwrap();
    let before = std::fs::read_dir(&spill).unwrap().count();
    let store = Store::open(bucket.dir.path().join("store").to_str().unwrap()).unwrap();
    let stop = CancellationToken::new();
    let refused = crate::start_on(store, bucket.config(), Seams::default(), stop).await;
    assert!(refused.unwrap_err().to_string().contains("in use"));
    assert_eq!(std::fs::read_dir(&spill).unwrap().count(), before);
    replica.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn time_is_limited_before_and_after_the_first_byte() {
    let bucket = Bucket::filled(1, 30).await;
    let replica = bucket.replica().await;
    let (status, problem) = replica.refusal(&json!({ "sql": ENDLESS, "timeout_ms": 100 })).await;
    assert_eq!((status, &problem["code"]), (408, &json!("query_timeout")));
    for format in ["json", "csv", "arrow"] {
        let body = json!({
            "sql": "select value from generate_series(1, 1000000000000)",
            "timeout_ms": 300, "format": format,
        });
        let response = replica.post(&body).await;
        assert_eq!(response.status(), 200, "{format}");
        assert!(response.bytes().await.is_err(), "{format}");
    }
    replica.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn too_many_queries_are_told_to_come_again() {
    let bucket = Bucket::filled(1, 30).await;
    let replica = bucket.replica_with(|config| {
        (config.max_concurrent, config.max_queued, config.queue_ms) = (1, 1, 100);
    });
    let replica = replica.await;
    replica.wait(&bucket.token()).await;
    let id = Uuid::from_u128(1);
    let running = tokio::spawn(endless(&replica, id).send());
    until(&replica, id, "running").await;
    // Until the first one has its turn, another may take it.
    let mut refused = None;
    for _ in 0..50 {
        let response = replica.post(&json!({ "sql": "select 1" })).await;
        if response.status() == 429 {
            refused = Some(response);
            break;
        }
    }
    let refused = refused.expect("the one turn is taken");
    assert_eq!(refused.headers()["retry-after"], "1");
    let problem: Value = refused.json().await.unwrap();
    assert_eq!(problem["code"], "too_many_queries");
    running.abort();
    until(&replica, id, "cancelled").await;
    assert_eq!(replica.rows("select 1").await, json!([[1]]));
    replica.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn readiness_follows_the_vault_and_the_stop() {
    let bucket = Bucket::filled(1, 30).await;
    let replica = bucket.replica_with(|config| config.drain_delay_ms = 1_000).await;
    replica.wait(&bucket.token()).await;
    for _ in 0..500 {
        if replica.get("/readyz").await.status() == 200 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(replica.get("/readyz").await.status(), 200);
    assert_eq!(replica.get("/livez").await.status(), 200);
    replica.stop.cancel();
    let mut draining = replica.get("/readyz").await;
    for _ in 0..50 {
        if draining.status() == 503 {
            break;
        }
        draining = replica.get("/readyz").await;
    }
    let reasons: Value = draining.json().await.unwrap();
    assert!(reasons["reasons"]["draining"].is_string(), "{reasons}");
    // Serving goes on while load balancers notice.
    assert_eq!(replica.rows("select count(*) from events").await, json!([[30]]));
    replica.stop().await;
}

#[tokio::test]
async fn what_was_verified_is_served_after_a_restart_without_the_store() {
    let bucket = Bucket::filled(2, 30).await;
    let replica = bucket.replica().await;
    assert_eq!(replica.rows("select sum(_seq) from events").await, json!([[(0..60).sum::<u64>()]]));
    let id: Value = replica.get("/v1/status").await.json().await.unwrap();
    replica.stop().await;
    let store = bucket.dir.path().join("store");
    std::fs::remove_dir_all(&store).unwrap();
    let replica = bucket.replica_with(|_| {}).await;
    assert_eq!(replica.rows("select sum(_seq) from events").await, json!([[(0..60).sum::<u64>()]]));
    let status: Value = replica.get("/v1/status").await.json().await.unwrap();
    assert_eq!(status["replica"], id["replica"]);
    replica.stop().await;
}

#[test]
fn settings_outside_their_range_are_named() {
    let config = crate::Config { timeout_ms: 0, ..crate::Config::default() };
    let error = config.check().unwrap_err().to_string();
    assert_eq!(error, "replica setting timeout_ms is 0; expected 1 to 86400000");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blind_replica_says_so() {
    let bucket = Bucket::filled(1, 30).await;
    let replica = bucket.replica_with(|config| config.max_staleness_ms = 1_500).await;
    replica.wait(&bucket.token()).await;
    assert_eq!(replica.rows("select count(*) from events").await, json!([[30]]));
    let store = bucket.dir.path().join("store");
    #[expect(clippy::disallowed_methods, reason = "an outage is not durable work")]
    std::fs::rename(&store, bucket.dir.path().join("elsewhere")).unwrap();
    let count = json!({ "sql": "select count(*) from events" });
    let refused = loop {
        let response = replica.post(&count).await;
        if response.status() != 200 {
            break response;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!(
        (refused.status().as_u16(), &refused.headers()["retry-after"]),
        (503, &"5".parse().unwrap())
    );
    let problem: Value = refused.json().await.unwrap();
    assert_eq!(
        (&problem["code"], &problem["setting"]),
        (&json!("replica_stale"), &json!("max_staleness_ms"))
    );
    // Not even "you have it already": nobody knows.
    let request = replica.client.post(replica.url("/v1/sql")).header("if-none-match", "*");
    assert_eq!(request.json(&count).send().await.unwrap().status(), 503);
    assert_eq!(replica.rows("select count(*) from sealcast.streams").await, json!([[1]]));
    let accepted = json!({ "sql": "select count(*) from events", "allow_stale": true });
    let response = replica.post(&accepted).await;
    assert_eq!(
        (response.status().as_u16(), &response.headers()["sealcast-lag-ms"]),
        (200, &"unknown".parse().unwrap())
    );
    assert_eq!(replica.get("/readyz").await.status(), 503);
    replica.stop().await;
}
