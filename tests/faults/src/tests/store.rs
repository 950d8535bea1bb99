//! A store that departs from a good one exactly where the plan says so.

use sealcast_common::bucket::{Created, Store};
use tempfile::TempDir;

use crate::{FaultyStore, StoreFault, StoreOp, When};

fn faulty() -> (TempDir, Store, FaultyStore) {
    let dir = tempfile::tempdir().unwrap();
    let (store, layer) = FaultyStore::over(&Store::open(dir.path().to_str().unwrap()).unwrap());
    (dir, store, layer)
}

#[tokio::test]
async fn a_lost_answer_has_its_effect_and_an_error_before_has_none() {
    let (_dir, store, layer) = faulty();
    layer.fail_nth(0, StoreFault::Error(When::After));
    store.create("a", "1".into()).await.unwrap_err();
    assert_eq!(store.create("a", "2".into()).await.unwrap(), Created::Exists);
    layer.fail_once(StoreFault::Error(When::Before), |call| call.op == StoreOp::Create);
    store.create("b", "1".into()).await.unwrap_err();
    assert_eq!(store.get("b").await.unwrap(), None);
    assert_eq!(layer.count(|call| call.op == StoreOp::Create && call.key == "a"), 2);
    assert_eq!(layer.calls().len(), 4);
}

#[tokio::test]
async fn bodies_are_cut_broken_flipped_replaced_and_hidden() {
    let (_dir, store, layer) = faulty();
    store.put("a", "123456".into()).await.unwrap();
    let faults = [
        (StoreFault::Truncated(2), Some("12")),
        (StoreFault::Flipped(0), Some("023456")),
        (StoreFault::Flipped(-1), Some("123457")),
        (StoreFault::Replaced("x".into()), Some("x")),
        (StoreFault::Missing, None),
    ];
    for (fault, expected) in faults {
        layer.fail_once(fault.clone(), |_| true);
        let read = store.get("a").await.unwrap();
        assert_eq!(read.as_deref(), expected.map(str::as_bytes), "{fault:?}");
        assert_eq!(store.get("a").await.unwrap().unwrap(), "123456", "after {fault:?}");
    }
    layer.fail_always(StoreFault::BrokenBody(3), |call| call.op == StoreOp::Get);
    store.get("a").await.unwrap_err();
    layer.fail_always(StoreFault::SlowDown, |_| true);
    assert!(store.get("a").await.unwrap_err().to_string().contains("503"));
    layer.heal();
    assert_eq!(store.get("a").await.unwrap().unwrap(), "123456");
}

#[tokio::test]
async fn conditions_can_be_ignored_and_new_objects_hidden() {
    let (_dir, store, layer) = faulty();
    layer.ignore_create();
    store.create("a", "1".into()).await.unwrap();
    assert_eq!(store.create("a", "2".into()).await.unwrap(), Created::New);
    layer.heal();
    layer.delay_visibility(2);
    store.put("b", "1".into()).await.unwrap();
    assert_eq!(store.get("b").await.unwrap(), None);
    assert_eq!(store.create("b", "2".into()).await.unwrap(), Created::Exists);
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.push(store.get("b").await.unwrap().is_some());
    }
    assert_eq!(seen, [false, false, true]);
}

#[tokio::test]
async fn a_stopped_store_and_a_crashed_client_do_nothing_until_healed() {
    let (_dir, store, layer) = faulty();
    layer.stop();
    store.put("a", "1".into()).await.unwrap_err();
    store.list_all("").await.unwrap_err();
    layer.heal();
    assert_eq!(store.list_all("").await.unwrap(), []);
    layer.fail_once(StoreFault::Crash(When::After), |call| call.key == "b");
    store.put("b", "1".into()).await.unwrap_err();
    store.get("b").await.unwrap_err();
    layer.heal();
    assert_eq!(store.get("b").await.unwrap().unwrap(), "1");
}
