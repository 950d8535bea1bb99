//! The keeper's `pending.json`: the leaves that it was to sign last, written down before it does.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};

use crate::checked;
use crate::fault::Corruption;

const CHECK: &str = "cluster_pending";

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// Index of the first leaf.
    pub first: u64,
    /// The leaves.
    pub leaves: Vec<Vec<u8>>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PendingFile {
    first: u64,
    leaves: Vec<String>,
}

impl Pending {
    /// Leaves after the last of them.
    pub fn end(&self) -> u64 {
        self.first.saturating_add(self.leaves.len() as u64)
    }

    /// The file's bytes, with their checksum.
    pub fn to_text(&self) -> Vec<u8> {
        let leaves = self.leaves.iter().map(|leaf| BASE64.encode(leaf)).collect();
        checked::to_text(&PendingFile { first: self.first, leaves })
    }

    /// Reads the file's bytes.
    pub fn parse(text: &[u8]) -> Result<Self, Corruption> {
        let file: PendingFile = checked::parse(CHECK, text)?;
        let leaves: Result<_, _> = file.leaves.iter().map(|leaf| BASE64.decode(leaf)).collect();
        let bad = |found: String| Corruption::new(CHECK, None, "leaves in base64", found);
        Ok(Pending { first: file.first, leaves: leaves.map_err(|error| bad(error.to_string()))? })
    }
}
