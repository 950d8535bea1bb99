//! Parameters: JSON values typed by where they stand, never spliced into the text.

use std::collections::HashMap;

use arrow::datatypes::DataType;
use datafusion::common::metadata::ScalarAndMetadata;
use datafusion::common::{ParamValues, ScalarValue};
use datafusion::logical_expr::LogicalPlan;
use sealcast_common::limits::SQL_PARAMS_MAX;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use super::error::QueryError;

/// As a request carries them.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(untagged)]
pub enum Params {
    /// For `$1`, `$2` … or for each `?`.
    Positional(Vec<Value>),
    /// For `$name`.
    Named(HashMap<String, Value>),
}

impl Params {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many.
    pub fn len(&self) -> usize {
        match self {
            Params::Positional(list) => list.len(),
            Params::Named(map) => map.len(),
        }
    }
}

/// Puts `params` into `plan`. Every place needs a value, and every value a place.
pub(super) fn bind(plan: LogicalPlan, params: Option<&Params>) -> Result<LogicalPlan, QueryError> {
    let places = plan.get_parameter_fields()?;
    let count = params.map_or(0, Params::len);
    if count > SQL_PARAMS_MAX {
        return Err(QueryError::TooLarge { what: "parameters", found: count, max: SQL_PARAMS_MAX });
    }
    let type_of = |name: &str| {
        let field = places.get(name).cloned().flatten();
        field.map(|field| field.data_type().clone())
    };
    let values = match params {
        None => ParamValues::List(Vec::new()),
        Some(Params::Positional(list)) => {
            let values = list.iter().enumerate().map(|(i, value)| {
                let name = format!("${}", i + 1);
                if !places.contains_key(&name) {
                    return Err(without_place(&name));
                }
                scalar(&name, value, type_of(&name)).map(ScalarAndMetadata::from)
            });
            ParamValues::List(values.collect::<Result<_, _>>()?)
        }
        Some(Params::Named(map)) => {
            let values = map.iter().map(|(key, value)| {
                let name = format!("${key}");
                if !places.contains_key(&name) {
                    return Err(without_place(&name));
                }
                Ok((key.clone(), scalar(&name, value, type_of(&name))?.into()))
            });
            ParamValues::Map(values.collect::<Result<_, _>>()?)
        }
    };
    // The first by name: a refusal is the same each time.
    let missing =
        places.keys().filter(|name| values.get_placeholders_with_values(name).is_err()).min();
    if let Some(name) = missing {
        return Err(QueryError::Parameter {
            name: name.clone(),
            found: "no value".into(),
            expected: "a value in params".into(),
        });
    }
    if places.is_empty() {
        return Ok(plan);
    }
    Ok(plan.with_param_values(values)?)
}

/// The parameters of `plan`: by number, then by name.
pub(super) fn places(plan: &LogicalPlan) -> Result<Vec<(String, Option<DataType>)>, QueryError> {
    let fields = plan.get_parameter_fields()?.into_iter();
    let mut places: Vec<_> =
        fields.map(|(name, field)| (name, field.map(|field| field.data_type().clone()))).collect();
    let number = |name: &str| name.trim_start_matches('$').parse().unwrap_or(u32::MAX);
    places.sort_by_cached_key(|(name, _)| (number(name), name.clone()));
    Ok(places)
}

fn without_place(name: &str) -> QueryError {
    QueryError::Parameter {
        name: name.to_owned(),
        found: "a value".into(),
        expected: "a place in the statement that uses it".into(),
    }
}

/// A JSON value as the type that its place needs; by itself where the place does not say.
fn scalar(name: &str, value: &Value, wanted: Option<DataType>) -> Result<ScalarValue, QueryError> {
    let misfit = |expected: String| QueryError::Parameter {
        name: name.to_owned(),
        found: shown(value),
        expected,
    };
    let natural = match value {
        Value::Null => ScalarValue::Null,
        Value::Bool(flag) => ScalarValue::Boolean(Some(*flag)),
        Value::Number(number) => {
            let whole = number.as_i64().map(|n| ScalarValue::Int64(Some(n)));
            whole
                .or_else(|| number.as_u64().map(|n| ScalarValue::UInt64(Some(n))))
                .or_else(|| number.as_f64().map(|n| ScalarValue::Float64(Some(n))))
                .ok_or_else(|| misfit("a number".into()))?
        }
        Value::String(text) => ScalarValue::Utf8(Some(text.clone())),
        Value::Array(_) | Value::Object(_) => {
            return Err(misfit("null, true, false, a number or a text".into()));
        }
    };
    let Some(wanted) = wanted else { return Ok(natural) };
    if let (DataType::FixedSizeBinary(16), Value::String(text)) = (&wanted, value) {
        let id = Uuid::try_parse(text).map_err(|_| misfit("a uuid".into()))?;
        return Ok(ScalarValue::FixedSizeBinary(16, Some(id.as_bytes().to_vec())));
    }
    let fits = match value {
        Value::Null => true,
        Value::Bool(_) => wanted == DataType::Boolean,
        Value::Number(_) => wanted.is_numeric(),
        // Text is cast: into a time, into a dictionary, into itself; not into a number.
        _ => !wanted.is_numeric() && wanted != DataType::Boolean,
    };
    let cast = natural.cast_to(&wanted).ok().filter(|_| fits);
    // An integer's place takes no fraction: what is cast back must be what was given.
    let exact = cast.filter(|cast| {
        let back = cast.cast_to(&natural.data_type());
        !wanted.is_integer() || value.is_null() || back.is_ok_and(|back| back == natural)
    });
    exact.ok_or_else(|| misfit(wanted.to_string()))
}

fn shown(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= 64 {
        text
    } else {
        text.chars().take(64).collect::<String>() + "…"
    }
}
