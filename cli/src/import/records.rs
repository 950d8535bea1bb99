//! Cuts a file into the texts of its records, one at a time and bounded, whatever its shape.

use std::io::{self, BufRead, Cursor, Read};

use super::error::{At, Place, SourceError};
use super::shape::{SNIFF_BYTES, Shape, Sniffed, is_space, sniff};
use super::source::{Compression, Progress, Source};

/// Bytes of one record, decompressed, with the white space inside it.
pub(super) const EVENT_BYTES_MAX: usize = 1024 * 1024;
/// Bytes behind the last record of an array: CloudTrail has one bracket there.
const TRAILER_BYTES_MAX: u64 = 64 * 1024;

/// The text of one record, not yet known to be valid JSON.
pub(super) struct RecordText {
    pub(super) place: Place,
    pub(super) text: String,
}

/// The records of one file.
pub(super) struct Records {
    source: Source,
    pub(super) shape: Shape,
    /// Lines or records taken so far.
    taken: u64,
    finished: bool,
    buffer: Vec<u8>,
}

impl Records {
    pub(super) fn new(mut source: Source) -> Result<Records, SourceError> {
        let mut head = Vec::with_capacity(SNIFF_BYTES);
        let read = (&mut source.content).take(SNIFF_BYTES as u64).read_to_end(&mut head);
        let at = At::File;
        read.map_err(|error| broken(&source, at, error))?;
        let Sniffed { shape, header_bytes } = sniff(&head).map_err(|byte| SourceError::Cut {
            place: place(&source, at),
            found: format!("a file that begins with {}", shown_byte(byte)),
            expected: "JSON objects: one per line, an array, or {\"Records\": […]}",
        })?;
        head.drain(..header_bytes);
        let rest = std::mem::replace(&mut source.content, Box::new(io::empty()));
        source.content = Box::new(Cursor::new(head).chain(rest));
        let finished = shape == Shape::Empty;
        Ok(Records { source, shape, taken: 0, finished, buffer: Vec::new() })
    }

    pub(super) fn progress(&self) -> Progress {
        self.source.progress.clone()
    }

    pub(super) fn compression(&self) -> Compression {
        self.source.compression
    }

    /// Stops reading: nothing follows.
    pub(super) fn finish(&mut self) {
        self.finished = true;
    }

    /// The next line that is not blank.
    fn next_line(&mut self) -> Result<Option<RecordText>, SourceError> {
        loop {
            let at = At::Line(self.taken + 1);
            self.buffer.clear();
            let read = (&mut self.source.content)
                .take(EVENT_BYTES_MAX as u64 + 1)
                .read_until(b'\n', &mut self.buffer)
                .map_err(|error| broken(&self.source, at, error))?;
            if read == 0 {
                return Ok(None);
            }
            self.taken += 1;
            if read > EVENT_BYTES_MAX && self.buffer.last() != Some(&b'\n') {
                skip_line(&mut self.source.content)
                    .map_err(|error| broken(&self.source, at, error))?;
                return Err(SourceError::EventTooLarge {
                    place: place(&self.source, at),
                    limit: EVENT_BYTES_MAX,
                });
            }
            if !self.buffer.iter().all(|byte| is_space(*byte)) {
                let trimmed = self.buffer.trim_ascii_end().len();
                self.buffer.truncate(trimmed);
                return self.text(at).map(Some);
            }
        }
    }

    /// The next object of an array or of a plain sequence.
    fn next_object(&mut self) -> Result<Option<RecordText>, SourceError> {
        let at = At::Record(self.taken);
        let in_array = self.shape != Shape::Objects;
        let mut next = self.next_token(at)?;
        if in_array && next == Some(b']') {
            self.source.content.consume(1);
            return self.check_trailer(at).map(|()| None);
        }
        if !in_array && next.is_none() {
            return Ok(None);
        }
        if in_array && self.taken > 0 {
            if next != Some(b',') {
                return Err(self.cut(at, next, "`,` or `]`"));
            }
            self.source.content.consume(1);
            next = self.next_token(at)?;
        }
        if next != Some(b'{') {
            return Err(self.cut(at, next, "a JSON object"));
        }
        self.buffer.clear();
        self.taken += 1;
        match take_object(&mut self.source.content, &mut self.buffer) {
            Ok(true) => self.text(at).map(Some),
            Ok(false) => Err(self.cut(at, None, "the end of the object")),
            Err(Oversize::Skipped) => Err(SourceError::EventTooLarge {
                place: place(&self.source, at),
                limit: EVENT_BYTES_MAX,
            }),
            Err(Oversize::Io(error)) => Err(broken(&self.source, at, error)),
        }
    }

