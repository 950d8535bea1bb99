//! What clients ask before they ask for rows, in the shapes that the specification gives.

use arrow::array::{AsArray as _, RecordBatch};
use arrow::datatypes::{Schema, UInt32Type};
use arrow_flight::sql::{
    CommandGetCrossReference, CommandGetDbSchemas, CommandGetExportedKeys, CommandGetImportedKeys,
    CommandGetPrimaryKeys, CommandGetTables, CommandGetXdbcTypeInfo, SqlInfo,
};
use arrow_flight::{Action, IpcMessage};
use futures::TryStreamExt as _;
use tonic::Request;

use super::super::kit::Bucket;
use super::{ask, client, fetch};

fn texts(batches: &[RecordBatch], column: usize) -> Vec<String> {
    let columns = batches.iter().map(|batch| batch.column(column).as_string::<i32>().clone());
    columns
        .flat_map(|texts| texts.iter().flatten().map(str::to_owned).collect::<Vec<_>>())
        .collect()
}

#[tokio::test]
async fn tables_are_listed_as_each_client_asks_for_them() {
    let bucket = Bucket::filled(1, 3).await;
    let replica = bucket.replica().await;
    let mut client = client(&replica).await;
    let info = client.get_catalogs().await.unwrap();
    assert_eq!(texts(&fetch(&mut client, info).await.unwrap(), 0), ["sealcast"]);
    let info = client.get_db_schemas(CommandGetDbSchemas::default()).await.unwrap();
    assert_eq!(texts(&fetch(&mut client, info).await.unwrap(), 1), ["public", "sealcast"]);
    let info = client.get_table_types().await.unwrap();
    assert_eq!(
        texts(&fetch(&mut client, info).await.unwrap(), 0),
        ["BASE TABLE", "SYSTEM TABLE", "VIEW"]
    );

    let all = CommandGetTables::default();
    let pattern = |text: &str| CommandGetTables {
        table_name_filter_pattern: Some(text.to_owned()),
        ..CommandGetTables::default()
    };
    let kind = |text: &str| CommandGetTables {
        table_types: vec![text.to_owned()],
        ..CommandGetTables::default()
    };
    let catalog = |text: &str| CommandGetTables { catalog: Some(text.into()), ..all.clone() };
    for (query, rows) in [
        (all.clone(), 9),
        (pattern("events"), 1),
        (pattern("ev%"), 1),
        (pattern("event_"), 1),
        // As pandas does before it runs a statement.
        (pattern("select * from events where a = 'b%' -- \\"), 0),
        (kind("BASE TABLE"), 1),
        (kind("TABLE"), 1),
        (kind("table"), 1),
        (kind("VIEW"), 2),
        (catalog("sealcast"), 9),
        (catalog("other"), 0),
    ] {
        let info = client.get_tables(query.clone()).await.unwrap();
        let found = fetch(&mut client, info).await.unwrap();
        assert_eq!(found.iter().map(RecordBatch::num_rows).sum::<usize>(), rows, "{query:?}");
        assert_eq!(found.first().map_or(4, RecordBatch::num_columns), 4);
    }
    let query = CommandGetTables { include_schema: true, ..pattern("events") };
    let info = client.get_tables(query).await.unwrap();
    let found = fetch(&mut client, info).await.unwrap();
    let bytes = found[0].column(4).as_binary::<i32>().value(0).to_vec();
    let told = Schema::try_from(IpcMessage(bytes.into())).unwrap();
    let remarks = &told.field_with_name("tenant").unwrap().metadata()["ARROW:FLIGHT:SQL:REMARKS"];
    assert_eq!(remarks, "owner of the event");
    let rows = ask(&mut client, "select * from events").await;
    let fields = |schema: &Schema| -> Vec<_> {
        schema.fields().iter().map(|f| (f.name().clone(), f.data_type().clone())).collect()
    };
    assert_eq!(fields(&told), fields(&rows[0].schema()), "the types that rows come in");
    replica.stop().await;
}

