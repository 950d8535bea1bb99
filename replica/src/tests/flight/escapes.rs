//! A token of one tenant learns nothing of others over Flight either.

use arrow_flight::FlightInfo;
use arrow_flight::sql::client::FlightSqlServiceClient;
use sealcast_common::serve::access::TokenText;
use tonic::{Code, Status};

use super::super::escapes::Locked;
use super::super::escapes::bucket::{MARK, filled};
use super::super::escapes::sql::bodies;
use super::{Client, ask, client, code, fetch, shown};

async fn as_(locked: &Locked, token: &TokenText) -> Client {
    let mut client = client(&locked.replica).await;
    client.set_token(token.reveal().to_owned());
    client
}

async fn status(client: &mut Client, info: &FlightInfo) -> Status {
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    let mut request = tonic::Request::new(ticket);
    let token = format!("Bearer {}", client.token().unwrap());
    request.metadata_mut().insert("authorization", token.parse().unwrap());
    client.inner_mut().do_get(request).await.map(drop).unwrap_err()
}

/// What a statement shows, whichever way it ends: rows in order, without what differs each time.
async fn seen(client: &mut Client, sql: &str) -> String {
    let info = match client.execute(sql.to_owned(), None).await {
        Ok(info) => info,
        Err(error) => return told(&error.to_string()),
    };
    let rows = match fetch(client, info).await {
        Ok(rows) => shown(&rows),
        Err(error) => return told(&error.to_string()),
    };
    if sql.contains("sealcast.replicas") || sql.starts_with("explain analyze") {
        return String::new(); // times and sizes of this run
    }
    let mut lines: Vec<&str> = rows.lines().collect();
    lines.sort_unstable();
    lines.join("\n")
}

/// A refusal without ids and dates, which the client prints with it.
fn told(error: &str) -> String {
    let end = ["metadata:", "sealcast-query-id"].iter().filter_map(|mark| error.find(mark)).min();
    error[..end.unwrap_or(error.len())].to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn other_tenants_change_no_answer() {
    let alone = Locked::start(filled(false).await).await;
    let crowded = Locked::start(filled(true).await).await;
    let (mut few, mut many) = (as_(&alone, &alone.acme).await, as_(&crowded, &crowded.acme).await);
    let mut failed = Vec::new();
    for native in [false, true] {
        if native {
            few.set_header("x-sealcast-arrow", "native");
            many.set_header("x-sealcast-arrow", "native");
        }
        for body in bodies() {
            let sql = body["sql"].as_str().unwrap();
            let (expected, found) = (seen(&mut few, sql).await, seen(&mut many, sql).await);
            let leaks = found.contains(MARK) && !sql.contains(MARK);
            if expected != found || leaks {
                failed.push(format!("{sql}\n alone   {expected}\n crowded {found}"));
            }
        }
    }
    assert!(failed.is_empty(), "{} differ:\n{}", failed.len(), failed.join("\n"));
    // Not in what is sent beside the rows either: a dictionary, the rest of a buffer.
    let info = many.execute("select * from events".into(), None).await.unwrap();
    let mut request = tonic::Request::new(info.endpoint[0].ticket.clone().unwrap());
    let token = format!("Bearer {}", crowded.acme.reveal());
    request.metadata_mut().insert("authorization", token.parse().unwrap());
    let mut stream = many.inner_mut().do_get(request).await.unwrap().into_inner();
    while let Some(message) = stream.message().await.unwrap() {
        let held = |needle: &str| {
            message.data_body.windows(needle.len()).any(|part| part == needle.as_bytes())
        };
        assert!(!held(MARK) && !held("globex"));
    }
    alone.replica.stop().await;
    crowded.replica.stop().await;
}

#[tokio::test]
async fn tickets_and_handles_are_for_those_who_see_the_same() {
    let locked = Locked::start(filled(true).await).await;
    let mut acme = as_(&locked, &locked.acme).await;
    let info = acme.execute("select count(*) as n from events".into(), None).await.unwrap();
    assert!(!String::from_utf8_lossy(&info.app_metadata).contains("vector"), "sizes of shards");
    let mut same = as_(&locked, &locked.acme_too).await;
    assert_eq!(shown(&fetch(&mut same, info.clone()).await.unwrap()).lines().count(), 5);
    for other in [&locked.others, &locked.all, &locked.nobody] {
        let mut other = as_(&locked, other).await;
        let status = status(&mut other, &info).await;
        assert_eq!((status.code(), code(&status)), (Code::InvalidArgument, "ticket_invalid"));
        let handle = acme.prepare("select 1".into(), None).await.unwrap();
        drop(handle);
    }
    locked.replica.stop().await;
}

#[tokio::test]
async fn nobody_gets_in_without_a_token_and_a_handshake_gives_it_back() {
    let locked = Locked::start(filled(false).await).await;
    let mut stranger = client(&locked.replica).await;
    let error = stranger.execute("select 1".into(), None).await.unwrap_err().to_string();
    assert!(error.contains("request carries no token"), "{error}");
    let refused = stranger.inner_mut().list_actions(arrow_flight::Empty {}).await.map(drop);
    let refused = refused.unwrap_err();
    assert_eq!((refused.code(), code(&refused)), (Code::Unauthenticated, "token_missing"));
    assert!(stranger.handshake("acme", "wrong").await.is_err());
    stranger.handshake("anybody", locked.acme.reveal()).await.unwrap();
    assert_eq!(stranger.token().map(String::as_str), Some(locked.acme.reveal()));
    assert_eq!(ask(&mut stranger, "select 1").await.len(), 1);
    locked.replica.stop().await;
    // Where everybody is let in, any name and password are.
    let bucket = super::super::kit::Bucket::filled(1, 1).await;
    let replica = bucket.replica().await;
    let mut open: FlightSqlServiceClient<_> = client(&replica).await;
    open.handshake("any", "thing").await.unwrap();
    assert_eq!(ask(&mut open, "select 1").await.len(), 1);
    replica.stop().await;
}