    /// The next byte that is not white space, left where it is.
    fn next_token(&mut self, at: At) -> Result<Option<u8>, SourceError> {
        loop {
            let available = match self.source.content.fill_buf() {
                Ok(available) => available,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(broken(&self.source, at, error)),
            };
            if available.is_empty() {
                return Ok(None);
            }
            let space = available.iter().take_while(|byte| is_space(**byte)).count();
            let token = available.get(space).copied();
            self.source.content.consume(space);
            if token.is_some() {
                return Ok(token);
            }
        }
    }

    /// What follows the last record must close what the header opened: else the file was cut or glued.
    fn check_trailer(&mut self, at: At) -> Result<(), SourceError> {
        let mut whole = match self.shape {
            Shape::CloudTrail => b"{\"Records\":[]".to_vec(),
            Shape::Empty | Shape::Array | Shape::Lines | Shape::Objects => b"[]".to_vec(),
        };
        (&mut self.source.content)
            .take(TRAILER_BYTES_MAX)
            .read_to_end(&mut whole)
            .map_err(|error| broken(&self.source, at, error))?;
        match serde_json::from_slice::<serde::de::IgnoredAny>(&whole) {
            Ok(_) => Ok(()),
            Err(error) => Err(SourceError::Cut {
                place: place(&self.source, At::File),
                found: if error.is_eof() { "the end of the file" } else { "more text" }.to_owned()
                    + " behind the last record",
                expected: match self.shape {
                    Shape::CloudTrail => "`}` and the end of the file",
                    Shape::Empty | Shape::Array | Shape::Lines | Shape::Objects => {
                        "the end of the file"
                    }
                },
            }),
        }
    }

    fn cut(&self, at: At, found: Option<u8>, expected: &'static str) -> SourceError {
        let found = found.map_or_else(|| "the end of the file".to_owned(), shown_byte);
        SourceError::Cut { place: place(&self.source, at), found, expected }
    }

    fn text(&mut self, at: At) -> Result<RecordText, SourceError> {
        let place = place(&self.source, at);
        match String::from_utf8(std::mem::take(&mut self.buffer)) {
            Ok(text) => Ok(RecordText { place, text }),
            Err(error) => Err(SourceError::Malformed {
                place,
                found: format!(
                    "bytes that are not UTF-8 at offset {}",
                    error.utf8_error().valid_up_to()
                ),
                expected: "a JSON object in UTF-8",
            }),
        }
    }
}

impl Iterator for Records {
    type Item = Result<RecordText, SourceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.finished {
            return None;
        }
        let next = match self.shape {
            Shape::Empty => Ok(None),
            Shape::Lines => self.next_line(),
            Shape::CloudTrail | Shape::Array | Shape::Objects => self.next_object(),
        };
        self.finished = match &next {
            Ok(record) => record.is_none(),
            Err(error) => error.ends_file(),
        };
        next.transpose()
    }
}

enum Oversize {
    /// The object was read to its end without being kept.
    Skipped,
    Io(io::Error),
}

/// Takes one object from `{` to its `}` by counting brackets outside strings; false if the file ends before.
/// The text is only balanced: the parser finds whatever else is wrong with it.
fn take_object(content: &mut impl BufRead, object: &mut Vec<u8>) -> Result<bool, Oversize> {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    let mut bytes = 0;
    loop {
        let available = match content.fill_buf() {
            Ok(available) => available,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(Oversize::Io(error)),
        };
        if available.is_empty() {
            return Ok(false);
        }
        let mut used = 0;
        for byte in available {
            used += 1;
            if in_string {
                in_string = escaped || *byte != b'"';
                escaped = !escaped && *byte == b'\\';
                continue;
            }
            match byte {
                b'"' => in_string = true,
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
        bytes += used;
        if bytes <= EVENT_BYTES_MAX {
            object.extend_from_slice(&available[..used]);
        }
        content.consume(used);
        if depth == 0 {
            return if bytes <= EVENT_BYTES_MAX { Ok(true) } else { Err(Oversize::Skipped) };
        }
    }
}

fn skip_line(content: &mut impl BufRead) -> io::Result<()> {
    loop {
        let available = match content.fill_buf() {
            Ok(available) => available,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let (line, ends) = match available.iter().position(|byte| *byte == b'\n') {
            Some(offset) => (offset + 1, true),
            None => (available.len(), available.is_empty()),
        };
        content.consume(line);
        if ends {
            return Ok(());
        }
    }
}

fn place(source: &Source, at: At) -> Place {
    Place { file: source.file.clone(), at }
}

fn broken(source: &Source, at: At, error: io::Error) -> SourceError {
    let place = place(source, at);
    match source.compression {
        Compression::None => SourceError::Unreadable { place, wanted: "read", source: error },
        compression => SourceError::BrokenCompression { place, compression, source: error },
    }
}

fn shown_byte(byte: u8) -> String {
    if byte.is_ascii_graphic() {
        format!("`{}`", char::from(byte))
    } else {
        format!("byte 0x{byte:02x}")
    }
}
