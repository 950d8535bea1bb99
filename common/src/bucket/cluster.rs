//! The cluster log as the store keeps it: leaves one by one and in bundles, tiles, checkpoints.

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};

use super::{RowLogError, Store, StoreError};
use crate::catalog::CheckpointObject;
use crate::catalog::names::{
    CLUSTER_CHECKPOINTS_PREFIX, CLUSTER_HEAD_KEY, cluster_checkpoint_key, cluster_record_key,
    cluster_tile_key,
};
use crate::cluster::{ClusterState, cluster_origin};
use crate::fault::{Corruption, hex};
use crate::integrity::{
    Checkpoint, Edge, KeyHistory, Note, NoteError, TILE_WIDTH, TileId, index_path,
};

/// Objects that are fetched or put at the same time.
const AT_ONCE: usize = 16;
/// A note with many cosignatures is far smaller.
const HEAD_BYTES_MAX: usize = 256 * 1024;

/// A cluster log in a store.
#[derive(Clone, Debug)]
pub struct ClusterLog {
    store: Store,
}

/// What a keeper adds: leaves, and the tree after them.
#[derive(Debug)]
pub struct Addition<'a> {
    /// Index of the first new leaf.
    pub first: u64,
    /// The new leaves.
    pub leaves: &'a [Vec<u8>],
    /// The leaves before them that lie in no full bundle yet.
    pub before: &'a [Vec<u8>],
    /// The edge before them.
    pub edge: Edge,
    /// The checkpoint after them.
    pub note: &'a Note,
    /// Key of the log.
    pub keys: &'a KeyHistory,
}

impl ClusterLog {
    /// The cluster log of `store`.
    pub fn new(store: Store) -> Self {
        ClusterLog { store }
    }

    /// The first leaf, if there is a cluster log.
    pub async fn genesis(&self) -> Result<Option<Bytes>, StoreError> {
        self.store.get(&cluster_record_key(0)).await
    }

    /// The newest checkpoint as the head tells it. A hint: the head may be old, or gone.
    pub async fn head(&self) -> Result<Option<String>, StoreError> {
        let head = self.store.get(CLUSTER_HEAD_KEY).await?;
        let text = head.filter(|bytes| bytes.len() <= HEAD_BYTES_MAX);
        Ok(text.and_then(|bytes| String::from_utf8(bytes.to_vec()).ok()))
    }

    /// The largest published size. A LIST: for tools only.
    pub async fn largest(&self) -> Result<Option<u64>, StoreError> {
        let keys = self.store.list_all(CLUSTER_CHECKPOINTS_PREFIX).await?;
        Ok(keys.iter().filter_map(|(key, _)| key.rsplit('/').next()?.parse().ok()).max())
    }

    /// The checkpoint at a published size.
    pub async fn checkpoint(
        &self,
        size: u64,
        cluster: &str,
    ) -> Result<Option<CheckpointObject>, RowLogError> {
        let key = cluster_checkpoint_key(size);
        let Some(object) = self.store.get(&key).await? else { return Ok(None) };
        let read = CheckpointObject::from_object(&object, Some(&cluster_origin(cluster)));
        Ok(Some(read.map_err(|finding| finding.in_object(key))?))
    }

    /// The leaves `[0, size)`.
    pub async fn leaves(&self, size: u64) -> Result<Vec<Vec<u8>>, RowLogError> {
        let mut all = Vec::new();
        while (all.len() as u64) < size {
            all.extend(self.next(all.len() as u64, size).await?);
        }
        Ok(all)
    }

    /// Folds the leaves up to `size` into `state`. A leaf that is gone or breaks a rule is a
    /// finding: what was signed cannot have gone by itself.
    pub async fn fold(
        &self,
        mut state: ClusterState,
        size: u64,
    ) -> Result<ClusterState, RowLogError> {
        while state.size() < size {
            let leaves = self.next(state.size(), size).await?;
            for leaf in leaves {
                let key = cluster_record_key(state.size());
                state.apply(&leaf).map_err(|finding| finding.in_object(key))?;
            }
        }
        Ok(state)
    }

    /// Some leaves from `at` on, up to `size`: the rest of a bundle where it is full.
    async fn next(&self, at: u64, size: u64) -> Result<Vec<Vec<u8>>, RowLogError> {
        let end = (at / TILE_WIDTH + 1) * TILE_WIDTH;
        if end <= size
            && let Some(leaves) = self.bundle(at / TILE_WIDTH).await?
        {
            return Ok(leaves.into_iter().skip((at % TILE_WIDTH) as usize).collect());
        }
        self.single(at, end.min(size)).await
    }

