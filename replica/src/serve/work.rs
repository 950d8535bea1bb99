//! The work of one query: plan, first batch, then bytes until the end.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt as _;
use sealcast_vault::VaultSnapshot;
use tokio::sync::mpsc;

use super::body::{Part, slice_bytes};
use super::etag;
use super::format::{Envelope, Format, Output};
use super::gate::Turn;
use super::params::Asks;
use super::run::{Failure, Head, Job, Node, snapshot_id};
use crate::metrics;
use crate::sql::{
    Bound, Dialect, Missing, OverBound, Planned, QueryError, QueryLimits, QueryScope, SystemSource,
};

/// A batch is written in pieces of about so many bytes, so that neither a chunk nor the text of a
/// batch of large values takes much memory.
const PIECE_BYTES: usize = 1024 * 1024;

/// Answers `job` on `snapshot`, as long as it has its `_turn`. Gives the number of rows.
pub(super) async fn work(
    job: Arc<Job>,
    snapshot: Arc<VaultSnapshot>,
    _turn: Turn,
    parts: mpsc::Sender<Part>,
) -> Result<u64, Failure> {
    let (node, request) = (&job.node, &job.request);
    let system: Arc<dyn SystemSource> = Arc::<Node>::clone(node);
    let limits = QueryLimits {
        memory_bytes: node.config.query_memory_bytes,
        scan_bytes: node.config.max_scan_bytes,
    };
    let grant = Arc::clone(&request.grant);
    let scope = QueryScope::new(snapshot, request.allow_partial, system, grant);
    let stale = node.stale().filter(|_| !request.allow_stale);
    let dialect = match request.format {
        Format::Postgres => Dialect::Postgres,
        _ => Dialect::Own,
    };
    let scope = scope
        .with_dialect(dialect)
        .with_limits(limits)
        .with_stale(stale)
        .with_stop(job.query.cancelled());
    let scope = Arc::new(scope);
    if request.asks != Asks::Rows {
        return outline(&job, &scope).await;
    }
    let planned = node.engine.plan(&request.sql, request.params.as_ref(), &scope).await?;
    let etag = tag(&job, &scope, &planned);
    if let (Some(etag), Some(held)) = (&etag, &request.if_none_match)
        && etag::matches(held, etag)
        && stale.is_none()
    {
        metrics::answer_not_modified();
        let _given = job.given.set(0);
        return match job.begin(Ok(head(&job, &scope, Some(etag.clone()), true))) {
            true => Ok(0),
            false => Err(Failure::Gone),
        };
    }
    let prepared = planned.compile().await?;
    let columns = Arc::clone(&prepared.columns);
    let answer = Answer { job: &job, scope: &scope, parts, etag, columns };
    let ended = Box::pin(answer.give(prepared.execute()?)).await;
    metrics::query_scanned(scope.scanned_bytes());
    ended
}

/// What the statement of `job` is: the answer has a head and nothing else.
async fn outline(job: &Job, scope: &Arc<QueryScope>) -> Result<u64, Failure> {
    let (engine, request) = (&job.node.engine, &job.request);
    let outline = match request.asks {
        Asks::Places => engine.outline(&request.sql, scope).await?,
        _ => engine.plan(&request.sql, request.params.as_ref(), scope).await?.outline()?,
    };
    let _given = job.given.set(0);
    let head = Head { outline: Some(outline), ..head(job, scope, None, false) };
    if job.begin(Ok(head)) { Ok(0) } else { Err(Failure::Gone) }
}

/// The tag of a complete answer that may be asked for again.
fn tag(job: &Job, scope: &QueryScope, planned: &Planned) -> Option<String> {
    let (request, config) = (&job.request, &job.node.config);
    let whole = !request.allow_partial && scope.snapshot.has_begun();
    // A bound of this request alone might refuse what another one got.
    let bounded = request.max_rows.is_some_and(|max| config.max_rows != Some(max));
    (whole && !bounded && planned.is_repeatable())
        .then(|| etag::tag(&scope.snapshot, &planned.text, request))
}

fn head(job: &Job, scope: &QueryScope, etag: Option<String>, not_modified: bool) -> Head {
    Head {
        query_id: job.query.id().to_string(),
        snapshot: Arc::clone(&scope.snapshot),
        lag: scope.snapshot.lag(),
        missing: scope.missing(),
        etag,
        outline: None,
        not_modified,
        limited: job.request.grant.is_limited(),
    }
}

