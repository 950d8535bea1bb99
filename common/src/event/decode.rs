//! The write-ahead log's form back into an event: strict, and re-encoded to prove it.

use super::full::encode_full;
use super::leaf::{LEAF_VERSION, Position, key};
use super::number::Number;
use super::value::Value;
use super::{Event, Target};
use crate::cbor::Reader;
use crate::clock::Micros;
use crate::fault::Corruption;
use crate::limits::ATTRIBUTES_DEPTH_MAX;

/// Reads what [`encode_full`] wrote. Anything that does not encode to the same bytes is refused.
pub fn decode_full(bytes: &[u8], check: &'static str) -> Result<(Event, Position), Corruption> {
    let mut reader = Reader::new(bytes, check);
    let (event, position) = read_map(&mut reader)?;
    reader.end()?;
    let again = encode_full(&event.as_ref(), &position)
        .map_err(|error| Corruption::new(check, 0, "canonical attributes", error.to_string()))?;
    if again == bytes {
        return Ok((event, position));
    }
    Err(Corruption::new(check, 0, "deterministic cbor", "an encoding that is not canonical"))
}

fn read_map(reader: &mut Reader<'_>) -> Result<(Event, Position), Corruption> {
    let mut event = Event::default();
    let mut position = Position { log_id: [0; 16], seq: 0, ingested_at: Micros(0) };
    for _ in 0..reader.map()? {
        let at = reader.position() as u64;
        match reader.uint()? {
            key::VERSION => {
                let version = reader.uint()?;
                if version != LEAF_VERSION {
                    let expected = format!("leaf version {LEAF_VERSION}");
                    return Err(Corruption::new(reader.check(), at, expected, version.to_string()));
                }
            }
            key::LOG_ID => position.log_id = reader.bytes_exact()?,
            key::SEQ => position.seq = reader.uint()?,
            key::TIME => event.time = Micros(reader.int()?),
            key::INGESTED_AT => position.ingested_at = Micros(reader.int()?),
            key::EVENT_ID => event.event_id = reader.bytes_exact()?,
            key::TENANT => event.tenant = reader.text()?.to_owned(),
            key::ACTION => event.action = reader.text()?.to_owned(),
            key::SEVERITY => event.severity = Some(reader.narrow()?),
            key::TARGETS => event.targets = read_targets(reader)?,
            key::ATTRIBUTES => {
                let mut text = String::new();
                read_value(reader, ATTRIBUTES_DEPTH_MAX)?.write_json(&mut text);
                event.attributes = Some(text);
            }
            key => match text_field(&mut event, key) {
                Some(field) => *field = Some(reader.text()?.to_owned()),
                None => {
                    let found = format!("key {key}");
                    return Err(Corruption::new(reader.check(), at, "a known key", found));
                }
            },
        }
    }
    Ok((event, position))
}

fn text_field(event: &mut Event, key: u64) -> Option<&mut Option<String>> {
    Some(match key {
        key::CATEGORY => &mut event.category,
        key::ACTOR_TYPE => &mut event.actor_type,
        key::ACTOR_ID => &mut event.actor_id,
        key::ACTOR_NAME => &mut event.actor_name,
        key::OUTCOME => &mut event.outcome,
        key::OUTCOME_REASON => &mut event.outcome_reason,
        key::SOURCE_IP => &mut event.source_ip,
        key::USER_AGENT => &mut event.user_agent,
        key::SERVICE => &mut event.service,
        key::REQUEST_ID => &mut event.request_id,
        key::SESSION_ID => &mut event.session_id,
        key::TRACE_ID => &mut event.trace_id,
        key::MESSAGE => &mut event.message,
        _ => return None,
    })
}

fn read_targets(reader: &mut Reader<'_>) -> Result<Vec<Target>, Corruption> {
    let mut targets = Vec::new();
    for _ in 0..reader.array()? {
        let mut target = Target::default();
        for _ in 0..reader.map()? {
            let at = reader.position() as u64;
            let key = reader.uint()?;
            let field = match key {
                0 => &mut target.kind,
                1 => &mut target.id,
                2 => &mut target.name,
                _ => {
                    let found = format!("key {key}");
                    return Err(Corruption::new(reader.check(), at, "key 0, 1 or 2", found));
                }
            };
            *field = Some(reader.text()?.to_owned());
        }
        targets.push(target);
    }
    Ok(targets)
}

