//! One partition of a scan: opens segments one after another and gives their matching rows.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{Array as _, AsArray as _, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::{cast, take_record_batch};
use arrow::datatypes::{SchemaRef, TimestampMicrosecondType};
use datafusion::common::runtime::SpawnedTask;
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr_common::physical_expr::{
    snapshot_generation, snapshot_physical_expr,
};
use datafusion::physical_plan::filter::batch_filter;
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder};
use futures::FutureExt as _;
use sealcast_vault::{SegmentEntry, VerifiedSegment};

use super::error::SegmentUnavailable;
use super::keep::{keep, mask, own};
use super::prune::{Prune, TimeBounds};
use super::session::QueryScope;
use super::spans::{Rows, Span, spans};
use super::tenants::TenantFilter;

/// First piece that an ordered top-k reads from the end of a tenant's rows; each further piece is
/// twice as long.
const PIECE_ROWS_FIRST: usize = 256;
const PIECE_ROWS_MAX: usize = 8_192;

/// What every partition of a scan does with a batch.
#[derive(Debug)]
pub(super) struct Shape {
    /// The columns that are read: those asked for and those filtered by.
    pub(super) columns: Vec<usize>,
    /// Their logical schema.
    pub(super) schema: SchemaRef,
    /// Those of them that are given out.
    pub(super) output: Vec<usize>,
    /// The filter over `schema`, applied to every row.
    pub(super) predicate: Option<Arc<dyn PhysicalExpr>>,
    /// What the filter rules out.
    pub(super) prune: Option<Prune>,
    /// Rows of a batch, where the engine wants fewer than the segments have.
    pub(super) rows_max: usize,
    /// Comes before everything else, where the caller is limited to some tenants.
    pub(super) tenants: Option<TenantFilter>,
}

/// A part of a segment: see [`Span::is_of`].
#[derive(Clone, Debug)]
pub(super) struct Unit {
    pub(super) entry: Arc<SegmentEntry>,
    pub(super) part: usize,
    pub(super) parts: usize,
}

/// What `EXPLAIN ANALYZE` shows of a scan.
#[derive(Clone, Debug)]
pub(super) struct ReadMetrics {
    segments_opened: Count,
    segments_skipped: Count,
    batches_read: Count,
    rows_read: Count,
    output_rows: Count,
}

impl ReadMetrics {
    /// For a limited caller the counters stay out of `set`: they tell of rows of others.
    pub(super) fn new(set: &ExecutionPlanMetricsSet, partition: usize, limited: bool) -> Self {
        let hidden = ExecutionPlanMetricsSet::new();
        let counted = if limited { &hidden } else { set };
        let counter = |name| MetricBuilder::new(counted).counter(name, partition);
        ReadMetrics {
            segments_opened: counter("segments_opened"),
            segments_skipped: counter("segments_skipped"),
            batches_read: counter("batches_read"),
            rows_read: counter("rows_read"),
            output_rows: MetricBuilder::new(set).output_rows(partition),
        }
    }
}

/// A filter that a running operator tightens: a top-k's threshold, a join's keys.
#[derive(Debug)]
struct Dynamic {
    filter: Arc<dyn PhysicalExpr>,
    generation: Option<u64>,
    prune: Prune,
}

impl Dynamic {
    fn refresh(&mut self, schema: &SchemaRef) -> Result<()> {
        let generation = snapshot_generation(&self.filter);
        if self.generation != Some(generation) {
            self.prune = Prune::new(&snapshot_physical_expr(Arc::clone(&self.filter))?, schema);
            self.generation = Some(generation);
        }
        Ok(())
    }
}

/// A segment that is being opened, or is open.
#[derive(Debug)]
enum Opening {
    Done(Result<Arc<VerifiedSegment>>),
    Running(SpawnedTask<Result<Arc<VerifiedSegment>>>),
}

