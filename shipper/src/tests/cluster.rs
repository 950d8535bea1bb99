//! The cluster log: kept by one shipper, signed once, and contradicted by whoever takes away.

use std::collections::BTreeMap;

use sealcast_common::bucket::{Addition, ClusterLog, Store, check_cluster_note};
use sealcast_common::catalog::Catalog;
use sealcast_common::catalog::names::{
    CLUSTER_HEAD_KEY, cluster_checkpoint_key, cluster_record_key, commit_key, head_key,
};
use sealcast_common::clock::Micros;
use sealcast_common::cluster::{ClusterRecord, ClusterState, Epoch};
use sealcast_common::integrity::{
    Checkpoint, Edge, KeyHistory, LocalSigner, Note, Signer as _, VerifyKey,
};

use super::sealed::SealedDir;
use super::stores::folder;
use super::{config, folded, once, started, until};
use crate::Config;

/// The log as a stranger with its key reads it: signed, whole, and in agreement with the streams.
pub(super) async fn cluster(store: &Store, sealed: &SealedDir) -> ClusterState {
    let log = ClusterLog::new(store.clone());
    let note = Note::parse(&log.head().await.unwrap().unwrap()).unwrap();
    let key = std::fs::read_to_string(sealed.dir.cluster_dir().join("log.pub")).unwrap();
    let keys = KeyHistory::parse(&key).unwrap();
    let size = Checkpoint::parse(&note.text).unwrap().size;
    let state = log.fold(ClusterState::default(), size).await.unwrap();
    check_cluster_note(&note, &keys, &state).unwrap();
    assert_eq!(state.key, keys.to_text());
    let catalog = folded(store).await;
    let catalogs = BTreeMap::from([(catalog.stream.clone(), catalog)]);
    assert_eq!(state.contradictions(&catalogs, |_, _| None), []);
    state
}

