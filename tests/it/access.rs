//! Locks of running roles: every route against every wrong token, the token commands, `dev`.

use std::collections::BTreeMap;
use std::path::Path;

use reqwest::Method;
use sealcast_tests::{
    Cluster, Process, REPLICA, Roles, SHIPPER, WRITER, free_port, run, run_with, said, said_with,
    sealcast, until,
};
use serde_json::{Value, json};

pub(super) const ROLES: [&str; 3] = ["ingest", "query", "admin"];
pub(super) const PROGRAMS: [&str; 3] = ["sealcast-writer", "sealcast-shipper", "sealcast-replica"];

/// A tokens file that the command makes and edits.
pub(super) struct Tokens {
    dir: tempfile::TempDir,
}

impl Tokens {
    pub(super) fn new() -> Self {
        Tokens { dir: tempfile::tempdir().unwrap() }
    }

    pub(super) fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    /// `sealcast token …`
    async fn command(&self, args: &[&str]) -> String {
        let file = self.path("tokens.toml");
        let args = [&["token", args[0], "--tokens", &file], &args[1..]].concat();
        let (code, text) = said(&args).await;
        assert_eq!(code, Some(0), "{args:?}: {text}");
        text
    }

    pub(super) async fn create(&self, roles: &[&str], more: &[&str]) -> String {
        let roles: Vec<&str> = roles.iter().flat_map(|role| ["--role", *role]).collect();
        let said = self.command(&[&["create", "--name", "it"], &roles[..], more].concat()).await;
        let token = said.lines().last().unwrap().to_owned();
        // Once; the secret itself may hold these letters.
        assert!(token.starts_with("sc_") && said.matches(&token).count() == 1, "{said}");
        token
    }

    /// One token for the roles among themselves, in a file.
    pub(super) async fn peer(&self) -> String {
        let token = self.create(&["admin"], &["--tenant", "of-nobody"]).await;
        write(&self.dir.path().join("peer.token"), &format!("{token}\n"));
        token
    }
}

pub(super) fn write(path: &Path, text: &str) {
    #[expect(clippy::disallowed_methods, reason = "a test's own file needs no durability")]
    std::fs::write(path, text).unwrap();
}

fn id_of(token: &str) -> &str {
    token.split('_').nth(1).unwrap()
}

pub(super) struct Client {
    pub(super) http: reqwest::Client,
}

impl Client {
    pub(super) async fn send(
        &self,
        method: Method,
        url: &str,
        token: Option<&str>,
        body: &str,
    ) -> (u16, String) {
        let mut request = self.http.request(method, url).body(body.to_owned());
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        let answer = request.header("content-type", "application/json").send().await.unwrap();
        let status = answer.status().as_u16();
        // The stream of hints never ends; nobody here is given one.
        (status, answer.text().await.unwrap())
    }

    pub(super) async fn get(&self, url: &str, token: &str) -> (u16, String) {
        self.send(Method::GET, url, Some(token), "").await
    }
}

/// Every operation of a role by what it says of itself: method, path, whether it needs a token.
fn operations(document: &str) -> Vec<(Method, String, bool)> {
    let document: Value = serde_json::from_str(document).unwrap();
    let mut found = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let method = method.to_uppercase().parse().unwrap();
            found.push((method, path.clone(), operation["security"] != json!([])));
        }
    }
    found
}

/// Which tokens without limits a route is for.
fn meant_for(method: &Method, path: &str) -> &'static [&'static str] {
    match path {
        "/v1/events" if *method == Method::POST => &["ingest"],
        "/v1/events" | "/v1/events/{event_id}" | "/v1/sql" | "/api/v3/query_sql" => &["query"],
        "/v1/queries" | "/v1/queries/{id}" => &["query", "admin"],
        path if path.starts_with("/v1/proofs") || path.starts_with("/log/") => &["query"],
        "/v1/streams/{stream}/events" | "/openapi.json" => &ROLES,
        _ => &["admin"],
    }
}

/// What a request would do if it were let in.
pub(super) fn body_of(path: &str) -> &'static str {
    match path {
        "/v1/events" => r#"{"tenant":"t","action":"a"}"#,
        "/v1/sql" => r#"{"sql":"select 1"}"#,
        "/api/v3/query_sql" => r#"{"q":"select 1"}"#,
        "/v1/proofs" => r#"{"rows":[]}"#,
        _ => "",
    }
}

