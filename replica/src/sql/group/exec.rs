//! The operator: the first stage of an aggregation, as [`AggregateExec`] describes it.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::StreamExt as _;

use super::keys::Keys;
use super::totals::{Total, totals};

/// See the module.
#[derive(Debug)]
pub(super) struct CodeAggregate {
    aggregate: AggregateExec,
    metrics: ExecutionPlanMetricsSet,
}

impl CodeAggregate {
    pub(super) fn new(aggregate: AggregateExec) -> Self {
        CodeAggregate { aggregate, metrics: ExecutionPlanMetricsSet::new() }
    }
}

impl DisplayAs for CodeAggregate {
    fn fmt_as(&self, kind: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if kind != DisplayFormatType::TreeRender {
            write!(f, "CodeAggregate: ")?;
        }
        self.aggregate.fmt_as(kind, f)
    }
}

impl ExecutionPlan for CodeAggregate {
    fn name(&self) -> &str {
        "CodeAggregate"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.aggregate.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.aggregate.children()
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let aggregate = Arc::new(self.aggregate.clone()).replace_children(children, options)?;
        Ok(match aggregate.downcast_ref::<AggregateExec>() {
            Some(aggregate) => Arc::new(CodeAggregate::new(aggregate.clone())),
            None => aggregate,
        })
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(
            children,
            ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute),
        )
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.aggregate.apply_expressions(f)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let reservation = MemoryConsumer::new(format!("CodeAggregate[{partition}]"))
            .with_can_spill(true)
            .register(context.memory_pool());
        let group = self.aggregate.group_expr().expr().iter();
        let work = Work {
            input: Some(self.aggregate.input().execute(partition, Arc::clone(&context))?),
            output: self.aggregate.clone(),
            group: group.map(|(expr, _)| Arc::clone(expr)).collect(),
            keys: Keys::default(),
            totals: totals(&self.aggregate)?,
            groups: Vec::new(),
            ready: VecDeque::new(),
            batch_rows: context.session_config().batch_size(),
            reservation,
            metrics: BaselineMetrics::new(&self.metrics, partition),
        };
        let batches = futures::stream::try_unfold(work, async |mut work| {
            Ok(work.next().await?.map(|batch| (batch, work)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// One partition of it.
struct Work {
    /// `None` when it has ended.
    input: Option<SendableRecordBatchStream>,
    output: AggregateExec,
    group: Vec<Arc<dyn PhysicalExpr>>,
    keys: Keys,
    totals: Vec<Total>,
    /// The groups of the batch at hand.
    groups: Vec<usize>,
    ready: VecDeque<RecordBatch>,
    batch_rows: usize,
    reservation: MemoryReservation,
    metrics: BaselineMetrics,
}

impl Work {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                self.metrics.output_rows().add(batch.num_rows());
                return Ok(Some(batch));
            }
            let Some(input) = &mut self.input else { return Ok(None) };
            let batch = input.next().await.transpose()?;
            let compute = self.metrics.elapsed_compute().clone();
            let _timer = compute.timer();
            match batch {
                Some(batch) if batch.num_rows() > 0 => self.add(&batch)?,
                Some(_) => {}
                None => {
                    self.input = None;
                    self.give()?;
                }
            }
        }
    }

    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let evaluate = |expr: &Arc<dyn PhysicalExpr>| {
            expr.evaluate(batch).and_then(|value| value.into_array(batch.num_rows()))
        };
        let columns: Vec<ArrayRef> = self.group.iter().map(evaluate).collect::<Result<_>>()?;
        if !self.keys.takes(&columns) {
            self.give()?;
        }
        self.keys.assign(&columns, &mut self.groups)?;
        for total in &mut self.totals {
            total.add(batch, &self.groups, self.keys.len())?;
        }
        if self.reservation.try_resize(self.size()).is_err() {
            // What there is goes to the second stage, which can spill.
            self.give()?;
        }
        Ok(())
    }

    fn size(&self) -> usize {
        let totals: usize = self.totals.iter().map(Total::size).sum();
        self.keys.size() + totals + self.groups.capacity() * 8
    }

    /// Gives all groups to the second stage and begins anew.
    fn give(&mut self) -> Result<()> {
        let count = self.keys.len();
        if count > 0 {
            let mut columns = self.keys.take()?;
            for total in &mut self.totals {
                columns.extend(total.take(count)?);
            }
            let all = RecordBatch::try_new(self.output.schema(), columns)?;
            let pieces = (0..count).step_by(self.batch_rows.max(1));
            self.ready.extend(pieces.map(|at| all.slice(at, self.batch_rows.min(count - at))));
        }
        self.reservation.try_resize(self.size())
    }
}
