//! One session per query: pinned to a snapshot, with its catalog, its memory and nothing else.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::catalog::CatalogProvider as _;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::context::SQLOptions;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::{FairSpillPool, TrackConsumersPool};
use datafusion::execution::object_store::{
    DefaultObjectStoreRegistry, ObjectStoreRegistry as _, ObjectStoreUrl,
};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::execution::{FunctionRegistry as _, SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::Analyzer;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::SessionConfig;
use datafusion::sql::parser::Statement;
use parking_lot::Mutex;
use sealcast_common::serve::access::Grant;
use sealcast_vault::{MapWatch, SegmentEntry, VaultSnapshot};
use tokio_util::sync::CancellationToken;

use super::bind::{Params, bind, places};
use super::bounded::{BoundCalls, CONSTANT_BYTES_MAX, largest_constant};
use super::bounds::check_plan;
use super::catalog::{CATALOG, EVENTS_SCHEMA, QueryCatalog};
use super::checked::checked;
use super::error::{Bound, OverBound, QueryError, SegmentUnavailable, Stale};
use super::functions;
use super::group::GroupByCode;
use super::memory::QueryPool;
use super::postgres;
use super::read::unavailable;
use super::repeatable::is_repeatable;
use super::rewrite::EventIdText;
use super::statement::parse;
use super::states::{States, task_context};
use super::stop::stoppable;
use super::system::SystemSource;

/// What the copies of one constant may take in a batch, bytes.
const CONSTANTS_BYTES: u64 = 64 * CONSTANT_BYTES_MAX;
/// What a sort sets aside for merging what it has spilled, as a part of its query's memory: the
/// engine's own 10 MiB would be more than all of a small one.
const SORT_RESERVE_PART: usize = 16;
/// Consumers that an out-of-memory message names.
const CONSUMERS_NAMED: usize = 3;

/// Why the engine cannot be set up.
#[derive(Debug, thiserror::Error)]
#[error("query engine cannot be set up: {0}")]
pub struct EngineError(#[from] DataFusionError);

/// What all queries of a node share and must not exceed.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Memory of operators, bytes.
    pub memory_bytes: usize,
    /// Of which one query may use so much.
    pub query_memory_bytes: usize,
    /// Where operators spill to.
    pub spill_dir: PathBuf,
    /// Bytes spilled at the same time.
    pub spill_bytes: u64,
    /// Partitions of one query.
    pub partitions: usize,
}

/// Rows that an `allow_partial` query went without.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The shard.
    pub shard: u16,
    /// First row.
    pub start: u64,
    /// One past the last.
    pub end: u64,
    /// Why.
    pub reason: String,
}

impl Missing {
    /// For a limited caller: that rows are missing, not which and how many.
    fn untold() -> Self {
        Missing { shard: 0, start: 0, end: 0, reason: "segment is not available".to_owned() }
    }

    /// `shard:[start,end)`.
    pub fn to_text(&self) -> String {
        if self.end == 0 {
            return "untold".to_owned();
        }
        format!("{}:[{},{})", self.shard, self.start, self.end)
    }
}

/// What one query may use.
#[derive(Clone, Copy, Debug)]
pub struct QueryLimits {
    /// Memory of its operators, bytes.
    pub memory_bytes: usize,
    /// Bytes of columns that it reads.
    pub scan_bytes: Option<u64>,
}

impl Default for QueryLimits {
    fn default() -> Self {
        QueryLimits { memory_bytes: usize::MAX, scan_bytes: None }
    }
}

/// How a statement is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// As docs/http.md has it.
    #[default]
    Own,
    /// The same, and what clients of PostgreSQL ask of its catalog.
    Postgres,
}

/// What one query sees and leaves behind.
#[derive(Debug)]
pub struct QueryScope {
    /// Pinned from the plan to the last batch.
    pub snapshot: Arc<VaultSnapshot>,
    /// Missing segments are listed instead of failing the query.
    pub allow_partial: bool,
    /// Behind the system tables.
    pub system: Arc<dyn SystemSource>,
    /// Who asks: what it may not see does not exist for this query.
    pub grant: Arc<Grant>,
    pub(super) dialect: Dialect,
    limits: QueryLimits,
    /// Cancelled when the query has ended, however it did.
    stop: CancellationToken,
    /// Events are not answered for: nobody knows how old they are.
    pub(super) stale: Option<Stale>,
    missing: Mutex<Vec<Missing>>,
    scanned_bytes: AtomicU64,
    /// Whose pages rows and intermediate results borrow.
    opened: Mutex<Vec<(Arc<SegmentEntry>, MapWatch)>>,
}

