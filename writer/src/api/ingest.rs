//! `POST /v1/events`: from bytes to durable events, or to a refusal that says what to change.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{FromRequestParts as _, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Request, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use sealcast_common::clock::Micros;
use sealcast_common::event::{EventReader, FieldError, ParseContext};
use sealcast_common::fault::{Kind, hex};
use sealcast_common::integrity::keyed_digest;
use sealcast_common::limits::{IDEMPOTENCY_KEY_BYTES_MAX, PROBLEMS_LISTED_MAX, REQUEST_BYTES_MAX};
use sealcast_common::routing::FIRST_ROUTING_VERSION;
use sealcast_common::serve::Problem;
use sealcast_common::serve::access::{Caller, Denied, Grant};
use sealcast_common::wire::{AcceptedEvent, IngestResponse, RejectedEvent, Token, Vector};
use tokio::task::JoinError;

use super::body::{Encoding, Format, Share, check_length, decompress, utf8};
use super::query::{flag, parameters};
use super::split::split;
use super::{Api, problems};
use crate::ids::Ids;
use crate::router::{Stored, Submission, SubmitError};
use crate::stage::RequestKey;
use crate::window::{Arrival, Claim, id_key};

/// The header under which a request can be repeated safely.
const KEY_HEADER: &str = "idempotency-key";
/// A body up to this size is read on the spot; a larger one on a thread, so that it stalls nobody.
const SMALL_BODY_BYTES: usize = 32 * 1024;
/// The time of an event that states none: no client can state it.
const UNSTATED: Micros = Micros(i64::MIN);
/// What a request counts for at least, however small its body.
const REQUEST_BYTES_LEAST: usize = 4 * 1024;

/// What a request says before its body.
#[derive(Clone, Debug)]
struct Asked {
    partial: bool,
    encoding: Encoding,
    format: Format,
    key: Option<String>,
}

impl Asked {
    fn read(parts: &Parts, grant: &Grant) -> Result<Self, Problem> {
        check_length(&parts.headers)?;
        let mut asked = Asked {
            partial: false,
            encoding: Encoding::of(&parts.headers)?,
            format: Format::of(&parts.headers)?,
            key: idempotency_key(&parts.headers)?.map(|key| own_key(key, grant)),
        };
        for (name, value) in parameters(&parts.uri, &["partial"])? {
            asked.partial = flag(&name, &value)?;
        }
        Ok(asked)
    }
}

/// A body, read: the good events, and what is wrong with the others.
struct Parsed {
    arrivals: Vec<Arrival>,
    rejected: Vec<RejectedEvent>,
    /// Line of every event by its index; empty where there are no lines.
    lines: Vec<usize>,
    request: Option<RequestKey>,
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
    let (mut parts, body) = request.into_parts();
    let Caller(grant) = Caller::from_request_parts(&mut parts, &()).await?;
    let asked = api.check_route(&parts.headers).and_then(|()| Asked::read(&parts, &grant));
    let begun = match asked {
        Ok(asked) => api.bodies.share(REQUEST_BYTES_LEAST).await.map(|share| (asked, share)),
        Err(problem) => Err(problem),
    };
    let (asked, share) = match begun {
        Ok(begun) => begun,
        Err(problem) => {
            // Who asked first (`Expect: 100-continue`) has sent nothing yet.
            if !parts.headers.contains_key(header::EXPECT) {
                api.bodies.discard(body.into_data_stream()).await;
            }
            return Err(problem);
        }
    };
    let (wire, mut share) = api.bodies.receive(body, share).await?;
    if asked.encoding != Encoding::Identity {
        share.hold(wire.len() + REQUEST_BYTES_MAX).await?;
    }
    crate::metrics::received(wire.len());
    let parsed = parse(api, wire, &asked, share).await?;
    check_tenants(&grant, &parsed)?;
    if !asked.partial && !parsed.rejected.is_empty() {
        crate::metrics::events(0, 0, parsed.rejected.len());
        return Err(problems::bad_events(&parsed.rejected));
    }
    let Parsed { arrivals, mut rejected, lines, request } = parsed;
    let retry_is_safe = request.is_some() || arrivals.iter().all(|arrival| arrival.claim.is_some());
    let submission = Submission { arrivals, request, partial: asked.partial };
    let stored = submit(api, submission).await?.map_err(|error| {
        let error = if grant.is_limited() { error.concealed() } else { error };
        problems::not_stored(error, retry_is_safe, &lines)
    })?;
    for (index, error) in &stored.refused {
        rejected.push(problems::rejected(*index, error.clone(), &lines));
    }
    rejected.sort_by_key(|rejected| rejected.index);
    Ok(answer(&stored, rejected))
}

