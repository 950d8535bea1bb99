//! One query's task: snapshot, turn, plan, first batch, stream. It ends with its client, its time,
//! or somebody's wish, whatever it is doing.

use std::sync::Arc;
use std::time::Duration;

use arrow::record_batch::RecordBatch;
use axum::http::StatusCode;
use bytes::Bytes;
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt as _;
use sealcast_common::clock::Micros;
use sealcast_common::fault::{Kind, hex};
use sealcast_common::serve::{Health, Problem};
use sealcast_common::wire::Token;
use sealcast_vault::{Lag, Vault, VaultSnapshot, VaultStatus};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio_util::task::TaskTracker;

use super::error::problem;
use super::format::{Envelope, Output};
use super::params::QueryRequest;
use crate::config::Config;
use crate::queries::{Queries, QueryInfo, QueryState, RunningQuery};
use crate::sql::{Engine, Missing, QueryError, QueryScope, SystemSource};

/// Chunks that wait for a slow client.
const CHUNKS_WAITING: usize = 4;

/// Everything that a request needs.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) id: String,
    pub(crate) started_at: Micros,
    pub(crate) config: Config,
    pub(crate) vault: Vault,
    pub(crate) engine: Engine,
    pub(crate) queries: Arc<Queries>,
    pub(crate) health: Health,
    pub(crate) gate: Gate,
    pub(crate) tasks: TaskTracker,
    /// Where queries are planned and run.
    pub(crate) threads: tokio::runtime::Handle,
}

impl SystemSource for Node {
    fn status(&self) -> VaultStatus {
        self.vault.status()
    }

    fn replica(&self) -> crate::sql::ReplicaInfo {
        crate::sql::ReplicaInfo {
            id: self.id.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: self.started_at,
            ready: self.health.reasons().is_empty(),
        }
    }

    fn queries(&self) -> Vec<QueryInfo> {
        self.queries.list()
    }
}

/// Bounds what runs and what waits.
#[derive(Debug)]
pub(crate) struct Gate {
    turns: Arc<Semaphore>,
    places: Arc<Semaphore>,
    wait: Duration,
    max_concurrent: usize,
}

impl Gate {
    pub(crate) fn new(config: &Config) -> Self {
        let places = config.max_concurrent.saturating_add(config.max_queued);
        Gate {
            turns: Arc::new(Semaphore::new(config.max_concurrent)),
            places: Arc::new(Semaphore::new(places.min(Semaphore::MAX_PERMITS))),
            wait: Duration::from_millis(config.queue_ms),
            max_concurrent: config.max_concurrent,
        }
    }

    async fn enter(&self) -> Result<[OwnedSemaphorePermit; 2], Problem> {
        let full = |detail: String| {
            Problem::new(Kind::Overloaded, "too_many_queries", detail)
                .retry_after(1)
                .with("max_concurrent", self.max_concurrent)
                .hint("retry later, or raise max_concurrent or max_queued of the replica")
        };
        let place = Arc::clone(&self.places).try_acquire_owned();
        let place = place.map_err(|_| full("queue of queries is full".into()))?;
        let turn = tokio::time::timeout(self.wait, Arc::clone(&self.turns).acquire_owned()).await;
        match turn {
            Ok(Ok(turn)) => Ok([place, turn]),
            _ => Err(full(format!("no turn within {} ms", self.wait.as_millis()))),
        }
    }
}

/// What is known before the first byte.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) query_id: String,
    pub(crate) snapshot: Arc<VaultSnapshot>,
    pub(crate) lag: Lag,
    pub(crate) missing: Vec<Missing>,
}

/// A piece of the body. A body without `End` is a broken one.
#[derive(Debug)]
pub(crate) enum Part {
    Bytes(Bytes),
    End,
}

/// The first 8 bytes of a snapshot's digest.
pub(crate) fn snapshot_id(snapshot: &VaultSnapshot) -> String {
    hex(&snapshot.digest[..8])
}

/// Starts `request`; answers when its first batch is there.
pub(crate) async fn start(
    node: &Arc<Node>,
    request: QueryRequest,
) -> Result<(Head, mpsc::Receiver<Part>), Problem> {
    let query = node.queries.start(request.query_id, &request.sql).map_err(|taken| {
        Problem::new(Kind::Conflict, "query_id_taken", taken.to_string())
            .hint("query ids are for one query; leave the header out to get a fresh one")
    })?;
    let query_id = query.id().to_string();
    let (head, answered) = oneshot::channel();
    let (parts, body) = mpsc::channel(CHUNKS_WAITING);
    let task = run(Arc::clone(node), request, query, Some(head), parts);
    node.tasks.spawn_on(task, &node.threads);
    let head = answered.await.unwrap_or_else(|_| {
        // The task is gone without a word: it panicked.
        Err(problem(&QueryError::Panicked("a defect was hit while planning or running".into())))
    });
    match head {
        Ok(head) => Ok((head, body)),
        Err(problem) => Err(problem.with("query_id", query_id)),
    }
}

type HeadSender = Option<oneshot::Sender<Result<Head, Problem>>>;