impl QueryScope {
    /// A query on `snapshot`.
    pub fn new(
        snapshot: Arc<VaultSnapshot>,
        allow_partial: bool,
        system: Arc<dyn SystemSource>,
        grant: Arc<Grant>,
    ) -> Self {
        QueryScope {
            snapshot,
            allow_partial,
            system,
            grant,
            dialect: Dialect::Own,
            limits: QueryLimits::default(),
            stop: CancellationToken::new(),
            stale: None,
            missing: Mutex::default(),
            scanned_bytes: AtomicU64::new(0),
            opened: Mutex::default(),
        }
    }

    /// The same within `limits`.
    #[must_use]
    pub fn with_limits(mut self, limits: QueryLimits) -> Self {
        self.limits = limits;
        self
    }

    /// The same, read as `dialect`.
    #[must_use]
    pub fn with_dialect(mut self, dialect: Dialect) -> Self {
        self.dialect = dialect;
        self
    }

    /// The same, ending with `stop` also where the engine does not let go.
    #[must_use]
    pub fn with_stop(mut self, stop: CancellationToken) -> Self {
        self.stop = stop;
        self
    }

    /// The same, refusing events if the snapshot is too old.
    #[must_use]
    pub fn with_stale(mut self, stale: Option<Stale>) -> Self {
        self.stale = stale;
        self
    }

    /// From now on the query reads pages of `entry`'s file.
    pub(crate) fn note_opened(&self, entry: &Arc<SegmentEntry>, watch: &MapWatch) {
        self.opened.lock().push((Arc::clone(entry), watch.clone()));
    }

    /// An error if a page that this query may have read was lost meanwhile.
    pub(crate) fn check_opened(&self) -> std::result::Result<(), SegmentUnavailable> {
        let opened = self.opened.lock();
        let lost = opened.iter().find(|(_, watch)| watch.fault().is_some());
        let Some((entry, watch)) = lost else { return Ok(()) };
        self.snapshot.check(entry, watch).map_err(|source| unavailable(entry, source))
    }

    /// Bytes of columns that were read so far.
    pub fn scanned_bytes(&self) -> u64 {
        self.scanned_bytes.load(Ordering::Relaxed)
    }

    /// Notes that `bytes` are about to be read.
    pub(crate) fn charge_scan(&self, bytes: u64) -> std::result::Result<(), OverBound> {
        let read = self.scanned_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        match self.limits.scan_bytes {
            Some(max) if read > max => Err(OverBound { bound: Bound::ScannedBytes, max }),
            _ => Ok(()),
        }
    }

    /// What was left out, by shard and start.
    pub fn missing(&self) -> Vec<Missing> {
        let mut missing = self.missing.lock().clone();
        missing.sort_by_key(|missing| (missing.shard, missing.start));
        missing.dedup();
        missing
    }

    pub(crate) fn note_missing(&self, mut missing: Missing) {
        if self.grant.is_limited() {
            missing = Missing::untold();
        }
        self.missing.lock().push(missing);
    }
}

/// The engine: one per node.
#[derive(Debug)]
pub struct Engine {
    states: Arc<States>,
    /// Sessions with PostgreSQL's functions.
    postgres: Arc<States>,
}

/// A statement that is understood, not yet a plan of operators.
#[derive(Debug)]
pub struct Planned {
    /// The statement as the parser reads it: the same for every way to write it.
    pub text: String,
    plan: LogicalPlan,
    state: SessionState,
    states: Arc<States>,
    runtime: Arc<RuntimeEnv>,
    scope: Arc<QueryScope>,
}

/// What a statement gives and takes.
#[derive(Clone, Debug)]
pub struct Outline {
    /// The columns of its answer.
    pub columns: SchemaRef,
    /// Its parameters by name (`$1`, `$name`), with the types that their places need, where the
    /// places say.
    pub places: Vec<(String, Option<DataType>)>,
}

/// A planned query.
#[derive(Debug)]
pub struct Prepared {
    /// The columns of the answer, as [`Planned::outline`] tells them.
    pub columns: SchemaRef,
    plan: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    scope: Arc<QueryScope>,
}

