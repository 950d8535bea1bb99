//! Complete, or saying what is missing: damaged segments, broken streams, `allow_partial`.

use serde_json::{Value, json};

use super::kit::{Bucket, event};

/// Three segments of `rows` rows, the middle one damaged in the store.
pub(crate) async fn damaged(rows: u64) -> Bucket {
    let mut bucket = Bucket::new().await;
    for segment in 0..3u64 {
        let events = (segment * rows..(segment + 1) * rows).map(|seq| event(0, seq));
        let descriptor = bucket.ship(0, events.collect()).await;
        if segment == 1 {
            bucket.damage(&descriptor);
        }
    }
    bucket
}

#[tokio::test]
async fn a_damaged_segment_fails_what_needs_it_and_nothing_else() {
    let bucket = damaged(100).await;
    let replica = bucket.replica_with(|config| config.partitions = 1).await;
    replica.wait_visible(300).await;
    let (status, problem) =
        replica.refusal(&json!({ "sql": "select sum(_seq) from events" })).await;
    assert_eq!((status, &problem["code"]), (503, &json!("segment_unavailable")), "{problem}");
    assert_eq!((&problem["shard"], &problem["range"]), (&json!(0), &json!([100, 200])));
    assert!(problem["segment"].as_str().unwrap().starts_with("0000/"), "{problem}");
    assert!(problem["check"].is_string(), "{problem}");
    // Counts come from commits only while nothing is known to be bad.
    let (status, _) = replica.refusal(&json!({ "sql": "select count(*) from events" })).await;
    assert_eq!(status, 503);
    let rows = replica.rows("select count(*) from events where _seq < 100").await;
    assert_eq!(rows, json!([[100]]));
    let rows = replica
        .rows("select start, fault_check from sealcast.segments where state = 'quarantined'")
        .await;
    assert_eq!((rows[0][0].as_u64(), rows[0][1].is_string()), (Some(100), true), "{rows}");
    replica.stop().await;
}

#[tokio::test]
async fn a_stream_that_breaks_is_never_complete() {
    let bucket = damaged(100).await;
    let replica = bucket.replica_with(|config| config.partitions = 1).await;
    replica.wait_visible(300).await;
    for format in ["json", "ndjson", "csv", "arrow", "parquet"] {
        let body = json!({ "sql": "select _seq, attributes from events", "format": format });
        let response = replica.post(&body).await;
        // The first segment's rows are on their way before the second one is found missing.
        assert_eq!(response.status(), 200, "{format}");
        assert!(response.bytes().await.is_err(), "{format}");
    }
    replica.stop().await;
}

#[tokio::test]
async fn allow_partial_lists_what_is_missing() {
    let bucket = damaged(100).await;
    let replica = bucket.replica_with(|_| {}).await;
    replica.wait_visible(300).await;
    let body = json!({ "sql": "select count(*), sum(_seq) from events", "allow_partial": true });
    let response = replica.post(&body).await;
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["sealcast-complete"], "false");
    assert_eq!(response.headers()["sealcast-missing"], "0:[100,200)");
    let document: Value = response.json().await.unwrap();
    let sum: u64 = (0..100).chain(200..300).sum();
    assert_eq!(document["rows"], json!([[200, sum]]));
    assert_eq!(
        (&document["complete"], &document["missing"]),
        (&json!(false), &json!(["0:[100,200)"]))
    );
    let body =
        json!({ "sql": "select count(*) from events where _seq >= 200", "allow_partial": true });
    let response = replica.post(&body).await;
    assert_eq!(response.headers()["sealcast-complete"], "true");
    replica.stop().await;
}

#[tokio::test]
async fn a_replica_that_has_read_nothing_does_not_answer_no_rows() {
    let bucket = Bucket::filled(1, 10).await;
    let empty = tempfile::tempdir().unwrap();
    let nowhere = empty.path().display().to_string();
    let replica = bucket.replica_with(|config| config.store = nowhere).await;
    for sql in ["select count(*) from events", "select action from events limit 1"] {
        let (status, problem) = replica.refusal(&json!({ "sql": sql })).await;
        assert_eq!((status, &problem["code"]), (503, &json!("replica_starting")), "{problem}");
    }
    // What it knows of itself can be asked.
    assert_eq!(replica.rows("select count(*) from sealcast.streams").await, json!([[0]]));
    replica.stop().await;
}
