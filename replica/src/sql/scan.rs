//! The leaf of every plan over `events`: verified segments, pruned, in partitions.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::Statistics;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::reassign_expr_columns;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::{
    Boundedness, EmissionType, ReplaceChildrenOptions,
};
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation, PushedDown,
};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
    SortOrderPushdownResult,
};
use sealcast_vault::SegmentEntry;

use super::read::{ReadMetrics, Reader, Shape, Unit};
use super::session::QueryScope;

/// A segment with fewer rows is never split over partitions.
const SPLIT_ROWS_MIN: usize = 65_536;

/// The leaf.
#[derive(Clone, Debug)]
pub(super) struct SegmentScan {
    scope: Arc<QueryScope>,
    shape: Arc<Shape>,
    /// The segments that survived planning.
    entries: Vec<Arc<SegmentEntry>>,
    partitions: Vec<Vec<Unit>>,
    statistics: Arc<Statistics>,
    limit: Option<usize>,
    descending: Option<bool>,
    dynamic: Vec<Arc<dyn PhysicalExpr>>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl SegmentScan {
    pub(super) fn new(
        scope: Arc<QueryScope>,
        shape: Shape,
        entries: Vec<Arc<SegmentEntry>>,
        statistics: Statistics,
        partitions: usize,
    ) -> Result<Self> {
        let schema: SchemaRef = Arc::new(shape.schema.project(&shape.output)?);
        let is_lookup = shape.prune.as_ref().is_some_and(|prune| prune.event_ids.is_some());
        let wanted = if is_lookup { 1 } else { partitions.max(1) };
        let mut partitions = deal(&entries, wanted);
        if shape.tenants.is_some() {
            // How many there are would tell how large segments are, with the rows of others.
            partitions.resize(wanted, Vec::new());
        }
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(partitions.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Ok(SegmentScan {
            scope,
            shape: Arc::new(shape),
            entries,
            partitions,
            statistics: Arc::new(statistics),
            limit: None,
            descending: None,
            dynamic: Vec::new(),
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// No partition gives more rows.
    #[must_use]
    pub(super) fn with_limit(mut self, limit: Option<usize>) -> Self {
        self.limit = limit;
        self
    }
}

/// Deals segments over at most `partitions` partitions: the fullest get the least; few large ones
/// are split.
fn deal(entries: &[Arc<SegmentEntry>], partitions: usize) -> Vec<Vec<Unit>> {
    let parts_of = |entry: &SegmentEntry| {
        let large = entry.descriptor.id.rows as usize >= SPLIT_ROWS_MIN;
        if large && entries.len() < partitions { partitions.div_ceil(entries.len()) } else { 1 }
    };
    let mut dealt: Vec<(u64, Vec<Unit>)> = vec![(0, Vec::new()); partitions];
    for entry in entries {
        let parts = parts_of(entry);
        for part in 0..parts {
            let unit = Unit { entry: Arc::clone(entry), part, parts };
            if let Some((rows, units)) = dealt.iter_mut().min_by_key(|(rows, _)| *rows) {
                *rows += u64::from(entry.descriptor.id.rows) / parts as u64 + 1;
                units.push(unit);
            }
        }
    }
    let mut dealt: Vec<Vec<Unit>> = dealt.into_iter().map(|(_, units)| units).collect();
    dealt.retain(|units| !units.is_empty());
    if dealt.is_empty() {
        dealt.push(Vec::new());
    }
    dealt
}

impl DisplayAs for SegmentScan {
    fn fmt_as(&self, kind: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let separator = if kind == DisplayFormatType::TreeRender { "\n" } else { ", " };
        let schema = self.properties.eq_properties.schema();
        let columns: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
        let (kept, all) = (self.entries.len(), self.scope.snapshot.segments.len());
        if kind != DisplayFormatType::TreeRender {
            write!(f, "SegmentScan: ")?;
        }
        match self.shape.tenants {
            None => write!(f, "segments={kept}/{all}{separator}")?,
            Some(_) => write!(f, "tenants=own{separator}")?,
        }
        write!(f, "columns=[{}]", columns.join(", "))?;
        if let Some(predicate) = &self.shape.predicate {
            write!(f, "{separator}filter={predicate}")?;
        }
        for filter in &self.dynamic {
            write!(f, "{separator}dynamic={filter}")?;
        }
        if let Some(descending) = self.descending {
            let order = if descending { "newest first" } else { "oldest first" };
            write!(f, "{separator}order={order}")?;
        }
        if let Some(limit) = self.limit {
            write!(f, "{separator}limit={limit}")?;
        }
        Ok(())
    }
}

impl ExecutionPlan for SegmentScan {
    fn name(&self) -> &str {
        "SegmentScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn replace_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for expr in self.shape.predicate.iter().chain(&self.dynamic) {
            if f(expr)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let mut reader = Reader::new(
            Arc::clone(&self.scope),
            Arc::clone(&self.shape),
            self.partitions.get(partition).cloned().unwrap_or_default(),
            &self.dynamic,
            ReadMetrics::new(&self.metrics, partition, self.shape.tenants.is_some()),
        )?;
        reader.descending = self.descending;
        reader.limit = self.limit;
        let batches = futures::stream::try_unfold(reader, async |mut reader| {
            Ok(reader.next().await?.map(|batch| (batch, reader)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        if args.partition().is_some() {
            return Ok(Arc::new(Statistics::new_unknown(&self.schema())));
        }
        if self.limit.is_some() || !self.dynamic.is_empty() {
            return Ok(Arc::new(self.statistics.as_ref().clone().to_inexact()));
        }
        Ok(Arc::clone(&self.statistics))
    }

    /// Takes filters that operators tighten while they run.
    fn handle_child_pushdown_result(
        &self,
        phase: FilterPushdownPhase,
        result: ChildPushdownResult,
        _: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        if phase != FilterPushdownPhase::Post || result.parent_filters.is_empty() {
            return Ok(FilterPushdownPropagation::all_unsupported(result));
        }
        let mut scan = self.clone();
        for parent in &result.parent_filters {
            let filter = reassign_expr_columns(Arc::clone(&parent.filter), &self.shape.schema)?;
            scan.dynamic.push(filter);
        }
        let taken = vec![PushedDown::Yes; result.parent_filters.len()];
        let scan: Arc<dyn ExecutionPlan> = Arc::new(scan);
        Ok(FilterPushdownPropagation::with_parent_pushdown_result(taken).with_updated_node(scan))
    }

    /// An order by time decides which segments come first, so that a top-k can stop early.
    fn try_pushdown_sort(
        &self,
        order: &[PhysicalSortExpr],
    ) -> Result<SortOrderPushdownResult<Arc<dyn ExecutionPlan>>> {
        let first = order.first();
        let Some((column, first)) =
            first.and_then(|first| Some((first.expr.downcast_ref::<Column>()?, first)))
        else {
            return Ok(SortOrderPushdownResult::Unsupported);
        };
        if column.name() != "time" {
            return Ok(SortOrderPushdownResult::Unsupported);
        }
        let descending = first.options.descending;
        let mut scan = self.clone();
        scan.descending = Some(descending);
        scan.partitions = deal_in_order(&self.entries, self.partitions.len(), descending);
        Ok(SortOrderPushdownResult::Inexact { inner: Arc::new(scan) })
    }
}

/// Round robin from the wanted end of time, so that every partition starts there.
fn deal_in_order(
    entries: &[Arc<SegmentEntry>],
    partitions: usize,
    descending: bool,
) -> Vec<Vec<Unit>> {
    let mut entries = entries.to_vec();
    if descending {
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.descriptor.time.1));
    } else {
        entries.sort_by_key(|entry| entry.descriptor.time.0);
    }
    // As many as before: the plan above counts on it.
    let parts = if entries.is_empty() { 1 } else { partitions.div_ceil(entries.len()) };
    let mut dealt = vec![Vec::new(); partitions];
    let units = entries.iter().flat_map(|entry| {
        (0..parts).map(move |part| Unit { entry: Arc::clone(entry), part, parts })
    });
    for (i, unit) in units.enumerate() {
        if let Some(units) = dealt.get_mut(i % partitions) {
            units.push(unit);
        }
    }
    dealt
}