impl Engine {
    /// Sets up functions, rules and limits once; a query's session is a copy.
    pub fn new(limits: &Limits) -> std::result::Result<Self, EngineError> {
        let mut config = SessionConfig::new()
            .with_create_default_catalog_and_schema(false)
            .with_default_catalog_and_schema(CATALOG, EVENTS_SCHEMA)
            .with_information_schema(true)
            .with_target_partitions(limits.partitions.max(1));
        let options = config.options_mut();
        options.sql_parser.collect_spans = true;
        options.sql_parser.map_string_types_to_utf8view = false;
        // Unsound in DataFusion 55.2: while one of several bounds is still null, the filter is made of
        // the others alone, and `max(a), max(b)` loses rows.
        options.optimizer.enable_aggregate_dynamic_filter_pushdown = false;
        let reserve = &mut options.execution.sort_spill_reservation_bytes;
        *reserve = (*reserve).min(limits.query_memory_bytes / SORT_RESERVE_PART);
        let mut rules = Analyzer::new().rules;
        rules.insert(0, Arc::new(EventIdText::new()));
        rules.push(Arc::new(BoundCalls));
        let mut base = SessionStateBuilder::new()
            .with_config(config)
            .with_default_features()
            .with_runtime_env(runtime(limits)?)
            .with_analyzer_rules(rules)
            .with_physical_optimizer_rule(Arc::new(GroupByCode))
            .build();
        base.register_expr_planner(Arc::new(EventIdText::new()))?;
        functions::register(&mut base)?;
        let mut more = base.clone();
        postgres::register(&mut more)?;
        Ok(Engine { states: Arc::new(States::new(base)), postgres: Arc::new(States::new(more)) })
    }

    fn states(&self, dialect: Dialect) -> &Arc<States> {
        match dialect {
            Dialect::Own => &self.states,
            Dialect::Postgres => &self.postgres,
        }
    }

    /// Memory that the operators of all queries hold, bytes.
    pub fn reserved_bytes(&self) -> usize {
        self.states.base.runtime_env().memory_pool.reserved()
    }

    /// Bytes that operators have spilled and still hold.
    pub fn spilled_bytes(&self) -> u64 {
        self.states.base.runtime_env().disk_manager.used_disk_space()
    }

    /// Parses, binds and plans `sql` for `scope`. Every refusal comes from here.
    pub async fn prepare(
        &self,
        sql: &str,
        params: Option<&Params>,
        scope: &Arc<QueryScope>,
    ) -> std::result::Result<Prepared, QueryError> {
        self.plan(sql, params, scope).await?.compile().await
    }

    /// The first half of [`Engine::prepare`]: what is asked.
    pub async fn plan(
        &self,
        sql: &str,
        params: Option<&Params>,
        scope: &Arc<QueryScope>,
    ) -> std::result::Result<Planned, QueryError> {
        let marks = scope.dialect == Dialect::Own
            && matches!(params, Some(Params::Positional(_)))
            && !sql.contains("$1");
        let mut planned = self.open(parse(sql, marks, scope.dialect)?, scope).await?;
        planned.plan = bind(planned.plan, params)?;
        Ok(planned)
    }

    /// What `sql` gives and takes, whose parameters are not known yet. A `?` is one of them, unless
    /// that makes no sense: then it is the JSON operator.
    pub async fn outline(
        &self,
        sql: &str,
        scope: &Arc<QueryScope>,
    ) -> std::result::Result<Outline, QueryError> {
        let dialect = scope.dialect;
        let marks = dialect == Dialect::Own && sql.contains('?') && !sql.contains("$1");
        let statement = match parse(sql, marks, dialect) {
            Err(QueryError::Syntax { .. }) if marks => parse(sql, false, dialect)?,
            parsed => parsed?,
        };
        let planned = self.open(statement, scope).await?;
        let places = places(&planned.plan)?;
        if places.is_empty() {
            return planned.outline();
        }
        // What has no value yet may have no type either, and then not every rule can be applied.
        let loose = Arc::clone(planned.plan.schema().inner());
        let columns = planned.outline().map_or(loose, |outline| outline.columns);
        Ok(Outline { columns, places })
    }

