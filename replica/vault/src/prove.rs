//! Rows as their log has them: the leaf's bytes out of verified segments, and the log that proves
//! them at the snapshot's own checkpoint.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray as _;
use arrow_array::types::UInt64Type;
use sealcast_common::bucket::{RowLog, RowLogError};
use sealcast_common::event::{Position, encode_leaf};
use sealcast_common::fault::{Corruption, Kind};
use sealcast_common::integrity::{CompactRange, Hash, TlogProof, leaf_hash, log_id, shard_origin};
use sealcast_common::segment::columns::EventColumns;

use crate::error::OpenError;
use crate::segments::Bounds as _;
use crate::snapshot::{SegmentEntry, VaultSnapshot};

/// A row's place in its log.
pub type RowPlace = (u16, u64);

/// A row as its log has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// The shard.
    pub shard: u16,
    /// Its index.
    pub seq: u64,
    /// Whose it is.
    pub tenant: String,
    /// The canonical bytes, which the tree hashes.
    pub bytes: Vec<u8>,
}

/// Why there is no leaf or no proof.
#[derive(Debug, thiserror::Error)]
pub enum ProveError {
    /// The segment cannot be read.
    #[error("rows [{start}, {end}) of shard {shard} are not available: {source}")]
    Segment {
        /// The shard.
        shard: u16,
        /// First row of the segment.
        start: u64,
        /// One past its last.
        end: u64,
        /// Why.
        source: OpenError,
    },
    /// Its rows are not those that its footer speaks of.
    #[error(transparent)]
    Row(#[from] Corruption),
    /// More than may be answered at one time.
    #[error("leaves of these rows have more than {max} bytes")]
    TooLarge {
        /// The bound.
        max: usize,
    },
    /// The log's tiles.
    #[error(transparent)]
    Log(#[from] RowLogError),
}

impl ProveError {
    /// What to do about it.
    pub fn kind(&self) -> Kind {
        match self {
            ProveError::Segment { .. }
            | ProveError::Log(RowLogError::Store(_) | RowLogError::Missing { .. }) => {
                Kind::Unavailable
            }
            ProveError::Row(_)
            | ProveError::Log(RowLogError::Corrupt(_) | RowLogError::Proof { .. }) => Kind::Corrupt,
            ProveError::TooLarge { .. } | ProveError::Log(RowLogError::Beyond { .. }) => {
                Kind::Invalid
            }
        }
    }
}

/// A row with its proof; or nothing for a row that is not there, or not for the asker.
pub type Proven = Option<(Leaf, TlogProof)>;

impl VaultSnapshot {
    /// The log of `shard` at the size that this snapshot shows; at the newest size, where the snapshot
    /// is one of before.
    pub fn log(&self, shard: u16) -> Result<RowLog<'_>, RowLogError> {
        let shown = self.vector.get(&shard).copied().unwrap_or(0);
        let catalog = self.logs.get(&shard).filter(|log| log.size() >= shown && shown > 0);
        let catalog = catalog.ok_or(RowLogError::Beyond { shard, size: 0, asked: 0 })?;
        RowLog::new(&self.cache.store, &self.cache.tiles, shard, catalog)
    }

    /// Each row with the proof that its log has it, in the order of `rows`. Rows of tenants that are
    /// not among `tenants`, if given, are as if they were not there: no segment is opened for them
    /// that holds no row of these. More than `bytes_max` bytes of leaves are refused.
    pub async fn prove(
        &self,
        rows: &[RowPlace],
        tenants: Option<&BTreeSet<String>>,
        bytes_max: usize,
    ) -> Result<Vec<Proven>, ProveError> {
        let leaves = self.leaves(rows, tenants, bytes_max).await?;
        let mut proven = Vec::with_capacity(rows.len());
        for place in rows {
            proven.push(match leaves.get(place) {
                None => None,
                Some(leaf) => {
                    let hash = leaf_hash(&leaf.bytes);
                    let proof = self.log(place.0)?.inclusion(place.1, &hash).await?;
                    Some((leaf.clone(), proof))
                }
            });
            // All tiles may be at hand: others get their turn.
            tokio::task::consume_budget().await;
        }
        Ok(proven)
    }

    /// See [`VaultSnapshot::prove`]: the leaves of those rows that are there.
    pub async fn leaves(
        &self,
        rows: &[RowPlace],
        tenants: Option<&BTreeSet<String>>,
        bytes_max: usize,
    ) -> Result<BTreeMap<RowPlace, Leaf>, ProveError> {
        let mut wanted: BTreeMap<RowPlace, (&Arc<SegmentEntry>, Vec<u64>)> = BTreeMap::new();
        for (shard, seq) in rows {
            let Some(entry) = self.segments.covering(*shard, *seq) else { continue };
            let may_hold = |name: &String| entry.descriptor.may_hold_tenant(name);
            if tenants.is_none_or(|names| names.iter().any(may_hold)) {
                let place = (*shard, entry.descriptor.id.start);
                wanted.entry(place).or_insert_with(|| (entry, Vec::new())).1.push(*seq);
            }
        }
        let (mut leaves, mut budget) = (BTreeMap::new(), Budget::new(bytes_max));
        for (entry, mut seqs) in wanted.into_values() {
            seqs.sort_unstable();
            seqs.dedup();
            let found = self.read(entry, &Wanted::Some(seqs), tenants, &mut budget).await?;
            leaves.extend(found.into_iter().map(|leaf| ((leaf.shard, leaf.seq), leaf)));
        }
        Ok(leaves)
    }

    /// All leaves of `rows`, which the log has, in order, with what is left and right of them. More
    /// than `bytes_max` bytes of them are refused.
    pub async fn prove_range(
        &self,
        shard: u16,
        rows: Range<u64>,
        bytes_max: usize,
    ) -> Result<RangeProof, ProveError> {
        let log = self.log(shard)?;
        let leaves = self.leaf_range(shard, rows.clone(), bytes_max).await?;
        let mut range = CompactRange::empty(rows.start);
        for leaf in &leaves {
            range.append(leaf_hash(&leaf.bytes));
        }
        let (left, right) = log.around(&range).await?;
        Ok(RangeProof { leaves, left, right })
    }

    /// All leaves of `rows`, in order, as far as the log has them.
    pub async fn leaf_range(
        &self,
        shard: u16,
        rows: Range<u64>,
        bytes_max: usize,
    ) -> Result<Vec<Leaf>, ProveError> {
        let (mut at, mut leaves, mut budget) = (rows.start, Vec::new(), Budget::new(bytes_max));
        while at < rows.end {
            let Some(entry) = self.segments.covering(shard, at) else { break };
            let upto = entry.descriptor.end().min(rows.end);
            let wanted = Wanted::All(at..upto);
            let mut found = self.read(entry, &wanted, None, &mut budget).await?;
            found.sort_unstable_by_key(|leaf| leaf.seq);
            leaves.append(&mut found);
            at = upto;
        }
        Ok(leaves)
    }

    /// The wanted rows of one segment, in its own order.
    async fn read(
        &self,
        entry: &Arc<SegmentEntry>,
        wanted: &Wanted,
        tenants: Option<&BTreeSet<String>>,
        budget: &mut Budget,
    ) -> Result<Vec<Leaf>, ProveError> {
        let (shard, (start, last)) = (entry.descriptor.shard(), entry.descriptor.seq());
        let unavailable = |source| ProveError::Segment { shard, start, end: last + 1, source };
        let segment = self.open(entry).await.map_err(unavailable)?;
        let origin = shard_origin(&entry.cluster, shard);
        let mut reading = Reading { log_id: log_id(&origin), wanted, tenants, budget };
        let mut found = Vec::new();
        let zones = &segment.seal().zones;
        for (batch, zone) in segment.batches().iter().zip(zones) {
            if found.len() < wanted.count() && wanted.meets(zone.seq) {
                reading.batch(batch, &mut found)?;
            }
        }
        // What was read counts only if every page of it could be read.
        self.check(entry, segment.watch()).map_err(unavailable)?;
        Ok(found)
    }
}

/// Rows that are all of their range: with `left` and `right` they give the checkpoint's root.
#[derive(Clone, Debug)]
pub struct RangeProof {
    /// The leaves in order.
    pub leaves: Vec<Leaf>,
    /// The compact range before them.
    pub left: Vec<Hash>,
    /// The compact range after them, up to the checkpoint's size.
    pub right: Vec<Hash>,
}

/// Which rows of a segment.
#[derive(Debug)]
enum Wanted {
    /// Ascending, each once.
    Some(Vec<u64>),
    All(Range<u64>),
}

impl Wanted {
    fn count(&self) -> usize {
        match self {
            Wanted::Some(seqs) => seqs.len(),
            Wanted::All(range) => {
                usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(usize::MAX)
            }
        }
    }

