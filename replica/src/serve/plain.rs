//! Result types that every client reads: no dictionaries, no views, no unions, times in UTC.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray as _, RecordBatch, RecordBatchOptions, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit};
use arrow::error::ArrowError;
use datafusion_functions_json::{JsonUnionEncoder, JsonUnionValue};
use sealcast_common::fault::hex;
use uuid::Uuid;

use super::json::cell_texts;

/// How far types are flattened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flat {
    /// Ids stay bytes, lists stay lists: Arrow and Parquet.
    Typed,
    /// The same, for JSON, which also shows the members of a JSON union.
    Json,
    /// Everything nested or binary becomes text: CSV.
    Text,
    /// Ids stay bytes, whatever is nested becomes JSON: PostgreSQL's protocol.
    Postgres,
    /// As the engine has them: nothing is copied. Only that a column has no nulls is not said.
    Native,
}

/// Converts batches of one schema.
#[derive(Debug)]
pub(super) struct Plain {
    flat: Flat,
    pub(super) schema: SchemaRef,
}

/// In the metadata of a text column whose texts are JSON.
pub(crate) const JSON: &str = "sealcast.json";

/// What functions of JSON give: its texts stand as they are.
fn is_union(field: &Field) -> bool {
    matches!(field.data_type(), DataType::Union(..))
}

pub(super) const UUID: DataType = DataType::FixedSizeBinary(16);

impl Plain {
    pub(super) fn new(schema: &Schema, flat: Flat) -> Self {
        let fields = schema.fields().iter().map(|field| {
            let data_type = plain_type(field.data_type(), flat);
            let plain = Field::new(field.name(), data_type, true);
            if *plain.data_type() == UUID {
                let metadata = [("ARROW:extension:name".to_owned(), "arrow.uuid".to_owned())];
                return plain.with_metadata(metadata.into());
            }
            if flat == Flat::Postgres && field.data_type().is_nested() && !is_union(field) {
                return plain.with_metadata([(JSON.to_owned(), String::new())].into());
            }
            plain
        });
        Plain { flat, schema: Arc::new(Schema::new(fields.collect::<Vec<_>>())) }
    }

    pub(super) fn convert(&self, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        let from = batch.schema();
        let columns = batch.columns().iter().zip(from.fields()).zip(self.schema.fields());
        let columns =
            columns.map(|((array, from), to)| convert(array, from, to.data_type(), self.flat));
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
    }
}

fn plain_type(from: &DataType, flat: Flat) -> DataType {
    match from {
        native if flat == Flat::Native => native.clone(),
        DataType::Dictionary(_, values) => plain_type(values, flat),
        DataType::Utf8View | DataType::LargeUtf8 => DataType::Utf8,
        DataType::BinaryView | DataType::LargeBinary if flat != Flat::Text => DataType::Binary,
        DataType::Union(..) if flat == Flat::Json => from.clone(),
        DataType::Union(..) | DataType::Interval(_) | DataType::RunEndEncoded(..) => DataType::Utf8,
        DataType::Timestamp(_, Some(_)) => {
            DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
        }
        DataType::Timestamp(_, None) => DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::List(_)
        | DataType::LargeList(_)
        | DataType::ListView(_)
        | DataType::LargeListView(_)
        | DataType::FixedSizeList(..)
        | DataType::Struct(_)
        | DataType::Map(..)
            if matches!(flat, Flat::Text | Flat::Postgres) =>
        {
            DataType::Utf8
        }
        DataType::FixedSizeBinary(16) if flat == Flat::Postgres => from.clone(),
        DataType::FixedSizeBinary(_) if flat == Flat::Postgres => DataType::Binary,
        DataType::Binary
        | DataType::BinaryView
        | DataType::LargeBinary
        | DataType::FixedSizeBinary(_)
            if flat == Flat::Text =>
        {
            DataType::Utf8
        }
        other => other.clone(),
    }
}

fn convert(
    array: &ArrayRef,
    from: &FieldRef,
    to: &DataType,
    flat: Flat,
) -> Result<ArrayRef, ArrowError> {
    if array.data_type() == to {
        return Ok(Arc::clone(array));
    }
    match array.data_type() {
        DataType::Union(..) => union_text(array),
        DataType::FixedSizeBinary(16) if flat == Flat::Text => Ok(Arc::new(uuid_text(array))),
        DataType::Binary | DataType::FixedSizeBinary(_) if flat == Flat::Text => {
            let bytes = cast(array, &DataType::Binary)?;
            let bytes = bytes.as_binary::<i32>();
            Ok(Arc::new(bytes.iter().map(|bytes| bytes.map(hex)).collect::<StringArray>()))
        }
        nested if nested.is_nested() && matches!(flat, Flat::Text | Flat::Postgres) => {
            Ok(Arc::new(cell_texts(array, from)?))
        }
        _ => cast(array, to),
    }
}

fn uuid_text(array: &ArrayRef) -> StringArray {
    let Some(ids) = array.as_fixed_size_binary_opt() else {
        return StringArray::new_null(array.len());
    };
    let text = |row| Uuid::from_slice(ids.value(row)).ok().map(|id| id.to_string());
    (0..ids.len()).map(|row| ids.is_valid(row).then(|| text(row)).flatten()).collect()
}

/// A JSON union as text: strings as they are, the rest as JSON.
fn union_text(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let union = array.as_union_opt().cloned().and_then(JsonUnionEncoder::from_union);
    let Some(union) = union else { return cast(array, &DataType::Utf8) };
    let texts = (0..union.len()).map(|row| match union.get_value(row) {
        JsonUnionValue::JsonNull => None,
        JsonUnionValue::Bool(flag) => Some(flag.to_string()),
        JsonUnionValue::Int(number) => Some(number.to_string()),
        JsonUnionValue::Float(number) => Some(number.to_string()),
        JsonUnionValue::Str(text) | JsonUnionValue::Array(text) | JsonUnionValue::Object(text) => {
            Some(text.to_owned())
        }
    });
    Ok(Arc::new(texts.collect::<StringArray>()))
}

/// The short name of a type, as the JSON answer's `columns` has it.
pub(super) fn type_name(data_type: &DataType) -> String {
    let name = match data_type {
        DataType::Null => "null",
        DataType::Boolean => "boolean",
        DataType::Utf8 => "text",
        DataType::FixedSizeBinary(16) => "uuid",
        DataType::Binary | DataType::FixedSizeBinary(_) => "bytes",
        DataType::Timestamp(_, Some(_)) => "timestamptz",
        DataType::Timestamp(_, None) => "timestamp",
        DataType::Date32 | DataType::Date64 => "date",
        DataType::Union(..) => "json",
        other => return other.to_string().to_lowercase(),
    };
    name.to_owned()
}
