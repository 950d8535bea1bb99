//! Status, events and requests over real HTTP.

use std::sync::{Arc, Mutex};

use axum::routing::{get, post};
use axum::{Json, Router};
use futures::StreamExt as _;
use sealcast_common::durable::{Durable as _, RealFiles};
use sealcast_common::integrity::VerifyKey;
use sealcast_common::wire::{FlushResponse, ShardStatus, ShardsResponse, StreamHint};
use serde_json::Value;

use super::sealed::{CLUSTER, SealedDir};
use super::stores::folder;
use super::{config, started, until};
use crate::{Config, Shipped, Status};

async fn json(response: reqwest::Response) -> (u16, Value) {
    (response.status().as_u16(), response.json().await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_ships_what_is_sealed_and_status_says_so() {
    let (_folder, store) = folder();
    let mut sealed = SealedDir::new(2);
    let (handle, stop) = started(config(&sealed), &store).await;
    until("ready", || handle.health.reasons().is_empty()).await;
    let base = format!("http://{}", handle.http);
    let client = reqwest::Client::new();
    sealed.seal(1, 5);
    let answer = client.post(format!("{base}/v1/ship")).send().await.unwrap();
    let answer: Shipped = answer.json().await.unwrap();
    assert_eq!((answer.seq, answer.blocked.len()), (2, 0));
    let status = client.get(format!("{base}/v1/status")).send().await.unwrap();
    let status: Status = status.json().await.unwrap();
    assert_eq!((status.stream.as_str(), status.seq, status.epoch), ("node-a", 2, 1));
    assert_eq!((status.shards[1].sealed, status.shards[1].shipped), (5, 5));
    let ready = client.get(format!("{base}/readyz")).send().await.unwrap();
    assert_eq!(ready.status(), 200);
    stop.cancel();
    handle.join().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn events_tell_the_position_at_once_and_after_every_commit_and_why_they_end() {
    let (_folder, store) = folder();
    let mut sealed = SealedDir::new(1);
    let (handle, stop) = started(config(&sealed), &store).await;
    until("ready", || handle.health.reasons().is_empty()).await;
    let url = format!("http://{}/v1/streams/node-a/events", handle.http);
    let mut events = reqwest::get(url).await.unwrap().bytes_stream();
    let mut text = String::new();
    for seq in 1..=3 {
        while text.matches("data:").count() < seq {
            text.push_str(std::str::from_utf8(&events.next().await.unwrap().unwrap()).unwrap());
        }
        let last = text.lines().rfind(|line| line.starts_with("data:")).unwrap();
        let hint: StreamHint = serde_json::from_str(&last["data:".len()..]).unwrap();
        assert_eq!((hint.stream.as_str(), hint.seq), ("node-a", seq as u64));
        assert_eq!(hint.unshipped_rows, 0);
        sealed.seal(0, 5);
    }
    stop.cancel();
    while let Some(Ok(more)) = events.next().await {
        text.push_str(std::str::from_utf8(&more).unwrap());
    }
    assert!(text.contains("event: closed\ndata: stopped"), "{text}");
    handle.join().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_are_problems() {
    let (_folder, store) = folder();
    let sealed = SealedDir::new(1);
    let (handle, stop) = started(config(&sealed), &store).await;
    until("ready", || handle.health.reasons().is_empty()).await;
    let base = format!("http://{}", handle.http);
    let client = reqwest::Client::new();
    for (method, path, status, code) in [
        ("GET", "/v1/nothing", 404, "unknown_route"),
        ("GET", "/v1/ship", 405, "wrong_method"),
        ("GET", "/v1/streams/node-b/events", 404, "unknown_stream"),
        ("POST", "/v1/ship?flush=perhaps", 400, "invalid_parameter"),
        ("POST", "/v1/ship?flash=true", 400, "invalid_parameter"),
        ("POST", "/v1/ship?flush=true", 400, "writer_not_configured"),
    ] {
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        let answer = client.request(method, format!("{base}{path}")).send().await.unwrap();
        let (found, problem) = json(answer).await;
        assert_eq!((found, problem["code"].as_str().unwrap()), (status, code), "{path}");
    }
    stop.cancel();
    handle.join().await.unwrap();
}

/// A writer that seals when it is asked to.
async fn writer(sealed: Arc<Mutex<SealedDir>>) -> String {
    let key = VerifyKey::parse(
        &std::fs::read_to_string(sealed.lock().unwrap().dir.public_key_file(0)).unwrap(),
    );
    let shards = ShardsResponse {
        cluster: CLUSTER.into(),
        node: "node-a".into(),
        routing_version: 1,
        fsync: "always".into(),
        shards: vec![ShardStatus {
            shard: 0,
            origin: format!("{CLUSTER}/0000"),
            state: "active".into(),
            size: 0,
            sealed: 0,
            shipped: 0,
            root: String::new(),
            key: key.unwrap().to_text(),
            cause: None,
        }],
    };
    let flush = move || async move {
        sealed.lock().unwrap().seal(0, 5);
        let (vector, token) = (Default::default(), String::new());
        Json(FlushResponse { segments: 1, vector, token, shipped: false })
    };
    let routes = Router::new()
        .route("/v1/shards", get(|| async move { Json(shards) }))
        .route("/v1/admin/flush", post(flush));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
    format!("http://{address}/")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_known_writer_is_asked_for_a_flush_and_for_keys() {
    let (_folder, store) = folder();
    let sealed = SealedDir::new(1);
    let settings = config(&sealed);
    let key_file = sealed.dir.public_key_file(0);
    let sealed = Arc::new(Mutex::new(sealed));
    let url = writer(Arc::clone(&sealed)).await;
    RealFiles.remove(&key_file).unwrap();
    let settings = Config { writer: Some(url), ..settings };
    let (handle, stop) = started(settings.clone(), &store).await;
    let ship = format!("http://{}/v1/ship?flush=true", handle.http);
    let client = reqwest::Client::new();
    let answer = client.post(ship).send().await.unwrap();
    let answer: Shipped = answer.json().await.unwrap();
    assert_eq!((answer.blocked.len(), handle.status().shards[0].shipped), (0, 5));
    stop.cancel();
    handle.join().await.unwrap();
    let (handle, stop) = started(Config { flush_every_ms: Some(100), ..settings }, &store).await;
    until("flushed by itself", || {
        handle.status().shards.first().is_some_and(|shard| shard.shipped >= 15)
    })
    .await;
    stop.cancel();
    handle.join().await.unwrap();
}