/// One attribute value; depth is bounded before anything is built.
fn read_value(reader: &mut Reader<'_>, depth: usize) -> Result<Value, Corruption> {
    use minicbor::data::Type;
    let at = reader.position() as u64;
    let check = reader.check();
    let malformed = |what: String| Corruption::new(check, at, "an attribute value", what);
    let deeper =
        || depth.checked_sub(1).ok_or_else(|| malformed("nesting beyond the bound".to_owned()));
    let kind = reader.decoder().datatype().map_err(|error| malformed(error.to_string()))?;
    Ok(match kind {
        Type::Null => {
            reader.null()?;
            Value::Null
        }
        Type::Bool => Value::Bool(reader.bool()?),
        Type::String => Value::Text(reader.text()?.to_owned()),
        Type::F16 | Type::F32 | Type::F64 => {
            let float = read_float(reader, kind).map_err(|error| malformed(error.to_string()))?;
            Value::Number(Number::Float(float))
        }
        Type::Array => {
            let depth = deeper()?;
            let length = reader.array()?;
            Value::List((0..length).map(|_| read_value(reader, depth)).collect::<Result<_, _>>()?)
        }
        Type::Map => {
            let depth = deeper()?;
            let length = reader.map()?;
            let mut members = (0..length)
                .map(|_| Ok((reader.text()?.to_owned(), read_value(reader, depth)?)))
                .collect::<Result<Vec<_>, Corruption>>()?;
            members.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(members)
        }
        Type::Tag => read_decimal(reader)?,
        _ => match reader.decoder().int().map(i128::from) {
            Ok(value) => match (i64::try_from(value), u64::try_from(value)) {
                (Ok(value), _) => Value::Number(Number::Int(value)),
                (_, Ok(value)) => Value::Number(Number::Uint(value)),
                _ => return Err(malformed(format!("integer {value}"))),
            },
            Err(error) => return Err(malformed(error.to_string())),
        },
    })
}

fn read_float(
    reader: &mut Reader<'_>,
    kind: minicbor::data::Type,
) -> Result<f64, minicbor::decode::Error> {
    let decoder = reader.decoder();
    match kind {
        minicbor::data::Type::F32 => decoder.f32().map(f64::from),
        minicbor::data::Type::F64 => decoder.f64(),
        _ => {
            // A half has no type of its own in the reader: two bytes after the head.
            let at = decoder.position();
            let bytes = decoder.input().get(at + 1..at + 3).unwrap_or_default();
            let bits = bytes.iter().fold(0u16, |bits, byte| (bits << 8) | u16::from(*byte));
            decoder.skip()?;
            Ok(half_value(bits))
        }
    }
}

fn half_value(bits: u16) -> f64 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let (exponent, mantissa) = (i32::from((bits >> 10) & 0x1f), f64::from(bits & 0x3ff));
    sign * match exponent {
        0 => mantissa * 2f64.powi(-24),
        31 if mantissa == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1.0 + mantissa / 1024.0) * 2f64.powi(exponent - 15),
    }
}

/// Tag 4: `[exponent, mantissa]`, the mantissa an integer or a bignum.
fn read_decimal(reader: &mut Reader<'_>) -> Result<Value, Corruption> {
    let at = reader.position() as u64;
    let check = reader.check();
    let malformed = |what: String| Corruption::new(check, at, "a decimal fraction", what);
    let tag = reader.decoder().tag().map_err(|error| malformed(error.to_string()))?;
    if tag.as_u64() != 4 {
        return Err(malformed(format!("tag {}", tag.as_u64())));
    }
    reader.array_exact(2)?;
    let exponent = reader.int()?;
    let (negative, digits) = match reader.decoder().datatype() {
        Ok(minicbor::data::Type::Tag) => {
            let tag = reader.decoder().tag().map_err(|error| malformed(error.to_string()))?;
            let mut magnitude = reader.bytes()?.to_vec();
            if magnitude.len() > 256 || !(2..=3).contains(&tag.as_u64()) {
                return Err(malformed("an unknown or oversized mantissa".into()));
            }
            let negative = tag.as_u64() == 3;
            if negative {
                magnitude.insert(0, 0);
                for byte in magnitude.iter_mut().rev() {
                    let (more, carry) = byte.overflowing_add(1);
                    *byte = more;
                    if !carry {
                        break;
                    }
                }
            }
            (negative, decimal_digits(magnitude))
        }
        _ => {
            let value = reader.decoder().int().map(i128::from);
            let value = value.map_err(|error| malformed(error.to_string()))?;
            (value < 0, value.unsigned_abs().to_string())
        }
    };
    Ok(Value::Number(Number::Decimal { negative, digits, exponent }))
}

/// A big-endian magnitude as decimal digits.
fn decimal_digits(mut magnitude: Vec<u8>) -> String {
    let mut digits = Vec::new();
    while magnitude.iter().any(|byte| *byte != 0) {
        let mut remainder = 0u16;
        for byte in &mut magnitude {
            let value = (remainder << 8) | u16::from(*byte);
            *byte = (value / 10) as u8;
            remainder = value % 10;
        }
        digits.push(char::from(b'0' + remainder as u8));
    }
    digits.into_iter().rev().collect()
}
