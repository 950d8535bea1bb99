//! Cells of an answer in PostgreSQL's text and binary forms.

use arrow::array::{Array, AsArray as _};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Date32Type, Float32Type, Float64Type, Int64Type, SchemaRef, Time64MicrosecondType,
    TimeUnit, TimestampMicrosecondType,
};
use arrow::record_batch::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use sealcast_common::clock::Micros;
use uuid::Uuid;

use super::numeric;
use super::out::Out;
use crate::serve::plain::JSON;
use crate::sql::{PgType, pg_type};

/// 2000-01-01 in microseconds and days of 1970.
const EPOCH_MICROS: i64 = 946_684_800_000_000;
const EPOCH_DAYS: i32 = 10_957;

/// A column of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) kind: PgType,
}

/// What an answer's columns are.
pub(super) fn columns(schema: &SchemaRef) -> Vec<Column> {
    let fields = schema.fields().iter();
    fields
        .map(|field| {
            let json = field.metadata().contains_key(JSON);
            Column { name: field.name().clone(), kind: pg_type(field, json) }
        })
        .collect()
}

/// The format of a column: none said, one for all, or one each.
pub(super) fn format(formats: &[i16], column: usize) -> i16 {
    match formats {
        [one] => *one,
        many => many.get(column).copied().unwrap_or(0),
    }
}

/// A value that its type cannot carry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a value of column {0} does not fit its type")]
pub(super) struct Misfit(pub(super) String);

/// A batch as cells: of each column what its type is written from.
pub(super) struct Cells {
    columns: Vec<(Column, arrow::array::ArrayRef, bool)>,
}

impl Cells {
    pub(super) fn new(
        batch: &RecordBatch,
        columns: &[Column],
        formats: &[i16],
    ) -> Result<Self, Misfit> {
        let all = batch.columns().iter().zip(columns).enumerate();
        let prepared = all.map(|(place, (array, column))| {
            let misfit = |_| Misfit(column.name.clone());
            let wanted = match (column.kind, array.data_type()) {
                (PgType::Int2 | PgType::Int4 | PgType::Int8, _) => Some(DataType::Int64),
                (PgType::Float4, _) => Some(DataType::Float32),
                (PgType::Float8, _) => Some(DataType::Float64),
                (PgType::Date, _) => Some(DataType::Date32),
                (PgType::Time, _) => Some(DataType::Time64(TimeUnit::Microsecond)),
                _ => None,
            };
            let strict = arrow::compute::CastOptions { safe: false, ..Default::default() };
            let array = match wanted {
                Some(wanted) if *array.data_type() != wanted => {
                    arrow::compute::cast_with_options(array, &wanted, &strict).map_err(misfit)?
                }
                _ => array.clone(),
            };
            Ok((column.clone(), array, format(formats, place) == 1))
        });
        Ok(Cells { columns: prepared.collect::<Result<_, _>>()? })
    }

    /// Writes one row as a message.
    pub(super) fn row(&self, row: usize, out: &mut Out) -> Result<(), Misfit> {
        out.begin(b'D');
        out.i16(i16::try_from(self.columns.len()).unwrap_or(i16::MAX));
        let mut cell = Vec::new();
        for (column, array, binary) in &self.columns {
            if array.is_null(row) || array.data_type() == &DataType::Null {
                out.value(None);
                continue;
            }
            cell.clear();
            let written = if *binary {
                binary_cell(column.kind, array, row, &mut cell)
            } else {
                text_cell(column.kind, array, row, &mut cell)
            };
            if written.is_none() {
                out.abandon();
                return Err(Misfit(column.name.clone()));
            }
            out.value(Some(&cell));
        }
        out.end();
        Ok(())
    }

    /// The texts of one row; `None` is null.
    pub(super) fn texts(&self, row: usize) -> Result<Vec<Option<Vec<u8>>>, Misfit> {
        let all = self.columns.iter();
        all.map(|(column, array, _)| {
            if array.is_null(row) || array.data_type() == &DataType::Null {
                return Ok(None);
            }
            let mut cell = Vec::new();
            let written = text_cell(column.kind, array, row, &mut cell);
            written.map(|()| Some(cell)).ok_or_else(|| Misfit(column.name.clone()))
        })
        .collect()
    }
}

fn int(array: &dyn Array, row: usize) -> Option<i64> {
    Some(array.as_primitive_opt::<Int64Type>()?.value(row))
}

fn micros(array: &dyn Array, row: usize) -> Option<i64> {
    Some(array.as_primitive_opt::<TimestampMicrosecondType>()?.value(row))
}

/// Text without zeros, which the protocol's text cannot hold.
fn shown(array: &dyn Array, row: usize) -> Option<String> {
    let options = FormatOptions::default();
    ArrayFormatter::try_new(array, &options).ok()?.value(row).try_to_string().ok()
}

