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

/// A hash with its row, as one number that sorts like the pair.
pub(super) fn entry(hash: u32, row: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(row)
}

/// Encodes sorted entries.
pub(super) fn encode_index(entries: &[u64]) -> Vec<u8> {
    let mut out = Vec::with_capacity(4 + entries.len() * 8);
    out.extend((entries.len() as u32).to_le_bytes());
    for entry in entries {
        out.extend(((entry >> 32) as u32).to_le_bytes());
    }
    for entry in entries {
        out.extend((*entry as u32).to_le_bytes());
    }
    out
}

/// Whether a block is what [`encode_index`] makes of `entries`, and zeros behind.
pub(super) fn is_index_of(block: &[u8], entries: &[u64]) -> bool {
    let count = (entries.len() as u32).to_le_bytes();
    let Some(rest) = block.strip_prefix(&count) else { return false };
    let (words, rest) = rest.as_chunks::<4>();
    let Some((hashes, words)) = words.split_at_checked(entries.len()) else { return false };
    let Some((rows, padding)) = words.split_at_checked(entries.len()) else { return false };
    hashes.iter().zip(entries).all(|(hash, entry)| *hash == ((entry >> 32) as u32).to_le_bytes())
        && rows.iter().zip(entries).all(|(row, entry)| *row == (*entry as u32).to_le_bytes())
        && padding.as_flattened().iter().chain(rest).all(|byte| *byte == 0)
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
