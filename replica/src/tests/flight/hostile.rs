//! Real requests, changed by chance: each gets an answer or a refusal of its own, and nothing breaks.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_flight::sql::{
    ActionCreatePreparedStatementRequest, ActionCreatePreparedStatementResult, Any,
    CommandGetSqlInfo, CommandGetTables, CommandPreparedStatementQuery, CommandStatementQuery,
    ProstMessageExt as _,
};
use arrow_flight::utils::batches_to_flight_data;
use arrow_flight::{Action, FlightData, FlightDescriptor, Ticket};
use futures::TryStreamExt as _;
use prost::Message as _;
use tonic::{Code, Status};

use super::super::kit::{Bucket, changed};
use super::{Client, ask, client, code};

const EACH: u64 = 300;

/// A refusal is of the client's making, and has a word.
fn judged<T>(what: &str, answer: Result<T, Status>) {
    let Err(status) = answer else { return };
    let own = !matches!(status.code(), Code::Internal | Code::Unknown | Code::DataLoss);
    assert!(own && !code(&status).is_empty(), "{what}: {status:?}");
}

async fn handle(client: &mut Client) -> bytes::Bytes {
    let query = "select count(*) from events where _seq < ? and tenant = ?".to_owned();
    let request = ActionCreatePreparedStatementRequest { query, transaction_id: None };
    let action = Action::new("CreatePreparedStatement", request.as_any().encode_to_vec());
    let answer = client.inner_mut().do_action(action).await.unwrap().into_inner();
    let answer: Vec<_> = answer.try_collect().await.unwrap();
    let any = Any::decode(&*answer[0].body).unwrap();
    any.unpack::<ActionCreatePreparedStatementResult>().unwrap().unwrap().prepared_statement_handle
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_requests_break_nothing() {
    let bucket = Bucket::filled(1, 20).await;
    let replica = bucket.replica().await;
    let mut client = client(&replica).await;
    let random = sealcast_common::clock::SeededRandom::new(5);
    let handle = handle(&mut client).await;
    let info = client.execute("select count(*) from events".into(), None).await.unwrap();
    let query = CommandStatementQuery { query: "select 1".into(), transaction_id: None };
    let prepared = CommandPreparedStatementQuery { prepared_statement_handle: handle.clone() };
    let tables = CommandGetTables { include_schema: true, ..Default::default() };
    let commands = [
        query.as_any().encode_to_vec(),
        prepared.as_any().encode_to_vec(),
        tables.as_any().encode_to_vec(),
        CommandGetSqlInfo { info: vec![0, 504] }.as_any().encode_to_vec(),
        info.endpoint[0].ticket.clone().unwrap().ticket.to_vec(),
        br#"{"database":"sealcast","sql_query":"select 1","query_type":"sql"}"#.to_vec(),
    ];
    let inner = client.inner_mut();
    for command in &commands {
        for _ in 0..EACH {
            let bytes = changed(command, &random);
            let descriptor = FlightDescriptor::new_cmd(bytes.clone());
            judged("info", inner.get_flight_info(descriptor.clone()).await);
            judged("schema", inner.get_schema(descriptor).await);
            match inner.do_get(Ticket::new(bytes)).await {
                Ok(answer) => judged("rows", answer.into_inner().try_collect::<Vec<_>>().await),
                Err(status) => judged("get", Err::<(), _>(status)),
            }
        }
    }
    for (name, _) in crate::flight::testing::KNOWN {
        for _ in 0..EACH {
            let body = changed(&commands[1], &random);
            judged(name, inner.do_action(Action::new(name, body)).await);
        }
    }
    assert_eq!(ask(&mut client, "select 1").await.len(), 1);
    replica.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_parameters_break_nothing() {
    let bucket = Bucket::filled(1, 20).await;
    let replica = bucket.replica().await;
    let mut client = client(&replica).await;
    let random = sealcast_common::clock::SeededRandom::new(6);
    let handle = handle(&mut client).await;
    let command = CommandPreparedStatementQuery { prepared_statement_handle: handle };
    let columns: [(&str, ArrayRef); 2] = [
        ("0", Arc::new(Int64Array::from(vec![7]))),
        ("1", Arc::new(StringArray::from(vec!["acme"]))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let good = batches_to_flight_data(&batch.schema(), vec![batch]).unwrap();
    for round in 0..4 * EACH {
        let mut messages = good.clone();
        messages[0].flight_descriptor =
            Some(FlightDescriptor::new_cmd(command.as_any().encode_to_vec()));
        let at = usize::try_from(round % 2).unwrap();
        let message: &mut FlightData = &mut messages[at];
        if round % 3 == 0 {
            message.data_body = changed(&message.data_body, &random).into();
        } else {
            message.data_header = changed(&message.data_header, &random).into();
        }
        let put = client.inner_mut().do_put(futures::stream::iter(messages)).await;
        judged("put", put.map(drop));
    }
    assert_eq!(ask(&mut client, "select 1").await.len(), 1);
    replica.stop().await;
}
