//! A shard's tree at a committed size: its signed checkpoint, and the right edge of its tiles.
//!
//! Object = CBOR `[version 1, note, key, [hashes of level 0, hashes of level 1, …]]`. Derived from
//! the rows: nothing in it is believed before its root is the one that the shard has signed.

use super::fold::check_note;
use super::record::CheckpointEntry;
use crate::cbor::{Reader, Writer};
use crate::fault::{Corruption, hex};
use crate::integrity::{Checkpoint, Edge, HASH_BYTES, Note, hashes};

const CHECKPOINT_VERSION: u64 = 1;
/// 256^8 leaves are all that u64 can count.
const LEVELS_MAX: usize = 8;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointObject {
    /// Size, root, note and key.
    pub entry: CheckpointEntry,
    /// Partial tiles.
    pub edge: Edge,
}

impl CheckpointObject {
    /// The object's bytes.
    pub fn to_object(&self) -> Vec<u8> {
        let mut out = Writer::new();
        out.array(4).uint(CHECKPOINT_VERSION).text(&self.entry.note).text(&self.entry.key);
        out.array(self.edge.levels().len());
        for level in self.edge.levels() {
            out.bytes(&level.concat());
        }
        out.finish()
    }

    /// Reads an object; the note must be signed by the key in it and say what the edge gives.
    /// Without an origin the note's own is taken.
    pub fn from_object(object: &[u8], origin: Option<&str>) -> Result<Self, Corruption> {
        let mut reader = Reader::new(object, "checkpoint_object");
        reader.array_exact(4)?;
        let version = reader.uint()?;
        let bad = |expected: &str, found: String| {
            Corruption::new("checkpoint_object", None, expected, found)
        };
        if version != CHECKPOINT_VERSION {
            return Err(bad("version 1; use a newer sealcast", version.to_string()));
        }
        let (note, key) = (reader.text()?.to_owned(), reader.text()?.to_owned());
        let count = reader.array()?;
        if count > LEVELS_MAX {
            return Err(bad("at most 8 levels", count.to_string()));
        }
        let mut levels = Vec::new();
        for _ in 0..count {
            let bytes = reader.bytes()?;
            if bytes.len() % HASH_BYTES != 0 {
                return Err(bad("whole hashes", format!("{} bytes", bytes.len())));
            }
            levels.push(hashes(bytes));
        }
        reader.end()?;
        let parsed = Note::parse(&note).and_then(|note| Checkpoint::parse(&note.text));
        let checkpoint = parsed.map_err(|error| bad("a checkpoint", error.to_string()))?;
        let edge = Edge::new(checkpoint.size, levels)?;
        let root = edge.tree()?.root()?;
        if root != checkpoint.root {
            return Err(bad(&hex(&checkpoint.root), hex(&root)));
        }
        let entry = CheckpointEntry { size: checkpoint.size, root, note, key };
        check_note(&entry, origin.unwrap_or(&checkpoint.origin))?;
        Ok(CheckpointObject { entry, edge })
    }
}
