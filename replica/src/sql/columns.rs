//! `sealcast.columns`: what each column of `events` means.

use std::sync::Arc;

use arrow::array::{ArrayRef, StringArray, UInt16Array};
use sealcast_common::segment::schema::{COLUMNS, logical_schema};

use super::catalog::EVENTS_SCHEMA;

/// The comment on a column of `events`.
pub(crate) fn comment(column: &str) -> Option<&'static str> {
    COLUMNS.iter().find(|(name, ..)| *name == column).map(|(_, _, comment)| *comment)
}

/// One row for each of them.
pub(super) fn columns() -> Vec<(&'static str, ArrayRef)> {
    let schema = logical_schema();
    let fields = || schema.fields().iter();
    let text = |values: Vec<&str>| Arc::new(StringArray::from(values)) as ArrayRef;
    let types: Vec<String> = fields().map(|field| field.data_type().to_string()).collect();
    let places = (1..).take(COLUMNS.len());
    vec![
        ("table_schema", text(vec![EVENTS_SCHEMA; COLUMNS.len()])),
        ("table_name", text(vec!["events"; COLUMNS.len()])),
        ("column_name", text(fields().map(|field| field.name().as_str()).collect())),
        ("ordinal_position", Arc::new(UInt16Array::from_iter_values(places))),
        ("data_type", text(types.iter().map(String::as_str).collect())),
        ("comment", text(COLUMNS.iter().map(|(_, _, comment)| *comment).collect())),
    ]
}
