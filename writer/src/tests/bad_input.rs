//! Bad input: the right status, a problem document that says what to change, nothing stored.

use serde_json::{Value, json};

use super::support::{Writer, event, files_under, gzip, logs};
use sealcast_common::limits::{
    EVENT_BYTES_MAX, LABEL_BYTES_MAX, REQUEST_BYTES_MAX, REQUEST_EVENTS_MAX, TENANT_BYTES_MAX,
};

/// Content type, encoding, body; status and code of the refusal.
type Case = (Option<&'static str>, Option<&'static str>, Vec<u8>, u16, &'static str);

/// Nothing of a refused request is anywhere.
fn assert_empty(dir: &std::path::Path) {
    assert!(logs(dir).is_empty(), "a log holds events");
    assert!(files_under(&dir.join("sealed"), ".seg").is_empty(), "a segment was sealed");
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_events_are_refused_with_code_field_found_and_expected() {
    let dir = tempfile::tempdir().unwrap();
    let writer = Writer::start(dir.path()).await;
    let deep = format!("{}1{}", r#"{"a":"#.repeat(60), "}".repeat(60));
    let cases = [
        (r#"{"action":"a"}"#.to_owned(), "missing_field", "tenant"),
        (r#"{"tenant":"t"}"#.to_owned(), "missing_field", "action"),
        (r#"{"tenant":7,"action":"a"}"#.to_owned(), "wrong_type", "tenant"),
        (r#"{"tenant":"t","action":["a"]}"#.to_owned(), "wrong_type", "action"),
        (r#"{"tenant":"t","action":"a","severity":"high"}"#.to_owned(), "bad_value", "severity"),
        (r#"{"tenant":"t","action":"a","time":"yesterday"}"#.to_owned(), "bad_time", "time"),
        (r#"{"tenant":"t","action":"a","time":1700000000}"#.to_owned(), "wrong_type", "time"),
        (
            r#"{"tenant":"t","action":"a","time":"2999-01-01T00:00:00Z"}"#.to_owned(),
            "future_time",
            "time",
        ),
        (
            format!(r#"{{"tenant":"{}","action":"a"}}"#, "x".repeat(TENANT_BYTES_MAX + 1)),
            "too_long",
            "tenant",
        ),
        (
            format!(r#"{{"tenant":"t","action":"{}"}}"#, "x".repeat(LABEL_BYTES_MAX + 1)),
            "too_long",
            "action",
        ),
        (
            format!(r#"{{"tenant":"t","action":"a","message":"{}"}}"#, "x".repeat(EVENT_BYTES_MAX)),
            "too_long",
            "event",
        ),
        (format!(r#"{{"tenant":"t","action":"a","attributes":{deep}}}"#), "too_deep", "attributes"),
        (r#"{"tenant":"t","tenant":"u","action":"a"}"#.to_owned(), "duplicate_key", "tenant"),
        (
            r#"{"tenant":"t","action":"a","attributes":{"k":1,"k":2}}"#.to_owned(),
            "duplicate_key",
            "attributes",
        ),
        (r#"{"tenant":"t","action":"a","event_id":"42"}"#.to_owned(), "bad_uuid", "event_id"),
        (r#"{"tenant":"t","action":"a","colour":"red"}"#.to_owned(), "unknown_field", "colour"),
        (r#"{"tenant":"t","action":"a","_seq":1}"#.to_owned(), "reserved_field", "_seq"),
        (r#"{"tenant":"t","action":"a""#.to_owned(), "invalid_json", "event"),
    ];
    for (text, code, field) in cases {
        let answer = writer.post(Some("application/json"), None, text.clone().into_bytes()).await;
        let start: String = text.chars().take(80).collect();
        assert_eq!(answer.code(), (400, code.to_owned()), "{start}: {}", answer.text);
        let problem = answer.json();
        assert_eq!((&problem["index"], &problem["field"]), (&json!(0), &json!(field)), "{start}");
        assert!(problem["found"].is_string() && problem["expected"].is_string(), "{problem}");
        assert_eq!(answer.header("content-type"), "application/problem+json");
    }
    assert_empty(dir.path());
    writer.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_line_refuses_the_batch_and_names_its_line() {
    let dir = tempfile::tempdir().unwrap();
    let writer = Writer::start(dir.path()).await;
    let good = event("t", "a");
    let body = format!("{good}\n\n{{\"tenant\":\"t\"}}\n{good}\nnonsense\n");
    let lines = Some("application/x-ndjson");
    let answer = writer.post(lines, None, body.clone().into_bytes()).await;
    assert_eq!(answer.code(), (400, "missing_field".to_owned()));
    let problem = answer.json();
    assert_eq!((&problem["index"], &problem["line"]), (&json!(1), &json!(3)));
    assert_eq!(problem["errors_count"], 2);
    assert_eq!(
        (&problem["errors"][1]["line"], &problem["errors"][1]["index"]),
        (&json!(5), &json!(3))
    );
    assert_empty(dir.path());

    let partial = writer.post_query("?partial=true", body).await;
    assert_eq!(partial.status, 200, "{}", partial.text);
    let answer = partial.json();
    assert_eq!((&answer["accepted"], &answer["rejected_count"]), (&json!(2), &json!(2)));
    assert_eq!(
        (&answer["rejected"][0]["line"], &answer["rejected"][0]["code"]),
        (&json!(3), &json!("missing_field"))
    );
    let many = vec![json!({}); 100];
    let answer = writer.post_json(&Value::Array(many)).await.json();
    assert_eq!(
        (answer["errors"].as_array().unwrap().len(), &answer["errors_count"]),
        (20, &json!(100))
    );
    writer.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_bodies_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let writer = Writer::start(dir.path()).await;
    let json = Some("application/json");
    let good = event("t", "a").to_string();
    let truncated = {
        let mut all = gzip(&vec![b'x'; 9_000]);
        all.truncate(all.len() - 9);
        all
    };
    let zstd = zstd::encode_all(vec![7; 100_000].as_slice(), 3).unwrap();
    let bomb = gzip(&vec![b' '; REQUEST_BYTES_MAX + 2]);
    let zstd_bomb = zstd::encode_all(vec![b' '; REQUEST_BYTES_MAX + 2].as_slice(), 3).unwrap();
    let broken = [b"{\"tenant\":\"t".as_slice(), &[0xff], b"\",\"action\":\"a\"}"].concat();
    let events = format!("[{}1]", "1,".repeat(REQUEST_EVENTS_MAX));
    let cases: Vec<Case> = vec![
        (Some("text/plain"), None, good.clone().into(), 415, "unsupported_media_type"),
        (
            Some("application/x-www-form-urlencoded"),
            None,
            good.clone().into(),
            415,
            "unsupported_media_type",
        ),
        (json, Some("br"), good.clone().into(), 415, "unsupported_media_type"),
        (json, Some("gzip, zstd"), good.clone().into(), 415, "unsupported_media_type"),
        (json, Some("gzip"), truncated, 400, "bad_encoding"),
        (json, Some("gzip"), good.clone().into(), 400, "bad_encoding"),
        (json, Some("zstd"), zstd[..zstd.len() - 3].to_vec(), 400, "bad_encoding"),
        (json, Some("gzip"), bomb, 413, "body_too_large"),
        (json, Some("zstd"), zstd_bomb, 413, "body_too_large"),
        (json, None, vec![b' '; REQUEST_BYTES_MAX + 1], 413, "body_too_large"),
        (json, None, broken, 400, "invalid_utf8"),
        (json, None, Vec::new(), 400, "empty_body"),
        (json, None, b"[]".to_vec(), 400, "empty_body"),
        (Some("application/x-ndjson"), None, b"\n \r\n".to_vec(), 400, "empty_body"),
        (json, None, b"17".to_vec(), 400, "invalid_json"),
        (json, None, format!("[{good}, {{\"tenant\"").into(), 400, "invalid_json"),
        (json, None, events.into(), 413, "too_many_events"),
    ];
    for (content_type, encoding, body, status, code) in cases {
        let answer = writer.post(content_type, encoding, body).await;
        let what = format!("{content_type:?} {encoding:?}");
        assert_eq!(answer.code(), (status, code.to_owned()), "{what}: {}", answer.text);
        match code {
            "invalid_utf8" => assert_eq!(answer.json()["offset"], 12),
            "body_too_large" => assert_eq!(answer.json()["limit_bytes"], REQUEST_BYTES_MAX),
            _ => {}
        }
    }
    assert_empty(dir.path());
    writer.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_routes_methods_parameters_and_keys_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let writer = Writer::start(dir.path()).await;
    let good = event("t", "a").to_string();
    assert_eq!(writer.get("/v1/evnts").await.code(), (404, "unknown_route".into()));
    assert_eq!(writer.get("/v1/events").await.code(), (405, "wrong_method".into()));
    let deleted = writer.method(reqwest::Method::DELETE, "/v1/shards").await;
    assert_eq!(deleted.code(), (405, "wrong_method".into()));
    let unknown = writer.post_query("?partail=true", good.clone()).await;
    assert_eq!(unknown.code(), (400, "unknown_parameter".into()));
    assert_eq!(unknown.json()["hint"], "did you mean partial?");
    let bad = writer.post_query("?partial=maybe", good.clone()).await;
    assert_eq!(bad.code(), (400, "bad_parameter".into()));
    let long = "k".repeat(257);
    for key in ["", "two words", &long] {
        let answer = writer.post_with(&[("idempotency-key", key)], good.clone()).await;
        assert_eq!(answer.code(), (400, "bad_idempotency_key".into()), "{key}");
    }
    assert_empty(dir.path());
    writer.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_stall_are_given_up_and_leave_room_for_others() {
    let dir = tempfile::tempdir().unwrap();
    let writer = Writer::start(dir.path()).await;
    // Together they claim more memory than there is for bodies.
    let stalled = format!(
        "POST /v1/events HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {REQUEST_BYTES_MAX}\r\n\r\n["
    );
    let requests = (0..20).map(|_| writer.raw(stalled.as_bytes()));
    let served = async {
        for _ in 0..3 {
            let answer = writer.post_json(&event("t", "a")).await;
            assert_eq!(answer.status, 200, "{}", answer.text);
        }
    };
    let (answers, ()) = futures::future::join(futures::future::join_all(requests), served).await;
    let slow = answers.iter().filter(|answer| answer.contains("body_too_slow")).count();
    assert!(slow > 0, "{answers:?}");
    assert!(answers.iter().all(|a| a.starts_with("HTTP/1.1 408") || a.starts_with("HTTP/1.1 429")));
    writer.stop().await.unwrap();
}
