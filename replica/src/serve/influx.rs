//! `/api/v3/query_sql`: SQL as clients of InfluxDB 3 ask and expect it. The database's name says
//! nothing here; `json` is a list of objects.

use std::sync::Arc;

use axum::Router;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{Query, State};
use axum::http::{HeaderMap, Version};
use axum::response::Response;
use axum::routing::get;
use bytes::Bytes;
use sealcast_common::fault::Kind;
use sealcast_common::serve::access::{Caller, Role, only};
use sealcast_common::serve::openapi::Route;
use sealcast_common::serve::{Problem, suggest};
use serde::Deserialize;
use serde_json::{Value, json};

use super::format::Format;
use super::http::{body_invalid, give};
use super::openapi::refusals;
use super::params::Stated;
use super::run::Node;
use crate::sql::Params;

const PATH_KEYS: [&str; 4] = ["db", "q", "format", "params"];
const FORMATS: [&str; 5] = ["json", "jsonl", "csv", "pretty", "parquet"];

/// Its routes.
pub(super) fn routes() -> Router<Arc<Node>> {
    let methods = get(by_url).post(by_body);
    Router::new().route("/api/v3/query_sql", only(&[Role::Query], methods))
}

/// URL or body as it came.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked<P> {
    q: String,
    /// Other servers have several.
    #[serde(default, rename = "db")]
    _db: Option<String>,
    format: Option<String>,
    params: Option<P>,
}

fn invalid(message: &str) -> Problem {
    let detail = format!("request asks nothing: {message}");
    let problem = Problem::new(Kind::Invalid, "request_invalid", detail);
    let unknown = message.split_once("unknown field `");
    let unknown = unknown.and_then(|(_, rest)| rest.split('`').next());
    match unknown.and_then(|unknown| suggest(unknown, PATH_KEYS)) {
        Some(close) => problem.hint(format!("did you mean {close:?}?")),
        None => problem.hint("keys: db, q, format, params; params is an object for $name"),
    }
}

async fn by_url(
    State(node): State<Arc<Node>>,
    caller: Caller,
    version: Version,
    headers: HeaderMap,
    url: Result<Query<Asked<String>>, QueryRejection>,
) -> Result<Response, Problem> {
    let Query(Asked { q, format, params, .. }) =
        url.map_err(|rejection| invalid(&rejection.body_text()))?;
    let params = params.as_deref().map(serde_json::from_str::<Params>).transpose();
    let params = params.map_err(|error| {
        invalid(&format!("params is no JSON object: {error}")).with("field", "params")
    })?;
    answer(&node, (q, params, format), (version, &headers), caller).await
}

async fn by_body(
    State(node): State<Arc<Node>>,
    caller: Caller,
    version: Version,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    let body = body.map_err(|rejection| body_invalid(&rejection))?;
    let asked = serde_json::from_slice::<Asked<Params>>(&body);
    let Asked { q, format, params, .. } = asked.map_err(|error| invalid(&error.to_string()))?;
    answer(&node, (q, params, format), (version, &headers), caller).await
}

async fn answer(
    node: &Arc<Node>,
    (sql, params, format): (String, Option<Params>, Option<String>),
    (version, headers): (Version, &HeaderMap),
    Caller(grant): Caller,
) -> Result<Response, Problem> {
    let mut request = Stated::of(sql, params, format).validate(headers, grant)?;
    if request.format == Format::Json {
        request.format = Format::Objects;
    }
    give(node, request, version).await
}

/// Method, path and description of each route.
pub(super) fn described() -> Vec<(&'static str, &'static str, Route)> {
    let path = "/api/v3/query_sql";
    vec![("get", path, described_get()), ("post", path, described_post())]
}

fn described_get() -> Route {
    let text = json!({ "type": "string" });
    let about = "As InfluxDB 3 answers it; its clients work unmodified.";
    let route = Route::new("influxQueryByUrl", "Ask as of InfluxDB 3, by URL", about)
        .parameter("query", "q", text.clone(), "The statement.")
        .parameter("query", "db", text.clone(), "Says nothing here.")
        .parameter("query", "format", json!({ "enum": FORMATS }), "Otherwise `Accept`.")
        .parameter("query", "params", text, "A JSON object for $name, or a list for $1.");
    answers(route)
}

fn described_post() -> Route {
    let schema = json!({
        "type": "object",
        "required": ["q"],
        "additionalProperties": false,
        "properties": {
            "q": { "type": "string" },
            "db": { "type": "string" },
            "format": { "enum": FORMATS },
            "params": { "oneOf": [{ "type": "object" }, { "type": "array" }] },
        },
    });
    let example = json!({
        "db": "audit",
        "q": "select action, count(*) as n from events where tenant = $tenant group by action",
        "params": { "tenant": "acme" },
        "format": "jsonl",
    });
    let about = "As InfluxDB 3 answers it; its clients work unmodified.";
    let route = Route::new("influxQuery", "Ask as of InfluxDB 3", about)
        .body("What is asked.", &[("application/json", schema, example)]);
    answers(route)
}

fn answers(route: Route) -> Route {
    let text = json!({ "type": "string" });
    let rows = json!({ "type": "array", "items": { "type": "object" } });
    let about = "The rows. A body that ends without its end mark is no answer.";
    let contents = [
        (Format::Objects.media_type(), rows, json!([{ "action": "user.login", "n": 42 }])),
        (Format::Ndjson.media_type(), text.clone(), "{\"n\":42}\n".into()),
        (Format::Csv.media_type(), text.clone(), "n\n42\n".into()),
        (Format::Pretty.media_type(), text, Value::Null),
        (Format::Parquet.media_type(), json!({}), Value::Null),
    ];
    refusals(route.answer(200, about, &contents).answer(304, "The answer is the one held.", &[]))
}
