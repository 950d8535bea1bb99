//! Addresses to listen on, servers that are called, and the certificate.

use std::sync::Arc;
use std::time::Duration;

use sealcast_common::bucket::without_secret;
use sealcast_common::clock::{Micros, WallClock};
use sealcast_common::serve::access::AccessConfig;
use sealcast_common::serve::{CertificateText, Health, Tls, bind};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::certificate;
use super::{Finding, Server, Speaks, Subjects};
use crate::args::ConnectArgs;
use crate::client::{Answer, Client};
use crate::output::Failure;

/// How long a server may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The certificate, loaded as the servers load it.
pub(super) fn certificate(access: &AccessConfig, now: Micros) -> Vec<Finding> {
    let (cert, key) = match (&access.tls_cert, &access.tls_key) {
        (None, None) => return vec![Finding::ok("tls", "certificate", "none: plain text")],
        (Some(cert), Some(key)) => (cert, key),
        _ => {
            let found = "only one of tls_cert and tls_key is set";
            return vec![Finding::fail("tls", "certificate", found).advice("set both, or none")];
        }
    };
    let clock = Arc::new(WallClock::default());
    let name = cert.display().to_string();
    if let Err(error) = Tls::open(cert.clone(), key.clone(), clock, Health::default()) {
        let advice = "no server starts with it: put the right pair of PEM files there";
        return vec![Finding::fail("tls", name, error).advice(advice)];
    }
    let mut findings = vec![Finding::ok("tls", &name, "readable, and the key fits")];
    let text = std::fs::read_to_string(cert).unwrap_or_default();
    match CertificateText::parse(&text) {
        Some(text) => findings.extend(certificate::findings(&text, &name, now)),
        None => findings.push(Finding::warn("tls", name, "its dates cannot be read")),
    }
    findings
}

pub(super) async fn examine(subjects: &Subjects) -> Vec<Finding> {
    let mut findings = Vec::new();
    for server in &subjects.servers {
        findings.push(listens(server, &subjects.access).await);
    }
    for url in &subjects.called {
        findings.push(reachable(url, &subjects.access).await);
    }
    findings
}

/// Either nobody has the address, or it is one of ours that says how it is.
async fn listens(server: &Server, access: &AccessConfig) -> Finding {
    let Server { role, address, speaks } = server;
    let subject = format!("{role} {address}");
    match bind(address).await {
        Ok(_bound) => Finding::ok("address", subject, format!("free: no {role} runs here")),
        Err(error) => {
            let scheme = if access.tls_cert.is_some() { "https" } else { "http" };
            let answer = match speaks {
                Speaks::Http => readiness(Client::unproven(&format!("{scheme}://{address}"))).await,
                Speaks::Postgres => greeting(address).await,
            };
            match answer {
                Readiness::Ready => Finding::ok("address", subject, "in use by a ready role"),
                Readiness::NotReady(why) => Finding::warn("address", subject, why)
                    .advice("every reason stands in docs/operating.md"),
                Readiness::Silent(_) => Finding::fail("address", subject, error)
                    .advice("another program has the port, or the address is not this machine's"),
            }
        }
    }
}

/// A server of PostgreSQL's protocol says by one letter whether it takes TLS.
async fn greeting(address: &str) -> Readiness {
    const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];
    let asked = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(&SSL_REQUEST).await?;
        stream.read_u8().await
    };
    match tokio::time::timeout(PATIENCE, asked).await {
        Ok(Ok(b'S' | b'N')) => Readiness::Ready,
        Ok(Ok(other)) => Readiness::Silent(format!("it answers {other:#04x}")),
        Ok(Err(error)) => Readiness::Silent(error.to_string()),
        Err(_) => Readiness::Silent("no answer".to_owned()),
    }
}

/// Asked as the roles ask: with their token, and the certificates that they believe.
async fn reachable(url: &str, access: &AccessConfig) -> Finding {
    let connect = ConnectArgs {
        access_token: None,
        token_file: access.peer_token_file.clone(),
        ca: access.peer_ca.clone(),
    };
    let name = without_secret(url);
    match readiness(Client::open(url, &connect)).await {
        Readiness::Ready => Finding::ok("server", name, "reachable and ready"),
        Readiness::NotReady(why) => {
            Finding::warn("server", name, why).advice("every reason stands in docs/operating.md")
        }
        Readiness::Silent(why) => Finding::warn("server", name, why).advice(
            "is it running, and is its certificate believed (peer_ca)? without it the roles go on \
             by polling",
        ),
    }
}

enum Readiness {
    Ready,
    NotReady(String),
    Silent(String),
}

async fn readiness(client: Result<Client, Failure>) -> Readiness {
    let asked = async { client?.get("/readyz").await };
    match tokio::time::timeout(PATIENCE, asked).await {
        Ok(Ok(Answer::Ok(_))) => Readiness::Ready,
        Ok(Ok(Answer::Refused(refusal))) => match refusal.not_ready() {
            Some(reasons) if reasons.is_empty() => Readiness::NotReady(
                "not ready; the reasons are for tokens: `sealcast health URL --token-file FILE`"
                    .into(),
            ),
            Some(reasons) => {
                let reasons: Vec<_> =
                    reasons.iter().map(|(name, why)| format!("{name} ({why})")).collect();
                Readiness::NotReady(format!("not ready: {}", reasons.join(", ")))
            }
            None => Readiness::Silent("something else answers there".into()),
        },
        Ok(Err(failure)) => Readiness::Silent(failure.message),
        Err(_) => Readiness::Silent(format!("no answer within {} s", PATIENCE.as_secs())),
    }
}
