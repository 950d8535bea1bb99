//! Grouping by codes. The labels of a segment are codes of a dictionary; the engine's first stage of
//! an aggregation writes each one out as text and hashes it. Here the code is the place in a table.
//! The second stage, which puts few rows of all segments together, stays the engine's.
//!
//! Reading order: `keys` (rows to groups), `totals` (what is known of each group), `exec` (the
//! operator), and here when it takes the place of the engine's.

mod exec;
mod keys;
mod totals;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult as _, TreeNode as _};
use datafusion::error::Result;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::{ExecutionPlan, InputOrderMode};
use sealcast_common::segment::schema::label_type;

use self::exec::CodeAggregate;
use super::utc::DATE_TRUNC;

/// Labels that are grouped by together: their codes must fit into one number.
const LABELS_MAX: usize = 3;

/// Puts [`CodeAggregate`] where every group is one of labels, and of one truncated time at most.
#[derive(Debug)]
pub(super) struct GroupByCode;

impl PhysicalOptimizerRule for GroupByCode {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let replaced = plan.transform_up(|node| {
            let aggregate = node.downcast_ref::<AggregateExec>();
            Ok(match aggregate.filter(|aggregate| takes(aggregate)) {
                Some(aggregate) => {
                    let by_code: Arc<dyn ExecutionPlan> =
                        Arc::new(CodeAggregate::new(aggregate.clone()));
                    Transformed::yes(by_code)
                }
                None => Transformed::no(node),
            })
        });
        replaced.data()
    }

    fn name(&self) -> &str {
        "group_by_code"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn takes(aggregate: &AggregateExec) -> bool {
    let group = aggregate.group_expr();
    let schema = aggregate.input().schema();
    let (mut labels, mut times) = (0, 0);
    for (expr, _) in group.expr() {
        match expr.data_type(&schema) {
            Ok(kind) if kind == label_type() => labels += 1,
            Ok(DataType::Timestamp(TimeUnit::Microsecond, _)) if is_truncated(expr) => times += 1,
            _ => return false,
        }
    }
    *aggregate.mode() == AggregateMode::Partial
        && group.is_single()
        && labels <= LABELS_MAX
        && times <= 1
        && labels + times > 0
        && aggregate.limit_options().is_none()
        && *aggregate.input_order_mode() == InputOrderMode::Linear
        && aggregate.required_input_ordering().iter().all(Option::is_none)
}

fn is_truncated(expr: &Arc<dyn PhysicalExpr>) -> bool {
    expr.downcast_ref::<ScalarFunctionExpr>().is_some_and(|call| call.name() == DATE_TRUNC)
}
