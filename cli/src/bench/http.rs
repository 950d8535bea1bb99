//! Requests that a benchmark counts: no retries, every answer read to its end.

use bytes::Bytes;
use serde_json::Value;

use crate::output::{Failure, failed};

/// A client with a pool of connections.
#[derive(Clone, Debug)]
pub(super) struct Http {
    client: reqwest::Client,
    base: String,
}

impl Http {
    pub(super) fn new(base: &str) -> Result<Self, Failure> {
        let client = reqwest::Client::builder().no_proxy().tcp_nodelay(true).build();
        Ok(Http { client: client.map_err(failed)?, base: base.trim_end_matches('/').to_owned() })
    }

    /// Where requests go.
    pub(super) fn base(&self) -> &str {
        &self.base
    }

    /// Sends events; anything but a success is a failure.
    pub(super) async fn send(&self, ndjson: Bytes) -> Result<Bytes, Failure> {
        let request = self.client.post(format!("{}/v1/events", self.base));
        read(request.header("content-type", "application/x-ndjson").body(ndjson)).await
    }

    /// Asks a replica; the answer is an Arrow stream.
    pub(super) async fn ask(&self, sql: &str) -> Result<Bytes, Failure> {
        self.query(&serde_json::json!({ "sql": sql, "format": "arrow" })).await
    }

    /// Asks with the body of `POST /v1/sql`.
    pub(super) async fn query(&self, body: &Value) -> Result<Bytes, Failure> {
        read(self.client.post(format!("{}/v1/sql", self.base)).json(body)).await
    }

    /// A JSON document.
    pub(super) async fn get(&self, path: &str) -> Result<Value, Failure> {
        let bytes = read(self.client.get(format!("{}{path}", self.base))).await?;
        serde_json::from_slice(&bytes).map_err(failed)
    }
}

async fn read(request: reqwest::RequestBuilder) -> Result<Bytes, Failure> {
    let response = request.send().await.map_err(failed)?;
    let status = response.status();
    let body = response.bytes().await.map_err(failed)?;
    if status.is_success() {
        return Ok(body);
    }
    let text: String = String::from_utf8_lossy(&body).chars().take(400).collect();
    Err(Failure::new(format!("answer {status}: {text}")))
}
