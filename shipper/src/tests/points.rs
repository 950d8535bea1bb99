//! The named crash points C1 to C12, and an error once at every call: whoever goes on afterwards
//! commits every segment exactly once, and no orphan is in the way.

use std::sync::Arc;

use futures::StreamExt as _;
use sealcast_common::bucket::Store;
use sealcast_common::catalog::names::commit_key;
use sealcast_faults::{
    FaultyFiles, FaultyStore, FileCall, FileFault, FileOp, StoreCall, StoreFault, StoreOp, When,
};
use tokio_util::sync::CancellationToken;

use super::sealed::SealedDir;
use super::stores::folder;
use super::{config, folded, once, started, until};
use crate::{Config, Ended, Seams, start_with_store};

/// Where a process dies: at the `nth` call (from 0) that is picked.
struct Point {
    name: &'static str,
    at: At,
    nth: usize,
    when: When,
}

#[derive(Clone, Copy)]
enum At {
    Store(fn(&StoreCall) -> bool),
    File(fn(&FileCall) -> bool),
}

fn store(picks: fn(&StoreCall) -> bool) -> At {
    At::Store(picks)
}

fn points() -> Vec<Point> {
    let segment = |call: &StoreCall| call.op == StoreOp::Create && call.key.contains("/seg/");
    let commit = |call: &StoreCall| call.op == StoreOp::Create && call.key.contains("/log/");
    let head = |call: &StoreCall| call.op == StoreOp::Put && call.key.ends_with("/head");
    let leaf = |call: &StoreCall| call.key.contains("/leaf/");
    let root = |call: &StoreCall| call.op == StoreOp::Create && call.key.contains("/snap/");
    let mark = |call: &FileCall| call.op == FileOp::Rename && call.ends("shipped.json");
    let written = |call: &FileCall| call.op == FileOp::Write && call.ends("shipped.json.tmp");
    let point = |name, at, nth, when| Point { name, at, nth, when };
    vec![
        point("C1 sealed, not seen by the shipper", store(|_| true), 0, When::Before),
        point("C2 in the middle of a put", store(segment), 0, When::Before),
        point("C2 in the middle of the second put", store(segment), 1, When::Before),
        point("C3 segment put, no commit", store(segment), 0, When::After),
        point("C3 all of a batch put, no commit", store(commit), 1, When::Before),
        point("C4 commit put, answer lost", store(commit), 1, When::After),
        point("C5 committed, not marked", At::File(mark), 1, When::Before),
        point("C5 committed, mark half made", At::File(written), 1, When::After),
        point("C5 committed and marked, not noticed", At::File(mark), 1, When::After),
        point("C6 committed, no head", store(head), 0, When::Before),
        point("C6 committed, head's answer lost", store(head), 0, When::After),
        point("C7 leaf not put", store(leaf), 0, When::Before),
        point("C7 leaves put, no root", store(root), 0, When::Before),
        point("C8 root put, no head", store(root), 0, When::After),
        point("C9 fence put, owner dies", store(commit), 0, When::After),
    ]
}

fn sealed_dir() -> SealedDir {
    let mut sealed = SealedDir::new(2);
    sealed.seal(0, 3);
    sealed.seal(1, 4);
    sealed.seal(0, 5);
    sealed
}

fn settings(sealed: &SealedDir) -> Config {
    Config { once: true, commit_adds: 2, snapshot_every: 2, ..config(sealed) }
}

/// Whether the `nth` that `picks` picks has come.
fn nth<C: 'static>(
    picks: fn(&C) -> bool,
    mut nth: usize,
) -> impl FnMut(&C) -> bool + Send + 'static {
    move |call| {
        let picked = picks(call);
        let now = picked && nth == 0;
        nth = nth.saturating_sub(usize::from(picked));
        now
    }
}

/// Every segment committed once, every object there, the writer told: in a lineage that verifies.
async fn whole(sealed: &SealedDir, store: &Store, what: &str) {
    let catalog = folded(store).await;
    assert_eq!(catalog.vector().into_iter().collect::<Vec<_>>(), sealed.vector(), "{what}");
    assert_eq!(sealed.shipped().vector, catalog.vector(), "{what}");
    let mut committed = std::collections::BTreeSet::new();
    for segment in catalog.segments() {
        assert!(committed.insert(segment.id.to_text()), "{what}: twice");
        assert!(store.get(&segment.key()).await.unwrap().is_some(), "{what}: no object");
    }
}

