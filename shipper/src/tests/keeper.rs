//! The keeper's steps broken off: what was begun is finished before anything else takes its place.

use std::collections::BTreeSet;

use sealcast_common::bucket::{ClusterLog, Store};
use sealcast_common::catalog::names::{CLUSTER_HEAD_KEY, cluster_record_key};
use sealcast_common::cluster::{ClusterRecord, ClusterState, Epoch, ShardPoint, StreamPoint};
use sealcast_common::durable::{Durable as _, RealFiles};
use sealcast_common::integrity::{Checkpoint, CosignerKey, Note, Signer as _};
use sealcast_faults::{FaultyStore, StoreCall, StoreFault, StoreOp, When};

use super::cluster::cluster;
use super::cosign::{fake, line, signer};
use super::sealed::SealedDir;
use super::stores::folder;
use super::{config, folded, once, started, until};
use crate::Config;

type Picks = fn(&StoreCall) -> bool;

fn claim(call: &StoreCall) -> bool {
    call.op == StoreOp::Create && call.key.starts_with("cluster/log/")
}

/// Every request between writing leaves down and telling of them.
const STEPS: [(&str, Picks); 5] = [
    ("claim", claim),
    ("claim looked at", |call| call.op == StoreOp::Get && call.key.starts_with("cluster/log/")),
    ("leaf", |call| call.op == StoreOp::Put && call.key.starts_with("cluster/log/")),
    ("checkpoint", |call| call.op == StoreOp::Put && call.key.starts_with("cluster/ckpt/")),
    ("head", |call| call.op == StoreOp::Put && call.key == CLUSTER_HEAD_KEY),
];

async fn told(store: &Store) -> u64 {
    let Some(head) = ClusterLog::new(store.clone()).head().await.unwrap() else { return 0 };
    Checkpoint::parse(&Note::parse(&head).unwrap().text).unwrap().size
}

