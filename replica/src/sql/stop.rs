//! Joins that end when their query has: a join goes through all pairs of a batch before it lets go,
//! and where none meets its condition that can take hours.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use arrow::record_batch::RecordBatch;
use datafusion::common::exec_err;
use datafusion::common::tree_node::{Transformed, TransformedResult as _, TreeNode as _};
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, HashJoinExecBuilder, NestedLoopJoinExec, NestedLoopJoinExecBuilder,
};
use tokio_util::sync::CancellationToken;

/// `plan`, whose joins fail at their next step once `stop` is cancelled. In between they give way
/// to other tasks after every few batches, where the engine has only scans do so.
pub(super) fn stoppable(
    plan: Arc<dyn ExecutionPlan>,
    stop: &CancellationToken,
) -> Result<Arc<dyn ExecutionPlan>> {
    let stopped = plan.transform_up(|node| {
        let join: Arc<dyn ExecutionPlan> = if let Some(join) = node.downcast_ref::<HashJoinExec>() {
            let filter = join.filter().map(|filter| while_asked(filter, stop));
            Arc::new(HashJoinExecBuilder::from(join).with_filter(filter).build()?)
        } else if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() {
            let filter = join.filter().map(|filter| while_asked(filter, stop));
            Arc::new(NestedLoopJoinExecBuilder::from(join).with_filter(filter).build()?)
        } else if node.downcast_ref::<CrossJoinExec>().is_some() {
            node
        } else {
            return Ok(Transformed::no(node));
        };
        Ok(Transformed::yes(Arc::new(CooperativeExec::new(join)) as Arc<dyn ExecutionPlan>))
    });
    stopped.data()
}

fn while_asked(filter: &JoinFilter, stop: &CancellationToken) -> JoinFilter {
    let (condition, stop) = (Arc::clone(filter.expression()), stop.clone());
    let indices = filter.column_indices().to_vec();
    JoinFilter::new(Arc::new(WhileAsked { condition, stop }), indices, Arc::clone(filter.schema()))
}

/// A join's condition; an error once nobody waits for the answer.
#[derive(Debug)]
struct WhileAsked {
    condition: Arc<dyn PhysicalExpr>,
    stop: CancellationToken,
}

impl PartialEq for WhileAsked {
    fn eq(&self, other: &Self) -> bool {
        self.condition.eq(&other.condition)
    }
}

impl Eq for WhileAsked {}

impl Hash for WhileAsked {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.condition.hash(state);
    }
}

impl fmt::Display for WhileAsked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.condition.fmt(f)
    }
}

impl PhysicalExpr for WhileAsked {
    fn data_type(&self, schema: &Schema) -> Result<DataType> {
        self.condition.data_type(schema)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.condition.nullable(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        if self.stop.is_cancelled() {
            return exec_err!("query has ended");
        }
        self.condition.evaluate(batch)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.condition]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let stop = self.stop.clone();
        let condition = children.pop().unwrap_or_else(|| Arc::clone(&self.condition));
        Ok(Arc::new(WhileAsked { condition, stop }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.condition.fmt_sql(f)
    }
}
