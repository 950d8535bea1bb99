//! The replica's routes as OpenAPI: `GET /openapi.json`.

use sealcast_common::clock::Micros;
use sealcast_common::limits::WAIT_MS_MAX;
use sealcast_common::serve::openapi::{Document, Route, reference};
use serde_json::{Value, json};

use super::format::Format;
use crate::queries::{QueryInfo, QueryState};

const TOKEN: &str = "v1.oQAYKg";

/// The description of a replica.
pub fn openapi() -> Document {
    let about = "Answers SQL over events that it has verified, and proves them to others.";
    let document = Document::new("Sealcast replica", about)
        .schema("QueryRequest", request())
        .schema("PagedEvent", crate::pages::event_schema())
        .route("post", "/v1/sql", refusals(post_sql()))
        .route("get", "/v1/sql", refusals(get_sql()))
        .route("get", "/v1/queries", list())
        .route("get", "/v1/queries/{id}", show())
        .route("delete", "/v1/queries/{id}", cancel())
        .route("get", "/v1/status", status());
    super::openapi_proofs::proofs()
        .into_iter()
        .chain(crate::pages::openapi())
        .chain(super::influx::described())
        .fold(document, |document, (method, path, route)| document.route(method, path, route))
}

/// Name, schema and meaning of everything that a query may say beside its statement.
fn options() -> Vec<(&'static str, Value, &'static str)> {
    let number = json!({ "type": "integer", "minimum": 0 });
    let wait = json!({ "type": "integer", "minimum": 0, "maximum": WAIT_MS_MAX });
    vec![
        ("format", json!({ "enum": Format::NAMES }), "Form of the answer; otherwise `Accept`."),
        ("min", json!({ "type": "string" }), "Wait until the replica holds what this token names."),
        (
            "as_of",
            json!({ "type": "string" }),
            "The state of the answer that told this `sealcast-as-of`.",
        ),
        ("wait_ms", wait, "How long to wait for `min` and `as_of`."),
        ("timeout_ms", number.clone(), "Time of this query, below the server's bound."),
        ("max_rows", number, "Refuse to give more rows."),
        ("allow_partial", flag(), "Answer without segments that are missing."),
        ("allow_stale", flag(), "Answer also where nobody knows how old the answer is."),
        ("end_marker", flag(), "NDJSON and CSV get a last line that says that nothing is cut off."),
    ]
}

fn flag() -> Value {
    json!({ "type": "boolean" })
}

fn request() -> Value {
    let params = json!({
        "description": "A list for $1, $2 …, or an object for $name.",
        "oneOf": [{ "type": "array" }, { "type": "object" }],
    });
    let sql = json!({ "type": "string", "description": "One statement that only reads." });
    let q = json!({ "type": "string", "description": "The same as sql." });
    let mut properties = json!({ "sql": sql, "q": q, "params": params });
    for (name, mut schema, about) in options() {
        schema["description"] = about.into();
        properties[name] = schema;
    }
    json!({ "type": "object", "additionalProperties": false, "properties": properties })
}

fn with_options(route: Route) -> Route {
    options()
        .into_iter()
        .fold(route, |route, (name, schema, about)| route.parameter("query", name, schema, about))
}

fn post_sql() -> Route {
    let example = json!({
        "sql": "select action, count(*) from events where tenant = $1 group by action",
        "params": ["acme"],
        "min": TOKEN,
    });
    let text = json!({ "type": "string", "description": "The statement." });
    let statement = Value::from("select count(*) from events");
    let about = "The statement as JSON with its parameters and bounds, or alone as text.";
    let route = Route::new("query", "Ask", about).body(
        "What is asked. The body's word counts before the URL's.",
        &[
            ("application/json", reference("QueryRequest"), example),
            ("text/plain", text.clone(), statement.clone()),
            ("application/sql", text, statement),
        ],
    );
    answers(with_options(route))
}

fn get_sql() -> Route {
    let text = json!({ "type": "string" });
    let route = Route::new("queryByUrl", "Ask by URL", "The same as POST, without parameters.")
        .parameter("query", "q", text.clone(), "The statement.")
        .parameter("query", "sql", text, "The same as q.");
    answers(with_options(route))
}

fn answers(route: Route) -> Route {
    let text = json!({ "type": "string" });
    let rows = json!({
        "type": "object",
        "required": ["query_id", "snapshot", "columns", "rows", "row_count", "complete"],
        "properties": {
            "query_id": { "type": "string", "format": "uuid" },
            "snapshot": { "type": "string" },
            "columns": { "type": "array", "items": { "type": "object", "properties": {
                "name": { "type": "string" }, "type": { "type": "string" },
            } } },
            "rows": { "type": "array", "items": { "type": "array" } },
            "row_count": { "type": "integer" },
            "complete": { "type": "boolean", "description": "Comes last: without it, cut off." },
        },
    });
    let example = json!({
        "query_id": "01a2b3c4-0000-7000-8000-000000000001",
        "snapshot": "5f0c2d9e11aa22bb",
        "columns": [{ "name": "count", "type": "int64" }],
        "rows": [[42]],
        "row_count": 1,
        "complete": true,
    });
    let contents: Vec<_> = Format::ALL
        .iter()
        .map(|format| match format {
            Format::Json => (format.media_type(), rows.clone(), example.clone()),
            Format::Ndjson => (format.media_type(), text.clone(), "{\"count\":42}\n".into()),
            Format::Csv => (format.media_type(), text.clone(), "count\n42\n".into()),
            Format::Pretty => (format.media_type(), text.clone(), Value::Null),
            _ => (format.media_type(), json!({}), Value::Null),
        })
        .collect();
    let about = "The rows. A body that ends without its end mark is no answer.";
    let route = route
        .parameter("header", "sealcast-min", text.clone(), "The same as min.")
        .parameter(
            "header",
            "sealcast-query-id",
            json!({ "type": "string", "format": "uuid" }),
            "A name for this query, for one use.",
        )
        .answer(200, about, &contents)
        .parameter(
            "header",
            "If-None-Match",
            text.clone(),
            "ETags of answers that are there already.",
        )
        .answer(304, "The answer is the one with this ETag.", &[])
        .header(200, "ETag", "Names the answer, where it depends on the snapshot alone.");
    told(route)
}