impl Opening {
    async fn join(self) -> Result<Arc<VerifiedSegment>> {
        match self {
            Opening::Done(segment) => segment,
            Opening::Running(task) => task
                .join()
                .await
                .map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?,
        }
    }
}

#[derive(Debug)]
struct Open {
    segment: Arc<VerifiedSegment>,
    /// Whether the caller may see all of it.
    owned: bool,
    spans: VecDeque<Span>,
    /// The batch read last: its number and its columns.
    batch: Option<(usize, RecordBatch)>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Reader {
    pub(super) scope: Arc<QueryScope>,
    pub(super) shape: Arc<Shape>,
    pub(super) units: VecDeque<Unit>,
    pub(super) metrics: ReadMetrics,
    /// `Some(true)`: the newest rows first.
    pub(super) descending: Option<bool>,
    /// Rows still wanted.
    pub(super) limit: Option<usize>,
    dynamic: Vec<Dynamic>,
    ahead: Option<(Unit, Opening)>,
    open: Option<Open>,
    piece_rows: usize,
    /// What was found and not given yet.
    rest: VecDeque<RecordBatch>,
}

impl Reader {
    pub(super) fn new(
        scope: Arc<QueryScope>,
        shape: Arc<Shape>,
        units: Vec<Unit>,
        filters: &[Arc<dyn PhysicalExpr>],
        metrics: ReadMetrics,
    ) -> Result<Self> {
        let dynamic = filters.iter().map(|filter| {
            let prune = Prune::new(&snapshot_physical_expr(Arc::clone(filter))?, &shape.schema);
            Ok(Dynamic { filter: Arc::clone(filter), generation: None, prune })
        });
        Ok(Reader {
            dynamic: dynamic.collect::<Result<_>>()?,
            scope,
            shape,
            units: units.into(),
            metrics,
            descending: None,
            limit: None,
            ahead: None,
            open: None,
            piece_rows: PIECE_ROWS_FIRST,
            rest: VecDeque::new(),
        })
    }

    /// The next batch with at least one row.
    pub(super) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        if let Some(piece) = self.next_piece() {
            return Ok(Some(piece));
        }
        while self.limit != Some(0) {
            self.refresh()?;
            if self.open.is_none() {
                let Some(open) = self.open_next().await? else { return Ok(None) };
                self.open = Some(open);
            }
            let Some((batch, rows)) = self.next_rows() else {
                self.open = None;
                continue;
            };
            let found = self.read(batch, &rows);
            self.scope.check_opened()?;
            self.rest.extend(found?);
            if let Some(piece) = self.next_piece() {
                return Ok(Some(piece));
            }
            // Rows that match nothing may be many: others get their turn.
            tokio::task::consume_budget().await;
        }
        Ok(None)
    }

    fn next_piece(&mut self) -> Option<RecordBatch> {
        let found = self.rest.pop_front()?;
        let rows = found.num_rows().min(self.shape.rows_max);
        if rows < found.num_rows() {
            self.rest.push_front(found.slice(rows, found.num_rows() - rows));
        }
        self.metrics.output_rows.add(rows);
        Some(found.slice(0, rows))
    }

    fn refresh(&mut self) -> Result<()> {
        let schema = &self.shape.schema;
        self.dynamic.iter_mut().try_for_each(|dynamic| dynamic.refresh(schema))
    }

    /// An ordered top-k reads little, and from one end.
    fn is_top(&self) -> bool {
        self.descending.is_some() && !self.dynamic.is_empty()
    }

    fn prunes(&self) -> Vec<&Prune> {
        let dynamic = self.dynamic.iter().map(|dynamic| &dynamic.prune);
        let tenants = self.shape.tenants.iter().map(|tenants| &tenants.prune);
        tenants.chain(&self.shape.prune).chain(dynamic).collect()
    }

    fn time(&self) -> TimeBounds {
        self.prunes().into_iter().fold(TimeBounds::ALL, |bounds, prune| bounds.and(prune.time))
    }

