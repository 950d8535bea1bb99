//! What has been shipped: commit records, and the catalog that they add up to.
//!
//! Reading order: `names` (object keys), `descriptor` (one segment), `record` (one commit, signed),
//! `segments` (a shard's list), `fold` (commits → catalog, every invariant), `snapshot` (a catalog
//! at one commit, for boot), `checkpoint` (a shard's tree at a committed size).

mod checkpoint;
mod descriptor;
mod fold;
pub mod names;
mod record;
mod segments;
mod snapshot;

#[cfg(test)]
mod tests;

pub use checkpoint::CheckpointObject;
pub use descriptor::{Descriptor, SegmentId};
pub use fold::{Catalog, ShardCatalog};
pub use record::{CheckpointEntry, CommitKind, CommitRecord, seal_envelope, unseal_envelope};
pub use segments::Segments;
pub use snapshot::{SnapshotRoot, decode_leaf, encode_leaves};