/// No token, no token at all, tokens that were good once; and those of each role alone.
struct Shown {
    refused: BTreeMap<&'static str, (Option<String>, &'static str)>,
    single: BTreeMap<&'static str, String>,
    all: String,
}

async fn shown(tokens: &Tokens) -> Shown {
    let mut single = BTreeMap::new();
    for role in ROLES {
        single.insert(role, tokens.create(&[role], &["--all-tenants"]).await);
    }
    let all = tokens.create(&ROLES, &["--all-tenants"]).await;
    let revoked = tokens.create(&ROLES, &["--all-tenants"]).await;
    tokens.command(&["revoke", id_of(&revoked)]).await;
    let expired = tokens.create(&ROLES, &["--all-tenants", "--expires", "1s"]).await;
    let turned =
        format!("{}{}", &all[..all.len() - 2], if all.ends_with("AA") { "BB" } else { "AA" });
    let foreign = Tokens::new().create(&ROLES, &["--all-tenants"]).await;
    let refused = BTreeMap::from([
        ("none", (None, "token_missing")),
        ("empty", (Some(String::new()), "token_invalid")),
        ("another file's", (Some(foreign), "token_invalid")),
        ("a wrong secret", (Some(turned), "token_invalid")),
        ("revoked", (Some(revoked), "token_invalid")),
        ("expired", (Some(expired), "token_expired")),
    ]);
    Shown { refused, single, all }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_refuses_every_wrong_token() {
    let tokens = Tokens::new();
    tokens.peer().await;
    let shown = shown(&tokens).await;
    let (file, peer) = (tokens.path("tokens.toml"), tokens.path("peer.token"));
    let env = [
        ("SEALCAST_TOKENS", &*file),
        ("SEALCAST_PEER_TOKEN_FILE", &*peer),
        ("SEALCAST_LOG", "debug"),
    ];
    let cluster = Cluster::start_with(Roles::Apart, &env).await;
    let client = Client { http: reqwest::Client::new() };
    until("the short token ends", || async {
        let expired = shown.refused["expired"].0.as_deref().unwrap();
        let (status, text) =
            client.get(&format!("{}/openapi.json", cluster.url(WRITER)), expired).await;
        (status == 401 && text.contains("token_expired")).then_some(())
    })
    .await;
    let mut asked = 0;
    for role in [WRITER, SHIPPER, REPLICA] {
        let base = cluster.url(role);
        let (status, document) = client.get(&format!("{base}/openapi.json"), &shown.all).await;
        assert_eq!(status, 200);
        for (method, path, locked) in operations(&document) {
            let url = format!(
                "{base}{}",
                path.replace("{id}", "x").replace("{stream}", "x").replace("{shard}", "0")
            );
            for (what, (token, code)) in &shown.refused {
                let place = format!("{method} {url}: {what}");
                let asking = client.send(method.clone(), &url, token.as_deref(), body_of(&path));
                let (status, text) = asking.await;
                asked += 1;
                if !locked {
                    assert!(status == 200 && !text.contains("notes"), "{place}: {status} {text}");
                    continue;
                }
                let problem: Value = serde_json::from_str(&text).unwrap();
                assert_eq!((status, &problem["code"]), (401, &json!(code)), "{place}");
            }
            for (name, token) in shown.single.iter().filter(|_| locked) {
                let may = meant_for(&method, &path).contains(name);
                // Who may is asked about below, where it does something.
                if may && method != Method::GET {
                    continue;
                }
                let asking = client.send(method.clone(), &url, Some(token), body_of(&path));
                let (status, text) = asking.await;
                let refused = status == 403 && text.contains("\"role_missing\"");
                assert_eq!(!refused, may, "{method} {url} with {name}: {status} {text}");
                assert_ne!(status, 401, "{method} {url} with {name}");
            }
        }
    }
    assert!(asked > 100, "{asked} requests: are the documents empty?");
    nothing_was_done(&cluster, &client, &shown).await;
    the_right_ones_work(&cluster, &client, &shown).await;
    let logs: String = PROGRAMS
        .map(|program| std::fs::read_to_string(cluster.path(&format!("{program}.log"))).unwrap())
        .concat();
    assert!(logs.contains("DEBUG") || logs.contains("debug"), "the logs are those that tell most");
    let refused = shown.refused.values().filter_map(|(token, _)| token.as_ref());
    for token in refused.chain(shown.single.values()).chain([&shown.all]) {
        let secret = token.splitn(3, '_').last().unwrap_or_default();
        assert!(
            secret.is_empty() || !logs.contains(secret),
            "a secret of {} is logged",
            id_of(token)
        );
    }
}

async fn nothing_was_done(cluster: &Cluster, client: &Client, shown: &Shown) {
    let shards = format!("{}/v1/shards", cluster.url(WRITER));
    let (status, text) = client.get(&shards, &shown.single["admin"]).await;
    assert_eq!(status, 200, "{text}");
    let shards: Value = serde_json::from_str(&text).unwrap();
    for shard in shards["shards"].as_array().unwrap() {
        assert_eq!(shard["size"], 0, "{text}");
    }
    let queries = format!("{}/v1/queries", cluster.url(REPLICA));
    let (_, text) = client.get(&queries, &shown.single["admin"]).await;
    assert!(!text.contains("select 1"), "{text}");
}

async fn the_right_ones_work(cluster: &Cluster, client: &Client, shown: &Shown) {
    let post = async |role: usize, path: &str, name: &str, body: &str| {
        let url = format!("{}{path}", cluster.url(role));
        let (status, text) = client.send(Method::POST, &url, Some(&shown.single[name]), body).await;
        assert_eq!(status, 200, "{url}: {text}");
        serde_json::from_str::<Value>(&text).unwrap()
    };
    post(WRITER, "/v1/events", "ingest", body_of("/v1/events")).await;
    let flushed = post(WRITER, "/v1/admin/flush?wait=shipped", "admin", "").await;
    post(SHIPPER, "/v1/ship", "admin", "").await;
    let sql = json!({ "sql": "select tenant from events", "min": flushed["token"],
        "wait_ms": 30_000 });
    let answer = post(REPLICA, "/v1/sql", "query", &sql.to_string()).await;
    assert_eq!(answer["rows"], json!([["t"]]));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_token_commands_reach_running_roles() {
    let tokens = Tokens::new();
    let peer = tokens.peer().await;
    let (file, peer_file) = (tokens.path("tokens.toml"), tokens.path("peer.token"));
    let env = [("SEALCAST_TOKENS", &*file), ("SEALCAST_PEER_TOKEN_FILE", &*peer_file)];
    let cluster = Cluster::start_with(Roles::Apart, &env).await;
    let client = Client { http: reqwest::Client::new() };
    let made = tokens.create(&["query"], &["--tenant", "acme", "--expires", "90d"]).await;
    let url = format!("{}/v1/sql?q=select%201", cluster.url(REPLICA));
    let status = async || client.get(&url, &made).await.0;
    until("a new token is taken", || async { (status().await == 200).then_some(()) }).await;
    let listed = tokens.command(&["list"]).await;
    let line = listed.lines().find(|line| line.contains(id_of(&made))).unwrap();
    for word in ["it", "query", "acme", "valid"] {
        assert!(line.contains(word), "{line}");
    }
    for token in [&made, &peer] {
        assert!(!listed.contains(token.splitn(3, '_').last().unwrap()), "{listed}");
    }
    let revoked = tokens.command(&["revoke", id_of(&made)]).await;
    assert!(revoked.contains("within seconds"), "{revoked}");
    until("a revoked token is refused", || async { (status().await == 401).then_some(()) }).await;
    assert!(!tokens.command(&["list"]).await.contains(id_of(&made)));
    for args in [
        &["token", "revoke", "--tokens", &file, "nobody"][..],
        &["token", "list", "--tokens", "no/such/file"],
        &["token", "create", "--tokens", &file, "--name", "x", "--role", "root", "--all-tenants"],
        &["token", "create", "--tokens", &file, "--name", "x", "--role", "query"],
        &["token", "create", "--tokens", &file, "--name", "x", "--all-tenants"],
    ] {
        let (code, text) = said(args).await;
        assert!(code == Some(1) || code == Some(2), "{args:?}: {text}");
    }
    assert!(!cluster.logs().contains("panicked"));
}

#[tokio::test(flavor = "multi_thread")]
async fn dev_prints_its_token_once_and_it_works() {
    let dir = tempfile::tempdir().unwrap();
    let urls = [free_port(), free_port(), free_port()].map(|port| format!("127.0.0.1:{port}"));
    let log = dir.path().join("dev.log");
    let data = format!("--dir={}", dir.path().join("data").display());
    let flags = ["writer", "shipper", "replica"].into_iter().zip(&urls);
    let flags: Vec<String> = flags.map(|(role, url)| format!("--{role}-http={url}")).collect();
    let args: Vec<&str> = ["dev", &data, "--flight=none", "--postgres=none"]
        .into_iter()
        .chain(flags.iter().map(String::as_str))
        .collect();
    let start = || Process::start(&sealcast("sealcast"), &args, &log, &[]);
    let client = Client { http: reqwest::Client::new() };
    let [writer, _, replica] = urls.each_ref().map(|url| format!("http://{url}"));
    let up = |process: Process| async {
        until("dev is ready", || async {
            let ready = client.http.get(format!("{replica}/readyz")).send().await.ok()?;
            (ready.status() == 200 && process.output().contains("ready;")).then_some(())
        })
        .await;
        process
    };
    // The first start fails, for somebody has a port; the token is made, and told.
    let taken = std::net::TcpListener::bind(&urls[REPLICA]).unwrap();
    assert_eq!(start().ended().await.code(), Some(1));
    drop(taken);
    let process = up(start()).await;
    let printed = process.output();
    let line = printed.lines().find_map(|line| line.strip_prefix("export SEALCAST_TOKEN="));
    let token = line.unwrap_or_else(|| panic!("{printed}")).to_owned();
    assert_eq!(printed.matches(&token).count(), 1, "{printed}");
    let events = format!("{writer}/v1/events");
    let body = body_of("/v1/events");
    assert_eq!(client.send(Method::POST, &events, None, body).await.0, 401);
    assert_eq!(client.send(Method::POST, &events, Some(&token), body).await.0, 200);
    let env = [("SEALCAST_TOKEN", token.as_str())];
    let flush = ["flush", "--writer", &writer, "--wait", "shipped", "--token"];
    let (code, min) = said_with(&flush, &env).await;
    assert_eq!(code, Some(0), "{min}");
    let count = "select count(*) from events";
    let sql = ["sql", "--replica", &replica, "--min", &min, "--format", "csv", count];
    let (code, text) = said_with(&sql, &env).await;
    assert_eq!((code, text.lines().last()), (Some(0), Some("1")), "{text}");
    let (code, text) = said(&sql).await;
    assert!(code == Some(1) && text.contains("token_missing"), "{text}");
    assert!(process.terminate().await.success());
    // Another start prints none, and the first one's token holds.
    let process = up(start()).await;
    assert_eq!(process.output().matches("export SEALCAST_TOKEN=").count(), 1);
    assert_eq!(client.send(Method::POST, &events, Some(&token), body).await.0, 200);
    for file in sealcast_tests::files_under(&dir.path().join("data"), "tokens.toml") {
        let text = std::fs::read_to_string(file).unwrap();
        assert!(text.contains(id_of(&token)) && !text.contains(&token), "{text}");
    }
    assert!(process.terminate().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn beyond_loopback_nothing_starts_unlocked_or_in_plain_text() {
    let (dir, tokens) = (tempfile::tempdir().unwrap(), Tokens::new());
    tokens.create(&["query"], &["--all-tenants"]).await;
    let file = tokens.path("tokens.toml");
    let folder = format!("--dir={}", dir.path().join("node").display());
    let store = format!("--store={}", dir.path().join("store").display());
    for program in PROGRAMS {
        let mut args = vec![folder.as_str(), "--http=0.0.0.0:0"];
        args.extend((program != "sealcast-writer").then_some(store.as_str()));
        for (env, words) in
            [(vec![], "set tokens"), (vec![("SEALCAST_TOKENS", &*file)], "tls_cert")]
        {
            let mut env = env;
            env.push(("SEALCAST_SHIPPER_WITNESS", "none"));
            env.push(("SEALCAST_REPLICA_TRUST_ON_FIRST_USE", "true"));
            let ended = run_with(&sealcast(program), &args, &env).await;
            let text = String::from_utf8_lossy(&ended.stderr).into_owned();
            assert_eq!(ended.status.code(), Some(1), "{program}: {text}");
            assert!(text.contains("reachable from outside") && text.contains(words), "{text}");
        }
    }
    let shown = run(&sealcast("sealcast"), &["dev", "--writer-http", "0.0.0.0:0"]).await;
    assert_eq!(shown.status.code(), Some(1));
}
