//! Parameters of a prepared statement: one row of Arrow, read as the JSON values that HTTP takes, so
//! that both are typed by where they stand.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, AsArray as _, RecordBatch};
use arrow::datatypes::{DataType, Float64Type, Int64Type, UInt64Type};
use arrow::ipc::{MessageHeader, root_as_message};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use arrow_flight::FlightData;
use arrow_flight::utils::flight_data_to_batches;
use futures::{Stream, StreamExt as _};
use sealcast_common::fault::Kind;
use sealcast_common::limits::SQL_PARAMS_MAX;
use sealcast_common::serve::Problem;
use serde_json::Value;
use tonic::Status;
use uuid::Uuid;

use super::status::status;
use super::{MESSAGE_BYTES_MAX, invalid};
use crate::sql::Params;

/// Schema, row, and what stands around them.
const MESSAGES_MAX: usize = 16 + SQL_PARAMS_MAX;

/// Reads the row that a client sends, for the parameters `places`.
pub(super) async fn params(
    messages: impl Stream<Item = Result<FlightData, Status>> + Unpin,
    places: &[String],
) -> Result<Option<Params>, Status> {
    let batch = row(messages).await?;
    let values = values(&batch).map_err(|problem| status(&problem))?;
    Ok(named(values, places))
}

async fn row(
    mut messages: impl Stream<Item = Result<FlightData, Status>> + Unpin,
) -> Result<RecordBatch, Status> {
    let (mut kept, mut bytes) = (Vec::new(), 0);
    while let Some(message) = messages.next().await {
        let message = message?;
        bytes += message.data_header.len() + message.data_body.len();
        if bytes > MESSAGE_BYTES_MAX || kept.len() >= MESSAGES_MAX {
            return Err(invalid(format!("parameters take more than {MESSAGE_BYTES_MAX} bytes")));
        }
        // Metadata alone says nothing of rows.
        if !message.data_header.is_empty() {
            check(&message, kept.is_empty())?;
            kept.push(message);
        }
    }
    // Apart, because it reads what a stranger has made: should that break it, only that breaks.
    let read = tokio::task::spawn_blocking(move || flight_data_to_batches(&kept)).await;
    let batches = read.map_err(|_| invalid("parameters cannot be read"))?;
    let batches =
        batches.map_err(|error| invalid(format!("parameters cannot be read: {error}")))?;
    let mut rows = batches.into_iter().filter(|batch| batch.num_rows() > 0);
    match (rows.next(), rows.next()) {
        (Some(batch), None) if batch.num_rows() == 1 => Ok(batch),
        (None, _) => Err(invalid("parameters have no row; expected one row of values")),
        _ => Err(invalid(
            "parameters have several rows; expected one: run the statement once for each",
        )),
    }
}

/// What is claimed is judged before anything is set aside for it.
fn check(message: &FlightData, first: bool) -> Result<(), Status> {
    let header = root_as_message(&message.data_header);
    let header = header.map_err(|_| invalid("parameters are not Arrow messages"))?;
    let plain = |batch: arrow::ipc::RecordBatch<'_>, rows_max: i64| {
        batch.compression().is_none() && (0..=rows_max).contains(&batch.length())
    };
    let good = match header.header_type() {
        MessageHeader::Schema => first,
        MessageHeader::RecordBatch => {
            !first && header.header_as_record_batch().is_some_and(|batch| plain(batch, 1))
        }
        MessageHeader::DictionaryBatch => {
            let batch = header.header_as_dictionary_batch();
            !first && batch.and_then(|batch| batch.data()).is_some_and(|batch| plain(batch, 1_024))
        }
        _ => false,
    };
    if good {
        return Ok(());
    }
    Err(invalid("parameters are not a schema and one uncompressed row"))
}

/// Name and value of each column.
fn values(batch: &RecordBatch) -> Result<Vec<(String, Value)>, Problem> {
    let schema = batch.schema();
    let columns = schema.fields().iter().zip(batch.columns());
    columns
        .map(|(field, column)| Ok((field.name().clone(), value(field.name(), column)?)))
        .collect()
}

fn value(name: &str, column: &Arc<dyn Array>) -> Result<Value, Problem> {
    if column.is_null(0) || column.data_type() == &DataType::Null {
        return Ok(Value::Null);
    }
    let misfit = |expected: &str| {
        let found = column.data_type().to_string();
        let found: String = found.chars().take(64).collect();
        let detail = format!("parameter {name} does not fit: found {found}, expected {expected}");
        Problem::new(Kind::Invalid, "parameter_invalid", detail)
            .status(axum::http::StatusCode::UNPROCESSABLE_ENTITY)
    };
    let cast = |to: &DataType| {
        arrow::compute::cast(column, to)
            .map_err(|_| misfit("null, a truth, a number, a text or a time"))
    };
    Ok(match column.data_type() {
        DataType::Boolean => column.as_boolean().value(0).into(),
        unsigned if unsigned.is_unsigned_integer() => {
            cast(&DataType::UInt64)?.as_primitive::<UInt64Type>().value(0).into()
        }
        signed if signed.is_signed_integer() => {
            cast(&DataType::Int64)?.as_primitive::<Int64Type>().value(0).into()
        }
        float if float.is_floating() || float.is_decimal() => {
            let number = cast(&DataType::Float64)?.as_primitive::<Float64Type>().value(0);
            let number = serde_json::Number::from_f64(number);
            Value::Number(number.ok_or_else(|| misfit("a finite number"))?)
        }
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => {
            let bytes = cast(&DataType::Binary)?;
            let id = Uuid::from_slice(bytes.as_binary::<i32>().value(0));
            id.map_err(|_| misfit("16 bytes of a uuid"))?.to_string().into()
        }
        DataType::Dictionary(_, values) => {
            let plain = cast(values)?;
            return value(name, &plain);
        }
        nested if nested.is_nested() => return Err(misfit("one value, not several")),
        _ => {
            let options = FormatOptions::default();
            let text = ArrayFormatter::try_new(column, &options).map_err(|_| misfit("a text"))?;
            text.value(0).try_to_string().map_err(|_| misfit("a text"))?.into()
        }
    })
}

/// By name where the statement's parameters have names and the columns the same ones, else by
/// order.
fn named(values: Vec<(String, Value)>, places: &[String]) -> Option<Params> {
    let bare = |name: &str| name.trim_start_matches(['$', ':', '@']).to_owned();
    let are_named = places.iter().any(|place| bare(place).parse::<u32>().is_err());
    if !are_named {
        let list: Vec<Value> = values.into_iter().map(|(_, value)| value).collect();
        return (!list.is_empty()).then_some(Params::Positional(list));
    }
    let known = |name: &str| places.iter().any(|place| bare(place) == bare(name));
    // Too many or too few are told by the names that do not fit.
    let by_name = values.len() != places.len() || values.iter().all(|(name, _)| known(name));
    let map: HashMap<String, Value> = match by_name {
        true => values.into_iter().map(|(name, value)| (bare(&name), value)).collect(),
        false => {
            let values = values.into_iter().map(|(_, value)| value);
            places.iter().map(|place| bare(place)).zip(values).collect()
        }
    };
    Some(Params::Named(map))
}
