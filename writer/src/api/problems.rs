//! Refusals of the writer as problem documents: the one file that maps its errors to HTTP.

use axum::http::StatusCode;
use sealcast_common::fault::Kind;
use sealcast_common::limits::PROBLEMS_LISTED_MAX;
use sealcast_common::serve::Problem;
use sealcast_common::wire::RejectedEvent;
use serde_json::Value;

use crate::handle::{AppendError, Busy, Poison};
use crate::router::SubmitError;
use crate::stage::Refused;

/// The codes of `FieldError` that a problem document may carry as its own.
const EVENT_CODES: [&str; 15] = [
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

/// A batch refused because of its events: the first one's code, index, field, found and expected,
/// and a list of the first ones.
pub(crate) fn bad_events(errors: &[RejectedEvent]) -> Problem {
    let Some(first) = errors.first() else {
        return Problem::new(Kind::Invalid, "invalid_events", "request holds bad events");
    };
    let code = EVENT_CODES.into_iter().find(|code| *code == first.error.code);
    let place = match first.line {
        Some(line) => format!("event {} (line {line})", first.index),
        None => format!("event {}", first.index),
    };
    let detail = format!("{place}: {}; nothing was stored", first.error);
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
        SubmitError::Refused(Refused::IdsReused(refused)) => {
            let errors: Vec<RejectedEvent> =
                refused.into_iter().map(|(index, error)| rejected(index, error, lines)).collect();
            bad_events(&errors).status(StatusCode::UNPROCESSABLE_ENTITY)
        }
        SubmitError::Refused(Refused::KeyReused) => {
            let detail = "idempotency key was sent before with another body; nothing was stored";
            Problem::new(Kind::Invalid, "idempotency_key_reused", detail)
                .status(StatusCode::UNPROCESSABLE_ENTITY)
                .hint("use a new key for every new request")
        }
        SubmitError::Refused(Refused::Encode(corruption)) => {
            Problem::new(Kind::Internal, "internal", corruption.to_string())
        }
        SubmitError::Failed(failed) => failed_shards(&failed, retry_is_safe),
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
        Busy::Full(_) => overloaded(format!("{busy}; nothing was stored")),
        Busy::Poisoned(shard, poison) => {
            poisoned(*shard, poison, "nothing of this request was stored")
        }
        Busy::Stopped(_) => draining(),
    }
}

/// Too much at once; nothing was written.
pub(crate) fn overloaded(detail: String) -> Problem {
    Problem::new(Kind::Overloaded, "overloaded", detail).retry_after(1)
}

/// The writer is ending.
pub(crate) fn draining() -> Problem {
    let detail = "writer is shutting down; nothing of this request was stored";
    Problem::new(Kind::Unavailable, "draining", detail).retry_after(5)
}

/// A shard takes no events any more.
pub(crate) fn poisoned(shard: u16, poison: &Poison, stored: &str) -> Problem {
    let detail = format!("shard {shard} takes no events: {poison}; {stored}");
    let (code, status) = if poison.disk_full {
        ("disk_full", StatusCode::INSUFFICIENT_STORAGE)
    } else {
        ("shard_poisoned", StatusCode::SERVICE_UNAVAILABLE)
    };
    Problem::new(Kind::Unavailable, code, detail)
        .status(status)
        .with("shard", shard)
        .with("cause", poison.cause.clone())
        .hint(poison.hint())
        .retry_after(30)
}

fn failed_shards(failed: &[(u16, AppendError)], retry_is_safe: bool) -> Problem {
    let stored = if retry_is_safe {
        "other parts of the request may be stored: a retry with the same key or event ids is safe"
    } else {
        "other parts of the request may be stored: a retry without an Idempotency-Key or event \
         ids of its own may store them twice"
    };
    let poison = failed.iter().find_map(|(shard, error)| match error {
        AppendError::Poisoned(poison) => Some((*shard, poison)),
        _ => None,
    });
    match poison {
        Some((shard, poison)) => poisoned(shard, poison, stored),
        None => {
            let detail = format!("{}; {stored}", SubmitError::Failed(failed.to_vec()));
            Problem::new(Kind::Unavailable, "not_acknowledged", detail).retry_after(1)
        }
    }
}