    /// Whether one of them may lie between these, both included.
    fn meets(&self, (least, most): (u64, u64)) -> bool {
        match self {
            Wanted::Some(seqs) => {
                let next = seqs.partition_point(|seq| *seq < least);
                seqs.get(next).is_some_and(|seq| *seq <= most)
            }
            Wanted::All(range) => range.start <= most && least < range.end,
        }
    }

    /// The rows of a batch with these seqs.
    fn rows(&self, seqs: &[u64]) -> Vec<usize> {
        let found = |is_wanted: &dyn Fn(u64) -> bool| {
            let rows = seqs.iter().enumerate().filter(|(_, seq)| is_wanted(**seq));
            rows.map(|(row, _)| row).collect()
        };
        match self {
            Wanted::Some(wanted) => match wanted.as_slice() {
                [one] => seqs.iter().position(|seq| seq == one).into_iter().collect(),
                wanted => found(&|seq| wanted.binary_search(&seq).is_ok()),
            },
            Wanted::All(range) => found(&|seq| range.contains(&seq)),
        }
    }
}

/// One segment's rows being read.
struct Reading<'a> {
    log_id: [u8; 16],
    wanted: &'a Wanted,
    tenants: Option<&'a BTreeSet<String>>,
    budget: &'a mut Budget,
}

