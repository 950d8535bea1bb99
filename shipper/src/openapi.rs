//! The shipper's routes as OpenAPI: `GET /openapi.json`.

use std::collections::BTreeMap;

use sealcast_common::serve::openapi::{Document, Route};
use serde_json::json;

use crate::status::{ShardShipping, Shipped, Status, StoreCheck, StoreProbe};

/// The description of a shipper.
pub fn openapi() -> Document {
    Document::new("Sealcast shipper", "Copies sealed segments to the object store, commits them.")
        .route("get", "/v1/status", status())
        .route("post", "/v1/ship", ship())
        .route("get", "/v1/streams/{stream}/events", events())
}

fn status() -> Route {
    let shard =
        ShardShipping { shard: 0, sealed: 42, shipped: 40, lag_rows: 2, oldest: None, fault: None };
    let answer = Status {
        state: "shipping".into(),
        store: "s3://events".into(),
        stream: "writer-1".into(),
        cluster: "prod".into(),
        epoch: 1,
        seq: 7,
        lag_rows: Some(2),
        lag_ms: Some(120),
        store_age_ms: Some(1_500),
        store_seen: None,
        probe: Some(probe()),
        last_error: None,
        shards: vec![shard],
    };
    let about = "Epoch, last commit, what is sealed and shipped, what stops a shard.";
    Route::new("status", "How shipping goes", about).answer_of(200, "The status.", &answer)
}

fn probe() -> StoreProbe {
    let check = StoreCheck {
        check: "create_only".into(),
        kept: Some(true),
        expected: "a second create refused and the first content kept".into(),
        found: "the second create was refused".into(),
    };
    StoreProbe {
        at: "2026-12-01T12:00:00.000000Z".into(),
        fencing: "cas".into(),
        checks: vec![check],
    }
}

fn ship() -> Route {
    let answer = Shipped { commits: 1, segments: 2, seq: 8, blocked: BTreeMap::new() };
    let about = "Ships what is sealed now and answers when it is committed.";
    Route::new("ship", "Ship now", about)
        .parameter("query", "flush", json!({ "type": "boolean" }), "Flush the writer first.")
        .answer_of(200, "Committed; `blocked` names shards that do not ship.", &answer)
        .problems(400, &["invalid_parameter", "writer_not_configured"])
        .problems(429, &["too_many_requests"])
        .problems(503, &["stopping", "ship_timeout", "writer_unavailable"])
        // Another shipper owns the stream: not tried again.
        .problems(503, &["fenced", "split"])
        // The turn that was waited for failed; it is tried again.
        .problems(503, &["store", "commit_unknown", "log", "file", "signer", "claim", "task"])
}

fn events() -> Route {
    let text = json!({ "type": "string" });
    let example = "id: 8\ndata: {\"stream\":\"writer-1\",\"seq\":8,\"unshipped_rows\":0}\n\n";
    let about = "One hint per commit, a keep-alive every 10 s, `event: closed` at the end.";
    Route::new("streamEvents", "Hints of commits", about)
        .parameter("path", "stream", json!({ "type": "string" }), "This shipper's stream.")
        .answer(200, "Server-sent events.", &[("text/event-stream", text, example.into())])
        .problems(404, &["unknown_stream"])
        .problems(503, &["starting"])
}
