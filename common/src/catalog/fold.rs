//! Commits folded into a catalog. Every invariant of the lineage is checked here, by name.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::descriptor::Descriptor;
use super::record::{CheckpointEntry, CommitKind, CommitRecord};
use super::segments::Segments;
use crate::fault::{Corruption, check, hex};
use crate::integrity::{
    Checkpoint, Hash, KeyHistory, Note, check_hand_over, check_keys, empty_root, shard_origin,
};
use crate::limits::EPOCH_STEP_MAX;

/// One shard's shipped segments, in order, without gaps from 0.
#[derive(Clone, Debug, Default)]
pub struct ShardCatalog {
    /// Ascending by start.
    pub segments: Segments,
    /// The signed state after the last one.
    pub checkpoint: Option<CheckpointEntry>,
}

impl ShardCatalog {
    /// Leaves shipped.
    pub fn size(&self) -> u64 {
        self.segments.last().map_or(0, |segment| segment.end())
    }

    /// The root after the first `size` leaves, if a segment ends there.
    pub fn root_at(&self, size: u64) -> Option<Hash> {
        let Some(last) = size.checked_sub(1) else { return Some(empty_root()) };
        let segment = self.segments.covering(last)?;
        (segment.end() == size).then_some(segment.root_after)
    }
}

/// The state of one stream after commit `seq`.
#[derive(Clone, Debug)]
pub struct Catalog {
    /// The store.
    pub store_id: [u8; 16],
    /// The cluster.
    pub cluster: String,
    /// The stream.
    pub stream: String,
    /// The last commit; 0 before the first.
    pub seq: u64,
    /// Its hash; zeros before the first.
    pub hash: [u8; 32],
    /// The current epoch; 0 before the first fence.
    pub epoch: u64,
    /// The owner of the epoch.
    pub author: [u8; 32],
    /// By shard; shared with the catalogs before and after, which differ in few.
    pub shards: BTreeMap<u16, Arc<ShardCatalog>>,
}

impl Catalog {
    /// The stream before its first commit.
    pub fn empty(store_id: [u8; 16], stream: &str) -> Self {
        Catalog {
            store_id,
            cluster: String::new(),
            stream: stream.to_owned(),
            seq: 0,
            hash: [0; 32],
            epoch: 0,
            author: [0; 32],
            shards: BTreeMap::new(),
        }
    }

    /// `{shard → size}`.
    pub fn vector(&self) -> BTreeMap<u16, u64> {
        self.shards.iter().map(|(shard, catalog)| (*shard, catalog.size())).collect()
    }

    /// All segments, by shard and start.
    pub fn segments(&self) -> impl Iterator<Item = &Arc<Descriptor>> {
        self.shards.values().flat_map(|shard| shard.segments.iter())
    }

    /// The catalog after `record`, or the invariant that it breaks. `self` stays as it was.
    pub fn apply(&self, record: &CommitRecord, hash: [u8; 32]) -> Result<Self, Corruption> {
        self.check_chain(record)?;
        let mut next = self.clone();
        next.seq = record.seq;
        next.hash = hash;
        match record.kind {
            CommitKind::Fence => {
                let most = self.epoch.saturating_add(EPOCH_STEP_MAX);
                let expected = format!("an epoch above {} and up to {most}", self.epoch);
                let follows = record.epoch > self.epoch && record.epoch <= most;
                check("epoch", follows, &expected, record.epoch)?;
                next.epoch = record.epoch;
                next.author = record.author;
                next.cluster.clone_from(&record.cluster);
            }
            CommitKind::Add => {
                let expected = format!("epoch {}", self.epoch);
                check("epoch", record.epoch == self.epoch, &expected, record.epoch)?;
                let (expected, found) = (hex(&self.author), hex(&record.author));
                check("author", record.author == self.author, &expected, found)?;
            }
        }
        let cluster_kept = self.cluster.is_empty() || self.cluster == record.cluster;
        check("cluster", cluster_kept, &self.cluster, &record.cluster)?;
        check("removes", record.removes.is_empty(), "no removes in this version", "some")?;
        for add in &record.adds {
            let shard = Arc::make_mut(next.shards.entry(add.id.shard).or_default());
            let expected = format!("shard {} continued at {}", add.id.shard, shard.size());
            check("contiguity", add.id.start == shard.size(), &expected, add.id.start)?;
            shard.segments.push(Arc::new(add.clone()));
        }
        next.check_checkpoints(record)?;
        Ok(next)
    }

    fn check_chain(&self, record: &CommitRecord) -> Result<(), Corruption> {
        let (expected, found) = (hex(&self.store_id), hex(&record.store_id));
        check("store_id", record.store_id == self.store_id, &expected, found)?;
        check("stream", record.stream == self.stream, &self.stream, &record.stream)?;
        let expected = self.seq.saturating_add(1);
        let follows = self.seq.checked_add(1) == Some(record.seq);
        check("commit_seq", follows, &expected.to_string(), record.seq)?;
        let (expected, found) = (hex(&self.hash), hex(&record.previous));
        check("commit_chain", record.previous == self.hash, &expected, found)
    }

    /// Every shard that the commit touches ends in a checkpoint of exactly its new size and root,
    /// signed by the shard's key, which never changes but by hand-over.
    fn check_checkpoints(&mut self, record: &CommitRecord) -> Result<(), Corruption> {
        for add in &record.adds {
            let listed = record.checkpoints.contains_key(&add.id.shard);
            let expected = format!("a checkpoint of shard {}", add.id.shard);
            check("checkpoint", listed, &expected, "none")?;
        }
        for (shard, entry) in &record.checkpoints {
            let catalog = Arc::make_mut(self.shards.entry(*shard).or_default());
            let last = catalog.segments.last();
            let (size, root) = last.map_or((0, empty_root()), |s| (s.end(), s.root_after));
            check("checkpoint", entry.size == size, &format!("size {size}"), entry.size)?;
            check("checkpoint", entry.root == root, &hex(&root), hex(&entry.root))?;
            if let Some(before) = &catalog.checkpoint {
                check_keys("shard_key", &before.key, &entry.key)?;
            }
            check_signed(entry, &shard_origin(&record.cluster, *shard), catalog)?;
            catalog.checkpoint = Some(entry.clone());
        }
        Ok(())
    }
}

/// As [`check_note`]; and what the key was handed over with is what the shard's rows give.
pub(super) fn check_signed(
    entry: &CheckpointEntry,
    origin: &str,
    rows: &ShardCatalog,
) -> Result<(), Corruption> {
    let keys = check_note(entry, origin)?;
    let mut hand_overs = keys.hand_overs().iter();
    hand_overs.try_for_each(|next| check_hand_over("shard_key", next, rows.root_at(next.at.size)))
}

/// The note says what the entry says, and the entry's key has signed it. Answers the key's history.
pub(super) fn check_note(entry: &CheckpointEntry, origin: &str) -> Result<KeyHistory, Corruption> {
    let bad =
        |found: String| Corruption::new("checkpoint_note", None, "a signed checkpoint", found);
    let keys = KeyHistory::parse(&entry.key).map_err(|error| bad(error.to_string()))?;
    let note = Note::parse(&entry.note).map_err(|error| bad(error.to_string()))?;
    let checkpoint = keys.verify(&note).map_err(|error| bad(error.to_string()))?;
    let wanted = Checkpoint { origin: origin.to_owned(), size: entry.size, root: entry.root };
    if checkpoint == wanted {
        return Ok(keys);
    }
    Err(bad(format!("{} at size {}", checkpoint.origin, checkpoint.size)))
}
