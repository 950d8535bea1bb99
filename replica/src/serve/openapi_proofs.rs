//! The routes of proofs and logs as OpenAPI.

use sealcast_common::limits::WAIT_MS_MAX;
use sealcast_common::serve::openapi::Route;
use serde_json::{Value, json};

use super::proofs::{BUNDLE_ROWS_MAX, RANGE_ROWS_MAX};

const PROOF: &str = "c2sp.org/tlog-proof@v1\nindex 1\n\
    8nvwOM+tRdN0vO6eZSy1xw46dBZQrEcf5oQsyRWm8mA=\n\ncluster/0000\n2\n…\n\n— cluster/0000 …\n";
const NOTE: &str = "cluster/0000\n2\n…\n\n— cluster/0000 …\n";
const KEY: &str = "cluster/0000+1a2b3c4d+AQ…";
const HASH: &str = "8nvwOM+tRdN0vO6eZSy1xw46dBZQrEcf5oQsyRWm8mA=";

/// Method, path and description of each.
pub(super) fn proofs() -> [(&'static str, &'static str, Route); 6] {
    [
        ("post", "/v1/proofs", bundle()),
        ("get", "/v1/proofs/{shard}/{seq}", row()),
        ("get", "/v1/proofs/consistency", consistency()),
        ("get", "/v1/proofs/range", range()),
        ("get", "/log/{shard}/checkpoint", checkpoint()),
        ("get", "/log/{shard}/tile/{*path}", tile()),
    ]
}

fn text() -> Value {
    json!({ "type": "string" })
}

fn number() -> Value {
    json!({ "type": "integer", "minimum": 0 })
}

fn base64() -> Value {
    json!({ "type": "string", "contentEncoding": "base64" })
}

fn list(items: Value) -> Value {
    json!({ "type": "array", "items": items })
}

fn object(properties: Value) -> Value {
    json!({ "type": "object", "properties": properties })
}

/// Which state of the log it is about: the parameters of all routes under `/v1/proofs`.
fn pinned(route: Route) -> Route {
    let wait = json!({ "type": "integer", "minimum": 0, "maximum": WAIT_MS_MAX });
    let stale = json!({ "type": "boolean" });
    let route = route
        .parameter("query", "min", text(), "Wait until the replica holds what this token names.")
        .parameter("query", "wait_ms", wait, "How long to wait for `min`.")
        .parameter("query", "allow_stale", stale, "Answer also where the state may be old.");
    refusals(with_min(route))
}

fn with_min(route: Route) -> Route {
    route
        .parameter("header", "sealcast-min", text(), "The same as min.")
        .header(200, "sealcast-snapshot", "Which state of the log was asked.")
        .problems(400, &["request_invalid", "token_invalid"])
        .problems(412, &["not_yet_replicated"])
}

fn refusals(route: Route) -> Route {
    route
        .problems(404, &["unknown_row"])
        .problems(408, &["query_timeout"])
        .problems(413, &["result_too_large"])
        .problems(429, &["too_many_queries"])
        .problems(500, &["segment_corrupt", "tiles_corrupt"])
        .problems(503, &["replica_starting", "replica_stale", "segment_unavailable"])
        .problems(503, &["tiles_unavailable"])
}

fn place(route: Route) -> Route {
    route
        .parameter("query", "shard", number(), "The shard, decimal.")
        .parameter("query", "from", number(), "First row, or the smaller size.")
        .parameter("query", "to", number(), "One past the last row, or the larger size.")
        .problems(403, &["tenant_denied"])
}

fn row() -> Route {
    let schema = object(json!({
        "shard": number(),
        "seq": number(),
        "tenant": text(),
        "leaf": base64(),
        "proof": text(),
        "key": text(),
    }));
    let example = json!({
        "shard": 0, "seq": 1, "tenant": "acme", "leaf": "tQABAVA…", "proof": PROOF, "key": KEY,
    });
    let about = "The leaf's bytes, and a C2SP tlog-proof that the shard's signed tree has them.";
    let contents = [
        ("application/json", schema, example),
        ("text/plain", text(), PROOF.into()),
        ("application/cbor", json!({}), Value::Null),
    ];
    let route = Route::new("proveRow", "Prove a row", about)
        .parameter("path", "shard", number(), "`_shard`, decimal.")
        .parameter("path", "seq", number(), "`_seq`, decimal.")
        .answer(200, "All of it; the proof alone; the leaf alone.", &contents)
        .problems(406, &["not_acceptable"]);
    pinned(route)
}

