//! What can be wrong with a file or one of its records, and where.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::source::Compression;

/// A place in a source file, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub file: Arc<Path>,
    pub at: At,
}

/// Where in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// The file as a whole.
    File,
    /// A line, counted from 1.
    Line(u64),
    /// An element of the array, or an object among objects, counted from 0 like an index.
    Record(u64),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.display();
        match self.at {
            At::File => write!(f, "{file}"),
            At::Line(line) => write!(f, "{file}, line {line}"),
            At::Record(index) => write!(f, "{file}, record [{index}]"),
        }
    }
}

/// Why a file or one of its records cannot be imported.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    #[error("{place}: cannot be {wanted}: {source}")]
    Unreadable { place: Place, wanted: &'static str, source: io::Error },
    #[error("{place}: found {found} files, expected at most {limit}")]
    TooManyFiles { place: Place, found: usize, limit: usize },
    #[error(
        "{place}: found broken compressed data ({source}), expected a complete {compression} stream"
    )]
    BrokenCompression { place: Place, compression: Compression, source: io::Error },
    #[error("{place}: found {found}, expected {expected}")]
    Malformed { place: Place, found: String, expected: &'static str },
    /// The file cannot be followed beyond this place.
    #[error("{place}: found {found}, expected {expected}")]
    Cut { place: Place, found: String, expected: &'static str },
    #[error("{place}: found more than {limit} bytes, expected at most {limit} per event")]
    EventTooLarge { place: Place, limit: usize },
    #[error("{place}: field {field}: found {found}, expected {expected}")]
    Field { place: Place, field: &'static str, found: String, expected: &'static str },
    #[error("{place}: found an object with {found}, expected an event or a CloudTrail record")]
    Unrecognised { place: Place, found: String },
    #[error(
        "{place}: found more than {limit} records without an id, expected at most {limit} per file"
    )]
    TooManyDerivedIds { place: Place, limit: usize },
}

impl SourceError {
    /// Where it is wrong.
    pub fn place(&self) -> &Place {
        match self {
            SourceError::Unreadable { place, .. }
            | SourceError::TooManyFiles { place, .. }
            | SourceError::BrokenCompression { place, .. }
            | SourceError::Malformed { place, .. }
            | SourceError::Cut { place, .. }
            | SourceError::EventTooLarge { place, .. }
            | SourceError::Field { place, .. }
            | SourceError::Unrecognised { place, .. }
            | SourceError::TooManyDerivedIds { place, .. } => place,
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            SourceError::Unreadable { .. } => "check that the path exists and that you may read it",
            SourceError::TooManyFiles { .. } => "import the folders below it one by one",
            SourceError::BrokenCompression { .. } => {
                "fetch the file again: what was read before this place is imported, and importing again adds nothing"
            }
            SourceError::Malformed { .. } => {
                "repair or remove the record, then import the file again"
            }
            SourceError::Cut { .. } => {
                "fetch or repair the file: nothing behind this place was read, and importing again adds nothing twice"
            }
            SourceError::EventTooLarge { .. } => {
                "shorten the record's largest fields, or keep their content elsewhere and send a reference"
            }
            SourceError::Field { .. } => {
                "correct the field at its source, then import the file again"
            }
            SourceError::Unrecognised { .. } => {
                "give each record `tenant` and `action`, or pass CloudTrail's records as delivered"
            }
            SourceError::TooManyDerivedIds { .. } => {
                "give the records an `event_id` (a UUID), or split the file"
            }
        }
    }

    /// True if nothing more can be read from the file; otherwise the next record follows.
    pub fn ends_file(&self) -> bool {
        match self {
            SourceError::Unreadable { .. }
            | SourceError::TooManyFiles { .. }
            | SourceError::BrokenCompression { .. }
            | SourceError::Cut { .. }
            | SourceError::TooManyDerivedIds { .. } => true,
            SourceError::Malformed { .. }
            | SourceError::EventTooLarge { .. }
            | SourceError::Field { .. }
            | SourceError::Unrecognised { .. } => false,
        }
    }
}
