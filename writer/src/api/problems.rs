//! Refusals of the writer as problem documents: the one file that maps its errors to HTTP.

use axum::http::StatusCode;
use sealcast_common::fault::Kind;
use sealcast_common::limits::{PROBLEMS_LISTED_MAX, REOPEN_MS_MAX};
use sealcast_common::serve::Problem;
use sealcast_common::wire::RejectedEvent;
use serde_json::Value;

use crate::fault::{Fault, FaultKind};
use crate::handle::{AppendError, Busy};
use crate::router::SubmitError;
use crate::stage::Refused;

/// The codes of `FieldError` that a problem document may carry as its own.
pub(crate) const EVENT_CODES: [&str; 15] = [
    "missing_field",
    "wrong_type",
    "too_long",
    "duplicate_key",
    "bad_uuid",
    "bad_time",
    "future_time",
    "bad_value",
    "conflicting_fields",
    "reserved_field",
    "unknown_field",
    "invalid_json",
    "too_deep",
    "bad_number",
    "event_id_reused",
];

const NOTHING_STORED: &str = "nothing was stored";
const PARTLY_STORED: &str = "its parts for other shards are stored";

/// A batch refused because of its events: the first one's code, index, field, found and expected,
/// and a list of the first ones.
pub(crate) fn bad_events(errors: &[RejectedEvent]) -> Problem {
    refused_events(errors, NOTHING_STORED)
}

fn refused_events(errors: &[RejectedEvent], stored: &str) -> Problem {
    let Some(first) = errors.first() else {
        return Problem::new(Kind::Invalid, "invalid_events", "request holds bad events");
    };
    let code = EVENT_CODES.into_iter().find(|code| *code == first.error.code);
    let place = match first.line {
        Some(line) => format!("event {} (line {line})", first.index),
        None => format!("event {}", first.index),
    };
    let detail = format!("{place}: {}; {stored}", first.error);
    let mut problem = Problem::new(Kind::Invalid, code.unwrap_or("invalid_events"), detail);
    if let Ok(Value::Object(members)) = serde_json::to_value(first) {
        // `code` is the document's own member already.
        problem.extra.extend(members.into_iter().filter(|(name, _)| name != "code"));
    }
    let listed = errors.get(..PROBLEMS_LISTED_MAX).unwrap_or(errors);
    problem
        .with("errors", serde_json::to_value(listed).unwrap_or_default())
        .with("errors_count", errors.len())
        .hint("correct the events, or add ?partial=true to store the good ones")
}

/// A request that the shards did not store.
pub(crate) fn not_stored(error: SubmitError, retry_is_safe: bool, lines: &[usize]) -> Problem {
    match error {
        SubmitError::Busy(busy) => busy_shard(&busy),
        SubmitError::Refused(refused) => for_good(refused, NOTHING_STORED, lines),
        SubmitError::RefusedInPart(refused) => for_good(refused, PARTLY_STORED, lines),
        SubmitError::Failed(failed) => failed_shards(&failed, retry_is_safe),
    }
}

/// No retry of the same request can succeed.
fn for_good(refused: Refused, stored: &str, lines: &[usize]) -> Problem {
    match refused {
        Refused::IdsReused(refused) => {
            let errors: Vec<RejectedEvent> =
                refused.into_iter().map(|(index, error)| rejected(index, error, lines)).collect();
            refused_events(&errors, stored).status(StatusCode::UNPROCESSABLE_ENTITY)
        }
        Refused::KeyReused => {
            let detail = format!("idempotency key was sent before with another body; {stored}");
            Problem::new(Kind::Invalid, "idempotency_key_reused", detail)
                .status(StatusCode::UNPROCESSABLE_ENTITY)
                .hint("use a new key for every new request")
        }
        Refused::Encode(corruption) => {
            Problem::new(Kind::Internal, "internal", corruption.to_string())
        }
    }
}

/// One refused event with its line.
pub(crate) fn rejected(
    index: u32,
    error: sealcast_common::event::FieldError,
    lines: &[usize],
) -> RejectedEvent {
    let index = index as usize;
    RejectedEvent { index, line: lines.get(index).copied(), error }
}

fn busy_shard(busy: &Busy) -> Problem {
    match busy {
        Busy::Requests(_, limit) => overloaded(&busy.to_string(), "queue_requests", *limit),
        Busy::Bytes(_, limit) => overloaded(&busy.to_string(), "queue_bytes", *limit),
        Busy::Faulty(shard, fault) => faulty(*shard, fault, "nothing of this request was stored"),
        Busy::Stopped(_) => draining(),
    }
}

/// Too much at once; nothing was written. `setting` is the limit's name in `[writer]`.
pub(crate) fn overloaded(what: &str, setting: &'static str, limit: usize) -> Problem {
    crate::metrics::refused(setting);
    let detail = format!("{what}; nothing was stored (setting {setting} is {limit})");
    Problem::new(Kind::Overloaded, "overloaded", detail)
        .with("limit", limit)
        .with("setting", setting)
        .hint("send it again after the time that Retry-After names; nothing needs to be changed")
        .retry_after(1)
}

/// The writer is ending.
pub(crate) fn draining() -> Problem {
    let detail = "writer is shutting down; nothing of this request was stored";
    Problem::new(Kind::Unavailable, "draining", detail).retry_after(5)
}

/// A shard takes no events now.
pub(crate) fn faulty(shard: u16, fault: &Fault, stored: &str) -> Problem {
    let detail = format!("shard {shard} takes no events: {fault}; {stored}");
    let (kind, code, status) = match fault.kind {
        FaultKind::DiskFull => (Kind::Unavailable, "disk_full", StatusCode::INSUFFICIENT_STORAGE),
        FaultKind::Suspended => {
            (Kind::Unavailable, "shard_suspended", StatusCode::SERVICE_UNAVAILABLE)
        }
        FaultKind::Overdue => (Kind::Unavailable, "seal_overdue", StatusCode::SERVICE_UNAVAILABLE),
        FaultKind::Poisoned => {
            (Kind::Unavailable, "shard_poisoned", StatusCode::SERVICE_UNAVAILABLE)
        }
        FaultKind::Corrupt => (Kind::Corrupt, "shard_corrupt", StatusCode::SERVICE_UNAVAILABLE),
    };
    let mut problem = Problem::new(kind, code, detail)
        .status(status)
        .with("shard", shard)
        .with("cause", fault.cause.clone())
        .hint(fault.kind.hint());
    if let Some(found) = &fault.corruption {
        problem = problem.with("check", found.check).with("file", found.object.clone());
        if let Some(offset) = found.offset {
            problem = problem.with("offset", offset);
        }
    }
    problem.retry_after(if fault.passes() { REOPEN_MS_MAX.div_ceil(1_000) } else { 30 })
}

fn failed_shards(failed: &[(u16, AppendError)], retry_is_safe: bool) -> Problem {
    let stored = if retry_is_safe {
        "other parts of the request may be stored: a retry with the same key or event ids is safe"
    } else {
        "other parts of the request may be stored: a retry without an Idempotency-Key or event \
         ids of its own may store them twice"
    };
    let fault = failed.iter().find_map(|(shard, error)| match error {
        AppendError::Faulty(fault) => Some((*shard, fault)),
        _ => None,
    });
    match fault {
        Some((shard, fault)) => faulty(shard, fault, stored),
        None => {
            let detail = format!("{}; {stored}", SubmitError::Failed(failed.to_vec()));
            Problem::new(Kind::Unavailable, "not_acknowledged", detail).retry_after(1)
        }
    }
}
