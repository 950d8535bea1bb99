//! A token of one tenant learns nothing of others over PostgreSQL's protocol either.

use super::super::escapes::Locked;
use super::super::escapes::bucket::{MARK, filled};
use super::super::escapes::sql::bodies;
use super::*;

/// What a statement shows, whichever way it ends: rows in order, without what differs each time.
async fn seen(client: &mut Client, sql: &str) -> String {
    let told = client.simple(sql).await;
    if sql.contains("sealcast.replicas") || sql.starts_with("explain analyze") {
        return String::new(); // times and sizes of this run
    }
    let mut lines: Vec<String> = told
        .iter()
        .map(|(kind, body)| match kind {
            b'E' => format!("E {} {}", field(body, b'C'), field(body, b'M')),
            kind => format!("{} {}", char::from(*kind), String::from_utf8_lossy(body)),
        })
        .collect();
    lines.sort_unstable();
    lines.join("\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn other_tenants_change_no_answer() {
    let alone = Locked::start(filled(false).await).await;
    let crowded = Locked::start(filled(true).await).await;
    let login = async |locked: &Locked| {
        Client::login(address(&locked.replica), Some(locked.acme.reveal())).await.unwrap()
    };
    let (mut few, mut many) = (login(&alone).await, login(&crowded).await);
    let catalog = [
        "select * from pg_catalog.pg_class",
        "select * from pg_catalog.pg_attribute",
        "select * from pg_catalog.pg_description",
        "select * from pg_catalog.pg_stat_user_tables",
        "select pg_total_relation_size('events'::regclass), pg_relation_size(16384)",
        "explain select * from pg_catalog.pg_class, events",
        "copy (select * from events) to stdout",
        "begin; declare c cursor for select * from events; fetch all from c; rollback",
    ];
    let mut failed = Vec::new();
    let bodies = bodies();
    let tried = bodies.iter().filter_map(|body| body["sql"].as_str());
    for sql in tried.chain(catalog) {
        let (expected, found) = (seen(&mut few, sql).await, seen(&mut many, sql).await);
        let leaks = found.contains(MARK) && !sql.contains(MARK);
        if expected != found || leaks {
            failed.push(format!("{sql}\n alone   {expected}\n crowded {found}"));
        }
    }
    assert!(failed.is_empty(), "{} differ:\n{}", failed.len(), failed.join("\n"));
    alone.replica.stop().await;
    crowded.replica.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_gets_in_without_a_token_that_may_query() {
    let locked = Locked::start(filled(true).await).await;
    let at = address(&locked.replica);
    for wrong in ["", "wrong", "sc_0123456789ab_wrong", &"x".repeat(900)] {
        assert_eq!(Client::login(at, Some(wrong)).await.err().as_deref(), Some("28P01"));
    }
    // A statement instead of a password is none.
    let mut client = Client { stream: TcpStream::connect(at).await.unwrap(), key: (0, 0) };
    client.send(&startup(&[("user", "me")])).await;
    assert!(client.next().await.is_some());
    client.send(&message(b'Q', &text("select 1"))).await;
    assert_eq!(field(&client.until_ready().await[0].1, b'C'), "08P01");
    let mut nobody = Client::login(at, Some(locked.nobody.reveal())).await.unwrap();
    assert_eq!(one(&nobody.rows("select count(*) from events").await), "0");
    // A database that is none, and one that clients name when nobody names one.
    for (database, state) in [("other", "3D000"), ("me", ""), ("postgres", "")] {
        let mut client = Client { stream: TcpStream::connect(at).await.unwrap(), key: (0, 0) };
        client.send(&startup(&[("user", "me"), ("database", database)])).await;
        assert!(client.next().await.is_some());
        client.send(&message(b'p', &text(locked.all.reveal()))).await;
        let told = client.until_ready().await;
        assert_eq!(field(&told[0].1, b'C'), state, "{database}");
    }
    locked.replica.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_token_s_connection_ends() {
    let locked = Locked::start(filled(false).await).await;
    let mut client =
        Client::login(address(&locked.replica), Some(locked.acme.reveal())).await.unwrap();
    client.rows("select 1").await;
    let file = locked.bucket.dir.path().join("tokens.toml");
    let files = crate::Seams::default().files;
    sealcast_common::serve::access::revoke_token(&file, locked.acme.id(), &*files).unwrap();
    // The file is looked at now and then.
    loop {
        let told = client.simple("select 1").await;
        if let Some((_, error)) = told.iter().find(|(kind, _)| *kind == b'E') {
            assert_eq!(field(error, b'C'), "28P01");
            assert_eq!(told.last().unwrap().0, b'E', "the connection is closed");
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    locked.replica.stop().await;
}
