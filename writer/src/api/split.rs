//! A body's text into the texts of its events, with their lines where there are lines.

use std::fmt;

use axum::http::StatusCode;
use sealcast_common::fault::Kind;
use sealcast_common::limits::REQUEST_EVENTS_MAX;
use sealcast_common::serve::Problem;
use serde::de::{Deserializer as _, Error as _, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::body::Format;

/// The text of one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventText<'a> {
    /// From 1, for lines.
    pub(crate) line: Option<usize>,
    pub(crate) text: &'a str,
}

/// Splits a body. An error here concerns the whole: single events are judged by their parser.
pub(crate) fn split(body: &str, format: Format) -> Result<Vec<EventText<'_>>, Problem> {
    let start = body.trim_start();
    let texts = match (format, start.as_bytes().first()) {
        (_, None) => Vec::new(),
        (Format::Json, Some(b'{')) => whole(body),
        (Format::Json | Format::Unstated, Some(b'[')) => array(body)?,
        (Format::Json, Some(_)) => {
            let start: String = start.chars().take(40).collect();
            let detail = format!("body begins with {start:?}, expected a json object or array");
            return Err(Problem::new(Kind::Invalid, "invalid_json", detail));
        }
        // A pretty-printed object and lines both begin with a brace: a whole object on the first
        // line means lines.
        (Format::Unstated, Some(_)) => {
            let first = start.lines().next().unwrap_or_default();
            match serde_json::from_str::<IgnoredAny>(first) {
                Ok(_) => lines(body)?,
                Err(_) => whole(body),
            }
        }
        (Format::Lines, Some(_)) => lines(body)?,
    };
    if texts.is_empty() {
        return Err(Problem::new(Kind::Invalid, "empty_body", "body holds no event, expected one"));
    }
    Ok(texts)
}

fn whole(body: &str) -> Vec<EventText<'_>> {
    vec![EventText { line: None, text: body.trim() }]
}

fn lines(body: &str) -> Result<Vec<EventText<'_>>, Problem> {
    let mut texts = Vec::new();
    for (i, line) in body.split('\n').enumerate() {
        let text = line.trim_matches([' ', '\t', '\r']);
        if !text.is_empty() {
            texts.push(EventText { line: Some(i + 1), text });
        }
        if texts.len() > REQUEST_EVENTS_MAX {
            return Err(too_many());
        }
    }
    Ok(texts)
}

fn array(body: &str) -> Result<Vec<EventText<'_>>, Problem> {
    let mut texts = Vec::new();
    let mut reader = serde_json::Deserializer::from_str(body);
    let read = reader.deserialize_seq(Items(&mut texts)).and_then(|()| reader.end());
    if texts.len() > REQUEST_EVENTS_MAX {
        return Err(too_many());
    }
    match read {
        Ok(()) => Ok(texts),
        Err(error) => {
            let index = texts.len();
            let detail = format!("body is no json array: {error}, after {index} good items");
            Err(Problem::new(Kind::Invalid, "invalid_json", detail)
                .with("index", index)
                .with("line", error.line())
                .with("column", error.column()))
        }
    }
}

fn too_many() -> Problem {
    let detail = format!("body holds more than {REQUEST_EVENTS_MAX} events");
    Problem::new(Kind::Invalid, "too_many_events", detail)
        .status(StatusCode::PAYLOAD_TOO_LARGE)
        .with("limit_events", REQUEST_EVENTS_MAX)
        .hint("send the events in several requests")
}

/// Collects the items' texts, those before an error too, and at most one beyond the bound.
struct Items<'t, 'a>(&'t mut Vec<EventText<'a>>);

impl<'a> Visitor<'a> for Items<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of objects")
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(raw) = seq.next_element::<&'a RawValue>()? {
            self.0.push(EventText { line: None, text: raw.get() });
            if self.0.len() > REQUEST_EVENTS_MAX {
                return Err(A::Error::custom("too many items"));
            }
        }
        Ok(())
    }
}
