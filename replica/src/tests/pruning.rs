//! What is read, and above all what is not: counted by `EXPLAIN ANALYZE`.

use serde_json::json;

use super::kit::{Bucket, event, event_id};

#[tokio::test]
async fn catalog_answers_counts_and_time_bounds_without_a_scan() {
    let bucket = Bucket::filled(3, 100).await;
    let replica = bucket.replica().await;
    // How many leaves there are is signed by the shard; bounds count once the rows were judged.
    let plan = replica.rows("explain select count(*) from events").await.to_string();
    assert!(!plan.contains("SegmentScan"), "{plan}");
    replica.rows("select sum(_seq) from events").await;
    for sql in
        ["select min(time), max(time) from events", "select count(*), max(ingested_at) from events"]
    {
        let plan = replica.rows(&format!("explain {sql}")).await.to_string();
        assert!(!plan.contains("SegmentScan"), "{sql}: {plan}");
    }
    let rows = replica.rows("select count(*), min(time), max(time) from events").await;
    assert_eq!(rows, json!([[300, "2023-11-14T22:13:20.000123Z", "2023-11-14T22:18:19.000123Z"]]));
    assert_eq!(
        replica.rows("select count(*) from events where tenant = 'acme'").await,
        json!([[100]])
    );
    replica.stop().await;
}

#[tokio::test]
async fn segments_are_pruned_by_time_tenant_shard_and_seq() {
    let mut bucket = Bucket::filled(4, 100).await;
    let lonely = (0..50).map(|seq| {
        let mut event = event(1, seq);
        event.tenant = "lonely".into();
        event
    });
    bucket.ship(1, lonely.collect()).await;
    let replica = bucket.replica().await;
    let cases = [
        ("tenant = 'lonely'", 1, 50),
        ("tenant in ('lonely', 'nobody')", 1, 50),
        ("tenant = 'nobody'", 0, 0),
        ("time >= '2023-11-14T22:18:20Z'", 1, 100),
        (
            "time between '2023-11-14T22:16:40Z' and '2023-11-14T22:16:45Z' and tenant = 'acme'",
            1,
            2,
        ),
        ("_shard = 1", 1, 50),
        ("_seq = 250", 1, 100),
        ("_shard = 0 and _seq >= 200 and _seq < 300", 1, 100),
        ("ingested_at < '2023-11-14T22:13:30Z' and _shard = 0", 1, 100),
        ("tenant = 'acme' and time < '2020-01-01'", 0, 0),
    ];
    for (filter, opened, read) in cases {
        let counters =
            replica.counters(&format!("select actor_id from events where {filter}")).await;
        let found = (counters["segments_opened"], counters["rows_read"]);
        assert_eq!(found, (opened, read), "{filter}");
    }
    replica.stop().await;
}

/// More segments than one block of them has, with what is rare in the middle and at the ends.
#[tokio::test]
async fn blocks_of_segments_hide_no_segment() {
    const ROWS: u64 = 3;
    let mut bucket = Bucket::new().await;
    for segment in 0..80_u64 {
        let events = (segment * ROWS..(segment + 1) * ROWS).map(|seq| {
            let mut event = event(0, seq);
            if segment == 70 {
                event.tenant = "lonely".into();
            }
            event
        });
        bucket.ship(0, events.collect()).await;
    }
    bucket.ship(1, (0..ROWS).map(|seq| event(1, seq)).collect()).await;
    let replica = bucket.replica().await;
    replica.wait(&bucket.token()).await;
    let cases = [
        ("tenant = 'lonely'", 1, 3),
        ("_shard = 1", 1, 3),
        ("_shard = 0 and _seq in (0, 191, 192, 239)", 4, 4),
        ("_seq >= 240", 0, 0),
        ("time = '2023-11-14T22:16:32.000123Z'", 1, 1),
        ("time >= '2023-11-14T22:17:19.000123Z'", 1, 1),
        ("time < '2023-11-14T22:13:21Z' and _shard = 0", 1, 1),
        ("_shard > 1 or time > '2030-01-01'", 0, 0),
    ];
    for (filter, opened, found) in cases {
        let counters =
            replica.counters(&format!("select actor_id from events where {filter}")).await;
        assert_eq!(counters["segments_opened"], opened, "{filter}");
        let rows = replica.rows(&format!("select count(*) from events where {filter}")).await;
        assert_eq!(rows, json!([[found]]), "{filter}");
    }
    let all = replica.rows("select count(*), sum(_seq) from events").await;
    assert_eq!(all, json!([[243, 240 * 239 / 2 + 3]]));
    replica.stop().await;
}

