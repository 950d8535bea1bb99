//! One fault at every call of the store and at every file operation, and death at R1 to R5: the
//! same rows are there in the end, and nothing else.

use std::path::Path;
use std::sync::Arc;

use futures::StreamExt as _;
use sealcast_common::bucket::Store;
use sealcast_common::seams::Seams;
use sealcast_faults::{FaultyFiles, FaultyStore, FileCall, FileFault, FileOp, StoreFault, When};

use super::{LONG, Node, Place, config};
use crate::testkit::Shipper;
use crate::{SegmentState, VaultConfig};

/// Two shards, a snapshot, and commits after it.
async fn filled(place: &Place) -> Shipper {
    let mut shipper = Shipper::start(place.store.clone()).await;
    shipper.ship(0, 20).await;
    shipper.ship(1, 20).await;
    shipper.snapshot().await;
    shipper.ship(0, 20).await;
    shipper
}

/// Everything that was shipped can be read, however often one has to ask.
async fn whole(node: &Node, shipper: &Shipper, what: &str) {
    let snapshot = node.caught_up(shipper).await;
    let mut rows = 0;
    for entry in snapshot.segments.iter() {
        let opened = tokio::time::timeout(LONG, async {
            loop {
                match snapshot.open(entry).await {
                    Ok(segment) => return segment,
                    Err(_) => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
                }
            }
        });
        let segment =
            opened.await.unwrap_or_else(|_| panic!("{what}: {} stays away", entry.name()));
        rows += segment.batches().iter().map(|batch| batch.num_rows() as u64).sum::<u64>();
    }
    assert_eq!(rows, shipper.rows(), "{what}");
    node.until(|status| status.not_ready.is_empty()).await;
}

