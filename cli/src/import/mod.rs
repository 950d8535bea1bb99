//! Reads log files and turns their records into events, as JSON text that is ready to send.
//!
//! The path of one record: [`discover`] finds the files, `source` opens and decompresses one, `shape`
//! looks at how it begins, `records` cuts it into texts, `event` recognises each text as one of ours
//! or of CloudTrail's (`cloudtrail`) and gives it an id if it has none (`derived`).
//!
//! A record's values are never parsed and printed again: they are evidence, and numbers and strings
//! must reach the writer digit by digit as they were found (`json`).

mod cloudtrail;
mod derived;
mod error;
mod event;
mod json;
mod records;
mod shape;
mod source;

#[cfg(test)]
mod cloudtrail_tests;
#[cfg(test)]
mod tests;

pub use error::{At, Place, SourceError};
pub use event::{Events, SourceEvent, open};
pub use shape::Shape;
pub use source::{Compression, Ignored, Progress, Reason, Sources, discover};
