//! What JDBC's driver and Grafana's plugin send, call by call, for which no real program runs here.
//!
//! The sequences are those of apache/arrow-java (flight-sql-jdbc-core) and of
//! influxdata/grafana-flightsql-datasource, as their sources have them; the shapes of metadata those
//! of FlightSql.proto, which JDBC reads by place and by name.

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Schema};
use arrow_flight::FlightInfo;
use arrow_flight::sql::{
    CommandGetCrossReference, CommandGetDbSchemas, CommandGetExportedKeys, CommandGetImportedKeys,
    CommandGetPrimaryKeys, CommandGetTables, CommandGetXdbcTypeInfo,
};
use futures::TryStreamExt as _;

use super::super::kit::Bucket;
use super::{Client, client, fetch};

/// `name type!`, where `!` says that it is never null.
fn shape(schema: &Schema) -> String {
    let fields = schema.fields().iter().map(|field| {
        let kind = match field.data_type() {
            DataType::Utf8 => "utf8".to_owned(),
            DataType::Binary => "bytes".to_owned(),
            DataType::List(item) => {
                format!("list<{}>", item.data_type().to_string().to_lowercase())
            }
            DataType::Union(..) => "union".to_owned(),
            other => other.to_string().to_lowercase(),
        };
        format!("{} {kind}{}", field.name(), if field.is_nullable() { "" } else { "!" })
    });
    fields.collect::<Vec<_>>().join(", ")
}

const KEYS: &str = "pk_catalog_name utf8, pk_db_schema_name utf8, pk_table_name utf8!, \
    pk_column_name utf8!, fk_catalog_name utf8, fk_db_schema_name utf8, fk_table_name utf8!, \
    fk_column_name utf8!, key_sequence int32!, fk_key_name utf8, pk_key_name utf8, \
    update_rule uint8!, delete_rule uint8!";

const XDBC: &str = "type_name utf8!, data_type int32!, column_size int32, literal_prefix utf8, \
    literal_suffix utf8, create_params list<utf8>, nullable int32!, case_sensitive boolean!, \
    searchable int32!, unsigned_attribute boolean, fixed_prec_scale boolean!, \
    auto_increment boolean, local_type_name utf8, minimum_scale int32, maximum_scale int32, \
    sql_data_type int32!, datetime_subcode int32, num_prec_radix int32, interval_precision int32";

/// The answer has this shape, as announced and as it comes.
async fn has_shape(client: &mut Client, info: FlightInfo, expected: &str) {
    let announced = info.clone().try_decode_schema().unwrap();
    assert_eq!(shape(&announced), expected);
    for batch in fetch(client, info).await.unwrap() {
        assert_eq!(shape(&batch.schema()), expected);
    }
}

fn rows(batches: &[RecordBatch]) -> usize {
    batches.iter().map(RecordBatch::num_rows).sum()
}

#[tokio::test]
async fn jdbc_reads_statements_as_queries() {
    let bucket = Bucket::filled(2, 50).await;
    let replica = bucket.replica().await;
    let mut client = client(&replica).await;
    client.handshake("me", "word").await.unwrap();
    // `Statement.execute` is prepared as well. Without columns it would be taken for an update.
    let sql = "SELECT tenant, time, attributes FROM events WHERE tenant = 'acme'";
    let mut statement = client.prepare(sql.into(), None).await.unwrap();
    let columns = statement.dataset_schema().unwrap().clone();
    assert_eq!(statement.parameter_schema().unwrap().fields().len(), 0);
    let names: Vec<&str> = columns.fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(names, ["tenant", "time", "attributes"]);
    // Types that its older versions cannot read are not among them.
    assert!(columns.fields().iter().all(|field| {
        field.is_nullable()
            && !matches!(field.data_type(), DataType::Utf8View | DataType::Dictionary(..))
    }));
    let info = statement.execute().await.unwrap();
    let announced = info.clone().try_decode_schema().unwrap();
    assert_eq!(announced.fields(), columns.fields());
    assert!(info.endpoint.iter().all(|endpoint| endpoint.location.is_empty()));
    assert_eq!(rows(&fetch(&mut client, info).await.unwrap()), 34);
    statement.close().await.unwrap();
    client.close().await.unwrap();
    replica.stop().await;
}

