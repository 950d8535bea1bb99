//! Programs that people have, over Arrow Flight SQL: they see the rows that HTTP gives.

use std::path::Path;

use sealcast_tests::{Cluster, REPLICA, Roles, WRITER, node_modules, python, run_with, skip};
use serde_json::json;

use super::access::Tokens;

/// 900 events, a third of them acme's.
pub(super) fn events() -> String {
    let line = |i: usize| {
        let tenant = if i.is_multiple_of(3) { "acme" } else { "globex" };
        let event = json!({
            "tenant": tenant,
            "action": "file.read",
            "message": i.to_string(),
            "attributes": { "n": i },
        });
        format!("{event}\n")
    };
    (0..900).map(line).collect()
}

/// What one of the scripts beside this file prints; it must succeed.
pub(super) async fn script(
    program: &Path,
    name: &str,
    args: &[&str],
    env: &[(&str, &str)],
) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("it").join(name).display().to_string();
    let shown = run_with(program, &[&[script.as_str()], args].concat(), env).await;
    let said = String::from_utf8_lossy(&shown.stdout).into_owned();
    let errors = String::from_utf8_lossy(&shown.stderr);
    assert!(shown.status.success(), "{name}: {}\n{said}\n{errors}", shown.status);
    said
}

/// Runs a script of Node's, where its packages are.
pub(super) async fn node(test: &str, name: &str, args: &[&str], env: &[(&str, &str)]) {
    let Some(modules) = node_modules(test) else { return };
    let modules = modules.display().to_string();
    let env = [&[("SEALCAST_NODE_MODULES", modules.as_str())], env].concat();
    script(Path::new("node"), name, args, &env).await;
}

/// Runs the clients, each of which counts `all` events and `own` ones of acme.
async fn clients(test: &str, cluster: &Cluster, all: u64, own: u64, token: Option<&str>) {
    let (url, all, own) = (cluster.url(REPLICA), all.to_string(), own.to_string());
    node(test, "influxdb3.mjs", &[&url, &all, "acme", &own, token.unwrap_or("word")], &[]).await;
    let Some(python) = python(test) else { return };
    let args = [url.trim_start_matches("http://"), &all, "acme", &own];
    let args: Vec<&str> = args.into_iter().chain(token).collect();
    let said = script(&python, "flight.py", &args, &[]).await;
    for line in said.lines().filter_map(|line| line.strip_prefix("skipped: ")) {
        skip(test, line);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn real_clients_see_what_http_gives() {
    let cluster = Cluster::start(Roles::Dev).await;
    assert!(cluster.post(events()).await.status().is_success());
    let token = cluster.flush().await;
    let all = cluster.count(Some(&token)).await;
    let own = "select count(*) from events where tenant = 'acme'";
    let own = cluster.rows(own, Some(&token)).await[0][0].as_u64().unwrap();
    assert_eq!((all, own), (900, 300));
    clients("real_clients_see_what_http_gives", &cluster, all, own, None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn real_clients_log_in_and_see_their_tenant() {
    let tokens = Tokens::new();
    let limited = tokens.create(&["query"], &["--tenant", "acme"]).await;
    let everything = tokens.create(&["query", "ingest", "admin"], &["--all-tenants"]).await;
    tokens.peer().await;
    let (file, peer) = (tokens.path("tokens.toml"), tokens.path("peer.token"));
    let env = [("SEALCAST_TOKENS", file.as_str()), ("SEALCAST_PEER_TOKEN_FILE", peer.as_str())];
    let cluster = Cluster::start_with(Roles::Apart, &env).await;
    let http = reqwest::Client::new();
    let send = async |role: usize, path: &str, body: String| {
        let request = http.post(format!("{}{path}", cluster.url(role)));
        let request = request.bearer_auth(&everything).body(body);
        let answer = request.header("content-type", "application/x-ndjson").send().await.unwrap();
        assert!(answer.status().is_success(), "{path}: {}", answer.status());
        answer.json::<serde_json::Value>().await.unwrap()
    };
    send(WRITER, "/v1/events", events()).await;
    let flushed = send(WRITER, "/v1/admin/flush?wait=shipped", String::new()).await;
    // The clients' first rows are there before they ask.
    let held = http.post(format!("{}/v1/sql", cluster.url(REPLICA))).bearer_auth(&limited);
    let ask = json!({ "sql": "select 1", "min": flushed["token"], "wait_ms": 30_000 });
    assert_eq!(held.json(&ask).send().await.unwrap().status(), 200);
    clients("real_clients_log_in_and_see_their_tenant", &cluster, 300, 300, Some(&limited)).await;
}
