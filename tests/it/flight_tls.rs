//! Arrow Flight and PostgreSQL's protocol over TLS, with programs that people have.

use reqwest::Method;
use sealcast_tests::{REPLICA, SHIPPER, WRITER, free_port, python_with, until};

use super::access::{ROLES, Tokens};
use super::flight::{events, node, script};
use super::tls::{certificate, settings, start, trusting};

#[tokio::test(flavor = "multi_thread")]
async fn real_clients_believe_the_right_certificate_only() {
    let test = "real_clients_believe_the_right_certificate_only";
    let (dir, tokens) = (tempfile::tempdir().unwrap(), Tokens::new());
    tokens.peer().await;
    let token = tokens.create(&ROLES, &["--all-tenants"]).await;
    let files = certificate(dir.path());
    let postgres = free_port();
    let (file, urls) = settings(dir.path(), &tokens, &files, postgres);
    let [cert, file] = [&files[0], &file].map(|path| path.display().to_string());
    let client = trusting(&files[0]);
    let _running = start(&file, &urls, &client, dir.path()).await;
    let list = format!("[{}]", events().trim_end().replace('\n', ","));
    for (url, body) in [
        (format!("{}/v1/events", urls[WRITER]), list),
        (format!("{}/v1/ship?flush=true", urls[SHIPPER]), String::new()),
    ] {
        let (status, text) = client.send(Method::POST, &url, Some(&token), &body).await;
        assert_eq!(status, 200, "{url}: {text}");
    }
    let replica = &urls[REPLICA];
    until("the events are visible", || async {
        let url = format!("{replica}/v1/sql?format=csv&q=select+count(*)+from+events");
        let (status, text) = client.get(&url, &token).await;
        (status == 200 && text.lines().last() == Some("900")).then_some(())
    })
    .await;
    let env = [("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", cert.as_str())];
    node(test, "influxdb3.mjs", &[replica, "900", "acme", "300", &token], &env).await;
    let port = postgres.to_string();
    let env = [
        ("SEALCAST_PG_HOST", "localhost"),
        ("SEALCAST_PG_PORT", &port),
        ("SEALCAST_PG_COUNT", "900"),
        ("SEALCAST_PG_TOKEN", &token),
        ("SEALCAST_PG_CA", &cert),
    ];
    node(test, "postgres.mjs", &[], &env).await;
    if let Some(python) = python_with(test, &["adbc_driver_flightsql", "influxdb_client_3"]) {
        let address = replica.trim_start_matches("https://");
        script(&python, "flight_tls.py", &[address, &cert, "900", &token], &[]).await;
    }
}
