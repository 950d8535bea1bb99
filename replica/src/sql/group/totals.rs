//! What is known of each group: the engine's own accumulators, and plain numbers for `count(*)`.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray as _, BooleanArray, Int64Array, RecordBatch};
use arrow::compute::concat;
use datafusion::error::Result;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_expr::{GroupsAccumulatorAdapter, PhysicalExpr};
use datafusion::physical_plan::aggregates::{AggregateExec, aggregate_expressions};

/// Rows that are kept back for an accumulator that has one object a group: it does much for
/// each call, whatever the rows.
const KEPT_ROWS: usize = 1 << 17;

/// One aggregate over all groups.
pub(super) enum Total {
    /// `count(*)`.
    Rows(Vec<i64>),
    /// Any other.
    Engine(Engine),
}

pub(super) struct Engine {
    accumulator: Box<dyn GroupsAccumulator>,
    arguments: Vec<Arc<dyn PhysicalExpr>>,
    filter: Option<Arc<dyn PhysicalExpr>>,
    /// How many rows wait until they are given on.
    kept_max: usize,
    kept: Vec<Input>,
    kept_rows: usize,
}

/// What a batch means to an accumulator.
struct Input {
    groups: Vec<usize>,
    arguments: Vec<ArrayRef>,
    filter: Option<ArrayRef>,
}

/// All aggregates of `aggregate`.
pub(super) fn totals(aggregate: &AggregateExec) -> Result<Vec<Total>> {
    let functions = aggregate.aggr_expr();
    let groups = aggregate.group_expr().num_group_exprs();
    let arguments = aggregate_expressions(functions, aggregate.mode(), groups)?;
    let filters = aggregate.filter_expr().iter();
    functions
        .iter()
        .zip(arguments)
        .zip(filters)
        .map(|((function, arguments), filter)| {
            if filter.is_none() && counts_rows(function) {
                return Ok(Total::Rows(Vec::new()));
            }
            let native = function.groups_accumulator_supported();
            let accumulator = if native {
                function.create_groups_accumulator()?
            } else {
                let function = Arc::clone(function);
                Box::new(GroupsAccumulatorAdapter::new(move || function.create_accumulator()))
            };
            let kept_max = if native { 0 } else { KEPT_ROWS };
            let (filter, kept) = (filter.clone(), Vec::new());
            Ok(Total::Engine(Engine {
                accumulator,
                arguments,
                filter,
                kept_max,
                kept,
                kept_rows: 0,
            }))
        })
        .collect()
}

fn counts_rows(function: &AggregateFunctionExpr) -> bool {
    let is_something = |argument: &Arc<dyn PhysicalExpr>| {
        argument.downcast_ref::<Literal>().is_some_and(|literal| !literal.value().is_null())
    };
    function.fun().name() == "count"
        && !function.is_distinct()
        && function.expressions().iter().all(is_something)
}

impl Total {
    /// Adds the rows of `batch`, whose groups are given; `count` groups are known by now.
    pub(super) fn add(
        &mut self,
        batch: &RecordBatch,
        groups: &[usize],
        count: usize,
    ) -> Result<()> {
        match self {
            Total::Rows(rows) => {
                rows.resize(count, 0);
                for group in groups {
                    rows[*group] += 1;
                }
                Ok(())
            }
            Total::Engine(engine) => engine.add(batch, groups, count),
        }
    }

    /// The state of all groups; then there are none.
    pub(super) fn take(&mut self, count: usize) -> Result<Vec<ArrayRef>> {
        match self {
            Total::Rows(rows) => {
                rows.resize(count, 0);
                Ok(vec![Arc::new(Int64Array::from(std::mem::take(rows)))])
            }
            Total::Engine(engine) => {
                engine.give(count)?;
                engine.accumulator.state(EmitTo::All)
            }
        }
    }

    /// Bytes that it holds.
    pub(super) fn size(&self) -> usize {
        match self {
            Total::Rows(rows) => rows.capacity() * 8,
            Total::Engine(engine) => {
                let width = engine.arguments.len() + 1;
                engine.accumulator.size() + engine.kept_rows * width * 8
            }
        }
    }
}

impl Engine {
    fn add(&mut self, batch: &RecordBatch, groups: &[usize], count: usize) -> Result<()> {
        let evaluate = |expr: &Arc<dyn PhysicalExpr>| {
            expr.evaluate(batch).and_then(|value| value.into_array(batch.num_rows()))
        };
        let arguments = self.arguments.iter().map(evaluate).collect::<Result<Vec<_>>>()?;
        let filter = self.filter.as_ref().map(evaluate).transpose()?;
        if self.kept_max == 0 {
            let filter: Option<&BooleanArray> = filter.as_ref().map(|filter| filter.as_boolean());
            return self.accumulator.update_batch(&arguments, groups, filter, count);
        }
        self.kept_rows += groups.len();
        self.kept.push(Input { groups: groups.to_vec(), arguments, filter });
        if self.kept_rows >= self.kept_max { self.give(count) } else { Ok(()) }
    }

    /// Gives the accumulator what was kept back.
    fn give(&mut self, count: usize) -> Result<()> {
        let kept = std::mem::take(&mut self.kept);
        self.kept_rows = 0;
        if kept.is_empty() {
            return Ok(());
        }
        let groups: Vec<usize> =
            kept.iter().flat_map(|input| input.groups.iter().copied()).collect();
        let joined = |pick: &dyn Fn(&Input) -> Option<&ArrayRef>| {
            let arrays: Vec<_> = kept.iter().filter_map(pick).map(AsRef::as_ref).collect();
            if arrays.is_empty() { Ok(None) } else { concat(&arrays).map(Some) }
        };
        let mut arguments = Vec::with_capacity(self.arguments.len());
        for i in 0..self.arguments.len() {
            arguments.extend(joined(&|input| input.arguments.get(i))?);
        }
        let filter = joined(&|input| input.filter.as_ref())?;
        let filter: Option<&BooleanArray> = filter.as_ref().map(|filter| filter.as_boolean());
        self.accumulator.update_batch(&arguments, &groups, filter, count)
    }
}
