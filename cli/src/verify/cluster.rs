//! The cluster log: its leaves under their rules, its tiles and checkpoints, and what it says of
//! shards and streams against what lies in the store.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use futures::StreamExt as _;
use sealcast_common::bucket::{Store, StoreError, check_cluster_note, join_bundle};
use sealcast_common::catalog::names::{
    CLUSTER_CHECKPOINTS_PREFIX, CLUSTER_HEAD_KEY, checkpoint_key, cluster_checkpoint_key,
    cluster_record_key, cluster_tile_key,
};
use sealcast_common::catalog::{Catalog, CheckpointObject};
use sealcast_common::cluster::{ClusterState, cluster_origin};
use sealcast_common::fault::{Corruption, hex};
use sealcast_common::integrity::{
    Checkpoint, Distrust, Edge, Hash, KeyHistory, Note, NoteError, Policy, TILE_WIDTH, TileId,
    hashes, index_path, leaf_hash, shard_origin, shown_key,
};

use super::Report;
use super::files::Unread;
use super::stream::Followed;
use super::tiles::{read, same, same_edge};

/// Leaves that are fetched at the same time.
const AT_ONCE: usize = 16;

/// A cluster log that was followed to its newest checkpoint.
#[derive(Debug)]
pub(super) struct FollowedCluster {
    pub(super) state: ClusterState,
    /// The root after each leaf, the empty tree's first.
    pub(super) roots: Vec<Hash>,
    /// The newest checkpoint.
    pub(super) note: Option<Note>,
}

/// What became of following a cluster log.
#[derive(Debug)]
pub(super) enum ClusterLog {
    Whole(Box<FollowedCluster>),
    /// No shipper has published one.
    Absent,
    /// The report says why it could not be followed.
    Broken,
}

/// Follows the cluster log. To be asked before the streams: what it says of them was in the store
/// before it.
pub(super) async fn follow(store: &Store, store_id: [u8; 16], report: &mut Report) -> ClusterLog {
    match log(store, store_id, report).await {
        Ok(Some(followed)) => ClusterLog::Whole(Box::new(followed)),
        Ok(None) => ClusterLog::Absent,
        Err(why) => {
            report.book(Err(why));
            ClusterLog::Broken
        }
    }
}

async fn log(
    store: &Store,
    store_id: [u8; 16],
    report: &mut Report,
) -> Result<Option<FollowedCluster>, Unread> {
    let unread = |error: StoreError| Unread::Cannot(error.to_string());
    let head = store.get(CLUSTER_HEAD_KEY).await.map_err(unread)?;
    let listed = store.list_all(CLUSTER_CHECKPOINTS_PREFIX).await.map_err(unread)?;
    let sizes: BTreeSet<u64> =
        listed.iter().filter_map(|(key, _)| key.rsplit('/').next()?.parse().ok()).collect();
    let head = head.map(|bytes| read_head(&bytes)).transpose();
    let head = head.map_err(|found| report.findings.push(found)).ok().flatten();
    let told = head.as_ref().map(|(_, checkpoint)| checkpoint.size);
    let Some(end) = told.into_iter().chain(sizes.last().copied()).max() else { return Ok(None) };
    let mut check = LogCheck {
        store,
        sizes,
        report,
        edge: Edge::default(),
        open: Vec::new(),
        told: Vec::new(),
    };
    let followed = check.leaves(store_id, end).await?;
    if let Some((note, checkpoint)) = head {
        let found = check_head(&followed, &note, &checkpoint);
        check.report.book(found.map_err(|found| found.in_object(CLUSTER_HEAD_KEY).into()));
    }
    check.report.cluster_leaves += followed.state.size();
    Ok(Some(followed))
}

fn read_head(bytes: &[u8]) -> Result<(Note, Checkpoint), Corruption> {
    let bad = |found: String| {
        Corruption::new("cluster_note", None, "a checkpoint", found).in_object(CLUSTER_HEAD_KEY)
    };
    let text = str::from_utf8(bytes).map_err(|error| bad(error.to_string()))?;
    let note = Note::parse(text).map_err(|error| bad(error.to_string()))?;
    let checkpoint = Checkpoint::parse(&note.text).map_err(|error| bad(error.to_string()))?;
    Ok((note, checkpoint))
}

