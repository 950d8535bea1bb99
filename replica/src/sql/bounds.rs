//! Shapes of statements that the engine cannot plan in reasonable time, refused before it tries.
//!
//! Measured with DataFusion 55.2: planning time doubles with every function call that is nested in
//! another one (it types each argument twice), doubles with every nested `IN (SELECT …)`, and grows
//! with the cube of the tables. Planning cannot be interrupted, so that it has to be bounded.

use std::ops::ControlFlow;

use datafusion::common::tree_node::{TreeNode as _, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr as PlanExpr, LogicalPlan};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Query, Statement, TableFactor, Visit as _, Visitor,
};

use super::error::QueryError;
use super::expansion::{grouping_sets, tables, written_out};

/// Calls nested in one another, `->` and `->>` included.
const CALLS_MAX: usize = 12;
/// Queries nested in one another.
const QUERIES_MAX: usize = 12;
/// Tables, subqueries and table functions after all FROMs and JOINs together.
const TABLES_MAX: usize = 64;

/// Sets of columns that all GROUP BYs stand for, multiplied.
const GROUPING_SETS_MAX: usize = 512;
/// Nodes of an expression when the columns of subqueries are written out.
const WRITTEN_OUT_MAX: u64 = 20_000;

/// Bounds what is written.
pub(super) fn check_statement(statement: &Statement) -> Result<(), QueryError> {
    let mut depth = Depth { grouping_sets: 1, ..Depth::default() };
    match statement.visit(&mut depth) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(refusal) => Err(refusal),
    }
}

/// Where a walk over the statement is.
#[derive(Default)]
struct Depth {
    calls: usize,
    queries: usize,
    tables: usize,
    grouping_sets: usize,
}

fn count(found: &mut usize, what: &'static str, max: usize) -> ControlFlow<QueryError> {
    *found += 1;
    if *found <= max {
        return ControlFlow::Continue(());
    }
    ControlFlow::Break(QueryError::TooLarge { what, found: *found, max })
}

impl Visitor for Depth {
    type Break = QueryError;

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<QueryError> {
        if is_call(expr) {
            return count(&mut self.calls, "nested calls", CALLS_MAX);
        }
        self.grouping_sets = self.grouping_sets.saturating_mul(grouping_sets(expr));
        if self.grouping_sets > GROUPING_SETS_MAX {
            let (found, max) = (self.grouping_sets, GROUPING_SETS_MAX);
            return ControlFlow::Break(QueryError::TooLarge { what: "grouping sets", found, max });
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<QueryError> {
        self.calls -= usize::from(is_call(expr));
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<QueryError> {
        let outermost = self.queries == 0;
        count(&mut self.queries, "nested queries", QUERIES_MAX)?;
        if outermost {
            let (found, max) = (tables(query, TABLES_MAX), TABLES_MAX);
            if found > max {
                let what = "tables, counting each use of a WITH";
                return ControlFlow::Break(QueryError::TooLarge { what, found, max });
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<QueryError> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, _: &TableFactor) -> ControlFlow<QueryError> {
        count(&mut self.tables, "tables", TABLES_MAX)
    }
}

/// Whether the engine makes a function call of it.
fn is_call(expr: &Expr) -> bool {
    use BinaryOperator as Op;
    match expr {
        Expr::Function(_)
        | Expr::CompoundFieldAccess { .. }
        | Expr::JsonAccess { .. }
        | Expr::Convert { .. }
        | Expr::AtTimeZone { .. }
        | Expr::Extract { .. }
        | Expr::Ceil { .. }
        | Expr::Floor { .. }
        | Expr::Position { .. }
        | Expr::Substring { .. }
        | Expr::Trim { .. }
        | Expr::Overlay { .. } => true,
        Expr::BinaryOp { op, .. } => matches!(
            op,
            Op::Arrow
                | Op::LongArrow
                | Op::HashArrow
                | Op::HashLongArrow
                | Op::AtArrow
                | Op::ArrowAt
                | Op::Question
                | Op::QuestionAnd
                | Op::QuestionPipe
        ),
        _ => false,
    }
}

/// Bounds what the optimizer can make of it: projections on projections (a chain of WITHs) become
/// one, whose calls are nested in one another.
pub(super) fn check_plan(plan: &LogicalPlan) -> Result<(), QueryError> {
    let (mut deepest, mut largest) = (0, 0);
    plan.apply_with_subqueries(|plan| {
        deepest = deepest.max(merged_calls(plan)?);
        largest = largest.max(written_out(plan)?);
        Ok(TreeNodeRecursion::Continue)
    })?;
    // The estimate adds up columns that have nothing to do with each other: some slack.
    let max = CALLS_MAX + CALLS_MAX / 2;
    if deepest > max {
        return Err(QueryError::TooLarge {
            what: "calls nested over subqueries",
            found: deepest,
            max,
        });
    }
    if largest > WRITTEN_OUT_MAX {
        let found = usize::try_from(largest).unwrap_or(usize::MAX);
        let (what, max) = ("operators over subqueries", WRITTEN_OUT_MAX as usize);
        return Err(QueryError::TooLarge { what, found, max });
    }
    Ok(())
}

/// Calls that can end up nested in one expression at `plan`.
fn merged_calls(plan: &LogicalPlan) -> Result<usize> {
    let below = match plan {
        LogicalPlan::Projection(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Union(_)
        | LogicalPlan::Join(_)
        | LogicalPlan::Unnest(_) => {
            let inputs = plan.inputs().into_iter().map(merged_calls);
            inputs.collect::<Result<Vec<_>>>()?.into_iter().max().unwrap_or(0)
        }
        _ => 0,
    };
    let mut own = 0;
    plan.apply_expressions(|expr| {
        own = own.max(nested_calls(expr)?);
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(below + own)
}

fn nested_calls(expr: &PlanExpr) -> Result<usize> {
    let mut below = 0;
    expr.apply_children(|child| {
        below = below.max(nested_calls(child)?);
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(below + usize::from(matches!(expr, PlanExpr::ScalarFunction(_))))
}
