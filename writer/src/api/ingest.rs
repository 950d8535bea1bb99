//! `POST /v1/events`: from bytes to durable events, or to a refusal that says what to change.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Request, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use sealcast_common::clock::Micros;
use sealcast_common::event::{ParseContext, parse_event};
use sealcast_common::fault::Kind;
use sealcast_common::integrity::keyed_digest;
use sealcast_common::limits::{
    IDEMPOTENCY_KEY_BYTES_MAX, INGEST_WAIT_MS_MAX, PROBLEMS_LISTED_MAX, REQUEST_BYTES_MAX,
};
use sealcast_common::routing::FIRST_ROUTING_VERSION;
use sealcast_common::serve::Problem;
use sealcast_common::wire::{AcceptedEvent, IngestResponse, RejectedEvent, Token, Vector};
use tokio::sync::SemaphorePermit;

use super::body::{Encoding, Format, decompress, discard, receive, stated_length, utf8};
use super::query::{flag, parameters};
use super::split::split;
use super::{Api, problems};
use crate::ids::Ids;
use crate::router::{Stored, Submission};
use crate::stage::RequestKey;
use crate::window::Arrival;

/// The header under which a request can be repeated safely.
const KEY_HEADER: &str = "idempotency-key";
/// A body up to this size is read on the spot; a larger one on a thread, so that it stalls nobody.
const SMALL_BODY_BYTES: usize = 32 * 1024;
/// What a request counts for at least, however small its body.
const REQUEST_BYTES_LEAST: usize = 4 * 1024;

/// What a request says before its body.
#[derive(Clone, Debug)]
struct Asked {
    partial: bool,
    encoding: Encoding,
    format: Format,
    key: Option<String>,
    length: Option<usize>,
}

impl Asked {
    fn read(parts: &Parts) -> Result<Self, Problem> {
        let mut asked = Asked {
            partial: false,
            encoding: Encoding::of(&parts.headers)?,
            format: Format::of(&parts.headers)?,
            key: idempotency_key(&parts.headers)?,
            length: stated_length(&parts.headers)?,
        };
        for (name, value) in parameters(&parts.uri, &["partial"])? {
            asked.partial = flag(&name, &value)?;
        }
        Ok(asked)
    }

    /// What the body may grow to while it is held and read.
    fn bytes_bound(&self) -> usize {
        match (self.encoding, self.length) {
            (Encoding::Identity, Some(length)) => length.max(REQUEST_BYTES_LEAST),
            _ => REQUEST_BYTES_MAX,
        }
    }
}

/// A body, read: the good events, and what is wrong with the others.
struct Parsed {
    arrivals: Vec<Arrival>,
    rejected: Vec<RejectedEvent>,
    /// Line of every event by its index; empty where there are no lines.
    lines: Vec<usize>,
    body_digest: [u8; 32],
}

/// The handler.
pub(super) async fn post_events(State(api): State<Arc<Api>>, request: Request<Body>) -> Response {
    let response = match ingest(&api, request).await {
        Ok(answer) => Json(answer).into_response(),
        Err(problem) => problem.into_response(),
    };
    crate::metrics::answered(response.status().as_u16());
    response
}

async fn ingest(api: &Arc<Api>, request: Request<Body>) -> Result<IngestResponse, Problem> {
    if api.stop.is_cancelled() {
        return Err(problems::draining());
    }
    let (parts, body) = request.into_parts();
    let asked = match api.check_route(&parts.headers).and_then(|()| Asked::read(&parts)) {
        Ok(asked) => asked,
        Err(problem) => {
            // Who asked first (`Expect: 100-continue`) has sent nothing yet.
            if !parts.headers.contains_key(header::EXPECT) {
                discard(body.into_data_stream()).await;
            }
            return Err(problem);
        }
    };
    let share = take_share(api, asked.bytes_bound()).await?;
    let wire = receive(body).await?;
    crate::metrics::received(wire.len());
    let parsed = parse(api, wire, &asked).await?;
    drop(share);
    if !asked.partial && !parsed.rejected.is_empty() {
        crate::metrics::events(0, 0, parsed.rejected.len());
        return Err(problems::bad_events(&parsed.rejected));
    }
    let Parsed { arrivals, mut rejected, lines, body_digest } = parsed;
    let retry_is_safe =
        asked.key.is_some() || arrivals.iter().all(|arrival| arrival.claim.is_some());
    let request = asked.key.map(|key| RequestKey { key, body_digest });
    let submission = Submission { arrivals, request, partial: asked.partial };
    let stored = api
        .router
        .submit(submission)
        .await
        .map_err(|error| problems::not_stored(error, retry_is_safe, &lines))?;
    for (index, error) in &stored.refused {
        rejected.push(problems::rejected(*index, error.clone(), &lines));
    }
    rejected.sort_by_key(|rejected| rejected.index);
    Ok(answer(&stored, rejected))
}

