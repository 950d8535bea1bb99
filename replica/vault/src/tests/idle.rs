//! What a vault costs while nothing happens, and how little it does at boot: counted.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use sealcast_common::clock::{ManualClock, SeededRandom};
use sealcast_common::seams::Seams;
use tokio_util::sync::CancellationToken;

use super::{Node, Place};
use crate::follow::Follower;
use crate::testkit::{STREAM, Shipper};
use crate::{Lag, Vault, VaultConfig};

/// Requests within `seconds` of a follower that has read everything: exactly as many, as the clock
/// stands still while it works and moves on by as much as it wants to wait.
async fn idle(seconds: u64, hinted: bool) -> u64 {
    let place = Place::new();
    let mut shipper = Shipper::start(place.store.clone()).await;
    shipper.ship(0, 10).await;
    let config = VaultConfig { dir: place.config().dir, ..VaultConfig::default() };
    let clock = Arc::new(ManualClock::new(1_700_000_000_000_000));
    let random = Arc::new(SeededRandom::new(7));
    let seams = Seams { clock: Arc::clone(&clock) as _, random, ..Seams::default() };
    let vault = Vault::open(config, place.store.clone(), seams).await.unwrap();
    let stop = CancellationToken::new();
    let mut follower = Follower::new(Arc::clone(&vault.core), STREAM, None);
    let mut turn = async || {
        let wait = follower.turn(&stop).await.unwrap();
        clock.advance(i64::try_from(wait.as_micros()).unwrap());
        wait
    };
    let is_there = || vault.snapshot().vector.get(&0) == Some(&10);
    while !is_there() {
        turn().await;
    }
    if hinted {
        // As a listener does for as long as its connection is alive.
        vault.core.board(STREAM).hints_alive.fetch_add(1, Ordering::Relaxed);
    }
    let (gets, lists) = (&place.layer.gets, &place.layer.lists);
    let before = gets.load(Ordering::SeqCst);
    let mut passed = Duration::ZERO;
    while passed < Duration::from_secs(seconds) {
        passed += turn().await;
        assert!(matches!(vault.lag(), Lag::Millis(_)), "{:#?}", vault.status());
    }
    assert_eq!(lists.load(Ordering::SeqCst), 0, "nothing lists");
    gets.load(Ordering::SeqCst) - before
}

#[tokio::test]
async fn an_idle_hour_without_hints_costs_less_than_a_request_a_second() {
    let asked = idle(3_600, false).await;
    println!("{asked} GET in an hour without hints");
    assert!((600..=3_600).contains(&asked), "{asked}");
}

#[tokio::test]
async fn an_idle_day_with_hints_costs_2880_requests_at_most() {
    let asked = idle(86_400, true).await;
    println!("{asked} GET in a day with hints");
    assert!((1_000..=2_880).contains(&asked), "{asked}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_thousand_segments_are_booted_without_opening_one() {
    const SEGMENTS: usize = 100_000;
    let place = Place::new();
    let mut shipper = Shipper::start(place.store.clone()).await;
    shipper.pretend(SEGMENTS).await;
    shipper.snapshot().await;
    // Nothing is fetched ahead, so whatever is asked for is asked for by the boot.
    let config = VaultConfig { cache_bytes: 0, ..place.config() };
    for boot in ["the store", "the own disk"] {
        place.layer.keys.lock().clear();
        let node = Node::start(config.clone(), place.store.clone()).await;
        let snapshot = node.caught_up(&shipper).await;
        node.booted().await;
        let status = node.vault.status();
        assert_eq!((snapshot.segments.len(), status.maps, status.segments_local), (SEGMENTS, 0, 0));
        assert!(snapshot.segments.iter().all(|entry| entry.seal().is_none()), "from {boot}");
        let asked = place.layer.keys.lock().len();
        println!("{asked} GET to boot {SEGMENTS} segments from {boot}");
        assert_eq!(place.layer.segment_gets(), 0);
        assert!(asked < 60, "from {boot}: {asked}");
        drop(snapshot);
        node.stop().await;
    }
}