/// Boot, one more commit, a restart, one more commit.
async fn lives_through(n: usize, fault: StoreFault) -> usize {
    let place = Place::new();
    let mut shipper = filled(&place).await;
    let (store, layer) = FaultyStore::over(&place.store);
    let what = format!("store call {n}, {fault:?}");
    layer.fail_nth(n, fault);
    for _ in 0..2 {
        let node = Node::start(place.config(), store.clone()).await;
        whole(&node, &shipper, &what).await;
        shipper.ship(1, 5).await;
        whole(&node, &shipper, &what).await;
        node.stop().await;
    }
    layer.calls().len()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_at_any_store_call_is_lived_through() {
    let calls = lives_through(usize::MAX, StoreFault::SlowDown).await;
    assert!(calls > 20, "{calls}");
    // What comes later is the wait for something new, again and again.
    let errors = (0..calls.min(40)).map(|n| (n, StoreFault::Error(When::Before)));
    let lies = (0..calls.min(40)).map(|n| match n % 4 {
        0 => (n, StoreFault::Missing),
        1 => (n, StoreFault::BrokenBody(7)),
        2 => (n, StoreFault::Truncated(9)),
        _ => (n, StoreFault::Flipped(-3)),
    });
    let runs = errors.chain(lies).map(|(n, fault)| lives_through(n, fault));
    futures::stream::iter(runs).buffer_unordered(16).collect::<Vec<usize>>().await;
}

/// A cache of two segments, so that files are evicted too.
fn narrow(place: &Place, bytes: u64) -> VaultConfig {
    VaultConfig { cache_bytes: bytes * 5 / 2, ..place.config() }
}

/// One life: whatever it can, as the disk lets it.
async fn live(config: VaultConfig, store: &Store, files: &FaultyFiles, shipper: &Shipper) {
    let seams = Seams { files: Arc::new(files.clone()), ..Seams::default() };
    let Ok(node) = Node::try_start(config, store.clone(), seams).await else { return };
    let token = sealcast_common::wire::Token(shipper.catalog.vector());
    let patience = std::time::Duration::from_secs(2);
    // A dead one does not get there.
    let _arrived = node.vault.wait_for(&token, patience).await;
    let snapshot = node.vault.snapshot();
    for entry in snapshot.segments.iter() {
        let _opened = tokio::time::timeout(patience, snapshot.open(entry)).await;
    }
    drop(snapshot);
    node.kill().await;
}

/// A life with the fault, then a sound one on what it has left.
async fn recovers(plan: impl Fn(&FaultyFiles), what: &str) -> (Place, FaultyFiles) {
    let place = Place::new();
    let mut shipper = filled(&place).await;
    let bytes = shipper.ship(0, 20).await.bytes;
    let files = FaultyFiles::default();
    plan(&files);
    live(narrow(&place, bytes), &place.store, &files, &shipper).await;
    let node = Node::start(narrow(&place, bytes), place.store.clone()).await;
    whole(&node, &shipper, what).await;
    let status = node.until(|status| status.cache_bytes <= status.cache_bytes_max).await;
    assert!(status.quarantine.is_empty() && status.segments_local <= 2, "{what}: {status:#?}");
    let left = place.files("segments");
    assert!(left.iter().all(|file| !is_temporary(file)), "{what}: {left:?}");
    node.stop().await;
    (place, files)
}

fn is_temporary(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "tmp")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_at_any_file_operation_is_recovered_from() {
    let (_place, files) = recovers(|_| {}, "no fault").await;
    let calls = files.calls().len();
    assert!(calls > 20, "{:?}", files.calls());
    let broken = (0..calls).map(|n| (n, FileFault::BROKEN));
    let others = [FileFault::FULL, FileFault::Error(5, When::After)];
    let others = (0..calls).map(|n| (n, others[n % 2]));
    let runs = broken.chain(others);
    let runs = runs.map(|(n, fault)| async move {
        let what = format!("file operation {n}, {fault:?}");
        recovers(|files| files.fail_nth(n, fault), &what).await;
    });
    futures::stream::iter(runs).buffer_unordered(12).collect::<Vec<()>>().await;
}

/// Dies at the first operation that `picks` picks.
async fn dies_at(name: &str, when: When, picks: fn(&FileCall) -> bool) {
    let (_place, files) = recovers(
        |files| files.plan(move |call| picks(call).then_some(FileFault::Crash(when))),
        name,
    )
    .await;
    assert!(files.count(picks) > 0, "{name}: never reached: {:?}", files.calls());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_named_crash_point_is_survived() {
    let written: fn(&FileCall) -> bool = |call| call.op == FileOp::Write && call.ends(".tmp");
    let named: fn(&FileCall) -> bool = |call| call.op == FileOp::Rename && call.ends(".seg");
    let listed: fn(&FileCall) -> bool = |call| call.op == FileOp::Append && call.ends(".idx");
    let evicted: fn(&FileCall) -> bool = |call| call.op == FileOp::Remove && call.ends(".seg");
    let position: fn(&FileCall) -> bool =
        |call| call.op == FileOp::Rename && call.ends("position-writer-1.json");
    let catalog: fn(&FileCall) -> bool = |call| call.op == FileOp::Rename && call.ends(".bin");
    let points = [
        ("R1 a temporary file, not renamed", When::After, written),
        ("R2 renamed, not in the index", When::After, named),
        ("R2 the index is written in part", When::Before, listed),
        ("R4 chosen to go, still there", When::Before, evicted),
        ("R4 gone, not yet forgotten", When::After, evicted),
        ("R5 position not saved", When::Before, position),
        ("R5 catalog not saved", When::Before, catalog),
    ];
    let runs = points.map(|(name, when, picks)| dies_at(name, when, picks));
    Box::pin(futures::stream::iter(runs).buffer_unordered(4).collect::<Vec<()>>()).await;
}

/// R5, all of it: only the segments' own files are left.
#[tokio::test(flavor = "multi_thread")]
async fn r5_lost_state_is_built_again_from_names_and_hashes() {
    let place = Place::new();
    let shipper = filled(&place).await;
    let node = place.node().await;
    whole(&node, &shipper, "before").await;
    node.kill().await;
    for file in std::fs::read_dir(place.dir.path().join("vault")).unwrap() {
        let path = file.unwrap().path();
        if path.is_file() {
            std::fs::remove_file(path).unwrap();
        }
    }
    let fetched = place.layer.segment_gets();
    let node = Node::start(config(&place.dir.path().join("vault")), place.store.clone()).await;
    whole(&node, &shipper, "R5").await;
    assert_eq!(place.layer.segment_gets(), fetched, "the files were there");
    let snapshot = node.vault.snapshot();
    assert!(snapshot.segments.iter().all(|entry| entry.state() != SegmentState::Absent));
    drop(snapshot);
    node.stop().await;
}
