//! A replica with room for a fraction of its data, killed while queries make it fetch and evict.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sealcast_tests::{
    Checker, Cluster, REPLICA, Roles, WRITER, below, deliver, number, random, until,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// Rounds of events, each a segment in both shards.
const ROUNDS: u64 = 6;
const EVENTS: u64 = 1_000;
/// Less than half of what the segments take.
const CACHE_BYTES: &str = "400000";
/// Needs every segment, and the rows of each.
const SQL: &str = "select count(distinct message) from events where message like 'event%'";

/// A client that asks for everything and accepts the right answer or none.
async fn ask(url: String, expected: u64, answers: Arc<AtomicUsize>) {
    let http = reqwest::Client::new();
    let request = http.post(url).json(&json!({ "sql": SQL }));
    loop {
        let asked = request.try_clone().unwrap().send().await;
        let Ok(answer) = asked else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        let status = answer.status().as_u16();
        // After a restart it may know less for a moment, and then says so.
        let is_unsure = answer.headers().get("sealcast-lag-ms").is_some_and(|lag| lag == "unknown");
        let Ok(document) = answer.json::<Value>().await else { continue };
        if status == 200 && !(is_unsure && is_earlier(&document, expected)) {
            assert_eq!(document["rows"][0][0], expected, "a wrong answer: {document}");
            answers.fetch_add(1, Ordering::SeqCst);
        } else if status != 200 {
            assert!([429, 503].contains(&status), "{status}: {document}");
        }
    }
}

/// The whole answer to an earlier round.
fn is_earlier(document: &Value, expected: u64) -> bool {
    let found = document["rows"][0][0].as_u64();
    found.is_some_and(|found| found < expected && found % EVENTS == 0)
}

/// Segments that this process has evicted.
async fn evicted(cluster: &Cluster) -> Option<f64> {
    let text = reqwest::get(format!("{}/metrics", cluster.url(REPLICA))).await.ok()?;
    let text = text.text().await.ok()?;
    let line = text.lines().find(|l| l.starts_with("sealcast_replica_segments_evicted_total "))?;
    line.split(' ').nth(1)?.parse().ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_9_while_evicting_under_queries_serves_the_right_rows_or_none() {
    let test = "kill_9_while_evicting_under_queries_serves_the_right_rows_or_none";
    let (kills, random) = (number("SEALCAST_KILLS", 5), random(test));
    let env = [("SEALCAST_REPLICA_CACHE_BYTES", CACHE_BYTES)];
    let mut cluster = Cluster::start_with(Roles::Apart, &env).await;
    let (http, mut checker) = (reqwest::Client::new(), Checker::default());
    for round in 0..ROUNDS {
        let batch = checker.batch(round, EVENTS);
        checker.acknowledged(&deliver(&http, &cluster.url(WRITER), &batch).await);
        let token = cluster.flush().await;
        cluster.count(Some(&token)).await;
    }
    let (stop, answers) = (CancellationToken::new(), Arc::new(AtomicUsize::new(0)));
    let url = format!("{}/v1/sql", cluster.url(REPLICA));
    let clients: Vec<_> = (0..3)
        .map(|_| ask(url.clone(), ROUNDS * EVENTS, Arc::clone(&answers)))
        .map(|client| tokio::spawn(stop.clone().run_until_cancelled_owned(client)))
        .collect();
    for _ in 0..kills {
        let before = answers.load(Ordering::SeqCst);
        until("files are evicted and queries answered", || async {
            let busy = evicted(&cluster).await? > 3.0 && answers.load(Ordering::SeqCst) > before;
            busy.then_some(())
        })
        .await;
        tokio::time::sleep(Duration::from_millis(below(&random, 120))).await;
        cluster.kill_role(REPLICA);
        cluster.start_role(REPLICA);
    }
    cluster.ready_role(REPLICA).await;
    stop.cancel();
    for client in clients {
        client.await.unwrap();
    }
    println!("{kills} kills, {} answers", answers.load(Ordering::SeqCst));
    checker.check(&cluster).await;
    let left = cluster.files("replica", ".tmp");
    assert!(left.is_empty(), "{left:?}");
}
