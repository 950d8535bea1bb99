//! The writer by HTTP, when its URL is known: asking for a flush and for public keys.

use std::time::Duration;

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
}

impl WriterClient {
    /// A client of the writer at `base`.
    pub(crate) fn new(base: &str) -> Result<Self, WriterError> {
        let base = base.trim_end_matches('/').to_owned();
        let http = reqwest::Client::builder().timeout(TIMEOUT).build();
        let http = http.map_err(failure(&base))?;
        Ok(WriterClient { base, http })
    }

    /// Seals every tail; returns when the files stand.
    pub(crate) async fn flush(&self) -> Result<FlushResponse, WriterError> {
        let url = format!("{}/v1/admin/flush?wait=sealed", self.base);
        let answer = async { self.http.post(&url).send().await?.error_for_status()?.json().await };
        answer.await.map_err(failure(&url))
    }

    /// The public key of `shard` (C2SP text form).
    pub(crate) async fn public_key(&self, shard: u16) -> Result<Option<String>, WriterError> {
        let url = format!("{}/v1/shards", self.base);
        let answer = async { self.http.get(&url).send().await?.error_for_status()?.json().await };
        let answer: ShardsResponse = answer.await.map_err(failure(&url))?;
        Ok(answer.shards.into_iter().find(|status| status.shard == shard).map(|found| found.key))
    }
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
