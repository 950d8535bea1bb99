//! Real conversations, changed by chance: the server refuses or leaves, and answers the next client.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sealcast_common::clock::SeededRandom;

use super::super::kit::{Bucket, changed};
use super::*;

/// Of each of five conversations.
const EACH: usize = 1_000;

/// Says `bytes` and nothing more, and reads what is answered, to its end.
async fn converse(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // It may be refused before all of it is sent.
    let _refused = stream.write_all(bytes).await;
    let _refused = stream.shutdown().await;
    let mut answer = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(60), stream.read_to_end(&mut answer));
    let _broken = read.await.expect("the server goes on with the next connection");
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_conversations_break_nothing() {
    // A task that panics takes its connection alone with it: nobody else would notice.
    let panics = Arc::new(AtomicUsize::new(0));
    let (told, hook) = (Arc::clone(&panics), std::panic::take_hook());
    std::panic::set_hook(Box::new(move |info| {
        told.fetch_add(1, Ordering::SeqCst);
        hook(info);
    }));
    let bucket = Bucket::filled(1, 20).await;
    let replica = bucket.replica().await;
    let at = address(&replica);
    let random = SeededRandom::new(7);
    let start =
        startup(&[("user", "me"), ("database", "sealcast"), ("options", "-c datestyle=ISO")]);
    let ssl = message(0, &80_877_103_i32.to_be_bytes());
    let seq = 7_i64.to_be_bytes();
    let values: [&[u8]; 2] = [b"acme", &seq];
    let extended = [
        parse("s", "select count(*) from events where tenant = $1 and _seq < $2", &[25, 20]),
        describe(b'S', "s"),
        bind("p", "s", &values, 1),
        describe(b'P', "p"),
        execute("p", 1),
        sync(),
    ]
    .concat();
    let said = [
        [ssl.clone(), start.clone()].concat(),
        [start.clone(), message(b'Q', &text("select tenant, time from events limit 3"))].concat(),
        [
            start.clone(),
            message(b'Q', &text("begin; declare c cursor for select 1; fetch 1 from c; commit")),
        ]
        .concat(),
        [start.clone(), message(b'Q', &text("copy (select * from events) to stdout csv header"))]
            .concat(),
        [start.clone(), extended].concat(),
    ];
    for whole in &said {
        assert!(!converse(at, whole).await.is_empty());
        for _ in 0..EACH {
            converse(at, &changed(whole, &random)).await;
        }
    }
    // A length of everything, and of less than itself.
    for length in [i32::MAX, 3, 0, -1] {
        let query = [&start[..], b"Q", &length.to_be_bytes(), b"select 1"].concat();
        let answer = converse(at, &query).await;
        assert!(String::from_utf8_lossy(&answer).contains("08P01"));
    }
    let mut client = Client::open(&replica).await;
    assert_eq!(one(&client.rows("select count(*) from events").await), "20");
    let running =
        replica.rows("select count(*) from sealcast.queries where state = 'running'").await;
    assert_eq!(running, serde_json::json!([[1]]), "nothing is left behind");
    assert_eq!(panics.load(Ordering::SeqCst), 0);
    replica.stop().await;
}
