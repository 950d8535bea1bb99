//! The cluster log: which shards and streams there are, and how far each has come, for ever.
//!
//! An RFC 6962 log of its own, origin `<cluster>/cluster`. Its leaves are typed records; an epoch
//! holds the complete vector in one leaf. Whoever deletes, rolls back, rewrites or hides a shard or
//! a stream contradicts it. Reading order: `record` (one leaf), `state` (the rules between them),
//! `pending` (the keeper's own file).

mod pending;
mod record;
mod state;

#[cfg(test)]
mod tests;

pub use pending::Pending;
pub use record::{ClusterRecord, Epoch, ShardPoint, StreamPoint};
pub use state::{ClusterState, KnownShard};
#[cfg(feature = "bucket")]
pub(crate) use state::{check_shard, check_stream};

/// The cluster log's origin. Shards' names are four hex digits: no shard has this one.
pub fn cluster_origin(cluster: &str) -> String {
    format!("{cluster}/cluster")
}