/// Waits for the first epoch: from here on the keeper is at rest.
pub(super) async fn anchored(store: &Store) {
    while store.get(CLUSTER_HEAD_KEY).await.ok().flatten().is_none() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

fn sizes(state: &ClusterState) -> Vec<(u16, u64)> {
    state.shards.iter().map(|(shard, known)| (*shard, known.size)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_state_that_is_shipped_is_anchored() {
    let (_folder, store) = folder();
    let mut sealed = SealedDir::new(2);
    for (round, (shard, rows)) in [(0, 5), (0, 7), (1, 3)].into_iter().enumerate() {
        sealed.seal(shard, rows);
        once(&sealed, &store).await.unwrap();
        let state = cluster(&store, &sealed).await;
        assert_eq!(
            sizes(&state),
            sealed.vector().into_iter().filter(|s| s.1 > 0).collect::<Vec<_>>()
        );
        assert_eq!(state.epoch.unwrap().0, round as u64 + 1);
    }
    let before = cluster(&store, &sealed).await;
    once(&sealed, &store).await.unwrap();
    assert_eq!(cluster(&store, &sealed).await, before, "nothing new, nothing said");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_shipper_anchors_at_its_pace() {
    let (_folder, store) = folder();
    let mut sealed = SealedDir::new(1);
    sealed.seal(0, 5);
    let quick = Config { cluster_every_ms: 20, ..config(&sealed) };
    let (handle, stop) = started(quick, &store).await;
    for round in 1..=4u64 {
        let log = ClusterLog::new(store.clone());
        let anchored = async {
            loop {
                if let Some(head) = log.head().await.unwrap() {
                    let size = Checkpoint::parse(&Note::parse(&head).unwrap().text).unwrap().size;
                    if size == 2 + round {
                        return;
                    }
                }
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(10), anchored).await.unwrap();
        if round < 4 {
            sealed.seal(0, 5);
        }
    }
    stop.cancel();
    handle.join().await.unwrap();
    assert_eq!(sizes(&cluster(&store, &sealed).await), [(0, 20)]);
}

/// A log of more than a bundle reads the same by bundles and leaf by leaf.
#[tokio::test(flavor = "multi_thread")]
async fn bundles_hold_what_the_leaves_hold() {
    let (dir, store) = folder();
    let (log, signer) =
        (ClusterLog::new(store.clone()), LocalSigner::from_seed("c/cluster", &[1; 32]));
    let key = VerifyKey { name: "c/cluster".into(), public_key: signer.public_key() };
    let keys = KeyHistory::from(key);
    let genesis = ClusterRecord::Genesis {
        cluster: "c".into(),
        store_id: [1; 16],
        key: keys.to_text(),
        time: Micros(1),
    };
    let epoch = |number: u64| Epoch {
        number,
        previous: number.checked_sub(2).map(|before| before + 1),
        time: Micros(1),
        shards: Vec::new(),
        streams: Vec::new(),
    };
    let mut records = vec![genesis];
    records.extend((1..600).map(|number| ClusterRecord::Epoch(epoch(number))));
    let leaves: Vec<Vec<u8>> = records.iter().map(|record| record.to_leaf().unwrap()).collect();
    let (mut state, mut edge, mut at) = (ClusterState::default(), Edge::default(), 0);
    for upto in [1, 200, 256, 300, 600] {
        leaves[at..upto].iter().for_each(|leaf| drop(state.apply(leaf).unwrap()));
        let (size, root) = (upto as u64, state.tree.root().unwrap());
        let checkpoint = Checkpoint { origin: "c/cluster".into(), size, root };
        let note = Note::sign(checkpoint.to_text(), &signer).unwrap();
        let before = &leaves[at / 256 * 256..at];
        let (first, leaves) = (at as u64, &leaves[at..upto]);
        let addition = Addition { first, leaves, before, edge, note: &note, keys: &keys };
        edge = log.publish(addition).await.unwrap();
        check_cluster_note(&note, &keys, &state).unwrap();
        assert_eq!(log.fold(ClusterState::default(), size).await.unwrap(), state);
        assert_eq!(log.checkpoint(size, "c").await.unwrap().unwrap().edge, edge);
        at = upto;
    }
    assert_eq!(log.largest().await.unwrap(), Some(600));
    for index in 1..512 {
        std::fs::remove_file(dir.path().join(cluster_record_key(index))).unwrap();
    }
    assert_eq!(log.fold(ClusterState::default(), 600).await.unwrap(), state);
    std::fs::remove_file(dir.path().join(cluster_record_key(520))).unwrap();
    let gone = log.fold(ClusterState::default(), 600).await.unwrap_err().to_string();
    assert!(gone.contains("cluster_missing"), "{gone}");
}

/// What is taken away after it was signed is not signed over.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_lost_something_gets_no_epoch() {
    let (dir, store) = folder();
    let mut sealed = SealedDir::new(1);
    for rows in [5, 6] {
        sealed.seal(0, rows);
        once(&sealed, &store).await.unwrap();
    }
    let before = cluster(&store, &sealed).await;
    // The tail of the log, with everything that bears witness to it.
    let last = folded(&store).await.seq;
    for key in [commit_key("node-a", last), head_key("node-a")] {
        std::fs::remove_file(dir.path().join(key)).unwrap();
    }
    std::fs::remove_dir_all(dir.path().join("st/node-a/snap")).unwrap();
    for name in ["shipped.json", "ship.position"] {
        let _absent = std::fs::remove_file(sealed.dir.root().join(name));
    }
    let (handle, stop) = started(config(&sealed), &store).await;
    until("told", || handle.health.reasons().iter().any(|(_, why)| why.contains("cluster_"))).await;
    stop.cancel();
    handle.join().await.unwrap();
    let log = ClusterLog::new(store.clone());
    let head = log.head().await.unwrap().unwrap();
    assert_eq!(Checkpoint::parse(&Note::parse(&head).unwrap().text).unwrap().size, before.size());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_log_that_vanished_is_not_begun_anew() {
    let (dir, store) = folder();
    let mut sealed = SealedDir::new(1);
    for rows in [5, 6] {
        sealed.seal(0, rows);
        once(&sealed, &store).await.unwrap();
    }
    std::fs::remove_dir_all(dir.path().join("cluster")).unwrap();
    sealed.seal(0, 7);
    once(&sealed, &store).await.unwrap();
    assert!(store.get(CLUSTER_HEAD_KEY).await.unwrap().is_none(), "signed anew");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_shipper_leaves_the_log_to_the_first_and_follows_it() {
    let (folder, store) = folder();
    let mut here = SealedDir::new(1);
    here.seal(0, 5);
    once(&here, &store).await.unwrap();
    let mut there = here.copy();
    std::fs::remove_dir_all(there.dir.cluster_dir()).unwrap();
    there.seal(0, 6);
    once(&there, &store).await.unwrap();
    let log = ClusterLog::new(store.clone());
    let head = Note::parse(&log.head().await.unwrap().unwrap()).unwrap();
    assert_eq!(Checkpoint::parse(&head.text).unwrap().size, 3, "only the first one's epoch");
    // The first one comes back: it anchors what the second one shipped.
    let _fenced: Catalog = folded(&store).await;
    once(&here, &store).await.unwrap();
    assert_eq!(sizes(&cluster(&store, &here).await), [(0, 11)]);
    // The second one remembers what it has seen, and tells when it is taken away.
    once(&there, &store).await.unwrap();
    assert!(there.dir.cluster_trust_file().exists());
    for key in [CLUSTER_HEAD_KEY, &cluster_checkpoint_key(4)] {
        std::fs::remove_file(folder.path().join(key)).unwrap();
    }
    let (handle, stop) = started(config(&there), &store).await;
    let told = || handle.health.reasons().iter().any(|(_, why)| why.contains("cluster_rollback"));
    until("told", told).await;
    stop.cancel();
    handle.join().await.unwrap();
}
