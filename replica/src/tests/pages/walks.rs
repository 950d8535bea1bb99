//! Every row of the first page's state exactly once, in order, whatever arrives meanwhile.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::oracle::{World, page, places};
use crate::tests::kit::{Bucket, Replica, event};
use crate::tests::plans::Dice;

/// Worlds, and walks in each.
const WORLDS: u64 = 8;
const WALKS: u64 = 14;

async fn replicas(world: &World) -> [Replica; 2] {
    let key = world.bucket.dir.path().join("cursor.key");
    #[expect(clippy::disallowed_methods, reason = "a test's own file needs no durability")]
    std::fs::write(&key, "0123456789abcdef0123456789abcdef\n").unwrap();
    let start = async |name: &str| {
        let dir = world.bucket.dir.path().join(name);
        let replica = world
            .bucket
            .replica_with(|config| (config.dir, config.opaque_key_file) = (dir, Some(key.clone())))
            .await;
        replica.wait(&world.bucket.token()).await;
        replica
    };
    [start("one").await, start("two").await]
}

/// One walk: pages of random sizes, by both replicas in turns, while the store grows.
async fn walk(world: &mut World, replicas: &[Replica; 2], dice: &mut Dice) {
    let mut query = world.query(dice);
    let expected = world.expected(&query);
    let mut found = Vec::new();
    query.insert("min", world.bucket.token());
    for n in 0.. {
        let most = [4, 30, 200][dice.below(3) as usize];
        let limit = 1 + dice.below(most);
        query.insert("limit", limit.to_string());
        let page = page(&replicas[dice.below(2) as usize], &query).await;
        let rows = places(&page);
        assert!(rows.len() as u64 <= limit && page["complete"] == true, "{page}");
        let is_last = page["next_cursor"].is_null();
        assert!(is_last || rows.len() as u64 == limit, "{query:?}: {page}");
        found.extend(rows);
        assert!(found.len() <= expected.len(), "{query:?}: {found:?}\n{expected:?}");
        if is_last {
            break;
        }
        assert!(n < 10_000);
        query.insert("cursor", page["next_cursor"].as_str().unwrap().to_owned());
        query.remove("min");
        if dice.chance(10) {
            world.grow(dice).await;
        }
    }
    assert_eq!(found, expected, "{query:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_row_comes_once_and_none_that_arrived_later() {
    let mut walked = 0;
    for seed in 0..WORLDS {
        let mut dice = Dice::new(seed + 5_000);
        let mut world = World::new(&mut dice).await;
        let replicas = replicas(&world).await;
        for _ in 0..WALKS {
            walk(&mut world, &replicas, &mut dice).await;
        }
        walked += world.rows.len();
        for replica in replicas {
            replica.stop().await;
        }
    }
    assert!(walked > 1_000, "{walked}");
}

#[tokio::test]
async fn a_page_says_what_sql_says() {
    let bucket = Bucket::filled(2, 50).await;
    let replica = bucket.replica().await;
    let query = BTreeMap::from([("tenant", "globex".to_owned()), ("limit", "3".to_owned())]);
    let page = page(&replica, &query).await;
    let sql = "select event_id, time, ingested_at, action, actor_id, outcome, severity, attributes, \
        targets, _shard, _seq from events where tenant = 'globex' order by time desc limit 3";
    let rows = replica.rows(sql).await;
    let names = ["event_id", "time", "ingested_at", "action", "actor_id", "outcome", "severity"];
    for (row, event) in rows.as_array().unwrap().iter().zip(page["events"].as_array().unwrap()) {
        for (at, name) in names.iter().enumerate() {
            assert_eq!(row[at], *event.get(*name).unwrap_or(&Value::Null), "{name}: {event}");
        }
        let attributes: Value = serde_json::from_str(row[7].as_str().unwrap()).unwrap();
        assert_eq!(event["attributes"], attributes);
        assert_eq!(event["targets"][0]["id"], row[8][0]["id"], "{event}");
        assert_eq!((&row[9], &row[10]), (&event["_shard"], &event["_seq"]));
    }
    // What is null is left out.
    assert!(page["events"][0].get("outcome").is_none(), "{page}");
    let id = page["events"][1]["event_id"].as_str().unwrap();
    let one: Value = replica.get(&format!("/v1/events/{id}")).await.json().await.unwrap();
    assert_eq!(one["events"], json!([page["events"][1]]));
    assert_eq!(one["next_cursor"], Value::Null);
    let none = replica.get("/v1/events/00000000-0000-0000-0000-000000000009").await;
    assert_eq!(none.status(), 404);
    assert_eq!(none.json::<Value>().await.unwrap()["code"], "unknown_event");
    replica.stop().await;
}

/// More tenants than a segment's directory lists, and more rows of one time than a batch has.
#[tokio::test(flavor = "multi_thread")]
async fn large_segments_are_walked_whole() {
    let mut bucket = Bucket::new().await;
    let many = (0..12_000).map(|seq| {
        let mut event = event(0, seq);
        event.tenant = format!("t{:04}", seq % 6_000);
        event
    });
    bucket.ship(0, many.collect()).await;
    let same = (0..20_000).map(|seq| {
        let mut event = event(1, seq);
        event.time = sealcast_common::clock::Micros(crate::tests::kit::EPOCH);
        event.tenant = "t0001".to_owned();
        event
    });
    bucket.ship(1, same.collect()).await;
    let replica = bucket.replica().await;
    for (order, tenant, rows) in [("asc", None, 32_000), ("desc", Some("t0001"), 20_002)] {
        let mut query = BTreeMap::from([("order", order.to_owned()), ("limit", "1000".to_owned())]);
        query.extend(tenant.map(|tenant| ("tenant", tenant.to_owned())));
        let mut found = std::collections::BTreeSet::new();
        loop {
            let page = page(&replica, &query).await;
            let places = places(&page);
            let count = places.len();
            let before = found.len();
            found.extend(places);
            assert_eq!(found.len(), before + count);
            let Some(cursor) = page["next_cursor"].as_str() else { break };
            query.insert("cursor", cursor.to_owned());
        }
        assert_eq!(found.len(), rows);
    }
    replica.stop().await;
}
