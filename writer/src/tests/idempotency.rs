//! Retries: by request key and by event id, in one process, across restarts, across seals.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::Notify;

use super::support::{PlannedFiles, Writer, config, event, sealed_rows};

fn batch() -> String {
    let tenants = ["acme", "globex", "initech", "umbrella", "hooli", "stark"];
    let events: Vec<Value> = tenants.iter().map(|tenant| event(tenant, "user.login")).collect();
    Value::Array(events).to_string()
}

fn with_id(id: &str, action: &str) -> Value {
    json!({ "event_id": id, "tenant": "acme", "action": action })
}

const ID: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

#[tokio::test(flavor = "multi_thread")]
async fn a_request_key_gets_the_first_answer_again_also_after_restarts() {
    let dir = tempfile::tempdir().unwrap();
    let key = [("idempotency-key", "batch-1")];
    let writer = Writer::start(dir.path()).await;
    let first = writer.post_with(&key, batch()).await;
    assert_eq!(first.status, 200, "{}", first.text);
    let shards: std::collections::BTreeSet<u64> = first.json()["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|placed| placed["shard"].as_u64().unwrap())
        .collect();
    assert_eq!(shards.len(), 2, "the batch spans both shards");
    assert_eq!(writer.post_with(&key, batch()).await.json(), first.json());

    // As after kill -9: the copy has logs only, and remembers from them.
    let crashed = tempfile::tempdir().unwrap();
    super::support::copy_dir(dir.path(), crashed.path());
    let survivor = Writer::start(crashed.path()).await;
    assert_eq!(survivor.post_with(&key, batch()).await.json(), first.json());
    survivor.stop().await.unwrap();

    // After an orderly end everything is sealed: it remembers from the seals.
    writer.stop().await.unwrap();
    let writer = Writer::start(dir.path()).await;
    assert_eq!(writer.post_with(&key, batch()).await.json(), first.json());
    let other = writer.post_with(&key, event("acme", "other").to_string()).await;
    assert_eq!(other.code(), (422, "idempotency_key_reused".into()));
    writer.stop().await.unwrap();
    assert_eq!(sealed_rows(dir.path()).len(), 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_retries_of_one_key_store_once() {
    let dir = tempfile::tempdir().unwrap();
    let writer = Writer::start(dir.path()).await;
    let key = [("idempotency-key", "race")];
    let answers = futures::future::join_all((0..20).map(|_| writer.post_with(&key, batch()))).await;
    let first = answers[0].json();
    assert!(answers.iter().all(|answer| answer.status == 200 && answer.json() == first));
    writer.stop().await.unwrap();
    assert_eq!(sealed_rows(dir.path()).len(), 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_events_own_id_makes_it_unique_for_its_tenant() {
    let dir = tempfile::tempdir().unwrap();
    let writer = Writer::start(dir.path()).await;
    let first = writer.post_json(&with_id(ID, "login")).await.json();
    assert_eq!(first["duplicates"], 0);
    for round in 0..3 {
        let again = writer.post_json(&with_id(ID, "login")).await.json();
        assert_eq!(again["events"], first["events"], "round {round}");
        assert_eq!((&again["accepted"], &again["duplicates"]), (&json!(1), &json!(1)));
        let other = writer.post_json(&with_id(ID, "logout")).await;
        assert_eq!(other.code(), (422, "event_id_reused".into()));
        assert_eq!(other.json()["field"], "event_id");
        let mut timed = with_id(ID, "login");
        timed["time"] = "2020-01-01T00:00:00Z".into();
        assert_eq!(writer.post_json(&timed).await.status, 422);
        if round == 1 {
            writer.flush("").await.json();
        }
    }
    // Another tenant's same id is another event.
    let mut foreign = with_id(ID, "login");
    foreign["tenant"] = "globex".into();
    assert_eq!(writer.post_json(&foreign).await.json()["duplicates"], 0);
    writer.stop().await.unwrap();

    let writer = Writer::start(dir.path()).await;
    let again = writer.post_json(&with_id(ID, "login")).await.json();
    assert_eq!((&again["events"], &again["duplicates"]), (&first["events"], &json!(1)));
    assert_eq!(writer.post_json(&with_id(ID, "logout")).await.status, 422);
    writer.stop().await.unwrap();
    assert_eq!(sealed_rows(dir.path()).len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_twice_in_one_request_is_a_repeat_or_a_refusal_of_all() {
    let dir = tempfile::tempdir().unwrap();
    let writer = Writer::start(dir.path()).await;
    let twice = json!([with_id(ID, "login"), event("globex", "x"), with_id(ID, "login")]);
    let key = [("idempotency-key", "twice")];
    let first = writer.post_with(&key, twice.to_string()).await.json();
    assert_eq!((&first["accepted"], &first["duplicates"]), (&json!(3), &json!(1)));
    assert_eq!(first["events"][0], first["events"][2]);
    assert_eq!(writer.post_with(&key, twice.to_string()).await.json(), first);

    // Spans both shards: neither may store its part.
    let tenants = ["globex", "initech", "umbrella", "hooli", "stark"];
    let mut mixed: Vec<Value> = tenants.iter().map(|tenant| event(tenant, "y")).collect();
    mixed.push(with_id(ID, "other"));
    let refused = writer.post_json(&Value::Array(mixed.clone())).await;
    assert_eq!(refused.code(), (422, "event_id_reused".into()));
    assert_eq!(refused.json()["index"], 5);
    let partial = writer.post_query("?partial=true", Value::Array(mixed).to_string()).await.json();
    assert_eq!((&partial["accepted"], &partial["rejected_count"]), (&json!(5), &json!(1)));
    assert_eq!(partial["rejected"][0]["code"], "event_id_reused");
    writer.stop().await.unwrap();
    assert_eq!(sealed_rows(dir.path()).len(), 2 + 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partial_request_is_answered_again_with_what_it_refused() {
    let dir = tempfile::tempdir().unwrap();
    let writer = Writer::start(dir.path()).await;
    writer.post_json(&with_id(ID, "login")).await.json();
    let body = json!([with_id(ID, "other"), event("acme", "x"), { "tenant": "acme" }]).to_string();
    let first = writer.post_keyed("?partial=true", "part", body.clone()).await.json();
    assert_eq!((&first["accepted"], &first["rejected_count"]), (&json!(1), &json!(2)));
    assert_eq!(writer.post_keyed("?partial=true", "part", body.clone()).await.json(), first);
    writer.stop().await.unwrap();
    let writer = Writer::start(dir.path()).await;
    assert_eq!(writer.post_keyed("?partial=true", "part", body).await.json(), first);
    writer.stop().await.unwrap();
    assert_eq!(sealed_rows(dir.path()).len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_whose_events_are_all_repeats_stands_for_its_body() {
    let dir = tempfile::tempdir().unwrap();
    let writer = Writer::start(dir.path()).await;
    writer.post_json(&with_id(ID, "login")).await.json();
    let key = [("idempotency-key", "again")];
    let body = with_id(ID, "login").to_string();
    let first = writer.post_with(&key, body.clone()).await.json();
    assert_eq!((&first["accepted"], &first["duplicates"]), (&json!(1), &json!(1)));
    let other = event("acme", "other").to_string();
    let reused = (422, "idempotency_key_reused".to_owned());
    assert_eq!(writer.post_with(&key, other.clone()).await.code(), reused);
    let crashed = tempfile::tempdir().unwrap();
    super::support::copy_dir(dir.path(), crashed.path());
    writer.stop().await.unwrap();
    // From the log, and from the seal.
    for dir in [crashed.path(), dir.path()] {
        let writer = Writer::start(dir).await;
        assert_eq!(writer.post_with(&key, body.clone()).await.json(), first);
        assert_eq!(writer.post_with(&key, other.clone()).await.code(), reused);
        writer.stop().await.unwrap();
        assert_eq!(sealed_rows(dir).len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_bodies_that_race_for_one_key_are_told_for_good() {
    let dir = tempfile::tempdir().unwrap();
    let writer = Writer::start(dir.path()).await;
    for round in 0..20 {
        let key = format!("race-{round}");
        let posts = (0..6).map(|i| {
            let body = batch().replace("user.login", &format!("body.{}", i % 2));
            writer.post_keyed("", &key, body)
        });
        let answers = futures::future::join_all(posts).await;
        assert!(answers.iter().any(|answer| answer.status == 200));
        for answer in answers.iter().filter(|answer| answer.status != 200) {
            assert_eq!(answer.code(), (422, "idempotency_key_reused".into()));
            assert!(answer.text.contains("nothing was stored"), "{}", answer.text);
        }
    }
    writer.stop().await.unwrap();
    assert_eq!(sealed_rows(dir.path()).len(), 20 * 6, "one body a key, whole");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_stays_held_while_its_request_runs_also_without_its_client() {
    let dir = tempfile::tempdir().unwrap();
    let (reached, (open, gate)) = (Arc::new(Notify::new()), std::sync::mpsc::channel::<()>());
    let seen = Arc::clone(&reached);
    let files = PlannedFiles::new(move |asked: &str, path: &Path| {
        if asked == "append" && path.extension().is_some_and(|extension| extension == "wal") {
            seen.notify_one();
            let _opened = gate.recv();
        }
        None
    });
    let writer = Arc::new(Writer::start_with(config(dir.path()), files.seams()).await.unwrap());
    let first = event("acme", "first").to_string();
    let (posting, body) = (Arc::clone(&writer), first.clone());
    let client = tokio::spawn(async move { posting.post_keyed("", "k", body).await });
    reached.notified().await;
    client.abort();
    // For a tenant of the other shard, which has not heard of the key.
    let other = event("globex", "other").to_string();
    for _ in 0..50 {
        let refused = writer.post_keyed("", "k", other.clone()).await;
        assert_eq!(refused.code(), (422, "idempotency_key_reused".into()));
    }
    drop(open);
    assert_eq!(writer.post_keyed("", "k", first).await.json()["events"][0]["seq"], 0);
    assert!(client.await.is_err());
    Arc::into_inner(writer).unwrap().stop().await.unwrap();
    assert_eq!(sealed_rows(dir.path()).len(), 1);
}
