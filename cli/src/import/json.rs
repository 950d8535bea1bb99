//! JSON as text: takes objects apart and puts them together without touching their values.
//!
//! `serde_json::Value` would round numbers to 64 bits and keep the last of two equal keys. Neither
//! may happen to evidence.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::error::Category;
use serde_json::value::RawValue;

/// Nesting that [`canonical`] follows.
pub(super) const DEPTH_MAX: usize = 64;

/// The members of an object in their order, each name once; values are untouched text.
pub(super) struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'a> Members<'a> {
    /// Parses an object; the error names what is wrong and at which column.
    pub(super) fn parse(text: &'a str) -> Result<Members<'a>, String> {
        if let Some(other) = text.chars().find(|c| !c.is_ascii_whitespace()).filter(|c| *c != '{') {
            return Err(format!("`{other}`"));
        }
        serde_json::from_str(text).map_err(|error| describe(&error))
    }

    pub(super) fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().find(|(found, _)| found == name).map(|(_, value)| *value)
    }

    /// The value if it is a string, as its literal with quotes.
    pub(super) fn string(&self, name: &str) -> Option<&'a RawValue> {
        self.get(name).filter(|value| is_string(value))
    }

    /// The members of a member that is an object.
    pub(super) fn object(&self, name: &str) -> Option<Members<'a>> {
        self.get(name).and_then(|value| Members::parse(value.get()).ok())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.0.iter().map(|(name, value)| (name.as_str(), *value))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Members<'a>, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members: Self::Value = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, &RawValue>()? {
                    if members.iter().any(|(known, _)| *known == name) {
                        return Err(A::Error::custom(format_args!("the member `{name}` twice")));
                    }
                    members.push((name, value));
                }
                Ok(members)
            }
        }
        deserializer.deserialize_map(Object).map(Members)
    }
}

pub(super) fn is_string(value: &RawValue) -> bool {
    value.get().starts_with('"')
}

/// A string literal's content; `None` if it is not a string or not valid Unicode.
pub(super) fn unquoted(value: &RawValue) -> Option<String> {
    serde_json::from_str(value.get()).ok()
}

/// A value for people: its text, cut if long.
pub(super) fn shown(value: Option<&RawValue>) -> String {
    const CHARS_MAX: usize = 60;
    let Some(value) = value else { return "nothing".to_owned() };
    let mut shown: String = value.get().chars().take(CHARS_MAX).collect();
    if shown.len() < value.get().len() {
        shown.push('…');
    }
    shown
}

/// serde_json counts lines inside the record, which would contradict the place that we name.
fn describe(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let what = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
    match error.classify() {
        Category::Data => what.to_owned(),
        Category::Io | Category::Syntax | Category::Eof => {
            format!("broken JSON ({what} at column {})", error.column())
        }
    }
}

/// Writes one JSON object member by member.
pub(super) struct ObjectWriter<'a> {
    out: &'a mut String,
    empty: bool,
}

impl<'a> ObjectWriter<'a> {
    pub(super) fn new(out: &'a mut String) -> ObjectWriter<'a> {
        out.push('{');
        ObjectWriter { out, empty: true }
    }

    fn name(&mut self, name: &str) -> &mut String {
        if !self.empty {
            self.out.push(',');
        }
        self.empty = false;
        push_string(self.out, name);
        self.out.push(':');
        self.out
    }

    /// A value as it was found, on one line.
    pub(super) fn raw(&mut self, name: &str, value: &RawValue) {
        compact(value.get(), self.name(name));
    }

    /// Text of ours.
    pub(super) fn text(&mut self, name: &str, value: &str) {
        push_string(self.name(name), value);
    }

    /// JSON of ours.
    pub(super) fn json(&mut self, name: &str, value: &str) {
        self.name(name).push_str(value);
    }

    pub(super) fn end(self) {
        self.out.push('}');
    }
}

fn push_string(out: &mut String, text: &str) {
    out.push_str(&serde_json::Value::from(text).to_string());
}

/// Copies valid JSON without the white space between its tokens.
pub(super) fn compact(json: &str, out: &mut String) {
    let (mut in_string, mut escaped, mut start) = (false, false, 0);
    for (offset, byte) in json.bytes().enumerate() {
        if in_string {
            in_string = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
        } else if byte == b'"' {
            in_string = true;
        } else if super::shape::is_space(byte) {
            out.push_str(&json[start..offset]);
            start = offset + 1;
        }
    }
    out.push_str(&json[start..]);
}

/// Writes valid JSON with members sorted by name, one spelling per string, and numbers as they were found.
pub(super) fn canonical(json: &str, depth: usize, out: &mut String) -> Result<(), String> {
    if depth > DEPTH_MAX {
        return Err(format!("values nested more than {DEPTH_MAX} deep"));
    }
    match json.as_bytes().first() {
        Some(b'{') => {
            let mut members = Members::parse(json)?.0;
            members.sort_by(|(a, _), (b, _)| a.cmp(b));
            let mut object = ObjectWriter::new(out);
            for (name, value) in &members {
                canonical(value.get(), depth + 1, object.name(name))?;
            }
            object.end();
        }
        Some(b'[') => {
            let elements: Vec<&RawValue> =
                serde_json::from_str(json).map_err(|error| describe(&error))?;
            out.push('[');
            for (index, element) in elements.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                canonical(element.get(), depth + 1, out)?;
            }
            out.push(']');
        }
        Some(b'"') => {
            let text: String = serde_json::from_str(json).map_err(|error| describe(&error))?;
            push_string(out, &text);
        }
        _ => out.push_str(json),
    }
    Ok(())
}
