//! The pages as OpenAPI.

use sealcast_common::limits::WAIT_MS_MAX;
use sealcast_common::serve::openapi::{Route, reference};
use serde_json::{Value, json};

use super::asked::{LIMIT, LIMIT_MAX, OUTCOMES};
use super::filter::SEARCHED;
use crate::serve::told;

/// Method, path and description of each route.
pub(crate) fn pages() -> Vec<(&'static str, &'static str, Route)> {
    vec![("get", "/v1/events", list()), ("get", "/v1/events/{event_id}", show())]
}

/// The schema of an event, by name.
pub(crate) fn event_schema() -> Value {
    let text = json!({ "type": "string" });
    let time = json!({ "type": "string", "format": "date-time" });
    let number = json!({ "type": "integer", "minimum": 0 });
    let mut properties = json!({
        "event_id": { "type": "string", "format": "uuid" },
        "time": time,
        "ingested_at": time,
        "targets": { "type": "array", "items": { "type": "object", "properties": {
            "type": text, "id": text, "name": text,
        } } },
        "outcome": { "enum": OUTCOMES },
        "severity": { "type": "integer", "minimum": 1, "maximum": 24 },
        "attributes": { "type": "object" },
        "_shard": number,
        "_seq": number,
    });
    let texts = [
        "tenant",
        "action",
        "category",
        "actor_type",
        "actor_id",
        "actor_name",
        "outcome_reason",
        "source_ip",
        "user_agent",
        "service",
        "request_id",
        "session_id",
        "trace_id",
        "message",
    ];
    for name in texts {
        properties[name] = text.clone();
    }
    json!({
        "type": "object",
        "description": "What is null is left out.",
        "required": ["event_id", "tenant", "time", "action", "ingested_at", "_shard", "_seq"],
        "properties": properties,
    })
}

fn flag() -> Value {
    json!({ "type": "boolean" })
}

fn common(route: Route) -> Route {
    let text = json!({ "type": "string" });
    let wait = json!({ "type": "integer", "minimum": 0, "maximum": WAIT_MS_MAX });
    let time = json!({ "type": "integer", "minimum": 0 });
    let id = json!({ "type": "string", "format": "uuid" });
    let about = "Time of this query, below the server's bound.";
    route
        .parameter("query", "tenant", text.clone(), "Its events only.")
        .parameter(
            "query",
            "min",
            text.clone(),
            "Wait until the replica holds what this token names.",
        )
        .parameter(
            "query",
            "wait_ms",
            wait,
            "How long to wait for `min` or for what the cursor names.",
        )
        .parameter("query", "timeout_ms", time, about)
        .parameter("query", "allow_partial", flag(), "Answer without segments that are missing.")
        .parameter("query", "allow_stale", flag(), "Answer also where nobody knows how old it is.")
        .parameter("header", "sealcast-min", text.clone(), "The same as min.")
        .parameter("header", "sealcast-query-id", id, "A name for this query, for one use.")
        .parameter("header", "If-None-Match", text, "ETags of pages that are there already.")
}

fn list() -> Route {
    let text = json!({ "type": "string" });
    let limit = json!({ "type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": LIMIT });
    let order = json!({ "enum": ["asc", "desc"], "default": "desc" });
    let searched = format!("This text occurs in one of {}.", SEARCHED.join(", "));
    let about = "Ordered by time, then event id. A walk from page to page gives every event that \
                 was there at its first page exactly once, and none that came later, whichever \
                 replica gives the next page.";
    let route = Route::new("events", "Events by the page", about)
        .parameter(
            "query",
            "from",
            text.clone(),
            "Not before: RFC 3339, or microseconds since 1970.",
        )
        .parameter("query", "to", text.clone(), "Before, in the same form.")
        .parameter("query", "actor", text.clone(), "`actor_id` is this.")
        .parameter("query", "action", text.clone(), "`action` is this.")
        .parameter("query", "target", text.clone(), "One of the targets has this id.")
        .parameter("query", "outcome", json!({ "enum": OUTCOMES }), "`outcome` is this.")
        .parameter("query", "q", text.clone(), &searched)
        .parameter("query", "order", order, "Which end comes first.")
        .parameter("query", "limit", limit, "Events of a page. Large ones may make it end earlier.")
        .parameter("query", "cursor", text, "`next_cursor` of the page before.");
    refusals(answer(common(route))).problems(400, &["cursor_invalid", "cursor_mismatch"])
}

fn show() -> Route {
    let id = json!({ "type": "string", "format": "uuid" });
    let about = "By the segments' index. Ids are unique for a tenant: who may read several may get \
                 several.";
    let route = Route::new("event", "One event", about).parameter(
        "path",
        "event_id",
        id,
        "The event's id.",
    );
    refusals(answer(common(route)))
        .problems(400, &["cursor_invalid", "cursor_mismatch"])
        .problems(404, &["unknown_event"])
}

fn answer(route: Route) -> Route {
    let schema = json!({
        "type": "object",
        "required": ["events", "next_cursor", "complete"],
        "properties": {
            "events": { "type": "array", "items": reference("PagedEvent") },
            "next_cursor": { "type": ["string", "null"], "description": "`null` at the end." },
            "missing": { "type": "array", "items": { "type": "string" } },
            "complete": { "type": "boolean" },
        },
    });
    let example = json!({
        "events": [{
            "event_id": "01a2b3c4-0000-7000-8000-000000000001",
            "tenant": "acme",
            "time": "2026-12-01T12:00:00.000000Z",
            "action": "user.login",
            "actor_id": "u-1",
            "outcome": "success",
            "attributes": { "mfa": true },
            "ingested_at": "2026-12-01T12:00:01.000000Z",
            "_shard": 0,
            "_seq": 41,
        }],
        "next_cursor": null,
        "complete": true,
    });
    let route = route
        .answer(200, "The page.", &[("application/json", schema, example)])
        .answer(304, "The page is the one with this ETag.", &[])
        .header(200, "ETag", "Names the page.");
    told(route)
}

fn refusals(route: Route) -> Route {
    route
        .problems(400, &["request_invalid", "token_invalid"])
        .problems(408, &["query_timeout"])
        .problems(409, &["query_id_taken", "query_cancelled"])
        .problems(412, &["not_yet_replicated"])
        .problems(413, &["result_too_large", "scan_too_large"])
        .problems(429, &["too_many_queries"])
        .problems(500, &["segment_corrupt"])
        .problems(503, &["replica_starting", "replica_stale", "segment_unavailable"])
}
