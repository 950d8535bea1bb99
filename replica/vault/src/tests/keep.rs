//! What stays local: restarts, crashes, the budget, maps that outlive their files.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::RecordBatch;
use futures::FutureExt as _;
use sealcast_common::durable::{AppendFile, Durable, RealFiles};
use sealcast_common::seams::Seams;
use sealcast_common::segment::columns::EventColumns;

use super::{Node, Place};
use crate::testkit::Shipper;
use crate::{OpenError, SegmentState, Vault, VaultError};

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_fetches_nothing_again() {
    let place = Place::new();
    let mut shipper = Shipper::start(place.store.clone()).await;
    for i in 0..5 {
        shipper.ship(i % 2, 20).await;
    }
    let node = place.node().await;
    node.caught_up(&shipper).await;
    let before = node.vault.snapshot();
    assert_eq!(node.count().await, 100);
    node.stop().await;
    let gets = place.layer.segment_gets();
    assert_eq!(gets, 5);
    let node = place.node().await;
    let after = node.vault.snapshot();
    assert_eq!((&after.vector, after.digest), (&before.vector, before.digest));
    assert!(after.segments.iter().all(|entry| entry.state() == SegmentState::Local));
    assert_eq!(node.count().await, 100);
    node.booted().await;
    assert_eq!(place.layer.segment_gets(), gets);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_loses_neither_files_nor_position() {
    let place = Place::new();
    let mut shipper = Shipper::start(place.store.clone()).await;
    shipper.ship(0, 20).await;
    let node = place.node().await;
    node.booted().await;
    shipper.ship(0, 30).await;
    node.caught_up(&shipper).await;
    assert_eq!(node.count().await, 50);
    node.kill().await;
    // As a crash between the rename and the index leaves them: unlisted, and a half-written file.
    let vault = place.dir.path().join("vault");
    std::fs::remove_file(vault.join("verified.idx")).unwrap();
    let leftover = vault.join("segments/0000/half.7.tmp");
    std::fs::copy(&place.files("segments")[0], &leftover).unwrap();
    let node = place.node().await;
    assert!(!leftover.exists());
    node.caught_up(&shipper).await;
    assert_eq!(node.count().await, 50);
    assert_eq!(place.layer.segment_gets(), 2);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_budget_holds_and_what_is_open_stays() {
    let place = Place::new();
    let mut shipper = Shipper::start(place.store.clone()).await;
    let bytes = shipper.ship(0, 500).await.bytes;
    let mut config = place.config();
    config.cache_bytes = bytes * 3 + bytes / 2;
    let node = Node::start(config, place.store.clone()).await;
    let snapshot = node.caught_up(&shipper).await;
    let held = snapshot.open(snapshot.segments.iter().next().unwrap()).await.unwrap();
    for _ in 0..8 {
        shipper.ship(0, 500).await;
        node.caught_up(&shipper).await;
        let status = node.vault.status();
        assert!(status.cache_bytes <= status.cache_bytes_max, "{status:#?}");
    }
    assert_eq!(snapshot.segments.iter().next().unwrap().state(), SegmentState::Mapped);
    assert_eq!(check_rows(held.batches()), 500);
    assert!(place.files("segments").len() <= 3);
    // Everything can still be read, one after the other, through the small cache.
    assert_eq!(node.count().await, 4_500);
    // Let go, it may be evicted; batches that a client still reads keep the pages.
    let batches = held.batches().to_vec();
    drop(held);
    for _ in 0..4 {
        node.count().await;
    }
    assert_eq!(check_rows(&batches), 500);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_used_again_survives_what_only_passes_through() {
    let place = Place::new();
    let mut shipper = Shipper::start(place.store.clone()).await;
    let bytes = shipper.ship(0, 500).await.bytes;
    let mut config = place.config();
    config.cache_bytes = bytes * 3 + bytes / 2;
    let node = Node::start(config, place.store.clone()).await;
    let first = Arc::clone(node.caught_up(&shipper).await.segments.iter().next().unwrap());
    for _ in 0..6 {
        let snapshot = node.vault.snapshot();
        drop(snapshot.open(&first).await.unwrap());
        drop(snapshot.open(&first).await.unwrap());
        shipper.ship(0, 500).await;
        node.caught_up(&shipper).await;
    }
    assert_ne!(first.state(), SegmentState::Absent);
    assert_eq!(place.layer.keys.lock().iter().filter(|k| **k == first.descriptor.key()).count(), 1);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_segment_above_the_budget_is_served() {
    let place = Place::new();
    let mut shipper = Shipper::start(place.store.clone()).await;
    shipper.ship(0, 500).await;
    shipper.ship(0, 500).await;
    let mut config = place.config();
    config.cache_bytes = 1;
    let node = Node::start(config, place.store.clone()).await;
    node.caught_up(&shipper).await;
    assert_eq!(node.count().await, 1_000);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_map_outlives_segment_snapshot_and_vault() {
    let place = Place::new();
    let mut shipper = Shipper::start(place.store.clone()).await;
    shipper.ship(0, 300).await;
    let node = place.node().await;
    let snapshot = node.caught_up(&shipper).await;
    let segment = snapshot.open(snapshot.segments.iter().next().unwrap()).await.unwrap();
    let start = segment.view().bytes().as_ptr() as usize;
    let inside = start..start + segment.view().bytes().len();
    let batches = segment.batches().to_vec();
    let values = batches[0].column_by_name("actor_id").unwrap().to_data();
    let values = values.buffers().iter().map(|buffer| buffer.as_ptr() as usize);
    assert!(values.clone().count() > 0);
    assert!(values.into_iter().all(|at| inside.contains(&at)), "buffers borrow the map");
    drop(segment);
    drop(snapshot);
    node.stop().await;
    drop(shipper);
    for file in place.files("segments") {
        std::fs::remove_file(file).unwrap();
    }
    assert_eq!(check_rows(&batches), 300);
}

// One thread: the fetch cannot be done before the first one has gone.
#[tokio::test]
async fn many_who_open_fetch_once_even_if_the_first_goes_away() {
    let place = Place::new();
    let mut shipper = Shipper::start(place.store.clone()).await;
    shipper.ship(0, 300).await;
    let mut config = place.config();
    config.cache_bytes = 0;
    let node = Node::start(config, place.store.clone()).await;
    let snapshot = node.caught_up(&shipper).await;
    let entry = snapshot.segments.iter().next().unwrap();
    // The first one is gone before its fetch is done.
    assert!(snapshot.open(entry).now_or_never().is_none());
    let opened = futures::future::join_all((0..20).map(|_| snapshot.open(entry))).await;
    let opened: Vec<_> = opened.into_iter().map(Result::unwrap).collect();
    assert!(opened.iter().all(|segment| Arc::ptr_eq(segment, &opened[0])));
    assert_eq!(place.layer.segment_gets(), 1);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_no_segment_are_swept_after_boot() {
    let place = Place::new();
    let mut shipper = Shipper::start(place.store.clone()).await;
    shipper.ship(0, 30).await;
    let folder = place.dir.path().join("vault/segments/00ff");
    std::fs::create_dir_all(&folder).unwrap();
    let stranger = folder.join(format!("{:016x}.{:08x}.{}.seg", 0, 5, "ab".repeat(16)));
    std::fs::hard_link(place.dir.path().join("store/SEALCAST.json"), &stranger).unwrap();
    let node = place.node().await;
    node.caught_up(&shipper).await;
    node.until(|status| status.segments_local == 1 && !stranger.exists()).await;
    node.stop().await;
}

#[tokio::test]
async fn a_folder_has_one_vault_and_settings_have_ranges() {
    let place = Place::new();
    let open = |config| Vault::open(config, place.store.clone(), Seams::default());
    let first = open(place.config()).await.unwrap();
    assert!(matches!(open(place.config()).await.unwrap_err(), VaultError::InUse { .. }));
    drop(first);
    open(place.config()).await.unwrap();
    let mut config = place.config();
    config.fetch_parallel = 0;
    let error = open(config).await.unwrap_err().to_string();
    assert!(error.contains("fetch_parallel") && error.contains("1 to 256"), "{error}");
    let mut config = place.config();
    config.streams = vec!["../up".into()];
    assert!(open(config).await.is_err());
}

/// A disk that takes no more segment files while it is `full`.
#[derive(Debug, Default)]
struct FullDisk {
    full: AtomicBool,
}

impl Durable for FullDisk {
    fn create_append(&self, path: &Path) -> io::Result<Box<dyn AppendFile>> {
        RealFiles.create_append(path)
    }

    fn open_append(&self, path: &Path, len: u64) -> io::Result<Box<dyn AppendFile>> {
        RealFiles.open_append(path, len)
    }

    fn write_new(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        if self.full.load(Ordering::SeqCst) {
            // Half of it fits.
            RealFiles.write_new(path, &bytes[..bytes.len() / 2])?;
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        RealFiles.write_new(path, bytes)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealFiles.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        RealFiles.remove(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        RealFiles.sync_dir(path)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        RealFiles.create_dir(path)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_an_error_and_not_a_finding() {
    let place = Place::new();
    let mut shipper = Shipper::start(place.store.clone()).await;
    shipper.ship(0, 30).await;
    let disk = Arc::new(FullDisk::default());
    let seams = Seams { files: Arc::clone(&disk) as _, ..Seams::default() };
    let mut config = place.config();
    // Nothing is fetched ahead.
    config.cache_bytes = 0;
    let node = Node::with_seams(config, place.store.clone(), seams).await;
    let snapshot = node.caught_up(&shipper).await;
    disk.full.store(true, Ordering::SeqCst);
    let error = snapshot.open(snapshot.segments.iter().next().unwrap()).await.unwrap_err();
    assert!(matches!(error, OpenError::Local { .. }), "{error}");
    let status = node.vault.status();
    assert!(status.quarantine.is_empty());
    assert_eq!((status.cache_bytes, place.files("segments").len()), (0, 0));
    disk.full.store(false, Ordering::SeqCst);
    assert_eq!(node.count().await, 30);
    node.stop().await;
}

/// Reads every row, so that every page is touched.
pub(super) fn check_rows(batches: &[RecordBatch]) -> u64 {
    let mut rows = 0;
    for batch in batches {
        let columns = EventColumns::new(batch).unwrap();
        for row in 0..columns.rows() {
            assert_eq!(columns.event(row).action, "user.login");
            rows += 1;
        }
    }
    rows
}
