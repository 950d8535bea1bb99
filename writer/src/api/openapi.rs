//! The writer's routes as OpenAPI: `GET /openapi.json`.

use sealcast_common::routing::FIRST_ROUTING_VERSION;
use sealcast_common::serve::openapi::{Document, Route, reference};
use sealcast_common::wire::{
    AcceptedEvent, FlushResponse, IngestResponse, ShardStatus, ShardsResponse, Token, Vector,
};
use serde_json::{Value, json};

use super::ROUTING_HEADER;
use super::problems::EVENT_CODES;

/// The description of a writer.
pub fn openapi() -> Document {
    Document::new("Sealcast writer", "Takes events, makes them durable, seals them into segments.")
        .schema("Event", event())
        .route("post", "/v1/events", events())
        .route("post", "/v1/admin/flush", flush())
        .route("get", "/v1/shards", shards())
}

fn events() -> Route {
    let example = json!({ "tenant": "acme", "action": "user.login", "actor_name": "alice" });
    let one = reference("Event");
    let many = json!({ "oneOf": [one, { "type": "array", "items": one }] });
    let lines = json!({ "type": "string", "description": "One Event a line." });
    let two = format!("{example}\n{example}\n");
    let about = "All or nothing, unless `partial=true`. The answer comes after the sync: what it \
                 says is accepted survives a crash. Repeats with the same `Idempotency-Key` or \
                 `event_id` store nothing twice.";
    let route = Route::new("postEvents", "Store events", about)
        .parameter("query", "partial", boolean(), "Store the good events, list the others.")
        .parameter(
            "header",
            "Idempotency-Key",
            json!({ "type": "string", "minLength": 1, "maxLength": 256 }),
            "Makes repeats of this request safe: the first answer comes again.",
        )
        .parameter(
            "header",
            "Content-Encoding",
            json!({ "enum": ["identity", "gzip", "zstd"] }),
            "How the body is compressed.",
        )
        .parameter("header", ROUTING_HEADER, integer(), "The routing by which the client chose.")
        .body(
            "One event, an array, or lines; at most 16 MiB and 20,000 events.",
            &[("application/json", many, example), ("application/x-ndjson", lines, two.into())],
        )
        .answer_of(200, "Durable.", &ingested())
        .header(200, ROUTING_HEADER, "The routing that holds now.");
    // A reused id is a conflict of content, not of form: 422.
    let of_events = EVENT_CODES.into_iter().filter(|code| *code != "event_id_reused");
    let route = route
        .problems(400, &of_events.collect::<Vec<_>>())
        .problems(400, &["invalid_events", "invalid_utf8", "bad_encoding", "empty_body"])
        .problems(400, &["unknown_parameter", "bad_parameter", "bad_idempotency_key"]);
    let route = route
        .problems(400, &["body_interrupted"])
        .problems(403, &["tenant_denied"])
        .problems(408, &["body_too_slow"])
        .problems(409, &["stale_route"])
        .problems(413, &["body_too_large", "too_many_events"])
        .problems(415, &["unsupported_media_type"])
        .problems(422, &["idempotency_key_reused", "event_id_reused"]);
    unavailable(route.problems(429, &["overloaded"]))
}

fn unavailable(route: Route) -> Route {
    route
        .problems(503, &["draining", "shard_poisoned", "not_acknowledged"])
        .problems(503, &["shard_suspended", "shard_corrupt", "seal_overdue"])
        .problems(507, &["disk_full"])
}

fn flush() -> Route {
    let wait = json!({ "enum": ["sealed", "shipped"], "default": "sealed" });
    let ms = json!({ "type": "integer", "minimum": 0, "maximum": 60_000, "default": 30_000 });
    let vector = Vector::from([(0, 42)]);
    let token = Token(vector.clone()).to_text();
    let answer = FlushResponse { segments: 1, vector, token, shipped: false };
    let about = "Seals every tail and says up to where. Its token can be given to a replica as \
                 `min`.";
    let route = Route::new("flush", "Seal every tail", about)
        .parameter("query", "wait", wait, "How far to wait.")
        .parameter("query", "timeout_ms", ms, "How long to wait.")
        .answer_of(200, "Sealed, or shipped.", &answer)
        .problems(400, &["unknown_parameter", "bad_parameter"])
        .problems(504, &["not_sealed_in_time", "not_shipped_in_time"]);
    unavailable(route)
}

fn shards() -> Route {
    let shard = ShardStatus {
        shard: 0,
        origin: "prod/0000".into(),
        state: "active".into(),
        size: 42,
        sealed: 40,
        shipped: 40,
        root: "00".repeat(32),
        key: "prod/0000+c0ffee00+AQ…".into(),
        cause: None,
    };
    let answer = ShardsResponse {
        cluster: "prod".into(),
        node: "writer-1".into(),
        routing_version: FIRST_ROUTING_VERSION,
        fsync: "always".into(),
        shards: vec![shard],
    };
    Route::new("shards", "Sizes, roots, keys", "What is durable, sealed and shipped, per shard.")
        .answer_of(200, "Every shard.", &answer)
        .problems(400, &["unknown_parameter"])
}

fn ingested() -> IngestResponse {
    let id = "01a2b3c4-0000-7000-8000-000000000001".to_owned();
    IngestResponse {
        accepted: 1,
        duplicates: 0,
        rejected: Vec::new(),
        rejected_count: 0,
        events: vec![AcceptedEvent { event_id: id, shard: 0, seq: 41 }],
        routing_version: FIRST_ROUTING_VERSION,
        token: Token(Vector::from([(0, 42)])).to_text(),
    }
}

fn boolean() -> Value {
    json!({ "type": "boolean" })
}

fn integer() -> Value {
    json!({ "type": "integer", "minimum": 0 })
}

/// What is sent: docs/format.md, section 1.
fn event() -> Value {
    let text = |about: &str| json!({ "type": ["string", "null"], "description": about });
    let target = json!({ "type": "object", "additionalProperties": false, "properties": {
        "type": text("Kind of thing."), "id": text("Its id."), "name": text("Its name."),
    } });
    json!({
        "type": "object",
        "required": ["tenant", "action"],
        "additionalProperties": false,
        "properties": {
            "event_id": { "type": ["string", "null"], "format": "uuid" },
            "time": { "type": ["string", "null"], "format": "date-time" },
            "tenant": { "type": "string", "minLength": 1, "maxLength": 256 },
            "action": { "type": "string", "minLength": 1, "maxLength": 256 },
            "category": text("What it is about."),
            "actor_type": text("Kind of actor."),
            "actor_id": text("Who did it."),
            "actor_name": text("The actor's name."),
            "target_type": text("Type of the first target."),
            "target_id": text("Id of the first target."),
            "targets": { "type": ["array", "null"], "maxItems": 64, "items": target },
            "outcome": { "enum": ["success", "failure", "denied", "unknown", null] },
            "outcome_reason": text("Why it ended so."),
            "severity": { "type": ["integer", "null"], "minimum": 1, "maximum": 24 },
            "source_ip": text("Where it came from."),
            "user_agent": text("By which program."),
            "service": text("In which service."),
            "request_id": text("In which request."),
            "session_id": text("In which session."),
            "trace_id": text("In which trace."),
            "message": text("For people."),
            "attributes": { "type": ["object", "null"], "description": "Anything else." },
        },
    })
}