#[tokio::test]
async fn jdbc_finds_metadata_in_the_specified_shapes() {
    let bucket = Bucket::filled(1, 3).await;
    let replica = bucket.replica().await;
    let mut client = client(&replica).await;
    let info = client.get_catalogs().await.unwrap();
    has_shape(&mut client, info, "catalog_name utf8!").await;
    let info = client.get_db_schemas(CommandGetDbSchemas::default()).await.unwrap();
    has_shape(&mut client, info, "catalog_name utf8, db_schema_name utf8!").await;
    let tables = "catalog_name utf8, db_schema_name utf8, table_name utf8!, table_type utf8!";
    let info = client.get_tables(CommandGetTables::default()).await.unwrap();
    has_shape(&mut client, info, tables).await;
    let with_schema = CommandGetTables { include_schema: true, ..CommandGetTables::default() };
    let info = client.get_tables(with_schema).await.unwrap();
    has_shape(&mut client, info, &format!("{tables}, table_schema bytes!")).await;
    let info = client.get_table_types().await.unwrap();
    has_shape(&mut client, info, "table_type utf8!").await;
    let query = CommandGetPrimaryKeys { table: "events".into(), ..Default::default() };
    let info = client.get_primary_keys(query).await.unwrap();
    let keys = "catalog_name utf8, db_schema_name utf8, table_name utf8!, column_name utf8!, \
        key_name utf8, key_sequence int32!";
    has_shape(&mut client, info, keys).await;
    let info = client.get_exported_keys(CommandGetExportedKeys::default()).await.unwrap();
    has_shape(&mut client, info, KEYS).await;
    let info = client.get_imported_keys(CommandGetImportedKeys::default()).await.unwrap();
    has_shape(&mut client, info, KEYS).await;
    let info = client.get_cross_reference(CommandGetCrossReference::default()).await.unwrap();
    has_shape(&mut client, info, KEYS).await;
    let info = client.get_sql_info(Vec::new()).await.unwrap();
    has_shape(&mut client, info, "info_name uint32!, value union!").await;
    let info = client.get_xdbc_type_info(CommandGetXdbcTypeInfo { data_type: None }).await.unwrap();
    has_shape(&mut client, info, XDBC).await;
    replica.stop().await;
}

#[tokio::test]
async fn grafana_checks_builds_and_draws() {
    let bucket = Bucket::filled(1, 300).await;
    let replica = bucket.replica().await;
    let mut client = client(&replica).await;
    client.set_token("word".into());
    // Its health check; it takes one endpoint and no other number.
    let info = client.execute("select 1".into(), None).await.unwrap();
    assert_eq!(rows(&fetch(&mut client, info).await.unwrap()), 1);
    // Its query builder: tables, their columns, every fact of the server.
    let kinds = vec!["BASE TABLE".to_owned()];
    let tables = CommandGetTables { table_types: kinds, ..CommandGetTables::default() };
    let info = client.get_tables(tables).await.unwrap();
    assert_eq!(rows(&fetch(&mut client, info).await.unwrap()), 1);
    let columns = CommandGetTables {
        table_name_filter_pattern: Some("events".into()),
        include_schema: true,
        ..CommandGetTables::default()
    };
    let info = client.get_tables(columns).await.unwrap();
    assert_eq!(rows(&fetch(&mut client, info).await.unwrap()), 1);
    let info = client.get_sql_info(Vec::new()).await.unwrap();
    assert!(rows(&fetch(&mut client, info).await.unwrap()) > 80);
    // What `$__dateBin(time)` and `$__timeFilter(time)` become.
    let sql = "SELECT date_bin(interval '60 second', time, timestamp '1970-01-01T00:00:00Z') AS t, \
        count(*) AS events FROM events WHERE time >= '2023-11-14T22:13:20Z' \
        AND time <= '2023-11-14T22:23:20Z' GROUP BY 1 ORDER BY 1";
    let info = client.execute(sql.into(), None).await.unwrap();
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    let mut stream = client.do_get(ticket).await.unwrap();
    // It shows headers in its inspector.
    assert!(stream.headers().contains_key("sealcast-query-id"));
    let drawn: Vec<RecordBatch> = (&mut stream).try_collect().await.unwrap();
    assert_eq!(rows(&drawn), 6);
    replica.stop().await;
}