async fn run(
    node: Arc<Node>,
    request: QueryRequest,
    query: RunningQuery,
    mut head: HeadSender,
    parts: mpsc::Sender<Part>,
) {
    let cancelled = query.cancelled();
    let work = Box::pin(work(&node, &request, &query, &mut head, &parts));
    let ended = tokio::select! {
        biased;
        () = cancelled.cancelled() => Err(Failure::Query(QueryError::Cancelled)),
        () = parts.closed() => Err(Failure::Gone),
        ended = work => ended,
    };
    let id = query.id();
    let failure = match ended {
        Ok(rows) => {
            tracing::debug!(query_id = %id, rows, "query finished");
            return query.end(QueryState::Finished);
        }
        Err(failure) => failure,
    };
    let (state, problem) = match failure {
        Failure::Gone => (QueryState::Cancelled, None),
        Failure::Refused(problem) => (QueryState::Failed, Some(problem)),
        Failure::Query(error) => {
            let stopped = matches!(error, QueryError::Cancelled | QueryError::Timeout { .. });
            let state = if stopped { QueryState::Cancelled } else { QueryState::Failed };
            (state, Some(problem(&error)))
        }
    };
    let code = problem.as_ref().map_or("client_gone", |problem| problem.code);
    tracing::debug!(query_id = %id, code, "query ended early");
    query.end(state);
    if let (Some(head), Some(problem)) = (head.take(), problem) {
        // The client may have left meanwhile.
        let _left = head.send(Err(problem));
    }
    // Without a `Part::End` the body is aborted.
}

enum Failure {
    /// The client has left.
    Gone,
    /// Before the engine was asked.
    Refused(Problem),
    Query(QueryError),
}

impl<E: Into<QueryError>> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure::Query(error.into())
    }
}

async fn work(
    node: &Arc<Node>,
    request: &QueryRequest,
    query: &RunningQuery,
    head: &mut HeadSender,
    parts: &mpsc::Sender<Part>,
) -> Result<u64, Failure> {
    let snapshot = pin(node, request).await.map_err(Failure::Refused)?;
    let _turn = node.gate.enter().await.map_err(Failure::Refused)?;
    let timeout_ms = request.timeout_ms.unwrap_or(u64::MAX).min(node.config.timeout_ms);
    let system: Arc<dyn SystemSource> = Arc::<Node>::clone(node);
    let scope = Arc::new(QueryScope::new(snapshot, request.allow_partial, system));
    let timed = Box::pin(answer(node, request, query, &scope, (head, parts)));
    match tokio::time::timeout(Duration::from_millis(timeout_ms), timed).await {
        Ok(ended) => ended,
        Err(_) => Err(QueryError::Timeout { timeout_ms }.into()),
    }
}

/// The snapshot of a query: the newest one that holds what the request asks for.
async fn pin(node: &Node, request: &QueryRequest) -> Result<Arc<VaultSnapshot>, Problem> {
    let Some(token) = &request.min else { return Ok(node.vault.snapshot()) };
    let wait_ms = request.wait_ms.unwrap_or(node.config.wait_ms);
    let held = node.vault.wait_for(token, Duration::from_millis(wait_ms)).await;
    held.map_err(|held| {
        let detail = format!("replica does not hold what min names within {wait_ms} ms");
        Problem::new(Kind::Conflict, "not_yet_replicated", detail)
            .status(StatusCode::PRECONDITION_FAILED)
            .with("vector", serde_json::json!(held.vector))
            .with("wanted", serde_json::json!(token.0))
            .with("token", Token(held.vector.clone()).to_text())
            .with("lag_ms", serde_json::json!(held.lag()))
            .retry_after(1)
            .hint(
                "retry with the same min; is the shipper running, and does it follow this writer?",
            )
    })
}

async fn answer(
    node: &Node,
    request: &QueryRequest,
    query: &RunningQuery,
    scope: &Arc<QueryScope>,
    (head, parts): (&mut HeadSender, &mpsc::Sender<Part>),
) -> Result<u64, Failure> {
    let prepared = node.engine.prepare(&request.sql, request.params.as_ref(), scope).await?;
    let mut batches = prepared.execute()?;
    let max_rows = request.max_rows.into_iter().chain(node.config.max_rows).min();
    let count = |batch: &RecordBatch| match (query.add_rows(batch.num_rows()), max_rows) {
        (rows, Some(max_rows)) if rows > max_rows => Err(QueryError::TooManyRows { max_rows }),
        (rows, _) => Ok(rows),
    };
    // The first batch decides whether there is an answer at all.
    let first = next(&mut batches).await?;
    let mut rows = first.as_ref().map_or(Ok(0), count)?;
    let missing = scope.missing();
    let envelope = Envelope {
        query_id: query.id().to_string(),
        snapshot: snapshot_id(&scope.snapshot),
        missing: missing.iter().map(Missing::to_text).collect(),
    };
    let mut output = Output::new(request.format, &batches.schema(), envelope).map_err(arrow)?;
    let mut chunk = match &first {
        Some(batch) => output.batch(batch).map_err(arrow)?,
        None => Bytes::new(),
    };
    let answered = Head {
        query_id: query.id().to_string(),
        snapshot: Arc::clone(&scope.snapshot),
        lag: scope.snapshot.lag(),
        missing,
    };
    let sent = head.take().map(|head| head.send(Ok(answered)));
    if !matches!(sent, Some(Ok(()))) {
        return Err(Failure::Gone);
    }
    loop {
        send(parts, Part::Bytes(chunk)).await?;
        let Some(batch) = next(&mut batches).await? else { break };
        rows = count(&batch)?;
        chunk = output.batch(&batch).map_err(arrow)?;
    }
    send(parts, Part::Bytes(output.end().map_err(arrow)?)).await?;
    send(parts, Part::End).await?;
    Ok(rows)
}

fn arrow(error: arrow::error::ArrowError) -> DataFusionError {
    DataFusionError::ArrowError(Box::new(error), None)
}

async fn next(batches: &mut SendableRecordBatchStream) -> Result<Option<RecordBatch>, QueryError> {
    Ok(batches.next().await.transpose()?)
}

async fn send(parts: &mpsc::Sender<Part>, part: Part) -> Result<(), Failure> {
    if matches!(&part, Part::Bytes(bytes) if bytes.is_empty()) {
        return Ok(());
    }
    parts.send(part).await.map_err(|_| Failure::Gone)
}
