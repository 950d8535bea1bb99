//! Starting, stopping, sealing: locks, identity, triggers, drains, crashes.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::time::Duration;

use sealcast_common::checked;
use sealcast_common::clock::ManualClock;
use sealcast_common::integrity::SeedError;
use sealcast_common::layout::DATA_FORMAT;
use sealcast_common::wire::NodeFile;
use serde_json::json;
use tokio::task::JoinSet;

use super::support::{Answer, Writer, config, copy_dir, event, files_under, logs, sealed_rows};
use crate::{Config, KeyError, Seams, StartError};

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_events_survive_a_crash() {
    let dir = tempfile::tempdir().unwrap();
    let writer = Writer::start(dir.path()).await;
    let mut acknowledged = Vec::new();
    for i in 0..20 {
        let answer = writer.post_json(&event(&format!("t{}", i % 5), "a")).await.json();
        acknowledged.push(answer["events"][0]["event_id"].as_str().unwrap().to_owned());
        if i == 7 {
            writer.flush("").await.json();
        }
    }
    // What the disk holds at this moment, as kill -9 would leave it.
    let crashed = tempfile::tempdir().unwrap();
    copy_dir(dir.path(), crashed.path());
    let survivor = Writer::start(crashed.path()).await;
    survivor.post_json(&event("t1", "after")).await.json();
    survivor.stop().await.unwrap();
    let mut stored: Vec<String> = sealed_rows(crashed.path())
        .into_iter()
        .filter(|row| row.action == "a")
        .map(|row| row.event_id)
        .collect();
    stored.sort();
    acknowledged.sort();
    assert_eq!(stored, acknowledged);
    writer.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_amid_requests_seals_whatever_was_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let writer = Arc::new(Writer::start(dir.path()).await);
    let mut posts: JoinSet<Option<Answer>> = JoinSet::new();
    for i in 0..60 {
        let writer = Arc::clone(&writer);
        posts.spawn(async move { writer.try_post(&event(&format!("t{i}"), "a")).await });
    }
    let mut acknowledged = BTreeSet::new();
    while let Some(answer) = posts.join_next().await {
        match answer.unwrap() {
            Some(answer) if answer.status == 200 => {
                acknowledged
                    .insert(answer.json()["events"][0]["event_id"].as_str().unwrap().to_owned());
                writer.cancel();
            }
            Some(answer) => assert_eq!(answer.code(), (503, "draining".into())),
            // The connection was refused: never sent.
            None => {}
        }
    }
    let writer = Arc::into_inner(writer).unwrap();
    let ended = writer.stop().await.unwrap();
    let stored: BTreeSet<String> =
        sealed_rows(dir.path()).into_iter().map(|row| row.event_id).collect();
    assert!(!acknowledged.is_empty() && acknowledged.is_subset(&stored));
    assert_eq!(ended.vector.values().sum::<u64>(), stored.len() as u64);
    assert!(logs(dir.path()).is_empty(), "no log holds events after an orderly end");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unsafe_fsync_is_told_and_still_sealed_safely() {
    let dir = tempfile::tempdir().unwrap();
    let config = Config { fsync: crate::Fsync::Os, ..config(dir.path()) };
    let writer = Writer::start_with(config, Seams::default()).await.unwrap();
    writer.post_json(&event("acme", "a")).await.json();
    let ready = writer.get("/readyz").await;
    assert_eq!(ready.status, 200);
    assert!(ready.json()["notes"]["fsync"].as_str().unwrap().contains("power loss"));
    assert_eq!(writer.get("/v1/shards").await.json()["fsync"], "os");
    writer.stop().await.unwrap();
    assert_eq!(sealed_rows(dir.path()).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn age_and_size_seal_by_themselves() {
    for change in [
        |config: &mut Config| config.seal_age_ms = 20,
        |config: &mut Config| config.seal_bytes = 4 * 1024,
    ] {
        let dir = tempfile::tempdir().unwrap();
        let mut config = config(dir.path());
        change(&mut config);
        let writer = Writer::start_with(config, Seams::default()).await.unwrap();
        let events: Vec<_> = (0..60).map(|_| event("acme", "a")).collect();
        writer.post_json_owned(events.into()).await.json();
        let sealed = async {
            loop {
                let shards = writer.get("/v1/shards").await.json();
                let sealed = |i: usize| shards["shards"][i]["sealed"].as_u64().unwrap();
                if sealed(0) + sealed(1) == 60 {
                    return;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), sealed).await.unwrap();
        writer.stop().await.unwrap();
        assert_eq!(sealed_rows(dir.path()).len(), 60);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ingest_time_never_goes_back() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(1_700_000_000_000_000));
    let seams = || Seams { clock: clock.clone(), ..Seams::default() };
    let writer = Writer::start_with(config(dir.path()), seams()).await.unwrap();
    writer.post_json(&event("acme", "a")).await.json();
    clock.advance(-60_000_000);
    writer.post_json(&event("acme", "b")).await.json();
    writer.stop().await.unwrap();
    let writer = Writer::start_with(config(dir.path()), seams()).await.unwrap();
    writer.post_json(&event("acme", "c")).await.json();
    writer.stop().await.unwrap();
    // Verification checks the order of ingest times within each file, recovery across them.
    assert_eq!(sealed_rows(dir.path()).len(), 3);
    Writer::start_with(config(dir.path()), seams()).await.unwrap().stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stated_time_is_kept_also_when_it_is_now() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(1_700_000_000_000_000));
    let seams = Seams { clock: clock.clone(), ..Seams::default() };
    let writer = Writer::start_with(config(dir.path()), seams).await.unwrap();
    // No later event of the shard has an ingest time before this one's.
    writer.post_json(&event("acme", "a")).await.json();
    clock.advance(-60_000_000);
    let mut stated = event("acme", "b");
    stated["event_id"] = json!("01890a5d-ac96-774b-bcce-b302099a8057");
    stated["time"] = json!("2023-11-14T22:12:20Z");
    assert_eq!(writer.post_json(&stated).await.json()["duplicates"], 0);
    clock.advance(1);
    assert_eq!(writer.post_json(&stated).await.json()["duplicates"], 1);
    writer.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_has_one_writer_and_one_identity() {
    let dir = tempfile::tempdir().unwrap();
    let writer = Writer::start(dir.path()).await;
    let Err(error) = Writer::start_with(config(dir.path()), Seams::default()).await else {
        panic!("a second writer started")
    };
    assert!(error.to_string().contains(dir.path().to_str().unwrap()), "{error}");
    assert!(error.to_string().contains("in use by another writer (process"), "{error}");
    writer.stop().await.unwrap();
    type Change = fn(&mut Config);
    let changes: [(&str, Change); 4] = [
        ("cluster", |config| config.cluster = Some("other".into())),
        ("node", |config| config.node = Some("other".into())),
        ("shards", |config| config.shards = Some(3)),
        ("shard_first", |config| config.shard_first = Some(1)),
    ];
    for (name, change) in changes {
        let mut config = config(dir.path());
        change(&mut config);
        let Err(error) = Writer::start_with(config, Seams::default()).await else {
            panic!("started with another {name}")
        };
        assert!(error.to_string().contains(&format!("made with {name} ")), "{error}");
        assert!(error.hint().is_some());
    }
    Writer::start(dir.path()).await.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_identity_outside_the_bounds_is_refused() {
    type Change = fn(&mut NodeFile);
    let changes: [Change; 4] = [
        |node| node.shards = 0,
        |node| node.shards = u16::MAX,
        |node| node.shard_first = u16::MAX,
        |node| node.cluster = "../x".into(),
    ];
    for change in changes {
        let dir = tempfile::tempdir().unwrap();
        let (cluster, node) = ("test".to_owned(), "n".to_owned());
        let mut identity =
            NodeFile { format: DATA_FORMAT, cluster, node, shard_first: 0, shards: 2 };
        change(&mut identity);
        super::support::write(&dir.path().join("node.json"), &checked::to_text(&identity));
        let config = Config { cluster: None, ..config(dir.path()) };
        let Err(error) = Writer::start_with(config, Seams::default()).await else {
            panic!("started as {identity:?}")
        };
        assert!(matches!(error, StartError::Node(_)), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_private_and_never_replaced() {
    let dir = tempfile::tempdir().unwrap();
    Writer::start(dir.path()).await.stop().await.unwrap();
    let mode =
        |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(dir.path()), 0o700);
    let key = dir.path().join("keys/0000.key");
    assert_eq!(mode(&key), 0o600);
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let start = || Writer::start_with(config(dir.path()), Seams::default());
    let refused = start().await;
    assert!(matches!(refused, Err(StartError::Key(KeyError::Seed(SeedError::Mode { .. })))));
    std::fs::remove_file(&key).unwrap();
    let refused = start().await;
    assert!(matches!(refused, Err(StartError::Key(KeyError::Seed(SeedError::Missing { .. })))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_broke_off_begins_again() {
    let dir = tempfile::tempdir().unwrap();
    let writer = Writer::start(dir.path()).await;
    let first = writer.node().to_owned();
    writer.stop().await.unwrap();
    // As if the first start had ended before its last step.
    std::fs::remove_file(dir.path().join("node.json")).unwrap();
    let mut config = config(dir.path());
    config.cluster = Some("renamed".into());
    let writer = Writer::start_with(config, Seams::default()).await.unwrap();
    assert_ne!(writer.node(), first);
    assert_eq!(writer.get("/v1/shards").await.json()["cluster"], json!("renamed"));
    writer.post_json(&event("acme", "a")).await.json();
    writer.stop().await.unwrap();
    // With data it is not a first start.
    std::fs::remove_file(dir.path().join("node.json")).unwrap();
    let start = Writer::start_with(super::support::config(dir.path()), Seams::default()).await;
    assert!(matches!(start, Err(StartError::Shard { .. })));
    assert_eq!(files_under(&dir.path().join("sealed"), ".seg").len(), 1);
}