async fn dies_at(point: Point) {
    let (_folder, plain) = folder();
    let sealed = sealed_dir();
    let (store, layer) = FaultyStore::over(&plain);
    let files = FaultyFiles::default();
    let (count, when) = (point.nth, point.when);
    match point.at {
        At::Store(picks) => {
            let mut due = nth(picks, count);
            layer.plan(move |call| due(call).then_some(StoreFault::Crash(when)));
        }
        At::File(picks) => {
            let mut due = nth(picks, count);
            files.plan(move |call| due(call).then_some(FileFault::Crash(when)));
        }
    }
    let seams = Seams { files: Arc::new(files.clone()), ..Seams::default() };
    let handle = start_with_store(settings(&sealed), seams, store, CancellationToken::new());
    // A lost hint alone ends well; everything else as an error.
    let _ended = handle.await.unwrap().join().await;
    let reached = match point.at {
        At::Store(picks) => layer.count(picks),
        At::File(picks) => files.count(picks),
    };
    assert!(reached > point.nth, "{}: never reached", point.name);
    once(&sealed, &plain).await.unwrap();
    whole(&sealed, &plain, point.name).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_named_crash_point_is_survived() {
    futures::stream::iter(points()).map(dies_at).buffer_unordered(6).collect::<Vec<()>>().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c10_an_owner_that_slept_while_another_took_over_is_fenced_when_it_wakes() {
    let (_folder, plain) = folder();
    let (store, layer) = FaultyStore::over(&plain);
    let mut here = SealedDir::new(1);
    here.seal(0, 5);
    let (first, _stop) = started(config(&here), &store).await;
    until("shipped", || first.status().lag_rows == Some(0)).await;
    // It hears nothing and says nothing, as if stopped, with a commit on its lips.
    layer.stop();
    here.seal(0, 7);
    until("asleep", || first.health.reasons().contains_key("shipping")).await;
    let mut there = here.copy();
    there.seal(0, 6);
    assert!(matches!(once(&there, &plain).await.unwrap(), Ended::Done(_)));
    layer.heal();
    assert_eq!(first.join().await.unwrap(), Ended::Fenced);
    let catalog = folded(&plain).await;
    assert_eq!((catalog.epoch, catalog.vector()[&0]), (2, 18));
}

#[tokio::test(flavor = "multi_thread")]
async fn c11_two_on_copies_of_one_disk_leave_one_lineage_and_the_first_is_fenced() {
    let (_folder, plain) = folder();
    let mut here = sealed_dir();
    let (first, _stop) = started(config(&here), &plain).await;
    until("shipped", || first.status().lag_rows == Some(0)).await;
    let there = here.copy();
    let (second, stop) = started(config(&there), &plain).await;
    until("taken over", || second.health.reasons().is_empty()).await;
    here.seal(1, 9);
    assert_eq!(first.join().await.unwrap().exit_code(), 75);
    stop.cancel();
    second.join().await.unwrap();
    let catalog = folded(&plain).await;
    assert_eq!((catalog.epoch, catalog.vector()[&1]), (2, 4), "nothing of the overtaken one");
    once(&here, &plain).await.unwrap();
    whole(&here, &plain, "C11").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c12_a_restored_disk_with_another_story_is_a_fork() {
    let (_folder, plain) = folder();
    let mut sealed = SealedDir::new(1);
    let mut restored = sealed.copy();
    sealed.seal(0, 5);
    once(&sealed, &plain).await.unwrap();
    restored.seal_with(0, 5, "another.story");
    let Ended::Done(shipped) = once(&restored, &plain).await.unwrap() else { panic!("not done") };
    assert!(shipped.blocked[&0].contains("check fork"), "{shipped:?}");
    whole(&sealed, &plain, "C12").await;
    assert_eq!(plain.get(&commit_key("node-a", 3)).await.unwrap(), None, "nothing was added");
}

/// A scripted run that lives through whatever `layer` was told: two rounds of sealing.
async fn lives_through(n: usize, when: When) -> usize {
    let (_folder, plain) = folder();
    let (store, layer) = FaultyStore::over(&plain);
    layer.fail_nth(n, StoreFault::Error(when));
    let mut sealed = sealed_dir();
    let settings = Config { once: false, ..settings(&sealed) };
    let (handle, stop) = started(settings, &store).await;
    let all = |rows| handle.status().shards.iter().map(|s| s.shipped).sum::<u64>() == rows;
    until("the first round", || all(12)).await;
    sealed.seal(1, 1);
    until("the second round", || all(13)).await;
    until("ready", || handle.health.reasons().is_empty()).await;
    stop.cancel();
    assert_eq!(handle.join().await.unwrap(), Ended::Stopped);
    whole(&sealed, &plain, &format!("store call {n}, {when:?}")).await;
    layer.calls().len()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_at_any_store_call_is_lived_through() {
    let calls = lives_through(usize::MAX, When::Before).await;
    assert!(calls > 40, "{calls}");
    let faults = (0..calls).flat_map(|n| [(n, When::Before), (n, When::After)]);
    let runs = faults.map(|(n, when)| lives_through(n, when));
    futures::stream::iter(runs).buffer_unordered(12).collect::<Vec<usize>>().await;
}

/// A supervisor's work: started again until it ends well.
async fn supervised(n: usize, fault: FileFault) -> usize {
    let (_folder, plain) = folder();
    let sealed = sealed_dir();
    let files = FaultyFiles::default();
    files.fail_nth(n, fault);
    let seams = Seams { files: Arc::new(files.clone()), ..Seams::default() };
    for _ in 0..3 {
        let (seams, stop) = (seams.clone(), CancellationToken::new());
        let handle = start_with_store(settings(&sealed), seams, plain.clone(), stop).await;
        let Ok(handle) = handle else { continue };
        if let Ok(Ended::Done(_)) = handle.join().await {
            whole(&sealed, &plain, &format!("file operation {n}, {fault:?}")).await;
            return files.calls().len();
        }
    }
    panic!("file operation {n}, {fault:?}: it does not recover");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_at_any_file_operation_is_recovered_from() {
    let calls = supervised(usize::MAX, FileFault::BROKEN).await;
    assert!(calls >= 8, "{calls}");
    let faults = [FileFault::BROKEN, FileFault::FULL, FileFault::Error(5, When::After)];
    let runs = (0..calls).flat_map(|n| faults.map(|fault| supervised(n, fault)));
    futures::stream::iter(runs).buffer_unordered(8).collect::<Vec<usize>>().await;
}
