//! All rows of a walk in order: a merge of blocks, segments and runs that opens a thing only when
//! nothing else can come before it.

use std::cmp::Ordering;
use std::collections::{BTreeSet, BinaryHeap};
use std::sync::Arc;

use datafusion::error::DataFusionError;
use sealcast_common::clock::Micros;
use sealcast_common::fault::Corruption;
use sealcast_vault::{Block, Bounds, SegmentEntry};

use super::cursor::{Cursor, ShardCursor};
use super::filter::{Filter, Wanted};
use super::place::{Order, Rank};
use super::run::{Open, Run};
use crate::sql::{Missing, QueryError, QueryScope, unavailable};

/// A row that was found.
#[derive(Debug)]
pub(super) struct Picked {
    pub(super) open: Arc<Open>,
    /// Its number in the file.
    pub(super) row: usize,
}

/// What may hold rows.
#[derive(Debug)]
enum Source {
    Block(Arc<Block>),
    Segment(Arc<SegmentEntry>),
    Run(Run),
}

/// A source with a rank that none of its rows comes before.
#[derive(Debug)]
struct Waiting {
    rank: Rank,
    source: Source,
}

/// The least rank is the greatest of a heap.
impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> Ordering {
        other.rank.cmp(&self.rank)
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.rank == other.rank
    }
}

impl Eq for Waiting {}

/// See the module.
#[derive(Debug)]
pub(super) struct Walk<'a> {
    scope: &'a QueryScope,
    filter: &'a Filter,
    wanted: Wanted,
    order: Order,
    cursor: &'a Cursor,
    heap: BinaryHeap<Waiting>,
}

fn corrupt(corruption: Corruption) -> QueryError {
    DataFusionError::External(Box::new(corruption)).into()
}

impl<'a> Walk<'a> {
    /// The rows of `scope`'s snapshot that come after `cursor`, which lists the shards to look at.
    pub(super) fn new(
        scope: &'a QueryScope,
        (filter, order): (&'a Filter, Order),
        cursor: &'a Cursor,
    ) -> Self {
        let wanted = Wanted::new(filter, &scope.grant);
        let mut walk = Walk { scope, filter, wanted, order, cursor, heap: BinaryHeap::new() };
        let blocks = scope.snapshot.segments.blocks().iter();
        let kept = blocks.filter_map(|block| {
            let rank = walk.first_of(block.as_ref())?;
            Some(Waiting { rank, source: Source::Block(Arc::clone(block)) })
        });
        walk.heap = kept.collect();
        walk
    }

    /// The shards that may have rows for a walk from its beginning, with their sizes.
    pub(super) fn shards_of(scope: &QueryScope, filter: &Filter) -> Vec<(u16, ShardCursor)> {
        let wanted = Wanted::new(filter, &scope.grant);
        let (from, to) = filter.time();
        let blocks = scope.snapshot.segments.blocks().iter();
        let kept = blocks.filter(|block| {
            let (least, greatest) = block.time();
            from <= greatest.0 && least.0 <= to && wanted.may_hold(block.as_ref())
        });
        let shards: BTreeSet<u16> = kept.map(|block| block.shard()).collect();
        let sized = shards.into_iter().filter_map(|shard| {
            let size = *scope.snapshot.vector.get(&shard)?;
            Some((shard, ShardCursor { size, after: None }))
        });
        sized.collect()
    }

    /// The times that rows of a shard may have, given what was given already.
    fn time(&self, at: &ShardCursor) -> (i64, i64) {
        let (from, to) = self.filter.time();
        match (at.after, self.order) {
            (None, _) => (from, to),
            (Some(after), Order::Ascending) => (from.max(after.time), to),
            (Some(after), Order::Descending) => (from, to.min(after.time)),
        }
    }

    /// A rank that no row within `bounds` comes before; `None` if none of them is wanted.
    fn first_of(&self, bounds: &impl Bounds) -> Option<Rank> {
        let at = self.cursor.shards.get(&bounds.shard())?;
        let (from, to) = self.time(at);
        let (Micros(least), Micros(greatest)) = bounds.time();
        let kept = from <= greatest
            && least <= to
            && bounds.seq().0 < at.size
            && self.wanted.may_hold(bounds);
        kept.then(|| self.order.first_within((least.max(from), greatest.min(to))))
    }

    /// The next row.
    pub(super) async fn next(&mut self) -> Result<Option<Picked>, QueryError> {
        while let Some(Waiting { source, .. }) = self.heap.pop() {
            match source {
                Source::Block(block) => {
                    for entry in block.entries() {
                        if let Some(rank) = self.first_of(entry.descriptor.as_ref()) {
                            let source = Source::Segment(Arc::clone(entry));
                            self.heap.push(Waiting { rank, source });
                        }
                    }
                }
                Source::Segment(entry) => {
                    for run in self.open(entry).await? {
                        self.wait(run);
                    }
                }
                Source::Run(mut run) => {
                    if let Some((_, row)) = run.pop() {
                        let open = Arc::clone(&run.open);
                        self.wait(run);
                        return Ok(Some(Picked { open, row }));
                    }
                    self.scope.charge_scan(run.step(self.filter).map_err(corrupt)?)?;
                    self.wait(run);
                }
            }
            // Rows that match nothing may be many: others get their turn.
            tokio::task::consume_budget().await;
        }
        Ok(None)
    }

    fn wait(&mut self, run: Run) {
        if let Some(rank) = run.rank() {
            self.heap.push(Waiting { rank, source: Source::Run(run) });
        }
    }

    /// The runs of a segment; none if it is missing and may be.
    async fn open(&self, entry: Arc<SegmentEntry>) -> Result<Vec<Run>, QueryError> {
        let shard = entry.descriptor.id.shard;
        let Some(at) = self.cursor.shards.get(&shard) else { return Ok(Vec::new()) };
        let segment = match self.scope.snapshot.open(&entry).await {
            Ok(segment) => segment,
            Err(error) if self.scope.allow_partial => {
                let (start, end) = (entry.descriptor.id.start, entry.descriptor.end());
                self.scope.note_missing(Missing { shard, start, end, reason: error.to_string() });
                return Ok(Vec::new());
            }
            Err(error) => {
                return Err(DataFusionError::from(unavailable(&entry, error)).into());
            }
        };
        self.scope.note_opened(&entry, segment.watch());
        let after = at.after.map(|after| self.order.rank(after));
        let open = Open { entry, segment, size: at.size, after };
        open.runs((self.filter, &self.wanted), self.order, self.time(at)).map_err(corrupt)
    }

    /// The shards that may have more rows than were found.
    pub(super) fn left(&self) -> BTreeSet<u16> {
        let shard = |waiting: &Waiting| match &waiting.source {
            Source::Block(block) => block.shard(),
            Source::Segment(entry) => entry.descriptor.id.shard,
            Source::Run(run) => run.open.shard(),
        };
        self.heap.iter().map(shard).collect()
    }
}