    async fn open_next(&mut self) -> Result<Option<Open>> {
        loop {
            let (unit, opening) = match self.ahead.take() {
                Some(ahead) => ahead,
                None => match self.start_opening() {
                    Some(started) => started,
                    None => return Ok(None),
                },
            };
            // One segment ahead, except where the next one is probably not needed.
            if !self.is_top() && self.limit.is_none() {
                self.ahead = self.start_opening();
            }
            let segment = opening.join().await?;
            self.scope.note_opened(&unit.entry, segment.watch());
            let spans = self.plan(&unit, &segment)?;
            if !spans.is_empty() {
                let tenants = self.shape.tenants.as_ref();
                let owned = tenants.is_none_or(|tenants| tenants.owns(segment.seal()));
                return Ok(Some(Open { segment, owned, spans, batch: None }));
            }
        }
    }

    /// Starts opening the next segment that dynamic filters do not rule out.
    fn start_opening(&mut self) -> Option<(Unit, Opening)> {
        while let Some(unit) = self.units.pop_front() {
            if !self.dynamic.iter().all(|dynamic| dynamic.prune.segment(&unit.entry)) {
                self.metrics.segments_skipped.add(1);
                continue;
            }
            self.metrics.segments_opened.add(1);
            let (snapshot, entry) = (Arc::clone(&self.scope.snapshot), Arc::clone(&unit.entry));
            let mut open = Box::pin(async move {
                snapshot.open(&entry).await.map_err(|source| unavailable(&entry, source).into())
            });
            // Most are open: those need no task.
            let opening = match open.as_mut().now_or_never() {
                Some(segment) => Opening::Done(segment),
                None => Opening::Running(SpawnedTask::spawn(open)),
            };
            return Some((unit, opening));
        }
        None
    }

    fn plan(&self, unit: &Unit, segment: &VerifiedSegment) -> Result<VecDeque<Span>> {
        let spans = spans(segment, &self.prunes(), self.is_top())
            .map_err(|corruption| DataFusionError::External(Box::new(corruption)))?;
        let mut spans: Vec<Span> =
            spans.into_iter().filter(|span| span.is_of(unit.part, unit.parts)).collect();
        match self.descending {
            Some(true) => spans.sort_by_key(|span| std::cmp::Reverse(span.time.1)),
            Some(false) => spans.sort_by_key(|span| span.time.0),
            None => {}
        }
        Ok(spans.into())
    }

    /// The next rows of the open segment that the filters of this moment leave.
    fn next_rows(&mut self) -> Option<(usize, Rows)> {
        let bounds = self.time();
        let is_top = self.is_top();
        let open = self.open.as_mut()?;
        while let Some(mut span) = open.spans.pop_front() {
            if !bounds.overlaps(span.time) {
                continue;
            }
            if span.sorted && bounds != TimeBounds::ALL {
                span.rows = narrow(&open.segment, &span, bounds);
            }
            if span.rows.len() == 0 {
                continue;
            }
            if is_top && span.sorted && span.rows.len() > self.piece_rows {
                let (piece, rest) = (self.piece_rows, span.rows.len());
                let (now, later) = match self.descending {
                    Some(false) => (0..piece, piece..rest),
                    _ => (rest - piece..rest, 0..rest - piece),
                };
                let rows = span.rows.narrow(now);
                span.rows = span.rows.narrow(later);
                let batch = span.batch;
                open.spans.push_front(span);
                self.piece_rows = (self.piece_rows * 2).min(PIECE_ROWS_MAX);
                return Some((batch, rows));
            }
            return Some((span.batch, span.rows));
        }
        None
    }

