//! A request's body: received within bounds, decompressed within bounds, split into event texts.

use std::io::{self, Read};
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::http::{HeaderMap, StatusCode, header};
use bytes::{Bytes, BytesMut};
use futures::StreamExt as _;
use sealcast_common::fault::Kind;
use sealcast_common::limits::{INGEST_WAIT_MS_MAX, REQUEST_BYTES_MAX, REQUEST_WIRE_BYTES_MAX};
use sealcast_common::serve::Problem;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::problems::overloaded;
use crate::config::Config;

/// zstd frames may ask for a window of this many bytes (as a power of two), no more.
const ZSTD_WINDOW_LOG_MAX: u32 = 23;
/// What is read of a refused body, bytes; for how long; how long without a byte.
const DISCARD_BYTES_MAX: usize = 4 * REQUEST_WIRE_BYTES_MAX;
const DISCARD_TIME_MAX: Duration = Duration::from_secs(5);
const DISCARD_STALL_MAX: Duration = Duration::from_millis(500);

/// How a body is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Identity,
    Gzip,
    Zstd,
}

/// What a body says it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// One object, or an array of them.
    Json,
    /// One object a line.
    Lines,
    /// No content type: decided by the first line.
    Unstated,
}

impl Encoding {
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, Problem> {
        let Some(value) = headers.get(header::CONTENT_ENCODING) else { return Ok(Self::Identity) };
        match value.to_str().unwrap_or("?").trim().to_ascii_lowercase().as_str() {
            "" | "identity" => Ok(Encoding::Identity),
            "gzip" | "x-gzip" => Ok(Encoding::Gzip),
            "zstd" => Ok(Encoding::Zstd),
            other => Err(unsupported(format!(
                "content encoding is {other:?}, expected identity, gzip or zstd"
            ))),
        }
    }
}

impl Format {
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, Problem> {
        let Some(value) = headers.get(header::CONTENT_TYPE) else { return Ok(Format::Unstated) };
        let value = value.to_str().unwrap_or("?").to_ascii_lowercase();
        match value.split(';').next().unwrap_or_default().trim() {
            "" => Ok(Format::Unstated),
            "application/json" => Ok(Format::Json),
            "application/x-ndjson" | "application/ndjson" | "application/jsonl" => {
                Ok(Format::Lines)
            }
            other => Err(unsupported(format!(
                "content type is {other:?}, expected application/json or application/x-ndjson"
            ))
            .hint("with curl, add: -H 'content-type: application/json'")),
        }
    }
}

fn unsupported(detail: String) -> Problem {
    Problem::new(Kind::Invalid, "unsupported_media_type", detail)
        .status(StatusCode::UNSUPPORTED_MEDIA_TYPE)
}

fn too_large(what: &str, limit: usize) -> Problem {
    let detail = format!("body is larger than {limit} bytes {what}");
    Problem::new(Kind::Invalid, "body_too_large", detail)
        .status(StatusCode::PAYLOAD_TOO_LARGE)
        .with("limit_bytes", limit)
        .hint("send the events in several requests")
}

/// The length that the client states, refused at once if it is too large.
pub(crate) fn check_length(headers: &HeaderMap) -> Result<(), Problem> {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    match length.and_then(|length| length.parse::<usize>().ok()) {
        Some(length) if length > REQUEST_WIRE_BYTES_MAX => {
            Err(too_large("as sent", REQUEST_WIRE_BYTES_MAX))
        }
        _ => Ok(()),
    }
}

/// What the bodies of all requests may take of memory and time.
#[derive(Debug)]
pub(crate) struct Bodies {
    memory: Memory,
    time: Duration,
    stall: Duration,
}

/// What bodies may take of memory.
#[derive(Clone, Debug)]
struct Memory {
    free: Arc<Semaphore>,
    bytes: usize,
}

/// One request's part of the memory: it belongs to whoever reads the body, also on a thread that
/// goes on when the client has gone.
#[derive(Debug)]
pub(crate) struct Share {
    memory: Memory,
    held: OwnedSemaphorePermit,
}

impl Memory {
    /// Waiting slows the sender down.
    async fn acquire(&self, bytes: usize) -> Result<OwnedSemaphorePermit, Problem> {
        let share = u32::try_from(bytes).unwrap_or(u32::MAX);
        let wait = Duration::from_millis(INGEST_WAIT_MS_MAX);
        let free = Arc::clone(&self.free);
        match tokio::time::timeout(wait, free.acquire_many_owned(share)).await {
            Ok(Ok(held)) => Ok(held),
            _ => {
                let what = "request bodies take all memory that is set aside for them";
                Err(overloaded(what, "ingest_bytes", self.bytes))
            }
        }
    }
}

impl Bodies {
    pub(crate) fn of(config: &Config) -> Self {
        Bodies {
            memory: Memory {
                free: Arc::new(Semaphore::new(config.ingest_bytes)),
                bytes: config.ingest_bytes,
            },
            time: Duration::from_millis(config.body_ms),
            stall: Duration::from_millis(config.body_stall_ms),
        }
    }

