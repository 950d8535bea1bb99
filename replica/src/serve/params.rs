//! What a request may say, from its body, its URL and its headers.

use std::sync::Arc;

use axum::http::{HeaderMap, StatusCode, header};
use sealcast_common::fault::Kind;
use sealcast_common::limits::WAIT_MS_MAX;
use sealcast_common::serve::access::Grant;
use sealcast_common::serve::{Problem, suggest};
use sealcast_common::wire::Token;
use serde::Deserialize;
use uuid::Uuid;

use super::format::Format;
use crate::sql::Params;

/// The keys of body and URL.
pub(super) const KEYS: [&str; 12] = [
    "sql",
    "q",
    "params",
    "format",
    "timeout_ms",
    "max_rows",
    "min",
    "as_of",
    "wait_ms",
    "allow_partial",
    "allow_stale",
    "end_marker",
];

/// Body or URL as it came.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Stated {
    sql: Option<String>,
    q: Option<String>,
    params: Option<Params>,
    format: Option<String>,
    timeout_ms: Option<u64>,
    max_rows: Option<u64>,
    min: Option<String>,
    as_of: Option<String>,
    wait_ms: Option<u64>,
    allow_partial: Option<bool>,
    allow_stale: Option<bool>,
    end_marker: Option<bool>,
}

/// What is wanted of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asks {
    Rows,
    /// Its columns, without running it.
    Columns,
    /// The same of one whose parameters are given later.
    Places,
}

/// A query, validated.
#[derive(Debug)]
pub(crate) struct QueryRequest {
    pub(crate) sql: String,
    pub(crate) params: Option<Params>,
    pub(crate) asks: Asks,
    pub(crate) format: Format,
    pub(crate) timeout_ms: Option<u64>,
    pub(crate) max_rows: Option<u64>,
    pub(crate) min: Option<Token>,
    /// Where an answer stood that is wanted again, as it was told.
    pub(crate) as_of: Option<String>,
    pub(crate) wait_ms: Option<u64>,
    pub(crate) allow_partial: bool,
    /// Answer also where nobody knows how old the answer is.
    pub(crate) allow_stale: bool,
    /// NDJSON and CSV get a last line that says so.
    pub(crate) end_marker: bool,
    pub(crate) query_id: Option<Uuid>,
    pub(crate) if_none_match: Option<String>,
    /// Who asks: whose turns it takes, and what it may see.
    pub(crate) grant: Arc<Grant>,
}

fn invalid(code: &'static str, detail: impl Into<String>) -> Problem {
    Problem::new(Kind::Invalid, code, detail)
}

/// Reads a body: JSON, or SQL as it stands. Without a telling content type the first byte decides.
pub(crate) fn from_body(headers: &HeaderMap, body: &[u8]) -> Result<Stated, Problem> {
    let text = std::str::from_utf8(body).map_err(|error| {
        invalid("body_invalid", format!("body is not utf-8 after byte {}", error.valid_up_to()))
    })?;
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media = content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    let is_json = match media.to_ascii_lowercase().as_str() {
        "application/json" => true,
        "text/plain" | "application/sql" => false,
        // What `curl --data` says when nobody asks it.
        "" | "application/x-www-form-urlencoded" => text.trim_start().starts_with('{'),
        other => {
            let shown: String = other.chars().take(64).collect();
            return Err(invalid(
                "content_type_unsupported",
                format!("content type {shown:?} is unknown"),
            )
            .status(StatusCode::UNSUPPORTED_MEDIA_TYPE)
            .hint("send application/json with {\"sql\": …}, or text/plain with the statement"));
        }
    };
    if !is_json {
        return Ok(Stated { sql: Some(text.to_owned()), ..Stated::default() });
    }
    serde_json::from_str(text).map_err(|error| unknown_key("body", &error.to_string()))
}

/// A problem for a body or URL that does not fit, with a suggestion for a mistyped key.
pub(crate) fn unknown_key(what: &str, message: &str) -> Problem {
    let problem = invalid("request_invalid", format!("{what} is not a query: {message}"));
    let unknown =
        message.split_once("unknown field `").and_then(|(_, rest)| rest.split('`').next());
    match unknown.and_then(|unknown| suggest(unknown, KEYS)) {
        Some(close) => problem.hint(format!("did you mean {close:?}?")),
        None => problem.hint(format!("keys: {}", KEYS.join(", "))),
    }
}

