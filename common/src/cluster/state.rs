//! The rules between records, and between the cluster log and what the streams say.
//!
//! Shards and streams are added and never vanish; nothing shrinks; what has one size has one root.

use std::collections::BTreeMap;

use super::cluster_origin;
use super::record::{ClusterRecord, Epoch, ShardPoint, StreamPoint};
use crate::catalog::Catalog;
use crate::catalog::names::is_stream_name;
use crate::clock::Micros;
use crate::fault::{Corruption, check, hex};
use crate::integrity::{
    CompactRange, Hash, KeyHistory, check_hand_over, check_keys, empty_root, leaf_hash,
    shard_origin, shown_key,
};

/// A shard as the cluster log knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownShard {
    /// Its key, with its history.
    pub key: String,
    /// The stream that ships it.
    pub stream: String,
    /// Rows in the newest epoch.
    pub size: u64,
    /// Root at that size.
    pub root: Hash,
}

/// The records so far, folded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterState {
    /// The tree over their leaves.
    pub tree: CompactRange,
    /// The cluster; empty before the first record.
    pub cluster: String,
    /// The store of the first record.
    pub store_id: [u8; 16],
    /// The log's own key, as the records name it, with its history.
    pub key: String,
    /// Every shard.
    pub shards: BTreeMap<u16, KnownShard>,
    /// Every stream's last commit in the newest epoch.
    pub streams: BTreeMap<String, (u64, [u8; 32])>,
    /// Number and leaf of the newest epoch.
    pub epoch: Option<(u64, u64)>,
    /// Its time.
    pub time: Micros,
}

impl Default for ClusterState {
    fn default() -> Self {
        ClusterState {
            tree: CompactRange::empty(0),
            cluster: String::new(),
            store_id: [0; 16],
            key: String::new(),
            shards: BTreeMap::new(),
            streams: BTreeMap::new(),
            epoch: None,
            time: Micros(i64::MIN),
        }
    }
}

impl ClusterState {
    /// Leaves.
    pub fn size(&self) -> u64 {
        self.tree.end()
    }

    /// Folds the next leaf, or names the rule that it breaks.
    pub fn apply(&mut self, leaf: &[u8]) -> Result<ClusterRecord, Corruption> {
        let record = ClusterRecord::from_leaf(leaf)?;
        match &record {
            ClusterRecord::Genesis { cluster, store_id, key, time } => {
                check(
                    "cluster_record",
                    self.size() == 0,
                    "genesis as the first leaf",
                    self.size(),
                )?;
                let named = KeyHistory::parse(key);
                let named = named.is_ok_and(|keys| keys.origin() == cluster_origin(cluster));
                let expected = format!("a key of {}", cluster_origin(cluster));
                check("cluster_key", named, &expected, shown_key(key))?;
                (self.cluster, self.store_id) = (cluster.clone(), *store_id);
                (self.key, self.time) = (key.clone(), *time);
            }
            _ if self.size() == 0 => check("cluster_record", false, "genesis first", "another")?,
            ClusterRecord::ShardAdded { shard, key, stream } => self.add(*shard, key, stream)?,
            ClusterRecord::KeyRotated { shard: None, keys } => self.rotate_log(keys)?,
            ClusterRecord::KeyRotated { shard: Some(shard), keys } => self.rotate(*shard, keys)?,
            ClusterRecord::Epoch(epoch) => self.begin(epoch)?,
        }
        self.tree.append(leaf_hash(leaf));
        Ok(record)
    }

    fn add(&mut self, shard: u16, key: &str, stream: &str) -> Result<(), Corruption> {
        let fresh = !self.shards.contains_key(&shard);
        check("cluster_shard", fresh, &format!("shard {shard:04x} once"), "a second time")?;
        let origin = shard_origin(&self.cluster, shard);
        let named = KeyHistory::parse(key).is_ok_and(|keys| keys.origin() == origin);
        check("cluster_key", named, &format!("a key of {origin}"), shown_key(key))?;
        check("cluster_stream", is_stream_name(stream), "a stream's name", stream)?;
        let (key, stream) = (key.to_owned(), stream.to_owned());
        self.shards.insert(shard, KnownShard { key, stream, size: 0, root: empty_root() });
        Ok(())
    }