    /// A share of `bytes`; it grows as the body arrives, so that a slow one holds what it has sent
    /// and no more.
    pub(crate) async fn share(&self, bytes: usize) -> Result<Share, Problem> {
        let held = self.memory.acquire(bytes).await?;
        Ok(Share { memory: self.memory.clone(), held })
    }

    /// The body as sent, within bounds of size and time, and the share that it has come to hold.
    pub(crate) async fn receive(
        &self,
        body: Body,
        mut share: Share,
    ) -> Result<(Bytes, Share), Problem> {
        let mut stream = body.into_data_stream();
        let received = tokio::time::timeout(self.time, self.collect(&mut stream, &mut share)).await;
        let late = |_| Err(too_slow(format!("did not arrive within {:?}", self.time), "body_ms"));
        match received.unwrap_or_else(late) {
            Ok(received) => Ok((received, share)),
            Err(problem) => {
                drop(share);
                self.discard(stream).await;
                Err(problem)
            }
        }
    }

    /// Reads what a refused client is still sending, within bounds: a client that only writes
    /// would otherwise see a broken pipe instead of its answer.
    pub(crate) async fn discard(&self, mut stream: BodyDataStream) {
        let stall = self.stall.min(DISCARD_STALL_MAX);
        let all = async {
            let mut seen = 0;
            while let Ok(Some(Ok(chunk))) = tokio::time::timeout(stall, stream.next()).await {
                seen += chunk.len();
                if seen > DISCARD_BYTES_MAX {
                    return;
                }
            }
        };
        let _over = tokio::time::timeout(self.time.min(DISCARD_TIME_MAX), all).await;
    }

    async fn collect(
        &self,
        stream: &mut BodyDataStream,
        share: &mut Share,
    ) -> Result<Bytes, Problem> {
        let (mut first, mut received) = (Bytes::new(), BytesMut::new());
        let stalled = |_| too_slow(format!("sent nothing for {:?}", self.stall), "body_stall_ms");
        while let Some(chunk) =
            tokio::time::timeout(self.stall, stream.next()).await.map_err(stalled)?
        {
            let len = first.len() + received.len();
            let chunk = chunk.map_err(|error| {
                let detail = format!("body broke off after {len} bytes: {error}");
                Problem::new(Kind::Invalid, "body_interrupted", detail)
            })?;
            if len + chunk.len() > REQUEST_WIRE_BYTES_MAX {
                return Err(too_large("as sent", REQUEST_WIRE_BYTES_MAX));
            }
            share.hold(len + chunk.len()).await?;
            // A body in one piece is not copied.
            if len == 0 {
                first = chunk;
                continue;
            }
            if received.is_empty() {
                received.extend_from_slice(&std::mem::take(&mut first));
            }
            received.extend_from_slice(&chunk);
        }
        Ok(if received.is_empty() { first } else { received.freeze() })
    }
}

impl Share {
    /// Grows to `bytes`.
    pub(crate) async fn hold(&mut self, bytes: usize) -> Result<(), Problem> {
        let more = bytes.saturating_sub(self.held.num_permits());
        if more > 0 {
            self.held.merge(self.memory.acquire(more).await?);
        }
        Ok(())
    }
}

fn too_slow(what: String, setting: &str) -> Problem {
    let detail = format!("body {what} (setting {setting}); nothing was stored");
    Problem::new(Kind::Invalid, "body_too_slow", detail)
        .status(StatusCode::REQUEST_TIMEOUT)
        .with("setting", setting)
        .hint("send smaller requests")
}

/// Undoes the compression, within bounds.
pub(crate) fn decompress(wire: Bytes, encoding: Encoding) -> Result<Bytes, Problem> {
    let plain = match encoding {
        Encoding::Identity => return Ok(wire),
        Encoding::Gzip => read_bounded(flate2::read::MultiGzDecoder::new(&wire[..])),
        Encoding::Zstd => zstd::stream::read::Decoder::new(&wire[..]).and_then(|mut decoder| {
            decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
            read_bounded(decoder)
        }),
    };
    let plain = plain.map_err(|error| {
        let detail = format!("body is no complete {encoding:?} stream: {error}").to_lowercase();
        Problem::new(Kind::Invalid, "bad_encoding", detail)
    })?;
    if plain.len() > REQUEST_BYTES_MAX {
        return Err(too_large("after decompression", REQUEST_BYTES_MAX));
    }
    Ok(plain.into())
}

fn read_bounded(reader: impl Read) -> io::Result<Vec<u8>> {
    let mut plain = Vec::new();
    reader.take(REQUEST_BYTES_MAX as u64 + 1).read_to_end(&mut plain)?;
    Ok(plain)
}

/// The body as text; the first broken byte is named.
pub(crate) fn utf8(plain: &[u8]) -> Result<&str, Problem> {
    std::str::from_utf8(plain).map_err(|error| {
        let offset = error.valid_up_to();
        Problem::new(Kind::Invalid, "invalid_utf8", format!("body is not utf-8 at byte {offset}"))
            .with("offset", offset)
    })
}