/// The head may be older than the newest checkpoint, but it is one of this log's.
fn check_head(
    followed: &FollowedCluster,
    note: &Note,
    found: &Checkpoint,
) -> Result<(), Corruption> {
    let bad =
        |expected: String, found: String| Corruption::new("cluster_note", None, expected, found);
    let keys = KeyHistory::parse(&followed.state.key);
    let signed = keys.and_then(|keys| keys.verify(note));
    let expected = format!("signed by {}", shown_key(&followed.state.key));
    signed.map_err(|error| bad(expected, error.to_string()))?;
    let root = usize::try_from(found.size).ok().and_then(|at| followed.roots.get(at));
    if root == Some(&found.root) && found.origin == cluster_origin(&followed.state.cluster) {
        return Ok(());
    }
    let expected =
        format!("root {} at {}", root.map(|root| hex(root)).unwrap_or_default(), found.size);
    Err(bad(expected, format!("root {} of {}", hex(&found.root), found.origin)))
}

struct LogCheck<'a> {
    store: &'a Store,
    /// At which a checkpoint stands.
    sizes: BTreeSet<u64>,
    report: &'a mut Report,
    edge: Edge,
    /// Leaves that are in no full bundle yet.
    open: Vec<Vec<u8>>,
    /// The hashes of the leaves from the last multiple of 256 on, as the store tells them.
    told: Vec<Hash>,
}

impl LogCheck<'_> {
    async fn leaves(&mut self, store_id: [u8; 16], end: u64) -> Result<FollowedCluster, Unread> {
        let state = ClusterState::default();
        let roots = vec![state.tree.root()?];
        let mut followed = FollowedCluster { state, roots, note: None };
        let store = self.store;
        let fetched = (0..end).map(|index| async move { leaf(store, index).await });
        let mut fetched = futures::stream::iter(fetched).buffered(AT_ONCE);
        while let Some(leaf) = fetched.next().await {
            let (index, leaf) = (followed.state.size(), leaf?);
            self.hashed(index, end, leaf_hash(&leaf)).await?;
            let applied = followed.state.apply(&leaf);
            applied.map_err(|found| found.in_object(cluster_record_key(index)))?;
            if index == 0 && followed.state.store_id != store_id {
                let (expected, found) = (hex(&store_id), hex(&followed.state.store_id));
                let found = Corruption::new("cluster_record", None, expected, found);
                return Err(found.in_object(cluster_record_key(0)).into());
            }
            followed.roots.push(followed.state.tree.root()?);
            self.report.bytes += leaf.len() as u64;
            self.beside(leaf.to_vec()).await;
            self.checkpoint(&mut followed, end).await;
        }
        Ok(followed)
    }

    /// The leaf has the hash that tiles and the newest checkpoint tell, where they can be read:
    /// they show which leaf is damaged, the rules and the root only that one is.
    async fn hashed(&mut self, index: u64, end: u64, found: Hash) -> Result<(), Corruption> {
        if index.is_multiple_of(TILE_WIDTH) {
            self.told = told(self.store, index, end).await;
        }
        let at = usize::try_from(index % TILE_WIDTH).unwrap_or(usize::MAX);
        match self.told.get(at).filter(|expected| **expected != found) {
            Some(expected) => {
                let found = Corruption::new("cluster_record", None, hex(expected), hex(&found));
                Err(found.in_object(cluster_record_key(index)))
            }
            None => Ok(()),
        }
    }

    /// The bundle and the tiles that the leaf fills.
    async fn beside(&mut self, leaf: Vec<u8>) {
        let mut full = Vec::new();
        self.edge.append(leaf_hash(&leaf), &mut full);
        self.open.push(leaf);
        let mut objects: Vec<_> =
            full.into_iter().map(|(id, tile)| (id.path(TILE_WIDTH), tile)).collect();
        let size = self.edge.size();
        if size.is_multiple_of(TILE_WIDTH) {
            let name = format!("entries/{}", index_path(size / TILE_WIDTH - 1));
            objects.push((name, join_bundle(&self.open)));
            self.open.clear();
        }
        for (name, expected) in objects {
            let key = cluster_tile_key(&name);
            let found = same(self.store, &key, &expected, &mut self.report.bytes).await;
            self.report.book(found);
        }
    }

    /// The checkpoint at this size, if one stands; at the end one must.
    async fn checkpoint(&mut self, followed: &mut FollowedCluster, end: u64) {
        let size = followed.state.size();
        if size != end && !self.sizes.contains(&size) {
            return;
        }
        let (key, origin) = (cluster_checkpoint_key(size), cluster_origin(&followed.state.cluster));
        let found = same_edge(self.store, &key, &origin, &self.edge, &mut self.report.bytes).await;
        let found = found.and_then(|object| {
            let bad = |error: NoteError| {
                Corruption::new("cluster_note", None, "a checkpoint", error.to_string())
            };
            let log = KeyHistory::parse(&followed.state.key).map_err(bad)?;
            let note = Note::parse(&object.entry.note).map_err(bad)?;
            check_cluster_note(&note, &log, &followed.state)
                .map_err(|found| found.in_object(&key))?;
            Ok(note)
        });
        followed.note = found.map_err(|why| self.report.book(Err(why))).ok();
    }
}

