//! Many readers and little room: eviction, draining and the bound of maps under running queries.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use sealcast_common::clock::ManualClock;
use sealcast_common::seams::Seams;

use super::keep::check_rows;
use super::{Node, Place};
use crate::OpenError;
use crate::testkit::Shipper;

/// Until somebody surely waits; if it does not yet, the test is easier.
const A_MOMENT: Duration = Duration::from_millis(60);
/// Rows of each segment.
const ROWS: u64 = 200;

async fn crowded(place: &Place, segments: u64) -> (Shipper, u64) {
    let mut shipper = Shipper::start(place.store.clone()).await;
    let mut bytes = 0;
    for _ in 0..segments {
        bytes = shipper.ship(0, ROWS).await.bytes;
    }
    (shipper, bytes)
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_read_on_while_everything_is_evicted_under_them() {
    let place = Place::new();
    let (mut shipper, bytes) = crowded(&place, 8).await;
    let mut config = place.config();
    config.cache_bytes = bytes * 3 + bytes / 2;
    let node = Node::start(config, place.store.clone()).await;
    node.caught_up(&shipper).await;
    let (stop, read) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let readers = (0..4usize).map(|reader| {
        let (vault, stop, read) = (node.vault.clone(), Arc::clone(&stop), Arc::clone(&read));
        tokio::spawn(async move {
            let mut at = reader;
            while !stop.load(Ordering::SeqCst) {
                let snapshot = vault.snapshot();
                let entry = snapshot.segments.iter().nth(at % snapshot.segments.len()).unwrap();
                let segment = snapshot.open(entry).await.unwrap();
                // The segment goes, its buffers stay: they drain.
                let batches = segment.batches().to_vec();
                drop(segment);
                tokio::task::yield_now().await;
                assert_eq!(check_rows(&batches), ROWS);
                read.fetch_add(1, Ordering::SeqCst);
                at += 3 + reader;
            }
        })
    });
    let readers: Vec<_> = readers.collect();
    for _ in 0..6 {
        shipper.ship(0, ROWS).await;
        node.caught_up(&shipper).await;
    }
    node.until(|_| read.load(Ordering::SeqCst) >= 100).await;
    stop.store(true, Ordering::SeqCst);
    for reader in readers {
        reader.await.unwrap();
    }
    // Three fit. What was read meanwhile has been unlinked, and let go with its last reader.
    node.vault.core.cache.make_room(0);
    let status = node.until(|status| status.cache_bytes <= status.cache_bytes_max).await;
    assert!(status.segments_local <= 3 && place.files("segments").len() <= 3, "{status:#?}");
    assert!(place.layer.segment_gets() > 14, "nothing was evicted");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn maps_have_a_bound_and_idle_ones_give_way() {
    const MAPS: usize = 3;
    let place = Place::new();
    let mut shipper = Shipper::start(place.store.clone()).await;
    let clock = Arc::new(ManualClock::new(1_700_000_000_000_000));
    let seams = Seams { clock: Arc::clone(&clock) as _, ..Seams::default() };
    let node = Node::with_seams(place.config(), place.store.clone(), seams).await;
    node.booted().await;
    // As if the system allowed no more.
    let maps = &node.vault.core.cache.maps;
    maps.forget_permits(maps.available_permits() - MAPS);
    for _ in 0..6 {
        shipper.ship(0, ROWS).await;
    }
    let snapshot = node.caught_up(&shipper).await;
    assert_eq!(node.count().await, 6 * ROWS, "one after the other there is room for all");
    let mut held = Vec::new();
    for entry in snapshot.segments.iter().take(MAPS) {
        held.push(snapshot.open(entry).await.unwrap());
    }
    let fourth = snapshot.segments.iter().nth(MAPS).unwrap();
    // However late it began to wait.
    let passing = async {
        loop {
            tokio::time::sleep(A_MOMENT).await;
            clock.advance(10_000_000);
        }
    };
    let refused = tokio::select! {
        opened = snapshot.open(fourth) => opened.unwrap_err(),
        () = passing => unreachable!(),
    };
    assert!(matches!(refused, OpenError::Maps { .. }), "{refused}");
    // Let go in time, the map goes to whoever waits for it.
    let letting_go = async {
        tokio::time::sleep(A_MOMENT).await;
        held.pop();
    };
    let (opened, ()) = tokio::join!(snapshot.open(fourth), letting_go);
    assert_eq!(check_rows(opened.unwrap().batches()), ROWS);
    let status = node.vault.status();
    assert!(status.maps <= MAPS && status.segments_local == 6, "{status:#?}");
    drop((snapshot, held));
    node.stop().await;
}
