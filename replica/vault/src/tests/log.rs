//! Following the log: arrival, boot, tokens, lag, corrupt records, rollback, hints.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::response::sse::{Event, Sse};
use futures::StreamExt as _;
use sealcast_common::catalog::names::{commit_key, head_key};
use sealcast_common::checked;
use sealcast_common::clock::ManualClock;
use sealcast_common::seams::Seams;
use sealcast_common::wire::{HeadFile, StreamHint, Token};

use super::{LONG, Node, Place, fault};
use crate::Lag;
use crate::testkit::{STREAM, Shipper};

#[tokio::test(flavor = "multi_thread")]
async fn commits_arrive_and_nothing_lists_after_boot() {
    let place = Place::new();
    let mut shipper = Shipper::start(place.store.clone()).await;
    shipper.ship(0, 50).await;
    let node = place.node().await;
    node.booted().await;
    assert_eq!(place.layer.lists.load(Ordering::SeqCst), 1);
    for i in 0..6 {
        shipper.ship(i % 2, 40).await;
        node.caught_up(&shipper).await;
    }
    let snapshot = node.caught_up(&shipper).await;
    assert_eq!(node.count().await, shipper.rows());
    assert_eq!(snapshot.vector, shipper.catalog.vector());
    assert_eq!(snapshot.positions[STREAM].seq, shipper.catalog.seq);
    let starts: Vec<_> =
        snapshot.segments.iter().map(|s| (s.descriptor.id.shard, s.descriptor.id.start)).collect();
    assert!(starts.is_sorted());
    assert!(snapshot.segments.iter().all(|entry| entry.seal().is_some()));
    assert_eq!(place.layer.lists.load(Ordering::SeqCst), 1, "a LIST after boot");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_still_empty_is_waited_for() {
    let place = Place::new();
    let node = place.node().await;
    let says = |text: &String| text.contains("no shipper has written");
    node.until(|status| status.not_ready.get("streams").is_some_and(says)).await;
    let mut shipper = Shipper::start(place.store.clone()).await;
    shipper.ship(0, 10).await;
    node.caught_up(&shipper).await;
    node.until(|status| status.not_ready.is_empty()).await;
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_waited_for_and_times_out() {
    let place = Place::new();
    let mut shipper = Shipper::start(place.store.clone()).await;
    shipper.ship(0, 10).await;
    let node = place.node().await;
    let wanted = Token([(0, 25)].into());
    let early = node.vault.wait_for(&wanted, Duration::from_millis(30)).await;
    assert!(early.is_err());
    let vault = node.vault.clone();
    let waiting = tokio::spawn(async move { vault.wait_for(&wanted, LONG).await });
    shipper.ship(0, 15).await;
    let arrived = waiting.await.unwrap().unwrap();
    assert_eq!(arrived.vector[&0], 25);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn boot_from_a_snapshot_equals_boot_by_replay() {
    let place = Place::new();
    let mut shipper = Shipper::start(place.store.clone()).await;
    for i in 0..12 {
        shipper.ship(i % 3, 5).await;
    }
    let replayed = place.node().await;
    replayed.booted().await;
    shipper.snapshot().await;
    place.layer.keys.lock().clear();
    let mut config = place.config();
    config.dir = place.dir.path().join("second");
    let booted = Node::start(config, place.store.clone()).await;
    booted.booted().await;
    let early = commit_key(STREAM, 5);
    assert!(!place.layer.keys.lock().contains(&early), "the log was replayed");
    shipper.ship(1, 5).await;
    let (a, b) = (replayed.caught_up(&shipper).await, booted.caught_up(&shipper).await);
    assert_eq!((&a.vector, a.digest, &a.positions), (&b.vector, b.digest, &b.positions));
    assert_eq!(a.clusters, b.clusters);
    let pairs = a.segments.iter().zip(b.segments.iter());
    assert!(pairs.clone().all(|(a, b)| a.descriptor == b.descriptor));
    assert_eq!(pairs.count(), 13);
    assert_eq!(booted.count().await, replayed.count().await);
    replayed.stop().await;
    booted.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotten_snapshot_or_head_only_costs_a_replay() {
    let place = Place::new();
    let mut shipper = Shipper::start(place.store.clone()).await;
    shipper.ship(0, 5).await;
    shipper.snapshot().await;
    let head = place.store.get(&head_key(STREAM)).await.unwrap().unwrap();
    let head: HeadFile = checked::parse("head", &head).unwrap();
    for (i, rot) in [head.snapshot.unwrap(), head_key(STREAM)].into_iter().enumerate() {
        place.layer.heal();
        place.layer.flip(&rot, 0).await;
        let mut config = place.config();
        config.dir = place.dir.path().join(format!("vault-{i}"));
        let node = Node::start(config, place.store.clone()).await;
        node.caught_up(&shipper).await;
        assert_eq!(node.count().await, 5);
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lag_is_unknown_once_the_store_is_silent() {
    let place = Place::new();
    let mut shipper = Shipper::start(place.store.clone()).await;
    shipper.ship(0, 5).await;
    let clock = Arc::new(ManualClock::new(1_700_000_000_000_000));
    let seams = Seams { clock: Arc::clone(&clock) as _, ..Seams::default() };
    let node = Node::with_seams(place.config(), place.store.clone(), seams).await;
    assert_eq!(node.vault.lag(), Lag::Unknown);
    node.caught_up(&shipper).await;
    node.until(|status| status.lag == Lag::Millis(0)).await;
    assert_eq!(node.count().await, 5);
    place.layer.down.store(true, Ordering::SeqCst);
    node.until(|status| status.streams[0].error.is_some()).await;
    clock.advance(10_000);
    assert_eq!(node.vault.lag(), Lag::Millis(10));
    clock.advance(61_000_000);
    assert_eq!(node.vault.lag(), Lag::Unknown);
    let reasons = node.vault.status().not_ready;
    assert!(reasons[&format!("stream-{STREAM}")].contains("no successful probe"), "{reasons:?}");
    assert_eq!(node.count().await, 5, "what is held goes on being served");
    place.layer.down.store(false, Ordering::SeqCst);
    node.until(|status| status.lag == Lag::Millis(0) && status.not_ready.is_empty()).await;
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_corrupt_record_stops_what_follows_and_nothing_else() {
    let place = Place::new();
    let mut shipper = Shipper::start(place.store.clone()).await;
    shipper.ship(0, 5).await;
    let node = place.node().await;
    node.caught_up(&shipper).await;
    let key = commit_key(STREAM, 3);
    place.layer.hide(&key);
    shipper.ship(0, 6).await;
    place.layer.flip(&key, 100).await;
    shipper.ship(0, 7).await;
    let status = node.until(|status| fault(status).is_some()).await;
    let found = status.streams[0].fault.clone().unwrap();
    assert_eq!((found.check, found.object.as_str()), ("commit_blake3", key.as_str()));
    assert!(status.not_ready[&format!("stream-{STREAM}")].contains("commit_blake3"));
    assert_eq!(node.count().await, 5);
    assert!(!place.files("evidence").is_empty());

    // A replica that boots into it serves what comes before.
    let mut config = place.config();
    config.dir = place.dir.path().join("second");
    let second = Node::start(config, place.store.clone()).await;
    second.until(|status| fault(status) == Some("commit_blake3")).await;
    assert_eq!(second.count().await, 5);

    place.layer.heal();
    for node in [node, second] {
        node.caught_up(&shipper).await;
        assert_eq!(node.count().await, 18);
        node.until(|status| status.not_ready.is_empty()).await;
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_byte_of_a_record_is_covered() {
    let place = Place::new();
    let mut shipper = Shipper::start(place.store.clone()).await;
    shipper.ship(0, 5).await;
    let node = place.node().await;
    node.caught_up(&shipper).await;
    let key = commit_key(STREAM, 3);
    place.layer.hide(&key);
    shipper.ship(0, 6).await;
    let len = place.dir.path().join("store").join(&key).metadata().unwrap().len();
    for at in (0..len as i64).step_by(37) {
        place.layer.flip(&key, at).await;
        node.until(|status| fault(status).is_some()).await;
        place.layer.hide(&key);
        node.until(|status| fault(status).is_none()).await;
        assert_eq!(node.vault.snapshot().vector[&0], 5);
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_lost_records_is_noticed() {
    let place = Place::new();
    let mut shipper = Shipper::start(place.store.clone()).await;
    shipper.ship(0, 5).await;
    shipper.ship(0, 5).await;
    let node = place.node().await;
    node.caught_up(&shipper).await;
    place.layer.hide(&commit_key(STREAM, 3));
    let status = node.until(|status| fault(status) == Some("log_fork")).await;
    assert!(!status.not_ready.is_empty());
    assert_eq!(node.count().await, 10);
    node.stop().await;

    // The same after a restart, when the log ends before what an earlier run has seen.
    let node = place.node().await;
    assert_eq!(node.count().await, 10, "served without the network");
    node.until(|status| fault(status).is_some()).await;
    place.layer.heal();
    node.until(|status| status.not_ready.is_empty()).await;
    node.stop().await;

    // And when the catalog has to be read again, too.
    std::fs::remove_file(place.dir.path().join(format!("vault/catalog-{STREAM}.bin"))).unwrap();
    place.layer.hide(&commit_key(STREAM, 3));
    let node = place.node().await;
    node.until(|status| fault(status) == Some("log_rollback")).await;
    place.layer.heal();
    node.caught_up(&shipper).await;
    assert_eq!(node.count().await, 10);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rewritten_log_is_a_fork_with_evidence_of_both() {
    let place = Place::new();
    let mut shipper = Shipper::start(place.store.clone()).await;
    shipper.ship(0, 5).await;
    shipper.ship(0, 5).await;
    let node = place.node().await;
    node.caught_up(&shipper).await;
    node.stop().await;
    // Another lineage of the same stream, well-formed in itself, and longer.
    let other = Place::new();
    let mut forger = Shipper::start(other.store.clone()).await;
    for rows in [6, 7, 8, 9] {
        forger.ship(0, rows).await;
    }
    forger.snapshot().await;
    let other_node = Node::start(place.config(), other.store.clone()).await;
    let status = other_node.until(|status| fault(status).is_some()).await;
    assert!(matches!(fault(&status), Some("log_fork" | "commit_chain")), "{status:#?}");
    assert_eq!(other_node.vault.snapshot().vector[&0], 10, "nothing of it was attached");
    let evidence = place.files("evidence");
    let named = |part: &str| evidence.iter().any(|path| path.to_string_lossy().contains(part));
    assert!(named("-store-") && named("-ours-"), "{evidence:?}");
    other_node.stop().await;
    // Without the local catalog the position alone still tells.
    std::fs::remove_file(place.dir.path().join(format!("vault/catalog-{STREAM}.bin"))).unwrap();
    let other_node = Node::start(place.config(), other.store.clone()).await;
    other_node.until(|status| fault(status) == Some("log_fork")).await;
    assert!(other_node.vault.snapshot().segments.is_empty());
    other_node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hint_shortens_the_wait() {
    let place = Place::new();
    let mut shipper = Shipper::start(place.store.clone()).await;
    shipper.ship(0, 5).await;
    let (hints, _) = tokio::sync::broadcast::channel::<StreamHint>(8);
    let sender = hints.clone();
    let events = move || {
        let hints = sender.subscribe();
        let stream = futures::stream::unfold(hints, |mut hints| async move {
            let hint = hints.recv().await.ok()?;
            Some((Ok::<_, Infallible>(Event::default().json_data(hint).unwrap()), hints))
        });
        let first = futures::stream::once(async { Ok(Event::default().comment("here")) });
        async move { Sse::new(first.chain(stream)) }
    };
    let path = format!("/v1/streams/{STREAM}/events");
    let app = axum::Router::new().route(&path, axum::routing::get(events));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = tokio::spawn(async move { axum::serve(listener, app).await });
    let mut config = place.config();
    // Without hints this test would take minutes.
    (config.poll_min_ms, config.poll_max_ms, config.hinted_poll_ms) = (100_000, 100_000, 100_000);
    config.hints = vec![url];
    let node = Node::start(config, place.store.clone()).await;
    node.until(|status| status.streams.iter().any(|s| s.booted && s.hinted)).await;
    shipper.ship(0, 6).await;
    let hint = StreamHint { stream: STREAM.into(), seq: 3, unshipped_rows: 4 };
    hints.send(hint).unwrap();
    node.caught_up(&shipper).await;
    assert_eq!(node.vault.status().streams[0].unshipped_rows, Some(4));
    node.stop().await;
    server.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_record_that_cannot_be_read_holds_up_nothing_before_it() {
    let place = Place::new();
    let mut shipper = Shipper::start(place.store.clone()).await;
    for _ in 0..20 {
        shipper.ship(0, 1).await;
    }
    // Commit 1 is the fence: windows of 1, 2, 4, 8 and 16 records; the fifth meets it.
    place.layer.refuse(&commit_key(STREAM, 20));
    let node = place.node().await;
    node.until(|status| status.streams.iter().any(|stream| stream.seq == 19)).await;
    place.layer.heal();
    node.caught_up(&shipper).await;
    assert_eq!(node.count().await, 20);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lag_is_not_known_while_one_stream_has_not_been_read() {
    let place = Place::new();
    let mut shipper = Shipper::start(place.store.clone()).await;
    shipper.ship(0, 5).await;
    let mut config = place.config();
    config.streams = vec![STREAM.into(), "silent".into()];
    place.layer.refuse("st/silent/head");
    let node = Node::start(config, place.store.clone()).await;
    node.caught_up(&shipper).await;
    node.booted().await;
    assert_eq!(node.vault.lag(), Lag::Unknown);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endless_object_is_not_taken_into_memory() {
    let place = Place::new();
    let mut shipper = Shipper::start(place.store.clone()).await;
    shipper.ship(0, 5).await;
    let node = place.node().await;
    node.caught_up(&shipper).await;
    place.layer.hide(&commit_key(STREAM, 3));
    shipper.ship(0, 6).await;
    let bytes = vec![0; sealcast_common::limits::COMMIT_BYTES_MAX + 1];
    place.layer.lies.lock().insert(commit_key(STREAM, 3), Some(bytes.into()));
    node.until(|status| fault(status) == Some("object_length")).await;
    place.layer.heal();
    node.until(|status| status.not_ready.is_empty()).await;
    node.stop().await;
}

/// Each shard's log is at the size that the snapshot shows: never ahead of what was admitted, also
/// after a restart, from local state alone.
#[tokio::test]
async fn logs_are_at_the_size_that_is_shown() {
    let place = Place::new();
    let mut shipper = Shipper::start(place.store.clone()).await;
    let node = place.node().await;
    let shown = |snapshot: &crate::VaultSnapshot| {
        for (shard, size) in &snapshot.vector {
            assert_eq!(snapshot.log(*shard).unwrap().size(), *size);
            for seq in 0..*size {
                let entry = snapshot.segments.covering(*shard, seq).unwrap();
                let id = &entry.descriptor.id;
                assert!(id.shard == *shard && (id.start..entry.descriptor.end()).contains(&seq));
            }
            assert!(snapshot.segments.covering(*shard, *size).is_none());
        }
        assert!(snapshot.log(9).is_err() && snapshot.segments.covering(9, 0).is_none());
    };
    shown(&node.vault.snapshot());
    for (shard, rows) in [(1, 3), (0, 5), (1, 1), (3, 70), (0, 2), (1, 4)] {
        shipper.ship(shard, rows).await;
        shown(&node.vault.snapshot());
        shown(&*node.caught_up(&shipper).await);
    }
    let rows: Vec<_> = (0..8).map(|seq| (1, seq)).chain([(1, 8), (2, 0), (0, 6)]).collect();
    let proven = node.vault.snapshot().prove(&rows, None, usize::MAX).await.unwrap();
    assert_eq!(proven.iter().map(Option::is_some).filter(|there| *there).count(), 9);
    assert!(proven[8].is_none() && proven[9].is_none());
    node.stop().await;
    place.layer.down.store(true, Ordering::SeqCst);
    let node = place.node().await;
    shown(&node.vault.snapshot());
    assert_eq!(node.vault.snapshot().vector.len(), 3);
    // Rows are there; what proves them is in the store.
    let snapshot = node.vault.snapshot();
    assert_eq!(snapshot.leaves(&rows, None, usize::MAX).await.unwrap().len(), 9);
    let failed = snapshot.prove(&rows, None, usize::MAX).await.unwrap_err();
    assert_eq!(failed.kind(), sealcast_common::fault::Kind::Unavailable);
    node.stop().await;
}
