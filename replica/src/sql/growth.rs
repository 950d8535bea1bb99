//! How much a function makes of its arguments, row by row, before it is called.

use std::borrow::Cow;

use arrow::array::{Array as _, ArrayRef, AsArray as _};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;

/// The law by which a result grows. Estimates are never too small.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Growth {
    /// All arguments together.
    Sum,
    /// All arguments, times a constant: `string_to_array` makes a number of every character.
    Times(u64),
    /// One of the second for every row; what a pattern makes takes its time.
    Format,
    /// The first one, as often as the second says.
    Repeat,
    /// As many characters or elements as the second one says.
    Pad,
    /// From the first to the second, by the third.
    Series,
    /// The third one for every place of the first.
    Replace,
    /// The second one between all elements of the first.
    Between,
    /// No bytes, but steps: the first one times the second.
    Work,
}

/// The law of a function; `None` where the result is about as large as the arguments.
pub(super) fn growth_of(function: &str) -> Option<Growth> {
    Some(match function {
        "concat" | "concat_ws" | "overlay" | "array_concat" | "array_append" | "array_prepend"
        | "make_array" | "map" | "arrays_zip" | "array_union" | "named_struct" | "struct" => {
            Growth::Sum
        }
        "translate" | "string_to_array" => Growth::Times(16),
        "to_char" => Growth::Format,
        "repeat" | "array_repeat" => Growth::Repeat,
        "lpad" | "rpad" | "array_resize" => Growth::Pad,
        "range" | "generate_series" => Growth::Series,
        "replace" | "regexp_replace" | "array_replace" | "array_replace_n"
        | "array_replace_all" => Growth::Replace,
        "array_to_string" => Growth::Between,
        "levenshtein" | "array_has_all" | "array_has_any" => Growth::Work,
        _ => return None,
    })
}

/// A number for each row.
enum PerRow {
    Same(u64),
    Each(Vec<u64>),
}

impl PerRow {
    fn at(&self, row: usize) -> u64 {
        match self {
            PerRow::Same(value) => *value,
            PerRow::Each(values) => values.get(row).copied().unwrap_or(0),
        }
    }
}

fn sizes(value: &ColumnarValue) -> Result<PerRow> {
    let array = match value {
        ColumnarValue::Scalar(scalar) => return Ok(PerRow::Same(scalar_size(scalar))),
        ColumnarValue::Array(array) => array,
    };
    let each = match array.data_type() {
        DataType::Utf8 => array.as_string::<i32>().offsets().lengths().map(|n| n as u64).collect(),
        DataType::LargeUtf8 => {
            array.as_string::<i64>().offsets().lengths().map(|n| n as u64).collect()
        }
        DataType::Utf8View => {
            array.as_string_view().views().iter().map(|view| u64::from(*view as u32)).collect()
        }
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            let element = average(list.values())?;
            list.offsets().lengths().map(|n| 8 + n as u64 * element).collect()
        }
        _ => return Ok(PerRow::Same(average(array)?)),
    };
    Ok(PerRow::Each(each))
}

fn scalar_size(scalar: &ScalarValue) -> u64 {
    match scalar.try_as_str() {
        Some(text) => text.map_or(0, |text| text.len() as u64),
        None => scalar.size() as u64,
    }
}

/// Bytes of one value.
fn average(array: &ArrayRef) -> Result<u64> {
    let bytes = array.to_data().get_slice_memory_size()?;
    Ok(bytes.div_ceil(array.len().max(1)) as u64)
}

