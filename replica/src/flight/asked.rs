//! What headers ask for, beside the statement: the same as keys of an HTTP request.

use std::sync::Arc;

use sealcast_common::fault::Kind;
use sealcast_common::serve::access::Grant;
use sealcast_common::serve::{Problem, suggest};
use serde::{Deserialize, Serialize};
use tonic::metadata::{KeyAndValueRef, MetadataMap};
use uuid::Uuid;

use crate::serve::{Asks, Format, QueryRequest, bounded_wait, token};
use crate::sql::Params;

const KEYS: [&str; 8] = [
    "sealcast-min",
    "sealcast-as-of",
    "sealcast-wait-ms",
    "sealcast-allow-partial",
    "sealcast-allow-stale",
    "sealcast-max-rows",
    "sealcast-timeout-ms",
    "sealcast-query-id",
];
const ARROW: &str = "x-sealcast-arrow";
const ENDPOINTS: &str = "x-sealcast-endpoints";

/// As headers say it; a ticket carries it on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Asked {
    pub(super) min: Option<String>,
    pub(super) as_of: Option<String>,
    pub(super) wait_ms: Option<u64>,
    pub(super) allow_partial: bool,
    pub(super) allow_stale: bool,
    pub(super) max_rows: Option<u64>,
    pub(super) timeout_ms: Option<u64>,
    pub(super) query_id: Option<Uuid>,
    /// The engine's own types.
    pub(super) native: bool,
    /// Several endpoints, where the answer can be given in parts.
    pub(super) many: bool,
}

impl Asked {
    /// Reads `headers`; one of ours that is not known is refused, as an unknown key is.
    pub(super) fn of(headers: &MetadataMap) -> Result<Self, Problem> {
        let mut asked = Asked::default();
        for header in headers.iter() {
            let KeyAndValueRef::Ascii(name, value) = header else { continue };
            let name = name.as_str();
            if !name.starts_with("sealcast-") && !name.starts_with("x-sealcast-") {
                continue;
            }
            let value = value.to_str().map_err(|_| bad(name, "printable text"))?.trim();
            match name {
                "sealcast-min" => asked.min = Some(value.to_owned()),
                "sealcast-as-of" => asked.as_of = Some(value.to_owned()),
                "sealcast-wait-ms" => asked.wait_ms = Some(bounded_wait(number(name, value)?)?),
                "sealcast-allow-partial" => asked.allow_partial = flag(name, value)?,
                "sealcast-allow-stale" => asked.allow_stale = flag(name, value)?,
                "sealcast-max-rows" => asked.max_rows = Some(number(name, value)?),
                "sealcast-timeout-ms" => asked.timeout_ms = Some(number(name, value)?),
                "sealcast-query-id" => {
                    let id = Uuid::try_parse(value).map_err(|_| bad(name, "a uuid"))?;
                    asked.query_id = Some(id);
                }
                ARROW => asked.native = one_of(name, value, ["plain", "native"])? == "native",
                ENDPOINTS => asked.many = one_of(name, value, ["one", "many"])? == "many",
                _ => return Err(unknown(name)),
            }
        }
        Ok(asked)
    }

    /// Answers' form.
    pub(super) fn format(&self) -> Format {
        if self.native { Format::FlightNative } else { Format::Flight }
    }

    /// The query that says so.
    pub(super) fn request(
        &self,
        (sql, params): (String, Option<Params>),
        asks: Asks,
        grant: Arc<Grant>,
    ) -> Result<QueryRequest, Problem> {
        if sql.trim().is_empty() {
            let detail = "request has no statement";
            return Err(Problem::new(Kind::Invalid, "request_invalid", detail));
        }
        Ok(QueryRequest {
            sql,
            params,
            asks,
            format: self.format(),
            timeout_ms: self.timeout_ms,
            max_rows: self.max_rows,
            min: self.min.as_deref().map(token).transpose()?,
            as_of: self.as_of.clone(),
            wait_ms: self.wait_ms,
            allow_partial: self.allow_partial,
            allow_stale: self.allow_stale,
            end_marker: false,
            query_id: self.query_id,
            if_none_match: None,
            grant,
        })
    }
}

fn bad(name: &str, expected: &str) -> Problem {
    let detail = format!("header {name} is not {expected}");
    Problem::new(Kind::Invalid, "request_invalid", detail).with("field", name)
}

fn unknown(name: &str) -> Problem {
    let shown: String = name.chars().take(64).collect();
    let detail = format!("header {shown} is not known");
    let problem = Problem::new(Kind::Invalid, "request_invalid", detail);
    match suggest(&shown, KEYS.into_iter().chain([ARROW, ENDPOINTS])) {
        Some(close) => problem.hint(format!("did you mean {close}?")),
        None => problem.hint(format!("headers: {}, {ARROW}, {ENDPOINTS}", KEYS.join(", "))),
    }
}

fn number(name: &str, value: &str) -> Result<u64, Problem> {
    value.parse().map_err(|_| bad(name, "a whole number"))
}

fn flag(name: &str, value: &str) -> Result<bool, Problem> {
    value.parse().map_err(|_| bad(name, "true or false"))
}

fn one_of<'v>(name: &str, value: &'v str, known: [&str; 2]) -> Result<&'v str, Problem> {
    let found = known.contains(&value).then_some(value);
    found.ok_or_else(|| bad(name, &known.join(" or ")))
}
