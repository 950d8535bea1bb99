//! What is not a command of Flight SQL: InfluxDB 3's tickets, SQL as it stands, paths; and the calls
//! that the library's client lacks.

use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::error::FlightError;
use arrow_flight::{Action, FlightDescriptor, FlightEndpoint, RenewFlightEndpointRequest, Ticket};
use futures::TryStreamExt as _;
use prost::Message as _;
use tonic::{Request, Status};

use super::super::kit::Bucket;
use super::{Client, client, code, fetch, shown};

async fn get(client: &mut Client, ticket: &str) -> Result<String, Status> {
    let answer = client.inner_mut().do_get(Ticket::new(ticket.to_owned())).await?.into_inner();
    let stream = FlightRecordBatchStream::new_from_flight_data(answer.map_err(FlightError::from));
    Ok(shown(&stream.try_collect::<Vec<_>>().await.unwrap()))
}

#[tokio::test]
async fn tickets_in_json_and_sql_are_understood() {
    let bucket = Bucket::filled(1, 30).await;
    let replica = bucket.replica().await;
    let mut client = client(&replica).await;
    let influx = r#"{"database":"sealcast","sql_query":"select count(*) as n from events where tenant = $t","query_type":"sql","params":{"t":"acme"}}"#;
    assert!(get(&mut client, influx).await.unwrap().contains("| 10 |"));
    let plain =
        r#"{"database":"sealcast","sql_query":"select 7 as n","query_type":"sql","params":{}}"#;
    assert!(get(&mut client, plain).await.unwrap().contains("| 7 |"));
    assert!(get(&mut client, "select 8 as n").await.unwrap().contains("| 8 |"));
    for (ticket, word) in [
        (r#"{"database":"acme","sql_query":"select 1","query_type":"sql"}"#, "request_invalid"),
        (r#"{"database":"sealcast","sql_query":"x","query_type":"influxql"}"#, "not_supported"),
        (r#"{"sql_query":"select 1","more":1}"#, "request_invalid"),
        (r#"{"sql_query":"drop table events"}"#, "statement_not_allowed"),
        ("{", "request_invalid"),
        ("", "request_invalid"),
    ] {
        let status = get(&mut client, ticket).await.unwrap_err();
        assert_eq!(code(&status), word, "{ticket}: {status}");
    }
    replica.stop().await;
}

#[tokio::test]
async fn descriptors_may_be_paths_and_sql() {
    let bucket = Bucket::filled(1, 30).await;
    let replica = bucket.replica().await;
    let mut client = client(&replica).await;
    for descriptor in [
        FlightDescriptor::new_path(vec!["events".into()]),
        FlightDescriptor::new_path(vec!["public".into(), "events".into()]),
        FlightDescriptor::new_cmd("select * from events"),
    ] {
        let schema = client.inner_mut().get_schema(descriptor.clone()).await.unwrap().into_inner();
        let info =
            client.inner_mut().get_flight_info(descriptor.clone()).await.unwrap().into_inner();
        assert_eq!(schema.schema, info.schema);
        let polled = client.inner_mut().poll_flight_info(descriptor).await.unwrap().into_inner();
        assert!(polled.flight_descriptor.is_none() && polled.progress == Some(1.0));
        for info in [info, polled.info.unwrap()] {
            let rows = fetch(&mut client, info).await.unwrap();
            assert_eq!(rows.iter().map(|batch| batch.num_rows()).sum::<usize>(), 30);
        }
    }
    let strange = FlightDescriptor::new_path(vec!["events\" where \"x".into()]);
    let status = client.inner_mut().get_flight_info(strange).await.unwrap_err();
    assert_eq!(code(&status), "unknown_table", "{status}");
    replica.stop().await;
}

#[tokio::test]
async fn a_ticket_is_renewed_and_fetched_from_another_replica_with_the_key() {
    let bucket = Bucket::filled(1, 30).await;
    let key = bucket.dir.path().join("ticket.key");
    #[expect(clippy::disallowed_methods, reason = "a test's own file needs no durability")]
    std::fs::write(&key, "0123456789abcdef0123456789abcdef").unwrap();
    let keyed = |dir: &'static str, key: Option<&std::path::Path>| {
        let (base, key) = (bucket.dir.path().join(dir), key.map(Into::into));
        bucket.replica_with(move |config| {
            config.dir = base;
            config.opaque_key_file = key;
        })
    };
    let (one, two) = (keyed("one", Some(&key)).await, keyed("two", Some(&key)).await);
    let other = keyed("other", None).await;
    for replica in [&one, &two, &other] {
        replica.wait(&bucket.token()).await;
    }
    let mut at_one = client(&one).await;
    let info = at_one.execute("select count(*) as n from events".into(), None).await.unwrap();
    let body = RenewFlightEndpointRequest::new(info.endpoint[0].clone()).encode_to_vec();
    let answer = at_one.do_action(Request::new(Action::new("RenewFlightEndpoint", body))).await;
    let answer: Vec<_> = answer.unwrap().try_collect().await.unwrap();
    let endpoint = FlightEndpoint::decode(&*answer[0].body).unwrap();
    assert!(
        endpoint.expiration_time.unwrap().seconds
            >= info.endpoint[0].expiration_time.unwrap().seconds
    );
    let renewed = arrow_flight::FlightInfo { endpoint: vec![endpoint], ..info.clone() };
    let mut at_two = client(&two).await;
    assert!(shown(&fetch(&mut at_two, renewed).await.unwrap()).contains("| 30 |"));
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    let status = client(&other).await.inner_mut().do_get(ticket).await.map(drop).unwrap_err();
    assert_eq!(code(&status), "ticket_invalid");
    for replica in [one, two, other] {
        replica.stop().await;
    }
}
