//! The segments of a snapshot, in blocks that know what all of theirs have in common: a query rules
//! out a block at a time, and a snapshot shares all but its newest blocks with the one before.

use std::sync::Arc;

use sealcast_common::catalog::Descriptor;
use sealcast_common::clock::Micros;

use crate::snapshot::SegmentEntry;

/// Segments in a block before the next one begins.
const BLOCK_SEGMENTS: usize = 64;

/// What all rows of a segment, or of a block of them, lie between; both ends included.
pub trait Bounds {
    /// Their shard.
    fn shard(&self) -> u16;
    /// Least and greatest `_seq`.
    fn seq(&self) -> (u64, u64);
    /// Least and greatest `time`.
    fn time(&self) -> (Micros, Micros);
    /// Least and greatest `ingested_at`.
    fn ingested_at(&self) -> (Micros, Micros);
    /// How many they are.
    fn rows(&self) -> u64;
    /// Sorted digests of their tenants, where these are few.
    fn tenants(&self) -> Option<&[u64]>;
}

impl Bounds for Descriptor {
    fn shard(&self) -> u16 {
        self.id.shard
    }

    fn seq(&self) -> (u64, u64) {
        (self.id.start, self.end().saturating_sub(1))
    }

    fn time(&self) -> (Micros, Micros) {
        self.time
    }

    fn ingested_at(&self) -> (Micros, Micros) {
        self.ingested_at
    }

    fn rows(&self) -> u64 {
        self.id.rows.into()
    }

    fn tenants(&self) -> Option<&[u64]> {
        self.tenants.as_deref()
    }
}

/// Up to `BLOCK_SEGMENTS` segments of one shard and stream, one after the other.
#[derive(Clone, Debug)]
pub struct Block {
    entries: Vec<Arc<SegmentEntry>>,
    time: (Micros, Micros),
    ingested_at: (Micros, Micros),
    rows: u64,
    tenants: Option<Vec<u64>>,
}

impl Block {
    fn new(entry: Arc<SegmentEntry>) -> Self {
        let first = &entry.descriptor;
        let (time, ingested_at, rows) = (first.time, first.ingested_at, first.rows());
        let tenants = first.tenants.clone();
        Block { entries: vec![entry], time, ingested_at, rows, tenants }
    }

    fn push(&mut self, entry: Arc<SegmentEntry>) {
        let next = &entry.descriptor;
        self.time = covering(self.time, next.time);
        self.ingested_at = covering(self.ingested_at, next.ingested_at);
        self.rows += next.rows();
        self.tenants = self.tenants.take().zip(next.tenants.as_ref()).map(|(mut ours, theirs)| {
            ours.extend(theirs);
            ours.sort_unstable();
            ours.dedup();
            ours
        });
        self.entries.push(entry);
    }

    /// Its segments, by start.
    pub fn entries(&self) -> &[Arc<SegmentEntry>] {
        &self.entries
    }

    /// The newest of them; a block is never empty.
    pub(crate) fn last(&self) -> &SegmentEntry {
        &self.entries[self.entries.len() - 1]
    }
}

impl Bounds for Block {
    fn shard(&self) -> u16 {
        self.last().descriptor.id.shard
    }

    fn seq(&self) -> (u64, u64) {
        (self.entries[0].descriptor.id.start, self.last().descriptor.end().saturating_sub(1))
    }

    fn time(&self) -> (Micros, Micros) {
        self.time
    }

    fn ingested_at(&self) -> (Micros, Micros) {
        self.ingested_at
    }

    fn rows(&self) -> u64 {
        self.rows
    }

    fn tenants(&self) -> Option<&[u64]> {
        self.tenants.as_deref()
    }
}

fn covering(a: (Micros, Micros), b: (Micros, Micros)) -> (Micros, Micros) {
    (a.0.min(b.0), a.1.max(b.1))
}

/// Appends `entry` to the blocks of its shard.
pub(crate) fn append(blocks: &mut Vec<Arc<Block>>, entry: Arc<SegmentEntry>) {
    match blocks.last_mut() {
        // What a snapshot shows stays as it is: then this makes a copy.
        Some(last) if last.entries.len() < BLOCK_SEGMENTS => Arc::make_mut(last).push(entry),
        _ => blocks.push(Arc::new(Block::new(entry))),
    }
}

/// Segments by shard and start.
#[derive(Clone, Debug, Default)]
pub struct Segments {
    blocks: Vec<Arc<Block>>,
    count: usize,
}

impl Segments {
    pub(crate) fn new(blocks: Vec<Arc<Block>>) -> Self {
        let count = blocks.iter().map(|block| block.entries.len()).sum();
        Segments { blocks, count }
    }

    /// All blocks; each is of one shard.
    pub fn blocks(&self) -> &[Arc<Block>] {
        &self.blocks
    }

    /// The one that holds the row `seq` of `shard`.
    pub fn covering(&self, shard: u16, seq: u64) -> Option<&Arc<SegmentEntry>> {
        let before = |next: (u16, u64)| next <= (shard, seq);
        let block = self.blocks.partition_point(|block| before((block.shard(), block.seq().0)));
        let entries = self.blocks.get(block.checked_sub(1)?)?.entries();
        let entry = entries.partition_point(|entry| {
            before((entry.descriptor.id.shard, entry.descriptor.id.start))
        });
        let entry = entries.get(entry.checked_sub(1)?)?;
        let descriptor = &entry.descriptor;
        (descriptor.id.shard == shard && seq < descriptor.end()).then_some(entry)
    }

    /// How many segments.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<SegmentEntry>> + Clone {
        self.blocks.iter().flat_map(|block| block.entries.iter())
    }
}
