//! HTTP to writers and replicas: one client, problems shown as they were told.

use std::time::Duration;

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use sealcast_common::bucket::without_secret;
use sealcast_common::serve::access::Peer;
use sealcast_common::wire::{FlushResponse, IngestResponse};
use serde_json::Value;

use crate::args::{ConnectArgs, FlushWait};
use crate::output::{Failure, failed};

/// How often a request is repeated that the server asked to repeat, or that did not reach it.
const ATTEMPTS: u32 = 30;

/// A server's base URL and the connection pool.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    http: reqwest::Client,
    base: String,
}

fn authorization(connect: &ConnectArgs) -> Result<HeaderMap, Failure> {
    let peer = Peer { token_file: connect.token_file.clone(), ca: None };
    let stated = match &connect.access_token {
        Some(token) => Some(format!("Bearer {}", token.trim())),
        None => peer.authorization().map_err(failed)?,
    };
    let mut headers = HeaderMap::new();
    if let Some(stated) = stated {
        let mut value = HeaderValue::from_str(&stated)
            .map_err(|_| Failure::new("the access token holds a byte that no header can carry"))?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    Ok(headers)
}

fn certificates(connect: &ConnectArgs) -> Result<Vec<reqwest::Certificate>, Failure> {
    let peer = Peer { token_file: None, ca: connect.ca.clone() };
    let Some(pem) = peer.ca_pem().map_err(failed)? else { return Ok(Vec::new()) };
    reqwest::Certificate::from_pem_bundle(&pem)
        .map_err(|error| Failure::new(format!("--ca holds no certificate: {error}")))
}

/// What an error says in the end.
fn last_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

/// Whether it is the server's certificate that is not believed, as rustls words it.
fn is_of_certificate(reason: &str) -> bool {
    reason.contains("peer certificate")
}

/// An answer that is no success.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    /// The problem document, or its stand-in.
    pub(crate) problem: Value,
    retry_after: Option<u64>,
}

impl Refusal {
    fn text(&self, member: &str) -> Option<&str> {
        self.problem.get(member).and_then(Value::as_str)
    }

    /// The reasons of a role that says that it is not ready (none for who shows no token); `None`
    /// if this is somebody else's word: 401, 404, 502.
    pub(crate) fn not_ready(&self) -> Option<Vec<(&str, &str)>> {
        if self.problem.get("ready") != Some(&Value::Bool(false)) {
            return None;
        }
        let reasons = self.problem.get("reasons").and_then(Value::as_object).into_iter().flatten();
        Some(reasons.map(|(name, why)| (name.as_str(), why.as_str().unwrap_or_default())).collect())
    }

