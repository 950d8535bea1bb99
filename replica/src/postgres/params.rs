//! Parameters as clients send them, as the JSON values that HTTP takes.

use sealcast_common::clock::Micros;
use serde_json::{Number, Value};
use uuid::Uuid;

use super::numeric;
use super::state::Refusal;
use crate::sql::{Oid, PgType};

/// 2000-01-01 in microseconds of 1970.
const EPOCH_MICROS: i64 = 946_684_800_000_000;
const DAY_MICROS: i64 = 86_400_000_000;

/// Whether a client's type leaves it to the statement.
pub(super) fn is_open(oid: Oid) -> bool {
    const UNKNOWN: Oid = 705;
    [0, UNKNOWN].contains(&oid)
}

/// Reads the value of `$number`, which its sender calls `oid` and whose place wants `place`.
pub(super) fn value(
    number: usize,
    (oid, binary): (Oid, bool),
    place: Option<PgType>,
    bytes: Option<&[u8]>,
) -> Result<Value, Refusal> {
    let Some(bytes) = bytes else { return Ok(Value::Null) };
    let said = PgType::by_oid(oid);
    if said.is_none() && !is_open(oid) {
        let message = format!("parameter ${number} has type {oid}, which is not taken here");
        return Err(Refusal::new("0A000", message)
            .hint("send one value: text, number, truth, time or uuid"));
    }
    let is_text = matches!(said, None | Some(PgType::Text | PgType::Varchar));
    let kind = if is_text { place.unwrap_or(PgType::Text) } else { said.unwrap_or(PgType::Text) };
    let misfit = || {
        let wanted = kind.facts().3;
        Refusal::new("22P02", format!("parameter ${number} is not a value of type {wanted}"))
    };
    if binary && !is_text {
        return binary_value(kind, bytes).ok_or_else(misfit);
    }
    let text = std::str::from_utf8(bytes).ok();
    // A binary value of a place that says its type: its bytes are that type's.
    let own = binary && oid == 0 && !matches!(kind, PgType::Text | PgType::Varchar | PgType::Json);
    let value = match own {
        true => binary_value(kind, bytes),
        false => text.and_then(|text| text_value(kind, text)),
    };
    value.ok_or_else(misfit)
}

fn text_value(kind: PgType, text: &str) -> Option<Value> {
    Some(match kind {
        PgType::Bool => match text.to_ascii_lowercase().as_str() {
            "t" | "true" | "1" | "on" | "yes" => true.into(),
            "f" | "false" | "0" | "off" | "no" => false.into(),
            _ => return None,
        },
        PgType::Int2 | PgType::Int4 | PgType::Int8 | PgType::Oid => {
            let text = text.trim();
            text.parse::<i64>()
                .map(Value::from)
                .or_else(|_| text.parse::<u64>().map(Value::from))
                .ok()?
        }
        PgType::Float4 | PgType::Float8 | PgType::Numeric => number(text.trim())?,
        _ => text.into(),
    })
}

fn number(text: &str) -> Option<Value> {
    if let Ok(whole) = text.parse::<i64>() {
        return Some(whole.into());
    }
    text.parse().ok().and_then(Number::from_f64).map(Value::Number)
}

fn binary_value(kind: PgType, bytes: &[u8]) -> Option<Value> {
    let time = |micros: i64| Micros(micros).to_rfc3339();
    Some(match kind {
        PgType::Bool => match bytes {
            [flag] => (*flag != 0).into(),
            _ => return None,
        },
        PgType::Int2 | PgType::Int4 | PgType::Int8 | PgType::Oid => match bytes.len() {
            2 => i16::from_be_bytes(bytes.try_into().ok()?).into(),
            4 if kind == PgType::Oid => u32::from_be_bytes(bytes.try_into().ok()?).into(),
            4 => i32::from_be_bytes(bytes.try_into().ok()?).into(),
            8 => i64::from_be_bytes(bytes.try_into().ok()?).into(),
            _ => return None,
        },
        PgType::Float4 => {
            let number = f32::from_be_bytes(bytes.try_into().ok()?);
            Value::Number(Number::from_f64(f64::from(number))?)
        }
        PgType::Float8 => {
            Value::Number(Number::from_f64(f64::from_be_bytes(bytes.try_into().ok()?))?)
        }
        PgType::Numeric => number(&numeric::from_binary(bytes)?)?,
        PgType::Uuid => Uuid::from_slice(bytes).ok()?.to_string().into(),
        // The one column of bytes that there is holds ids.
        PgType::Bytea => Uuid::from_slice(bytes).ok()?.to_string().into(),
        PgType::Timestamp | PgType::Timestamptz => {
            time(i64::from_be_bytes(bytes.try_into().ok()?).checked_add(EPOCH_MICROS)?).into()
        }
        PgType::Date => {
            let days = i64::from(i32::from_be_bytes(bytes.try_into().ok()?));
            let text = time(days.checked_mul(DAY_MICROS)?.checked_add(EPOCH_MICROS)?);
            text.split('T').next()?.into()
        }
        PgType::Time => return None,
        PgType::Text | PgType::Varchar | PgType::Json => std::str::from_utf8(bytes).ok()?.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_binary_become_the_same_value() {
        let read = |oid, binary, place, bytes: &[u8]| value(1, (oid, binary), place, Some(bytes));
        assert_eq!(read(23, true, None, &7_i32.to_be_bytes()).unwrap(), 7);
        assert_eq!(read(0, false, Some(PgType::Int8), b"7").unwrap(), 7);
        assert_eq!(read(25, false, Some(PgType::Int8), b"7").unwrap(), 7);
        assert_eq!(read(0, true, Some(PgType::Int8), &7_i64.to_be_bytes()).unwrap(), 7);
        assert_eq!(read(0, false, None, b"7").unwrap(), "7");
        assert_eq!(read(16, true, None, &[1]).unwrap(), true);
        let micros = 1_700_000_000_000_123 - EPOCH_MICROS;
        let time = read(1184, true, None, &micros.to_be_bytes()).unwrap();
        assert_eq!(time, "2023-11-14T22:13:20.000123Z");
        assert_eq!(value(1, (23, true), None, None).unwrap(), Value::Null);
        assert_eq!(read(23, true, None, b"abc").unwrap_err().state, "22P02");
        assert_eq!(read(1007, true, None, b"").unwrap_err().state, "0A000");
    }
}
