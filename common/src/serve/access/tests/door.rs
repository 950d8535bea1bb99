//! The guard before every route of a real server, and servers that do not open their door.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use http::HeaderMap;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::serve::{Health, ServeError, probe_routes, serve};

/// What a handler gets to know: the caller's id, and whether a secret came with it.
async fn whoami(Caller(grant): Caller, headers: HeaderMap) -> String {
    format!("{} {}", grant.id, headers.contains_key("authorization"))
}

async fn started(kit: &Kit, metrics_open: bool) -> (SocketAddr, CancellationToken) {
    let health = Health::default();
    health.note("detail", "about all tenants");
    let config = AccessConfig { tokens: Some(kit.path()), metrics_open, ..AccessConfig::default() };
    let bound = config.bind("127.0.0.1:0", &kit.seams, &health).await.unwrap();
    let router = Router::new()
        .route("/who", only(&[Role::Query, Role::Admin], get(whoami)))
        .merge(probe_routes(health))
        .fallback(|| async { (http::StatusCode::NOT_FOUND, "unknown") });
    let (address, stop) = (bound.address, CancellationToken::new());
    tokio::spawn(serve(bound, router, stop.clone(), Duration::ZERO));
    (address, stop)
}

/// Status and whole text of an answer.
async fn ask(address: SocketAddr, method: &str, path: &str, token: Option<&str>) -> (u16, String) {
    let shown = token.map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
    let head = format!("{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{shown}\r\n");
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer)
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_reach_the_probes_and_nothing_else() {
    let kit = Kit::new();
    kit.query();
    let (address, stop) = started(&kit, false).await;
    assert_eq!(ask(address, "GET", "/livez", None).await.0, 200);
    let (status, ready) = ask(address, "GET", "/readyz", None).await;
    assert!(status == 200 && ready.ends_with("{\"ready\":true}"), "{ready}");
    for path in [
        "/who",
        "/metrics",
        "/unknown",
        "/",
        "//livez",
        "/livez/",
        "/livez/../who",
        "/LIVEZ",
        "/%6civez",
        "/livez%2f..%2fwho",
        "/who?x=/livez",
        "/who;/livez",
        "*",
    ] {
        for method in ["GET", "POST", "DELETE", "OPTIONS", "HEAD"] {
            let (status, text) = ask(address, method, path, None).await;
            assert_eq!(status, 401, "{method} {path}: {text}");
            assert!(text.contains("www-authenticate: Bearer"), "{text}");
            assert!(method == "HEAD" || text.contains("\"token_missing\""), "{text}");
        }
    }
    let (status, text) = ask(address, "GET", "/who", Some("sc_ab_hush")).await;
    assert_eq!(status, 401);
    assert!(text.contains("\"token_invalid\"") && !text.contains("hush"), "{text}");
    stop.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn roles_decide_what_a_token_reaches() {
    let kit = Kit::new();
    let limited = kit.create(&[Role::Query], only_tenants(&["a"]), None);
    let (ingest, query) = (kit.create(&[Role::Ingest], Tenants::All, None), kit.query());
    let admin = kit.create(&[Role::Admin], only_tenants(&[]), None);
    let (address, stop) = started(&kit, false).await;
    let get = async |path, token: &TokenText| ask(address, "GET", path, Some(token.reveal())).await;
    let (status, text) = get("/who", &limited).await;
    assert!(status == 200 && text.ends_with(&format!("{} false", limited.id())), "{text}");
    let (status, text) = get("/who", &ingest).await;
    assert!(status == 403 && text.contains("lacks the role query or admin"), "{text}");
    assert_eq!(get("/unknown", &ingest).await.0, 404);
    for (token, code) in [(&limited, 403), (&ingest, 403), (&query, 403), (&admin, 200)] {
        assert_eq!(get("/metrics", token).await.0, code);
        let (status, ready) = get("/readyz", token).await;
        let told = ready.contains("about all tenants");
        assert_eq!((status, told), (200, token.id() != limited.id()), "{ready}");
    }
    stop.cancel();
    let (address, stop) = started(&kit, true).await;
    assert_eq!(ask(address, "GET", "/metrics", None).await.0, 200);
    assert_eq!(ask(address, "GET", "/metrics", Some(limited.reveal())).await.0, 200);
    stop.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_public_server_asks_for_tokens_where_it_tells_of_itself() {
    let kit = Kit::new();
    let admin = kit.create(&[Role::Admin], only_tenants(&[]), None);
    let health = Health::default();
    health.note("detail", "of operators");
    let config = AccessConfig { tokens: Some(kit.path()), ..AccessConfig::default() };
    let bound = config.bind_public("127.0.0.1:0", &kit.seams, &health).await.unwrap();
    let router = Router::new()
        .route("/public", get(|| async { "public" }))
        .route("/who", only(&[Role::Admin], get(whoami)))
        .merge(probe_routes(health));
    let (address, stop) = (bound.address, CancellationToken::new());
    tokio::spawn(serve(bound, router, stop.clone(), Duration::ZERO));
    for token in [None, Some("sc_ab_hush")] {
        assert_eq!(ask(address, "GET", "/public", token).await.0, 200);
        assert_eq!(ask(address, "GET", "/metrics", token).await.0, 401);
        assert!(!ask(address, "GET", "/readyz", token).await.1.contains("operators"));
        // A route that wants a role does not become everybody's by that.
        assert_eq!(ask(address, "GET", "/who", token).await.0, 500);
    }
    for path in ["/public", "/metrics", "/who"] {
        assert_eq!(ask(address, "GET", path, Some(admin.reveal())).await.0, 200);
    }
    assert!(ask(address, "GET", "/readyz", Some(admin.reveal())).await.1.contains("operators"));
    stop.cancel();
    // Without tokens nothing is asked for, and plain text hides nothing that is not public.
    let (none, health) = (AccessConfig::default(), Health::default());
    let open = none.bind_public("0.0.0.0:0", &kit.seams, &health).await;
    assert_eq!(open.unwrap().scheme(), "http");
    let refused = config.bind_public("0.0.0.0:0", &kit.seams, &health).await;
    assert!(refused.unwrap_err().to_string().contains("set tls_cert and tls_key"));
}

#[tokio::test]
async fn what_is_unsafe_is_not_opened() {
    let kit = Kit::new();
    kit.query();
    let (tokens, none) = (Some(kit.path()), AccessConfig::default());
    let file = |name: &str| Some(kit.dir.path().join(name));
    let refusal = async |config: AccessConfig, address: &str| match config
        .bind(address, &kit.seams, &Health::default())
        .await
    {
        Ok(bound) => format!("open at {}", bound.scheme()),
        Err(ServeError::Access(error)) => error.to_string(),
        Err(error) => panic!("{error}"),
    };
    for address in ["0.0.0.0:0", "[::]:0"] {
        assert!(refusal(none.clone(), address).await.contains("set tokens"));
        let plain = AccessConfig { tokens: tokens.clone(), ..none.clone() };
        assert!(refusal(plain.clone(), address).await.contains("set tls_cert and tls_key"));
        let allowed = AccessConfig { allow_plain_text: true, ..plain };
        assert_eq!(refusal(allowed, address).await, "open at http");
        let no_tokens = AccessConfig { allow_plain_text: true, ..none.clone() };
        assert!(refusal(no_tokens, address).await.contains("set tokens"));
    }
    assert_eq!(refusal(none.clone(), "127.0.0.1:0").await, "open at http");
    let half = AccessConfig { tls_cert: file("c"), ..none.clone() };
    assert!(refusal(half, "127.0.0.1:0").await.contains("tls_key is missing"));
    let half = AccessConfig { tls_key: file("k"), ..none.clone() };
    assert!(refusal(half, "127.0.0.1:0").await.contains("tls_cert is missing"));
    let missing = AccessConfig { tls_cert: file("c"), tls_key: file("k"), ..none.clone() };
    assert!(refusal(missing, "127.0.0.1:0").await.contains("cannot be used"));
    kit.write("[[token");
    let broken = AccessConfig { tokens, ..none };
    assert!(refusal(broken, "127.0.0.1:0").await.contains("is invalid: line 1"));
}

#[test]
fn a_peer_shows_the_token_of_its_file() {
    let kit = Kit::new();
    let token = kit.query();
    let path = kit.dir.path().join("peer.token");
    let peer = Peer { token_file: Some(path.clone()), ca: None };
    assert_eq!(Peer::default().authorization().unwrap(), None);
    assert!(peer.authorization().unwrap_err().to_string().contains("cannot be read"));
    write_secret(&path, &format!("{}\n", token.reveal()));
    assert_eq!(peer.authorization().unwrap(), Some(format!("Bearer {}", token.reveal())));
    write_secret(&path, "hush hush\n");
    let told = peer.authorization().unwrap_err().to_string();
    assert!(told.contains("one line sc_") && !told.contains("hush"), "{told}");
}
