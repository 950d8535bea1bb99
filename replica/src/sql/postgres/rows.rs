//! Rows of `pg_catalog`: schemas, tables, columns, types. They are the same for every caller.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use arrow::array::{
    Array as _, ArrayRef, BooleanArray, Float32Array, Int16Array, Int32Array, Int64Array,
    RecordBatch, RecordBatchOptions, StringArray, new_null_array,
};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::catalog::{MemTable, TableProvider};
use datafusion::error::Result;
use sealcast_common::segment::schema::{COLUMNS, logical_schema};

use super::tables::{columns, names};
use super::types::{Oid, PgType, pg_type};
use super::{PG_SCHEMA, ROLE, SERVER_VERSION};
use crate::sql::catalog::{CATALOG, EVENTS_SCHEMA, SYSTEM_SCHEMA};
use crate::sql::session::QueryScope;
use crate::sql::system;
use crate::sql::views::{VIEWS, view};

/// Of the first table; those of PostgreSQL's own are below.
const FIRST_OID: Oid = 16_384;
/// Of the first table of `pg_catalog` that has no well-known number.
const FIRST_PG_OID: Oid = 12_000;
pub(super) const ROLE_OID: Oid = 10;
const DATABASE_OID: Oid = 5;
const HEAP_OID: Oid = 2;
/// Schemas.
pub(super) const NAMESPACES: [(&str, Oid); 4] = [
    (PG_SCHEMA, 11),
    (EVENTS_SCHEMA, 2_200),
    ("information_schema", 13_000),
    (SYSTEM_SCHEMA, 16_383),
];

/// A table that can be asked.
pub(super) struct Relation {
    pub(super) oid: Oid,
    pub(super) schema: &'static str,
    pub(super) name: &'static str,
}

/// Those of users, then those of PostgreSQL's own, by the numbers that clients know by heart.
pub(super) static RELATIONS: LazyLock<Vec<Relation>> = LazyLock::new(|| {
    let events = ["events"].into_iter().chain(VIEWS).map(|name| (EVENTS_SCHEMA, name));
    let system = system::TABLES.map(|name| (SYSTEM_SCHEMA, name));
    let own = events.chain(system).zip(FIRST_OID..);
    let own = own.map(|((schema, name), oid)| Relation { oid, schema, name });
    let pg = names().zip(FIRST_PG_OID..).map(|(name, other)| {
        let oid = match name {
            "pg_type" => 1_247,
            "pg_attribute" => 1_249,
            "pg_proc" => 1_255,
            "pg_class" => 1_259,
            "pg_database" => 1_262,
            "pg_constraint" => 2_606,
            "pg_namespace" => 2_615,
            _ => other,
        };
        Relation { oid, schema: PG_SCHEMA, name }
    });
    own.chain(pg).collect()
});

impl Relation {
    fn is_users(&self) -> bool {
        self.schema != PG_SCHEMA
    }
}

/// The number of a schema.
pub(super) fn namespace(name: &str) -> Oid {
    NAMESPACES.into_iter().find(|(known, _)| *known == name).map_or(0, |(_, oid)| oid)
}

/// What is said of a column of `events`.
pub(super) fn comment(relation: Oid, number: i64) -> Option<&'static str> {
    let place = usize::try_from(number).ok()?.checked_sub(1)?;
    (relation == FIRST_OID).then(|| COLUMNS.get(place).map(|(_, _, meaning)| *meaning))?
}

enum Cell {
    Number(i64),
    Text(String),
    Flag(bool),
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Cell::Text(text.to_owned())
    }
}

impl From<bool> for Cell {
    fn from(flag: bool) -> Self {
        Cell::Flag(flag)
    }
}

macro_rules! numbers {
    ($($of:ty),*) => {
        $(impl From<$of> for Cell {
            fn from(number: $of) -> Self {
                Cell::Number(i64::from(number))
            }
        })*
    };
}
numbers!(i16, i32, u32);

/// What a row says beside its columns' usual values.
type Row = HashMap<&'static str, Cell>;

macro_rules! row {
    ($($name:ident: $value:expr),* $(,)?) => {
        Row::from([$((stringify!($name), Cell::from($value))),*])
    };
}