fn bundle() -> Route {
    let place = object(json!({ "shard": number(), "seq": number() }));
    let mut rows = list(place);
    rows["maxItems"] = BUNDLE_ROWS_MAX.into();
    let wait = json!({ "type": "integer", "minimum": 0, "maximum": WAIT_MS_MAX });
    let asked = object(json!({
        "rows": rows,
        "min": text(),
        "wait_ms": wait,
        "allow_stale": { "type": "boolean" },
    }));
    let example = json!({ "rows": [{ "shard": 0, "seq": 1 }] });
    let note = object(json!({ "note": text(), "key": text() }));
    let told = object(json!({
        "shard": number(), "seq": number(), "leaf": base64(), "path": list(number()),
    }));
    let schema = object(json!({
        "checkpoints": { "type": "object", "additionalProperties": note },
        "nodes": list(base64()),
        "rows": list(told),
    }));
    let answer = json!({
        "checkpoints": { "0": { "note": NOTE, "key": KEY } },
        "nodes": [HASH],
        "rows": [{ "shard": 0, "seq": 1, "leaf": "tQABAVA…", "path": [0] }],
    });
    let about = "All or none of the rows. `path` is an inclusion proof: indexes into `nodes`, from \
                 the leaf's sibling upwards.";
    let route = Route::new("proveRows", "Prove many rows", about)
        .body("The rows.", &[("application/json", asked, example)])
        .answer(200, "The proofs.", &[("application/json", schema, answer)])
        .problems(400, &["body_invalid"])
        .problems(413, &["too_many_rows", "body_invalid"]);
    refusals(with_min(route))
}

fn consistency() -> Route {
    let schema = object(json!({
        "shard": number(),
        "from": number(),
        "to": number(),
        "root_from": base64(),
        "root_to": base64(),
        "proof": list(base64()),
        "proof_to_checkpoint": list(base64()),
        "checkpoint": text(),
        "key": text(),
    }));
    let example = json!({
        "shard": 0, "from": 1, "to": 2, "root_from": HASH, "root_to": HASH, "proof": [HASH],
        "proof_to_checkpoint": [], "checkpoint": NOTE, "key": KEY,
    });
    let about = "That the log at `to` rows (default: the newest checkpoint) continues what it was \
                 at `from`; and that the checkpoint continues `to`.";
    let route = Route::new("proveConsistency", "Prove that a log has only grown", about).answer(
        200,
        "Both roots and the proofs.",
        &[("application/json", schema, example)],
    );
    pinned(place(route))
}

fn range() -> Route {
    let schema = object(json!({
        "shard": number(),
        "from": number(),
        "to": number(),
        "leaves": list(base64()),
        "left": list(base64()),
        "right": list(base64()),
        "checkpoint": text(),
        "key": text(),
    }));
    let example = json!({
        "shard": 0, "from": 1, "to": 2, "leaves": ["tQABAVA…"], "left": [HASH], "right": [],
        "checkpoint": NOTE, "key": KEY,
    });
    let about = format!(
        "Up to {RANGE_ROWS_MAX} rows that are all of theirs: `left`, the leaves and `right` as \
         compact ranges give the checkpoint's root. Without `to`: as many as there may be."
    );
    let route = Route::new("proveRange", "Rows without a gap", &about)
        .answer(200, "The leaves.", &[("application/json", schema, example)])
        .problems(413, &["too_many_rows"]);
    pinned(place(route))
}

fn log(route: Route) -> Route {
    let shard = json!({ "type": "string", "pattern": "^[0-9a-f]{4}$" });
    refusals(
        route
            .parameter("path", "shard", shard, "The shard as in the log's origin: four hex digits.")
            .problems(403, &["tenant_denied"])
            .problems(404, &["unknown_tile"]),
    )
}

fn checkpoint() -> Route {
    let about = "C2SP tlog-tiles: the newest signed checkpoint of the shard's log.";
    let route = Route::new("logCheckpoint", "A log's checkpoint", about).answer(
        200,
        "A signed note.",
        &[("text/plain", text(), NOTE.into())],
    );
    log(route)
}

fn tile() -> Route {
    let about = "C2SP tlog-tiles: `<L>/<N>[.p/<W>]` hashes of 32 bytes, `entries/<N>[.p/<W>]` leaves \
                 behind their lengths (two bytes, big endian). Each is shown to lead to the \
                 checkpoint before it is given, and never changes.";
    let route = Route::new("logTile", "A log's tile or entries", about)
        .parameter("path", "*path", text(), "Such as `0/x001/234` or `entries/000.p/7`.")
        .answer(200, "The bytes.", &[("application/octet-stream", json!({}), Value::Null)]);
    log(route)
}
