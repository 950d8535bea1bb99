//! Bounds of memory, bytes, time and turns: every refusal names its setting, and what has ended,
//! one way or another, holds nothing any more.

use std::time::Duration;

use serde_json::{Value, json};
use uuid::Uuid;

use super::kit::{Bucket, Replica};

const ENDLESS: &str = "select sum(value) from generate_series(1, 1000000000000)";
const ENDLESS_ROWS: &str = "select value from generate_series(1, 1000000000000)";
/// Holds memory, and goes on taking more.
const GREEDY: &str = "select count(*) from (select value, count(*) from \
    generate_series(1, 1000000000000) group by value)";

/// What the node's queries hold: bytes, spilled bytes, tasks.
fn held(replica: &Replica) -> (usize, u64, usize) {
    let node = &replica.handle.node;
    let (engine, tasks) = (&node.engine, node.threads.metrics().num_alive_tasks());
    (engine.reserved_bytes(), engine.spilled_bytes(), tasks)
}

async fn until_idle(replica: &Replica) {
    for _ in 0..2_000 {
        if held(replica) == (0, 0, 0) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("queries have ended and still hold {:?}", held(replica));
}

async fn until_busy(replica: &Replica) {
    for _ in 0..2_000 {
        if held(replica).2 > 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("no query runs");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_bound_names_its_setting() {
    let bucket = Bucket::filled(2, 2_000).await;
    let replica = bucket
        .replica_with(|config| {
            config.query_memory_bytes = 4 * 1024 * 1024;
            config.memory_bytes = 64 * 1024 * 1024;
            config.max_result_bytes = Some(20_000);
            config.max_scan_bytes = Some(400_000);
            config.max_rows = Some(3_000);
            config.timeout_ms = 20_000;
        })
        .await;
    replica.wait(&bucket.token()).await;
    let all = "select event_id, tenant, actor_id, targets, attributes, action from events";
    let cases = [
        (
            json!({ "sql": "select value from generate_series(1, 4000)" }),
            413,
            "too_many_rows",
            "max_rows",
        ),
        (
            json!({ "sql": "select 'x' from generate_series(1, 9)", "max_rows": 5 }),
            413,
            "too_many_rows",
            "max_rows",
        ),
        (
            json!({ "sql": "select repeat('x', 30000)" }),
            413,
            "result_too_large",
            "max_result_bytes",
        ),
        (json!({ "sql": format!("{all} order by _seq") }), 413, "scan_too_large", "max_scan_bytes"),
        (json!({ "sql": ENDLESS, "timeout_ms": 50 }), 408, "query_timeout", "timeout_ms"),
        (
            json!({ "sql": "select cardinality(array_agg(value)) from generate_series(1, 100000000)" }),
            503,
            "memory_exhausted",
            "query_memory_bytes",
        ),
    ];
    for (body, status, code, setting) in cases {
        let (found, problem) = replica.refusal(&body).await;
        assert_eq!((found, problem["code"].as_str()), (status, Some(code)), "{body}: {problem}");
        assert_eq!(problem["setting"], setting, "{problem}");
        assert!(problem["hint"].as_str().unwrap().contains(setting), "{problem}");
    }
    // A body that grows over its bound after the first rows is a broken one.
    let long = json!({ "sql": "select value, repeat('x', 100) from generate_series(1, 2900)" });
    let response = replica.post(&long).await;
    assert!(response.status() == 413 || response.bytes().await.is_err());
    until_idle(&replica).await;
    replica.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn large_sorts_spill_and_leave_no_file() {
    let bucket = Bucket::filled(1, 3).await;
    let replica = bucket
        .replica_with(|config| {
            (config.query_memory_bytes, config.memory_bytes) = (24 << 20, 64 << 20);
        })
        .await;
    let sorted = "select value % 7 as a, repeat('x', 100) as t, value from \
        generate_series(1, 200000) order by a, value desc";
    let last = format!("select max(value), count(*) from ({sorted} limit 199999)");
    assert_eq!(replica.rows(&last).await, json!([[200_000, 199_999]]));
    until_idle(&replica).await;
    let spill = bucket.dir.path().join("replica/spill");
    let left = std::fs::read_dir(spill).unwrap().flatten();
    let files = left.flat_map(|folder| std::fs::read_dir(folder.path()).into_iter().flatten());
    assert_eq!(files.count(), 0);
    replica.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ends_holds_nothing() {
    // Counting begins with the first look.
    let _nothing_yet = sealcast_common::serve::metrics_text();
    let bucket = Bucket::filled(1, 30).await;
    let replica = bucket.replica().await;
    for (i, sql) in [ENDLESS, ENDLESS_ROWS, GREEDY].into_iter().enumerate() {
        let ask = |id: Uuid, timeout_ms: u64| {
            let request = replica.client.post(replica.url("/v1/sql"));
            let request = request.header("sealcast-query-id", id.to_string());
            request.json(&json!({ "sql": sql, "timeout_ms": timeout_ms })).send()
        };
        // Timed out.
        let _response = ask(named(i, 1), 150).await.map(drop);
        until_idle(&replica).await;
        // Abandoned: the client went away.
        let running = tokio::spawn(ask(named(i, 2), 60_000));
        until_busy(&replica).await;
        running.abort();
        // It may have got its head already: an answer that somebody holds is read later.
        drop(running.await);
        until_idle(&replica).await;
        // Cancelled.
        let id = named(i, 3);
        let running = tokio::spawn(ask(id, 60_000));
        until_busy(&replica).await;
        let url = replica.url(&format!("/v1/queries/{id}"));
        while replica.client.delete(&url).send().await.unwrap().status() == 404 {}
        let _answer = running.await.unwrap().map(drop);
        until_idle(&replica).await;
    }
    let text = replica.get("/metrics").await.text().await.unwrap();
    for name in [
        "sealcast_replica_queries_total{state=\"cancelled\"}",
        "sealcast_replica_query_refusals_total{code=\"query_timeout\"}",
        "sealcast_replica_query_memory_bytes",
        "sealcast_replica_query_tasks",
        "sealcast_replica_queries_running 0",
    ] {
        assert!(text.contains(name), "{name} is missing in\n{text}");
    }
    replica.stop().await;
}

/// A name for the `n`-th try of the `i`-th statement.
fn named(i: usize, n: u128) -> Uuid {
    Uuid::from_u128((i as u128 + 1) * 100 + n)
}

#[tokio::test(flavor = "multi_thread")]
async fn turns_are_given_per_token_and_on_the_node() {
    let bucket = Bucket::filled(1, 30).await;
    let cases = [
        ((1, 4, 8, 0), "token_queued"),
        ((1, 4, 8, 8), "token_concurrent"),
        ((8, 8, 1, 8), "max_concurrent"),
        ((8, 8, 1, 0), "max_queued"),
    ];
    for ((token, queued, node, more), setting) in cases {
        let replica = bucket
            .replica_with(|config| {
                (config.token_concurrent, config.max_concurrent) = (token, node);
                match setting {
                    "token_queued" => config.token_queued = 0,
                    "max_queued" => config.max_queued = 0,
                    _ => (config.token_queued, config.max_queued) = (queued, more),
                }
                config.queue_ms = 80;
            })
            .await;
        let id = Uuid::from_u128(7);
        let request = replica.client.post(replica.url("/v1/sql"));
        let request = request.header("sealcast-query-id", id.to_string());
        let running = tokio::spawn(request.json(&json!({ "sql": ENDLESS })).send());
        until_busy(&replica).await;
        let refused = loop {
            let response = replica.post(&json!({ "sql": "select 1" })).await;
            if response.status() == 429 {
                break response;
            }
        };
        assert_eq!(refused.headers()["retry-after"], "1");
        let problem: Value = refused.json().await.unwrap();
        assert_eq!(
            (&problem["code"], &problem["setting"]),
            (&json!("too_many_queries"), &json!(setting))
        );
        running.abort();
        until_idle(&replica).await;
        assert_eq!(replica.rows("select 1").await, json!([[1]]));
        replica.stop().await;
    }
}
