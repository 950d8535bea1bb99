//! A catalog at one commit, so that a new replica boots without replaying the log.
//!
//! Root: signed envelope like a commit's. Leaves: content-addressed lists of descriptors, so that
//! only the last one of a shard changes from snapshot to snapshot.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::descriptor::Descriptor;
use super::fold::{Catalog, ShardCatalog, check_signed};
use super::record::{
    CheckpointEntry, read_checkpoints, seal_envelope, unseal_envelope, write_checkpoints,
};
use crate::cbor::{Reader, Writer};
use crate::fault::{Corruption, hex};
use crate::integrity::{Signer, SignerError, empty_root, file_hash, shard_origin, verify_detached};
use crate::limits::SNAPSHOT_LEAF_MAX;

/// The root of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotRoot {
    /// The store.
    pub store_id: [u8; 16],
    /// The cluster.
    pub cluster: String,
    /// The stream.
    pub stream: String,
    /// The last commit folded in.
    pub seq: u64,
    /// Its hash.
    pub hash: [u8; 32],
    /// The epoch.
    pub epoch: u64,
    /// The owner, who signs.
    pub author: [u8; 32],
    /// Signed state of every shard.
    pub checkpoints: BTreeMap<u16, CheckpointEntry>,
    /// BLAKE3 of every leaf, in order.
    pub leaves: Vec<[u8; 32]>,
}

/// The descriptors of a catalog in leaves of bounded size, shard by shard, so that what one shard
/// adds moves no other's: (hash, bytes).
pub fn encode_leaves(catalog: &Catalog) -> Vec<([u8; 32], Vec<u8>)> {
    let mut leaves = Vec::new();
    for shard in catalog.shards.values() {
        let mut left = shard.segments.iter();
        while left.len() > 0 {
            let mut out = Writer::new();
            out.array(left.len().min(SNAPSHOT_LEAF_MAX));
            for descriptor in left.by_ref().take(SNAPSHOT_LEAF_MAX) {
                descriptor.write(&mut out);
            }
            let bytes = out.finish();
            leaves.push((file_hash(&bytes), bytes));
        }
    }
    leaves
}

/// Reads a leaf and compares its hash.
pub fn decode_leaf(bytes: &[u8], hash: &[u8; 32]) -> Result<Vec<Descriptor>, Corruption> {
    let found = file_hash(bytes);
    if found != *hash {
        return Err(Corruption::new("snapshot_leaf", None, hex(hash), hex(&found)));
    }
    let mut reader = Reader::new(bytes, "snapshot_leaf");
    let count = reader.array()?;
    let list = (0..count).map(|_| Descriptor::read(&mut reader)).collect::<Result<_, _>>()?;
    reader.end()?;
    Ok(list)
}

impl SnapshotRoot {
    /// The root over `leaves` of `catalog`.
    pub fn new(catalog: &Catalog, leaves: &[([u8; 32], Vec<u8>)]) -> Self {
        let checkpoints = catalog.shards.iter();
        SnapshotRoot {
            store_id: catalog.store_id,
            cluster: catalog.cluster.clone(),
            stream: catalog.stream.clone(),
            seq: catalog.seq,
            hash: catalog.hash,
            epoch: catalog.epoch,
            author: catalog.author,
            checkpoints: checkpoints
                .filter_map(|(shard, c)| Some((*shard, c.checkpoint.clone()?)))
                .collect(),
            leaves: leaves.iter().map(|(hash, _)| *hash).collect(),
        }
    }

    /// The object's bytes, signed by the owner of the epoch.
    pub fn to_object(&self, signer: &dyn Signer) -> Result<Vec<u8>, SignerError> {
        seal_envelope(&self.to_payload(), signer)
    }

    /// What is signed; also how a replica remembers a catalog locally.
    pub fn to_payload(&self) -> Vec<u8> {
        let mut out = Writer::new();
        out.array(9).bytes(&self.store_id).text(&self.cluster).text(&self.stream).uint(self.seq);
        out.bytes(&self.hash).uint(self.epoch).bytes(&self.author);
        write_checkpoints(&self.checkpoints, &mut out);
        out.array(self.leaves.len());
        for leaf in &self.leaves {
            out.bytes(leaf);
        }
        out.finish()
    }

    /// Parses and verifies the object.
    pub fn from_object(object: &[u8]) -> Result<Self, Corruption> {
        let (payload, signature) = unseal_envelope(object, "snapshot")?;
        let root = Self::from_payload(payload)?;
        if verify_detached(&root.author, payload, &signature) {
            return Ok(root);
        }
        let expected = format!("a signature by {}", hex(&root.author));
        Err(Corruption::new("snapshot_signature", None, expected, "another"))
    }

    /// Parses what is signed; verifies no signature.
    pub fn from_payload(payload: &[u8]) -> Result<Self, Corruption> {
        let mut reader = Reader::new(payload, "snapshot");
        let r = &mut reader;
        r.array_exact(9)?;
        let root = SnapshotRoot {
            store_id: r.bytes_exact()?,
            cluster: r.text()?.to_owned(),
            stream: r.text()?.to_owned(),
            seq: r.uint()?,
            hash: r.bytes_exact()?,
            epoch: r.uint()?,
            author: r.bytes_exact()?,
            checkpoints: read_checkpoints(r)?,
            leaves: (0..r.array()?).map(|_| r.bytes_exact()).collect::<Result<_, _>>()?,
        };
        r.end()?;
        Ok(root)
    }

    /// The catalog, from the descriptors of all leaves in order.
    pub fn into_catalog(self, descriptors: Vec<Descriptor>) -> Result<Catalog, Corruption> {
        let mut shards: BTreeMap<u16, ShardCatalog> = BTreeMap::new();
        for descriptor in descriptors {
            let shard = shards.entry(descriptor.id.shard).or_default();
            if descriptor.id.start != shard.size() {
                let expected = format!("shard {} at {}", descriptor.id.shard, shard.size());
                let found = descriptor.id.start.to_string();
                return Err(Corruption::new("contiguity", None, expected, found));
            }
            shard.segments.push(Arc::new(descriptor));
        }
        for (shard, entry) in self.checkpoints {
            let catalog = shards.entry(shard).or_default();
            if entry.size != catalog.size() {
                let expected = format!("size {}", catalog.size());
                return Err(Corruption::new("checkpoint", None, expected, entry.size.to_string()));
            }
            let last = catalog.segments.last();
            let root = last.map_or_else(empty_root, |segment| segment.root_after);
            if entry.root != root {
                let (expected, found) = (hex(&root), hex(&entry.root));
                return Err(Corruption::new("checkpoint", None, expected, found));
            }
            check_signed(&entry, &shard_origin(&self.cluster, shard), catalog)?;
            catalog.checkpoint = Some(entry);
        }
        // As for commits: no shard's segments without its writer's own signature.
        if let Some((shard, _)) = shards.iter().find(|(_, catalog)| catalog.checkpoint.is_none()) {
            let expected = format!("a checkpoint of shard {shard}");
            return Err(Corruption::new("checkpoint", None, expected, "none"));
        }
        Ok(Catalog {
            store_id: self.store_id,
            cluster: self.cluster,
            stream: self.stream,
            seq: self.seq,
            hash: self.hash,
            epoch: self.epoch,
            author: self.author,
            shards: shards.into_iter().map(|(shard, c)| (shard, Arc::new(c))).collect(),
        })
    }
}
