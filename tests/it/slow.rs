//! Clients that read slowly, leave, or cancel, over every protocol: what the replica holds for them is bounded, and
//! nothing of it is left when they are gone, by its own metrics.

use std::path::Path;
use std::process::Stdio;

use sealcast_tests::{Cluster, REPLICA, Roles, free_port, python_with, until};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

/// Rows without end, and a table of theirs in memory as long as they are made. Small rows: a batch in flight, of which each
/// task has some and the pool counts none, is below 1 MB.
const SQL: &str = "select a.value + b.value as n, repeat('x', 100) as t \
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

/// Cancels the query that runs.
async fn cancel(cluster: &Cluster) {
    let list = cluster.get(REPLICA, "/v1/queries").await;
    let all = list["queries"].as_array().unwrap();
    let running: Vec<_> = all.iter().filter(|query| query["state"] == "running").collect();
    let [query] = running[..] else { panic!("{list}") };
    let url =
        format!("{}/v1/queries/{}", cluster.url(REPLICA), query["query_id"].as_str().unwrap());
    assert_eq!(reqwest::Client::new().delete(url).send().await.unwrap().status(), 202);
}

/// A cluster, and the memory of its replica once it has answered something.
async fn cluster(env: &[(&str, &str)]) -> (Cluster, u64) {
    let mut cluster = Cluster::start_with(Roles::Apart, env).await;
    cluster.rows("select count(*), repeat('x', 10) from generate_series(1, 100)", None).await;
    let resting = cluster.process(REPLICA).memory();
    (cluster, resting)
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_and_gone_clients_of_http_hold_nothing() {
    let (mut cluster, resting) = cluster(&[]).await;
    let url = format!("{}/v1/sql", cluster.url(REPLICA));
    for format in ["json", "ndjson", "csv", "arrow"] {
        for hangs_up in [true, false] {
            let before = idle(&cluster).await;
            let request =
                reqwest::Client::new().post(&url).json(&json!({ "sql": SQL, "format": format }));
            let mut answer = request.send().await.unwrap();
            assert!(answer.status() == 200 && answer.chunk().await.unwrap().is_some());
            stands_still(&mut cluster, &before, resting).await;
            if hangs_up {
                drop(answer);
                idle(&cluster).await;
            } else {
                cancel(&cluster).await;
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
    async fn start(python: &Path, client: &str, address: &str) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("it/slow.py");
        let mut command = Command::new(python);
        command.arg(script).args([client, address, SQL]).kill_on_drop(true);
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
async fn slow_and_gone_clients_of_flight_and_postgres_hold_nothing() {
    let test = "slow_and_gone_clients_of_flight_and_postgres_hold_nothing";
    let modules = ["adbc_driver_flightsql", "pyarrow", "psycopg"];
    let Some(python) = python_with(test, &modules) else { return };
    let postgres = format!("127.0.0.1:{}", free_port());
    let (mut cluster, resting) = cluster(&[("SEALCAST_REPLICA_POSTGRES", &postgres)]).await;
    let flight = cluster.url(REPLICA).replace("http://", "");
    for (client, address) in [("adbc", &flight), ("pyarrow", &flight), ("psycopg", &postgres)] {
        for ending in ["hangs up", "cancels", "is cancelled"] {
            let before = idle(&cluster).await;
            let mut slow = Slow::start(&python, client, address).await;
            stands_still(&mut cluster, &before, resting).await;
            match ending {
                "hangs up" => slow.child.kill().await.unwrap(),
                "cancels" => slow.tell("cancel\n").await,
                _ => cancel(&cluster).await,
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
