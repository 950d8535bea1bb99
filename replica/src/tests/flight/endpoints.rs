//! Several endpoints for one answer: parts that make the whole, all of one state.

use arrow::record_batch::RecordBatch;
use arrow_flight::FlightInfo;
use futures::TryStreamExt as _;

use super::super::escapes::Locked;
use super::super::escapes::bucket::filled;
use super::super::kit::{Bucket, event};
use super::{Client, client};

async fn part(client: &mut Client, info: &FlightInfo, place: usize) -> Vec<RecordBatch> {
    let ticket = info.endpoint[place].ticket.clone().unwrap();
    client.do_get(ticket).await.unwrap().try_collect().await.unwrap()
}

fn count(batches: &[RecordBatch]) -> usize {
    batches.iter().map(RecordBatch::num_rows).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_make_the_answer_that_was_planned() {
    let mut bucket = Bucket::filled(1, 30).await;
    for shard in 1..6 {
        bucket.ship(shard, (0..10).map(|seq| event(shard, seq)).collect()).await;
    }
    let replica = bucket.replica().await;
    replica.wait(&bucket.token()).await;
    let mut client = client(&replica).await;
    client.set_header("x-sealcast-endpoints", "many");
    let sql = "select _shard, _seq from events where _seq < 9";
    let info = client.execute(sql.into(), None).await.unwrap();
    assert_eq!(info.endpoint.len(), 4);
    // What comes later is in none of them.
    bucket.ship(2, (10..20).map(|seq| event(2, seq)).collect()).await;
    bucket.ship(9, (0..10).map(|seq| event(9, seq)).collect()).await;
    replica.wait(&bucket.token()).await;
    let mut found = Vec::new();
    for place in 0..4 {
        found.extend(part(&mut client, &info, place).await);
    }
    assert_eq!(count(&found), 6 * 9);
    let info = client.execute("select tenant from ecs".into(), None).await;
    assert!(info.is_err(), "the view has no such column");
    for (sql, endpoints) in [
        ("select \"event.action\" from ecs where \"event.action\" like 'file%'", 4),
        ("select * from (select _seq, tenant from events) where tenant = 'acme'", 4),
        ("select count(*) from events", 1),
        ("select _seq from events order by _seq", 1),
        ("select _seq from events limit 3", 1),
        ("select distinct tenant from events", 1),
        ("select row_number() over () from events", 1),
        ("select _seq from events union all select _seq from events", 1),
        ("select _seq from events where _seq = (select max(_seq) from events)", 1),
        ("select _seq, (select max(_seq) from events) from events", 1),
        ("select * from sealcast.segments", 1),
        ("select 1", 1),
    ] {
        let info = client.execute(sql.into(), None).await.unwrap();
        assert_eq!(info.endpoint.len(), endpoints, "{sql}");
    }
    replica.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn their_number_tells_no_shards_to_those_who_see_some_tenants() {
    let mut numbers = Vec::new();
    for crowded in [false, true] {
        let locked = Locked::start(filled(crowded).await).await;
        let mut client = client(&locked.replica).await;
        client.set_token(locked.acme.reveal().to_owned());
        client.set_header("x-sealcast-endpoints", "many");
        let info = client.execute("select _seq from events".into(), None).await.unwrap();
        let mut rows = 0;
        for place in 0..info.endpoint.len() {
            rows += count(&part(&mut client, &info, place).await);
        }
        numbers.push((info.endpoint.len(), rows));
        locked.replica.stop().await;
    }
    assert_eq!(numbers[0], numbers[1]);
    assert_eq!(numbers[0].0, 4);
}
