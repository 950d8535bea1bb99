//! The writer by HTTP, when its URL is known: asking for a flush and for public keys.

use std::time::Duration;

use reqwest::Method;
use sealcast_common::serve::access::Peer;
use sealcast_common::wire::{FlushResponse, ShardsResponse};

const TIMEOUT: Duration = Duration::from_secs(30);

/// Why the writer gave no answer.
#[derive(Debug, thiserror::Error)]
#[error("writer {url} did not answer: {reason}")]
pub(crate) struct WriterError {
    url: String,
    reason: String,
}

/// A client of one writer.
#[derive(Clone, Debug)]
pub(crate) struct WriterClient {
    base: String,
    http: reqwest::Client,
    peer: Peer,
}

impl WriterClient {
    /// A client of the writer at `base`.
    pub(crate) fn new(base: &str, peer: Peer) -> Result<Self, WriterError> {
        let base = base.trim_end_matches('/').to_owned();
        let mut builder = reqwest::Client::builder().timeout(TIMEOUT);
        for certificate in certificates(&peer).map_err(|reason| refused(&base, reason))? {
            builder = builder.add_root_certificate(certificate);
        }
        let http = builder.build().map_err(failure(&base))?;
        Ok(WriterClient { base, http, peer })
    }

    /// With this role's own token, which is read each time: it may have been replaced.
    fn request(&self, method: Method, url: &str) -> Result<reqwest::RequestBuilder, WriterError> {
        let shown = self.peer.authorization().map_err(|error| refused(url, error.to_string()))?;
        let request = self.http.request(method, url);
        Ok(match shown {
            Some(shown) => request.header("authorization", shown),
            None => request,
        })
    }

    /// Seals every tail; returns when the files stand.
    pub(crate) async fn flush(&self) -> Result<FlushResponse, WriterError> {
        let url = format!("{}/v1/admin/flush?wait=sealed", self.base);
        let request = self.request(Method::POST, &url)?;
        let answer = async { request.send().await?.error_for_status()?.json().await };
        answer.await.map_err(failure(&url))
    }

    /// The public key of `shard` (C2SP text form).
    pub(crate) async fn public_key(&self, shard: u16) -> Result<Option<String>, WriterError> {
        let url = format!("{}/v1/shards", self.base);
        let request = self.request(Method::GET, &url)?;
        let answer = async { request.send().await?.error_for_status()?.json().await };
        let answer: ShardsResponse = answer.await.map_err(failure(&url))?;
        Ok(answer.shards.into_iter().find(|status| status.shard == shard).map(|found| found.key))
    }
}

fn certificates(peer: &Peer) -> Result<Vec<reqwest::Certificate>, String> {
    let Some(pem) = peer.ca_pem().map_err(|error| error.to_string())? else {
        return Ok(Vec::new());
    };
    reqwest::Certificate::from_pem_bundle(&pem).map_err(|error| error.to_string())
}

fn refused(url: &str, reason: String) -> WriterError {
    WriterError { url: url.to_owned(), reason }
}

fn failure(url: &str) -> impl Fn(reqwest::Error) -> WriterError {
    let url = url.to_owned();
    move |error| {
        let mut reason = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(inner) = source {
            reason = format!("{reason}: {inner}");
            source = inner.source();
        }
        WriterError { url: url.clone(), reason }
    }
}
