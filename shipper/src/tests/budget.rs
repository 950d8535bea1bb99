//! No storm: how often a store is called that refuses everything, and what happens afterwards.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use sealcast_common::bucket::RESERVE;
use sealcast_common::clock::{OsRandom, Random, SeededRandom};
use sealcast_faults::{FaultyStore, StoreFault, StoreOp};

use super::sealed::SealedDir;
use super::stores::folder;
use super::{config, folded, started, until};
use crate::wait::Backoff;

/// Turns into which a minute of failures fits at most: pauses of 50 ms, then twice as long each
/// up to 5 s, all without jitter on top.
const TURNS_A_MINUTE: usize = 19;
/// What one failing turn asks at most: the first objects of four shards at the same time.
const CALLS_A_TURN: usize = 4;
/// A retry of the log is a create and a get.
const CALLS_A_RETRY: usize = 2;

/// The bound on calls within `turns`: retries are a tenth of the calls, and the reserve.
fn calls_at_most(turns: usize) -> usize {
    let first = turns * CALLS_A_TURN;
    first + CALLS_A_RETRY * (first / 10 + 1 + RESERVE as usize)
}

/// No jitter at all: the shortest pauses that there can be.
#[derive(Debug)]
struct Least;

impl Random for Least {
    fn fill(&self, buffer: &mut [u8]) {
        buffer.fill(0);
    }
}

#[test]
fn a_minute_has_few_turns_however_the_dice_fall() {
    let (mut backoff, mut passed, mut turns) = (Backoff::default(), Duration::ZERO, 1);
    loop {
        passed += backoff.next(&Least);
        if passed > Duration::from_secs(60) {
            break;
        }
        turns += 1;
    }
    assert!(turns <= TURNS_A_MINUTE, "{turns}");
    // The figure that docs/operating.md states.
    assert!(calls_at_most(TURNS_A_MINUTE) <= 120, "{}", calls_at_most(TURNS_A_MINUTE));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_refuses_everything_is_called_seldom_and_nothing_is_lost() {
    let (_folder, plain) = folder();
    let (faulty, layer) = FaultyStore::over(&plain);
    let store = faulty.patient(Arc::new(OsRandom));
    let mut sealed = SealedDir::new(2);
    sealed.seal(0, 1);
    let (handle, stop) = started(config(&sealed), &store).await;
    until("shipped", || handle.status().lag_rows == Some(0)).await;
    super::cluster::anchored(&plain).await;
    layer.stop();
    let before = layer.calls().len();
    let clock = Arc::clone(&handle.clock);
    let down_since = clock.monotonic();
    sealed.seal(0, 5);
    sealed.seal(1, 7);
    // The reserve is spent within the first turns: what comes later is the steady state.
    until("the reserve is spent", || layer.calls().len() - before > RESERVE as usize).await;
    until("lag is told", || handle.status().lag_rows == Some(12)).await;
    let down = clock.monotonic() - down_since;
    let calls = layer.calls().len() - before;
    let (mut backoff, mut passed, mut turns) = (Backoff::default(), Duration::ZERO, 2);
    while passed < down {
        passed += backoff.next(&Least);
        turns += 1;
    }
    assert!(calls <= calls_at_most(turns), "{calls} calls in {turns} turns, {down:?}");
    let status = handle.status();
    assert_eq!(status.last_error.as_ref().unwrap().kind, "store");
    assert!(status.store_age_ms.unwrap() >= 1 && status.lag_ms.unwrap() >= 1, "{status:?}");
    assert!(handle.health.reasons().contains_key("shipping"));
    layer.heal();
    until("shipped by itself", || handle.status().lag_rows == Some(0)).await;
    stop.cancel();
    handle.join().await.unwrap();
    let catalog = folded(&plain).await;
    assert_eq!(catalog.vector().into_iter().collect::<Vec<_>>(), sealed.vector());
}

#[tokio::test]
async fn among_a_thousand_refused_calls_a_tenth_are_retries() {
    let (_folder, plain) = folder();
    let (faulty, layer) = FaultyStore::over(&plain);
    let store = faulty.patient(Arc::new(Least));
    layer.stop();
    for n in 0..1_000 {
        store.get(&format!("k/{n}")).await.unwrap_err();
    }
    let calls = layer.calls().len();
    assert!((1_100..=1_100 + RESERVE as usize).contains(&calls), "{calls}");
    layer.heal();
    assert_eq!(store.get("k/1").await.unwrap(), None);
}

#[tokio::test]
async fn a_passing_fault_costs_a_retry_and_an_answer_none() {
    let (_folder, plain) = folder();
    let (faulty, layer) = FaultyStore::over(&plain);
    let store = faulty.patient(Arc::new(SeededRandom::new(7)));
    layer.fail_once(StoreFault::SlowDown, |call| call.op == StoreOp::Put);
    store.put("a", Bytes::from_static(b"1")).await.unwrap();
    assert_eq!(layer.calls().len(), 2);
    assert_eq!(store.get("b").await.unwrap(), None);
    assert_eq!(layer.calls().len(), 3, "absent is an answer");
    layer.fail_once(StoreFault::Delay(Duration::from_secs(3_600)), |call| call.op == StoreOp::Get);
    assert!(store.get("a").await.unwrap().is_some(), "given up after two seconds, asked again");
}
