//! Other histories than before, shown to a replica: by whoever has all keys of writer and shipper.

use std::sync::Arc;

use sealcast_common::catalog::names::CLUSTER_HEAD_KEY;
use sealcast_common::clock::ManualClock;
use sealcast_common::durable::{Durable as _, RealFiles};
use sealcast_common::seams::Seams;

use super::keeper::Keeper;
use super::{Node, Place, fault};
use crate::testkit::{STREAM, Shipper};
use crate::{Vault, VaultConfig, VaultError, VaultStatus};

/// The check that broke the trust.
fn broken(status: &VaultStatus) -> Option<&'static str> {
    status.trust.broken.as_ref().map(|finding| finding.check)
}

/// A store with these segments in this order; `shift` makes another history of the same shape.
async fn shipped(segments: &[(u16, u64)], shift: i64) -> (Place, Shipper) {
    let place = Place::new();
    let mut shipper = Shipper::start(place.store.clone()).await;
    shipper.time += shift;
    for (shard, rows) in segments {
        shipper.ship(*shard, *rows).await;
    }
    (place, shipper)
}

/// Its name, the check that finds it, and what is shipped.
type Attack = (&'static str, &'static str, &'static [(u16, u64)], i64);

const HONEST: [(u16, u64); 3] = [(0, 10), (0, 4), (1, 5)];

/// The honest store with its first epoch.
async fn anchored() -> (Place, Shipper, Keeper) {
    let (place, shipper) = shipped(&HONEST, 0).await;
    let mut keeper = Keeper::new(1);
    keeper.epoch(&place.store, &shipper.catalog).await;
    (place, shipper, keeper)
}

/// What the vault knows of streams is lost; what it trusts is not.
fn forget_streams(place: &Place) {
    for file in ["json", "commit"].map(|kind| format!("position-{STREAM}.{kind}")) {
        std::fs::remove_file(place.dir.path().join("vault").join(file)).unwrap();
    }
    std::fs::remove_file(place.dir.path().join(format!("vault/catalog-{STREAM}.bin"))).unwrap();
}

fn evidence(place: &Place) -> usize {
    let named = |path: &&std::path::PathBuf| path.to_string_lossy().contains("fork-evidence-");
    place.files("").iter().filter(named).count()
}

/// A replica that has read and trusted all of it, stopped again.
async fn has_trusted(place: &Place, shipper: &Shipper) {
    let node = place.node().await;
    node.caught_up(shipper).await;
    node.until(|status| status.trust.anchored && status.not_ready.is_empty()).await;
    // All of it, so that it can be served without the store.
    assert_eq!(node.count().await, shipper.rows());
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_reads_for_the_first_time_holds_streams_against_the_cluster_log() {
    let attacks: [Attack; 6] = [
        ("the stream cut", "cluster_shard", &[(0, 10), (0, 4)], 0),
        ("a shard rolled back", "cluster_shard", &[(0, 10), (0, 4), (1, 1), (1, 1)], 0),
        ("a shard hidden", "cluster_shard", &[(0, 10), (0, 4), (0, 1), (0, 1)], 0),
        ("rewritten", "cluster_root", &HONEST, 1),
        ("rewritten and grown", "cluster_root", &[(0, 10), (0, 4), (1, 5), (0, 7)], 1),
        ("sealed otherwise", "cluster_root", &[(0, 9), (0, 6), (1, 5), (0, 7)], 0),
    ];
    let (_, _, keeper) = anchored().await;
    for (attack, check, segments, shift) in attacks {
        let (place, _) = shipped(segments, shift).await;
        keeper.publish(&place.store).await;
        for life in ["first", "second"] {
            let node = place.node().await;
            let status = node.until(|status| broken(status).is_some()).await;
            assert_eq!(broken(&status), Some(check), "{attack}, {life} life");
            assert!(status.not_ready["trust_broken"].contains(check), "{status:#?}");
            assert_eq!(fault(&status), Some(check), "{attack}");
            assert_eq!((status.segments, node.count().await), (0, 0), "{attack}: attached");
            node.stop().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_is_seen_by_the_replica_that_remembers_and_by_no_other() {
    let (place, shipper, _) = anchored().await;
    has_trusted(&place, &shipper).await;
    forget_streams(&place);
    for epochs in [1, 2] {
        // All of it signed anew, by the same keys; as long as before, then longer.
        let (other, mut forger) = shipped(&HONEST, 1).await;
        let mut thief = Keeper::new(1);
        thief.epoch(&other.store, &forger.catalog).await;
        if epochs == 2 {
            forger.ship(0, 9).await;
            thief.epoch(&other.store, &forger.catalog).await;
        }
        let node = Node::start(place.config(), other.store.clone()).await;
        let status = node.until(|status| broken(status).is_some()).await;
        assert_eq!(broken(&status), Some("cluster_fork"));
        assert_eq!(status.segments, 0, "attached");
        assert_eq!(evidence(&place), epochs);
        assert!(status.not_ready["trust_broken"].contains("fork-evidence-"), "{status:#?}");
        node.stop().await;
        has_trusted(&other, &forger).await;
    }
    // Nothing of it was remembered: the honest store is trusted as before.
    has_trusted(&place, &shipper).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_copy_of_the_bucket_is_a_rollback_and_what_is_held_stays() {
    let (place, mut shipper, mut keeper) = anchored().await;
    let (old, _) = shipped(&HONEST, 0).await;
    keeper.publish(&old.store).await;
    shipper.ship(1, 6).await;
    keeper.epoch(&place.store, &shipper.catalog).await;
    has_trusted(&place, &shipper).await;
    for life in ["first", "second"] {
        let node = Node::start(place.config(), old.store.clone()).await;
        let status = node.until(|status| broken(status).is_some()).await;
        assert_eq!(broken(&status), Some("cluster_rollback"), "{life} life");
        assert_eq!(node.count().await, shipper.rows(), "what was trusted is served");
        node.stop().await;
    }
    forget_streams(&place);
    let node = Node::start(place.config(), old.store.clone()).await;
    let status = node.until(|status| broken(status).is_some()).await;
    assert_eq!((broken(&status), status.segments), (Some("cluster_rollback"), 0));
    node.stop().await;
    has_trusted(&place, &shipper).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_that_only_a_catalog_has_shown_cannot_go_back_either() {
    let (place, mut shipper, keeper) = anchored().await;
    shipper.ship(1, 6).await;
    let node = place.node().await;
    node.caught_up(&shipper).await;
    // No epoch names the last commit: it is trusted all the same.
    node.until(|status| status.trust.unanchored_ms.is_some() && status.not_ready.is_empty()).await;
    node.stop().await;
    forget_streams(&place);
    let attacks: [(&str, &[(u16, u64)]); 2] =
        [("shard_rollback", &HONEST), ("shard_rewritten", &[(0, 10), (0, 4), (1, 5), (1, 9)])];
    for (check, segments) in attacks {
        let (other, _) = shipped(segments, 0).await;
        keeper.publish(&other.store).await;
        let node = Node::start(place.config(), other.store.clone()).await;
        let status = node.until(|status| broken(status).is_some()).await;
        assert_eq!((broken(&status), status.segments), (Some(check), 0));
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_lies_stops_attaching_until_it_is_gone() {
    let (place, mut shipper, keeper) = anchored().await;
    let node = place.node().await;
    node.caught_up(&shipper).await;
    node.until(|status| status.trust.anchored).await;
    let held = node.count().await;
    let (other, forger) = shipped(&HONEST, 1).await;
    let (mut forked, mut swapped) = (Keeper::new(1), Keeper::new(2));
    for thief in [&mut forked, &mut swapped] {
        thief.epoch(&other.store, &forger.catalog).await;
    }
    for (thief, check) in [(forked, "cluster_fork"), (swapped, "cluster_key")] {
        let put = |keeper: &Keeper| {
            let text = keeper.note().to_text();
            let store = place.store.clone();
            async move { store.put(CLUSTER_HEAD_KEY, text.into()).await.unwrap() }
        };
        put(&thief).await;
        let before = node.vault.snapshot().vector.clone();
        shipper.ship(0, 3).await;
        let both = |status: &VaultStatus| broken(status).is_some() && fault(status).is_some();
        let status = node.until(both).await;
        assert_eq!((broken(&status), fault(&status)), (Some(check), Some(check)));
        assert_eq!(node.vault.snapshot().vector, before, "attached");
        put(&keeper).await;
        node.caught_up(&shipper).await;
        node.until(|status| status.not_ready.is_empty()).await;
    }
    assert_eq!(node.count().await, held + 6);
    assert_eq!(evidence(&place), 2);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_log_that_is_away_or_behind_keeps_nobody_waiting() {
    let (place, mut shipper) = shipped(&HONEST, 0).await;
    let clock = Arc::new(ManualClock::new(1_700_000_000_000_000));
    let seams = Seams { clock: Arc::clone(&clock) as _, ..Seams::default() };
    let node = Node::with_seams(place.config(), place.store.clone(), seams).await;
    node.caught_up(&shipper).await;
    let status = node.until(|status| status.not_ready.is_empty()).await;
    assert!(!status.trust.anchored && !status.notes.contains_key("anchor"), "{status:#?}");
    assert!(status.notes["trust"].contains("first use"));
    clock.advance(61_000_000);
    node.until(|status| status.notes.get("anchor").is_some_and(|n| n.contains("no cluster log")))
        .await;
    // It comes, and the next rows are named by it a little later.
    let mut keeper = Keeper::new(1);
    keeper.epoch(&place.store, &shipper.catalog).await;
    shipper.ship(0, 1).await;
    node.caught_up(&shipper).await;
    node.until(|status| status.trust.epoch == Some(1) && !status.trust.anchored).await;
    keeper.epoch(&place.store, &shipper.catalog).await;
    node.until(|status| status.trust.anchored && !status.notes.contains_key("anchor")).await;
    place.layer.refuse(CLUSTER_HEAD_KEY);
    shipper.ship(0, 1).await;
    node.caught_up(&shipper).await;
    node.until(|status| status.trust.trouble.is_some() && broken(status).is_none()).await;
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_view_is_stale_by_its_witnesses() {
    let (place, mut shipper) = shipped(&HONEST, 0).await;
    let policy = place.dir.path().join("policy.txt");
    let mut keeper = Keeper::new(1);
    RealFiles.write_new(&policy, keeper.policy().as_bytes()).unwrap();
    let config = VaultConfig {
        policy: Some(policy),
        trust_on_first_use: false,
        cluster_staleness_ms: 60_000,
        ..place.config()
    };
    let clock = Arc::new(ManualClock::new(1_700_000_000_000_000));
    let seams = || Seams { clock: Arc::clone(&clock) as _, ..Seams::default() };
    let node = Node::with_seams(config.clone(), place.store.clone(), seams()).await;
    // Nobody has cosigned: it is not believed, and it is no evidence.
    keeper.epoch(&place.store, &shipper.catalog).await;
    let says = |text: &String| text.contains("cluster_quorum");
    node.until(|status| status.trust.trouble.as_ref().is_some_and(says)).await;
    keeper.cosigned = Some(1_700_000_000);
    shipper.ship(0, 1).await;
    keeper.epoch(&place.store, &shipper.catalog).await;
    node.until(|status| status.trust.anchored && status.not_ready.is_empty()).await;
    assert!(!node.vault.status().notes.contains_key("trust"));
    clock.advance(61_000_000);
    let stale = |status: &VaultStatus| status.not_ready.contains_key("cluster_stale");
    node.until(stale).await;
    node.stop().await;
    // The same after a restart: the note is remembered.
    let node = Node::with_seams(config, place.store.clone(), seams()).await;
    node.until(stale).await;
    keeper.cosigned = Some(1_700_000_060);
    shipper.ship(0, 1).await;
    keeper.epoch(&place.store, &shipper.catalog).await;
    node.until(|status| !stale(status) && status.trust.anchored).await;
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_state_or_none_to_begin_with_is_an_error() {
    let (place, shipper, _) = anchored().await;
    let strict = || VaultConfig { trust_on_first_use: false, ..place.config() };
    let open = async |config| Vault::open(config, place.store.clone(), Seams::default()).await;
    assert!(matches!(open(strict()).await, Err(VaultError::Trust(_))));
    has_trusted(&place, &shipper).await;
    drop(open(strict()).await.unwrap());
    let file = place.dir.path().join("vault/trust.json");
    let mut text = std::fs::read(&file).unwrap();
    let at = text.len() / 2;
    text[at] ^= 1;
    RealFiles.write_new(&file, &text).unwrap();
    let error = open(place.config()).await.unwrap_err();
    assert!(error.to_string().contains("trust_state"), "{error}");
    assert!(error.to_string().contains("begin anew"), "{error}");
}