    /// The first leaf under a new key says so: the tree before it is the one that was handed over.
    fn rotate_log(&mut self, keys: &str) -> Result<(), Corruption> {
        let (size, root) = (self.size(), self.tree.root()?);
        for next in check_keys("cluster_key", &self.key, keys)? {
            check_hand_over("cluster_key", &next, (next.at.size == size).then_some(root))?;
        }
        keys.clone_into(&mut self.key);
        Ok(())
    }

    fn rotate(&mut self, shard: u16, keys: &str) -> Result<(), Corruption> {
        let Some(known) = self.shards.get_mut(&shard) else {
            return check("cluster_shard", false, "a shard that was added", format!("{shard:04x}"));
        };
        let news = check_keys("shard_key", &known.key, keys)?;
        let grows = news.first().is_some_and(|next| next.at.size >= known.size);
        let expected = format!("a hand-over of shard {shard:04x} at {} rows or more", known.size);
        check("shard_key", grows, &expected, shown_key(keys))?;
        for next in news.iter().filter(|next| next.at.size == known.size) {
            check_hand_over("shard_key", next, Some(known.root))?;
        }
        keys.clone_into(&mut known.key);
        Ok(())
    }

    fn begin(&mut self, epoch: &Epoch) -> Result<(), Corruption> {
        let number = self.epoch.map_or(1, |(number, _)| number + 1);
        let previous = self.epoch.map(|(_, index)| index);
        let follows = (epoch.number, epoch.previous) == (number, previous);
        let expected = format!("epoch {number} after leaf {previous:?}");
        let found = format!("epoch {} after leaf {:?}", epoch.number, epoch.previous);
        check("cluster_epoch", follows, &expected, found)?;
        let expected = format!("a time from {} on", self.time.0);
        check("cluster_epoch", epoch.time >= self.time, &expected, epoch.time.0)?;
        let listed: Vec<u16> = epoch.shards.iter().map(|point| point.shard).collect();
        let known: Vec<u16> = self.shards.keys().copied().collect();
        let expected = format!("the shards {known:?}");
        check("cluster_shard", listed == known, &expected, format!("{listed:?}"))?;
        let mut next = self.clone();
        epoch.shards.iter().try_for_each(|point| next.move_shard(point))?;
        next.move_streams(&epoch.streams)?;
        next.epoch = Some((number, self.size()));
        next.time = epoch.time;
        *self = next;
        Ok(())
    }

    fn move_shard(&mut self, point: &ShardPoint) -> Result<(), Corruption> {
        let Some(known) = self.shards.get_mut(&point.shard) else { return Ok(()) };
        let name = format!("shard {:04x}", point.shard);
        let expected = format!("{name} with at least {} rows", known.size);
        check("cluster_shard", point.size >= known.size, &expected, point.size)?;
        let kept = point.size > known.size || point.root == known.root;
        let expected = format!("{name} at {} with root {}", known.size, hex(&known.root));
        check("cluster_root", kept, &expected, hex(&point.root))?;
        (known.size, known.root) = (point.size, point.root);
        Ok(())
    }

