//! One query: a task that watches (client, wish, time) and one that works (snapshot, plan, rows).
//! Two, so that a step of the work which does not return holds up no refusal.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use sealcast_common::clock::{Clock, Micros};
use sealcast_common::fault::{Kind, hex};
use sealcast_common::serve::access::Grant;
use sealcast_common::serve::{Health, Problem};
use sealcast_common::wire::Token;
use sealcast_vault::{Lag, Vault, VaultSnapshot, VaultStatus};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::task::TaskTracker;

use super::as_of::AsOfKey;
use super::body::{Part, Parts};
use super::error::{concealed, problem};
use super::gate::Gate;
use super::params::QueryRequest;
use super::pin::pin;
use super::work::work;
use crate::config::Config;
use crate::metrics;
use crate::pages::CursorKey;
use crate::queries::{Queries, QueryInfo, QueryState, RunningQuery};
use crate::sql::{Engine, Missing, Outline, QueryError, Stale, SystemSource};

/// Chunks that wait for a slow client.
const CHUNKS_WAITING: usize = 4;
/// A position of more than 256 shards is longer than what proxies let through.
const AS_OF_CHARS_MAX: usize = 3_600;
/// Missing ranges that are listed in a header.
const MISSING_LISTED_MAX: usize = 64;

/// Everything that a request needs.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) id: String,
    pub(crate) started_at: Micros,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) config: Config,
    pub(crate) vault: Vault,
    pub(crate) engine: Engine,
    pub(crate) tickets: crate::flight::Tickets,
    pub(crate) queries: Arc<Queries>,
    pub(crate) health: Health,
    pub(crate) gate: Gate,
    pub(crate) cursor_key: CursorKey,
    pub(crate) as_of_key: AsOfKey,
    pub(crate) tasks: TaskTracker,
    /// Milliseconds since the store was last heard, by its quietest stream.
    pub(crate) quiet_ms: AtomicU64,
    /// Where queries are planned and run.
    pub(crate) threads: tokio::runtime::Handle,
}

impl Node {
    /// Takes over how long the store has been quiet; a stream that was never heard counts from the
    /// start of the process, because what an earlier one verified is served at once.
    pub(crate) fn note_quiet(&self, status: &VaultStatus, uptime_ms: u64) {
        let ages = status.streams.iter().map(|s| s.last_probe_age_ms.unwrap_or(uptime_ms));
        self.quiet_ms.store(ages.max().unwrap_or(0), Ordering::Relaxed);
    }

    /// Whether that is longer than this node answers for.
    pub(crate) fn stale(&self) -> Option<Stale> {
        let (age_ms, max_ms) =
            (self.quiet_ms.load(Ordering::Relaxed), self.config.max_staleness_ms);
        (age_ms > max_ms).then_some(Stale { age_ms, max_ms })
    }
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

    fn queries(&self, viewer: &Grant) -> Vec<QueryInfo> {
        self.queries.list(viewer)
    }
}

/// What is known before the first byte.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) query_id: String,
    pub(crate) snapshot: Arc<VaultSnapshot>,
    pub(crate) lag: Lag,
    pub(crate) missing: Vec<Missing>,
    /// Where the snapshot stands, for those who want the same again; empty: pages have cursors.
    pub(crate) as_of: String,
    /// Of an answer that may be asked for again.
    pub(crate) etag: Option<String>,
    /// What a statement is, for those who do not want its rows.
    pub(crate) outline: Option<Outline>,
    /// The client has the answer already: there is no body.
    pub(crate) not_modified: bool,
    /// Sizes of shards count the rows of others: they are not told.
    pub(crate) limited: bool,
}

impl Head {
    /// What headers tell of an answer.
    pub(crate) fn told(&self) -> Vec<(&'static str, String)> {
        let complete = self.missing.is_empty();
        let mut told = vec![
            ("sealcast-query-id", self.query_id.clone()),
            ("sealcast-snapshot", snapshot_id(&self.snapshot)),
            ("sealcast-lag-ms", self.lag.to_string()),
            ("sealcast-complete", complete.to_string()),
        ];
        if (1..=AS_OF_CHARS_MAX).contains(&self.as_of.len()) {
            told.push(("sealcast-as-of", self.as_of.clone()));
        }
        if !self.limited {
            told.push(("sealcast-vector", Token(self.snapshot.vector.clone()).to_text()));
        }
        if !complete {
            let listed = self.missing.iter().take(MISSING_LISTED_MAX).map(Missing::to_text);
            told.push(("sealcast-missing", listed.collect::<Vec<_>>().join(" ")));
            told.push(("sealcast-missing-count", self.missing.len().to_string()));
        }
        told
    }
}

/// The first 8 bytes of a snapshot's digest.
pub(crate) fn snapshot_id(snapshot: &VaultSnapshot) -> String {
    hex(&snapshot.digest[..8])
}

/// What both tasks of a query share.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) node: Arc<Node>,
    pub(super) request: QueryRequest,
    pub(super) query: RunningQuery,
    /// The rows of an answer that has been given as a whole: from then on nobody needs to listen.
    pub(super) given: OnceLock<u64>,
    head: Mutex<Option<oneshot::Sender<Result<Head, Problem>>>>,
}

