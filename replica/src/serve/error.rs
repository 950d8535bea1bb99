//! Every way in which a query is refused or fails, as a problem document. The only such map.

use axum::http::StatusCode;
use datafusion::common::SchemaError;
use datafusion::error::DataFusionError;
use sealcast_common::bucket::RowLogError;
use sealcast_common::fault::{Corruption, Kind};
use sealcast_common::serve::{Problem, suggest};
use sealcast_vault::{OpenError, ProveError};
use serde_json::json;

use crate::sql::{
    Bound, NotBegun, OverBound, Position, QueryError, SegmentUnavailable, Stale, tables,
};

/// Characters of an engine's message that are passed on.
const MESSAGE_CHARS_MAX: usize = 2_000;

/// The problem that `error` is.
pub(crate) fn problem(error: &QueryError) -> Problem {
    let detail = error.to_string();
    match error {
        QueryError::Syntax { position, .. } => {
            at(Problem::new(Kind::Invalid, "syntax_error", detail), *position)
        }
        QueryError::NotAllowed { position, .. } => {
            let problem = Problem::new(Kind::Invalid, "statement_not_allowed", detail);
            at(problem, *position).hint(READ_ONLY)
        }
        QueryError::TooLarge { what, max, .. } => {
            Problem::new(Kind::Invalid, "sql_too_large", detail)
                .status(StatusCode::PAYLOAD_TOO_LARGE)
                .hint(format!(
                    "at most {max} {what}; pass long lists as a join or in several queries"
                ))
        }
        QueryError::Parameter { name, found, expected } => {
            Problem::new(Kind::Invalid, "parameter_invalid", detail)
                .status(StatusCode::UNPROCESSABLE_ENTITY)
                .with("field", name.as_str())
                .with("found", found.as_str())
                .with("expected", expected.as_str())
        }
        QueryError::Engine(error) => engine(error),
        QueryError::Cancelled => Problem::new(Kind::Conflict, "query_cancelled", detail),
        QueryError::Timeout { timeout_ms } => {
            let problem = Problem::new(Kind::Unavailable, "query_timeout", detail);
            limited(problem, "timeout_ms", *timeout_ms)
                .status(StatusCode::REQUEST_TIMEOUT)
                .with("timeout_ms", *timeout_ms)
                .hint("narrow it by tenant and time, or raise timeout_ms (setting: timeout_ms)")
        }
        QueryError::OverBound(over) => over_bound(*over),
        QueryError::Panicked(_) => Problem::new(Kind::Internal, "internal", detail)
            .hint("the node goes on; please report the statement"),
    }
}

/// A refusal by a bound: which setting it is, and its value.
pub(crate) fn limited(problem: Problem, setting: &'static str, limit: u64) -> Problem {
    problem.with("setting", setting).with("limit", limit)
}

fn over_bound(over: OverBound) -> Problem {
    let (code, what) = match over.bound {
        Bound::Rows => ("too_many_rows", "add LIMIT"),
        Bound::ResultBytes => ("result_too_large", "ask for fewer rows or columns"),
        Bound::ScannedBytes => ("scan_too_large", "narrow it by tenant and time, name its columns"),
    };
    let setting = over.bound.setting();
    limited(Problem::new(Kind::Invalid, code, over.to_string()), setting, over.max)
        .status(StatusCode::PAYLOAD_TOO_LARGE)
        .hint(format!("{what}, or raise {setting}; nothing is cut silently"))
}

const READ_ONLY: &str = "this server only reads: events come in through the writer, and files are never opened from sql";

fn at(problem: Problem, position: Option<Position>) -> Problem {
    match position {
        Some(Position { line, column }) => {
            problem.with("position", json!({ "line": line, "column": column }))
        }
        None => problem,
    }
}

fn engine(error: &DataFusionError) -> Problem {
    let position = error
        .diagnostic()
        .and_then(|diagnostic| diagnostic.span)
        .map(|span| Position { line: span.start.line, column: span.start.column });
    at(root(error), position)
}