/// What leaves may still take.
#[derive(Debug)]
struct Budget {
    max: usize,
    left: usize,
}

impl Budget {
    fn new(max: usize) -> Self {
        Budget { max, left: max }
    }

    fn take(&mut self, bytes: usize) -> Result<(), ProveError> {
        let left = self.left.checked_sub(bytes);
        self.left = left.ok_or(ProveError::TooLarge { max: self.max })?;
        Ok(())
    }
}

impl Reading<'_> {
    fn batch(&mut self, batch: &RecordBatch, found: &mut Vec<Leaf>) -> Result<(), ProveError> {
        let seqs = batch.column_by_name("_seq").and_then(|c| c.as_primitive_opt::<UInt64Type>());
        let missing = || Corruption::new("schema", None, "column _seq", "no such column");
        let rows = self.wanted.rows(seqs.ok_or_else(missing)?.values());
        if rows.is_empty() {
            return Ok(());
        }
        let columns = EventColumns::new(batch)?;
        for row in rows {
            let event = columns.event(row);
            if self.tenants.is_some_and(|names| !names.contains(event.tenant)) {
                continue;
            }
            let (seq, ingested_at) = (columns.seq(row), columns.ingested_at(row));
            let position = Position { log_id: self.log_id, seq, ingested_at };
            let bytes = encode_leaf(&event, &position).map_err(|error| {
                Corruption::new("leaves", None, format!("a leaf of row {seq}"), error.to_string())
            })?;
            self.budget.take(bytes.len())?;
            let (shard, tenant) = (columns.shard(row), event.tenant.to_owned());
            found.push(Leaf { shard, seq, tenant, bytes });
        }
        Ok(())
    }
}