impl Job {
    /// Gives `head` to whoever waits for it; false if nobody does.
    pub(super) fn begin(&self, head: Result<Head, Problem>) -> bool {
        let sender = self.head.lock().take();
        sender.is_some_and(|sender| sender.send(head).is_ok())
    }

    /// Milliseconds that planning and answering may take together.
    fn timeout_ms(&self) -> u64 {
        self.request.timeout_ms.unwrap_or(u64::MAX).min(self.node.config.timeout_ms)
    }
}

/// Starts `request`; answers when its first batch is there.
pub(crate) async fn start(
    node: &Arc<Node>,
    request: QueryRequest,
) -> Result<(Head, Parts), Problem> {
    let query = node.queries.start(request.query_id, &request.sql, &request.grant);
    let query = query.map_err(|taken| {
        Problem::new(Kind::Conflict, "query_id_taken", taken.to_string())
            .hint("query ids are for one query; leave the header out to get a fresh one")
    })?;
    let query_id = query.id().to_string();
    let (head, answered) = oneshot::channel();
    let (parts, body) = mpsc::channel(CHUNKS_WAITING);
    let (watching, watched) = oneshot::channel();
    let head = Mutex::new(Some(head));
    let job = Job { node: Arc::clone(node), request, query, given: OnceLock::new(), head };
    // Not where it is planned and run: it answers in time also while all threads there are busy.
    node.tasks.spawn(watch(job, parts, watching));
    let head = answered.await.unwrap_or_else(|_| {
        // The task is gone without a word: it panicked.
        Err(problem(&QueryError::Panicked("a defect was hit while planning or running".into())))
    });
    match head {
        Ok(head) => Ok((head, Parts::new(body, watched))),
        Err(problem) => {
            metrics::query_refused(problem.code);
            Err(problem.with("query_id", query_id))
        }
    }
}

/// Why there is no (further) answer.
pub(super) enum Failure {
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

/// Runs a query to its end, whichever comes first. `watching` goes with it: without a
/// `Part::End` before that, the answer is broken off.
async fn watch(job: Job, parts: mpsc::Sender<Part>, watching: oneshot::Sender<Problem>) {
    let job = Arc::new(job);
    let ended = attend(&job, &parts).await;
    let id = job.query.id();
    let failure = match ended {
        Ok(rows) => {
            tracing::debug!(query_id = %id, rows, "query finished");
            return job.query.end(QueryState::Finished);
        }
        Err(failure) => failure,
    };
    let (state, problem) = match failure {
        Failure::Gone => (QueryState::Cancelled, None),
        Failure::Refused(problem) => (QueryState::Failed, Some(problem)),
        Failure::Query(error) => {
            let stopped = matches!(error, QueryError::Cancelled | QueryError::Timeout { .. });
            let state = if stopped { QueryState::Cancelled } else { QueryState::Failed };
            let problem = problem(&error);
            (state, Some(if job.request.grant.is_limited() { concealed(problem) } else { problem }))
        }
    };
    let code = problem.as_ref().map_or("client_gone", |problem| problem.code);
    tracing::debug!(query_id = %id, code, "query ended early");
    job.query.end(state);
    if let Some(problem) = problem {
        // The client may have left meanwhile, or have got its first rows.
        if !job.begin(Err(problem.clone())) {
            let _left = watching.send(problem);
        }
    }
}

async fn attend(job: &Arc<Job>, parts: &mpsc::Sender<Part>) -> Result<u64, Failure> {
    let cancelled = job.query.cancelled();
    let stopped = async {
        tokio::select! {
            biased;
            () = cancelled.cancelled() => Err(Failure::Query(QueryError::Cancelled)),
            () = parts.closed() => job.given.get().copied().ok_or(Failure::Gone),
        }
    };
    tokio::pin!(stopped);
    let (node, request) = (&job.node, &job.request);
    let waiting = async {
        // A place first: those who wait for data are as many at most as those who wait for a turn.
        let place = node.gate.place(&request.grant.id)?;
        let wish = (request.min.as_ref(), request.wait_ms);
        let snapshot = pin(node, wish, request.as_of.as_deref(), &request.grant).await?;
        Ok((snapshot, node.gate.turn(place).await?))
    };
    let (snapshot, turn) = tokio::select! {
        biased;
        ended = &mut stopped => return ended,
        waited = waiting => waited.map_err(Failure::Refused)?,
    };
    let timeout_ms = job.timeout_ms();
    // Dropping the set stops its task at its next step.
    let mut working = JoinSet::new();
    working.spawn_on(work(Arc::clone(job), snapshot, turn, parts.clone()), &node.threads);
    tokio::select! {
        biased;
        ended = stopped => ended,
        Some(ended) = working.join_next() => ended.unwrap_or_else(|error| {
            Err(Failure::Query(QueryError::Panicked(error.to_string())))
        }),
        () = tokio::time::sleep(Duration::from_millis(timeout_ms)) => {
            Err(Failure::Query(QueryError::Timeout { timeout_ms }))
        }
    }
}
