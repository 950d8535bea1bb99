//! What is refused, and what an answer says of itself.

use std::collections::BTreeMap;
use std::time::Duration;

use reqwest::StatusCode;
use serde_json::{Value, json};

use super::oracle::{ask, page, places};
use crate::tests::kit::{Bucket, Replica};
use crate::tests::strict::damaged;

async fn refused(replica: &Replica, path: &str) -> (u16, Value) {
    let response = replica.get(path).await;
    let status = response.status().as_u16();
    let kind = response.headers()["content-type"].to_str().unwrap().to_owned();
    assert_eq!(kind, "application/problem+json", "{path}: {status}");
    (status, response.json().await.unwrap())
}

#[tokio::test]
async fn malformed_requests_are_refused_by_name() {
    let bucket = Bucket::filled(1, 30).await;
    let replica = bucket.replica().await;
    let cases = [
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("order=up", "order"),
        ("from=yesterday", "from"),
        ("to=2026-13-01T00:00:00Z", "to"),
        ("from=5&to=4", "from"),
        ("outcome=good", "outcome"),
        ("q=", "q"),
        ("wait_ms=99999999", "wait_ms"),
        ("cursor=", "cursor"),
        ("cursor=c1.AAAA", "cursor"),
        ("cursor=%00", "cursor"),
    ];
    for (query, field) in cases {
        let (status, problem) = refused(&replica, &format!("/v1/events?{query}")).await;
        assert_eq!((status, &problem["field"]), (400, &json!(field)), "{query}: {problem}");
    }
    for query in ["tenent=a", "limit=-1", "limit=x", "tenant=a&tenant=b", "allow_partial=2"] {
        let (status, problem) = refused(&replica, &format!("/v1/events?{query}")).await;
        assert_eq!((status, &problem["code"]), (400, &json!("request_invalid")), "{query}");
    }
    let (_, problem) = refused(&replica, "/v1/events?tenent=a").await;
    assert!(problem["hint"].as_str().unwrap().contains("\"tenant\""), "{problem}");
    let (status, problem) = refused(&replica, "/v1/events?min=v1.x").await;
    assert_eq!((status, &problem["code"]), (400, &json!("token_invalid")));
    let (status, problem) = refused(&replica, "/v1/events/7").await;
    assert_eq!((status, &problem["field"]), (400, &json!("event_id")));
    let (status, problem) = refused(&replica, "/v1/events?min=v1.oQAYZA&wait_ms=1").await;
    assert_eq!((status, &problem["code"]), (412, &json!("not_yet_replicated")));
    // An unescaped plus sign, and both ends of what a time can be.
    for query in
        ["from=2023-11-14T22:13:20+00:00", "to=-9223372036854775808", "from=9223372036854775807"]
    {
        assert_eq!(replica.get(&format!("/v1/events?{query}")).await.status(), 200, "{query}");
    }
    replica.stop().await;
}

#[tokio::test]
async fn a_cursor_is_for_its_maker_and_its_question() {
    let bucket = Bucket::filled(1, 30).await;
    let [one, two] = [bucket.replica().await, {
        let dir = bucket.dir.path().join("other");
        let replica = bucket.replica_with(|config| config.dir = dir).await;
        replica.wait(&bucket.token()).await;
        replica
    }];
    let mut query = BTreeMap::from([("tenant", "acme".to_owned()), ("limit", "2".to_owned())]);
    let first = page(&one, &query).await;
    let cursor = first["next_cursor"].as_str().unwrap().to_owned();
    query.insert("cursor", cursor.clone());
    let second = page(&one, &query).await;
    assert_eq!(second, page(&one, &query).await);
    // Another size is fine, another question is not.
    query.insert("limit", "1".to_owned());
    assert_eq!(places(&page(&one, &query).await)[0], places(&second)[0]);
    for (name, value) in [("tenant", "globex"), ("order", "asc"), ("from", "1"), ("q", "k")] {
        let mut other = query.clone();
        other.insert(name, value.to_owned());
        let problem: Value = ask(&one, &other).await.json().await.unwrap();
        assert_eq!(problem["code"], "cursor_mismatch", "{name}: {problem}");
    }
    // Another replica has another key: it says how to share one.
    let response = ask(&two, &query).await;
    assert_eq!(response.status(), 400);
    let problem: Value = response.json().await.unwrap();
    assert_eq!(problem["code"], "cursor_invalid");
    assert!(problem["hint"].as_str().unwrap().contains("opaque_key_file"), "{problem}");
    for at in (0..cursor.len()).step_by(7) {
        let mut changed = cursor.clone().into_bytes();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        query.insert("cursor", String::from_utf8(changed).unwrap());
        let problem: Value = ask(&one, &query).await.json().await.unwrap();
        assert_eq!(problem["code"], "cursor_invalid", "{at}");
    }
    one.stop().await;
    two.stop().await;
}