#[tokio::test]
async fn a_lookup_by_id_touches_one_row() {
    let mut bucket = Bucket::filled(1, 20_000).await;
    let rare = (20_000..40_000).map(|seq| {
        let mut event = event(0, seq);
        event.actor_id = Some(if seq == 33_333 { "rare".into() } else { format!("a{}", seq % 7) });
        event
    });
    bucket.ship(0, rare.collect()).await;
    let replica = bucket.replica().await;
    let id = event_id(0, 12_345);
    let sql = format!("select * from events where event_id = '{id}'");
    assert_eq!(replica.counters(&sql).await["rows_read"], 1);
    let other = event_id(0, 39_999);
    let sql = format!("select _seq from events where event_id in ('{id}', '{other}') order by 1");
    assert_eq!(replica.counters(&sql).await["rows_read"], 2);
    assert_eq!(replica.rows(&sql).await, json!([[12_345], [39_999]]));
    let sql = "select _seq from events where actor_id = 'rare'";
    assert_eq!(replica.counters(sql).await["rows_read"], 1);
    assert_eq!(replica.rows(sql).await, json!([[33_333]]));
    let sql = "select count(*) from events where actor_id = 'a3' and tenant = 'acme'";
    let expected = (20_000..40_000).filter(|seq| seq % 7 == 3 && seq % 3 == 0 && *seq != 33_333);
    assert_eq!(replica.rows(sql).await, json!([[expected.count()]]));
    replica.stop().await;
}

#[tokio::test]
async fn the_newest_rows_are_read_from_the_end() {
    let bucket = Bucket::filled(6, 18_000).await;
    let replica = bucket.replica().await;
    let sql = "select _seq, time from events where tenant = 'acme' order by time desc limit 50";
    let rows = replica.rows(sql).await;
    let found: Vec<u64> =
        rows.as_array().unwrap().iter().map(|row| row[0].as_u64().unwrap()).collect();
    let expected: Vec<u64> = (0..108_000).rev().filter(|seq| seq % 3 == 0).take(50).collect();
    assert_eq!(found, expected);
    let counters = replica.counters(sql).await;
    assert!(counters["segments_opened"] <= 2, "{counters:?}");
    assert!(counters["rows_read"] <= 2_000, "{counters:?}");
    let sql = "select _seq from events order by time desc limit 10";
    let counters = replica.counters(sql).await;
    assert!(counters["segments_opened"] <= 2, "{counters:?}");
    assert!(counters["rows_read"] <= 2_000, "{counters:?}");
    let sql = "select _seq from events where outcome = 'denied' order by time limit 3";
    assert_eq!(replica.rows(sql).await, json!([[0], [4], [8]]));
    let counters = replica.counters(sql).await;
    assert!(counters["segments_opened"] <= 2, "{counters:?}");
    let sql = "select _seq from events where time < '2023-11-15T00:00:00Z' and tenant = 'globex' \
        order by time desc, _seq limit 2";
    assert_eq!(replica.rows(sql).await, json!([[6_397], [6_394]]));
    let sql = "select count(*) from (select * from events order by time desc)";
    assert_eq!(replica.rows(sql).await, json!([[108_000]]));
    replica.stop().await;
}

#[tokio::test]
async fn limits_stop_early_and_zones_prune_batches() {
    let bucket = Bucket::filled(4, 18_000).await;
    let replica = bucket.replica().await;
    let counters = replica.counters("select * from events limit 5").await;
    assert_eq!(counters["segments_opened"], 1, "{counters:?}");
    // 18,000 rows are two batches; the second one has only `initech`.
    let sql = "select _seq from events where tenant = 'acme' and severity = 3";
    let counters = replica.counters(sql).await;
    assert_eq!((counters["segments_opened"], counters["batches_read"]), (4, 4), "{counters:?}");
    let counters = replica.counters("select _seq from events where tenant > 'initecg'").await;
    assert_eq!(counters["batches_read"], 8, "{counters:?}");
    let plan =
        replica.rows("explain select tenant, count(*) from events group by 1").await.to_string();
    assert!(plan.contains("columns=[tenant]"), "{plan}");
    replica.stop().await;
}

/// Parts of one segment are planned at different moments of a running top-k.
#[tokio::test(flavor = "multi_thread")]
async fn a_top_k_over_a_split_segment_loses_and_doubles_nothing() {
    const ROWS: u64 = 70_000;
    let mut bucket = Bucket::new().await;
    // Many tenants, times in no order: the threshold tightens step by step.
    let events = (0..ROWS).map(|seq| {
        let mut event = event(0, seq);
        event.tenant = format!("tenant-{}", seq % 50);
        event.time.0 += ((seq * 48_271) % 1_000_003) as i64 * 1_000_000;
        event
    });
    bucket.ship(0, events.collect()).await;
    let replica = bucket.replica_with(|config| config.partitions = 4).await;
    replica.wait_visible(ROWS).await;
    for k in [5, 300] {
        let ordered =
            |time: &str| format!("select {time} as t from events order by t desc limit {k}");
        // An expression instead of the column: sorted by the engine, nothing is ruled out.
        let wanted = replica.rows(&ordered("time + interval '0 second'")).await;
        for _ in 0..25 {
            assert_eq!(replica.rows(&ordered("time")).await, wanted);
        }
    }
    replica.stop().await;
}
