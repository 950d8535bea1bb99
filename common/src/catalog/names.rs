//! Object keys. Made from numbers and hashes only, never from a client's text.

use crate::fault::hex;

/// Create-only: format and store id.
pub const STORE_KEY: &str = "SEALCAST.json";
/// The format that it states.
pub const STORE_FORMAT: u32 = 1;
/// All streams lie under here.
pub const STREAMS_PREFIX: &str = "st";
/// The folder of the index of streams.
pub const STREAM_INDEX_PREFIX: &str = "streams";

/// Whether `name` may be a stream: 1 to 64 of `a-z`, `0-9`, `-`.
pub fn is_stream_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

/// One entry of the index of streams; not under [`STREAMS_PREFIX`], where every folder is a stream.
pub fn stream_index_key(number: u64) -> String {
    format!("{STREAM_INDEX_PREFIX}/{number:020}")
}

/// One commit record.
pub fn commit_key(stream: &str, seq: u64) -> String {
    format!("{STREAMS_PREFIX}/{stream}/log/{seq:020}")
}

/// The hint to the newest commit and snapshot.
pub fn head_key(stream: &str) -> String {
    format!("{STREAMS_PREFIX}/{stream}/head")
}

/// The root of a snapshot.
pub fn snapshot_key(stream: &str, seq: u64, hash: &[u8; 32]) -> String {
    format!("{STREAMS_PREFIX}/{stream}/snap/{seq:020}-{}", hex(&hash[..8]))
}

/// A leaf of a snapshot, by content.
pub fn snapshot_leaf_key(stream: &str, hash: &[u8; 32]) -> String {
    format!("{STREAMS_PREFIX}/{stream}/leaf/{}", hex(hash))
}

/// A segment. The folder of two hex digits spreads the keys.
pub fn segment_key(shard: u16, start: u64, rows: u32, hash: &[u8; 32]) -> String {
    let (spread, short) = (hex(&hash[..1]), hex(&hash[..16]));
    format!("sh/{shard:04x}/seg/{spread}/{start:016x}.{rows:08x}.{short}.seg.zst")
}

/// The leaf hashes of one segment's rows, in the order of their seqs.
pub fn pack_key(shard: u16, start: u64, rows: u32) -> String {
    format!("sh/{shard:04x}/l0/{start:016x}.{rows:08x}.pack")
}

/// A full tile of level 1 or more; `path` is C2SP's.
pub fn tile_key(shard: u16, path: &str) -> String {
    format!("sh/{shard:04x}/tile/{path}")
}

/// The signed checkpoint at a committed size, and the right edge of the tree's tiles.
pub fn checkpoint_key(shard: u16, size: u64) -> String {
    format!("{}/{size:020}", checkpoints_prefix(shard))
}

/// Checkpoints of a shard.
pub fn checkpoints_prefix(shard: u16) -> String {
    format!("sh/{shard:04x}/ckpt")
}

/// The newest checkpoint of the cluster log, with all its cosignatures: a hint.
pub const CLUSTER_HEAD_KEY: &str = "cluster/head";
/// Checkpoints of the cluster log.
pub const CLUSTER_CHECKPOINTS_PREFIX: &str = "cluster/ckpt";

/// One leaf of the cluster log.
pub fn cluster_record_key(index: u64) -> String {
    format!("cluster/log/{index:020}")
}

/// 256 leaves of the cluster log (C2SP entry bundle), or a full tile; `path` is C2SP's.
pub fn cluster_tile_key(path: &str) -> String {
    format!("cluster/tile/{path}")
}

/// The cluster log's checkpoint at a published size, and the right edge of its tiles.
pub fn cluster_checkpoint_key(size: u64) -> String {
    format!("{CLUSTER_CHECKPOINTS_PREFIX}/{size:020}")
}
