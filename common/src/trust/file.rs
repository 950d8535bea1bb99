//! The state file: checked JSON (`docs/format.md`, section 6).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{TrustState, TrustedShard};
use crate::catalog::CheckpointEntry;
use crate::checked;
use crate::clock::Micros;
use crate::cluster::{ClusterState, KnownShard, cluster_origin};
use crate::fault::{Corruption, hex, unhex};
use crate::integrity::{CompactRange, Hash, KeyHistory, Note};

const CHECK: &str = "trust_state";
const FORMAT: u32 = 1;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TrustFile {
    format: u32,
    cluster: String,
    store_id: String,
    key: String,
    note: String,
    /// Compact range of the log's leaves.
    tree: Vec<String>,
    /// Number and leaf.
    epoch: Option<(u64, u64)>,
    /// Of the epoch, µs.
    time: i64,
    /// What the newest epoch says of shards and streams.
    anchored: BTreeMap<u16, AnchoredShard>,
    streams: BTreeMap<String, (u64, String)>,
    /// The newest checkpoints of catalogs.
    shards: BTreeMap<u16, HeldShard>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AnchoredShard {
    key: String,
    stream: String,
    size: u64,
    root: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HeldShard {
    stream: String,
    size: u64,
    root: String,
    note: String,
    key: String,
}

impl TrustState {
    /// The file's bytes, with their checksum.
    pub fn to_text(&self) -> Vec<u8> {
        let cluster = &self.cluster;
        let anchored = cluster.shards.iter().map(|(shard, known)| {
            let KnownShard { key, stream, size, root } = known;
            let (key, stream, root) = (key.clone(), stream.clone(), hex(root));
            (*shard, AnchoredShard { key, stream, size: *size, root })
        });
        let held = self.shards.iter().map(|(shard, trusted)| {
            let CheckpointEntry { size, root, note, key } = trusted.checkpoint.clone();
            let stream = trusted.stream.clone();
            (*shard, HeldShard { stream, size, root: hex(&root), note, key })
        });
        let streams =
            cluster.streams.iter().map(|(name, (seq, hash))| (name.clone(), (*seq, hex(hash))));
        checked::to_text(&TrustFile {
            format: FORMAT,
            cluster: cluster.cluster.clone(),
            store_id: hex(&cluster.store_id),
            key: cluster.key.clone(),
            note: self.note.clone(),
            tree: cluster.tree.nodes().iter().map(|node| hex(node)).collect(),
            epoch: cluster.epoch,
            time: cluster.time.0,
            anchored: anchored.collect(),
            streams: streams.collect(),
            shards: held.collect(),
        })
    }

    /// Reads the file's bytes: the checksum, and that the note is signed and says what the tree does.
    pub fn parse(text: &[u8]) -> Result<Self, Corruption> {
        // Unlike older files, this one never had no checksum.
        if !text.windows(7).any(|bytes| bytes == b"\"crc32\"") {
            return Err(bad("a checksum", "none"));
        }
        let file: TrustFile = checked::parse(CHECK, text)?;
        if file.format != FORMAT {
            return Err(bad("format 1; use a newer sealcast", file.format.to_string()));
        }
        let store_id = unhex(&file.store_id).ok_or_else(|| bad("a store id", &file.store_id))?;
        let mut shards = BTreeMap::new();
        for (shard, known) in file.anchored {
            let AnchoredShard { key, stream, size, root } = known;
            shards.insert(shard, KnownShard { key, stream, size, root: hash(&root)? });
        }
        let mut streams = BTreeMap::new();
        for (name, (seq, commit)) in file.streams {
            streams.insert(name, (seq, hash(&commit)?));
        }
        let mut held = BTreeMap::new();
        for (shard, entry) in file.shards {
            let HeldShard { stream, size, root, note, key } = entry;
            let checkpoint = CheckpointEntry { size, root: hash(&root)?, note, key };
            held.insert(shard, TrustedShard { stream, checkpoint });
        }
        let nodes: Result<Vec<Hash>, _> = file.tree.iter().map(|node| hash(node)).collect();
        let cluster = ClusterState {
            tree: tree(nodes?, &file.note, &file.key, &file.cluster)?,
            cluster: file.cluster,
            store_id,
            key: file.key,
            shards,
            streams,
            epoch: file.epoch,
            time: Micros(file.time),
        };
        Ok(TrustState { cluster, note: file.note, shards: held })
    }
}

/// The tree whose root the note has signed.
fn tree(
    nodes: Vec<Hash>,
    note: &str,
    key: &str,
    cluster: &str,
) -> Result<CompactRange, Corruption> {
    if note.is_empty() {
        return CompactRange::from_nodes(0, 0, nodes).map_err(|found| bad("no tree", found.found));
    }
    let signed = KeyHistory::parse(key).and_then(|keys| keys.verify(&Note::parse(note)?));
    let signed = signed.map_err(|error| bad("a note signed by its key", error.to_string()))?;
    let tree = CompactRange::from_nodes(0, signed.size, nodes)
        .map_err(|found| bad(&found.expected, &found.found))?;
    let root = tree.root()?;
    if (root, &signed.origin) == (signed.root, &cluster_origin(cluster)) {
        return Ok(tree);
    }
    let expected = format!("root {} of {}", hex(&signed.root), signed.origin);
    Err(bad(&expected, format!("root {} of {}", hex(&root), cluster_origin(cluster))))
}

fn hash(text: &str) -> Result<Hash, Corruption> {
    unhex(text).ok_or_else(|| bad("64 hex digits", text))
}

fn bad(expected: &str, found: impl Into<String>) -> Corruption {
    Corruption::new(CHECK, None, expected, found)
}
