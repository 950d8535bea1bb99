//! Statements in both protocols, portals, cursors, blocks, cancellation, drain.

use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::super::kit::Bucket;
use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn simple_statements_are_answered_in_order() {
    let bucket = Bucket::filled(2, 60).await;
    let replica = bucket.replica().await;
    let mut client = Client::open(&replica).await;
    let http = replica.rows("select count(*) from events where tenant = 'acme'").await;
    let count = client.rows("select count(*) from events where tenant = 'acme'").await;
    assert_eq!(one(&count), http[0][0].to_string());
    let told = client.simple("select 1 as a; select ';' as b;; show timezone").await;
    assert_eq!(kinds(&told), "TDCTDCTDCZ");
    assert_eq!(kinds(&client.simple(" ; -- nothing").await), "IZ");
    let told = client.simple("select 1; select nothing from events; select 2").await;
    assert_eq!(kinds(&told), "TDCEZ", "the rest is not run");
    let row = client
        .rows("select event_id, time, tenant, targets, severity from events order by _seq limit 1")
        .await;
    let texts: Vec<&str> = row[0].iter().map(|value| value.as_deref().unwrap()).collect();
    assert_eq!(texts[0], "01890000-0000-7000-0000-000000000000");
    assert_eq!(texts[1], "2023-11-14 22:13:20.000123+00");
    let http = replica.rows("select targets from events order by _seq limit 1").await;
    let targets: serde_json::Value = serde_json::from_str(texts[3]).unwrap();
    assert_eq!(targets, http[0][0]);
    assert_eq!(kinds(&client.simple("select tenant from events where false").await), "TCZ");
    let csv = client
        .simple("COPY (select tenant, _seq from events order by _seq limit 2) TO STDOUT csv header")
        .await;
    assert_eq!(kinds(&csv), "HdddcCZ");
    assert_eq!(csv[2].1, b"acme,0\n");
    replica.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_have_postgresql_s_names_and_statements_their_meaning() {
    let bucket = Bucket::filled(1, 30).await;
    let replica = bucket.replica().await;
    let mut client = Client::open(&replica).await;
    for (sql, names) in [
        ("select count(*), count(*), max(time) from events", "count count_2 max"),
        ("select 1, time::date, attributes->>'n', (attributes->>'n')::int from events", ""),
        ("select tenant, count(*) from events group by tenant order by count(*)", "tenant count"),
        ("select lower(action) from events group by lower(action) having count(*) > 0", "lower"),
        ("select distinct lower(action) from events order by 1", "lower"),
        ("select *, lower(action), tenant from events where false", ""),
        ("select sum(count) from (select count(*) from events group by tenant) s", "sum"),
        ("with pg_policy as (select 7 as x) select x from pg_policy", "x"),
        ("select time::date from events group by time order by time limit 1", "time"),
    ] {
        let told = client.simple(sql).await;
        assert!(!kinds(&told).contains('E'), "{sql}: {}", shown(&told));
        let (_, columns) = told.iter().find(|(kind, _)| *kind == b'T').unwrap();
        let mut found = Vec::new();
        let mut rest = &columns[2..];
        while let Some(end) = rest.iter().position(|byte| *byte == 0) {
            found.push(String::from_utf8_lossy(&rest[..end]).into_owned());
            rest = &rest[end + 19..];
        }
        assert!(names.is_empty() || found.join(" ") == names, "{sql}: {found:?}");
    }
    let sql = "with pg_policy as (select 7 as x) select x from pg_policy";
    assert_eq!(one(&client.rows(sql).await), "7", "its own query, not the catalog's table");
    replica.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeatable_block_sees_one_state() {
    let mut bucket = Bucket::filled(1, 30).await;
    let replica = bucket.replica().await;
    let (mut pinned, mut client) = (Client::open(&replica).await, Client::open(&replica).await);
    const COUNT: &str = "select count(*) from events";
    pinned.rows("begin isolation level repeatable read read only").await;
    assert_eq!(one(&pinned.rows("show transaction_isolation").await), "repeatable read");
    assert_eq!(one(&pinned.rows(COUNT).await), "30");
    client.rows("begin").await;
    assert_eq!(one(&client.rows(COUNT).await), "30");
    bucket.ship(0, (30..60).map(|seq| super::super::kit::event(0, seq)).collect()).await;
    replica.wait(&bucket.token()).await;
    assert_eq!(one(&client.rows(COUNT).await), "60", "each statement sees the newest");
    assert_eq!(one(&pinned.rows(COUNT).await), "30", "the whole block sees one state");
    pinned.rows("commit").await;
    assert_eq!(one(&pinned.rows(COUNT).await), "60");
    // A second BEGIN changes nothing.
    pinned.rows("begin isolation level repeatable read").await;
    pinned.rows(COUNT).await;
    assert_eq!(kinds(&pinned.simple("begin").await), "NCZ");
    assert_eq!(one(&pinned.rows("show transaction_isolation").await), "repeatable read");
    pinned.rows("commit").await;
    pinned.rows("set default_transaction_isolation = 'repeatable read'").await;
    pinned.rows("begin").await;
    assert_eq!(one(&pinned.rows("show transaction_isolation").await), "repeatable read");
    pinned.rows("rollback").await;
    // A state that HTTP told.
    let answer = replica.post(&json!({ "sql": COUNT })).await;
    let as_of = answer.headers()["sealcast-as-of"].to_str().unwrap().to_owned();
    bucket.ship(0, (60..70).map(|seq| super::super::kit::event(0, seq)).collect()).await;
    replica.wait(&bucket.token()).await;
    client.rows(&format!("set sealcast.as_of = '{as_of}'")).await;
    assert_eq!(one(&client.rows(COUNT).await), "60");
    client.rows("reset sealcast.as_of").await;
    assert_eq!(one(&client.rows(COUNT).await), "70");
    replica.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_refusal_nothing_is_answered_before_a_sync() {
    let bucket = Bucket::filled(1, 5).await;
    let replica = bucket.replica().await;
    let mut client = Client::open(&replica).await;
    let wrong = bind("p", "nothing", &[], 0);
    let query = message(b'Q', &text("select 1"));
    client.send(&[wrong, query, execute("p", 0), sync()].concat()).await;
    assert_eq!(kinds(&client.until_ready().await), "EZ");
    assert_eq!(one(&client.rows("select 7").await), "7");
    replica.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_have_states_hints_and_places() {
    let bucket = Bucket::filled(1, 20).await;
    let replica = bucket.replica().await;
    let mut client = Client::open(&replica).await;
    for (sql, state) in [
        ("selec 1", "42601"),
        ("select tenat from events", "42703"),
        ("select * from nowhere", "42P01"),
        ("select nofunction(1)", "42883"),
        ("delete from events", "25006"),
        ("insert into events (tenant) values ('x')", "25006"),
        ("create table x (a int)", "25006"),
        ("drop table events", "25006"),
        ("copy events from stdin", "25006"),
        ("copy events to '/tmp/x'", "42501"),
        ("set transaction read write", "25006"),
        ("set sealcast.mni = 'x'", "42704"),
        ("set client_encoding = 'latin1'", "22023"),
        ("show nothing_of_this_name", "42704"),
        ("fetch 1 from c", "34000"),
        ("declare c cursor for select 1", "25P01"),
        ("listen x", "0A000"),
        ("select cast('x' as int)", "22000"),
    ] {
        let (found, message) = client.refused(sql).await;
        assert_eq!(found, state, "{sql}: {message}");
    }
    let told = client.simple("select 1; select tenat from events").await;
    let (_, error) = told.iter().find(|(kind, _)| *kind == b'E').unwrap();
    assert_eq!(
        (field(error, b'P').as_str(), field(error, b'H').as_str()),
        ("18", "did you mean tenant?")
    );
    client.rows("set statement_timeout = '1ms'").await;
    let long = "select count(*) from events a, events b, events c, events d, events e where a.action <> b.tenant";
    assert_eq!(client.refused(long).await.0, "57014");
    client.rows("reset all").await;
    client.rows("set sealcast.max_rows = 3").await;
    assert_eq!(client.refused("select * from events").await.0, "54000");
    replica.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_in_both_forms() {
    let bucket = Bucket::filled(1, 60).await;
    let replica = bucket.replica().await;
    let mut client = Client::open(&replica).await;
    let sql = "select _seq, time from events where tenant = $1 and _seq < $2 order by _seq";
    let ask = [parse("s", sql, &[]), describe(b'S', "s"), sync()].concat();
    client.send(&ask).await;
    let told = client.until_ready().await;
    assert_eq!(kinds(&told), "1tTZ", "{}", shown(&told));
    assert_eq!(told[1].1, [0, 2, 0, 0, 0, 25, 0, 0, 0, 20], "text and int8");
    let values: [&[u8]; 2] = [b"acme", b"10"];
    client.send(&[bind("", "s", &values, 0), execute("", 0), sync()].concat()).await;
    let told = client.until_ready().await;
    let seqs: Vec<_> = rows(&told).into_iter().map(|row| row[0].clone().unwrap()).collect();
    assert_eq!((kinds(&told).as_str(), seqs.join(" ").as_str()), ("2DDDDCZ", "0 3 6 9"));
    let ten = 10_i64.to_be_bytes();
    let values: [&[u8]; 2] = [b"acme", &ten];
    client
        .send(&[bind("", "s", &values, 1), describe(b'P', ""), execute("", 0), sync()].concat())
        .await;
    let told = client.until_ready().await;
    assert_eq!(kinds(&told), "2TDDDDCZ", "{}", shown(&told));
    let micros = 1_700_000_003_000_123_i64 - 946_684_800_000_000;
    let expected = [
        &2_i16.to_be_bytes()[..],
        &8_i32.to_be_bytes(),
        &3_i64.to_be_bytes(),
        &8_i32.to_be_bytes(),
        &micros.to_be_bytes(),
    ];
    assert_eq!(told[3].1, expected.concat(), "binary");
    // A refusal, what follows it up to the next sync is passed over, and then all is well.
    let values: [&[u8]; 2] = [b"acme", b"ten"];
    client.send(&[bind("", "s", &values, 0), execute("", 0), sync()].concat()).await;
    let told = client.until_ready().await;
    assert_eq!((kinds(&told).as_str(), field(&told[0].1, b'C').as_str()), ("EZ", "22P02"));
    client.send(&[bind("", "gone", &[], 0), execute("", 0), sync()].concat()).await;
    assert_eq!(field(&client.until_ready().await[0].1, b'C'), "26000");
    assert_eq!(one(&client.rows("select 7").await), "7");
    replica.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn portals_and_cursors_give_rows_by_and_by() {
    let bucket = Bucket::filled(1, 25).await;
    let replica = bucket.replica().await;
    let mut client = Client::open(&replica).await;
    client.rows("begin").await;
    let sql = "select _seq from events order by _seq";
    client
        .send(&[parse("", sql, &[]), bind("p", "", &[], 0), execute("p", 10), sync()].concat())
        .await;
    let told = client.until_ready().await;
    assert!(kinds(&told).ends_with("sZ") && rows(&told).len() == 10, "{}", shown(&told));
    client.send(&[execute("p", 10), execute("p", 10), sync()].concat()).await;
    let told = client.until_ready().await;
    assert_eq!((rows(&told).len(), told.last().unwrap().1.as_slice()), (15, &b"T"[..]));
    client.rows("declare c no scroll cursor for select _seq from events order by _seq").await;
    assert_eq!(client.rows("fetch forward 7 from c").await.len(), 7);
    assert_eq!(client.rows("move 3 from c").await.len(), 0);
    assert_eq!(client.rows("fetch all from c").await.len(), 15);
    client.rows("close c").await;
    assert_eq!(client.refused("fetch 1 from c").await.0, "34000");
    assert_eq!(client.refused("select 1").await.0, "25P02", "until it is rolled back");
    let told = client.simple("rollback").await;
    assert_eq!(told.last().unwrap().1, b"I");
    client.send(&[execute("p", 1), sync()].concat()).await;
    assert_eq!(field(&client.until_ready().await[0].1, b'C'), "34000", "gone with its block");
    // Nothing of it runs any more.
    until_none_runs(&replica).await;
    replica.stop().await;
}

/// Waits until no query but the one that asks runs.
async fn until_none_runs(replica: &Replica) {
    let sql = "select count(*) from sealcast.queries where state = 'running'";
    while replica.rows(sql).await != json!([[1]]) {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

const LONG: &str = "select count(*) from events a, events b, events c, events d, events e where a.action <> b.tenant";

async fn until_it_runs(replica: &Replica) {
    let sql =
        "select count(*) from sealcast.queries where state = 'running' and sql like '%events e%'";
    while replica.rows(sql).await != json!([[2]]) {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_cancels_its_connection_s_query_and_leaving_does_too() {
    let bucket = Bucket::filled(2, 500).await;
    let replica = bucket.replica().await;
    let mut client = Client::open(&replica).await;
    let cancel = |(process, secret): (i32, i32)| {
        let code = 80_877_102_i32;
        message(0, &[code, process, secret].map(i32::to_be_bytes).concat())
    };
    client.send(&message(b'Q', &text(LONG))).await;
    until_it_runs(&replica).await;
    for key in [(client.key.0, client.key.1 ^ 1), client.key] {
        let mut other = TcpStream::connect(address(&replica)).await.unwrap();
        other.write_all(&cancel(key)).await.unwrap();
        let mut nothing = [0];
        assert_eq!(other.read(&mut nothing).await.unwrap(), 0, "nobody is told");
    }
    let told = client.until_ready().await;
    assert_eq!((kinds(&told).as_str(), field(&told[0].1, b'C').as_str()), ("EZ", "57014"));
    assert_eq!(one(&client.rows("select 1").await), "1");
    client.send(&message(b'Q', &text(LONG))).await;
    until_it_runs(&replica).await;
    drop(client);
    until_none_runs(&replica).await;
    replica.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_end_with_the_replica() {
    let bucket = Bucket::filled(1, 5).await;
    let replica = bucket.replica().await;
    let mut client = Client::open(&replica).await;
    replica.stop().await;
    let told = client.until_ready().await;
    assert_eq!((kinds(&told).as_str(), field(&told[0].1, b'C').as_str()), ("E", "57P01"));
}