/// One table.
pub(super) fn table(name: &str, scope: &Arc<QueryScope>) -> Result<Option<Arc<dyn TableProvider>>> {
    let Some(columns) = columns(name) else { return Ok(None) };
    let rows = match name {
        "pg_class" => classes(scope)?,
        "pg_attribute" => attributes(scope)?,
        "pg_namespace" => namespaces(),
        "pg_type" => types(),
        "pg_database" => databases(),
        "pg_roles" => {
            vec![row! { rolname: ROLE, oid: ROLE_OID, rolcanlogin: true, rolconnlimit: -1 }]
        }
        "pg_user" => vec![row! { usename: ROLE, usesysid: ROLE_OID }],
        "pg_am" => vec![
            row! { oid: HEAP_OID, amname: "heap", amhandler: "heap_tableam_handler", amtype: "t" },
        ],
        "pg_description" => descriptions(),
        "pg_settings" => settings(),
        "pg_tables" => tables(),
        _ => Vec::new(),
    };
    let batch = batch(&columns, &rows)?;
    Ok(Some(Arc::new(MemTable::try_new(columns, vec![vec![batch]])?)))
}

fn batch(columns: &SchemaRef, rows: &[Row]) -> Result<RecordBatch> {
    let arrays = columns.fields().iter().map(|field| {
        let cells = || rows.iter().map(|row| row.get(field.name().as_str()));
        let numbers = || cells().map(|cell| if let Some(Cell::Number(n)) = cell { *n } else { 0 });
        let array: ArrayRef =
            match field.data_type() {
                DataType::Int64 => Arc::new(Int64Array::from_iter_values(numbers())),
                DataType::Int32 => {
                    Arc::new(numbers().map(|n| i32::try_from(n).ok()).collect::<Int32Array>())
                }
                DataType::Int16 => {
                    Arc::new(numbers().map(|n| i16::try_from(n).ok()).collect::<Int16Array>())
                }
                DataType::Float32 => {
                    Arc::new(Float32Array::from_iter_values(numbers().map(|n| n as f32)))
                }
                DataType::Boolean => {
                    let flags = cells().map(|cell| Some(matches!(cell, Some(Cell::Flag(true)))));
                    Arc::new(flags.collect::<BooleanArray>())
                }
                DataType::Utf8 => Arc::new(
                    cells()
                        .map(|cell| {
                            if let Some(Cell::Text(text)) = cell {
                                Some(text.as_str())
                            } else {
                                None
                            }
                        })
                        .collect::<StringArray>(),
                ),
                other => new_null_array(other, rows.len()),
            };
        debug_assert_eq!(array.len(), rows.len());
        array
    });
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(columns), arrays.collect(), &options)?)
}

/// The columns of a table, without which it would have to be read.
fn columns_of(relation: &Relation, scope: &Arc<QueryScope>) -> Result<SchemaRef> {
    Ok(match relation.schema {
        EVENTS_SCHEMA => match view(relation.name, scope)? {
            Some(view) => view.schema(),
            None => logical_schema(),
        },
        SYSTEM_SCHEMA => match system::table(relation.name, scope)? {
            Some(table) => table.schema(),
            None => Arc::new(arrow::datatypes::Schema::empty()),
        },
        _ => columns(relation.name).unwrap_or_else(|| Arc::new(arrow::datatypes::Schema::empty())),
    })
}

fn classes(scope: &Arc<QueryScope>) -> Result<Vec<Row>> {
    let one = |relation: &Relation| {
        let columns =
            i16::try_from(columns_of(relation, scope)?.fields().len()).unwrap_or(i16::MAX);
        Ok(row! {
            oid: relation.oid, relname: relation.name, relnamespace: namespace(relation.schema),
            relowner: ROLE_OID, relam: HEAP_OID, reltuples: -1, relpersistence: "p", relkind: if VIEWS.contains(&relation.name) { "v" } else { "r" },
            relnatts: columns, relispopulated: true, relreplident: "n",
        })
    };
    RELATIONS.iter().map(one).collect()
}

