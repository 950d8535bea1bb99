//! What a snapshot showed earlier: its own segments, up to sizes that its shards once had. Segments
//! never change and none is taken back, so that nothing has to be kept for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use sealcast_common::cbor::Writer;
use sealcast_common::integrity::keyed_digest;
use sealcast_common::wire::Vector;

use crate::segments::{Bounds as _, Segments, append};
use crate::snapshot::{VaultSnapshot, contents};

/// Why a snapshot never showed these sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AsOfError {
    /// Segments are shown whole.
    #[error("no segment of shard {shard} ends at {asked}; the one before ends at {before}")]
    Within {
        /// The shard.
        shard: u16,
        /// The size asked for.
        asked: u64,
        /// The greatest size below it that the shard has had.
        before: u64,
    },
    /// The shard is not there yet.
    #[error("shard {shard} has {held} rows here, asked for are {asked}")]
    Beyond {
        /// The shard.
        shard: u16,
        /// The size asked for.
        asked: u64,
        /// The size that it has.
        held: u64,
    },
}

impl VaultSnapshot {
    /// The state in which every shard had the size that `vector` says, and those that it does not
    /// name had no rows. `digest` is that of the snapshot which showed it, where it is known.
    pub fn as_of(
        &self,
        vector: &Vector,
        digest: Option<[u8; 32]>,
    ) -> Result<VaultSnapshot, AsOfError> {
        let segments = self.segments_up_to(vector);
        let digest = digest.unwrap_or_else(|| digest_of(&segments));
        let (vector_then, clusters) = contents(&segments);
        let then = VaultSnapshot {
            version: self.version,
            vector: vector_then,
            digest,
            positions: self.positions.clone(),
            segments,
            clusters,
            // Rows are proved by the newest checkpoint, which holds those of before.
            logs: self.logs.clone(),
            fresh: Arc::clone(&self.fresh),
            cache: Arc::clone(&self.cache),
        };
        for (shard, asked) in vector.iter().filter(|(_, asked)| **asked > 0) {
            let size = |of: &VaultSnapshot| of.vector.get(shard).copied().unwrap_or(0);
            let (shard, asked, held, before) = (*shard, *asked, size(self), size(&then));
            if held < asked {
                return Err(AsOfError::Beyond { shard, asked, held });
            }
            if before != asked {
                return Err(AsOfError::Within { shard, asked, before });
            }
        }
        Ok(then)
    }

    fn segments_up_to(&self, vector: &Vector) -> Segments {
        let mut blocks = Vec::new();
        for block in self.segments.blocks() {
            let size = vector.get(&block.shard()).copied().unwrap_or(0);
            let (first, last) = block.seq();
            if last < size {
                blocks.push(Arc::clone(block));
            } else if first < size {
                let mut part = Vec::new();
                let whole = block.entries().iter().filter(|entry| entry.descriptor.end() <= size);
                whole.for_each(|entry| append(&mut part, Arc::clone(entry)));
                blocks.append(&mut part);
            }
        }
        Segments::new(blocks)
    }
}

/// Names every byte of `segments`: the roots of the shards' trees after them.
fn digest_of(segments: &Segments) -> [u8; 32] {
    let lasts = segments.blocks().iter().map(|block| &block.last().descriptor);
    let shards: BTreeMap<u16, _> = lasts.map(|last| (last.id.shard, last)).collect();
    let mut out = Writer::new();
    out.map(shards.len());
    for (shard, last) in shards {
        out.uint(shard.into()).array(2).uint(last.end()).bytes(&last.root_after);
    }
    keyed_digest("vault snapshot as of", &out.finish())
}
