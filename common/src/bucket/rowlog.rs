//! A shard's row log as the store keeps it: tiles, and proofs made from them.
//!
//! Tiles are derived data and never believed: a proof made from them is verified against the
//! signed checkpoint before it leaves. Level 0 lies in one pack of leaf hashes per segment, full
//! tiles of higher levels are objects, the partial ones stand in the checkpoint's object.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

use super::{Store, StoreError};
use crate::catalog::names::{checkpoint_key, pack_key, tile_key};
use crate::catalog::{CheckpointEntry, CheckpointObject, Segments, ShardCatalog};
use crate::fault::Corruption;
use crate::integrity::{
    CompactRange, HASH_BYTES, Hash, ProofError, Question, TILE_WIDTH, TileId, Tiles, TlogProof,
    verify_growth, verify_inclusion, verify_range,
};

/// Why a row log gave no proof.
#[derive(Debug, thiserror::Error)]
pub enum RowLogError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An object is not there.
    #[error("{key} is not in the store")]
    Missing {
        /// Its key.
        key: String,
    },
    /// An object's bytes.
    #[error(transparent)]
    Corrupt(#[from] Corruption),
    /// The tiles do not add up to what the shard has signed.
    #[error("tiles of shard {shard:04x} do not prove it (check tile): {source}")]
    Proof {
        /// The shard.
        shard: u16,
        /// What failed.
        source: ProofError,
    },
    /// The log is shorter, or nothing of it is committed.
    #[error("shard {shard:04x} has {size} rows that are committed, asked for {asked}")]
    Beyond {
        /// The shard.
        shard: u16,
        /// Its committed size.
        size: u64,
        /// The row or size that was wanted.
        asked: u64,
    },
}

/// Tiles that were fetched, for who asks again. Two generations: what nobody asked for during a
/// whole one goes.
#[derive(Debug)]
pub struct TileCache {
    most: usize,
    generations: Mutex<[HashMap<String, Bytes>; 2]>,
}

impl TileCache {
    /// Keeps up to `most` bytes, give or take the larger of two tiles.
    pub fn new(most: usize) -> Self {
        TileCache { most, generations: Mutex::default() }
    }

    fn get(&self, key: &str) -> Option<Bytes> {
        let mut both = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = both[0].get(key) {
            return Some(found.clone());
        }
        let (key, found) = both[1].remove_entry(key)?;
        both[0].insert(key, found.clone());
        Some(found)
    }

    /// What was fetched did not prove what it should: all of it is asked for again.
    pub(super) fn clear(&self) {
        *self.generations.lock().unwrap_or_else(PoisonError::into_inner) = Default::default();
    }

    fn insert(&self, key: String, bytes: Bytes) {
        let mut both = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        // Every entry is at most a tile or an edge: their number bounds their bytes.
        if both[0].len() >= self.most / (2 * TILE_BYTES) {
            both[1] = std::mem::take(&mut both[0]);
        }
        both[0].insert(key, bytes);
    }
}

const TILE_BYTES: usize = TILE_WIDTH as usize * HASH_BYTES;

/// How a log grew from one size to another, below its newest one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogGrowth {
    /// Root at the smaller size.
    pub old_root: Hash,
    /// Root at the larger size.
    pub new_root: Hash,
    /// Consistency proof from the smaller to the larger.
    pub proof: Vec<Hash>,
    /// Consistency proof from the larger to the checkpoint; empty if it is that.
    pub rest: Vec<Hash>,
}

/// A shard's log at its newest committed size.
#[derive(Debug)]
pub struct RowLog<'a> {
    store: &'a Store,
    cache: &'a TileCache,
    shard: u16,
    segments: &'a Segments,
    checkpoint: &'a CheckpointEntry,
}

impl<'a> RowLog<'a> {
    /// The log of `shard`, as committed.
    pub fn new(
        store: &'a Store,
        cache: &'a TileCache,
        shard: u16,
        catalog: &'a ShardCatalog,
    ) -> Result<Self, RowLogError> {
        let beyond = RowLogError::Beyond { shard, size: 0, asked: 0 };
        let checkpoint = catalog.checkpoint.as_ref().ok_or(beyond)?;
        Ok(RowLog { store, cache, shard, segments: &catalog.segments, checkpoint })
    }

