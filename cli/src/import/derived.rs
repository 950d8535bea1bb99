//! Ids for records that have none: the same record of the same file gets the same id each time.

use std::collections::{HashMap, HashSet};

use uuid::Uuid;

/// Records without an id that one file may hold: a dozen bytes each stay in memory.
pub(super) const DERIVED_IDS_MAX: usize = 28_000_000;
/// Separates these hashes from all others; another meaning needs another text.
const DOMAIN: &str = "sealcast import 2026-12 id of a record that has none";

/// Derives ids for the records of one file.
#[derive(Default)]
pub(super) struct DerivedIds {
    seen: HashSet<u64>,
    /// How often a record was seen again: rare, so it is kept apart.
    repeats: HashMap<u64, u64>,
}

impl DerivedIds {
    /// An id from the record's canonical bytes and how often they occurred before: independent of where
    /// in the file it stands, and different for true repetitions. `None` beyond the limit.
    pub(super) fn next(&mut self, canonical: &[u8]) -> Option<Uuid> {
        let mut hasher = blake3::Hasher::new_derive_key(DOMAIN);
        hasher.update(canonical);
        let record = first_bytes::<8>(&hasher.finalize());
        let key = u64::from_le_bytes(record);
        let occurrence = if self.seen.insert(key) {
            0
        } else {
            let repeats = self.repeats.entry(key).or_default();
            *repeats += 1;
            *repeats
        };
        if self.seen.len() > DERIVED_IDS_MAX {
            return None;
        }
        hasher.update(&occurrence.to_le_bytes());
        Some(uuid::Builder::from_custom_bytes(first_bytes(&hasher.finalize())).into_uuid())
    }
}

fn first_bytes<const N: usize>(hash: &blake3::Hash) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&hash.as_bytes()[..N]);
    bytes
}
