//! Rows as JSON, by arrow's encoders with two of our own: ids as UUID text, JSON as JSON.

use std::io::Write as _;
use std::sync::{Arc, LazyLock};

use arrow::array::{Array, AsArray as _, FixedSizeBinaryArray, RecordBatch, StringArray};
use arrow::datatypes::{DataType, FieldRef};
use arrow::error::ArrowError;
use arrow::json::writer::{Encoder, EncoderFactory, EncoderOptions, NullableEncoder, make_encoder};
use datafusion_functions_json::{JSON_UNION_DATA_TYPE, JsonUnionEncoder, JsonUnionValue};
use uuid::Uuid;

static OPTIONS: LazyLock<EncoderOptions> = LazyLock::new(|| {
    EncoderOptions::default()
        .with_explicit_nulls(true)
        .with_timestamp_tz_format("%Y-%m-%dT%H:%M:%S%.6fZ".into())
        .with_timestamp_format("%Y-%m-%dT%H:%M:%S%.6f".into())
        .with_encoder_factory(Arc::new(Factory))
});

#[derive(Debug)]
struct Factory;

impl EncoderFactory for Factory {
    fn make_default_encoder<'a>(
        &self,
        _: &'a FieldRef,
        array: &'a dyn Array,
        _: &'a EncoderOptions,
    ) -> Result<Option<NullableEncoder<'a>>, ArrowError> {
        if let Some(ids) = array.as_fixed_size_binary_opt().filter(|ids| ids.value_size() == 16) {
            let encoder: Box<dyn Encoder + 'a> = Box::new(UuidEncoder(ids));
            return Ok(Some(NullableEncoder::new(encoder, ids.nulls().cloned())));
        }
        if *array.data_type() != *JSON_UNION_DATA_TYPE {
            return Ok(None);
        }
        let union = array.as_union_opt().cloned().and_then(JsonUnionEncoder::from_union);
        // The union's null is a member, which the encoder writes itself.
        Ok(union.map(|union| NullableEncoder::new(Box::new(UnionEncoder(union)), None)))
    }
}

struct UuidEncoder<'a>(&'a FixedSizeBinaryArray);

impl Encoder for UuidEncoder<'_> {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        let id = Uuid::from_slice(self.0.value(row)).unwrap_or_default();
        let _infallible = write!(out, "\"{}\"", id.as_hyphenated());
    }
}

struct UnionEncoder(JsonUnionEncoder);

impl Encoder for UnionEncoder {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        let _infallible = match self.0.get_value(row) {
            JsonUnionValue::JsonNull => out.write_all(b"null"),
            JsonUnionValue::Bool(flag) => write!(out, "{flag}"),
            JsonUnionValue::Int(number) => write!(out, "{number}"),
            JsonUnionValue::Float(number) => {
                serde_json::to_writer(&mut *out, &number).map_err(Into::into)
            }
            JsonUnionValue::Str(text) => serde_json::to_writer(&mut *out, text).map_err(Into::into),
            JsonUnionValue::Array(json) | JsonUnionValue::Object(json) => {
                out.write_all(json.as_bytes())
            }
        };
    }
}

/// How a row looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowShape {
    /// `[1,"a"]`.
    Array,
    /// `{"n":1,"s":"a"}`.
    Object,
}

/// Appends the rows of `batch`, each followed by `separator`, to `out`.
pub(super) fn write_rows(
    batch: &RecordBatch,
    shape: RowShape,
    separator: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), ArrowError> {
    let schema = batch.schema();
    let mut columns = Vec::with_capacity(batch.num_columns());
    for (field, array) in schema.fields().iter().zip(batch.columns()) {
        let name = serde_json::to_vec(field.name())
            .map_err(|error| ArrowError::JsonError(error.to_string()))?;
        columns.push((name, make_encoder(field, array.as_ref(), &OPTIONS)?));
    }
    let (open, close) = match shape {
        RowShape::Array => (b'[', b']'),
        RowShape::Object => (b'{', b'}'),
    };
    for row in 0..batch.num_rows() {
        out.push(open);
        for (i, (name, encoder)) in columns.iter_mut().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            if shape == RowShape::Object {
                out.extend_from_slice(name);
                out.push(b':');
            }
            if encoder.is_null(row) {
                out.extend_from_slice(b"null");
            } else {
                encoder.encode(row, out);
            }
        }
        out.push(close);
        out.extend_from_slice(separator);
    }
    Ok(())
}

/// Every value of a nested column as JSON text, for formats without nesting.
pub(super) fn cell_texts(array: &dyn Array, field: &FieldRef) -> Result<StringArray, ArrowError> {
    if *array.data_type() == DataType::Null {
        return Ok(StringArray::new_null(array.len()));
    }
    let mut encoder = make_encoder(field, array, &OPTIONS)?;
    let mut cell = Vec::new();
    Ok((0..array.len())
        .map(|row| {
            if encoder.is_null(row) {
                return None;
            }
            cell.clear();
            encoder.encode(row, &mut cell);
            Some(String::from_utf8_lossy(&cell).into_owned())
        })
        .collect())
}