/// Whole numbers, times and intervals as numbers of their least unit; negative ones as they are.
fn numbers(value: &ColumnarValue) -> Result<Vec<i64>> {
    let array = match value {
        ColumnarValue::Scalar(scalar) => scalar.to_array()?,
        ColumnarValue::Array(array) => ArrayRef::clone(array),
    };
    let array = match array.data_type() {
        DataType::Interval(_) => {
            let interval = DataType::Duration(arrow::datatypes::TimeUnit::Nanosecond);
            // An interval with months has none: any month is longer than its days.
            match cast(&array, &interval) {
                Ok(nanos) => cast(&nanos, &DataType::Int64)?,
                Err(_) => return Ok(vec![86_400_000_000_000; array.len()]),
            }
        }
        DataType::Date32 => {
            let nanos = DataType::Timestamp(arrow::datatypes::TimeUnit::Nanosecond, None);
            cast(&cast(&array, &nanos)?, &DataType::Int64)?
        }
        DataType::Timestamp(_, zone) => {
            let nanos = DataType::Timestamp(arrow::datatypes::TimeUnit::Nanosecond, zone.clone());
            cast(&cast(&array, &nanos)?, &DataType::Int64)?
        }
        _ => cast(&array, &DataType::Int64)?,
    };
    let numbers = array.as_primitive::<Int64Type>();
    Ok(numbers.iter().map(|number| number.unwrap_or(0)).collect())
}

fn number_at(numbers: &[i64], row: usize) -> i64 {
    let only = if numbers.len() == 1 { numbers.first() } else { None };
    only.or_else(|| numbers.get(row)).copied().unwrap_or(0)
}

impl Growth {
    pub(super) fn is_work(self) -> bool {
        self == Growth::Work
    }

    /// Of an estimate, what is certainly made: nothing is begun that is refused in the end anyway.
    pub(super) fn least(self, estimate: u64) -> u64 {
        match self {
            Growth::Repeat | Growth::Series | Growth::Format => estimate,
            Growth::Pad => estimate / 8,
            _ => 0,
        }
    }

    /// Gives the estimate for each row of a call with `args`.
    pub(super) fn weigher(self, args: &[ColumnarValue]) -> Result<Box<dyn Fn(usize) -> u64>> {
        let sizes: Vec<PerRow> = args.iter().map(sizes).collect::<Result<_>>()?;
        let numbers: Vec<Cow<'static, [i64]>> = match self {
            Growth::Repeat | Growth::Pad => {
                vec![args.get(1).map_or(Ok(Vec::new()), numbers)?.into()]
            }
            Growth::Series => {
                args.iter().map(|arg| Ok(numbers(arg)?.into())).collect::<Result<_>>()?
            }
            _ => Vec::new(),
        };
        Ok(Box::new(move |row| {
            let size = |i: usize| sizes.get(i).map_or(0, |sizes: &PerRow| sizes.at(row));
            let number = |i: usize| numbers.get(i).map(|numbers| number_at(numbers, row));
            let sum = sizes.iter().fold(0_u64, |sum, sizes| sum.saturating_add(sizes.at(row)));
            let count = || u64::try_from(number(0).unwrap_or(0)).unwrap_or(0);
            match self {
                Growth::Sum => sum,
                Growth::Format => sum.saturating_mul(16),
                Growth::Times(factor) => sum.saturating_mul(factor),
                Growth::Repeat => size(0).max(1).saturating_mul(count()),
                Growth::Pad => sum.saturating_add(count().saturating_mul(8)),
                Growth::Series => series(number(0), number(1), number(2)),
                Growth::Replace => size(0).saturating_add(1).saturating_mul(size(2) + 1),
                Growth::Between => size(0).saturating_mul(size(1) + 4),
                Growth::Work => size(0).saturating_mul(size(1)),
            }
        }))
    }
}

/// Bytes of the numbers of a series; with one argument it begins at 0.
fn series(first: Option<i64>, second: Option<i64>, step: Option<i64>) -> u64 {
    let (start, stop) = match (first, second) {
        (Some(start), Some(stop)) => (start, stop),
        (stop, _) => (0, stop.unwrap_or(0)),
    };
    let step = step.unwrap_or(1).unsigned_abs().max(1);
    (start.abs_diff(stop) / step).saturating_add(1).saturating_mul(8)
}
