//! One session per query: pinned to a snapshot, with its catalog, its memory and nothing else.

use std::path::PathBuf;
use std::sync::Arc;

use datafusion::error::{DataFusionError, Result};
use datafusion::execution::context::SQLOptions;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::{FairSpillPool, TrackConsumersPool};
use datafusion::execution::object_store::{
    DefaultObjectStoreRegistry, ObjectStoreRegistry as _, ObjectStoreUrl,
};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::execution::{FunctionRegistry as _, SendableRecordBatchStream};
use datafusion::logical_expr::ScalarUDF;
use datafusion::optimizer::Analyzer;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::SessionConfig;
use parking_lot::Mutex;
use sealcast_vault::VaultSnapshot;

use super::bind::{Params, bind};
use super::bounds::check_plan;
use super::catalog::{CATALOG, EVENTS_SCHEMA, QueryCatalog};
use super::error::QueryError;
use super::rewrite::{EventIdText, UuidText};
use super::statement::parse;
use super::system::SystemSource;

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
    /// `shard:[start,end)`.
    pub fn to_text(&self) -> String {
        format!("{}:[{},{})", self.shard, self.start, self.end)
    }
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
    missing: Mutex<Vec<Missing>>,
}

impl QueryScope {
    /// A query on `snapshot`.
    pub fn new(
        snapshot: Arc<VaultSnapshot>,
        allow_partial: bool,
        system: Arc<dyn SystemSource>,
    ) -> Self {
        QueryScope { snapshot, allow_partial, system, missing: Mutex::default() }
    }

    /// What was left out, by shard and start.
    pub fn missing(&self) -> Vec<Missing> {
        let mut missing = self.missing.lock().clone();
        missing.sort_by_key(|missing| (missing.shard, missing.start));
        missing.dedup();
        missing
    }

    pub(super) fn note_missing(&self, missing: Missing) {
        self.missing.lock().push(missing);
    }
}

/// The engine: one per node.
#[derive(Debug)]
pub struct Engine {
    base: SessionState,
}

/// A planned query.
#[derive(Debug)]
pub struct Prepared {
    plan: Arc<dyn ExecutionPlan>,
    state: SessionState,
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
        let mut rules = Analyzer::new().rules;
        rules.insert(0, Arc::new(EventIdText::new()));
        let mut base = SessionStateBuilder::new()
            .with_config(config)
            .with_default_features()
            .with_runtime_env(runtime(limits)?)
            .with_analyzer_rules(rules)
            .build();
        base.register_udf(Arc::new(ScalarUDF::new_from_impl(UuidText::new())))?;
        base.register_expr_planner(Arc::new(EventIdText::new()))?;
        datafusion_functions_json::register_all(&mut base)?;
        Ok(Engine { base })
    }

    /// Parses, binds and plans `sql` for `scope`. Every refusal comes from here.
    pub async fn prepare(
        &self,
        sql: &str,
        params: Option<&Params>,
        scope: &Arc<QueryScope>,
    ) -> std::result::Result<Prepared, QueryError> {
        let marks = matches!(params, Some(Params::Positional(_))) && !sql.contains("$1");
        let statement = parse(sql, marks)?;
        let catalog = Arc::new(QueryCatalog { scope: Arc::clone(scope) });
        let state = SessionStateBuilder::new_from_existing(self.base.clone())
            .with_catalog_list(catalog)
            .build();
        let plan = state.statement_to_plan(statement).await?;
        let read_only = SQLOptions::new()
            .with_allow_ddl(false)
            .with_allow_dml(false)
            .with_allow_statements(false);
        read_only.verify_plan(&plan)?;
        check_plan(&plan)?;
        let plan = bind(plan, params)?;
        let plan = state.create_physical_plan(&plan).await?;
        Ok(Prepared { plan, state })
    }
}

impl Prepared {
    /// Starts it. Dropping the stream stops it.
    pub fn execute(&self) -> Result<SendableRecordBatchStream> {
        execute_stream(Arc::clone(&self.plan), self.state.task_ctx())
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
