//! What can go wrong, in six kinds, each of which tells the caller what to do.

use std::fmt;

use serde::Serialize;

/// The six public kinds. Fixed: a client's retry logic may rest on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Fix the request.
    Invalid,
    /// Read again, then retry.
    Conflict,
    /// Retry with backoff.
    Unavailable,
    /// Slow down, then retry.
    Overloaded,
    /// Do not retry; see the hint.
    Corrupt,
    /// Report it.
    Internal,
}

/// One named check that found bytes that are not what they should be.
///
/// `check` is one of the stable names listed in `docs/format.md`; `object` is a file name or an
/// object key; `offset` is a byte offset in it, where one can be given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Corruption {
    /// File or object.
    pub object: String,
    /// Byte offset, when the check can tell.
    pub offset: Option<u64>,
    /// The check's stable name.
    pub check: &'static str,
    /// What was expected.
    pub expected: String,
    /// What was found.
    pub found: String,
}

impl Corruption {
    /// A finding of `check` in an object that the caller names later ([`Corruption::in_object`]).
    pub fn new(
        check: &'static str,
        offset: impl Into<Option<u64>>,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Self {
        Corruption {
            object: String::new(),
            offset: offset.into(),
            check,
            expected: expected.into(),
            found: found.into(),
        }
    }

    /// Names the object, unless an inner check has named it already.
    #[must_use]
    pub fn in_object(mut self, object: impl Into<String>) -> Self {
        if self.object.is_empty() {
            self.object = object.into();
        }
        self
    }
}

impl fmt::Display for Corruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let object = if self.object.is_empty() { "bytes" } else { &self.object };
        match self.offset {
            Some(offset) => write!(f, "{object} is corrupt at byte {offset}")?,
            None => write!(f, "{object} is corrupt")?,
        }
        write!(f, " (check {}): found {}, expected {}", self.check, self.found, self.expected)
    }
}

impl std::error::Error for Corruption {}

/// A rule that holds, or the finding that it does not.
pub(crate) fn check(
    name: &'static str,
    holds: bool,
    expected: &str,
    found: impl ToString,
) -> Result<(), Corruption> {
    if holds { Ok(()) } else { Err(Corruption::new(name, None, expected, found.to_string())) }
}

/// Lower-case hex of `bytes`.
pub fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _infallible = write!(text, "{byte:02x}");
        text
    })
}

/// Parses lower- or upper-case hex of exactly `N` bytes.
pub fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() != N * 2 || !text.is_ascii() {
        return None;
    }
    let mut bytes = [0; N];
    for (i, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(i * 2..i * 2 + 2)?, 16).ok()?;
    }
    Some(bytes)
}