    /// For people.
    pub(crate) fn into_failure(self, what: &str) -> Failure {
        let code = self.text("code").unwrap_or("unknown");
        let detail = self.text("detail").unwrap_or("no detail");
        let failure = Failure::new(format!("{what}: {detail} ({}, {code})", self.status));
        match self.text("hint") {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

/// What became of a request.
pub(crate) enum Answer {
    Ok(reqwest::Response),
    Refused(Refusal),
}

impl Client {
    /// A client of the server at `base`, without a token.
    #[cfg(any(feature = "roles", test))]
    pub(crate) fn new(base: &str) -> Result<Self, Failure> {
        Self::open(base, &ConnectArgs::default())
    }

    /// A client of the server at `base` that shows its token with every request.
    pub(crate) fn open(base: &str, connect: &ConnectArgs) -> Result<Self, Failure> {
        let url = url::Url::parse(base).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        if url.is_none() {
            let hint = "expected a URL such as http://127.0.0.1:7070";
            let base = without_secret(base);
            return Err(Failure::new(format!("server {base:?} is no http URL")).hint(hint));
        }
        let mut builder = reqwest::Client::builder().default_headers(authorization(connect)?);
        for certificate in certificates(connect)? {
            builder = builder.add_root_certificate(certificate);
        }
        Self::built(base, builder)
    }

    /// A client of one of this machine's own addresses: it shows no token, so whoever answers need
    /// not prove its name.
    #[cfg(feature = "roles")]
    pub(crate) fn unproven(base: &str) -> Result<Self, Failure> {
        Self::built(base, reqwest::Client::builder().danger_accept_invalid_certs(true))
    }

    fn built(base: &str, builder: reqwest::ClientBuilder) -> Result<Self, Failure> {
        let http = builder
            .connect_timeout(Duration::from_secs(5))
            .build()
            .map_err(|error| Failure::new(format!("http client cannot start: {error}")))?;
        Ok(Client { http, base: base.trim_end_matches('/').to_owned() })
    }

    fn unreachable(&self, error: &reqwest::Error) -> Failure {
        let reason = last_cause(error);
        let hint = if is_of_certificate(&reason) {
            "name its certificate, or the one that signed it, by --ca (SEALCAST_CA), and ask for it \
             by a name that the certificate is for"
        } else {
            "is it running? `sealcast dev` starts all roles on the default ports"
        };
        Failure::new(format!("{} cannot be reached: {reason}", without_secret(&self.base)))
            .hint(hint)
    }

    async fn answer(&self, response: reqwest::Response) -> Result<Answer, Failure> {
        if response.status().is_success() {
            return Ok(Answer::Ok(response));
        }
        let status = response.status().as_u16();
        let retry_after = response.headers().get("retry-after").and_then(|v| v.to_str().ok());
        let retry_after = retry_after.and_then(|v| v.parse().ok());
        let body = response.bytes().await.map_err(|error| self.unreachable(&error))?;
        let problem = serde_json::from_slice(&body).unwrap_or_else(|_| {
            let text: String = String::from_utf8_lossy(&body).chars().take(200).collect();
            serde_json::json!({ "code": "no_problem_document", "detail": text })
        });
        Ok(Answer::Refused(Refusal { status, problem, retry_after }))
    }

    /// Sends NDJSON events; every event has its own id, so a repeated request is safe.
    pub(crate) async fn send_events(
        &self,
        ndjson: String,
        partial: bool,
    ) -> Result<Result<IngestResponse, Refusal>, Failure> {
        let query = if partial { "?partial=true" } else { "" };
        let url = format!("{}/v1/events{query}", self.base);
        let body = bytes::Bytes::from(ndjson);
        let mut wait = Duration::from_millis(100);
        let mut last = None;
        for _ in 0..ATTEMPTS {
            let request = self.http.post(&url).header("content-type", "application/x-ndjson");
            match request.body(body.clone()).send().await {
                // No waiting makes it believed.
                Err(error) if is_of_certificate(&last_cause(&error)) => {
                    return Err(self.unreachable(&error));
                }
                Err(error) => last = Some(self.unreachable(&error)),
                Ok(response) => match self.answer(response).await? {
                    Answer::Ok(response) => {
                        let read = response.json().await.map_err(|error| self.unreachable(&error));
                        match read {
                            Ok(accepted) => return Ok(Ok(accepted)),
                            // The answer broke off: whether it was taken is not known; ids tell.
                            Err(failure) => last = Some(failure),
                        }
                    }
                    Answer::Refused(refusal) if matches!(refusal.status, 429 | 503) => {
                        wait = refusal.retry_after.map_or(wait, Duration::from_secs);
                        last = Some(refusal.into_failure("events were not taken"));
                    }
                    Answer::Refused(refusal) => return Ok(Err(refusal)),
                },
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(Duration::from_secs(2));
        }
        Err(last.unwrap_or_else(|| Failure::new("events were not taken")))
    }

    /// A plain GET of a path of the server.
    pub(crate) async fn get(&self, path: &str) -> Result<Answer, Failure> {
        let response = self.http.get(format!("{}{path}", self.base)).send().await;
        self.answer(response.map_err(|error| self.unreachable(&error))?).await
    }

    /// Seals every tail.
    pub(crate) async fn flush(&self, wait: FlushWait) -> Result<FlushResponse, Failure> {
        let wait = match wait {
            FlushWait::Sealed => "sealed",
            FlushWait::Shipped => "shipped",
        };
        let url = format!("{}/v1/admin/flush?wait={wait}", self.base);
        let response = self.http.post(&url).send().await;
        let response = response.map_err(|error| self.unreachable(&error))?;
        match self.answer(response).await? {
            Answer::Ok(response) => response.json().await.map_err(|error| self.unreachable(&error)),
            Answer::Refused(refusal) => Err(refusal.into_failure("flush was refused")),
        }
    }

    /// Asks a shipper to ship what is sealed now.
    #[cfg(feature = "roles")]
    pub(crate) async fn ship(&self) -> Result<(), Failure> {
        let response = self.http.post(format!("{}/v1/ship", self.base)).send().await;
        let response = response.map_err(|error| self.unreachable(&error))?;
        match self.answer(response).await? {
            Answer::Ok(_) => Ok(()),
            Answer::Refused(refusal) => Err(refusal.into_failure("nothing was shipped")),
        }
    }

    /// Posts a statement; `body` is the JSON of `POST /v1/sql`.
    pub(crate) async fn sql(&self, body: &Value) -> Result<Answer, Failure> {
        let url = format!("{}/v1/sql", self.base);
        let response = self.http.post(&url).json(body).send().await;
        self.answer(response.map_err(|error| self.unreachable(&error))?).await
    }

    /// Reads a whole body; a broken one is a failure, never a short result.
    pub(crate) async fn body(&self, response: reqwest::Response) -> Result<bytes::Bytes, Failure> {
        response.bytes().await.map_err(|error| {
            Failure::new(format!("the result broke off and is not complete: {error}"))
        })
    }
}
