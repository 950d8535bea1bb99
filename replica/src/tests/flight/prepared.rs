//! Prepared statements: parameters, schemas, refusals of what writes.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use arrow::datatypes::DataType;
use futures::stream;

use super::super::kit::{Bucket, EPOCH};
use super::{Client, client, fetch, shown};

fn row(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true)))
        .unwrap()
}

fn text(value: &str) -> ArrayRef {
    Arc::new(StringArray::from(vec![value]))
}

async fn bound(client: &mut Client, sql: &str, row: RecordBatch) -> Result<String, String> {
    let mut statement = client.prepare(sql.into(), None).await.map_err(|e| e.to_string())?;
    statement.set_parameters(row).unwrap();
    let info = statement.execute().await.map_err(|error| error.to_string())?;
    let rows = fetch(client, info).await.map_err(|error| error.to_string())?;
    statement.close().await.unwrap();
    Ok(shown(&rows))
}

#[tokio::test]
async fn parameters_are_typed_by_their_places() {
    let bucket = Bucket::filled(2, 50).await;
    let replica = bucket.replica().await;
    let mut client = client(&replica).await;
    let count = "select count(*) as n from events where ";
    let time = TimestampMicrosecondArray::from(vec![EPOCH + 50_000_000]).with_timezone("UTC");
    for (filter, parameters, rows) in [
        ("tenant = ?", vec![("0", text("acme"))], 34),
        ("tenant = $1", vec![("0", text("acme"))], 34),
        ("tenant = ? and outcome = ?", vec![("0", text("acme")), ("1", text("success"))], 17),
        ("tenant = $who", vec![("who", text("globex"))], 33),
        ("tenant = $who", vec![("0", text("globex"))], 33),
        ("_seq < ?", vec![("0", Arc::new(Int64Array::from(vec![7])) as ArrayRef)], 7),
        ("time >= ?", vec![("0", Arc::new(time) as ArrayRef)], 50),
        (
            "? and tenant = 'acme'",
            vec![("0", Arc::new(BooleanArray::from(vec![true])) as ArrayRef)],
            34,
        ),
        ("event_id = ?", vec![("0", text("01890000-0000-7000-0000-000000000003"))], 1),
        ("tenant = ?", vec![("0", text("x' or '1' = '1"))], 0),
    ] {
        let found = bound(&mut client, &format!("{count}{filter}"), row(parameters)).await.unwrap();
        let cell = found.lines().nth(3).unwrap().trim_matches(['|', ' ']).to_owned();
        assert_eq!(cell, rows.to_string(), "{filter}");
    }
    replica.stop().await;
}

#[tokio::test]
async fn what_does_not_fit_is_told() {
    let bucket = Bucket::filled(1, 50).await;
    let replica = bucket.replica().await;
    let mut client = client(&replica).await;
    let sql = "select count(*) from events where _seq < ?";
    let two = row(vec![("0", Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef)]);
    let error = bound(&mut client, sql, two).await.unwrap_err();
    assert!(error.contains("one uncompressed row"), "{error}");
    let wrong = row(vec![("0", text("many"))]);
    let error = bound(&mut client, sql, wrong).await.unwrap_err();
    assert!(error.contains("parameter $1 does not fit"), "{error}");
    let more = row(vec![("0", text("1")), ("1", text("2"))]);
    assert!(bound(&mut client, sql, more).await.is_err());
    // Not bound at all.
    let mut statement = client.prepare(sql.into(), None).await.unwrap();
    let error = statement.execute().await.unwrap_err().to_string();
    assert!(error.contains("found no value"), "{error}");
    let error = statement.execute_update().await.unwrap_err().to_string();
    assert!(error.contains("only reads"), "{error}");
    replica.stop().await;
}

#[tokio::test]
async fn schemas_are_told_before_anything_is_bound() {
    let bucket = Bucket::filled(1, 50).await;
    let replica = bucket.replica().await;
    let mut client = client(&replica).await;
    let sql = "select tenant, time from events where tenant = ? and _seq > ? and event_id <> ?";
    let statement = client.prepare(sql.into(), None).await.unwrap();
    let types: Vec<_> = statement
        .dataset_schema()
        .unwrap()
        .fields()
        .iter()
        .map(|f| f.data_type().clone())
        .collect();
    assert_eq!(types[0], DataType::Utf8);
    let wanted: Vec<_> = statement
        .parameter_schema()
        .unwrap()
        .fields()
        .iter()
        .map(|f| f.data_type().clone())
        .collect();
    assert_eq!(wanted[..2], [DataType::Utf8, DataType::UInt64]);
    // The JSON operator is one also where question marks are parameters.
    let json = "select count(*) as n from events where attributes ? 'ok'";
    let mut statement = client.prepare(json.into(), None).await.unwrap();
    let info = statement.execute().await.unwrap();
    let found = shown(&fetch(&mut client, info).await.unwrap());
    assert!(found.contains("| 50 |"), "{found}");
    for sql in ["insert into events values (1)", "begin", "create table t (a int)"] {
        let error = client.prepare(sql.into(), None).await.unwrap_err().to_string();
        assert!(error.contains("is not allowed"), "{error}");
    }
    replica.stop().await;
}

#[tokio::test]
async fn nothing_is_written_and_no_transaction_begins() {
    let bucket = Bucket::filled(1, 5).await;
    let replica = bucket.replica().await;
    let mut client = client(&replica).await;
    let error = client.execute_update("delete from events".into(), None).await.unwrap_err();
    assert!(error.to_string().contains("only reads"), "{error}");
    let batches = stream::iter([Ok(row(vec![("tenant", text("x"))]))]);
    let command =
        arrow_flight::sql::CommandStatementIngest { table: "events".into(), ..Default::default() };
    let error = client.execute_ingest(command, batches).await.unwrap_err();
    assert!(error.to_string().contains("only reads"), "{error}");
    let error = client.begin_transaction().await.unwrap_err();
    assert!(error.to_string().contains("is not known"), "{error}");
    replica.stop().await;
}