/// The innermost cause decides.
fn root(error: &DataFusionError) -> Problem {
    let cause = error.find_root();
    let message: String = cause.strip_backtrace().chars().take(MESSAGE_CHARS_MAX).collect();
    match cause {
        DataFusionError::Diagnostic(_, inner) | DataFusionError::Context(_, inner) => root(inner),
        DataFusionError::Shared(inner) => root(inner),
        DataFusionError::Collection(errors) => match errors.first() {
            Some(first) => root(first),
            None => Problem::new(Kind::Internal, "internal", message),
        },
        DataFusionError::External(inner) => {
            if let Some(missing) = inner.downcast_ref::<SegmentUnavailable>() {
                return segment(missing);
            }
            if let Some(over) = inner.downcast_ref::<OverBound>() {
                return over_bound(*over);
            }
            if let Some(old) = inner.downcast_ref::<Stale>() {
                return stale(*old);
            }
            if inner.is::<NotBegun>() {
                return not_begun();
            }
            if let Some(error) = inner.downcast_ref::<ProveError>() {
                return proving(error);
            }
            if let Some(corruption) = inner.downcast_ref::<Corruption>() {
                return Problem::new(Kind::Corrupt, "segment_corrupt", corruption.to_string())
                    .with("check", corruption.check);
            }
            Problem::new(Kind::Internal, "internal", message)
        }
        DataFusionError::SchemaError(schema, _) => unknown_column(schema, message),
        DataFusionError::SQL(..) => Problem::new(Kind::Invalid, "syntax_error", message),
        DataFusionError::Plan(text) if is_refusal(text) => {
            Problem::new(Kind::Invalid, "statement_not_allowed", message).hint(READ_ONLY)
        }
        DataFusionError::Plan(text) => {
            let problem = Problem::new(Kind::Invalid, "plan_error", message);
            if text.starts_with("Invalid function") || text.starts_with("table function") {
                return Problem { code: "unknown_function", ..problem }
                    .hint("docs/http.md names ours; the others are DataFusion's");
            }
            if text.contains("not found") && text.contains("table") {
                return unknown_table(text);
            }
            problem.hint("DESCRIBE events lists the columns and their types")
        }
        DataFusionError::NotImplemented(_) => {
            Problem::new(Kind::Invalid, "not_supported", message).hint(READ_ONLY)
        }
        DataFusionError::Configuration(_) => Problem::new(Kind::Invalid, "plan_error", message),
        DataFusionError::ResourcesExhausted(text) => exhausted(text, &message),
        DataFusionError::Execution(_) | DataFusionError::ArrowError(..) => {
            failed(message).hint("a value does not allow what the statement does with it")
        }
        DataFusionError::Internal(text) if text.contains(OUT_OF_PLACE) => {
            let detail = "sealcast_proof cannot stand in this place";
            Problem::new(Kind::Invalid, "not_supported", detail)
                .hint("select it, or filter by it, in a subquery")
        }
        // The engine takes a pattern that it cannot compile for a defect of its own.
        DataFusionError::Internal(text) if text.contains(BAD_PATTERN) => {
            let told = text.split_once(BAD_PATTERN).map_or("", |(_, told)| told);
            let told: String = told.lines().next().unwrap_or_default().chars().take(200).collect();
            failed(format!("{BAD_PATTERN}{told}"))
                .hint("a pattern must be a regular expression, of at most 10 MiB when compiled")
        }
        _ => Problem::new(Kind::Internal, "internal", message),
    }
}

pub(crate) fn stale(stale: Stale) -> Problem {
    let problem = Problem::new(Kind::Unavailable, "replica_stale", stale.to_string());
    limited(problem, "max_staleness_ms", stale.max_ms)
        .with("age_ms", stale.age_ms)
        .retry_after(5)
        .hint("ask another replica, or accept what is here with allow_stale=true")
}

pub(crate) fn not_begun() -> Problem {
    Problem::new(Kind::Unavailable, "replica_starting", NotBegun.to_string())
        .retry_after(1)
        .hint("retry, or pass min to wait; GET /readyz says what is missing")
}

/// The same for a row that is not there and for one that is not the caller's.
pub(super) fn unknown_row(shard: u16, seq: u64) -> Problem {
    let detail = format!("row {seq} of shard {shard} is not known here");
    Problem::new(Kind::Invalid, "unknown_row", detail)
        .status(StatusCode::NOT_FOUND)
        .with("shard", shard)
        .with("seq", seq)
        .hint("was it shipped? pass min to wait for it")
}

/// Why rows are not proved.
pub(super) fn proving(error: &ProveError) -> Problem {
    let detail = error.to_string();
    match error {
        ProveError::Segment { shard, start, end, source } => {
            not_available((*shard, *start, *end), source, detail)
                .hint("retry, or ask another replica")
        }
        ProveError::Row(corruption) => {
            Problem::new(Kind::Corrupt, "segment_corrupt", detail).with("check", corruption.check)
        }
        ProveError::TooLarge { max } => Problem::new(Kind::Invalid, "result_too_large", detail)
            .status(StatusCode::PAYLOAD_TOO_LARGE)
            .with("limit", *max as u64)
            .hint("ask for fewer rows at a time"),
        ProveError::Log(RowLogError::Beyond { shard, size, asked }) => {
            Problem::new(Kind::Invalid, "unknown_row", detail)
                .status(StatusCode::NOT_FOUND)
                .with("shard", *shard)
                .with("size", *size)
                .with("asked", *asked)
                .hint("was it shipped? pass min to wait for it")
        }
        ProveError::Log(RowLogError::Store(_)) => {
            Problem::new(Kind::Unavailable, "tiles_unavailable", detail)
                .retry_after(5)
                .hint("is the store reachable? rows are served without it, proofs are not")
        }
        ProveError::Log(RowLogError::Missing { key }) => {
            Problem::new(Kind::Unavailable, "tiles_unavailable", detail)
                .with("object", key.as_str())
                .hint("`sealcast store mend URL` makes tiles again from the rows")
        }
        ProveError::Log(RowLogError::Corrupt(corruption)) => {
            let object = corruption.object.as_str();
            tiles_corrupt(detail, corruption.check).with("object", object)
        }
        ProveError::Log(RowLogError::Proof { .. }) => tiles_corrupt(detail, "tile"),
    }
}