struct Answer<'a> {
    job: &'a Job,
    scope: &'a QueryScope,
    parts: mpsc::Sender<Part>,
    etag: Option<String>,
    /// As the statement promises them.
    columns: SchemaRef,
}

impl Answer<'_> {
    async fn give(mut self, mut batches: SendableRecordBatchStream) -> Result<u64, Failure> {
        // The first batch decides whether there is an answer at all.
        let first = next(&mut batches).await?;
        let mut rows = first.as_ref().map_or(Ok(0), |batch| self.count(batch))?;
        let missing = self.scope.missing();
        let envelope = Envelope {
            query_id: self.job.query.id().to_string(),
            snapshot: snapshot_id(&self.scope.snapshot),
            missing: missing.iter().map(Missing::to_text).collect(),
            end_marker: self.job.request.end_marker,
        };
        let format = self.job.request.format;
        let columns = match format {
            // What was announced before the query ran.
            Format::Flight | Format::FlightNative | Format::Postgres => Arc::clone(&self.columns),
            _ => batches.schema(),
        };
        let mut output = Output::new(format, &columns, envelope).map_err(arrow)?;
        let mut given = 0;
        let mut waiting = first;
        let mut begun = false;
        while let Some(batch) = waiting.take() {
            for piece in pieces(&batch) {
                let chunk = output.batch(&piece).map_err(arrow)?;
                self.weigh(&mut given, &chunk)?;
                if !std::mem::replace(&mut begun, true) {
                    self.begin()?;
                }
                self.send(chunk).await?;
            }
            waiting = next(&mut batches).await?;
            rows = waiting.as_ref().map_or(Ok(rows), |batch| self.count(batch))?;
        }
        if !begun {
            self.begin()?;
        }
        let rest = output.end().map_err(arrow)?;
        self.weigh(&mut given, &rest)?;
        self.send(rest).await?;
        let end = Part::End { rows, complete: missing.is_empty() };
        let place = self.parts.reserve().await.map_err(|_| Failure::Gone)?;
        let _given = self.job.given.set(rows);
        place.send(end);
        Ok(rows)
    }

    fn count(&self, batch: &RecordBatch) -> Result<u64, OverBound> {
        let rows = self.job.query.add_rows(batch.num_rows());
        let max = self.job.request.max_rows.into_iter().chain(self.job.node.config.max_rows).min();
        match max {
            Some(max) if rows > max => Err(OverBound { bound: Bound::Rows, max }),
            _ => Ok(rows),
        }
    }

    fn weigh(&self, given: &mut u64, chunk: &[Part]) -> Result<(), OverBound> {
        *given += chunk.iter().map(Part::size).sum::<usize>() as u64;
        match self.job.node.config.max_result_bytes {
            Some(max) if *given > max => Err(OverBound { bound: Bound::ResultBytes, max }),
            _ => Ok(()),
        }
    }

    fn begin(&mut self) -> Result<(), Failure> {
        let head = head(self.job, self.scope, self.etag.take(), false);
        if self.job.begin(Ok(head)) { Ok(()) } else { Err(Failure::Gone) }
    }

    async fn send(&self, chunk: Vec<Part>) -> Result<(), Failure> {
        for part in chunk {
            let size = part.size();
            if size > 0 {
                metrics::query_answered(size as u64);
                self.parts.send(part).await.map_err(|_| Failure::Gone)?;
            }
        }
        Ok(())
    }
}

/// `batch` in slices of about [`PIECE_BYTES`].
fn pieces(batch: &RecordBatch) -> impl Iterator<Item = RecordBatch> + '_ {
    let bytes = slice_bytes(batch);
    let rows = batch.num_rows();
    let step = (rows / (bytes / PIECE_BYTES + 1)).max(1);
    (0..rows).step_by(step).map(move |from| batch.slice(from, step.min(rows - from)))
}

fn arrow(error: arrow::error::ArrowError) -> DataFusionError {
    DataFusionError::ArrowError(Box::new(error), None)
}

async fn next(batches: &mut SendableRecordBatchStream) -> Result<Option<RecordBatch>, QueryError> {
    Ok(batches.next().await.transpose()?)
}