/// On a task of its own: whoever hangs up takes nothing back, so its key stays held until the
/// request has ended.
async fn submit(
    api: &Arc<Api>,
    submission: Submission,
) -> Result<Result<Stored, SubmitError>, Problem> {
    let api = Arc::clone(api);
    let stored = tokio::spawn(async move { api.router.submit(submission).await }).await;
    stored.map_err(|error| broke_off("request", &error))
}

/// A defect of the writer's own.
fn broke_off(what: &str, error: &JoinError) -> Problem {
    Problem::new(Kind::Internal, "internal", format!("{what} broke off: {error}"))
}

/// One event of another tenant refuses the request, `partial` or not: nobody tries tenants out.
fn check_tenants(grant: &Grant, parsed: &Parsed) -> Result<(), Problem> {
    let foreign = parsed.arrivals.iter().find(|arrival| !grant.allows(&arrival.event.tenant));
    let Some(foreign) = foreign else { return Ok(()) };
    let problem = Denied::TenantDenied.problem();
    let problem = problem.with("index", foreign.index).with("field", "tenant");
    Err(match parsed.lines.get(foreign.index as usize) {
        Some(line) => problem.with("line", *line),
        None => problem,
    })
}

async fn parse(
    api: &Arc<Api>,
    wire: Bytes,
    asked: &Asked,
    share: Share,
) -> Result<Parsed, Problem> {
    if wire.len() <= SMALL_BODY_BYTES && asked.encoding == Encoding::Identity {
        return parse_here(api, wire, asked);
    }
    let (api, asked) = (Arc::clone(api), asked.clone());
    let parsed = tokio::task::spawn_blocking(move || {
        let parsed = parse_here(&api, wire, &asked);
        drop(share);
        parsed
    });
    parsed.await.unwrap_or_else(|error| Err(broke_off("reading the body", &error)))
}

fn parse_here(api: &Api, wire: Bytes, asked: &Asked) -> Result<Parsed, Problem> {
    let plain = decompress(wire, asked.encoding)?;
    let texts = split(utf8(&plain)?, asked.format)?;
    let now = api.clock.now();
    let (mut ids, mut reader) = (Ids::new(now, &*api.random), EventReader::default());
    let (mut arrivals, mut rejected) = (Vec::with_capacity(texts.len()), Vec::new());
    let mut lines = Vec::new();
    for (index, event) in texts.into_iter().enumerate() {
        lines.extend(event.line);
        let (time, fresh_id) = (UNSTATED, ids.next());
        let context = ParseContext { now, time, fresh_id, future_micros_max: api.future_micros };
        match arrival(index, event.text, &context, &mut reader) {
            Ok(arrival) => arrivals.push(arrival),
            Err(error) => rejected.push(RejectedEvent { index, line: event.line, error }),
        }
    }
    let request = asked.key.clone().map(|key| {
        let body_digest = keyed_digest("request body", &plain);
        RequestKey { key, body_digest }
    });
    Ok(Parsed { arrivals, rejected, lines, request })
}

fn arrival<'a>(
    index: usize,
    text: &'a str,
    context: &ParseContext,
    reader: &mut EventReader<'a>,
) -> Result<Arrival, FieldError> {
    let (event, prepared) = reader.read(text, context)?;
    let time_stated = event.time != UNSTATED;
    let claim = (event.event_id != context.fresh_id).then(|| Claim {
        key: id_key(&event.tenant, event.event_id),
        digest: prepared.claim_digest(),
    });
    let index = u32::try_from(index).unwrap_or(u32::MAX);
    Ok(Arrival { index, event, prepared, claim, time_stated })
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

/// The key as it is remembered: whoever is limited to other tenants can neither meet nor try it.
/// Not by token, so that a request can be repeated with the next token of the same client.
fn own_key(key: String, grant: &Grant) -> String {
    if !grant.is_limited() {
        return key;
    }
    let said = [&grant.tenants.digest()[..], key.as_bytes()].concat();
    hex(&keyed_digest("idempotency key of tenants", &said))
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
