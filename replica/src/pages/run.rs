//! One tenant's rows of a segment, in the order of the walk. The file has them by time and index;
//! rows of one time are brought into order together.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::AsArray as _;
use arrow::datatypes::TimestampMicrosecondType;
use sealcast_common::fault::Corruption;
use sealcast_common::segment::columns::TextColumn;
use sealcast_common::segment::{BlockKind, TenantRun, actor_hash, event_hash};
use sealcast_vault::{SegmentEntry, VerifiedSegment};

use super::filter::{Columns, Filter, Wanted};
use super::place::{Order, Place, Rank};

/// Rows that are looked at before another run gets its turn.
const STEP_ROWS: usize = 4_096;

/// An open segment, as one walk sees it.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) entry: Arc<SegmentEntry>,
    pub(super) segment: Arc<VerifiedSegment>,
    /// Rows of its shard that are part of the walk.
    pub(super) size: u64,
    /// The last row of its shard that was given before.
    pub(super) after: Option<Rank>,
}

impl Open {
    pub(super) fn shard(&self) -> u16 {
        self.entry.descriptor.id.shard
    }

    /// The batch of a row of the file, and its place in there.
    pub(super) fn locate(&self, row: usize) -> (usize, usize) {
        let rows = (self.segment.seal().batch_rows as usize).max(1);
        (row / rows, row % rows)
    }

    fn time(&self, row: usize) -> i64 {
        let (batch, at) = self.locate(row);
        let column =
            self.segment.batches().get(batch).and_then(|batch| batch.column_by_name("time"));
        let times = column.and_then(|time| time.as_primitive_opt::<TimestampMicrosecondType>());
        times.and_then(|times| times.values().get(at).copied()).unwrap_or_default()
    }

    /// The runs that may hold rows within `time`.
    pub(super) fn runs(
        self,
        (filter, wanted): (&Filter, &Wanted),
        order: Order,
        time: (i64, i64),
    ) -> Result<Vec<Run>, Corruption> {
        let open = Arc::new(self);
        let picked = open.picked(filter)?;
        let stretches = match &open.segment.seal().facts.tenants {
            Some(directory) => listed(directory, wanted, time),
            None => open.found(wanted)?,
        };
        let runs = stretches.into_iter().filter_map(|stretch| {
            let rows = match &picked {
                None => Rows::All(stretch),
                Some(picked) => Rows::Picked(within(picked, &stretch).to_vec()),
            };
            let mut run = Run::new(Arc::clone(&open), order, rows);
            run.narrow(time);
            (!run.rest.is_empty()).then_some(run)
        });
        Ok(runs.collect())
    }

    /// Rows that an index names, ascending; `None` where none helps.
    fn picked(&self, filter: &Filter) -> Result<Option<Vec<u32>>, Corruption> {
        let (kind, hash) = match (&filter.event_id, &filter.actor) {
            (Some(id), _) => (BlockKind::EventIndex, event_hash(id)),
            (None, Some(actor)) => (BlockKind::ActorIndex, actor_hash(actor)),
            (None, None) => return Ok(None),
        };
        let mut rows = self.segment.view().index(kind)?.candidates(hash);
        rows.sort_unstable();
        Ok(Some(rows))
    }

    /// Runs of a segment with too many tenants for a directory.
    fn found(&self, wanted: &Wanted) -> Result<Vec<Range<usize>>, Corruption> {
        let mut runs: Vec<Range<usize>> = Vec::new();
        let mut last: Option<&str> = None;
        let mut row = 0;
        for batch in self.segment.batches() {
            let tenants = batch.column_by_name("tenant").and_then(TextColumn::new);
            let tenants = tenants
                .ok_or_else(|| Corruption::new("schema", None, "column tenant", "another one"))?;
            for at in 0..batch.num_rows() {
                let tenant = tenants.get(at).unwrap_or_default();
                match runs.last_mut().filter(|_| last == Some(tenant)) {
                    Some(run) if run.end == row => run.end += 1,
                    _ if wanted.holds(tenant) => runs.push(row..row + 1),
                    _ => {}
                }
                last = Some(tenant);
                row += 1;
            }
        }
        Ok(runs)
    }
}

fn listed(directory: &[TenantRun], wanted: &Wanted, (from, to): (i64, i64)) -> Vec<Range<usize>> {
    let range = |run: &TenantRun| {
        let first = run.first_row as usize;
        let meets = run.time.0.0 <= to && from <= run.time.1.0;
        meets.then(|| first..first + run.rows as usize)
    };
    match &wanted.names {
        None => directory.iter().filter_map(range).collect(),
        Some(names) => names
            .iter()
            .filter_map(|name| {
                let at = directory.binary_search_by(|run| run.tenant.as_str().cmp(name)).ok()?;
                range(directory.get(at)?)
            })
            .collect(),
    }
}

fn within<'a>(picked: &'a [u32], rows: &Range<usize>) -> &'a [u32] {
    let from = picked.partition_point(|row| (*row as usize) < rows.start);
    let to = picked.partition_point(|row| (*row as usize) < rows.end);
    picked.get(from..to).unwrap_or_default()
}