/// A share of the memory that bodies may take; waiting for it slows the sender down.
async fn take_share(api: &Api, bytes: usize) -> Result<SemaphorePermit<'_>, Problem> {
    let share = u32::try_from(bytes).unwrap_or(u32::MAX);
    let wait = Duration::from_millis(INGEST_WAIT_MS_MAX);
    match tokio::time::timeout(wait, api.bodies.acquire_many(share)).await {
        Ok(Ok(share)) => Ok(share),
        _ => Err(problems::overloaded("request bodies take all memory set aside".to_owned())),
    }
}

async fn parse(api: &Arc<Api>, wire: Bytes, asked: &Asked) -> Result<Parsed, Problem> {
    if wire.len() <= SMALL_BODY_BYTES && asked.encoding == Encoding::Identity {
        return parse_here(api, wire, asked);
    }
    let (api, asked) = (Arc::clone(api), asked.clone());
    let parsed = tokio::task::spawn_blocking(move || parse_here(&api, wire, &asked)).await;
    parsed.unwrap_or_else(|error| {
        Err(Problem::new(Kind::Internal, "internal", format!("body cannot be read: {error}")))
    })
}

fn parse_here(api: &Api, wire: Bytes, asked: &Asked) -> Result<Parsed, Problem> {
    let plain = decompress(wire, asked.encoding)?;
    let texts = split(utf8(&plain)?, asked.format)?;
    let now = api.clock.now();
    let mut ids = Ids::new(now, &*api.random);
    let (mut arrivals, mut rejected) = (Vec::with_capacity(texts.len()), Vec::new());
    let mut lines = Vec::new();
    for (index, event) in texts.into_iter().enumerate() {
        lines.extend(event.line);
        match arrival(index, event.text, now, ids.next(), api.future_micros) {
            Ok(arrival) => arrivals.push(arrival),
            Err(error) => rejected.push(RejectedEvent { index, line: event.line, error }),
        }
    }
    let body_digest = keyed_digest("request body", &plain);
    Ok(Parsed { arrivals, rejected, lines, body_digest })
}

fn arrival(
    index: usize,
    text: &str,
    now: Micros,
    fresh_id: [u8; 16],
    future_micros_max: i64,
) -> Result<Arrival, sealcast_common::event::FieldError> {
    let event = parse_event(text, &ParseContext { now, fresh_id, future_micros_max })?;
    // A client that states exactly the writer's microsecond gets the ingest time of the same
    // moment: nothing that it could tell apart.
    let time_stated = event.time != now;
    let claim = (event.event_id != fresh_id).then(|| event.claim_digest());
    let index = u32::try_from(index).unwrap_or(u32::MAX);
    Ok(Arrival { index, event, claim, time_stated, bytes: text.len() })
}

fn answer(stored: &Stored, mut rejected: Vec<RejectedEvent>) -> IngestResponse {
    let rejected_count = rejected.len();
    rejected.truncate(PROBLEMS_LISTED_MAX);
    crate::metrics::events(stored.placed.len(), stored.duplicates, rejected_count);
    let mut vector = Vector::new();
    for (shard, placed) in &stored.placed {
        let size = vector.entry(*shard).or_default();
        *size = placed.seq.saturating_add(1).max(*size);
    }
    let events = stored.placed.iter().map(|(shard, placed)| AcceptedEvent {
        event_id: uuid::Uuid::from_bytes(placed.event_id).to_string(),
        shard: *shard,
        seq: placed.seq,
    });
    IngestResponse {
        accepted: stored.placed.len(),
        duplicates: stored.duplicates,
        rejected,
        rejected_count,
        events: events.collect(),
        routing_version: FIRST_ROUTING_VERSION,
        token: Token(vector).to_text(),
    }
}

fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let Some(value) = headers.get(KEY_HEADER) else { return Ok(None) };
    let bytes = value.as_bytes();
    let visible = bytes.iter().all(|byte| (0x21..=0x7e).contains(byte));
    if (1..=IDEMPOTENCY_KEY_BYTES_MAX).contains(&bytes.len()) && visible {
        return Ok(Some(String::from_utf8_lossy(bytes).into_owned()));
    }
    let found = if visible { "a key of another length" } else { "other bytes" };
    let detail = format!(
        "header Idempotency-Key holds {found} ({} bytes), expected 1 to \
         {IDEMPOTENCY_KEY_BYTES_MAX} visible ASCII characters",
        bytes.len()
    );
    Err(Problem::new(Kind::Invalid, "bad_idempotency_key", detail).status(StatusCode::BAD_REQUEST))
}
