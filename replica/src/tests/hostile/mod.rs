//! Statements and requests that want to hurt: none crashes the node, none is a 500, memory stays
//! bounded, and other clients are served meanwhile.

mod requests;
mod statements;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::json;

use super::kit::{Bucket, Replica};

/// What the process may hold at its peak, kilobytes: everything of the node, and this test.
const PEAK_KIB_MAX: u64 = 2 * 1024 * 1024;

/// A line of `/proc/self/status`, kilobytes.
fn memory_kib(line: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let found = status.lines().find_map(|text| text.strip_prefix(line)).unwrap_or("0");
    found.split_whitespace().find_map(|word| word.parse().ok()).unwrap_or(0)
}

fn peak_is_bounded() {
    let peak = memory_kib("VmHWM:");
    println!("peak {} MiB", peak / 1024);
    assert!(peak < PEAK_KIB_MAX, "peak is {peak} KiB");
}

/// Asks for something small again and again while `work` is done.
async fn beside_others<T>(replica: &Replica, work: impl Future<Output = T>) -> T {
    let (done, served) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let other = {
        let (done, served, client) =
            (Arc::clone(&done), Arc::clone(&served), replica.client.clone());
        let (live, sql) = (replica.url("/livez"), replica.url("/v1/sql?q=select%201"));
        tokio::spawn(async move {
            while !done.load(Ordering::Relaxed) {
                assert_eq!(client.get(&live).send().await.unwrap().status(), 200);
                let response = client.get(&sql).send().await.unwrap();
                // Its turn may be late; it is never a failure of the node.
                assert!([200, 429].contains(&response.status().as_u16()), "{}", response.status());
                served.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
    };
    let result = work.await;
    done.store(true, Ordering::Relaxed);
    other.await.unwrap();
    assert!(served.load(Ordering::Relaxed) > 0);
    result
}

async fn small_node(bucket: &Bucket) -> Replica {
    let replica = bucket
        .replica_with(|config| {
            (config.query_memory_bytes, config.memory_bytes) = (64 << 20, 128 << 20);
            config.spill_bytes = 64 << 20;
            config.max_result_bytes = Some(8 << 20);
        })
        .await;
    replica.wait(&bucket.token()).await;
    replica
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn hostile_statements_hurt_nobody() {
    let bucket = Bucket::filled(2, 3_000).await;
    let replica = small_node(&bucket).await;
    beside_others(&replica, async {
        for (name, sql) in statements::bombs() {
            let response =
                replica.post(&json!({ "sql": sql, "format": "ndjson", "timeout_ms": 400 })).await;
            let status = response.status().as_u16();
            // An answer may break off; the node says why it does not begin.
            let body = response.text().await.unwrap_or_default();
            let shown: String = body.chars().take(400).collect();
            let expected = [200, 400, 408, 413, 422, 503];
            assert!(expected.contains(&status), "{name}: {status} {shown}");
        }
    })
    .await;
    for _ in 0..2_000 {
        if replica.handle.node.engine.reserved_bytes() == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(replica.handle.node.engine.reserved_bytes(), 0);
    assert_eq!(replica.rows("select count(*) from events").await, json!([[6_000]]));
    peak_is_bounded();
    replica.stop().await;
}

/// None of them is planned for longer than a moment: this is what bounds the threads.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_shape_is_planned_for_long() {
    let bucket = Bucket::filled(1, 3).await;
    let replica = bucket.replica().await;
    for (name, sql) in statements::shapes() {
        let sql = format!("explain {sql}");
        let body = json!({ "sql": sql, "timeout_ms": 20_000 });
        let asked = replica.post(&body);
        // The watching task answers at the time-out even where planning does not end.
        let response = tokio::time::timeout(Duration::from_secs(25), asked).await;
        let status = response.unwrap().status().as_u16();
        assert!([200, 400, 413, 422].contains(&status), "{name}: {status}");
    }
    replica.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn hostile_requests_hurt_nobody() {
    let bucket = Bucket::filled(1, 300).await;
    let replica = small_node(&bucket).await;
    beside_others(&replica, requests::mutated(&replica)).await;
    assert_eq!(replica.rows("select count(*) from events").await, json!([[300]]));
    peak_is_bounded();
    replica.stop().await;
}
