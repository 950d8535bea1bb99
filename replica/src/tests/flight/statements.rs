//! Statements: descriptions, rows, headers, refusals, cancellation.

use arrow::datatypes::DataType;
use arrow_flight::sql::{CommandStatementQuery, ProstMessageExt as _};
use arrow_flight::{
    Action, CancelFlightInfoRequest, CancelFlightInfoResult, FlightDescriptor, FlightInfo,
};
use futures::{StreamExt as _, TryStreamExt as _};
use prost::Message as _;
use serde_json::{Value, json};
use tonic::{Code, Request, Status};

use super::super::kit::Bucket;
use super::{Client, ask, client, code, fetch, table};

fn descriptor(sql: &str) -> FlightDescriptor {
    let command = CommandStatementQuery { query: sql.into(), transaction_id: None };
    FlightDescriptor::new_cmd(command.as_any().encode_to_vec())
}

async fn info(
    client: &mut Client,
    request: Request<FlightDescriptor>,
) -> Result<FlightInfo, Status> {
    let inner = client.inner_mut();
    inner.get_flight_info(request).await.map(tonic::Response::into_inner)
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_those_of_http_in_plain_types() {
    let bucket = Bucket::filled(3, 100).await;
    let replica = bucket.replica_with(|config| config.flight = "127.0.0.1:0".into()).await;
    replica.wait(&bucket.token()).await;
    let mut client = client(&replica).await;
    for sql in [
        "select count(*) from events",
        "select outcome, count(*) as n from events group by 1 order by 2 desc, 1",
        "select event_id, tenant, time, targets from events order by _seq limit 7",
        "select attributes->'n' as n, attributes->>'nested' as t from events order by _seq limit 3",
        "select tenant from events where false",
        "select 1 union all select 2.5",
        "show tables",
        "explain select 1",
    ] {
        let rows: usize = ask(&mut client, sql).await.iter().map(|batch| batch.num_rows()).sum();
        let http = replica.rows(sql).await;
        assert_eq!(rows, http.as_array().unwrap().len(), "{sql}");
    }
    let all = ask(&mut client, "select * from events").await;
    assert_eq!(all.iter().map(|batch| batch.num_rows()).sum::<usize>(), 300);
    for field in all[0].schema().fields() {
        assert!(field.is_nullable(), "{field}");
        assert!(!matches!(field.data_type(), DataType::Dictionary(..) | DataType::Utf8View));
    }
    client.set_header("x-sealcast-arrow", "native");
    let native = ask(&mut client, "select tenant, time from events order by _seq").await;
    assert!(matches!(native[0].column(0).data_type(), DataType::Dictionary(..)));
    assert_eq!(native.iter().map(|batch| batch.num_rows()).sum::<usize>(), 300);
    // The port of Flight alone gives the same.
    let channel = format!("http://{}", replica.handle.flight.unwrap());
    let channel = tonic::transport::Channel::from_shared(channel).unwrap().connect().await.unwrap();
    let mut own = Client::new(channel);
    let text = table(&mut own, "select count(*) as n from events").await;
    assert!(text.contains("| 300 |"), "{text}");
    replica.stop().await;
}

#[tokio::test]
async fn answers_say_how_fresh_and_whole_they_are() {
    let bucket = Bucket::filled(1, 10).await;
    let replica = bucket.replica().await;
    let mut client = client(&replica).await;
    let mut request = Request::new(descriptor("select count(*) from events"));
    request.metadata_mut().insert("sealcast-min", bucket.token().parse().unwrap());
    let info = info(&mut client, request).await.unwrap();
    let told: Value = serde_json::from_slice(&info.app_metadata).unwrap();
    assert_eq!(told["complete"], "true");
    assert_eq!(told["vector"], bucket.token());
    assert!(info.endpoint[0].expiration_time.is_some());
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    let answer = client.inner_mut().do_get(ticket).await.unwrap();
    let headers = answer.metadata().clone();
    for name in ["sealcast-query-id", "sealcast-snapshot", "sealcast-lag-ms", "sealcast-complete"] {
        assert!(headers.contains_key(name), "{name}");
    }
    assert_eq!(headers.get("sealcast-query-id").unwrap().to_str().unwrap(), told["query_id"]);
    let first = answer.into_inner().next().await.unwrap().unwrap();
    let inside: Value = serde_json::from_slice(&first.app_metadata).unwrap();
    assert_eq!(inside["snapshot"], told["snapshot"]);
    replica.stop().await;
}

#[tokio::test]
async fn refusals_are_those_of_http() {
    let bucket = Bucket::filled(1, 10).await;
    let replica = bucket.replica_with(|config| config.max_rows = Some(5)).await;
    replica.wait(&bucket.token()).await;
    let mut client = client(&replica).await;
    for (sql, expected) in [
        ("selec 1", Code::InvalidArgument),
        ("select zzz from events", Code::InvalidArgument),
        ("select * from nothing", Code::InvalidArgument),
        ("delete from events", Code::InvalidArgument),
        ("select 1; select 2", Code::InvalidArgument),
        ("select count(*) from events where tenant = $1", Code::InvalidArgument),
        ("", Code::InvalidArgument),
    ] {
        let status = info(&mut client, Request::new(descriptor(sql))).await.unwrap_err();
        let (_, problem) = replica.refusal(&json!({ "sql": sql })).await;
        assert_eq!(status.code(), expected, "{sql}: {status}");
        assert_eq!(code(&status), problem["code"], "{sql}");
        let detail = problem["detail"].as_str().unwrap();
        assert!(status.message().starts_with(detail), "{sql}: {} / {detail}", status.message());
    }
    // What shows only while it runs ends the stream with the same words.
    let info_ = client.execute("select * from events".into(), None).await.unwrap();
    let error = fetch(&mut client, info_).await.unwrap_err().to_string();
    assert!(error.contains("query answers more than 5 rows"), "{error}");
    let headers = [
        ("sealcast-min", "x", Code::InvalidArgument, "token_invalid"),
        ("sealcast-wait-ms", "x", Code::InvalidArgument, "request_invalid"),
        ("sealcast-mim", "x", Code::InvalidArgument, "request_invalid"),
        ("x-sealcast-arrow", "x", Code::InvalidArgument, "request_invalid"),
        ("x-sealcast-endpoints", "x", Code::InvalidArgument, "request_invalid"),
    ];
    for (name, value, expected, word) in headers {
        let mut request = Request::new(descriptor("select 1"));
        request.metadata_mut().insert(name, value.parse().unwrap());
        let status = info(&mut client, request).await.unwrap_err();
        assert_eq!((status.code(), code(&status)), (expected, word), "{name}");
    }
    let mut request = Request::new(descriptor("select 1"));
    request.metadata_mut().insert("sealcast-min", "v1.oQAaAA9CQA".parse().unwrap());
    request.metadata_mut().insert("sealcast-wait-ms", "1".parse().unwrap());
    let status = info(&mut client, request).await.unwrap_err();
    assert_eq!((status.code(), code(&status)), (Code::FailedPrecondition, "not_yet_replicated"));
    replica.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_is_cancelled_by_its_info_and_by_leaving() {
    let bucket = Bucket::filled(2, 500).await;
    let replica = bucket.replica().await;
    let mut client = client(&replica).await;
    let long =
        "select count(*) from events a, events b, events c where a._seq + b._seq <> c._seq * 7";
    let flight = client.execute(long.into(), None).await.unwrap();
    let id: Value = serde_json::from_slice(&flight.app_metadata).unwrap();
    let id = id["query_id"].as_str().unwrap().to_owned();
    let running = tokio::spawn({
        let (mut client, flight) = (client.inner().clone(), flight.clone());
        async move {
            let ticket = flight.endpoint[0].ticket.clone().unwrap();
            let answer = client.do_get(ticket).await?;
            answer.into_inner().try_collect::<Vec<_>>().await.map(drop)
        }
    });
    let state = async |wanted: &str| {
        loop {
            let shown = replica.get(&format!("/v1/queries/{id}")).await;
            let shown: Value = shown.json().await.unwrap();
            if shown["state"] == wanted {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    state("running").await;
    let body = CancelFlightInfoRequest::new(flight.clone()).encode_to_vec();
    let answer = client.do_action(Request::new(Action::new("CancelFlightInfo", body))).await;
    let answer: Vec<_> = answer.unwrap().try_collect().await.unwrap();
    let result = CancelFlightInfoResult::decode(&*answer[0].body).unwrap();
    assert_eq!(result.status, arrow_flight::CancelStatus::Cancelling as i32);
    let status = running.await.unwrap().unwrap_err();
    assert_eq!((status.code(), code(&status)), (Code::Cancelled, "query_cancelled"));
    state("cancelled").await;
    // And by a client that is gone: nothing holds a turn any more.
    let ticket = flight.endpoint[0].ticket.clone().unwrap();
    let call = {
        let mut client = client.inner().clone();
        tokio::spawn(async move { client.do_get(ticket).await.map(drop) })
    };
    state("running").await;
    call.abort();
    state("cancelled").await;
    replica.stop().await;
}