fn attributes(scope: &Arc<QueryScope>) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for relation in RELATIONS.iter() {
        for (field, number) in columns_of(relation, scope)?.fields().iter().zip(1_i16..) {
            let (oid, size, ..) = pg_type(field, false).facts();
            rows.push(row! {
                attrelid: relation.oid, attname: field.name().as_str(), atttypid: oid,
                attstattarget: -1, attlen: size, attnum: number, attcacheoff: -1, atttypmod: -1,
                attbyval: (1..=8).contains(&size), attalign: "i",
                attstorage: if size < 0 { "x" } else { "p" }, attcompression: "",
                attnotnull: relation.is_users() && !field.is_nullable(),
                attidentity: "", attgenerated: "", attislocal: true,
            });
        }
    }
    Ok(rows)
}

fn namespaces() -> Vec<Row> {
    let all = NAMESPACES.into_iter();
    all.map(|(name, oid)| row! { oid: oid, nspname: name, nspowner: ROLE_OID }).collect()
}

fn types() -> Vec<Row> {
    let all = PgType::ALL.into_iter();
    all.map(|known| {
        let (oid, size, name, _, category) = known.facts();
        row! {
            oid: oid, typname: name, typnamespace: namespace(PG_SCHEMA), typowner: ROLE_OID,
            typlen: size, typbyval: (1..=8).contains(&size), typtype: "b", typcategory: category,
            typispreferred: matches!(known, PgType::Text | PgType::Float8 | PgType::Bool),
            typisdefined: true, typdelim: ",", typsubscript: "-", typalign: "i", typstorage: "p",
            typtypmod: -1, typinput: format!("{name}in").as_str(),
            typoutput: format!("{name}out").as_str(), typreceive: format!("{name}recv").as_str(),
            typsend: format!("{name}send").as_str(),
        }
    })
    .collect()
}

fn databases() -> Vec<Row> {
    vec![row! {
        oid: DATABASE_OID, datname: CATALOG, datdba: ROLE_OID, encoding: 6, datlocprovider: "c",
        datallowconn: true, datconnlimit: -1, datcollate: "C.UTF-8", datctype: "C.UTF-8",
    }]
}

fn descriptions() -> Vec<Row> {
    let pg_class = RELATIONS.iter().find(|relation| relation.name == "pg_class");
    let class = pg_class.map_or(0, |relation| relation.oid);
    let columns = COLUMNS.iter().zip(1_i32..);
    let one = |((_, _, meaning), number): (&(_, _, &str), i32)| {
        row! { objoid: FIRST_OID, classoid: class, objsubid: number, description: *meaning }
    };
    columns.map(one).collect()
}

/// What `SHOW` and `current_setting` tell where a connection has set nothing else.
pub const SETTINGS: [(&str, &str); 26] = [
    ("application_name", ""),
    ("bytea_output", "hex"),
    ("client_encoding", "UTF8"),
    ("client_min_messages", "notice"),
    ("datestyle", "ISO, MDY"),
    ("default_transaction_isolation", "read committed"),
    ("default_transaction_read_only", "on"),
    ("extra_float_digits", "1"),
    ("in_hot_standby", "on"),
    ("integer_datetimes", "on"),
    ("intervalstyle", "postgres"),
    ("is_superuser", "off"),
    ("lc_collate", "C.UTF-8"),
    ("lc_ctype", "C.UTF-8"),
    ("lc_messages", "C.UTF-8"),
    ("max_identifier_length", "63"),
    ("max_index_keys", "32"),
    ("search_path", "public"),
    ("server_encoding", "UTF8"),
    ("server_version", SERVER_VERSION),
    ("server_version_num", "150000"),
    ("session_authorization", ROLE),
    ("standard_conforming_strings", "on"),
    ("timezone", "UTC"),
    ("transaction_isolation", "read committed"),
    ("transaction_read_only", "on"),
];

fn settings() -> Vec<Row> {
    let one = |(name, value): (&'static str, &str)| {
        row! { name: name, setting: value, category: "Sealcast", short_desc: "", context: "user",
        vartype: "string", source: "default", boot_val: value, reset_val: value }
    };
    SETTINGS.into_iter().map(one).collect()
}

fn tables() -> Vec<Row> {
    let all = RELATIONS.iter();
    all.map(
        |relation| row! { schemaname: relation.schema, tablename: relation.name, tableowner: ROLE },
    )
    .collect()
}
