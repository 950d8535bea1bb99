//! TLS of running roles: clients, the roles among themselves, the tools.

use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::Method;
use sealcast_tests::{
    Process, REPLICA, SHIPPER, WRITER, free_port, run_with, said, said_with, sealcast, until,
};

use super::access::{Client, PROGRAMS, ROLES, Tokens, body_of, write};

/// Certificate and key for `localhost` as files.
pub(super) fn certificate(dir: &Path) -> [PathBuf; 2] {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let files = [dir.join("cert.pem"), dir.join("key.pem")];
    write(&files[0], &params.self_signed(&key).unwrap().pem());
    write(&files[1], &key.serialize_pem());
    files
}

/// Settings of three roles under `dir`, locked by `tokens` and `certificate`; their base URLs.
pub(super) fn settings(
    dir: &Path,
    tokens: &Tokens,
    [cert, key]: &[PathBuf; 2],
    postgres: u16,
) -> (PathBuf, [String; 3]) {
    let ports = [free_port(), free_port(), free_port()];
    let (dir_of, urls) =
        (|name| dir.join(name), ports.map(|port| format!("https://localhost:{port}")));
    let text = format!(
        "[access]\ntokens = {:?}\npeer_token_file = {:?}\n\
         tls_cert = {cert:?}\ntls_key = {key:?}\npeer_ca = {cert:?}\n\
         [writer]\nhttp = \"127.0.0.1:{}\"\ndir = {writer:?}\n\
         [shipper]\nhttp = \"127.0.0.1:{}\"\ndir = {writer:?}\nstore = {store:?}\nwriter = {:?}\n\
         [replica]\nhttp = \"127.0.0.1:{}\"\ndir = {:?}\nstore = {store:?}\nshipper = [{:?}]\n\
         postgres = \"127.0.0.1:{postgres}\"\n",
        tokens.path("tokens.toml"),
        tokens.path("peer.token"),
        ports[WRITER],
        ports[SHIPPER],
        urls[WRITER],
        ports[REPLICA],
        dir_of("replica"),
        urls[SHIPPER],
        writer = dir_of("writer"),
        store = dir_of("store"),
    );
    let file = dir_of("sealcast.toml");
    write(&file, &text);
    (file, urls)
}

/// A client that believes this certificate.
pub(super) fn trusting(cert: &Path) -> Client {
    let root = reqwest::Certificate::from_pem(&std::fs::read(cert).unwrap()).unwrap();
    Client { http: reqwest::Client::builder().add_root_certificate(root).build().unwrap() }
}

/// Starts the three roles by the settings in `file`, one after the other is ready.
pub(super) async fn start(
    file: &str,
    urls: &[String; 3],
    client: &Client,
    logs: &Path,
) -> Vec<Process> {
    let mut running = Vec::new();
    for (program, url) in PROGRAMS.iter().zip(urls) {
        let log = logs.join(format!("{program}.log"));
        running.push(Process::start(&sealcast(program), &["--config", file], &log, &[]));
        until("a role is ready", || async {
            let ready = client.http.get(format!("{url}/readyz")).send().await.ok()?;
            (ready.status() == 200).then_some(())
        })
        .await;
    }
    running
}

