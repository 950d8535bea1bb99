//! Finding the few segments that a query needs among many: summaries of segments, and of such
//! summaries, so that planning looks at what may hold rows and not at everything there is.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use sealcast_common::clock::Micros;
use sealcast_vault::{SegmentEntry, VaultSnapshot};

use super::prune::Prune;

/// Segments under one summary, and summaries under the next one.
const FAN_OUT: usize = 16;
/// Segments that are looked at one by one.
const FEW: usize = 32;
/// Longest list of tenants that a summary keeps.
const TENANTS_MAX: usize = 65_536;

/// What is known of all segments below, none of which it may rule out wrongly.
#[derive(Debug)]
pub(super) struct Summary {
    pub(super) time: (Micros, Micros),
    pub(super) ingested_at: (Micros, Micros),
    pub(super) shard: u16,
    /// First row and one past the last.
    pub(super) seq: (u64, u64),
    pub(super) rows: u64,
    /// Digests of all tenants, ascending; `None` where a segment does not list its own.
    pub(super) tenants: Option<Vec<u64>>,
    below: Below,
}

#[derive(Debug)]
enum Below {
    Segments(Vec<Arc<SegmentEntry>>),
    Summaries(Vec<Arc<Summary>>),
}

/// One shard's summaries, from those of segments up to a single one.
type Levels = Vec<Vec<Arc<Summary>>>;

/// The summaries of one snapshot.
#[derive(Debug, Default)]
pub(super) struct Index {
    version: u64,
    shards: BTreeMap<u16, Levels>,
}

/// The index of the newest snapshot that was asked for.
#[derive(Debug, Default)]
pub(super) struct Newest(Mutex<Arc<Index>>);

/// Segments that may hold rows, and how many things were looked at to find them.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) entries: Vec<Arc<SegmentEntry>>,
    pub(super) looked: usize,
}

impl Newest {
    /// The segments of `snapshot` that none of `prunes` rules out, in their order.
    pub(super) fn find(&self, snapshot: &VaultSnapshot, prunes: &[&Prune]) -> Found {
        let all = &snapshot.segments;
        if prunes.is_empty() {
            return Found { entries: all.clone(), looked: all.len() };
        }
        if all.len() <= FEW {
            return narrow(all.clone(), prunes, all.len());
        }
        self.of(snapshot).find(prunes)
    }

    fn of(&self, snapshot: &VaultSnapshot) -> Arc<Index> {
        let mut newest = self.0.lock();
        if newest.version == snapshot.version {
            return Arc::clone(&newest);
        }
        let index = Arc::new(Index::new(snapshot, &newest));
        // A query that is pinned to an older snapshot is no reason to forget the newest.
        if snapshot.version > newest.version {
            *newest = Arc::clone(&index);
        }
        index
    }
}

impl Index {
    /// Takes over from `before` what has not changed, which is nearly everything.
    fn new(snapshot: &VaultSnapshot, before: &Index) -> Self {
        let shard = |entry: &Arc<SegmentEntry>| entry.descriptor.id.shard;
        let shards = snapshot.segments.chunk_by(|a, b| shard(a) == shard(b));
        let shards = shards.filter_map(|segments| {
            let shard = shard(segments.first()?);
            Some((shard, levels(segments, before.shards.get(&shard))))
        });
        Index { version: snapshot.version, shards: shards.collect() }
    }

    fn find(&self, prunes: &[&Prune]) -> Found {
        let tops = self.shards.values().filter_map(|levels| levels.last());
        let mut level: Vec<Arc<Summary>> = tops.flatten().cloned().collect();
        let mut looked = 0;
        loop {
            looked += level.len();
            for prune in prunes {
                level = prune.summaries(level);
            }
            let (mut next, mut entries) = (Vec::new(), Vec::new());
            for summary in &level {
                match &summary.below {
                    Below::Summaries(below) => next.extend(below.iter().cloned()),
                    Below::Segments(below) => entries.extend(below.iter().cloned()),
                }
            }
        }
    }
}
