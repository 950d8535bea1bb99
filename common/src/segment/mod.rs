//! The sealed segment: an Arrow IPC file whose footer carries the seal.
//!
//! ```text
//! "ARROW1" + padding | schema | dictionaries… | record batches… | id indexes | EOS | footer
//!  └────────────────── blocks, each with a CRC32 in the seal ──────────────┘        └ seal
//! ```
//! Reading order: `schema` (the columns), `build` (rows → batches),
//! `encode` (batches → bytes), `seal` (what the footer says),
//! `facts` (what pruning knows), `index` (point lookups), `view` (bytes → parsed, not trusted),
//! `form` (one form a row),
//! `verify` (the one judge), `frames` (the object store's form). `docs/format.md` has every byte.

mod build;
pub mod columns;
mod encode;
mod facts;
mod form;
mod frames;
mod index;
pub mod schema;
mod seal;
mod spread;
mod verify;
mod view;

#[cfg(test)]
mod tests;

pub use encode::{Row, SealRequest, encode_rows, encode_segment};
pub use facts::{BatchZone, Facts, TenantRun};
pub use frames::{FrameTable, compress, decompress};
pub use index::{IdIndex, actor_hash, event_hash};
pub use seal::{Block, BlockKind, RequestEntry, Seal};
pub use verify::{Expectation, verify_segment, verify_segment_at_once, verify_segment_leaves};
pub use view::SegmentView;

use crate::fault::{hex, unhex};

/// Version of the columns; a reader refuses a newer one by name.
pub const SCHEMA_VERSION: u64 = 1;

/// A sealed file's name: `<start:016x>.<rows:08x>.<first 16 bytes of blake3>.seg`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SegmentName {
    /// First leaf.
    pub start: u64,
    /// Leaves.
    pub rows: u32,
    /// First 16 bytes of the file's BLAKE3.
    pub hash: [u8; 16],
}

impl SegmentName {
    /// The name of a file with this hash.
    pub fn new(start: u64, rows: u32, file_hash: &[u8; 32]) -> Self {
        let mut hash = [0; 16];
        hash.copy_from_slice(&file_hash[..16]);
        SegmentName { start, rows, hash }
    }

    /// Without extension.
    pub fn stem(&self) -> String {
        format!("{:016x}.{:08x}.{}", self.start, self.rows, hex(&self.hash))
    }

    /// The sealed file.
    pub fn file_name(&self) -> String {
        format!("{}.seg", self.stem())
    }

    /// The checkpoint beside it.
    pub fn note_name(&self) -> String {
        format!("{}.note", self.stem())
    }

    /// One past the last leaf.
    pub fn end(&self) -> u64 {
        self.start.saturating_add(u64::from(self.rows))
    }

    /// Parses `….seg`; `None` for any other file.
    pub fn parse(file_name: &str) -> Option<Self> {
        let mut parts = file_name.strip_suffix(".seg")?.split('.');
        let start = u64::from_be_bytes(unhex(parts.next()?)?);
        let rows = u32::from_be_bytes(unhex(parts.next()?)?);
        let hash = unhex(parts.next()?)?;
        let name = SegmentName { start, rows, hash };
        (parts.next().is_none() && name.file_name() == file_name).then_some(name)
    }
}
