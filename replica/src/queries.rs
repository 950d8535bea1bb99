//! Running and recent queries: ids, states, cancellation.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use sealcast_common::clock::{Clock, Micros, Random};
use sealcast_common::serve::access::{Grant, Role};
use serde::{Serialize, Serializer};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::metrics;

/// Ended queries that are remembered.
const RECENT_MAX: usize = 256;
/// Characters of a statement that are kept.
const SQL_CHARS_MAX: usize = 2_000;

/// Where a query is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum QueryState {
    /// Waiting for its turn or for data, planning, or giving rows.
    Running,
    /// All rows were given.
    Finished,
    /// Refused, or failed on the way.
    Failed,
    /// Cancelled by a request, by its client's leaving, or by its time.
    Cancelled,
}

impl QueryState {
    /// Its name in tables and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            QueryState::Running => "running",
            QueryState::Finished => "finished",
            QueryState::Failed => "failed",
            QueryState::Cancelled => "cancelled",
        }
    }
}

/// A query as clients see it.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
pub struct QueryInfo {
    /// UUID.
    pub query_id: String,
    /// Where it is.
    pub state: QueryState,
    /// The statement, shortened.
    pub sql: String,
    /// When it came.
    #[serde(serialize_with = "rfc3339")]
    #[schema(value_type = String)]
    pub started_at: Micros,
    /// How long it has taken.
    pub elapsed_ms: u64,
    /// Rows given so far.
    pub rows: u64,
}

fn rfc3339<S: Serializer>(time: &Micros, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&time.to_rfc3339())
}

#[derive(Debug)]
struct Entry {
    id: Uuid,
    sql: String,
    /// The id of the token that asked.
    owner: String,
    started_at: Micros,
    began: Duration,
    rows: AtomicU64,
    cancel: CancellationToken,
    /// State and duration, once it has ended.
    ended: Mutex<Option<(QueryState, Duration)>>,
}

impl Entry {
    /// Its own caller, and whoever operates the node.
    fn is_seen_by(&self, viewer: &Grant) -> bool {
        viewer.has(Role::Admin) || viewer.id == self.owner
    }
}

#[derive(Debug, Default)]
struct Lists {
    running: BTreeMap<Uuid, Arc<Entry>>,
    recent: VecDeque<Arc<Entry>>,
}

/// The queries of a node.
#[derive(Debug)]
pub struct Queries {
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    lists: Mutex<Lists>,
}

/// The id is that of a running query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("query {0} is running already")]
pub struct IdTaken(pub Uuid);

impl Queries {
    pub(crate) fn new(clock: Arc<dyn Clock>, random: Arc<dyn Random>) -> Self {
        Queries { clock, random, lists: Mutex::default() }
    }

    /// A fresh id: UUIDv7, so that ids sort by time.
    fn fresh_id(&self) -> Uuid {
        let mut random = [0; 10];
        self.random.fill(&mut random);
        let millis = u64::try_from(self.clock.now().0 / 1_000).unwrap_or(0);
        uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid()
    }

    /// Registers a query, under the client's id or a fresh one.
    pub(crate) fn start(
        self: &Arc<Self>,
        id: Option<Uuid>,
        sql: &str,
        owner: &Grant,
    ) -> Result<RunningQuery, IdTaken> {
        let id = id.unwrap_or_else(|| self.fresh_id());
        let entry = Arc::new(Entry {
            id,
            sql: sql.chars().take(SQL_CHARS_MAX).collect(),
            owner: owner.id.clone(),
            started_at: self.clock.now(),
            began: self.clock.monotonic(),
            rows: AtomicU64::new(0),
            cancel: CancellationToken::new(),
            ended: Mutex::new(None),
        });
        let mut lists = self.lists.lock();
        if lists.running.contains_key(&id) {
            return Err(IdTaken(id));
        }
        lists.running.insert(id, Arc::clone(&entry));
        drop(lists);
        metrics::query_started();
        Ok(RunningQuery { entry, queries: Arc::clone(self) })
    }

    /// Those that `viewer` may see, running ones first, then the newest first.
    pub fn list(&self, viewer: &Grant) -> Vec<QueryInfo> {
        let lists = self.lists.lock();
        let entries = lists.running.values().chain(lists.recent.iter());
        let seen = entries.filter(|entry| entry.is_seen_by(viewer));
        seen.map(|entry| self.info(entry, viewer)).collect()
    }

    /// One of them.
    pub fn get(&self, id: Uuid, viewer: &Grant) -> Option<QueryInfo> {
        let lists = self.lists.lock();
        let seen = |entry: &&Arc<Entry>| entry.is_seen_by(viewer);
        let recent = || lists.recent.iter().find(|entry| entry.id == id && seen(entry));
        let found = lists.running.get(&id).filter(seen).or_else(recent);
        found.map(|entry| self.info(entry, viewer))
    }

    /// Asks a running query to stop, if `viewer` may see it.
    pub fn cancel(&self, id: Uuid, viewer: &Grant) -> Option<QueryInfo> {
        let lists = self.lists.lock();
        let entry = lists.running.get(&id).filter(|entry| entry.is_seen_by(viewer))?;
        entry.cancel.cancel();
        Some(self.info(entry, viewer))
    }

    /// A statement names what its caller knows: who operates for some tenants only is not shown it.
    fn info(&self, entry: &Entry, viewer: &Grant) -> QueryInfo {
        let told = viewer.id == entry.owner || !viewer.is_limited();
        let ended = *entry.ended.lock();
        let since = || self.clock.monotonic().saturating_sub(entry.began);
        let (state, took) = ended.unwrap_or_else(|| (QueryState::Running, since()));
        QueryInfo {
            query_id: entry.id.to_string(),
            state,
            sql: if told { entry.sql.clone() } else { String::new() },
            started_at: entry.started_at,
            elapsed_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            rows: entry.rows.load(Ordering::Relaxed),
        }
    }
}

/// A registered query; dropping it ends it, as failed if nothing was told before.
#[derive(Debug)]
pub(crate) struct RunningQuery {
    entry: Arc<Entry>,
    queries: Arc<Queries>,
}

impl RunningQuery {
    pub(crate) fn id(&self) -> Uuid {
        self.entry.id
    }

    /// Completes when somebody cancels it, and when it has ended.
    pub(crate) fn cancelled(&self) -> CancellationToken {
        self.entry.cancel.clone()
    }

    pub(crate) fn add_rows(&self, rows: usize) -> u64 {
        self.entry.rows.fetch_add(rows as u64, Ordering::Relaxed) + rows as u64
    }

    /// Notes its end; only the first one counts.
    pub(crate) fn end(&self, state: QueryState) {
        let took = self.queries.clock.monotonic().saturating_sub(self.entry.began);
        let mut ended = self.entry.ended.lock();
        if ended.is_some() {
            return;
        }
        *ended = Some((state, took));
        drop(ended);
        self.entry.cancel.cancel();
        let mut lists = self.queries.lists.lock();
        lists.running.remove(&self.entry.id);
        lists.recent.push_front(Arc::clone(&self.entry));
        lists.recent.truncate(RECENT_MAX);
        drop(lists);
        metrics::query_ended(state, took, self.entry.rows.load(Ordering::Relaxed));
    }
}

impl Drop for RunningQuery {
    fn drop(&mut self) {
        self.end(QueryState::Failed);
    }
}