fn text_cell(kind: PgType, array: &dyn Array, row: usize, cell: &mut Vec<u8>) -> Option<()> {
    match kind {
        PgType::Bool => cell.push(if array.as_boolean_opt()?.value(row) { b't' } else { b'f' }),
        PgType::Int2 | PgType::Int4 | PgType::Int8 => {
            cell.extend(int(array, row)?.to_string().bytes());
        }
        PgType::Float4 => float(
            f64::from(array.as_primitive_opt::<Float32Type>()?.value(row)),
            || Some(array.as_primitive_opt::<Float32Type>()?.value(row).to_string()),
            cell,
        )?,
        PgType::Float8 => {
            let number = array.as_primitive_opt::<Float64Type>()?.value(row);
            float(number, || Some(number.to_string()), cell)?;
        }
        PgType::Uuid => {
            let id = Uuid::from_slice(array.as_fixed_size_binary_opt()?.value(row)).ok()?;
            cell.extend(id.to_string().bytes());
        }
        PgType::Bytea => {
            let bytes = cast(&arrow::array::make_array(array.to_data()), &DataType::Binary).ok()?;
            let bytes = bytes.as_binary_opt::<i32>()?.value(row).to_vec();
            cell.extend(b"\\x");
            cell.extend(sealcast_common::fault::hex(&bytes).bytes());
        }
        PgType::Timestamptz => {
            let text = Micros(micros(array, row)?).to_rfc3339();
            cell.extend(text.replace('T', " ").replace('Z', "+00").bytes());
        }
        PgType::Timestamp => {
            let text = Micros(micros(array, row)?).to_rfc3339();
            cell.extend(text.replace('T', " ").replace('Z', "").bytes());
        }
        PgType::Text | PgType::Json | PgType::Varchar if array.as_string_opt::<i32>().is_some() => {
            let text = array.as_string_opt::<i32>()?.value(row);
            cell.extend(text.bytes().filter(|byte| *byte != 0));
        }
        _ => cell.extend(shown(array, row)?.bytes().filter(|byte| *byte != 0)),
    }
    Some(())
}

fn float(number: f64, text: impl Fn() -> Option<String>, cell: &mut Vec<u8>) -> Option<()> {
    let text = match number {
        number if number.is_nan() => "NaN".to_owned(),
        f64::INFINITY => "Infinity".to_owned(),
        f64::NEG_INFINITY => "-Infinity".to_owned(),
        _ => text()?,
    };
    cell.extend(text.bytes());
    Some(())
}

fn binary_cell(kind: PgType, array: &dyn Array, row: usize, cell: &mut Vec<u8>) -> Option<()> {
    match kind {
        PgType::Bool => cell.push(u8::from(array.as_boolean_opt()?.value(row))),
        PgType::Int2 => cell.extend(i16::try_from(int(array, row)?).ok()?.to_be_bytes()),
        PgType::Int4 => cell.extend(i32::try_from(int(array, row)?).ok()?.to_be_bytes()),
        PgType::Int8 => cell.extend(int(array, row)?.to_be_bytes()),
        PgType::Float4 => {
            cell.extend(array.as_primitive_opt::<Float32Type>()?.value(row).to_be_bytes());
        }
        PgType::Float8 => {
            cell.extend(array.as_primitive_opt::<Float64Type>()?.value(row).to_be_bytes());
        }
        PgType::Uuid => cell.extend(array.as_fixed_size_binary_opt()?.value(row)),
        PgType::Bytea => {
            let bytes = cast(&arrow::array::make_array(array.to_data()), &DataType::Binary).ok()?;
            cell.extend(bytes.as_binary_opt::<i32>()?.value(row));
        }
        PgType::Timestamp | PgType::Timestamptz => {
            cell.extend(micros(array, row)?.checked_sub(EPOCH_MICROS)?.to_be_bytes());
        }
        PgType::Date => {
            let days = array.as_primitive_opt::<Date32Type>()?.value(row);
            cell.extend(days.checked_sub(EPOCH_DAYS)?.to_be_bytes());
        }
        PgType::Time => {
            let micros = array.as_primitive_opt::<Time64MicrosecondType>()?.value(row);
            cell.extend(micros.to_be_bytes());
        }
        PgType::Numeric => cell.extend(numeric::to_binary(&shown(array, row)?)),
        PgType::Text | PgType::Json | PgType::Varchar | PgType::Oid => {
            text_cell(kind, array, row, cell)?;
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        ArrayRef, BooleanArray, Decimal128Array, Float64Array, StringArray,
        TimestampMicrosecondArray, UInt64Array,
    };

    use super::*;

    fn cells(array: ArrayRef, format: i16) -> Result<Vec<u8>, Misfit> {
        let batch = RecordBatch::try_from_iter([("c", array)]).unwrap();
        let columns = columns(&batch.schema());
        let mut out = Out::default();
        Cells::new(&batch, &columns, &[format])?.row(0, &mut out)?;
        // Kind, length, count, length of the value.
        Ok(out.take()[11..].to_vec())
    }

    #[test]
    fn both_forms() {
        let time = || {
            Arc::new(
                TimestampMicrosecondArray::from(vec![1_700_000_000_000_123]).with_timezone("UTC"),
            )
        };
        assert_eq!(cells(time(), 0).unwrap(), b"2023-11-14 22:13:20.000123+00");
        let binary = 1_700_000_000_000_123 - EPOCH_MICROS;
        assert_eq!(cells(time(), 1).unwrap(), binary.to_be_bytes());
        assert_eq!(cells(Arc::new(BooleanArray::from(vec![true])), 0).unwrap(), b"t");
        assert_eq!(
            cells(Arc::new(Float64Array::from(vec![f64::INFINITY])), 0).unwrap(),
            b"Infinity"
        );
        assert_eq!(cells(Arc::new(StringArray::from(vec!["a\0b"])), 0).unwrap(), b"ab");
        let decimal = || {
            Arc::new(
                Decimal128Array::from(vec![1_234_567]).with_precision_and_scale(10, 2).unwrap(),
            )
        };
        assert_eq!(cells(decimal(), 0).unwrap(), b"12345.67");
        assert_eq!(cells(decimal(), 1).unwrap(), numeric::to_binary("12345.67"));
        assert_eq!(cells(Arc::new(UInt64Array::from(vec![7])), 1).unwrap(), 7_i64.to_be_bytes());
        assert!(cells(Arc::new(UInt64Array::from(vec![u64::MAX])), 1).is_err(), "never cut");
    }
}
