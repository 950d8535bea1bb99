//! Point lookups: a sorted list of 32-bit hashes with their rows, 8 bytes a row.
//!
//! Block layout: `count u32 LE`, then `count` hashes u32 LE ascending, then `count` rows u32 LE.
//! A hit is a candidate: the reader compares the row's value.

use crate::fault::Corruption;
use crate::integrity::short_digest;

/// Hash of an event id in the index.
pub fn event_hash(event_id: &[u8; 16]) -> u32 {
    (short_digest("event id index", event_id) >> 32) as u32
}

/// Hash of an actor id in the index.
pub fn actor_hash(actor_id: &str) -> u32 {
    (short_digest("actor id index", actor_id.as_bytes()) >> 32) as u32
}

/// Encodes (hash, row) pairs.
pub(super) fn encode_index(mut entries: Vec<(u32, u32)>) -> Vec<u8> {
    entries.sort_unstable();
    let mut out = Vec::with_capacity(4 + entries.len() * 8);
    out.extend((entries.len() as u32).to_le_bytes());
    for (hash, _) in &entries {
        out.extend(hash.to_le_bytes());
    }
    for (_, row) in &entries {
        out.extend(row.to_le_bytes());
    }
    out
}

/// A parsed index over borrowed bytes.
#[derive(Clone, Copy, Debug)]
pub struct IdIndex<'a> {
    hashes: &'a [u8],
    rows: &'a [u8],
}

impl<'a> IdIndex<'a> {
    /// Checks the layout only.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Corruption> {
        let malformed = || Corruption::new("index", 0, "count, hashes, rows", "another length");
        let (count, rest) = bytes.split_first_chunk::<4>().ok_or_else(malformed)?;
        let width = (u32::from_le_bytes(*count) as usize).checked_mul(4).ok_or_else(malformed)?;
        let (hashes, rows) = rest.split_at_checked(width).ok_or_else(malformed)?;
        if rows.len() != width {
            return Err(malformed());
        }
        Ok(IdIndex { hashes, rows })
    }

    /// Entries.
    pub fn len(&self) -> usize {
        self.hashes.len() / 4
    }

    /// No entry.
    pub fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    fn at(bytes: &[u8], i: usize) -> u32 {
        let word = bytes.get(i * 4..i * 4 + 4).and_then(|word| word.try_into().ok());
        u32::from_le_bytes(word.unwrap_or_default())
    }

    /// Rows whose value may have this hash, ascending.
    pub fn candidates(&self, hash: u32) -> Vec<u32> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if Self::at(self.hashes, middle) < hash { low = middle + 1 } else { high = middle }
        }
        (low..self.len())
            .take_while(|i| Self::at(self.hashes, *i) == hash)
            .map(|i| Self::at(self.rows, i))
            .collect()
    }
}
