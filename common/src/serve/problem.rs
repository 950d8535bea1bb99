//! RFC 9457 problem documents: one shape for every refusal of every role.

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde_json::{Map, Value};

use crate::fault::Kind;

/// A refusal: `application/problem+json` with a stable `code`.
#[derive(Clone, Debug)]
pub struct Problem {
    /// HTTP status.
    pub status: StatusCode,
    /// Which of the six kinds.
    pub kind: Kind,
    /// Stable word: clients may branch on it.
    pub code: &'static str,
    /// What happened, object first, found against expected.
    pub detail: String,
    /// What to do.
    pub hint: Option<String>,
    /// Seconds after which a retry makes sense.
    pub retry_after: Option<u64>,
    /// Further members (`index`, `field`, `found`, `expected`, `query_id` …).
    pub extra: Map<String, Value>,
}

impl Problem {
    /// A problem with the kind's usual status.
    pub fn new(kind: Kind, code: &'static str, detail: impl Into<String>) -> Self {
        let status = match kind {
            Kind::Invalid => StatusCode::BAD_REQUEST,
            Kind::Conflict => StatusCode::CONFLICT,
            Kind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Kind::Overloaded => StatusCode::TOO_MANY_REQUESTS,
            Kind::Corrupt | Kind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Problem {
            status,
            kind,
            code,
            detail: detail.into(),
            hint: None,
            retry_after: None,
            extra: Map::new(),
        }
    }

    /// Another status.
    #[must_use]
    pub fn status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    /// What to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// When to retry.
    #[must_use]
    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// A further member.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.extra.insert(name.to_owned(), value.into());
        self
    }

    /// The document.
    pub fn to_json(&self) -> Value {
        let mut document = Map::new();
        document.insert("type".into(), format!("urn:sealcast:problem:{}", self.code).into());
        document.insert("title".into(), self.code.replace('_', " ").into());
        document.insert("status".into(), self.status.as_u16().into());
        document.insert("code".into(), self.code.into());
        document.insert("kind".into(), serde_json::to_value(self.kind).unwrap_or_default());
        document.insert("detail".into(), self.detail.clone().into());
        if let Some(hint) = &self.hint {
            document.insert("hint".into(), hint.clone().into());
        }
        document.extend(self.extra.clone());
        Value::Object(document)
    }

    /// The answer to a route that does not exist.
    pub fn unknown_route(method: &http::Method, path: &str, known: &str) -> Self {
        let path: String = path.chars().take(200).collect();
        Problem::new(Kind::Invalid, "unknown_route", format!("{method} {path}: no such route"))
            .status(StatusCode::NOT_FOUND)
            .hint(format!("routes of this server: {known}"))
    }

    /// The answer to a method that a route does not have.
    pub fn wrong_method(method: &http::Method, path: &str, known: &str) -> Self {
        let detail = format!("{method} {path}: the route does not take this method");
        Problem::new(Kind::Invalid, "wrong_method", detail)
            .status(StatusCode::METHOD_NOT_ALLOWED)
            .hint(format!("routes of this server: {known}"))
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = self.to_json().to_string();
        let mut response = (self.status, body).into_response();
        let headers = response.headers_mut();
        let json = HeaderValue::from_static("application/problem+json");
        headers.insert(header::CONTENT_TYPE, json);
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
