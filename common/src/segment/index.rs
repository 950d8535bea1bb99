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

/// Encodes the index of rows whose ids have these hashes.
pub(super) fn encode_index(hashes: &[Option<u32>]) -> Vec<u8> {
    let rows = (0u32..).zip(hashes);
    // A hash with its row is one number that sorts like the pair.
    let mut entries: Vec<u64> =
        rows.filter_map(|(row, hash)| Some(u64::from((*hash)?) << 32 | u64::from(row))).collect();
    entries.sort_unstable();
    let mut out = Vec::with_capacity(4 + entries.len() * 8);
    out.extend((entries.len() as u32).to_le_bytes());
    for entry in &entries {
        out.extend(((entry >> 32) as u32).to_le_bytes());
    }
    for entry in &entries {
        out.extend((*entry as u32).to_le_bytes());
    }
    out
}

/// Whether a block is what [`encode_index`] makes of `hashes`, and zeros behind. Nothing is sorted
/// for that: pairs that ascend are different ones, and as many as there are, each of them a row's,
/// are all of them.
pub(super) fn is_index_of(block: &[u8], hashes: &[Option<u32>]) -> bool {
    let count = hashes.iter().flatten().count();
    let Some(rest) = block.strip_prefix(&(count as u32).to_le_bytes()) else { return false };
    let (words, rest) = rest.as_chunks::<4>();
    let Some((claimed, words)) = words.split_at_checked(count) else { return false };
    let Some((rows, padding)) = words.split_at_checked(count) else { return false };
    let mut last = None;
    let mut next = |hash: &[u8; 4], row: &[u8; 4]| {
        let (hash, row) = (u32::from_le_bytes(*hash), u32::from_le_bytes(*row));
        let ascends = last.replace((hash, row)) < Some((hash, row));
        ascends && hashes.get(row as usize) == Some(&Some(hash))
    };
    claimed.iter().zip(rows).all(|(hash, row)| next(hash, row))
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

#[cfg(test)]
mod tests {
    use super::*;

    const HASHES: [Option<u32>; 6] = [Some(9), None, Some(7), Some(u32::MAX), Some(7), Some(0)];

    #[test]
    fn an_index_is_that_of_its_rows_and_of_no_others() {
        let index = encode_index(&HASHES);
        let parsed = IdIndex::parse(&index).unwrap();
        assert_eq!((parsed.candidates(7), parsed.candidates(8)), (vec![2, 4], vec![]));
        assert!(is_index_of(&index, &HASHES));
        assert!(is_index_of(&[index.as_slice(), &[0; 9]].concat(), &HASHES));
        assert!(is_index_of(&encode_index(&[None]), &[None, None]));
        for row in 0..HASHES.len() {
            for other in [None, Some(1)] {
                let mut hashes = HASHES;
                hashes[row] = other;
                assert_eq!(is_index_of(&index, &hashes), hashes == HASHES, "row {row}");
            }
        }
    }

    #[test]
    fn no_other_bytes_are_the_index() {
        let index = encode_index(&HASHES);
        for at in 0..index.len() {
            for bit in 0..8 {
                let mut other = index.clone();
                other[at] ^= 1 << bit;
                assert!(!is_index_of(&other, &HASHES), "bit {bit} of byte {at}");
            }
            assert!(!is_index_of(&index[..at], &HASHES), "{at} bytes");
        }
        assert!(!is_index_of(&[index.as_slice(), &[0, 1]].concat(), &HASHES));
    }

    #[test]
    fn an_order_that_hides_or_repeats_a_row_is_refused() {
        let block = |pairs: &[(u32, u32)]| {
            let hashes = pairs.iter().flat_map(|(hash, _)| hash.to_le_bytes());
            let rows = pairs.iter().flat_map(|(_, row)| row.to_le_bytes());
            let count = (pairs.len() as u32).to_le_bytes();
            count.into_iter().chain(hashes).chain(rows).collect::<Vec<u8>>()
        };
        let right = [(0, 5), (7, 2), (7, 4), (9, 0), (u32::MAX, 3)];
        assert_eq!(block(&right), encode_index(&HASHES));
        for i in 1..right.len() {
            let (mut swapped, mut twice) = (right, right);
            swapped.swap(i - 1, i);
            twice[i] = twice[i - 1];
            assert!(!is_index_of(&block(&swapped), &HASHES), "{swapped:?}");
            assert!(!is_index_of(&block(&twice), &HASHES), "{twice:?}");
        }
    }
}
