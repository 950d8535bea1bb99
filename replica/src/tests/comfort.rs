//! What makes queries short: buckets of time, blocks of addresses, views, comments.

use sealcast_common::clock::Micros;
use sealcast_common::event::Event;
use serde_json::{Value, json};

use super::kit::{Bucket, EPOCH, Replica, event, event_id};

async fn addressed(ips: &[Option<&str>]) -> Bucket {
    let mut bucket = Bucket::new().await;
    let rows = (0..).zip(ips).map(|(seq, ip)| Event {
        source_ip: ip.map(str::to_owned),
        time: Micros(EPOCH + seq as i64 * 1_001_000),
        outcome_reason: Some("because".into()),
        ..event(0, seq)
    });
    bucket.ship(0, rows.collect()).await;
    bucket
}

async fn one(replica: &Replica, expression: &str) -> Value {
    replica.rows(&format!("select {expression}")).await[0][0].clone()
}

#[tokio::test]
async fn addresses_are_found_by_their_block() {
    let ips = [
        Some("10.1.2.3"),
        Some("11.0.0.1"),
        None,
        Some("::ffff:10.9.9.9"),
        Some("2001:db8::1"),
        Some("cloudtrail.amazonaws.com"),
    ];
    let bucket = addressed(&ips).await;
    let replica = bucket.replica().await;
    let found = async |block: &str| {
        let sql =
            format!("select _seq from events where ip_in_cidr(source_ip, '{block}') order by 1");
        replica.rows(&sql).await
    };
    assert_eq!(found("10.0.0.0/8").await, json!([[0], [3]]));
    assert_eq!(found("10.1.2.3").await, json!([[0]]));
    assert_eq!(found("2001:db8::/32").await, json!([[4]]));
    assert_eq!(found("0.0.0.0/0").await, json!([[0], [1], [3]]));
    let rest = "select _seq from events where not ip_in_cidr(source_ip, '10.0.0.0/8') order by 1";
    assert_eq!(replica.rows(rest).await, json!([[1], [4], [5]]));
    // By a column of blocks, and by constants.
    let joined = "select e._seq, n.name from events e join (values ('10.0.0.0/8', 'office'), \
        ('2001:db8::/32', 'lab')) as n(block, name) on ip_in_cidr(e.source_ip, n.block) order by 1";
    assert_eq!(replica.rows(joined).await, json!([[0, "office"], [3, "office"], [4, "lab"]]));
    assert_eq!(one(&replica, "ip_in_cidr('192.168.1.7', '192.168.0.0/16')").await, json!(true));
    assert_eq!(one(&replica, "ip_in_cidr(null, '10.0.0.0/8')").await, Value::Null);
    assert_eq!(one(&replica, "ip_in_cidr('10.0.0.1', null)").await, Value::Null);
    for (block, status) in [("'10.0.0.0/33'", 422), ("'office'", 422), ("7", 400)] {
        let sql = format!("select count(*) from events where ip_in_cidr(source_ip, {block})");
        let (found, problem) = replica.refusal(&json!({ "sql": sql })).await;
        assert_eq!(found, status, "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains("block"), "{problem}");
    }
    replica.stop().await;
}

#[tokio::test]
async fn buckets_of_time_are_those_of_date_trunc() {
    let bucket = Bucket::filled(1, 300).await;
    let replica = bucket.replica().await;
    let by =
        |bucket: &str| format!("select {bucket} as b, count(*) from events group by 1 order by 1");
    let buckets = replica.rows(&by("time_bucket('1 minute', time)")).await;
    assert_eq!(buckets, replica.rows(&by("date_trunc('minute', time)")).await);
    assert_eq!(buckets.as_array().unwrap().len(), 6);
    let sql = "select time_bucket('90 seconds', time, timestamp '2023-11-14T22:13:20Z') as b, \
        count(*) from events group by 1 order by 1 limit 1";
    assert_eq!(replica.rows(sql).await, json!([["2023-11-14T22:13:20.000000Z", 90]]));
    replica.stop().await;
}

#[tokio::test]
async fn views_show_the_same_rows_under_other_names() {
    let bucket = addressed(&[Some("10.1.2.3"), None, None, None, None, None]).await;
    let replica = bucket.replica().await;
    let sql = "select \"event.id\", \"event.action\", \"event.outcome\", \"user.id\", \"source.ip\", \
        \"organization.id\" from ecs where \"@timestamp\" < '2023-11-14T22:13:23Z' order by _seq";
    let id = |seq| event_id(0, seq).to_string();
    assert_eq!(
        replica.rows(sql).await,
        json!([
            [id(0), "user.login", "failure", "actor-0", "10.1.2.3", "acme"],
            [id(1), "file.read", "unknown", "actor-1", null, "globex"],
            [id(2), "file.read", "success", "actor-2", null, "initech"],
        ])
    );
    let sql = "select class_uid, type_uid, time, severity_id, status_id, status, \"api.operation\", \
        \"actor.user.uid\" from ocsf_api_activity where \"metadata.uid\" = $1";
    let answer = replica.answer(&json!({ "sql": sql, "params": [id(0)] })).await;
    assert_eq!(
        answer["rows"],
        json!([[6003, 600_399, 1_700_000_000_000_i64, 1, 2, "Failure", "user.login", "actor-0"]])
    );
    // Milliseconds since 1970.
    let times = replica.rows("select \"time\" from ocsf_api_activity order by _seq").await;
    let expected: Vec<_> = (0..6).map(|seq| [EPOCH / 1_000 + seq * 1_001]).collect();
    assert_eq!(times, json!(expected));
    // Counts go through to the table.
    for view in ["events", "ecs", "ocsf_api_activity"] {
        let rows = replica.rows(&format!("select count(*) from {view}")).await;
        assert_eq!(rows, json!([[6]]), "{view}");
    }
    let plan = replica.rows("explain select count(*) from ecs where \"event.action\" = 'x'").await;
    assert!(plan.to_string().contains("action"), "{plan}");
    replica.stop().await;
}

#[tokio::test]
async fn every_column_is_explained() {
    let bucket = Bucket::filled(1, 1).await;
    let replica = bucket.replica().await;
    let sql = "select count(*), count(comment), max(ordinal_position) from sealcast.columns";
    assert_eq!(replica.rows(sql).await, json!([[25, 25, 25]]));
    let sql = "select comment from sealcast.columns where column_name = 'tenant'";
    assert_eq!(replica.rows(sql).await, json!([["owner of the event"]]));
    replica.stop().await;
}