#[tokio::test]
async fn keys_have_the_specified_shapes() {
    let bucket = Bucket::filled(1, 3).await;
    let replica = bucket.replica().await;
    let mut client = client(&replica).await;
    let query = CommandGetPrimaryKeys { table: "events".into(), ..Default::default() };
    let info = client.get_primary_keys(query).await.unwrap();
    assert_eq!(texts(&fetch(&mut client, info).await.unwrap(), 3), ["_shard", "_seq"]);
    let query = CommandGetPrimaryKeys { table: "segments".into(), ..Default::default() };
    let info = client.get_primary_keys(query).await.unwrap();
    assert!(texts(&fetch(&mut client, info).await.unwrap(), 3).is_empty());
    let infos = [
        client.get_exported_keys(CommandGetExportedKeys::default()).await.unwrap(),
        client.get_imported_keys(CommandGetImportedKeys::default()).await.unwrap(),
        client.get_cross_reference(CommandGetCrossReference::default()).await.unwrap(),
    ];
    for info in infos {
        let schema = info.clone().try_decode_schema().unwrap();
        assert_eq!(schema.fields().len(), 13);
        let rows = fetch(&mut client, info).await.unwrap();
        assert_eq!(rows.iter().map(RecordBatch::num_rows).sum::<usize>(), 0);
    }
    replica.stop().await;
}

#[tokio::test]
async fn the_server_tells_all_of_itself() {
    let bucket = Bucket::filled(1, 3).await;
    let replica = bucket.replica().await;
    let mut client = client(&replica).await;
    let info = client.get_sql_info(Vec::new()).await.unwrap();
    let all = fetch(&mut client, info).await.unwrap();
    let mut ids: Vec<u32> = Vec::new();
    for batch in &all {
        ids.extend(batch.column(0).as_primitive::<UInt32Type>().values());
    }
    ids.sort_unstable();
    let expected: Vec<u32> = (0..=11).chain([100, 101]).chain(500..=576).collect();
    assert_eq!(ids, expected);
    // What SQLAlchemy and ADBC ask for.
    let some = [SqlInfo::FlightSqlServerName, SqlInfo::SqlIdentifierQuoteChar];
    let info = client.get_sql_info(some.to_vec()).await.unwrap();
    let found = fetch(&mut client, info).await.unwrap();
    assert_eq!(found.iter().map(RecordBatch::num_rows).sum::<usize>(), 2);
    let info = client.get_xdbc_type_info(CommandGetXdbcTypeInfo { data_type: None }).await.unwrap();
    let types = fetch(&mut client, info).await.unwrap();
    assert!(texts(&types, 0).contains(&"timestamp".to_owned()));
    let only = CommandGetXdbcTypeInfo { data_type: Some(12) };
    let info = client.get_xdbc_type_info(only).await.unwrap();
    assert_eq!(texts(&fetch(&mut client, info).await.unwrap(), 0), ["text"]);
    replica.stop().await;
}

#[tokio::test]
async fn sessions_keep_nothing_and_close_well() {
    use prost::Message as _;

    use crate::flight::testing::{CloseSessionResult, SessionOptions};
    let bucket = Bucket::filled(1, 3).await;
    let replica = bucket.replica().await;
    let mut client = client(&replica).await;
    let mut act = async |name: &str| {
        let answer = client.do_action(Request::new(Action::new(name, ""))).await.unwrap();
        answer.try_collect::<Vec<_>>().await.unwrap().remove(0).body
    };
    let options = SessionOptions::decode(act("GetSessionOptions").await).unwrap();
    let mut names: Vec<_> = options.options.keys().cloned().collect();
    names.sort();
    assert_eq!(names, ["catalog", "schema"]);
    assert_eq!(CloseSessionResult::decode(act("CloseSession").await).unwrap().status, 1);
    let listed = client.inner_mut().list_actions(arrow_flight::Empty {}).await.unwrap();
    let listed: Vec<_> = listed.into_inner().try_collect().await.unwrap();
    assert_eq!(listed.len(), 8);
    let flights = client.inner_mut().list_flights(arrow_flight::Criteria::default()).await.unwrap();
    let flights: Vec<_> = flights.into_inner().try_collect().await.unwrap();
    assert_eq!(flights.len(), 9);
    replica.stop().await;
}