async fn told_more_than(store: &Store, size: u64, what: &str) {
    let waited = async {
        while told(store).await <= size {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(std::time::Duration::from_secs(10), waited).await;
    assert!(waited.is_ok(), "no epoch: {what}");
}

async fn rows(store: &Store, sealed: &SealedDir) -> u64 {
    cluster(store, sealed).await.shards[&0].size
}

async fn fails_once(picks: Picks, fault: StoreFault, what: String) {
    let (_folder, plain) = folder();
    let (store, layer) = FaultyStore::over(&plain);
    let mut sealed = SealedDir::new(1);
    sealed.seal(0, 5);
    let settings = Config { cluster_every_ms: 10, scan_ms: 50, ..config(&sealed) };
    let (handle, stop) = started(settings, &store).await;
    told_more_than(&plain, 2, &what).await;
    layer.fail_once(fault, picks);
    sealed.seal(0, 6);
    told_more_than(&plain, 3, &what).await;
    sealed.seal(0, 7);
    told_more_than(&plain, 4, &what).await;
    stop.cancel();
    handle.join().await.unwrap();
    assert_eq!(rows(&plain, &sealed).await, 18, "{what}");
    sealed.seal(0, 8);
    once(&sealed, &plain).await.unwrap();
    assert_eq!(rows(&plain, &sealed).await, 26, "{what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_fails_once_between_claim_and_head_is_lived_through() {
    for (name, picks) in STEPS {
        for when in [When::Before, When::After] {
            fails_once(picks, StoreFault::Error(when), format!("{name}, {when:?}")).await;
        }
    }
}

/// Claimed and signed is each epoch before anybody is asked.
#[tokio::test(flavor = "multi_thread")]
async fn witnesses_that_were_away_cosign_what_was_signed_meanwhile() {
    let witness = fake(|number, request| match number {
        1..=3 => (503, String::new()),
        _ => (200, line(&signer("w"), &request)),
    })
    .await;
    let (_folder, store) = folder();
    let mut sealed = SealedDir::new(1);
    sealed.seal(0, 5);
    let key = CosignerKey { name: "w".into(), public_key: signer("w").public_key() };
    let text = format!("witness w {} {}\nquorum w\n", key.to_text(), witness.url);
    let policy = sealed.root().join("policy.txt");
    RealFiles.write_new(&policy, text.as_bytes()).unwrap();
    let settings = Config {
        cluster_every_ms: 10,
        scan_ms: 50,
        policy: Some(policy.clone()),
        ..config(&sealed)
    };
    let (handle, stop) = started(settings, &store).await;
    until("asked", || witness.asked.lock().unwrap().len() > 1).await;
    sealed.seal(0, 6);
    told_more_than(&store, 3, "witnesses are back").await;
    stop.cancel();
    handle.join().await.unwrap();
    assert_eq!(rows(&store, &sealed).await, 11);
    let asked = witness.asked.lock().unwrap();
    let shown = asked.iter().map(|asked| Note::parse(&asked.checkpoint).unwrap().text);
    let shown: BTreeSet<String> = shown.collect();
    let size = |text: &String| Checkpoint::parse(text).unwrap().size;
    let sizes: BTreeSet<u64> = shown.iter().map(size).collect();
    assert!(sizes.len() > 1 && sizes.len() == shown.len(), "one root a size: {shown:?}");
}

/// A second epoch is claimed and no more, and the folder is as it was before.
async fn died_after_its_claim() -> (tempfile::TempDir, Store, SealedDir) {
    let (folder, plain) = folder();
    let mut sealed = SealedDir::new(1);
    sealed.seal(0, 5);
    once(&sealed, &plain).await.unwrap();
    sealed.seal(0, 6);
    let before = sealed.copy();
    let (store, layer) = FaultyStore::over(&plain);
    let fourth = |call: &StoreCall| claim(call) && call.key == cluster_record_key(3);
    layer.plan(move |call| fourth(call).then_some(StoreFault::Crash(When::After)));
    let settings = Config { once: true, ..config(&sealed) };
    let _dead = started(settings, &store).await.0.join().await;
    assert!(plain.get(&cluster_record_key(3)).await.unwrap().is_some(), "claimed");
    assert_eq!(told(&plain).await, 3, "and not told");
    (folder, plain, before)
}

/// A claim that arrives after its process was started again, or whose folder is lost.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_dead_one_claimed_is_signed_by_whoever_has_the_key() {
    let (_folder, store, mut sealed) = died_after_its_claim().await;
    let claimed = store.get(&cluster_record_key(3)).await.unwrap();
    once(&sealed, &store).await.unwrap();
    assert_eq!(rows(&store, &sealed).await, 11);
    assert_eq!(store.get(&cluster_record_key(3)).await.unwrap(), claimed);
    sealed.seal(0, 7);
    once(&sealed, &store).await.unwrap();
    assert_eq!(rows(&store, &sealed).await, 18);
}

/// Whoever can write into the store can put a leaf there.
#[tokio::test(flavor = "multi_thread")]
async fn a_leaf_that_does_not_say_the_truth_is_not_signed() {
    let (folder, store) = folder();
    let mut sealed = SealedDir::new(1);
    sealed.seal(0, 5);
    once(&sealed, &store).await.unwrap();
    let (state, catalog) = (cluster(&store, &sealed).await, folded(&store).await);
    let known = &state.shards[&0];
    let honest = || Epoch {
        number: 2,
        previous: Some(2),
        time: state.time,
        shards: vec![ShardPoint { shard: 0, size: known.size, root: known.root }],
        streams: vec![StreamPoint {
            stream: catalog.stream.clone(),
            seq: catalog.seq,
            hash: catalog.hash,
        }],
    };
    let mut lies = [honest(), honest(), honest(), honest()];
    lies[0].shards[0].size += 6;
    lies[1].shards[0].root = [7; 32];
    lies[2].streams[0].seq += 1;
    lies[3].time.0 += 3_600_000_000;
    // Of a commit that is not the newest when it is looked at, too.
    sealed.seal(0, 6);
    let place = folder.path().join(cluster_record_key(3));
    for lie in lies {
        let rules = ClusterState::apply(&mut state.clone(), &leaf(&lie));
        put(&store, &lie).await;
        once(&sealed, &store).await.unwrap();
        assert_eq!(told(&store).await, 3, "{rules:?}");
        std::fs::remove_file(&place).unwrap();
    }
    let mut old = honest();
    old.streams[0].hash = [7; 32];
    put(&store, &old).await;
    once(&sealed, &store).await.unwrap();
    assert_eq!(told(&store).await, 3, "another commit than stands there");
    std::fs::remove_file(&place).unwrap();
    put(&store, &honest()).await;
    once(&sealed, &store).await.unwrap();
    assert_eq!((told(&store).await, rows(&store, &sealed).await), (5, 11));
}

fn leaf(epoch: &Epoch) -> Vec<u8> {
    ClusterRecord::Epoch(epoch.clone()).to_leaf().unwrap()
}

async fn put(store: &Store, epoch: &Epoch) {
    store.put(&cluster_record_key(3), leaf(epoch).into()).await.unwrap();
}