    async fn single(&self, from: u64, upto: u64) -> Result<Vec<Vec<u8>>, RowLogError> {
        let fetch = |index| async move {
            let key = cluster_record_key(index);
            let found = self.store.get(&key).await?;
            let gone = || {
                let expected = format!("leaf {index} of the cluster log, which was signed");
                Corruption::new("cluster_missing", None, expected, "no such object").in_object(key)
            };
            Ok::<_, RowLogError>(found.ok_or_else(gone)?.to_vec())
        };
        futures::stream::iter(from..upto).map(fetch).buffered(AT_ONCE).try_collect().await
    }

    async fn bundle(&self, index: u64) -> Result<Option<Vec<Vec<u8>>>, StoreError> {
        let key = cluster_tile_key(&format!("entries/{}", index_path(index)));
        let bytes = self.store.get(&key).await?;
        Ok(bytes.and_then(|bytes| split_bundle(&bytes)).filter(|l| l.len() as u64 == TILE_WIDTH))
    }

    /// Puts what is new: leaves, what they fill, the checkpoint, then the head. Idempotent.
    pub async fn publish(&self, addition: Addition<'_>) -> Result<Edge, RowLogError> {
        let Addition { first, leaves, before, mut edge, note, keys } = addition;
        let mut objects = Vec::new();
        let (mut full, mut open) = (Vec::new(), before.to_vec());
        for (index, leaf) in (first..).zip(leaves) {
            objects.push((cluster_record_key(index), Bytes::from(leaf.clone())));
            edge.append(crate::integrity::leaf_hash(leaf), &mut full);
            open.push(leaf.clone());
            if (index + 1) % TILE_WIDTH == 0 {
                let name = format!("entries/{}", index_path(index / TILE_WIDTH));
                objects.push((cluster_tile_key(&name), join_bundle(&open).into()));
                open.clear();
            }
        }
        objects.extend(full.into_iter().map(|(id, bytes): (TileId, Vec<u8>)| {
            (cluster_tile_key(&id.path(TILE_WIDTH)), Bytes::from(bytes))
        }));
        futures::stream::iter(objects.into_iter().map(Ok::<_, StoreError>))
            .try_for_each_concurrent(AT_ONCE, |(key, bytes)| async move {
                self.store.put(&key, bytes).await
            })
            .await?;
        self.publish_note(note, keys, &edge).await?;
        Ok(edge)
    }

    /// Puts the checkpoint and the head; again, when more witnesses have cosigned.
    pub async fn publish_note(
        &self,
        note: &Note,
        keys: &KeyHistory,
        edge: &Edge,
    ) -> Result<(), RowLogError> {
        let checkpoint = Checkpoint::parse(&note.text).map_err(malformed)?;
        let text = note.to_text();
        let entry = crate::catalog::CheckpointEntry {
            size: checkpoint.size,
            root: checkpoint.root,
            note: text.clone(),
            key: keys.to_text(),
        };
        let object = CheckpointObject { entry, edge: edge.clone() }.to_object();
        self.store.put(&cluster_checkpoint_key(checkpoint.size), object.into()).await?;
        self.store.put(CLUSTER_HEAD_KEY, text.into()).await?;
        Ok(())
    }
}

/// The note is of this cluster log, by this key, and says what the leaves up to its size give.
pub fn check_cluster_note(
    note: &Note,
    keys: &KeyHistory,
    state: &ClusterState,
) -> Result<(), Corruption> {
    let bad = |error: NoteError| {
        let expected = format!("a checkpoint signed by {}", keys.newest().to_text());
        Corruption::new("cluster_note", None, expected, error.to_string())
    };
    let found = keys.verify(note).map_err(bad)?;
    let root = state.tree.root()?;
    let origin = cluster_origin(&state.cluster);
    let wanted = Checkpoint { origin, size: state.size(), root };
    if found == wanted {
        return Ok(());
    }
    let show = |c: &Checkpoint| format!("{} size {} root {}", c.origin, c.size, hex(&c.root));
    Err(Corruption::new("cluster_note", None, show(&wanted), show(&found)))
}

fn malformed(error: NoteError) -> Corruption {
    Corruption::new("cluster_note", None, "a checkpoint", error.to_string())
}

/// C2SP entry bundle: length as u16 big endian, bytes.
pub fn join_bundle(leaves: &[Vec<u8>]) -> Vec<u8> {
    let mut bundle = Vec::new();
    for leaf in leaves {
        // Records are bounded by what the two bytes can say.
        bundle.extend(u16::try_from(leaf.len()).unwrap_or(u16::MAX).to_be_bytes());
        bundle.extend(leaf);
    }
    bundle
}

fn split_bundle(mut bundle: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut leaves = Vec::new();
    while let Some((len, rest)) = bundle.split_first_chunk::<2>() {
        let (leaf, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*len)))?;
        leaves.push(leaf.to_vec());
        bundle = rest;
    }
    bundle.is_empty().then_some(leaves)
}