    fn move_streams(&mut self, points: &[StreamPoint]) -> Result<(), Corruption> {
        let ascending = points.windows(2).all(|pair| pair[0].stream < pair[1].stream);
        check("cluster_stream", ascending, "streams in ascending order", "another order")?;
        let listed = |name: &str| points.iter().any(|point| point.stream == name);
        if let Some(gone) = self.streams.keys().find(|name| !listed(name)) {
            check("cluster_stream", false, &format!("stream {gone}"), "an epoch without it")?;
        }
        for point in points {
            check("cluster_stream", is_stream_name(&point.stream), "a name", &point.stream)?;
            if let Some((seq, hash)) = self.streams.get(&point.stream) {
                let expected = format!("stream {} at commit {seq} or later", point.stream);
                check("cluster_stream", point.seq >= *seq, &expected, point.seq)?;
                let kept = point.seq > *seq || point.hash == *hash;
                let expected = format!("commit {seq} of {} as {}", point.stream, hex(hash));
                check("cluster_stream", kept, &expected, hex(&point.hash))?;
            }
            self.streams.insert(point.stream.clone(), (point.seq, point.hash));
        }
        Ok(())
    }

    /// The streams as they lie in the store continue what the newest epoch says. `hash_at` gives
    /// the hash of a commit where it is known. A finding says that somebody removed, rolled back,
    /// rewrote or hid something after it was signed here.
    pub fn contradictions(
        &self,
        catalogs: &BTreeMap<String, Catalog>,
        hash_at: impl Fn(&str, u64) -> Option<[u8; 32]>,
    ) -> Vec<Corruption> {
        let mut found = Vec::new();
        for (name, (seq, hash)) in &self.streams {
            found.extend(check_stream(name, *seq, hash, catalogs.get(name), &hash_at).err());
        }
        for (shard, known) in &self.shards {
            let catalog = catalogs.get(&known.stream);
            found.extend(check_shard(*shard, known, catalog).err());
        }
        found
    }

    /// Shards that have rows and are not in this log: not anchored yet, or hidden from it.
    pub fn unanchored(&self, catalogs: &BTreeMap<String, Catalog>) -> Vec<u16> {
        let shards = catalogs.values().flat_map(|catalog| catalog.shards.keys().copied());
        shards.filter(|shard| !self.shards.contains_key(shard)).collect()
    }
}

pub(crate) fn check_stream(
    name: &str,
    seq: u64,
    hash: &[u8; 32],
    catalog: Option<&Catalog>,
    hash_at: impl Fn(&str, u64) -> Option<[u8; 32]>,
) -> Result<(), Corruption> {
    let expected = format!("stream {name} up to commit {seq}");
    let Some(catalog) = catalog else { return check("cluster_stream", false, &expected, "none") };
    check("cluster_stream", catalog.seq >= seq, &expected, format!("commit {}", catalog.seq))?;
    let known = (catalog.seq == seq).then_some(catalog.hash).or_else(|| hash_at(name, seq));
    match known {
        Some(known) if known != *hash => {
            let expected = format!("commit {seq} of stream {name} as {}", hex(hash));
            check("cluster_stream", false, &expected, hex(&known))
        }
        _ => Ok(()),
    }
}

pub(crate) fn check_shard(
    shard: u16,
    known: &KnownShard,
    catalog: Option<&Catalog>,
) -> Result<(), Corruption> {
    let expected = format!("shard {shard:04x} with {} rows", known.size);
    let rows = catalog.and_then(|catalog| catalog.shards.get(&shard));
    let Some(rows) = rows else { return check("cluster_shard", false, &expected, "no shard") };
    check("cluster_shard", rows.size() >= known.size, &expected, rows.size())?;
    if let Some(checkpoint) = &rows.checkpoint {
        check_keys("shard_key", &known.key, &checkpoint.key)?;
    }
    let last = known.size.checked_sub(1).and_then(|last| rows.segments.covering(last));
    let root = match last {
        None => empty_root(),
        Some(segment) if segment.end() == known.size => segment.root_after,
        Some(segment) => {
            let expected = format!("a segment of shard {shard:04x} that ends at {}", known.size);
            return check("cluster_root", false, &expected, segment.id.to_text());
        }
    };
    let expected = format!("shard {shard:04x} at {} with root {}", known.size, hex(&known.root));
    check("cluster_root", root == known.root, &expected, hex(&root))
}
