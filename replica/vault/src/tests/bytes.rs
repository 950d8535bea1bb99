//! Bad bytes: found by the named check, never served, healed, and nothing else is disturbed.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::atomic::Ordering;

use sealcast_common::clock::Micros;

use super::Place;
use crate::testkit::Shipper;
use crate::{OpenError, SegmentState};

#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_byte_in_an_object_is_quarantined_and_heals() {
    let place = Place::new();
    let mut shipper = Shipper::start(place.store.clone()).await;
    shipper.ship(0, 20).await;
    let node = place.node().await;
    node.booted().await;
    // The object is broken before the commit is seen.
    place.layer.down.store(true, Ordering::SeqCst);
    let bad = shipper.ship(0, 30).await;
    place.layer.flip(&bad.key(), 200).await;
    shipper.ship(1, 40).await;
    place.layer.down.store(false, Ordering::SeqCst);
    let snapshot = node.caught_up(&shipper).await;
    let status = node.vault.status();
    let listed = &status.quarantine[0];
    assert_eq!((listed.segment.as_str(), listed.tries), (bad.id.to_text().as_str(), 1));
    assert_eq!(listed.corruption.check, "object_blake3");
    assert_eq!(listed.corruption.object, bad.key());
    assert!(status.not_ready.is_empty(), "{:?}", status.not_ready);
    for entry in snapshot.segments.iter() {
        let opened = snapshot.open(entry).await;
        if *entry.descriptor != bad {
            assert!(opened.is_ok());
            continue;
        }
        assert_eq!(entry.state(), SegmentState::Quarantined);
        match opened.unwrap_err() {
            OpenError::Quarantined { segment, corruption } => {
                assert_eq!((segment, corruption.check), (bad.id.to_text(), "object_blake3"));
            }
            other => panic!("{other}"),
        }
    }
    assert_eq!(place.files("quarantine").len(), 1);
    place.layer.heal();
    node.until(|status| status.quarantine.is_empty()).await;
    assert_eq!(node.count().await, 90);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_cut_short_grown_or_gone_is_named() {
    for (expected, lie) in [
        ("object_length", Some(vec![1; 10])),
        ("object_length", Some(vec![1; 1_000_000])),
        ("object_missing", None),
    ] {
        let place = Place::new();
        let mut shipper = Shipper::start(place.store.clone()).await;
        let bad = shipper.ship(0, 20).await;
        place.layer.lies.lock().insert(bad.key(), lie.map(Into::into));
        let node = place.node().await;
        let snapshot = node.caught_up(&shipper).await;
        let error = snapshot.open(snapshot.segments.iter().next().unwrap()).await.unwrap_err();
        let OpenError::Quarantined { corruption, .. } = &error else { panic!("{error}") };
        assert_eq!(corruption.check, expected);
        assert!(error.to_string().contains(&bad.id.to_text()), "{error}");
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_byte_in_a_local_file_is_never_served_and_heals_at_once() {
    let place = Place::new();
    let mut shipper = Shipper::start(place.store.clone()).await;
    shipper.ship(0, 200).await;
    shipper.ship(1, 100).await;
    let node = place.node().await;
    node.caught_up(&shipper).await;
    assert_eq!(node.count().await, 300);
    node.stop().await;
    let path = place.files("segments").remove(0);
    let good = std::fs::read(&path).unwrap();
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o400);
    let places = (0..good.len()).step_by(good.len() / 12).chain([good.len() - 1]);
    for (i, at) in places.enumerate() {
        let mut bytes = good.clone();
        bytes[at] ^= 0x10;
        overwrite(&path, &bytes);
        let gets = place.layer.segment_gets();
        let node = place.node().await;
        assert_eq!(node.count().await, 300);
        assert_eq!(place.layer.segment_gets(), gets + 1, "byte {at}: fetched once again");
        assert!(node.vault.status().quarantine.is_empty());
        node.stop().await;
        assert_eq!(std::fs::read(&path).unwrap(), good, "flip {i} at {at}");
    }
    assert_eq!(place.files("quarantine").len(), 1, "the latest evidence is kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shorter_local_file_is_replaced() {
    let place = Place::new();
    let mut shipper = Shipper::start(place.store.clone()).await;
    shipper.ship(0, 20).await;
    let node = place.node().await;
    node.caught_up(&shipper).await;
    node.until(|status| status.segments_local == 1).await;
    node.stop().await;
    let path = place.files("segments").remove(0);
    for len in [0, 100] {
        overwrite(&path, &vec![0; len]);
        let node = place.node().await;
        assert_eq!(node.count().await, 20);
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signed_lie_about_a_segment_is_found() {
    let place = Place::new();
    let mut shipper = Shipper::start(place.store.clone()).await;
    shipper.ship(0, 20).await;
    let node = place.node().await;
    node.booted().await;
    let time = shipper.ship_lie(0, 20, |d| d.time.1 = Micros(d.time.1.0 - 1)).await;
    let digest = shipper.ship_lie(0, 20, |d| d.range_digest[0] ^= 1).await;
    let tenants = shipper.ship_lie(0, 20, |d| d.tenants = Some(vec![1])).await;
    let ingest = shipper.ship_lie(1, 20, |d| d.ingested_at.1 = Micros(i64::MAX)).await;
    let after = shipper.ship(1, 20).await;
    node.caught_up(&shipper).await;
    let status = node.vault.status();
    let found = |wanted: &str| {
        let listed = status.quarantine.iter().find(|q| q.segment == wanted);
        listed.map(|q| q.corruption.check)
    };
    assert_eq!(found(&time.id.to_text()), Some("descriptor"));
    assert_eq!(found(&digest.id.to_text()), Some("range_nodes"));
    assert_eq!(found(&tenants.id.to_text()), Some("descriptor"));
    assert_eq!(found(&ingest.id.to_text()), Some("descriptor"));
    assert_eq!(found(&after.id.to_text()), Some("ingest_time"));
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_segment_that_continues_another_tree_is_found() {
    let place = Place::new();
    let mut shipper = Shipper::start(place.store.clone()).await;
    shipper.ship_lie(0, 20, |d| d.root_after[0] ^= 1).await;
    let next = shipper.ship(0, 20).await;
    let node = place.node().await;
    let snapshot = node.caught_up(&shipper).await;
    let mut checks = Vec::new();
    for entry in snapshot.segments.iter() {
        match snapshot.open(entry).await {
            Err(OpenError::Quarantined { corruption, .. }) => checks.push(corruption.check),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(checks, ["root", "frontier"], "{next:?}");
    node.stop().await;
}

/// The vault's files are read-only: an intruder is not stopped by that.
fn overwrite(path: &std::path::Path, bytes: &[u8]) {
    std::fs::remove_file(path).unwrap();
    #[expect(clippy::disallowed_methods, reason = "the test plays the intruder")]
    std::fs::write(path, bytes).unwrap();
}
