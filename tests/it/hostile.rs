//! Clients that hold on to connections and send next to nothing: others are served, memory stays.

use std::time::Duration;

use sealcast_tests::{Cluster, REPLICA, Roles, SHIPPER, WRITER, open_files};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

const IDLE: usize = 1_000;
const SLOW: usize = 100;
/// A server gives a quarter of its files to connections.
const OPEN_FILES: u64 = 4 * (IDLE + SLOW) as u64 + 400;
/// What 1,200 connections may cost a process: about 30 KiB each, and noise.
const MEMORY_MORE_MAX: u64 = 64 * 1024 * 1024;

/// Half a request line, half the headers, or a body that never comes.
const BEGINNINGS: [&str; 3] = [
    "GET /v1/st",
    "POST /v1/events HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nx-slow: ",
    "POST /v1/sql HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 900\r\n\r\n{",
];

async fn opened(cluster: &Cluster, role: usize) -> TcpStream {
    let address = cluster.url(role).trim_start_matches("http://").to_owned();
    TcpStream::connect(address).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_idle_and_slow_clients_cost_little_and_delay_nobody() {
    if !open_files("a_thousand_idle_and_slow_clients_cost_little_and_delay_nobody", OPEN_FILES) {
        return;
    }
    let mut cluster = Cluster::start(Roles::Apart).await;
    let events = (0..100).map(|i| format!(r#"{{"tenant":"t","action":"a","message":"{i}"}}"#));
    let events = events.collect::<Vec<_>>().join("\n");
    assert_eq!(cluster.post(events.clone()).await.status(), 200);
    let token = cluster.flush().await;
    assert_eq!(cluster.count(Some(&token)).await, 100);
    for role in [WRITER, SHIPPER, REPLICA] {
        let before = cluster.process(role).memory();
        let mut held = Vec::new();
        for _ in 0..IDLE {
            held.push(opened(&cluster, role).await);
        }
        for begin in BEGINNINGS.iter().cycle().take(SLOW) {
            let mut slow = opened(&cluster, role).await;
            slow.write_all(begin.as_bytes()).await.unwrap();
            held.push(slow);
        }
        // Others are served at once, on new connections too.
        let others = async {
            for _ in 0..20 {
                let live = reqwest::get(format!("{}/livez", cluster.url(role))).await.unwrap();
                assert_eq!(live.status(), 200);
            }
            assert_eq!(cluster.post(events.clone()).await.status(), 200);
            let token = cluster.flush().await;
            cluster.count(Some(&token)).await
        };
        let count = tokio::time::timeout(Duration::from_secs(10), others).await.unwrap();
        assert_eq!(count, 200 + 100 * role as u64);
        let after = cluster.process(role).memory();
        let more = after.saturating_sub(before);
        println!("role {role}: {} connections, {} KiB more", held.len(), more / 1024);
        assert!(more < MEMORY_MORE_MAX, "role {role}: {before} → {after} bytes");
    }
}