/// Rows of a file, ascending.
#[derive(Debug)]
enum Rows {
    All(Range<usize>),
    Picked(Vec<u32>),
}

impl Rows {
    fn at(&self, i: usize) -> usize {
        match self {
            Rows::All(rows) => rows.start + i,
            Rows::Picked(rows) => rows.get(i).map_or(0, |row| *row as usize),
        }
    }

    fn len(&self) -> usize {
        match self {
            Rows::All(rows) => rows.len(),
            Rows::Picked(rows) => rows.len(),
        }
    }
}

/// A run, and how far it has been read.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) open: Arc<Open>,
    order: Order,
    rows: Rows,
    /// Those of `rows` that were not looked at yet.
    rest: Range<usize>,
    /// Matching rows of one time, the next one last.
    ready: Vec<(Rank, usize)>,
}

impl Run {
    fn new(open: Arc<Open>, order: Order, rows: Rows) -> Self {
        let rest = 0..rows.len();
        Run { open, order, rows, rest, ready: Vec::new() }
    }

    /// Keeps the rows within `time`, by binary search.
    fn narrow(&mut self, (from, to): (i64, i64)) {
        let first = |is_late: &dyn Fn(i64) -> bool| {
            let Range { start: mut low, end: mut high } = self.rest;
            while low < high {
                let middle = low + (high - low) / 2;
                if is_late(self.open.time(self.rows.at(middle))) {
                    high = middle
                } else {
                    low = middle + 1
                }
            }
            low
        };
        let (start, end) = (first(&|time| time >= from), first(&|time| time > to));
        self.rest = start..end.max(start);
    }

    /// The row to be looked at next.
    fn near(&self) -> Option<usize> {
        match self.order {
            _ if self.rest.is_empty() => None,
            Order::Ascending => Some(self.rows.at(self.rest.start)),
            Order::Descending => Some(self.rows.at(self.rest.end - 1)),
        }
    }

    fn advance(&mut self) {
        match self.order {
            Order::Ascending => self.rest.start += 1,
            Order::Descending => self.rest.end -= 1,
        }
    }

    /// Leaves out the rows of the file in `rows`, which begin at the near end.
    fn skip(&mut self, rows: &Range<usize>) {
        while self.near().is_some_and(|row| rows.contains(&row)) {
            match (&self.rows, self.order) {
                (Rows::All(all), Order::Ascending) => {
                    self.rest.start = (rows.end - all.start).min(self.rest.end);
                }
                (Rows::All(all), Order::Descending) => {
                    self.rest.end = rows.start.saturating_sub(all.start).max(self.rest.start);
                }
                (Rows::Picked(_), _) => self.advance(),
            }
        }
    }

    /// No row of this run comes before it; `None`: there is none any more.
    pub(super) fn rank(&self) -> Option<Rank> {
        let ready = self.ready.last().map(|(rank, _)| *rank);
        ready.or_else(|| self.near().map(|row| self.order.first_at(self.open.time(row))))
    }

    /// The next row, if it is known already.
    pub(super) fn pop(&mut self) -> Option<(Rank, usize)> {
        self.ready.pop()
    }

    /// Looks for the next matching rows: all of one time, or none yet. Gives the bytes looked at.
    pub(super) fn step(&mut self, filter: &Filter) -> Result<u64, Corruption> {
        let open = Arc::clone(&self.open);
        let (batches, zones) = (open.segment.batches(), &open.segment.seal().zones);
        let mut columns: Option<(usize, Columns<'_>)> = None;
        let (mut group, mut looked_at, mut read) = (None, 0, 0);
        while let Some(row) = self.near() {
            let (number, at) = open.locate(row);
            let known = columns.take().filter(|(of, _)| *of == number);
            let (_, batch) = match known {
                Some(known) => columns.insert(known),
                None => {
                    let Some(batch) = batches.get(number) else { break };
                    let first = row - at;
                    if !zones.get(number).is_some_and(|zone| filter.may_hold(zone)) {
                        self.skip(&(first..first + batch.num_rows()));
                        continue;
                    }
                    columns.insert((number, Columns::new(batch, filter)?))
                }
            };
            let time = batch.time(at);
            if group.map_or(looked_at >= STEP_ROWS, |group| group != time) {
                break;
            }
            self.advance();
            looked_at += 1;
            if let Some(rank) = self.wanted(batch, at, &mut read) {
                self.ready.push((rank, row));
                group = Some(time);
            }
        }
        self.ready.sort_unstable_by(|(a, _), (b, _)| b.cmp(a));
        Ok(read)
    }

    /// The rank of a row that is still to be given.
    fn wanted(&self, batch: &Columns<'_>, at: usize, read: &mut u64) -> Option<Rank> {
        let (event_id, seq) = (batch.event_id(at), batch.seq(at));
        let place = Place { time: batch.time(at), event_id, shard: self.open.shard(), seq };
        let rank = self.order.rank(place);
        let is_new = self.open.after.is_none_or(|after| rank > after) && seq < self.open.size;
        (is_new && batch.matches(at, read)).then_some(rank)
    }
}
