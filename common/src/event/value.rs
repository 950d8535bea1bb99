//! `attributes` as a tree: read strictly from JSON, written as canonical JSON or as CBOR.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer as _, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::number::Number;
use crate::cbor::Writer;
use crate::limits::ATTRIBUTES_DEPTH_MAX;

/// A JSON value. Members of an object are sorted by the bytes of their names, without duplicates.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `null` (kept: a source that says null has said something).
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number, never rounded.
    Number(Number),
    /// Text.
    Text(String),
    /// A list.
    List(Vec<Value>),
    /// An object.
    Object(Vec<(String, Value)>),
}

/// Why a JSON text is not a value that can be evidence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// Not JSON.
    #[error("invalid json: {0}")]
    Syntax(String),
    /// Nested beyond the bound.
    #[error("nested deeper than {max} levels")]
    Depth {
        /// The bound, levels.
        max: usize,
    },
    /// A name occurs twice in one object.
    #[error("duplicate key {0:?}")]
    Duplicate(String),
    /// A literal that is too long or too large to keep exactly.
    #[error("number {0:?} has too many digits or too large an exponent")]
    Number(String),
}

impl Value {
    /// Reads one JSON text of at most `depth` levels.
    pub fn parse(raw: &RawValue, depth: usize) -> Result<Value, ValueError> {
        let text = raw.get().trim_matches([' ', '\t', '\r', '\n']);
        let syntax = |error: serde_json::Error| ValueError::Syntax(error.to_string());
        match text.as_bytes().first() {
            Some(b'{') => {
                let depth =
                    depth.checked_sub(1).ok_or(ValueError::Depth { max: ATTRIBUTES_DEPTH_MAX })?;
                let mut members = members(text)?
                    .into_iter()
                    .map(|(name, raw)| Ok((name.into_owned(), Value::parse(raw, depth)?)))
                    .collect::<Result<Vec<_>, ValueError>>()?;
                members.sort_by(|a, b| a.0.cmp(&b.0));
                if let Some(pair) = members.windows(2).find(|pair| pair[0].0 == pair[1].0) {
                    return Err(ValueError::Duplicate(pair[0].0.clone()));
                }
                Ok(Value::Object(members))
            }
            Some(b'[') => {
                let depth =
                    depth.checked_sub(1).ok_or(ValueError::Depth { max: ATTRIBUTES_DEPTH_MAX })?;
                let items = items(text)?;
                Ok(Value::List(
                    items
                        .into_iter()
                        .map(|raw| Value::parse(raw, depth))
                        .collect::<Result<_, _>>()?,
                ))
            }
            Some(b'"') => Ok(Value::Text(serde_json::from_str(text).map_err(syntax)?)),
            Some(b't') => Ok(Value::Bool(true)),
            Some(b'f') => Ok(Value::Bool(false)),
            Some(b'n') => Ok(Value::Null),
            _ => match Number::parse(text) {
                Some(number) => Ok(Value::Number(number)),
                None => Err(ValueError::Number(text.chars().take(40).collect())),
            },
        }
    }

    /// Reads stored canonical text, of any depth that storage allows.
    pub fn parse_text(text: &str) -> Result<Value, ValueError> {
        let raw: &RawValue =
            serde_json::from_str(text).map_err(|error| ValueError::Syntax(error.to_string()))?;
        Value::parse(raw, ATTRIBUTES_DEPTH_MAX)
    }

    /// Canonical JSON: sorted names, no white space, canonical numbers.
    pub fn write_json(&self, out: &mut String) {
        match self {
            Value::Null => out.push_str("null"),
            Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Value::Number(number) => number.write_text(out),
            Value::Text(text) => write_json_text(text, out),
            Value::List(items) => {
                out.push('[');
                for (i, item) in items.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    item.write_json(out);
                }
                out.push(']');
            }
            Value::Object(members) => {
                out.push('{');
                for (i, (name, value)) in members.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    write_json_text(name, out);
                    out.push(':');
                    value.write_json(out);
                }
                out.push('}');
            }
        }
    }

    /// Deterministic CBOR: map keys in the order of their encodings (shorter first, then bytes).
    pub fn write_cbor(&self, out: &mut Writer) {
        match self {
            Value::Null => {
                out.null();
            }
            Value::Bool(value) => {
                out.bool(*value);
            }
            Value::Number(number) => number.write_cbor(out),
            Value::Text(text) => {
                out.text(text);
            }
            Value::List(items) => {
                out.array(items.len());
                for item in items {
                    item.write_cbor(out);
                }
            }
            Value::Object(members) => {
                out.map(members.len());
                for (name, value) in cbor_order(members) {
                    out.text(name);
                    value.write_cbor(out);
                }
            }
        }
    }
}

/// The members in the order that deterministic CBOR demands.
pub(super) fn cbor_order(members: &[(String, Value)]) -> Vec<&(String, Value)> {
    let mut order: Vec<_> = members.iter().collect();
    order.sort_by(|a, b| a.0.len().cmp(&b.0.len()).then_with(|| a.0.cmp(&b.0)));
    order
}

/// JSON string with the shortest escapes (RFC 8259 §7; control characters as `\u00xx`).
pub(super) fn write_json_text(text: &str, out: &mut String) {
    use fmt::Write as _;
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if u32::from(c) < 0x20 => {
                let _infallible = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// The members of a JSON object, in the text's order, duplicates included.
pub(super) fn members(text: &str) -> Result<Vec<(Cow<'_, str>, &RawValue)>, ValueError> {
    struct Members;
    impl<'de> Visitor<'de> for Members {
        type Value = Vec<(Cow<'de, str>, &'de RawValue)>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut members = Vec::new();
            while let Some((name, value)) = map.next_entry::<Name<'de>, &'de RawValue>()? {
                members.push((name.0, value));
            }
            Ok(members)
        }
    }
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let members = deserializer.deserialize_map(Members).map_err(syntax)?;
    deserializer.end().map_err(syntax)?;
    Ok(members)
}

/// The items of a JSON array.
pub(super) fn items(text: &str) -> Result<Vec<&RawValue>, ValueError> {
    struct Items;
    impl<'de> Visitor<'de> for Items {
        type Value = Vec<&'de RawValue>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an array")
        }
        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            let mut items = Vec::new();
            while let Some(item) = seq.next_element()? {
                items.push(item);
            }
            Ok(items)
        }
    }
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let items = deserializer.deserialize_seq(Items).map_err(syntax)?;
    deserializer.end().map_err(syntax)?;
    Ok(items)
}

fn syntax(error: serde_json::Error) -> ValueError {
    ValueError::Syntax(error.to_string())
}

/// A member name, borrowed from the text unless it holds escapes.
struct Name<'de>(Cow<'de, str>);

impl<'de> serde::Deserialize<'de> for Name<'de> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl<'de> Visitor<'de> for Text {
            type Value = Name<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Name(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Name(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(Text)
    }
}