/// A cursor of a replica that is ahead: another one waits, and says so if that is in vain.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_is_behind_waits() {
    let mut bucket = Bucket::filled(1, 30).await;
    let key = bucket.dir.path().join("cursor.key");
    #[expect(clippy::disallowed_methods, reason = "a test's own file needs no durability")]
    std::fs::write(&key, [7; 32]).unwrap();
    let ahead = bucket.replica_with(|config| config.opaque_key_file = Some(key.clone())).await;
    let dir = bucket.dir.path().join("behind");
    let change = |config: &mut crate::Config| {
        (config.dir, config.opaque_key_file) = (dir.clone(), Some(key.clone()));
        (config.poll_min_ms, config.poll_max_ms, config.hinted_poll_ms) = (59_000, 60_000, 60_000);
    };
    let behind = bucket.replica_with(change).await;
    behind.wait(&bucket.token()).await;
    let more = (30..60).map(|seq| crate::tests::kit::event(0, seq));
    bucket.ship(0, more.collect()).await;
    ahead.wait(&bucket.token()).await;
    let mut query = BTreeMap::from([("limit", "7".to_owned()), ("wait_ms", "30".to_owned())]);
    let first = page(&ahead, &query).await;
    query.insert("cursor", first["next_cursor"].as_str().unwrap().to_owned());
    let response = ask(&behind, &query).await;
    assert_eq!(response.status(), StatusCode::PRECONDITION_FAILED);
    assert_eq!(response.headers()["retry-after"], "1");
    assert_eq!(response.json::<Value>().await.unwrap()["code"], "not_yet_replicated");
    // After a restart it reads the log at once.
    behind.stop().await;
    let behind = bucket.replica_with(change).await;
    query.insert("wait_ms", "30000".to_owned());
    assert_eq!(page(&behind, &query).await["events"], page(&ahead, &query).await["events"]);
    ahead.stop().await;
    behind.stop().await;
}

#[tokio::test]
async fn pages_have_tags_and_are_queries() {
    let bucket = Bucket::filled(1, 30).await;
    let replica = bucket.replica().await;
    let url = replica.url("/v1/events?limit=5&tenant=acme");
    let get = |tag: Option<String>, url: String| {
        let request = replica
            .client
            .get(url)
            .header("sealcast-query-id", uuid::Uuid::from_u128(5).to_string());
        tag.iter().fold(request, |request, tag| request.header("if-none-match", tag)).send()
    };
    let response = get(None, url.clone()).await.unwrap();
    let tag = response.headers()["etag"].to_str().unwrap().to_owned();
    for name in ["sealcast-snapshot", "sealcast-lag-ms", "sealcast-vector", "cache-control"] {
        assert!(response.headers().contains_key(name), "{name}");
    }
    assert_eq!(response.headers()["sealcast-complete"], "true");
    let held = get(Some(tag.clone()), url.clone()).await.unwrap();
    assert_eq!(held.status(), StatusCode::NOT_MODIFIED);
    assert_eq!(held.headers()["etag"].to_str().unwrap(), tag);
    let other = get(Some(tag), replica.url("/v1/events?limit=6&tenant=acme")).await.unwrap();
    assert_eq!(other.status(), 200);
    let listed: Value = replica.get("/v1/queries").await.json().await.unwrap();
    let listed = listed["queries"].as_array().unwrap();
    let sql = listed[0]["sql"].as_str().unwrap();
    assert_eq!(
        (sql, &listed[0]["state"]),
        ("GET /v1/events?limit=6&tenant=acme", &json!("finished"))
    );
    replica.stop().await;
}

#[tokio::test]
async fn a_page_is_whole_or_says_what_it_lacks() {
    let bucket = damaged(100).await;
    let replica = bucket.replica_with(|_| {}).await;
    replica.wait_visible(300).await;
    let near = BTreeMap::from([("limit", "50".to_owned())]);
    // The damaged segment is not needed yet.
    assert_eq!(page(&replica, &near).await["complete"], true);
    let all = BTreeMap::from([("limit", "1000".to_owned())]);
    let response = ask(&replica, &all).await;
    assert_eq!(response.status(), 503);
    let problem: Value = response.json().await.unwrap();
    assert_eq!(
        (&problem["code"], &problem["range"]),
        (&json!("segment_unavailable"), &json!([100, 200]))
    );
    let mut partial = all.clone();
    partial.insert("allow_partial", "true".to_owned());
    let response = ask(&replica, &partial).await;
    assert_eq!(response.headers()["sealcast-complete"], "false");
    assert_eq!(response.headers()["sealcast-missing"], "0:[100,200)");
    assert!(!response.headers().contains_key("etag"));
    let page: Value = response.json().await.unwrap();
    assert_eq!((places(&page).len(), &page["complete"]), (200, &json!(false)));
    assert_eq!(page["missing"], json!(["0:[100,200)"]));
    replica.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bounds_hold_for_pages() {
    let bucket = Bucket::filled(1, 3_000).await;
    let change = |config: &mut crate::Config| config.max_result_bytes = Some(4_000);
    let replica = bucket.replica_with(change).await;
    replica.wait(&bucket.token()).await;
    // It ends early, and goes on.
    let mut query = BTreeMap::from([("limit", "1000".to_owned())]);
    let first = page(&replica, &query).await;
    assert!((1..20).contains(&places(&first).len()), "{}", places(&first).len());
    query.insert("cursor", first["next_cursor"].as_str().unwrap().to_owned());
    let second = page(&replica, &query).await;
    assert_eq!(places(&second)[0].1 + 1, places(&first).last().unwrap().1);
    replica.stop().await;
    let change = |config: &mut crate::Config| {
        (config.max_result_bytes, config.max_scan_bytes) = (Some(100), Some(20_000));
    };
    let replica = bucket.replica_with(change).await;
    // One event alone, and rows that have to be looked at.
    for (query, code, setting) in [
        ("limit=1", "result_too_large", "max_result_bytes"),
        ("q=nowhere", "scan_too_large", "max_scan_bytes"),
    ] {
        let (status, problem) =
            refused(&replica, &format!("/v1/events?{query}&min={}&wait_ms=30000", bucket.token()))
                .await;
        assert_eq!((status, &problem["code"]), (413, &json!(code)), "{problem}");
        assert_eq!(problem["setting"], setting);
    }
    for _ in 0..2_000 {
        if replica.handle.node.threads.metrics().num_alive_tasks() == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(replica.handle.node.threads.metrics().num_alive_tasks(), 0);
    replica.stop().await;
}
