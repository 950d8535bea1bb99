//! What a short statement becomes when its names are replaced by what they stand for: a CTE that
//! is used twice is planned twice, a column of a subquery is written out where it is used, a cube
//! is every subset of its columns.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::common::tree_node::{TreeNode as _, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr as PlanExpr, LogicalPlan};
use datafusion::sql::sqlparser::ast::{Expr, ObjectName, Query, Visit as _, Visitor};

/// Tables of `query`, each as often as its CTEs repeat it; no more than `enough` are counted.
pub(super) fn tables(query: &Query, enough: usize) -> usize {
    let mut counter = Counter { weights: HashMap::new(), tables: 0, enough };
    // It breaks off when there are enough.
    let _broken = query.visit(&mut counter);
    counter.tables
}

struct Counter {
    /// What the CTEs that are known so far stand for.
    weights: HashMap<String, usize>,
    tables: usize,
    enough: usize,
}

impl Visitor for Counter {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        for cte in query.with.iter().flat_map(|with| &with.cte_tables) {
            let weights = self.weights.clone();
            let mut inner = Counter { weights, tables: 0, enough: self.enough };
            let broken = cte.query.visit(&mut inner);
            let name = cte.alias.name.value.to_lowercase();
            let weight = self.weights.entry(name).or_insert(0);
            *weight = inner.tables.max(*weight);
            if broken.is_break() {
                self.tables = inner.tables;
                return broken;
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        let weight = self.weights.get(&relation.to_string().trim_matches('"').to_lowercase());
        self.tables = self.tables.saturating_add(weight.copied().unwrap_or(1).max(1));
        if self.tables > self.enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// How many sets of columns a grouping expression stands for.
pub(super) fn grouping_sets(expr: &Expr) -> usize {
    match expr {
        Expr::Cube(sets) => u32::try_from(sets.len())
            .ok()
            .and_then(|n| 1_usize.checked_shl(n))
            .unwrap_or(usize::MAX),
        Expr::Rollup(sets) => sets.len() + 1,
        Expr::GroupingSets(sets) => sets.len().max(1),
        _ => 1,
    }
}

/// Nodes of the largest expression of `plan` when every column of a projection below is written
/// out. Operators that compute something end that.
pub(super) fn written_out(plan: &LogicalPlan) -> Result<u64> {
    let below = match plan {
        LogicalPlan::Projection(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Union(_)
        | LogicalPlan::Join(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::Distinct(_)
        | LogicalPlan::Unnest(_) => {
            let inputs = plan.inputs().into_iter().map(written_out);
            inputs.collect::<Result<Vec<_>>>()?.into_iter().max().unwrap_or(1)
        }
        _ => 1,
    };
    let mut largest = 1;
    plan.apply_expressions(|expr| {
        largest = largest.max(nodes(expr, below)?);
        Ok(TreeNodeRecursion::Continue)
    })?;
    // A filter's or a join's own expression is not what its columns stand for.
    Ok(if matches!(plan, LogicalPlan::Projection(_)) { largest } else { largest.max(below) })
}

fn nodes(expr: &PlanExpr, column: u64) -> Result<u64> {
    let mut found = 0_u64;
    expr.apply(|expr| {
        let weight = match expr {
            PlanExpr::Column(_) => column,
            // A list of values is long, and still nothing to think about.
            PlanExpr::Literal(..) => 0,
            _ => 1,
        };
        found = found.saturating_add(weight);
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}