    /// Leaves.
    pub fn size(&self) -> u64 {
        self.checkpoint.size
    }

    /// The signed checkpoint at that size.
    pub fn checkpoint(&self) -> &'a CheckpointEntry {
        self.checkpoint
    }

    /// The proof that the leaf with this hash is row `index`.
    pub async fn inclusion(&self, index: u64, leaf: &Hash) -> Result<TlogProof, RowLogError> {
        self.within(index.saturating_add(1))?;
        let (size, root) = (self.size(), &self.checkpoint.root);
        let hashes = self.answer(Question::Inclusion(index), size).await?;
        verify_inclusion(leaf, index, size, &hashes, root).map_err(self.unproved())?;
        Ok(TlogProof { index, hashes, checkpoint: self.checkpoint.note.clone() })
    }

    /// The proof that the log continues what it was at `old` rows and this root.
    pub async fn consistency(&self, old: u64, root: &Hash) -> Result<Vec<Hash>, RowLogError> {
        self.within(old)?;
        let proof = self.answer(Question::Consistency(old), self.size()).await?;
        let new = (self.size(), &self.checkpoint.root);
        verify_growth((old, root), new, &proof).map_err(self.unproved())?;
        Ok(proof)
    }

    /// How the log grew from `old` to `new` rows. Both roots are shown to lead to the checkpoint.
    pub async fn growth(&self, old: u64, new: u64) -> Result<LogGrowth, RowLogError> {
        let (old_root, new_root) = (self.root_at(old).await?, self.root_at(new).await?);
        self.consistency(old, &old_root).await?;
        let rest = self.consistency(new, &new_root).await?;
        let proof = self.answer(Question::Consistency(old), new).await?;
        let (from, to) = ((old, &old_root), (new, &new_root));
        verify_growth(from, to, &proof).map_err(self.unproved())?;
        Ok(LogGrowth { old_root, new_root, proof, rest })
    }

    /// What is left and right of these rows: with it they are shown to be all of their range.
    pub async fn around(&self, rows: &CompactRange) -> Result<(Vec<Hash>, Vec<Hash>), RowLogError> {
        self.within(rows.end())?;
        let size = self.size();
        let left = self.answer(Question::Range(0, rows.begin()), size).await?;
        let right = self.answer(Question::Range(rows.end(), size), size).await?;
        let tree = (size, &self.checkpoint.root);
        verify_range(rows, &left, &right, tree).map_err(self.unproved())?;
        Ok((left, right))
    }

    /// The root at `size` rows: a segment's end is known without asking, the rest from tiles.
    pub async fn root_at(&self, size: u64) -> Result<Hash, RowLogError> {
        self.within(size)?;
        let before = size.checked_sub(1).and_then(|last| self.segments.covering(last));
        if let Some(segment) = before.filter(|segment| segment.end() == size) {
            return Ok(segment.root_after);
        }
        let nodes = self.answer(Question::Range(0, size), size).await?;
        Ok(CompactRange::from_nodes(0, size, nodes)?.root()?)
    }

    /// The first `width` hashes of a tile, if the log has them: shown to lead to the checkpoint.
    pub async fn tile(&self, id: TileId, width: u64) -> Result<Option<Bytes>, RowLogError> {
        if width == 0 || id.width(self.size()) < width {
            return Ok(None);
        }
        let bytes = self.fetch(id).await?;
        let len = usize::try_from(width).unwrap_or(usize::MAX).saturating_mul(HASH_BYTES);
        if bytes.len() < len {
            self.cache.clear();
            let (expected, found) = (format!("{len} bytes"), bytes.len().to_string());
            let finding = Corruption::new("tile", None, expected, found);
            return Err(finding.in_object(tile_key(self.shard, &id.path(width))).into());
        }
        let bytes = bytes.slice(..len);
        self.around(&id.covers(&bytes)?).await?;
        Ok(Some(bytes))
    }

    /// The answer in the tree of the first `size` rows: the tiles of a larger tree begin with those
    /// of a smaller one.
    async fn answer(&self, question: Question, size: u64) -> Result<Vec<Hash>, RowLogError> {
        let wanted: BTreeSet<TileId> = question.tiles(size);
        let fetches = wanted
            .into_iter()
            .map(|id| async move { Ok::<_, RowLogError>((id, self.fetch(id).await?)) });
        let mut tiles = Tiles::default();
        for (id, bytes) in futures::future::try_join_all(fetches).await? {
            tiles.insert(id, bytes.to_vec());
        }
        Ok(tiles.answer(question, size).inspect_err(|_| self.cache.clear())?)
    }

    /// All hashes that the tile has at the log's size.
    async fn fetch(&self, id: TileId) -> Result<Bytes, RowLogError> {
        let width = id.width(self.size());
        let name = tile_key(self.shard, &id.path(width));
        if let Some(found) = self.cache.get(&name) {
            return Ok(found);
        }
        let bytes = match (id.level, width) {
            (0, _) => self.leaf_hashes(id.index * TILE_WIDTH, width).await?,
            (_, TILE_WIDTH) => {
                let found = self.store.get(&name).await?;
                let found = found.ok_or_else(|| RowLogError::Missing { key: name.clone() })?;
                if found.len() != TILE_BYTES {
                    let (expected, found) = (TILE_BYTES.to_string(), found.len().to_string());
                    return Err(Corruption::new("tile", None, expected, found)
                        .in_object(name)
                        .into());
                }
                found
            }
            _ => self.edge().await?.edge.partial(id).unwrap_or_default().into(),
        };
        self.cache.insert(name, bytes.clone());
        Ok(bytes)
    }

    async fn edge(&self) -> Result<CheckpointObject, RowLogError> {
        let (key, origin) = (checkpoint_key(self.shard, self.size()), self.origin());
        let object = match self.cache.get(&key) {
            Some(found) => found,
            None => {
                let missing = || RowLogError::Missing { key: key.clone() };
                self.store.get(&key).await?.ok_or_else(missing)?
            }
        };
        let read = CheckpointObject::from_object(&object, Some(&origin));
        let read = read.map_err(|corruption| corruption.in_object(&key))?;
        self.cache.insert(key, object);
        Ok(read)
    }

    /// The first line of the checkpoint's text.
    fn origin(&self) -> String {
        self.checkpoint.note.lines().next().unwrap_or_default().to_owned()
    }

    /// The leaf hashes of `[from, from + count)` out of the packs of the segments that hold them.
    async fn leaf_hashes(&self, from: u64, count: u64) -> Result<Bytes, RowLogError> {
        let (mut at, end, mut bytes) = (from, from + count, Vec::new());
        while at < end {
            let beyond = RowLogError::Beyond { shard: self.shard, size: self.size(), asked: at };
            let segment = self.segments.covering(at).ok_or(beyond)?;
            let upto = segment.end().min(end);
            let key = pack_key(self.shard, segment.id.start, segment.id.rows);
            let place = |row: u64| (row - segment.id.start) * HASH_BYTES as u64;
            let part = match self.store.get_range(&key, place(at)..place(upto)).await {
                Ok(part) => part.ok_or_else(|| RowLogError::Missing { key: key.clone() })?,
                // Some stores refuse a range beyond the end, some answer less than was asked for.
                Err(error) => match self.store.size(&key).await? {
                    Some(size) if size < place(upto) => Bytes::new(),
                    _ => return Err(error.into()),
                },
            };
            if part.len() as u64 != place(upto) - place(at) {
                let expected = format!("hashes of {} rows", segment.id.rows);
                let found = "a shorter object";
                let finding = Corruption::new("tile", place(at), expected, found);
                return Err(finding.in_object(key).into());
            }
            bytes.extend_from_slice(&part);
            at = upto;
        }
        Ok(bytes.into())
    }

    fn within(&self, asked: u64) -> Result<(), RowLogError> {
        let (shard, size) = (self.shard, self.size());
        if asked <= size { Ok(()) } else { Err(RowLogError::Beyond { shard, size, asked }) }
    }

    fn unproved(&self) -> impl Fn(ProofError) -> RowLogError + '_ {
        move |source| {
            self.cache.clear();
            RowLogError::Proof { shard: self.shard, source }
        }
    }
}
