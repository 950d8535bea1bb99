//! What travels over a signer's socket: one JSON object per line, one answer per request.
//!
//! ```text
//! {"op":"key","origin":"prod/0000"}                      → {"key":"prod/0000+…+…"}, with its history
//! {"op":"state","origin":"prod/0000"}                    → {"state":{"format":1,…}} or {"state":null}
//! {"op":"sign","origin":"prod/0000","from":3,"to":7,"root":"<hex>","nodes":["<hex>",…]}
//!                                                        → {"note":"<signed note>"}
//! ```
//! Any of them may be answered `{"refused":"why"}`: asking again changes nothing; or
//! `{"error":"why"}`: it may pass.

use std::io::{self, BufRead, Read as _};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Growth, SignedFile};
use crate::fault::{hex, unhex};

/// The longest line: a range of 2^64 leaves has 126 nodes at most, a key 16 hand-overs.
pub(super) const LINE_BYTES_MAX: u64 = 32 * 1024;
/// How long one read or write of a socket may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "lowercase", deny_unknown_fields)]
pub(super) enum Request {
    Key { origin: String },
    State { origin: String },
    Sign { origin: String, from: u64, to: u64, root: String, nodes: Vec<String> },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Response {
    Key(String),
    State(Option<SignedFile>),
    Note(String),
    Refused(String),
    Error(String),
}

impl Request {
    pub(super) fn sign(origin: &str, growth: &Growth) -> Self {
        Request::Sign {
            origin: origin.to_owned(),
            from: growth.from,
            to: growth.to,
            root: hex(&growth.root),
            nodes: growth.nodes.iter().map(|node| hex(node)).collect(),
        }
    }
}

/// The growth that a request states; `None` if a hash is none.
pub(super) fn growth(from: u64, to: u64, root: &str, nodes: &[String]) -> Option<Growth> {
    let nodes = nodes.iter().map(|node| unhex(node)).collect::<Option<Vec<_>>>()?;
    Some(Growth { from, nodes, to, root: unhex(root)? })
}

/// A value as its line.
pub(super) fn line<T: Serialize>(value: &T) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value).map_err(io::Error::other)?;
    line.push(b'\n');
    Ok(line)
}

/// The next line without its break; `None` at the end. A longer one than allowed is an error.
pub(super) fn next_line(from: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    from.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
    match line.pop() {
        None => Ok(None),
        Some(b'\n') => Ok(Some(line)),
        Some(_) => {
            let reason = format!("no line of at most {LINE_BYTES_MAX} bytes");
            Err(io::Error::new(io::ErrorKind::InvalidData, reason))
        }
    }
}
