//! Catalogs, schemas, tables and keys.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow_flight::error::FlightError;
use arrow_flight::sql::{
    CommandGetCatalogs, CommandGetDbSchemas, CommandGetPrimaryKeys, CommandGetTableTypes,
    CommandGetTables,
};
use sealcast_common::serve::access::Grant;

use crate::serve::{Format, Node};
use crate::sql::{CATALOG, EVENTS_SCHEMA, QueryScope, SYSTEM_SCHEMA, SystemSource, VIEWS, comment};

/// Of `events`.
const TABLE: &str = "BASE TABLE";
/// Of its rows under other names.
const VIEW: &str = "VIEW";
/// Of what a node tells of itself.
const SYSTEM: &str = "SYSTEM TABLE";
/// Where Flight SQL has the comment on a column.
const REMARKS: &str = "ARROW:FLIGHT:SQL:REMARKS";
/// The columns that tell one row from all others.
const KEY: [&str; 2] = ["_shard", "_seq"];

/// A table as metadata has it.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub(super) schema: String,
    pub(super) name: String,
    columns: SchemaRef,
}

impl Table {
    fn kind(&self) -> &'static str {
        match self.schema == EVENTS_SCHEMA {
            true if VIEWS.contains(&self.name.as_str()) => VIEW,
            true => TABLE,
            false => SYSTEM,
        }
    }

    /// As an answer in this form has them.
    pub(super) fn columns(&self, format: Format) -> SchemaRef {
        let columns = format.columns(&self.columns);
        if self.kind() != TABLE {
            return columns;
        }
        let fields = columns.fields().iter().map(|field| {
            let mut told = field.metadata().clone();
            told.extend(comment(field.name()).map(|text| (REMARKS.to_owned(), text.to_owned())));
            Field::clone(field).with_metadata(told)
        });
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }
}

/// What there is: the same for every caller, and for as long as the program runs.
pub(super) async fn all(node: &Arc<Node>) -> Result<Vec<Table>, FlightError> {
    let system: Arc<dyn SystemSource> = Arc::<Node>::clone(node);
    // Its rows are not looked at.
    let grant = Grant {
        tenants: sealcast_common::serve::access::Tenants::Only([].into()),
        ..Grant::open()
    };
    let scope = QueryScope::new(node.vault.snapshot(), false, system, Arc::new(grant));
    let tables = node.engine.tables(&Arc::new(scope)).await;
    let tables = tables.map_err(|error| FlightError::from_external_error(Box::new(error)))?;
    Ok(tables.into_iter().map(|(schema, name, columns)| Table { schema, name, columns }).collect())
}

/// What a filter says: nothing, where it is empty.
fn stated(filter: Option<String>) -> Option<String> {
    filter.filter(|text| !text.is_empty())
}

pub(super) fn catalogs() -> Result<RecordBatch, FlightError> {
    let mut builder = CommandGetCatalogs {}.into_builder();
    builder.append(CATALOG);
    builder.build()
}

pub(super) fn schemas(query: CommandGetDbSchemas) -> Result<RecordBatch, FlightError> {
    let query = CommandGetDbSchemas {
        catalog: stated(query.catalog),
        db_schema_filter_pattern: stated(query.db_schema_filter_pattern),
    };
    let mut builder = query.into_builder();
    builder.append(CATALOG, EVENTS_SCHEMA);
    builder.append(CATALOG, SYSTEM_SCHEMA);
    builder.build()
}

pub(super) fn tables(
    tables: &[Table],
    query: CommandGetTables,
    format: Format,
) -> Result<RecordBatch, FlightError> {
    // What some clients call a table.
    let kinds = query.table_types.iter().map(|kind| match kind.to_ascii_uppercase().as_str() {
        "TABLE" => TABLE.to_owned(),
        other => other.to_owned(),
    });
    let query = CommandGetTables {
        catalog: stated(query.catalog),
        db_schema_filter_pattern: stated(query.db_schema_filter_pattern),
        table_name_filter_pattern: stated(query.table_name_filter_pattern),
        table_types: kinds.collect(),
        include_schema: query.include_schema,
    };
    let mut builder = query.into_builder();
    for table in tables {
        let columns = table.columns(format);
        builder.append(CATALOG, &table.schema, &table.name, table.kind(), &columns)?;
    }
    builder.build()
}

pub(super) fn table_types() -> Result<RecordBatch, FlightError> {
    let mut builder = CommandGetTableTypes {}.into_builder();
    builder.append(TABLE);
    builder.append(VIEW);
    builder.append(SYSTEM);
    builder.build()
}

fn text(name: &str, nullable: bool) -> Field {
    Field::new(name, DataType::Utf8, nullable)
}

fn primary_keys_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        text("catalog_name", true),
        text("db_schema_name", true),
        text("table_name", false),
        text("column_name", false),
        text("key_name", true),
        Field::new("key_sequence", DataType::Int32, false),
    ]))
}

/// The key of `events`; other tables have none.
pub(super) fn primary_keys(query: &CommandGetPrimaryKeys) -> Result<RecordBatch, ArrowError> {
    let is = |stated: &Option<String>, name: &str| {
        stated.as_deref().is_none_or(|stated| stated.is_empty() || stated == name)
    };
    let found = query.table == "events"
        && is(&query.catalog, CATALOG)
        && is(&query.db_schema, EVENTS_SCHEMA);
    let columns: Vec<&str> = KEY.into_iter().filter(|_| found).collect();
    let same = |text: &str| -> ArrayRef { Arc::new(StringArray::from(vec![text; columns.len()])) };
    let order = Int32Array::from_iter_values((1..).take(columns.len()));
    let arrays = vec![
        same(CATALOG),
        same(EVENTS_SCHEMA),
        same("events"),
        Arc::new(StringArray::from(columns.clone())),
        same("events_pk"),
        Arc::new(order),
    ];
    RecordBatch::try_new(primary_keys_schema(), arrays)
}

/// Imported, exported and cross-referenced keys: there are none.
pub(super) fn foreign_keys() -> RecordBatch {
    RecordBatch::new_empty(Arc::new(Schema::new(vec![
        text("pk_catalog_name", true),
        text("pk_db_schema_name", true),
        text("pk_table_name", false),
        text("pk_column_name", false),
        text("fk_catalog_name", true),
        text("fk_db_schema_name", true),
        text("fk_table_name", false),
        text("fk_column_name", false),
        Field::new("key_sequence", DataType::Int32, false),
        text("fk_key_name", true),
        text("pk_key_name", true),
        Field::new("update_rule", DataType::UInt8, false),
        Field::new("delete_rule", DataType::UInt8, false),
    ])))
}
