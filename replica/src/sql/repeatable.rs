//! Whether a statement means the same each time that it is asked of the same snapshot.

use datafusion::common::tree_node::{TreeNode as _, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, Volatility};

use super::catalog::EVENTS_SCHEMA;

/// False for clocks, chance, the node's own tables, and what describes plans.
pub(super) fn is_repeatable(plan: &LogicalPlan) -> Result<bool> {
    let mut repeatable = true;
    plan.apply_with_subqueries(|node| {
        repeatable &= reads_events_only(node);
        node.apply_expressions(|expr| {
            repeatable &= !expr.exists(|expr| Ok(depends_on_more(expr)))?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(if repeatable { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(repeatable)
}

fn reads_events_only(node: &LogicalPlan) -> bool {
    match node {
        LogicalPlan::TableScan(scan) => {
            let schema = scan.table_name.schema();
            scan.table_name.table() == "events" && schema.is_none_or(|name| name == EVENTS_SCHEMA)
        }
        LogicalPlan::Explain(_) | LogicalPlan::Analyze(_) | LogicalPlan::DescribeTable(_) => false,
        LogicalPlan::Extension(_) => false,
        _ => true,
    }
}

fn depends_on_more(expr: &Expr) -> bool {
    match expr {
        Expr::ScalarFunction(call) => call.func.signature().volatility != Volatility::Immutable,
        Expr::AggregateFunction(call) => call.func.signature().volatility != Volatility::Immutable,
        Expr::ScalarVariable(..) => true,
        _ => false,
    }
}