impl Stated {
    /// A statement alone, in a named form if one is named.
    pub(super) fn of(sql: String, params: Option<Params>, format: Option<String>) -> Self {
        Stated { sql: Some(sql), params, format, ..Stated::default() }
    }

    /// What `self` does not say, `other` says.
    pub(crate) fn or(self, other: Stated) -> Stated {
        Stated {
            sql: self.sql.or(other.sql),
            q: self.q.or(other.q),
            params: self.params.or(other.params),
            format: self.format.or(other.format),
            timeout_ms: self.timeout_ms.or(other.timeout_ms),
            max_rows: self.max_rows.or(other.max_rows),
            min: self.min.or(other.min),
            as_of: self.as_of.or(other.as_of),
            wait_ms: self.wait_ms.or(other.wait_ms),
            allow_partial: self.allow_partial.or(other.allow_partial),
            allow_stale: self.allow_stale.or(other.allow_stale),
            end_marker: self.end_marker.or(other.end_marker),
        }
    }

    /// Validates, with what the headers add.
    pub(crate) fn validate(
        self,
        headers: &HeaderMap,
        grant: Arc<Grant>,
    ) -> Result<QueryRequest, Problem> {
        let text_of = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let sql = self.sql.or(self.q).unwrap_or_default();
        if sql.trim().is_empty() {
            return Err(invalid("request_invalid", "request has no statement")
                .hint("POST {\"sql\": \"select count(*) from events\"}, or GET ?q="));
        }
        let format = match &self.format {
            Some(name) => Format::by_name(name).ok_or_else(|| unknown_format(name))?,
            None => Format::by_accept(text_of("accept")).ok_or_else(not_acceptable)?,
        };
        let min = self.min.as_deref().or_else(|| text_of("sealcast-min"));
        let min = min.map(token).transpose()?;
        let as_of = self.as_of.or_else(|| text_of("sealcast-as-of").map(str::to_owned));
        let wait_ms = self.wait_ms.map(bounded_wait).transpose()?;
        let query_id = text_of("sealcast-query-id").map(Uuid::try_parse).transpose();
        let query_id = query_id.map_err(|_| {
            invalid("request_invalid", "header sealcast-query-id is not a uuid")
                .with("field", "sealcast-query-id")
        })?;
        Ok(QueryRequest {
            sql,
            params: self.params,
            asks: Asks::Rows,
            format,
            timeout_ms: self.timeout_ms,
            max_rows: self.max_rows,
            min,
            as_of,
            wait_ms,
            allow_partial: self.allow_partial.unwrap_or(false),
            allow_stale: self.allow_stale.unwrap_or(false),
            end_marker: self.end_marker.unwrap_or(false),
            query_id,
            if_none_match: text_of("if-none-match").map(str::to_owned),
            grant,
        })
    }
}

/// Checks `wait_ms`.
pub(crate) fn bounded_wait(wait_ms: u64) -> Result<u64, Problem> {
    if wait_ms <= WAIT_MS_MAX {
        return Ok(wait_ms);
    }
    let detail = format!("wait_ms is {wait_ms}; expected at most {WAIT_MS_MAX}");
    Err(invalid("request_invalid", detail).with("field", "wait_ms"))
}

/// Reads `min`.
pub(crate) fn token(text: &str) -> Result<Token, Problem> {
    Token::parse(text).map_err(|corruption| {
        invalid("token_invalid", format!("min is not a token: {}", corruption.found))
            .hint("pass the token that a flush or an append answered")
    })
}

fn unknown_format(name: &str) -> Problem {
    let shown: String = name.chars().take(64).collect();
    let problem = invalid("format_unknown", format!("format {shown:?} is unknown"));
    match suggest(&shown, Format::NAMES) {
        Some(close) => problem.hint(format!("did you mean {close}?")),
        None => problem.hint(format!("formats: {}", Format::NAMES.join(", "))),
    }
}

fn not_acceptable() -> Problem {
    let known: Vec<&str> = Format::ALL.iter().map(|format| format.media_type()).collect();
    invalid("not_acceptable", "no media type in accept can be given")
        .status(StatusCode::NOT_ACCEPTABLE)
        .hint(format!("known: {}; or say format=", known.join(", ")))
}