/// The headers that every answer has, of SQL and of pages.
pub(crate) fn told(route: Route) -> Route {
    route
        .header(200, "sealcast-query-id", "The query's name.")
        .header(200, "sealcast-snapshot", "Which state of the log was asked.")
        .header(200, "sealcast-vector", "The same as a token.")
        .header(200, "sealcast-lag-ms", "Age of that state, or `unknown`.")
        .header(200, "sealcast-complete", "`false`: ranges are missing.")
        .header(200, "sealcast-missing", "The missing ranges, the first 64.")
        .header(200, "sealcast-missing-count", "How many ranges are missing.")
}

pub(super) fn refusals(route: Route) -> Route {
    route
        .problems(400, &["syntax_error", "statement_not_allowed", "plan_error"])
        .problems(400, &["unknown_column", "unknown_table", "unknown_function"])
        .problems(400, &["not_supported", "request_invalid", "body_invalid", "format_unknown"])
        .problems(400, &["token_invalid", "as_of_invalid"])
        .problems(406, &["not_acceptable"])
        .problems(408, &["query_timeout"])
        .problems(409, &["query_id_taken", "query_cancelled"])
        .problems(412, &["not_yet_replicated"])
        .problems(413, &["sql_too_large", "too_many_rows", "body_invalid"])
        .problems(413, &["result_too_large", "scan_too_large"])
        .problems(415, &["content_type_unsupported"])
        .problems(422, &["parameter_invalid", "query_failed"])
        .problems(429, &["too_many_queries"])
        .problems(500, &["segment_corrupt", "tiles_corrupt"])
        .problems(503, &["replica_starting", "segment_unavailable", "memory_exhausted"])
        .problems(503, &["tiles_unavailable"])
        .problems(503, &["replica_stale"])
        .problems(505, &["http_version_unsupported"])
}

fn info(state: QueryState) -> QueryInfo {
    QueryInfo {
        query_id: "01a2b3c4-0000-7000-8000-000000000001".into(),
        state,
        sql: "select count(*) from events".into(),
        started_at: Micros(1_790_000_000_000_000),
        elapsed_ms: 12,
        rows: 1,
    }
}

fn list() -> Route {
    let schema = json!({ "type": "object", "properties": {
        "queries": { "type": "array", "items": reference("QueryInfo") },
    } });
    let example = json!({ "queries": [info(QueryState::Finished)] });
    let about = "Running ones first, then the last 256 that ended.";
    Route::new("queries", "Queries of this node", about).answer(
        200,
        "The queries.",
        &[("application/json", schema, example)],
    )
}

fn by_id(id: &str, summary: &str, about: &str) -> Route {
    let schema = json!({ "type": "string", "format": "uuid" });
    Route::new(id, summary, about)
        .parameter("path", "id", schema, "The query's name.")
        .answer_of(200, "The query.", &info(QueryState::Finished))
        .problems(404, &["unknown_query"])
}

fn show() -> Route {
    by_id("queryInfo", "One query", "A node knows what runs and the last 256 that ended.")
}

fn cancel() -> Route {
    by_id("cancelQuery", "Cancel a query", "200: it had ended already.").answer_of(
        202,
        "Asked to stop.",
        &info(QueryState::Running),
    )
}

fn status() -> Route {
    let object = json!({ "type": "object" });
    let schema = json!({ "type": "object", "properties": {
        "replica": { "type": "string" },
        "version": { "type": "string" },
        "started_at": { "type": "string", "format": "date-time" },
        "ready": { "type": "boolean" },
        "reasons": { "type": "object", "additionalProperties": { "type": "string" } },
        "snapshot": { "type": "string" },
        "vector": { "type": "object", "additionalProperties": { "type": "integer" } },
        "token": { "type": "string" },
        "rows": { "type": "integer" },
        "vault": object,
    } });
    let example = json!({ "replica": "replica-1", "ready": true, "rows": 42, "token": TOKEN });
    let about = "Streams with their lag, the cache, what is quarantined.";
    Route::new("status", "What this node holds", about).answer(
        200,
        "The status.",
        &[("application/json", schema, example)],
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::params::KEYS;
    use super::*;

    #[test]
    fn everything_that_a_query_may_say_is_described() {
        let request = request();
        let described = request["properties"].as_object().unwrap().keys().map(String::as_str);
        assert_eq!(described.collect::<BTreeSet<_>>(), BTreeSet::from(KEYS));
    }
}
