//! The writer through its door: real HTTP on port 0, real files in a temporary directory.

mod access;
mod bad_input;
mod corruption;
mod crash;
mod faults;
mod hostile;
mod idempotency;
mod lifecycle;
mod signer;
mod support;

use serde_json::{Value, json};

use support::{Writer, event, sealed_rows};

/// Content type, encoding, body, events in it.
type Form = (Option<&'static str>, Option<&'static str>, Vec<u8>, u64);

#[tokio::test(flavor = "multi_thread")]
async fn an_event_is_answered_sealed_and_verifies() {
    let dir = tempfile::tempdir().unwrap();
    let writer = Writer::start(dir.path()).await;
    let answer = writer.post_json(&event("acme", "user.login")).await.json();
    assert_eq!((&answer["accepted"], &answer["duplicates"]), (&json!(1), &json!(0)));
    assert_eq!(answer["routing_version"], 1);
    let flushed = writer.flush("").await.json();
    assert_eq!(flushed["segments"], 1);
    let shard = answer["events"][0]["shard"].as_u64().unwrap();
    assert_eq!(flushed["vector"][shard.to_string()], 1);
    assert_eq!(writer.flush("").await.json()["segments"], 0);
    let rows = sealed_rows(dir.path());
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].event_id, answer["events"][0]["event_id"].as_str().unwrap());
    writer.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn every_body_form_is_understood() {
    let dir = tempfile::tempdir().unwrap();
    let writer = Writer::start(dir.path()).await;
    let object = event("acme", "a").to_string();
    let array = format!("[{object}, {object}]");
    let lines = format!("{object}\r\n\n  {object}\n");
    let pretty = serde_json::to_string_pretty(&event("acme", "a")).unwrap();
    let gzip = support::gzip(lines.as_bytes());
    let zstd = zstd::encode_all(array.as_bytes(), 3).unwrap();
    let json = Some("application/json");
    let cases: [Form; 11] = [
        (json, None, object.clone().into(), 1),
        (Some("application/json; charset=utf-8"), None, array.clone().into(), 2),
        (json, None, pretty.clone().into(), 1),
        (Some("application/x-ndjson"), None, lines.clone().into(), 2),
        (Some("application/jsonl"), Some("identity"), lines.clone().into(), 2),
        (None, None, pretty.into(), 1),
        (None, None, array.into(), 2),
        (None, None, lines.into(), 2),
        (Some("application/ndjson"), Some("gzip"), gzip, 2),
        (json, Some("zstd"), zstd, 2),
        (None, None, object.into(), 1),
    ];
    let mut sent = 0;
    for (content_type, encoding, body, count) in cases {
        let answer = writer.post(content_type, encoding, body).await;
        assert_eq!(answer.status, 200, "{content_type:?} {encoding:?}: {}", answer.text);
        assert_eq!(answer.json()["accepted"], count, "{content_type:?} {encoding:?}");
        sent += count;
    }
    writer.stop().await.unwrap();
    assert_eq!(sealed_rows(dir.path()).len() as u64, sent);
}

#[tokio::test(flavor = "multi_thread")]
async fn parallel_requests_are_all_stored_once() {
    let dir = tempfile::tempdir().unwrap();
    let writer = Writer::start(dir.path()).await;
    let posts = (0..50).map(|i| {
        let tenant = format!("tenant-{}", i % 7);
        let batch: Vec<Value> = (0..4).map(|k| event(&tenant, &format!("act.{i}.{k}"))).collect();
        writer.post_json_owned(Value::Array(batch))
    });
    let answers = futures::future::join_all(posts).await;
    let mut acknowledged: Vec<(u64, u64, String)> = Vec::new();
    for answer in answers {
        let answer = answer.json();
        assert_eq!(answer["accepted"], 4);
        for placed in answer["events"].as_array().unwrap() {
            let (shard, seq) = (placed["shard"].as_u64().unwrap(), placed["seq"].as_u64().unwrap());
            acknowledged.push((shard, seq, placed["event_id"].as_str().unwrap().to_owned()));
        }
    }
    writer.stop().await.unwrap();
    let mut stored: Vec<(u64, u64, String)> = sealed_rows(dir.path())
        .into_iter()
        .map(|row| (row.shard.into(), row.seq, row.event_id))
        .collect();
    acknowledged.sort();
    stored.sort();
    assert_eq!(acknowledged, stored);
}

#[tokio::test(flavor = "multi_thread")]
async fn shards_and_probes_tell_the_state() {
    let dir = tempfile::tempdir().unwrap();
    let writer = Writer::start(dir.path()).await;
    writer.post_json(&event("acme", "a")).await.json();
    let shards = writer.get("/v1/shards").await.json();
    assert_eq!(shards["fsync"], "always");
    let sizes: u64 =
        shards["shards"].as_array().unwrap().iter().map(|s| s["size"].as_u64().unwrap()).sum();
    assert_eq!(sizes, 1);
    let first = &shards["shards"][0];
    assert_eq!(first["state"], "active");
    assert!(first["key"].as_str().unwrap().starts_with(first["origin"].as_str().unwrap()));
    assert_eq!(writer.get("/livez").await.status, 200);
    assert_eq!(writer.get("/readyz").await.status, 200);
    assert_eq!(writer.get("/metrics").await.status, 200);
    writer.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn another_routing_version_is_sent_back() {
    let dir = tempfile::tempdir().unwrap();
    let writer = Writer::start(dir.path()).await;
    let body = event("acme", "a").to_string();
    let stale = writer.post_with(&[("sealcast-routing-version", "7")], body.clone()).await;
    assert_eq!((stale.status, stale.json()["code"].clone()), (409, json!("stale_route")));
    assert_eq!(stale.json()["routing_version"], 1);
    assert_eq!(stale.header("sealcast-routing-version"), "1");
    let right = writer.post_with(&[("sealcast-routing-version", "1")], body).await;
    assert_eq!(right.status, 200);
    writer.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn flush_waits_for_the_shippers_mark() {
    let dir = tempfile::tempdir().unwrap();
    let writer = Writer::start(dir.path()).await;
    writer.post_json(&event("acme", "a")).await.json();
    writer.flush("").await.json();
    let late = writer.flush("?wait=shipped&timeout_ms=150").await;
    assert_eq!((late.status, late.json()["code"].clone()), (504, json!("not_shipped_in_time")));
    let vector = late.json()["vector"].clone();
    assert!(late.json()["token"].as_str().unwrap().starts_with("v1."));
    let mark = json!({ "stream": writer.node(), "seq": 1, "vector": vector });
    support::write(&dir.path().join("shipped.json"), mark.to_string().as_bytes());
    let shipped = writer.flush("?wait=shipped").await.json();
    assert_eq!((&shipped["shipped"], &shipped["vector"]), (&json!(true), &vector));
    let shards = writer.get("/v1/shards").await.json();
    for shard in shards["shards"].as_array().unwrap() {
        assert_eq!(shard["shipped"], shard["sealed"]);
    }
    for query in ["?wait=never", "?timeout_ms=x", "?wiat=sealed", "?wait=sealed&wait=sealed"] {
        assert_eq!(writer.flush(query).await.status, 400, "{query}");
    }
    writer.stop().await.unwrap();
}
