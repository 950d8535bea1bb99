//! Whether an answer can be given in parts: by each shard apart, in any order.

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::LogicalPlan;

/// True where every row of `events` gives a row or none, whatever the others are: no order, limit,
/// aggregate, join, and no query within the query. Asked of an optimized plan.
pub(super) fn is_divisible(plan: &LogicalPlan) -> bool {
    let mut scans = 0;
    let mut by_row = true;
    let walked = plan.apply_with_subqueries(|node| {
        by_row &= match node {
            LogicalPlan::TableScan(scan) => {
                scans += 1;
                scan.fetch.is_none() && scan.table_name.table() == "events"
            }
            LogicalPlan::Projection(_) | LogicalPlan::Filter(_) => true,
            LogicalPlan::SubqueryAlias(_) => true,
            _ => false,
        };
        Ok(if by_row { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    walked.is_ok() && by_row && scans == 1
}