#[tokio::test(flavor = "multi_thread")]
async fn three_roles_speak_tls_with_everybody_and_each_other() {
    let (dir, tokens) = (tempfile::tempdir().unwrap(), Tokens::new());
    let peer = tokens.peer().await;
    let all = tokens.create(&ROLES, &["--all-tenants"]).await;
    let files = certificate(dir.path());
    let postgres = free_port();
    let (file, urls) = settings(dir.path(), &tokens, &files, postgres);
    let [cert, file] = [&files[0], &file].map(|path| path.display().to_string());
    let client = trusting(&files[0]);
    let running = start(&file, &urls, &client, dir.path()).await;
    for url in &urls {
        // Plain text, and a client that does not know the certificate, get nothing.
        assert!(reqwest::get(format!("{}/livez", url.replace("https", "http"))).await.is_err());
        assert!(reqwest::get(format!("{url}/livez")).await.is_err());
    }
    let post = async |url: String, body: &str| {
        let (status, text) = client.send(Method::POST, &url, Some(&all), body).await;
        assert_eq!(status, 200, "{url}: {text}");
    };
    post(format!("{}/v1/events", urls[WRITER]), body_of("/v1/events")).await;
    // The shipper flushes the writer, with its own token.
    post(format!("{}/v1/ship?flush=true", urls[SHIPPER]), "").await;
    let env = [("SEALCAST_TOKEN", all.as_str()), ("SEALCAST_CA", &*cert)];
    let replica = &urls[REPLICA];
    let sql = ["sql", "--replica", replica, "--format", "csv", "select count(*) from events"];
    until("the event is visible", || async {
        let (code, text) = said_with(&sql, &env).await;
        (code == Some(0) && text.lines().last() == Some("1")).then_some(())
    })
    .await;
    // The replica hears the shipper's hints, with its own token.
    until("a hint is heard", || async {
        let (_, text) = client.get(&format!("{replica}/metrics"), &all).await;
        let hints = text.lines().find(|line| line.starts_with("sealcast_replica_hints_total"))?;
        (!hints.ends_with(" 0")).then_some(())
    })
    .await;
    import_gives_up_at_once(&tokens, &urls[WRITER], &all).await;
    doctor_reaches_all_of_them(&file).await;
    psql_believes_the_certificate_alone(postgres, &cert, &all).await;
    for process in running {
        let output = process.output();
        assert!(!output.contains(&all) && !output.contains(&peer), "{output}");
        assert!(process.terminate().await.success());
    }
}

/// PostgreSQL's protocol is encrypted before a password is asked for, or not spoken at all.
async fn psql_believes_the_certificate_alone(port: u16, cert: &str, token: &str) {
    let test = "three_roles_speak_tls_with_everybody_and_each_other";
    let Some(psql) = super::postgres::psql(test) else { return };
    let ask = async |mode: &str, root: &str| {
        let to = format!(
            "host=localhost port={port} user=me dbname=sealcast sslmode={mode} sslrootcert={root}"
        );
        let ask = ["-X", "-A", "-t", &to, "-c", "select count(*) from events"];
        let env = [("PGPASSWORD", token), ("PGCONNECT_TIMEOUT", "20")];
        let shown = run_with(&psql, &ask, &env).await;
        let said = [&*shown.stdout, &*shown.stderr].map(String::from_utf8_lossy).concat();
        (shown.status.success(), said)
    };
    let (good, said) = ask("verify-full", cert).await;
    assert!(good && said.trim() == "1", "{said}");
    let (good, said) = ask("verify-full", "/dev/null").await;
    assert!(!good, "{said}");
    let (good, said) = ask("disable", "").await;
    assert!(!good && said.contains("TLS connections only"), "{said}");
}

/// A certificate that is not believed will not be believed later: no minute of repeating.
async fn import_gives_up_at_once(tokens: &Tokens, writer: &str, token: &str) {
    let events = tokens.path("events.ndjson");
    write(Path::new(&events), body_of("/v1/events"));
    let (args, env) = (["import", &events, "--writer", writer], [("SEALCAST_TOKEN", token)]);
    let ended = tokio::time::timeout(Duration::from_secs(30), said_with(&args, &env)).await;
    let (code, text) = ended.expect("no repeating");
    assert!(code == Some(1) && text.contains("--ca"), "{text}");
    let (code, text) = said(&["health", writer]).await;
    assert!(code == Some(1) && text.contains("--ca") && !text.contains("not ready"), "{text}");
}

/// Every port is one of ours, every server that is called is reached with token and certificate.
async fn doctor_reaches_all_of_them(settings: &str) {
    let (_, text) = said(&["doctor", "--config", settings]).await;
    assert_eq!(text.matches("in use by a ready role").count(), 4, "{text}");
    assert_eq!(text.matches("reachable and ready").count(), 2, "{text}");
}