    /// A plan with open places.
    async fn open(
        &self,
        statement: Statement,
        scope: &Arc<QueryScope>,
    ) -> std::result::Result<Planned, QueryError> {
        let text = statement.to_string();
        let runtime = self.share(scope);
        let states = self.states(scope.dialect);
        let state = states.take(scope)?;
        let plan = state.statement_to_plan(statement).await?;
        let read_only = SQLOptions::new()
            .with_allow_ddl(false)
            .with_allow_dml(false)
            .with_allow_statements(false);
        read_only.verify_plan(&plan)?;
        check_plan(&plan)?;
        let (states, scope) = (Arc::clone(states), Arc::clone(scope));
        Ok(Planned { text, plan, state, states, runtime, scope })
    }

    /// The tables that a query of `scope` can name: schema, name, columns.
    pub async fn tables(
        &self,
        scope: &Arc<QueryScope>,
    ) -> Result<Vec<(String, String, SchemaRef)>> {
        let catalog = QueryCatalog { scope: Arc::clone(scope) };
        let mut tables = Vec::new();
        for schema in catalog.schema_names() {
            let Some(provider) = catalog.schema(&schema) else { continue };
            for name in provider.table_names() {
                if let Some(table) = provider.table(&name).await? {
                    tables.push((schema.clone(), name, table.schema()));
                }
            }
        }
        Ok(tables)
    }

    /// The node's disk and functions, and a bounded part of its memory.
    fn share(&self, scope: &QueryScope) -> Arc<RuntimeEnv> {
        let mut own = RuntimeEnv::clone(self.states.base.runtime_env());
        let pool = QueryPool::new(Arc::clone(&own.memory_pool), scope.limits.memory_bytes);
        own.memory_pool = Arc::new(pool);
        Arc::new(own)
    }
}

impl Planned {
    /// Whether it means the same each time that it is asked of the same snapshot.
    pub fn is_repeatable(&self) -> bool {
        is_repeatable(&self.plan).unwrap_or(false)
    }

    /// What it gives, as [`Planned::compile`] will promise it too.
    pub fn outline(self) -> std::result::Result<Outline, QueryError> {
        let plan = self.state.optimize(&self.plan)?;
        let columns = Arc::clone(plan.schema().inner());
        self.states.give_back(self.state);
        Ok(Outline { columns, places: Vec::new() })
    }

    /// The second half: how it is answered.
    pub async fn compile(mut self) -> std::result::Result<Prepared, QueryError> {
        let plan = self.state.optimize(&self.plan)?;
        let columns = Arc::clone(plan.schema().inner());
        // A constant is copied for every row of a batch: a large one makes the batches small.
        let largest = largest_constant(&plan)?;
        let copies = CONSTANTS_BYTES.checked_div(largest).unwrap_or(u64::MAX).max(1);
        let rows = usize::try_from(copies).unwrap_or(usize::MAX);
        if rows < self.state.config().batch_size() {
            let config = self.state.config().clone().with_batch_size(rows);
            *self.state.config_mut() = config;
        }
        let planner = Arc::clone(self.state.query_planner());
        let context = task_context(&self.state, &plan, self.runtime)?;
        let plan = planner.create_physical_plan(&plan, &self.state).await?;
        let plan = stoppable(plan, &self.scope.stop)?;
        self.states.give_back(self.state);
        Ok(Prepared { columns, plan, context, scope: self.scope })
    }
}

impl Prepared {
    /// Starts it. Dropping the stream stops it.
    pub fn execute(&self) -> Result<SendableRecordBatchStream> {
        let batches = execute_stream(Arc::clone(&self.plan), Arc::clone(&self.context))?;
        Ok(checked(batches, Arc::clone(&self.scope)))
    }
}

fn runtime(limits: &Limits) -> Result<Arc<RuntimeEnv>> {
    // The default registry knows the local file system: not here.
    let stores = DefaultObjectStoreRegistry::new();
    stores.deregister_store(ObjectStoreUrl::local_filesystem().as_ref())?;
    let named = std::num::NonZeroUsize::new(CONSUMERS_NAMED).unwrap_or(std::num::NonZeroUsize::MIN);
    let memory = TrackConsumersPool::new(FairSpillPool::new(limits.memory_bytes), named);
    let disk = DiskManagerBuilder::default()
        .with_mode(DiskManagerMode::Directories(vec![limits.spill_dir.clone()]))
        .with_max_temp_directory_size(limits.spill_bytes);
    RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(memory))
        .with_disk_manager_builder(disk)
        .with_object_store_registry(Arc::new(stores))
        .build_arc()
}
