//! What a URL may say.

use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use axum::http::HeaderMap;
use sealcast_common::clock::Micros;
use sealcast_common::fault::Kind;
use sealcast_common::limits::WAIT_MS_MAX;
use sealcast_common::serve::access::Grant;
use sealcast_common::serve::{Problem, suggest};
use sealcast_common::wire::Token;
use serde::Deserialize;
use uuid::Uuid;

use super::filter::Filter;
use super::place::Order;
use crate::serve::token;

/// Rows of a page, if the request does not say.
pub(super) const LIMIT: u64 = 100;
/// Rows of a page at most.
pub(super) const LIMIT_MAX: u64 = 1_000;
/// What an outcome may be.
pub(super) const OUTCOMES: [&str; 4] = ["success", "failure", "denied", "unknown"];
/// The parameters.
pub(super) const KEYS: [&str; 16] = [
    "tenant",
    "from",
    "to",
    "actor",
    "action",
    "target",
    "outcome",
    "q",
    "order",
    "limit",
    "cursor",
    "min",
    "wait_ms",
    "timeout_ms",
    "allow_partial",
    "allow_stale",
];

/// A URL as it came.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Stated {
    tenant: Option<String>,
    from: Option<String>,
    to: Option<String>,
    actor: Option<String>,
    action: Option<String>,
    target: Option<String>,
    outcome: Option<String>,
    q: Option<String>,
    order: Option<String>,
    limit: Option<u64>,
    cursor: Option<String>,
    min: Option<String>,
    wait_ms: Option<u64>,
    timeout_ms: Option<u64>,
    allow_partial: Option<bool>,
    allow_stale: Option<bool>,
}

/// A request for a page, validated.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) filter: Filter,
    pub(super) order: Order,
    pub(super) limit: usize,
    pub(super) cursor: Option<String>,
    pub(super) min: Option<Token>,
    pub(super) wait_ms: Option<u64>,
    pub(super) timeout_ms: Option<u64>,
    pub(super) allow_partial: bool,
    pub(super) allow_stale: bool,
    pub(super) query_id: Option<Uuid>,
    pub(super) if_none_match: Option<String>,
    /// Digest of the tenants that the caller may read.
    pub(super) tenants: [u8; 16],
}

fn invalid(field: &str, detail: impl Into<String>) -> Problem {
    Problem::new(Kind::Invalid, "request_invalid", detail).with("field", field)
}

impl Stated {
    pub(super) fn of(url: Result<Query<Stated>, QueryRejection>) -> Result<Self, Problem> {
        url.map(|Query(stated)| stated).map_err(|rejection| {
            let message = rejection.body_text();
            let detail = format!("url asks for no page: {message}");
            let problem = Problem::new(Kind::Invalid, "request_invalid", detail);
            let unknown = message.split_once("unknown field `");
            let unknown = unknown.and_then(|(_, rest)| rest.split('`').next());
            match unknown.and_then(|unknown| suggest(unknown, KEYS)) {
                Some(close) => problem.hint(format!("did you mean {close:?}?")),
                None => problem.hint(format!("parameters: {}", KEYS.join(", "))),
            }
        })
    }

    /// Validates, with what the headers add; `event_id` comes from the path.
    pub(super) fn validate(
        self,
        headers: &HeaderMap,
        grant: &Grant,
        event_id: Option<[u8; 16]>,
    ) -> Result<Asked, Problem> {
        let text_of = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let limit = self.limit.unwrap_or(LIMIT);
        if !(1..=LIMIT_MAX).contains(&limit) {
            let detail = format!("limit is {limit}; expected 1 to {LIMIT_MAX}");
            return Err(invalid("limit", detail).hint("follow next_cursor for more"));
        }
        if let Some(wait_ms) = self.wait_ms.filter(|wait_ms| *wait_ms > WAIT_MS_MAX) {
            let detail = format!("wait_ms is {wait_ms}; expected at most {WAIT_MS_MAX}");
            return Err(invalid("wait_ms", detail));
        }
        let query_id = text_of("sealcast-query-id").map(Uuid::try_parse).transpose();
        let query_id = query_id
            .map_err(|_| invalid("sealcast-query-id", "header sealcast-query-id is not a uuid"))?;
        let min = self.min.as_deref().or_else(|| text_of("sealcast-min"));
        let min = min.map(token).transpose()?;
        let order = order(self.order.as_deref())?;
        let mut tenants = [0; 16];
        tenants.copy_from_slice(&grant.tenants.digest()[..16]);
        Ok(Asked {
            order,
            limit: usize::try_from(limit).unwrap_or(1),
            cursor: self.cursor.clone(),
            min,
            wait_ms: self.wait_ms,
            timeout_ms: self.timeout_ms,
            allow_partial: self.allow_partial.unwrap_or(false),
            allow_stale: self.allow_stale.unwrap_or(false),
            query_id,
            if_none_match: text_of("if-none-match").map(str::to_owned),
            tenants,
            filter: Filter { event_id, ..self.filter()? },
        })
    }

    fn filter(self) -> Result<Filter, Problem> {
        let from = self.from.map(|text| time("from", &text)).transpose()?;
        let to = self.to.map(|text| time("to", &text)).transpose()?;
        if let (Some(from), Some(to)) = (from, to)
            && from > to
        {
            return Err(invalid("from", "from is after to"));
        }
        if let Some(outcome) = self.outcome.as_deref().filter(|word| !OUTCOMES.contains(word)) {
            let shown: String = outcome.chars().take(64).collect();
            let detail = format!("outcome is {shown:?}; expected {}", OUTCOMES.join(", "));
            return Err(invalid("outcome", detail));
        }
        if self.q.as_deref() == Some("") {
            return Err(invalid("q", "q is empty; expected a text to look for"));
        }
        Ok(Filter {
            tenant: self.tenant,
            from,
            // The end is not included; no time lies before the first one.
            to: to.map(|to| to.checked_sub(1)).map(|to| to.unwrap_or(i64::MIN)),
            actor: self.actor,
            action: self.action,
            target: self.target,
            outcome: self.outcome,
            text: self.q,
            event_id: None,
        })
    }
}

fn order(word: Option<&str>) -> Result<Order, Problem> {
    match word {
        None | Some("desc") => Ok(Order::Descending),
        Some("asc") => Ok(Order::Ascending),
        Some(other) => {
            let shown: String = other.chars().take(64).collect();
            Err(invalid("order", format!("order is {shown:?}; expected asc or desc")))
        }
    }
}

/// RFC 3339, or microseconds since 1970.
fn time(field: &str, text: &str) -> Result<i64, Problem> {
    if let Ok(micros) = text.parse::<i64>() {
        return Ok(micros);
    }
    // An unescaped plus sign arrives as a blank.
    let time =
        Micros::parse_rfc3339(text).or_else(|| Micros::parse_rfc3339(&text.replace(' ', "+")));
    time.map(|time| time.0).ok_or_else(|| {
        let shown: String = text.chars().take(64).collect();
        invalid(field, format!("{field} is {shown:?}, no time"))
            .hint("RFC 3339 such as 2026-12-01T00:00:00Z, or microseconds since 1970")
    })
}

impl Asked {
    /// Names what is asked.
    pub(super) fn digest(&self) -> [u8; 16] {
        self.filter.digest(self.order == Order::Descending)
    }
}
