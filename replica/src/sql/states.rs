//! Sessions that wait for a query. To make one from nothing takes longer than to plan most queries:
//! it copies the names of some five hundred functions, several times.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::catalog::MemoryCatalogProviderList;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::context::ExecutionProps;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::session_state::SessionState;
use datafusion::execution::{FunctionRegistry as _, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use parking_lot::Mutex;

use super::catalog::{EVENTS_SCHEMA, QueryCatalog};
use super::prove::{PROOF, proof_function};
use super::session::QueryScope;

/// Sessions that are kept; more queries than that are planned at the same time on no machine.
const IDLE_MAX: usize = 64;

/// The session that all others are copies of, and copies that no query uses.
#[derive(Debug)]
pub(super) struct States {
    pub(super) base: SessionState,
    idle: Mutex<Vec<SessionState>>,
}

impl States {
    pub(super) fn new(base: SessionState) -> Self {
        States { base, idle: Mutex::default() }
    }

    /// A session for the query of `scope`, whose clock stands still from now on.
    pub(super) fn take(&self, scope: &Arc<QueryScope>) -> Result<SessionState> {
        let idle = self.idle.lock().pop();
        let mut state = idle.unwrap_or_else(|| self.base.clone());
        state.register_catalog_list(Arc::new(QueryCatalog { scope: Arc::clone(scope) }));
        state.register_udf(proof_function(scope))?;
        // What `now()` is, from the first row to the last.
        state.mark_start_execution();
        Ok(state)
    }

    /// Takes back a session, whatever its query has set, seen and pinned.
    pub(super) fn give_back(&self, mut state: SessionState) {
        state.register_catalog_list(Arc::new(MemoryCatalogProviderList::new()));
        // Kept out of the list if its function could not be taken out: it pins a snapshot.
        if state.deregister_udf(PROOF).is_err() {
            return;
        }
        *state.config_mut() = self.base.config().clone();
        *state.execution_props_mut() = ExecutionProps::new();
        let mut idle = self.idle.lock();
        if idle.len() < IDLE_MAX {
            idle.push(state);
        }
    }
}

/// What a plan needs to run.
pub(super) fn task_context(
    state: &SessionState,
    plan: &LogicalPlan,
    runtime: Arc<RuntimeEnv>,
) -> Result<Arc<TaskContext>> {
    let (id, config) = (state.session_id().to_owned(), state.config().clone());
    // Plans hold their functions themselves; the names are only there to be listed.
    let context = if reads_events_only(plan)? {
        let none = (HashMap::new(), HashMap::new(), HashMap::new(), HashMap::new());
        TaskContext::new(None, id, config, none.0, none.1, none.2, none.3, runtime)
    } else {
        let (scalar, higher) = (state.scalar_functions(), state.higher_order_functions());
        let (aggregate, window) = (state.aggregate_functions(), state.window_functions());
        let all = (scalar.clone(), higher.clone(), aggregate.clone(), window.clone());
        TaskContext::new(None, id, config, all.0, all.1, all.2, all.3, runtime)
    };
    Ok(Arc::new(context))
}

fn reads_events_only(plan: &LogicalPlan) -> Result<bool> {
    let mut only = true;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            let schema = scan.table_name.schema();
            only &= scan.table_name.table() == "events"
                && schema.is_none_or(|schema| schema == EVENTS_SCHEMA);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(only)
}
