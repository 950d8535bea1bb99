//! Death at every single operation on the store (C1 to C8), before and after its effect: whoever
//! comes next completes the lineage, once.

use std::sync::atomic::Ordering::SeqCst;

use futures::StreamExt as _;
use sealcast_common::catalog::names::head_key;

use super::cluster::cluster;
use super::sealed::SealedDir;
use super::stores::{Behaviour, folder, odd};
use super::{config, folded, once, started};
use crate::Config;

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

async fn operations_of_a_whole_run() -> usize {
    let (_folder, plain) = folder();
    let (store, seen) = odd(&plain, Behaviour::default());
    let sealed = sealed_dir();
    started(settings(&sealed), &store).await.0.join().await.unwrap();
    seen.operations.load(SeqCst)
}

async fn dies_at(operation: usize, after_effect: bool) {
    let (_folder, plain) = folder();
    let behaviour = Behaviour {
        dies_at: Some(operation),
        dies_after_effect: after_effect,
        ..Behaviour::default()
    };
    let (store, _) = odd(&plain, behaviour);
    let sealed = sealed_dir();
    // Whether it ends well or not (a hint may be lost without harm) does not matter here.
    let _ended = started(settings(&sealed), &store).await.0.join().await;
    once(&sealed, &plain).await.unwrap();
    let catalog = folded(&plain).await;
    let what = format!("operation {operation}, after effect: {after_effect}");
    assert_eq!(catalog.vector().into_iter().collect::<Vec<_>>(), sealed.vector(), "{what}");
    assert_eq!(catalog.segments().count(), 3, "{what}");
    assert_eq!(sealed.shipped().vector, catalog.vector(), "{what}");
    // One history of the cluster, which has seen everything.
    let anchored = cluster(&plain, &sealed).await.shards;
    assert!(anchored.iter().all(|(shard, known)| catalog.vector()[shard] == known.size), "{what}");
    for segment in catalog.segments() {
        assert!(plain.get(&segment.key()).await.unwrap().is_some(), "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_crash_point_is_survived() {
    let operations = operations_of_a_whole_run().await;
    assert!(operations > 15, "{operations}");
    let points = (0..operations).flat_map(|n| [(n, false), (n, true)]);
    let runs = points.map(|(operation, after_effect)| dies_at(operation, after_effect));
    futures::stream::iter(runs).buffer_unordered(8).collect::<Vec<()>>().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_head_is_read_over() {
    let (_folder, plain) = folder();
    let mut sealed = sealed_dir();
    once(&sealed, &plain).await.unwrap();
    plain.put(&head_key("node-a"), "no hint".into()).await.unwrap();
    sealed.seal(1, 1);
    once(&sealed, &plain).await.unwrap();
    let catalog = folded(&plain).await;
    assert_eq!(catalog.vector().into_iter().collect::<Vec<_>>(), sealed.vector());
}
