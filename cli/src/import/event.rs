//! Recognises each record by its content and makes an event of it.

use std::path::Path;

use super::cloudtrail;
use super::derived::{DERIVED_IDS_MAX, DerivedIds};
use super::error::{Place, SourceError};
use super::json::{Members, ObjectWriter, canonical, shown};
use super::records::{RecordText, Records};
use super::shape::Shape;
use super::source::{Compression, Progress, Source};

/// Member names that an error shows.
const NAMES_SHOWN: usize = 8;

/// An event of ours and where its record was found.
#[derive(Debug)]
pub struct SourceEvent {
    pub place: Place,
    /// One JSON object on one line, always with an `event_id`.
    pub json: String,
}

/// The events of one file. After an error that [ends the file](SourceError::ends_file) nothing
/// follows; after any other the next record does.
pub struct Events {
    records: Records,
    ids: DerivedIds,
}

/// Opens a file for import.
pub fn open(path: &Path) -> Result<Events, SourceError> {
    let records = Records::new(Source::open(path)?)?;
    Ok(Events { records, ids: DerivedIds::default() })
}

impl Events {
    pub fn shape(&self) -> Shape {
        self.records.shape
    }

    pub fn compression(&self) -> Compression {
        self.records.compression()
    }

    pub fn progress(&self) -> Progress {
        self.records.progress()
    }
}

impl Iterator for Events {
    type Item = Result<SourceEvent, SourceError>;

    fn next(&mut self) -> Option<Self::Item> {
        let event = self.records.next()?.and_then(|record| event(record, &mut self.ids));
        if event.as_ref().is_err_and(SourceError::ends_file) {
            self.records.finish();
        }
        Some(event)
    }
}

/// Why one record is no event; the caller adds the place.
pub(super) enum Fault {
    Malformed { found: String, expected: &'static str },
    Field { field: &'static str, found: String, expected: &'static str },
    Unrecognised { found: String },
    TooManyDerivedIds,
}

impl Fault {
    fn at(self, place: Place) -> SourceError {
        match self {
            Fault::Malformed { found, expected } => {
                SourceError::Malformed { place, found, expected }
            }
            Fault::Field { field, found, expected } => {
                SourceError::Field { place, field, found, expected }
            }
            Fault::Unrecognised { found } => SourceError::Unrecognised { place, found },
            Fault::TooManyDerivedIds => {
                SourceError::TooManyDerivedIds { place, limit: DERIVED_IDS_MAX }
            }
        }
    }
}

fn event(
    RecordText { place, text }: RecordText,
    ids: &mut DerivedIds,
) -> Result<SourceEvent, SourceError> {
    match event_json(&text, ids) {
        Ok(json) => Ok(SourceEvent { place, json }),
        Err(fault) => Err(fault.at(place)),
    }
}

fn event_json(text: &str, ids: &mut DerivedIds) -> Result<String, Fault> {
    let members = Members::parse(text).map_err(|found| Fault::Malformed {
        found,
        expected: "one JSON object, each member once",
    })?;
    let derive = || derived_id(text, ids);
    if members.get("tenant").is_some() || members.get("action").is_some() {
        own(&members, text.len(), derive)
    } else if cloudtrail::recognises(&members) {
        cloudtrail::event(&members, text.len(), derive)
    } else {
        Err(Fault::Unrecognised { found: names(&members) })
    }
}

fn names(members: &Members<'_>) -> String {
    let mut names: Vec<_> =
        members.iter().map(|(name, _)| format!("`{name}`")).take(NAMES_SHOWN + 1).collect();
    match names.len() {
        0 => "no members".to_owned(),
        1..=NAMES_SHOWN => names.join(", "),
        _ => {
            names.truncate(NAMES_SHOWN);
            names.join(", ") + ", …"
        }
    }
}

/// An event in our own form passes as it is; only a missing id is added.
fn own(
    members: &Members<'_>,
    text_bytes: usize,
    derive: impl FnOnce() -> Result<String, Fault>,
) -> Result<String, Fault> {
    for field in ["tenant", "action"] {
        if members.get(field).is_none() {
            return Err(Fault::Field { field, found: shown(None), expected: "a string" });
        }
    }
    let mut json = String::with_capacity(text_bytes + 64);
    let mut event = ObjectWriter::new(&mut json);
    let has_id = members.get("event_id").is_some_and(|id| id.get() != "null");
    if !has_id {
        event.text("event_id", &derive()?);
    }
    for (name, value) in members.iter().filter(|(name, _)| has_id || *name != "event_id") {
        event.raw(name, value);
    }
    event.end();
    Ok(json)
}

fn derived_id(text: &str, ids: &mut DerivedIds) -> Result<String, Fault> {
    let mut bytes = String::with_capacity(text.len());
    canonical(text.trim(), 0, &mut bytes).map_err(|found| Fault::Malformed {
        found,
        expected: "a record that an id can be derived from",
    })?;
    let id = ids.next(bytes.as_bytes()).ok_or(Fault::TooManyDerivedIds)?;
    Ok(id.to_string())
}
