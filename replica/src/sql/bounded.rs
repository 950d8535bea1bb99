//! Functions that make much from little (`repeat`, `lpad`, `range`, `||` …): what a call would
//! make is estimated before it is made, because the engine's memory pool does not know of it.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef};
use arrow::compute::concat;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode as _};
use datafusion::common::{ScalarValue, exec_err};
use datafusion::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, LogicalPlan, Operator, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature,
};
use datafusion::optimizer::AnalyzerRule;

use super::growth::{Growth, growth_of};
use super::join_text::JoinText;

/// Bytes that one call makes of one batch.
const BATCH_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Bytes that are made at one time, unless a single row needs more.
const PIECE_BYTES: u64 = 16 * 1024 * 1024;
/// Bytes of a constant: every row that shows it is a copy.
pub(super) const CONSTANT_BYTES_MAX: u64 = 1024 * 1024;
/// Steps of a call whose work is a product of its arguments' sizes, for one batch.
const WORK_MAX: u64 = 1_000_000_000;

/// Puts a bound around every call that needs one, however it came into the plan.
#[derive(Debug)]
pub(super) struct BoundCalls;

impl AnalyzerRule for BoundCalls {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let bounded = plan.transform_up_with_subqueries(|plan| {
            let schema = datafusion::logical_expr::utils::merge_schema(&plan.inputs());
            let names = NamePreserver::new(&plan);
            plan.map_expressions(|expr| {
                let name = names.save(&expr);
                let bounded = expr.transform_up(|expr| bound(expr, &schema))?;
                Ok(bounded.update_data(|expr| name.restore(expr)))
            })
        });
        bounded.map(|plan| plan.data)
    }

    fn name(&self) -> &str {
        "bound_calls"
    }
}

fn bound(expr: Expr, schema: &datafusion::common::DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::ScalarFunction(mut call) => match growth_of(call.func.name()) {
            Some(growth) => {
                call.func = bounded(Arc::clone(&call.func), growth);
                Ok(Transformed::yes(Expr::ScalarFunction(call)))
            }
            None => Ok(Transformed::no(Expr::ScalarFunction(call))),
        },
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::StringConcat, right })
            if JoinText::takes(&left, &right, schema) =>
        {
            let func = bounded(Arc::new(ScalarUDF::new_from_impl(JoinText::new())), Growth::Sum);
            Ok(Transformed::yes(func.call(JoinText::flat(*left, *right))))
        }
        other => Ok(Transformed::no(other)),
    }
}

fn bounded(inner: Arc<ScalarUDF>, growth: Growth) -> Arc<ScalarUDF> {
    if inner.inner().is::<Bounded>() {
        return inner;
    }
    Arc::new(ScalarUDF::new_from_impl(Bounded { inner, growth }))
}

/// A function with its bound.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Bounded {
    inner: Arc<ScalarUDF>,
    growth: Growth,
}

impl Bounded {
    fn refusal(&self, bytes: u64, max: u64) -> DataFusionError {
        let name = self.inner.name();
        let text = format!("{name} would make {bytes} bytes at one time; at most {max} are made");
        DataFusionError::Execution(text)
    }

    /// The rows in pieces that each make little.
    fn pieces(&self, rows: usize, weight: impl Fn(usize) -> u64) -> Result<Vec<Range<usize>>> {
        let (mut pieces, mut start, mut bytes, mut least) = (Vec::new(), 0, 0_u64, 0_u64);
        for row in 0..rows {
            let more = weight(row);
            least = least.saturating_add(self.growth.least(more));
            if more.max(least) > BATCH_BYTES_MAX {
                return Err(self.refusal(more.max(least), BATCH_BYTES_MAX));
            }
            if row > start && bytes + more > PIECE_BYTES {
                pieces.push(start..row);
                (start, bytes) = (row, 0);
            }
            bytes += more;
        }
        pieces.push(start..rows);
        Ok(pieces)
    }

    fn invoke_in_pieces(
        &self,
        args: &ScalarFunctionArgs,
        pieces: Vec<Range<usize>>,
    ) -> Result<ColumnarValue> {
        let mut made: Vec<ArrayRef> = Vec::with_capacity(pieces.len());
        let mut bytes = 0;
        for piece in pieces {
            let cut = |arg: &ColumnarValue| match arg {
                ColumnarValue::Array(array) => {
                    ColumnarValue::Array(array.slice(piece.start, piece.len()))
                }
                scalar => scalar.clone(),
            };
            let args = ScalarFunctionArgs {
                args: args.args.iter().map(cut).collect(),
                number_rows: piece.len(),
                ..args.clone()
            };
            let array = self.inner.invoke_with_args(args)?.into_array(piece.len())?;
            bytes += array.to_data().get_slice_memory_size()? as u64;
            if bytes > BATCH_BYTES_MAX {
                return Err(self.refusal(bytes, BATCH_BYTES_MAX));
            }
            made.push(array);
        }
        let made: Vec<&dyn arrow::array::Array> = made.iter().map(AsRef::as_ref).collect();
        Ok(ColumnarValue::Array(concat(&made)?))
    }
}

impl ScalarUDFImpl for Bounded {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        self.inner.schema_name(args)
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        self.inner.return_type(args)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn coerce_types(&self, args: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(args)
    }

    fn is_strict(&self) -> bool {
        self.inner.inner().is_strict()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if constant { 1 } else { args.number_rows };
        let weight = self.growth.weigher(&args.args)?;
        if self.growth.is_work() {
            let work = (0..rows).fold(0_u64, |work, row| work.saturating_add(weight(row)));
            if work > WORK_MAX {
                let name = self.inner.name();
                return exec_err!("{name} would take {work} steps at one time; at most {WORK_MAX}");
            }
            return self.inner.invoke_with_args(args);
        }
        if constant {
            let bytes = weight(0);
            if bytes > CONSTANT_BYTES_MAX {
                return Err(self.refusal(bytes, CONSTANT_BYTES_MAX));
            }
            return self.inner.invoke_with_args(args);
        }
        let pieces = self.pieces(rows, weight)?;
        if pieces.len() <= 1 {
            return self.inner.invoke_with_args(args);
        }
        self.invoke_in_pieces(&args, pieces)
    }
}

/// Bytes of the largest constant of `plan`.
pub(super) fn largest_constant(plan: &LogicalPlan) -> Result<u64> {
    use datafusion::common::tree_node::TreeNodeRecursion;
    let mut largest = 0;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let Expr::Literal(value, _) = expr {
                    largest = largest.max(ScalarValue::size(value) as u64);
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(largest)
}