fn tiles_corrupt(detail: String, check: &'static str) -> Problem {
    Problem::new(Kind::Corrupt, "tiles_corrupt", detail).with("check", check).hint(
        "rows are not concerned: somebody has changed tiles in the store, or it has lost bytes; `sealcast store mend URL` makes them again from the rows",
    )
}

/// What the engine says of a function that waits, where it may not.
const OUT_OF_PLACE: &str = "async functions should not be called directly";

/// What the engine says of a regular expression.
const BAD_PATTERN: &str = "Regular expression did not compile";

fn failed(message: String) -> Problem {
    Problem::new(Kind::Invalid, "query_failed", message).status(StatusCode::UNPROCESSABLE_ENTITY)
}

/// The pools and the disk say which of them it was in their message only.
fn exhausted(text: &str, message: &str) -> Problem {
    let setting = if text.contains("query_memory_bytes") {
        "query_memory_bytes"
    } else if text.contains("disk space") || text.contains("spill") {
        "spill_bytes"
    } else {
        "memory_bytes"
    };
    Problem::new(Kind::Overloaded, "memory_exhausted", message)
        .status(StatusCode::SERVICE_UNAVAILABLE)
        .retry_after(1)
        .with("setting", setting)
        .hint(format!("narrow the query, or raise {setting} of the replica"))
}

/// The same for a caller who may not see all tenants: no names, places and sizes of files, no
/// bytes that a check has found, nobody else's load.
pub(crate) fn concealed(problem: Problem) -> Problem {
    let detail = match problem.code {
        "segment_unavailable" => "rows that the query needs are not available",
        "segment_corrupt" => "rows that the query needs are corrupt and not served",
        "tiles_unavailable" => "what proofs are made of is not available",
        "tiles_corrupt" => "what proofs are made of is corrupt: no proof is given",
        "memory_exhausted" => "query needs more memory than it may use",
        "internal" => "query failed inside the engine",
        _ => return problem,
    };
    let kept = problem.extra.get("setting").cloned();
    let extra = kept.map(|setting| ("setting".to_owned(), setting)).into_iter().collect();
    Problem { detail: detail.to_owned(), extra, ..problem }
}

/// What the session's own check says.
fn is_refusal(text: &str) -> bool {
    ["DDL not supported", "DML not supported", "Statement not supported"]
        .iter()
        .any(|refusal| text.starts_with(refusal))
}

fn segment(missing: &SegmentUnavailable) -> Problem {
    let place = (missing.shard, missing.start, missing.end);
    not_available(place, &missing.source, missing.to_string())
        .hint("retry, ask another replica, or accept an incomplete answer with allow_partial=true")
}

fn not_available(
    (shard, start, end): (u16, u64, u64),
    source: &OpenError,
    detail: String,
) -> Problem {
    let problem = Problem::new(Kind::Unavailable, "segment_unavailable", detail)
        .with("segment", source.segment())
        .with("shard", shard)
        .with("range", json!([start, end]))
        .retry_after(5);
    match source {
        OpenError::Quarantined { corruption, .. } => problem.with("check", corruption.check),
        _ => problem,
    }
}

fn unknown_table(text: &str) -> Problem {
    // The engine's name of it is complete: database, schema, table.
    let name = text.split('\'').nth(1).unwrap_or_default();
    let name = name.strip_prefix("sealcast.").unwrap_or(name);
    let name: String = name.strip_prefix("public.").unwrap_or(name).chars().take(64).collect();
    let known: Vec<String> = tables().collect();
    let hint = match suggest(&name.to_lowercase(), known.iter().map(String::as_str)) {
        Some(close) => format!("did you mean {close}?"),
        None => "tables lists what there is".to_owned(),
    };
    Problem::new(Kind::Invalid, "unknown_table", format!("table {name} does not exist"))
        .with("tables", known)
        .hint(hint)
}

fn unknown_column(schema: &SchemaError, message: String) -> Problem {
    let SchemaError::FieldNotFound { field, valid_fields } = schema else {
        return Problem::new(Kind::Invalid, "plan_error", message);
    };
    let columns: Vec<&str> = valid_fields.iter().map(|column| column.name.as_str()).collect();
    let name = field.name.to_lowercase();
    let hint = match suggest(&name, columns.iter().copied()) {
        Some(close) => format!("did you mean {close}?"),
        None => "columns lists what there is".to_owned(),
    };
    Problem::new(Kind::Invalid, "unknown_column", format!("column {} does not exist", field.name))
        .with("field", field.name.as_str())
        .with("columns", columns)
        .hint(hint)
}