    /// The matching ones of `rows`, in the columns asked for; no batch is empty.
    fn read(&mut self, batch: usize, rows: &Rows) -> Result<Vec<RecordBatch>> {
        let shape = Arc::clone(&self.shape);
        let columns = self.columns(batch)?;
        let owned = self.open.as_ref().is_some_and(|open| open.owned);
        let mut found = match rows {
            Rows::Range(range) => columns.slice(range.start, range.len()),
            Rows::Picked(rows) => take_record_batch(&columns, &UInt32Array::from(rows.clone()))?,
        };
        self.metrics.rows_read.add(found.num_rows());
        if let Some(tenants) = &shape.tenants {
            found = tenants.own_rows(&found, owned)?;
        }
        let dynamic = self.dynamic.iter().map(|dynamic| &dynamic.filter);
        let mut filters: Vec<_> = shape.predicate.iter().chain(dynamic).collect();
        let last = filters.pop();
        for filter in filters {
            if found.num_rows() > 0 {
                found = batch_filter(&found, filter)?;
            }
        }
        let mask = match last {
            Some(filter) if found.num_rows() > 0 => {
                Some(mask(filter.evaluate(&found)?, found.num_rows())?)
            }
            _ => None,
        };
        if !shape.output.iter().copied().eq(0..shape.columns.len()) {
            found = found.project(&shape.output)?;
        }
        let mut kept = match mask {
            Some(mask) => keep(&found, &mask)?,
            None => vec![found],
        };
        if let Some(limit) = &mut self.limit {
            for batch in &mut kept {
                *batch = batch.slice(0, batch.num_rows().min(*limit));
                *limit -= batch.num_rows();
            }
        }
        kept.retain(|batch| batch.num_rows() > 0);
        // A top-k keeps a few rows of many pieces.
        if self.is_top() { kept.iter().map(own).collect() } else { Ok(kept) }
    }

    /// The needed columns of a batch in their logical types; borrowed from the map, except label
    /// columns that a segment stores as plain text.
    fn columns(&mut self, number: usize) -> Result<RecordBatch> {
        let missing = || DataFusionError::Internal("no open segment or no such batch".into());
        let open = self.open.as_mut().ok_or_else(missing)?;
        if let Some((at, columns)) = &open.batch
            && *at == number
        {
            return Ok(columns.clone());
        }
        let batch = open.segment.batches().get(number).ok_or_else(missing)?;
        let schema = Arc::clone(&self.shape.schema);
        let columns = self.shape.columns.iter().zip(schema.fields()).map(|(column, field)| {
            let array = batch.column(*column);
            let bytes = array.to_data().get_slice_memory_size().unwrap_or_default();
            self.scope.charge_scan(bytes as u64)?;
            if array.data_type() == field.data_type() {
                return Ok(Arc::clone(array));
            }
            Ok(cast(array, field.data_type())?)
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let columns = RecordBatch::try_new_with_options(schema, columns, &options)?;
        self.metrics.batches_read.add(1);
        open.batch = Some((number, columns.clone()));
        Ok(columns)
    }
}

/// The error of a strict query.
pub(crate) fn unavailable(
    entry: &SegmentEntry,
    source: sealcast_vault::OpenError,
) -> SegmentUnavailable {
    let descriptor = &entry.descriptor;
    let (shard, start, end) = (descriptor.id.shard, descriptor.id.start, descriptor.end());
    SegmentUnavailable { shard, start, end, source }
}

/// The rows of a sorted span within `bounds`, by binary search.
fn narrow(segment: &VerifiedSegment, span: &Span, bounds: TimeBounds) -> Rows {
    let times = segment
        .batches()
        .get(span.batch)
        .and_then(|batch| batch.column_by_name("time"))
        .and_then(|column| column.as_primitive_opt::<TimestampMicrosecondType>());
    let Some(times) = times else { return span.rows.clone() };
    let first = |after: &dyn Fn(i64) -> bool| {
        let (mut low, mut high) = (0, span.rows.len());
        while low < high {
            let middle = low + (high - low) / 2;
            let row = span.rows.at(middle);
            let before = row < times.len() && !after(times.value(row));
            if before { low = middle + 1 } else { high = middle }
        }
        low
    };
    let from = first(&|time| time >= bounds.from);
    let to = first(&|time| time > bounds.to);
    span.rows.narrow(from..to.max(from))
}
