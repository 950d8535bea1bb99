//! Addresses to listen on, servers that are called, and the certificate.

use std::sync::Arc;
use std::time::Duration;

use sealcast_common::clock::{Micros, WallClock};
use sealcast_common::serve::access::AccessConfig;
use sealcast_common::serve::{CertificateText, Health, Tls, bind};
use serde_json::Value;

use super::certificate;
use super::{Finding, Server, Subjects};
use crate::client::{Answer, Client};

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
    let Server { role, address } = server;
    let subject = format!("{role} {address}");
    match bind(address).await {
        Ok(_bound) => Finding::ok("address", subject, format!("free: no {role} runs here")),
        Err(error) => {
            let scheme = if access.tls_cert.is_some() { "https" } else { "http" };
            match readiness(&format!("{scheme}://{address}"), access).await {
                Readiness::Ready => Finding::ok("address", subject, "in use by a ready role"),
                Readiness::NotReady(why) => Finding::warn("address", subject, why)
                    .advice("every reason stands in docs/operating.md"),
                Readiness::Silent(_) => Finding::fail("address", subject, error)
                    .advice("another program has the port, or the address is not this machine's"),
            }
        }
    }
}

async fn reachable(url: &str, access: &AccessConfig) -> Finding {
    match readiness(url, access).await {
        Readiness::Ready => Finding::ok("server", url, "reachable and ready"),
        Readiness::NotReady(why) => {
            Finding::warn("server", url, why).advice("every reason stands in docs/operating.md")
        }
        Readiness::Silent(why) => Finding::warn("server", url, why)
            .advice("is it running? without it the roles go on by polling"),
    }
}

enum Readiness {
    Ready,
    NotReady(String),
    Silent(String),
}

async fn readiness(url: &str, _access: &AccessConfig) -> Readiness {
    let asked = async { Client::new(url)?.get("/readyz").await };
    match tokio::time::timeout(PATIENCE, asked).await {
        Ok(Ok(Answer::Ok(_))) => Readiness::Ready,
        Ok(Ok(Answer::Refused(refusal))) => match refusal.problem.get("reasons") {
            Some(Value::Object(reasons)) => {
                let reasons = reasons.iter().map(|(name, why)| format!("{name} ({why})"));
                Readiness::NotReady(format!(
                    "not ready: {}",
                    reasons.collect::<Vec<_>>().join(", ")
                ))
            }
            _ => Readiness::Silent("something else answers there".into()),
        },
        Ok(Err(failure)) => Readiness::Silent(failure.message),
        Err(_) => Readiness::Silent(format!("no answer within {} s", PATIENCE.as_secs())),
    }
}
