//! Clients that read slowly, leave, or cancel, over HTTP and Flight: what the replica holds for them is bounded, and
//! nothing of it is left when they are gone, by its own metrics.

use std::path::Path;
use std::process::Stdio;

use sealcast_tests::{Cluster, REPLICA, Roles, python, until};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use uuid::Uuid;

/// Rows without end, and a table of theirs in memory as long as they are made.
const SQL: &str = "select a.value + b.value as n, repeat('x', 1000) as t \
    from generate_series(1, 1000000) a, generate_series(1, 1000000) b";
/// More than what waits for a slow reader: in the replica, in buffers of the system, in the client.
const WAITING_MAX: u64 = 64 << 20;

/// What the replica holds for queries, and how much it has given.
#[derive(Debug, PartialEq, Eq)]
struct Held {
    running: u64,
    tasks: u64,
    memory: u64,
    given: u64,
}

async fn held(cluster: &Cluster) -> Held {
    let text = reqwest::get(format!("{}/metrics", cluster.url(REPLICA))).await.unwrap();
    let text = text.text().await.unwrap();
    let value = |name: &str| {
        let name = format!("sealcast_replica_{name} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&name));
        line.map_or(0, |number| number.parse().unwrap())
    };
    Held {
        running: value("queries_running"),
        tasks: value("query_tasks"),
        memory: value("query_memory_bytes"),
        given: value("query_result_bytes_total"),
    }
}

/// Waits until a query stands still because nobody reads; what it holds is bounded then.
async fn stands_still(cluster: &mut Cluster, before: &Held, resting: u64) {
    let seen = std::sync::Mutex::new((0, 0));
    let stalled = until("a query waits for its reader", || async {
        let now = held(cluster).await;
        let mut seen = seen.lock().unwrap();
        *seen = if now.given == seen.0 { (now.given, seen.1 + 1) } else { (now.given, 0) };
        (now.running == 1 && seen.1 >= 10).then_some(now)
    })
    .await;
    assert!(stalled.memory > 0 && stalled.memory < WAITING_MAX, "{stalled:?}");
    assert!(stalled.tasks > 0 && stalled.given - before.given < WAITING_MAX, "{stalled:?}");
    let memory = cluster.process(REPLICA).memory();
    assert!(memory < resting + 2 * WAITING_MAX, "{memory} bytes, {resting} before any query");
}

async fn idle(cluster: &Cluster) -> Held {
    until("nothing is held", || async {
        let now = held(cluster).await;
        ((now.running, now.tasks, now.memory) == (0, 0, 0)).then_some(now)
    })
    .await
}

async fn cancel(cluster: &Cluster, id: Uuid) {
    let url = format!("{}/v1/queries/{id}", cluster.url(REPLICA));
    assert_eq!(reqwest::Client::new().delete(url).send().await.unwrap().status(), 202);
}

/// A cluster, and the memory of its replica once it has answered something.
async fn cluster() -> (Cluster, u64) {
    let mut cluster = Cluster::start(Roles::Apart).await;
    cluster.rows("select count(*), repeat('x', 10) from generate_series(1, 100)", None).await;
    let resting = cluster.process(REPLICA).memory();
    (cluster, resting)
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_and_gone_clients_of_http_hold_nothing() {
    let (mut cluster, resting) = cluster().await;
    let url = format!("{}/v1/sql", cluster.url(REPLICA));
    for format in ["json", "ndjson", "csv", "arrow"] {
        for hangs_up in [true, false] {
            let (before, id) = (idle(&cluster).await, Uuid::new_v4());
            let request =
                reqwest::Client::new().post(&url).json(&json!({ "sql": SQL, "format": format }));
            let sent = request.header("sealcast-query-id", id.to_string()).send();
            let mut answer = sent.await.unwrap();
            assert!(answer.status() == 200 && answer.chunk().await.unwrap().is_some());
            stands_still(&mut cluster, &before, resting).await;
            if hangs_up {
                drop(answer);
                idle(&cluster).await;
            } else {
                cancel(&cluster, id).await;
                idle(&cluster).await;
                // What is cut off does not end well.
                while let Ok(chunk) = answer.chunk().await {
                    assert!(chunk.is_some(), "{format}: an end as if it were the whole");
                }
            }
        }
    }
    cluster.terminate().await;
}

/// `slow.py`, which has read its first batch.
struct Slow {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Slow {
    async fn start(python: &Path, client: &str, cluster: &Cluster, id: Uuid) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("it/slow.py");
        let (url, id) = (cluster.url(REPLICA), id.to_string());
        let address = url.trim_start_matches("http://");
        let mut command = Command::new(python);
        command.arg(script).args([client, address, SQL, &id]).kill_on_drop(true);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut slow = Slow { child, lines };
        assert_eq!(slow.said().await, "begun", "{client}");
        slow
    }

    async fn said(&mut self) -> String {
        self.lines.next_line().await.unwrap().unwrap_or_default()
    }

    async fn tell(&mut self, line: &str) {
        self.child.stdin.as_mut().unwrap().write_all(line.as_bytes()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_and_gone_clients_of_flight_hold_nothing() {
    let test = "slow_and_gone_clients_of_flight_hold_nothing";
    let Some(python) = python(test) else { return };
    let (mut cluster, resting) = cluster().await;
    for client in ["adbc", "pyarrow"] {
        for ending in ["hangs up", "cancels", "is cancelled"] {
            let (before, id) = (idle(&cluster).await, Uuid::new_v4());
            let mut slow = Slow::start(&python, client, &cluster, id).await;
            stands_still(&mut cluster, &before, resting).await;
            match ending {
                "hangs up" => slow.child.kill().await.unwrap(),
                "cancels" => slow.tell("cancel\n").await,
                _ => cancel(&cluster, id).await,
            }
            idle(&cluster).await;
            if ending == "is cancelled" {
                slow.tell("read\n").await;
                let said = slow.said().await;
                assert!(said.contains("query was cancelled"), "{client}: {said}");
            }
        }
    }
    cluster.terminate().await;
}