async fn leaf(store: &Store, index: u64) -> Result<Bytes, Unread> {
    let mut bytes = 0;
    read(store, &cluster_record_key(index), &mut bytes).await.map_err(|why| match why {
        Unread::Tampered(found) => Corruption { check: "cluster_missing", ..found }.into(),
        other => other,
    })
}

/// Hashes of up to 256 leaves from `index` on: the full tile, or the newest checkpoint's edge.
async fn told(store: &Store, index: u64, end: u64) -> Vec<Hash> {
    let id = TileId { level: 0, index: index / TILE_WIDTH };
    if index + TILE_WIDTH <= end {
        let key = cluster_tile_key(&id.path(TILE_WIDTH));
        let tile = store.get(&key).await.ok().flatten();
        return tile.map(|bytes| hashes(&bytes)).unwrap_or_default();
    }
    let object = store.get(&cluster_checkpoint_key(end)).await.ok().flatten();
    let object = object.and_then(|bytes| CheckpointObject::from_object(&bytes, None).ok());
    object.and_then(|object| object.edge.partial(id)).map(|row| hashes(&row)).unwrap_or_default()
}

/// What the newest epoch says of streams and shards is what the store has.
pub(super) fn compare(cluster: &FollowedCluster, streams: &[Followed], report: &mut Report) {
    if !streams.iter().all(|stream| stream.whole) {
        // Found already; behind it nothing can be compared.
        return;
    }
    let catalogs: BTreeMap<String, Catalog> =
        streams.iter().map(|s| (s.catalog.stream.clone(), s.catalog.clone())).collect();
    let hash_at = |name: &str, seq: u64| {
        streams.iter().find(|stream| stream.catalog.stream == name)?.hash_at(seq)
    };
    let (state, epoch) = (&cluster.state, cluster.state.epoch.map_or(0, |(_, leaf)| leaf));
    let found = state.contradictions(&catalogs, hash_at).into_iter();
    report.findings.extend(found.map(|found| found.in_object(cluster_record_key(epoch))));
    report.anchored_rows += state.shards.values().map(|shard| shard.size).sum::<u64>();
    report.unanchored.extend(state.unanchored(&catalogs));
}

/// The cluster log is one that the policy trusts, cosigned as it asks; every shard stands in it.
pub(super) fn judge(policy: &Policy, log: &ClusterLog, streams: &[Followed], report: &mut Report) {
    match log {
        ClusterLog::Whole(cluster) => {
            let keys = KeyHistory::parse(&cluster.state.key);
            let verdict = match (&cluster.note, keys) {
                (Some(note), Ok(keys)) => policy.judge_log(note, &keys).map(drop),
                _ => Ok(()),
            };
            report.book(verdict.map_err(distrusted));
        }
        ClusterLog::Absent => {
            let expected = "the cluster log, whose key the policy names";
            let found = Corruption::new("cluster_missing", None, expected, "no such object");
            report.findings.push(found.in_object(CLUSTER_HEAD_KEY));
        }
        ClusterLog::Broken => {}
    }
    for shard in std::mem::take(&mut report.unanchored) {
        let why = "not in the cluster log: hidden from it, or added since its newest epoch";
        report.unchecked.push(format!("shard {shard:04x} is {why}"));
    }
    for stream in streams {
        for (shard, rows) in &stream.catalog.shards {
            let origin = shard_origin(&stream.catalog.cluster, *shard);
            let Some(checkpoint) = &rows.checkpoint else { continue };
            if let Err(found) = policy.check_keys("shard_key", &origin, &checkpoint.key) {
                report.findings.push(found.in_object(checkpoint_key(*shard, checkpoint.size)));
            }
        }
    }
}

/// Another key, or a signature that is wrong, is a finding; a log that the policy does not know and
/// too few witnesses are no evidence against anybody.
fn distrusted(why: Distrust) -> Unread {
    match why {
        Distrust::Note(error) => {
            let expected = "a checkpoint by the key that the policy names";
            let found = Corruption::new("cluster_key", None, expected, error.to_string());
            found.in_object(CLUSTER_HEAD_KEY).into()
        }
        other => Unread::Cannot(format!("{CLUSTER_HEAD_KEY}: {other}")),
    }
}
