//! Stores that are judged at start: what is refused, what is tolerated, what is told.

use bytes::Bytes;
use sealcast_common::bucket::probe::{Check, Fitness, Verdict, probe};
use sealcast_common::clock::OsRandom;
use sealcast_faults::{FaultyStore, StoreFault, StoreOp};

use super::sealed::SealedDir;
use super::stores::folder;
use super::{config, folded, once, started};
use crate::{Config, Ended, Fencing, RunError};

fn external(sealed: &SealedDir) -> Config {
    Config { fencing: Fencing::External, once: true, ..config(sealed) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_is_fit_and_nothing_is_left_in_it() {
    let (_folder, store) = folder();
    let report = probe(&store, &OsRandom).await;
    assert!(report.findings.iter().all(|f| f.verdict == Verdict::Kept), "{report:?}");
    assert_eq!((report.fitness(false), report.reason().as_str()), (Fitness::Fit, ""));
    assert_eq!(store.list_all("").await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_ignores_conditions_is_refused_by_name_and_tolerated_on_word_of_honour() {
    let (_folder, plain) = folder();
    let (store, layer) = FaultyStore::over(&plain);
    layer.ignore_create();
    let mut sealed = SealedDir::new(1);
    sealed.seal(0, 5);
    let refused = once(&sealed, &store).await.unwrap_err();
    assert!(matches!(refused, RunError::Probe { .. }), "{refused}");
    let refused = refused.to_string();
    for word in ["create_only: found", "expected a second create refused", "8 of 8 were told"] {
        assert!(refused.contains(word), "{refused}");
    }
    let (handle, _stop) = started(external(&sealed), &store).await;
    let clone = handle.board.clone();
    assert!(matches!(handle.join().await.unwrap(), Ended::Done(_)));
    let told = clone.listen().borrow().probe.clone().unwrap();
    assert_eq!((told.fencing.as_str(), told.checks.len()), ("external", 6));
    let broken: Vec<&str> =
        told.checks.iter().filter(|c| c.kept == Some(false)).map(|c| &*c.check).collect();
    assert_eq!(broken, ["create_only", "race"]);
    assert_eq!(folded(&plain).await.vector()[&0], 5);
    // Its commits are looked for before and read back after: nothing of another owner is replaced.
    let other = sealed.copy();
    sealed.seal(0, 2);
    once_externally(&sealed, &store).await;
    assert!(matches!(started(external(&other), &store).await.0.join().await, Ok(Ended::Done(_))));
    assert_eq!(folded(&plain).await.vector()[&0], 7);
}

async fn once_externally(sealed: &SealedDir, store: &sealcast_common::bucket::Store) {
    started(external(sealed), store).await.0.join().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_operator_can_vouch_for_is_refused_in_every_mode() {
    let (_folder, plain) = folder();
    let (store, layer) = FaultyStore::over(&plain);
    layer.delay_visibility(1);
    let sealed = SealedDir::new(1);
    for config in [external(&sealed), Config { fencing: Fencing::Cas, ..external(&sealed) }] {
        let refused = started(config, &store).await.0.join().await.unwrap_err().to_string();
        assert!(refused.contains("read_after_write: found no object"), "{refused}");
    }
}

#[tokio::test]
async fn each_broken_promise_has_its_name() {
    let (_folder, plain) = folder();
    let picks = |name: &'static str, op: StoreOp| {
        move |call: &sealcast_faults::StoreCall| call.op == op && call.key.ends_with(name)
    };
    let other = StoreFault::Replaced(Bytes::from_static(b"other"));
    for (fault, name, op, check, expected) in [
        (StoreFault::Missing, "/absent", StoreOp::Get, Check::NoNegativeCaching, Verdict::Broken),
        (other.clone(), "/write", StoreOp::Get, Check::ReadAfterWrite, Verdict::Broken),
        (other.clone(), "/race", StoreOp::Get, Check::Race, Verdict::Broken),
        (other, "/create", StoreOp::Get, Check::CreateOnly, Verdict::Broken),
        (StoreFault::SlowDown, "/create", StoreOp::Get, Check::CreateOnly, Verdict::Unknown),
    ] {
        let (store, layer) = FaultyStore::over(&plain);
        layer.fail_always(fault, picks(name, op));
        let report = probe(&store, &OsRandom).await;
        let found = report.findings.iter().find(|f| f.check == check).unwrap();
        assert_eq!(found.verdict, expected, "{report:?}");
        let fitness = if expected == Verdict::Broken { Fitness::Unfit } else { Fitness::Unknown };
        assert_eq!(report.fitness(false), fitness, "{report:?}");
    }
    let (store, layer) = FaultyStore::over(&plain);
    layer.stop();
    assert_eq!(probe(&store, &OsRandom).await.fitness(false), Fitness::Unknown);
}
