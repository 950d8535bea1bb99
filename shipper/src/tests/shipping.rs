//! What is sealed is committed exactly once, across restarts, rivals and lost answers.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use sealcast_common::catalog::names::{commit_key, head_key, segment_key};
use sealcast_common::checked;
use sealcast_common::integrity::file_hash;
use sealcast_common::segment::{Expectation, SegmentName, compress, decompress, verify_segment};
use sealcast_common::wire::HeadFile;

use super::sealed::{CLUSTER, SealedDir};
use super::stores::{Behaviour, folder, odd};
use super::{config, folded, once, started, until};
use crate::{Config, Ended};

#[tokio::test(flavor = "multi_thread")]
async fn the_log_folds_to_what_is_sealed_and_every_object_holds_its_rows() {
    let (_folder, store) = folder();
    let mut sealed = SealedDir::new(3);
    for (shard, rows) in [(0, 10), (0, 7), (1, 100), (0, 1)] {
        sealed.seal(shard, rows);
    }
    let Ended::Done(shipped) = once(&sealed, &store).await.unwrap() else { panic!("not done") };
    assert_eq!((shipped.commits, shipped.segments, shipped.seq), (1, 4, 2));
    let catalog = folded(&store).await;
    assert_eq!(catalog.vector().into_iter().collect::<Vec<_>>(), sealed.vector());
    assert_eq!(sealed.shipped().vector, catalog.vector());
    for segment in catalog.segments() {
        let object = store.get(&segment.key()).await.unwrap().unwrap();
        assert_eq!(file_hash(&object), segment.object_hash);
        let file = decompress(&object, segment.bytes).unwrap();
        let expect = Expectation {
            file_hash: Some(segment.id.hash.to_vec()),
            cluster: Some(CLUSTER.into()),
            shard: Some(segment.id.shard),
            range: Some((segment.id.start, segment.end())),
            root_after: Some(segment.root_after),
            ..Expectation::default()
        };
        verify_segment(file.into(), &expect).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_goes_on_in_a_new_epoch_and_uploads_nothing_twice() {
    let (_folder, plain) = folder();
    let (store, seen) = odd(&plain, Behaviour::default());
    let mut sealed = SealedDir::new(2);
    sealed.seal(0, 5);
    once(&sealed, &store).await.unwrap();
    let first = folded(&plain).await;
    sealed.seal(0, 5);
    sealed.seal(1, 5);
    once(&sealed, &store).await.unwrap();
    let second = folded(&plain).await;
    assert_eq!((first.epoch, second.epoch), (1, 2));
    assert_eq!(first.author, second.author, "the key is kept");
    assert_eq!(second.vector().into_iter().collect::<Vec<_>>(), sealed.vector());
    assert_eq!(seen.segment_puts.load(SeqCst), 3);
    assert_eq!(seen.lists.load(SeqCst), 2, "one for the probe of each start, none afterwards");
    once(&sealed, &store).await.unwrap();
    assert_eq!(folded(&plain).await.seq, second.seq, "nothing to ship, nothing claimed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_event_ships_without_waiting_for_the_scan() {
    let (_folder, store) = folder();
    let mut sealed = SealedDir::new(1);
    let (handle, stop) = started(config(&sealed), &store).await;
    until("ready", || handle.health.reasons().is_empty()).await;
    sealed.seal(0, 5);
    until("shipped", || handle.status().shards[0].shipped == 5).await;
    let status = handle.status();
    assert_eq!((status.lag_rows, status.lag_ms, status.epoch), (Some(0), Some(0), 1));
    // Idle again: the last head, put late on purpose, tells of the commit.
    let told = || async {
        let head = store.get(&head_key("node-a")).await.unwrap()?;
        let head: HeadFile = checked::parse("head", &head).unwrap();
        (head.seq == 2).then_some(())
    };
    while told().await.is_none() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    stop.cancel();
    assert_eq!(handle.join().await.unwrap(), Ended::Stopped);
    let head = store.get(&head_key("node-a")).await.unwrap().unwrap();
    let head: HeadFile = checked::parse("head", &head).unwrap();
    assert_eq!(head.seq, 2);
    assert!(head.snapshot.is_some(), "a clean end leaves a snapshot");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_shipper_fences_the_first() {
    let (_folder, store) = folder();
    let mut here = SealedDir::new(1);
    here.seal(0, 5);
    let (first, _stop) = started(config(&here), &store).await;
    until("shipped", || first.health.reasons().is_empty()).await;
    let mut there = here.copy();
    there.seal(0, 6);
    assert!(matches!(once(&there, &store).await.unwrap(), Ended::Done(_)));
    here.seal(0, 7);
    let ended = first.join().await.unwrap();
    assert_eq!((ended.exit_code(), ended), (75, Ended::Fenced));
    let catalog = folded(&store).await;
    assert_eq!((catalog.epoch, catalog.vector()[&0]), (2, 11));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_commits_once() {
    let (_folder, plain) = folder();
    let (store, seen) = odd(&plain, Behaviour::default());
    let mut sealed = SealedDir::new(1);
    let (handle, stop) = started(config(&sealed), &store).await;
    until("ready", || handle.health.reasons().is_empty()).await;
    seen.lose_answer.store(true, SeqCst);
    sealed.seal(0, 5);
    until("shipped", || handle.status().shards[0].shipped == 5).await;
    assert!(!seen.lose_answer.load(SeqCst));
    stop.cancel();
    handle.join().await.unwrap();
    let catalog = folded(&plain).await;
    assert_eq!((catalog.seq, catalog.vector()[&0]), (2, 5));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_down_is_a_reason_and_not_an_end() {
    let (_folder, plain) = folder();
    let (store, seen) = odd(&plain, Behaviour::default());
    let mut sealed = SealedDir::new(1);
    let (handle, stop) = started(config(&sealed), &store).await;
    until("ready", || handle.health.reasons().is_empty()).await;
    seen.down.store(true, SeqCst);
    sealed.seal(0, 5);
    until("not ready", || handle.health.reasons().contains_key("shipping")).await;
    until("lag", || handle.status().lag_rows == Some(5)).await;
    assert_eq!(handle.status().last_error.unwrap().kind, "store");
    seen.down.store(false, SeqCst);
    until("shipped", || handle.status().lag_rows == Some(0)).await;
    until("ready again", || handle.health.reasons().is_empty()).await;
    stop.cancel();
    handle.join().await.unwrap();
    assert_eq!(folded(&plain).await.vector()[&0], 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_boots_the_next_one_and_a_bad_one_costs_only_time() {
    let (_folder, plain) = folder();
    let mut sealed = SealedDir::new(1);
    let settings = Config { snapshot_every: 3, commit_adds: 1, once: true, ..config(&sealed) };
    for _ in 0..10 {
        sealed.seal(0, 2);
    }
    let (handle, _stop) = started(settings.clone(), &plain).await;
    handle.join().await.unwrap();
    assert_eq!(folded(&plain).await.seq, 11);
    sealed.seal(0, 2);
    let (store, seen) = odd(&plain, Behaviour::default());
    once(&sealed, &store).await.unwrap();
    let wanted = "the snapshot's commit, the one after it, and that of the last epoch";
    assert_eq!(seen.log_gets.load(SeqCst), 3, "{wanted}");
    let head = plain.get(&head_key("node-a")).await.unwrap().unwrap();
    let head: HeadFile = checked::parse("head", &head).unwrap();
    let key = head.snapshot.unwrap();
    let mut bytes = plain.get(&key).await.unwrap().unwrap().to_vec();
    bytes[40] ^= 1;
    plain.put(&key, bytes.into()).await.unwrap();
    sealed.seal(0, 2);
    once(&sealed, &plain).await.unwrap();
    let catalog = folded(&plain).await;
    assert_eq!((catalog.epoch, catalog.vector()[&0]), (3, 24));
}

#[tokio::test(flavor = "multi_thread")]
async fn rivals_that_start_together_leave_one_lineage() {
    for _ in 0..5 {
        let (_folder, store) = folder();
        let mut here = SealedDir::new(2);
        here.seal(0, 5);
        here.seal(1, 5);
        here.seal(0, 5);
        let there = here.copy();
        let (first, second) = tokio::join!(once(&here, &store), once(&there, &store));
        let shipped = [first.unwrap(), second.unwrap()];
        assert!(shipped.iter().any(|ended| matches!(ended, Ended::Done(_))), "{shipped:?}");
        let catalog = folded(&store).await;
        assert_eq!(catalog.vector().into_iter().collect::<Vec<_>>(), here.vector());
        assert_eq!(catalog.segments().count(), 3);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_earlier_attempt_left_is_taken_over_or_replaced() {
    let (_folder, store) = folder();
    let mut sealed = SealedDir::new(2);
    let mut left = Vec::new();
    for shard in 0..2 {
        let file = sealed.seal(shard, 5);
        let name = SegmentName::parse(file.file_name().unwrap().to_str().unwrap()).unwrap();
        let bytes = std::fs::read(file).unwrap();
        let key = segment_key(shard, name.start, name.rows, &file_hash(&bytes));
        // One frame instead of many: what another version might have made.
        left.push((key, compress(&bytes, []).unwrap()));
    }
    left[1].1.truncate(100);
    for (key, object) in &left {
        store.put(key, object.clone().into()).await.unwrap();
    }
    once(&sealed, &store).await.unwrap();
    let catalog = folded(&store).await;
    let hashes: Vec<_> = catalog.segments().map(|segment| segment.object_hash).collect();
    assert_eq!(hashes[0], file_hash(&left[0].1), "the key keeps its content");
    for segment in catalog.segments() {
        let object = store.get(&segment.key()).await.unwrap().unwrap();
        assert_eq!(file_hash(&object), segment.object_hash);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_commit_record_stops_shipping_by_name() {
    let (_folder, store) = folder();
    let mut sealed = SealedDir::new(1);
    sealed.seal(0, 5);
    let settings = Config { once: true, ..config(&sealed) };
    started(settings, &store).await.0.join().await.unwrap();
    store.put(&head_key("node-a"), "no hint".into()).await.unwrap();
    let key = commit_key("node-a", 2);
    let mut record = store.get(&key).await.unwrap().unwrap().to_vec();
    record[100] ^= 1;
    store.put(&key, record.into()).await.unwrap();
    sealed.seal(0, 5);
    let error = once(&sealed, &store).await.unwrap_err().to_string();
    assert!(error.contains(&key) && error.contains("check commit_blake3"), "{error}");
}
