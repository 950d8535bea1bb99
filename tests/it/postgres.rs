//! Programs that people have, over PostgreSQL's protocol: they see the rows that HTTP gives.

use std::path::PathBuf;

use sealcast_tests::{Cluster, REPLICA, Roles, WRITER, free_port, python, run_with, skip};
use serde_json::json;

use super::access::Tokens;
use super::flight::{events, node, script};

/// Roles apart, the replica at a port of this protocol too, filled.
async fn cluster(port: u16, more: &[(&str, &str)], token: Option<&str>) -> Cluster {
    let address = format!("127.0.0.1:{port}");
    let env: Vec<(&str, &str)> = [("SEALCAST_REPLICA_POSTGRES", address.as_str())]
        .into_iter()
        .chain(more.iter().copied())
        .collect();
    let cluster = Cluster::start_with(Roles::Apart, &env).await;
    let http = reqwest::Client::new();
    let send = async |role: usize, path: &str, body: String| {
        let request = http.post(format!("{}{path}", cluster.url(role))).body(body);
        let request = request.header("content-type", "application/x-ndjson");
        let request = match token {
            Some(token) => request.bearer_auth(token),
            None => request,
        };
        let answer = request.send().await.unwrap();
        assert!(answer.status().is_success(), "{path}: {}", answer.status());
        answer.json::<serde_json::Value>().await.unwrap()
    };
    send(WRITER, "/v1/events", events()).await;
    let flushed = send(WRITER, "/v1/admin/flush?wait=shipped", String::new()).await;
    let held = http.post(format!("{}/v1/sql", cluster.url(REPLICA)));
    let held = match token {
        Some(token) => held.bearer_auth(token),
        None => held,
    };
    let ask = json!({ "sql": "select 1", "min": flushed["token"], "wait_ms": 30_000 });
    assert_eq!(held.json(&ask).send().await.unwrap().status(), 200);
    cluster
}

/// Runs the clients, each of which counts `all` events and `own` ones of acme.
async fn clients(test: &str, port: u16, (all, own): (u64, u64), token: Option<&str>) {
    let (port, all, own) = (port.to_string(), all.to_string(), own.to_string());
    let env = [
        ("SEALCAST_PG_HOST", "127.0.0.1"),
        ("SEALCAST_PG_PORT", &port),
        ("SEALCAST_PG_COUNT", &all),
        ("SEALCAST_PG_TOKEN", token.unwrap_or_default()),
    ];
    node(test, "postgres.mjs", &[], &env).await;
    let Some(python) = python(test) else { return };
    let args = ["127.0.0.1", &port, &all, "acme", &own];
    let args: Vec<&str> = args.into_iter().chain(token).collect();
    let said = script(&python, "postgres.py", &args, &[]).await;
    for line in said.lines().filter_map(|line| line.strip_prefix("skipped: ")) {
        skip(test, line);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn real_clients_see_what_http_gives() {
    let port = free_port();
    let cluster = cluster(port, &[], None).await;
    let count = cluster.count(None).await;
    assert_eq!(count, 900);
    clients("real_clients_see_what_http_gives", port, (count, 300), None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn real_clients_log_in_and_see_their_tenant() {
    let tokens = Tokens::new();
    let limited = tokens.create(&["query"], &["--tenant", "acme"]).await;
    let everything = tokens.create(&["query", "ingest", "admin"], &["--all-tenants"]).await;
    tokens.peer().await;
    let (file, peer) = (tokens.path("tokens.toml"), tokens.path("peer.token"));
    let env = [("SEALCAST_TOKENS", file.as_str()), ("SEALCAST_PEER_TOKEN_FILE", peer.as_str())];
    let port = free_port();
    let _cluster = cluster(port, &env, Some(&everything)).await;
    let test = "real_clients_log_in_and_see_their_tenant";
    clients(test, port, (300, 300), Some(&limited)).await;
}

/// `psql`, where it is installed.
pub(super) fn psql(test: &str) -> Option<PathBuf> {
    let found = ["/usr/bin/psql", "/usr/local/bin/psql", "/opt/homebrew/bin/psql"];
    let found = found.into_iter().map(PathBuf::from).find(|path| path.exists());
    if found.is_none() {
        skip(test, "psql is not installed (on Debian: apt install postgresql-client)");
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn psql_describes_pages_and_copies() {
    let Some(psql) = psql("psql_describes_pages_and_copies") else { return };
    let port = free_port();
    let cluster = cluster(port, &[], None).await;
    let url = format!("postgres://me@127.0.0.1:{port}/sealcast");
    let file = cluster.path("copied.csv").display().to_string();
    let copy = format!(
        "\\copy (select tenant, message from events order by _shard, _seq) to '{file}' csv header"
    );
    let ask = async |commands: &[&str]| {
        let commands = commands.iter().flat_map(|command| ["-c", command]);
        let args: Vec<&str> =
            ["-X", "-A", "-t", "-v", "ON_ERROR_STOP=1", &url].into_iter().chain(commands).collect();
        let shown = run_with(&psql, &args, &[("PGCONNECT_TIMEOUT", "20")]).await;
        let said = String::from_utf8_lossy(&shown.stdout).into_owned();
        let errors = String::from_utf8_lossy(&shown.stderr).into_owned();
        (shown.status.success(), said, errors)
    };
    for (command, expected) in [
        ("select count(*) from events where tenant = 'acme'", "300"),
        ("\\d", "public|events|table|sealcast"),
        ("\\dt", "public|events|table|sealcast"),
        ("\\dt sealcast.*", "sealcast|segments|table|sealcast"),
        ("\\dn", "public|sealcast"),
        ("\\l", "sealcast|sealcast|UTF8"),
        ("\\du", "sealcast|"),
        ("\\d events", "time|timestamp with time zone||not null|"),
        ("\\d+ events", "owner of the event"),
        ("\\conninfo", "You are connected"),
        ("show transaction_read_only", "on"),
        (copy.as_str(), "COPY 900"),
    ] {
        let (good, said, errors) = ask(&[command]).await;
        assert!(good && said.contains(expected), "{command}: {said}{errors}");
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap().lines().count(), 901);
    let (good, said, errors) = ask(&["\\set FETCH_COUNT 100", "select message from events"]).await;
    assert!(good && said.lines().count() == 900, "{errors}");
    let (good, _, errors) = ask(&["delete from events"]).await;
    assert!(!good && errors.contains("not allowed"), "{errors}");
}
