//! Every way in which a query is refused or fails, as a problem document. The only such map.

use axum::http::StatusCode;
use datafusion::common::SchemaError;
use datafusion::error::DataFusionError;
use sealcast_common::fault::{Corruption, Kind};
use sealcast_common::serve::{Problem, suggest};
use sealcast_vault::OpenError;
use serde_json::json;

use crate::sql::{NotBegun, Position, QueryError, SegmentUnavailable};

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
            Problem::new(Kind::Unavailable, "query_timeout", detail)
                .status(StatusCode::REQUEST_TIMEOUT)
                .with("timeout_ms", *timeout_ms)
                .hint("narrow it by tenant and time, or raise timeout_ms (setting: timeout_ms)")
        }
        QueryError::TooManyRows { max_rows } => {
            Problem::new(Kind::Invalid, "too_many_rows", detail)
                .status(StatusCode::PAYLOAD_TOO_LARGE)
                .with("max_rows", *max_rows)
                .hint("add LIMIT, or raise max_rows (setting: max_rows); nothing is cut silently")
        }
        QueryError::Panicked(_) => Problem::new(Kind::Internal, "internal", detail)
            .hint("the node goes on; please report the statement"),
    }
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
            if inner.is::<NotBegun>() {
                return Problem::new(Kind::Unavailable, "replica_starting", inner.to_string())
                    .retry_after(1)
                    .hint("retry, or pass min to wait; GET /readyz says what is missing");
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
            if text.contains("not found") && text.contains("table") {
                return problem.hint(
                    "tables: events, and sealcast.segments, sealcast.shards, \
                    sealcast.streams, sealcast.replicas, sealcast.queries (SHOW TABLES lists them)",
                );
            }
            problem.hint("DESCRIBE events lists the columns and their types")
        }
        DataFusionError::NotImplemented(_) => {
            Problem::new(Kind::Invalid, "not_supported", message).hint(READ_ONLY)
        }
        DataFusionError::Configuration(_) => Problem::new(Kind::Invalid, "plan_error", message),
        DataFusionError::ResourcesExhausted(_) => {
            Problem::new(Kind::Overloaded, "memory_exhausted", message)
                .status(StatusCode::SERVICE_UNAVAILABLE)
                .retry_after(1)
                .hint("narrow the query, or raise memory_bytes or spill_bytes of the replica")
        }
        DataFusionError::Execution(_) | DataFusionError::ArrowError(..) => {
            Problem::new(Kind::Invalid, "query_failed", message)
                .status(StatusCode::UNPROCESSABLE_ENTITY)
                .hint("a value does not allow what the statement does with it")
        }
        _ => Problem::new(Kind::Internal, "internal", message),
    }
}

/// What the session's own check says.
fn is_refusal(text: &str) -> bool {
    ["DDL not supported", "DML not supported", "Statement not supported"]
        .iter()
        .any(|refusal| text.starts_with(refusal))
}

fn segment(missing: &SegmentUnavailable) -> Problem {
    let problem = Problem::new(Kind::Unavailable, "segment_unavailable", missing.to_string())
        .with("segment", missing.source.segment())
        .with("shard", missing.shard)
        .with("range", json!([missing.start, missing.end]))
        .retry_after(5)
        .hint("retry, ask another replica, or accept an incomplete answer with allow_partial=true");
    match &missing.source {
        OpenError::Quarantined { corruption, .. } => problem.with("check", corruption.check),
        _ => problem,
    }
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
