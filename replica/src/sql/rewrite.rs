//! Event ids as people write them: text that is compared with `event_id` is read as a UUID, and
//! `event_id` that is cast to text is written as one.

use std::sync::Arc;

use arrow::array::{Array as _, AsArray as _, StringArray};
use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode as _};
use datafusion::common::{DFSchema, ScalarValue, plan_err};
use datafusion::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::sqlparser::ast::BinaryOperator;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable as _, LogicalPlan, Operator, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::AnalyzerRule;
use uuid::Uuid;

const UUID: DataType = DataType::FixedSizeBinary(16);

/// Runs before types are coerced, as a rule and as a planner of binary operators.
#[derive(Debug)]
pub(super) struct EventIdText {
    uuid_text: Arc<ScalarUDF>,
}

impl EventIdText {
    pub(super) fn new() -> Self {
        EventIdText { uuid_text: Arc::new(ScalarUDF::new_from_impl(UuidText::new())) }
    }

    fn rewrite(&self, expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
        match expr {
            Expr::BinaryExpr(mut binary) if is_comparison(binary.op) => {
                if !self.align_pair(&mut binary.left, &mut binary.right, schema)? {
                    return Ok(Transformed::no(Expr::BinaryExpr(binary)));
                }
                Ok(Transformed::yes(Expr::BinaryExpr(binary)))
            }
            Expr::InList(mut list) if is_uuid(&list.expr, schema) => {
                self.align(&mut list.expr, &mut list.list, schema)?;
                Ok(Transformed::yes(Expr::InList(list)))
            }
            Expr::Between(mut between) if is_uuid(&between.expr, schema) => {
                self.align(&mut between.expr, std::slice::from_mut(between.low.as_mut()), schema)?;
                self.align(&mut between.expr, std::slice::from_mut(between.high.as_mut()), schema)?;
                Ok(Transformed::yes(Expr::Between(between)))
            }
            Expr::Like(mut like) if is_uuid(&like.expr, schema) => {
                like.expr = Box::new(self.text_of(*like.expr));
                Ok(Transformed::yes(Expr::Like(like)))
            }
            Expr::Cast(cast)
                if cast.field.data_type().is_string() && is_uuid(&cast.expr, schema) =>
            {
                Ok(Transformed::yes(self.text_of(*cast.expr)))
            }
            other => Ok(Transformed::no(other)),
        }
    }

    /// Makes the sides of a comparison comparable, if just one of them is an id.
    fn align_pair(&self, left: &mut Expr, right: &mut Expr, schema: &DFSchema) -> Result<bool> {
        match (is_uuid(left, schema), is_uuid(right, schema)) {
            (true, false) => self.align(left, std::slice::from_mut(right), schema)?,
            (false, true) => self.align(right, std::slice::from_mut(left), schema)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Makes what stands opposite of an id comparable with it.
    fn align(&self, id: &mut Expr, others: &mut [Expr], schema: &DFSchema) -> Result<()> {
        for other in others.iter_mut() {
            if let Some(text) = as_text(other) {
                *other = Expr::Literal(parse(text)?, None);
            }
        }
        let is_text = |other: &Expr| other.get_type(schema).is_ok_and(|kind| kind.is_string());
        if others.iter().all(is_text) {
            let taken = std::mem::take(id);
            *id = self.text_of(taken);
        }
        Ok(())
    }

    fn text_of(&self, id: Expr) -> Expr {
        self.uuid_text.call(vec![id])
    }
}

impl AnalyzerRule for EventIdText {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let rewritten = plan.transform_up_with_subqueries(|plan| {
            let schema = merge_schema(&plan.inputs());
            let names = NamePreserver::new(&plan);
            plan.map_expressions(|expr| {
                let name = names.save(&expr);
                let rewritten = expr.transform_up(|expr| self.rewrite(expr, &schema))?;
                Ok(rewritten.update_data(|expr| name.restore(expr)))
            })
        });
        rewritten.map(|plan| plan.data)
    }

    fn name(&self) -> &str {
        "event_id_text"
    }
}

/// A comparison in a select list is typed while the text is planned, before any rule runs.
impl ExprPlanner for EventIdText {
    fn plan_binary_op(
        &self,
        mut expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
        if matches!(expr.op, Eq | NotEq | Lt | LtEq | Gt | GtEq) {
            self.align_pair(&mut expr.left, &mut expr.right, schema)?;
        }
        Ok(PlannerResult::Original(expr))
    }
}

fn is_comparison(op: Operator) -> bool {
    matches!(
        op,
        Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq
            | Operator::IsDistinctFrom
            | Operator::IsNotDistinctFrom
    )
}

fn is_uuid(expr: &Expr, schema: &DFSchema) -> bool {
    !matches!(expr, Expr::Literal(..)) && expr.get_type(schema).is_ok_and(|kind| kind == UUID)
}

/// The text of a literal; `None` for anything else.
fn as_text(expr: &Expr) -> Option<Option<&str>> {
    match expr {
        Expr::Literal(value, _) => value.try_as_str(),
        _ => None,
    }
}

/// A text as the value of an id.
fn parse(text: Option<&str>) -> Result<ScalarValue> {
    let Some(text) = text else { return Ok(ScalarValue::FixedSizeBinary(16, None)) };
    match Uuid::try_parse(text) {
        Ok(id) => Ok(ScalarValue::FixedSizeBinary(16, Some(id.as_bytes().to_vec()))),
        Err(_) => {
            let shown: String = text.chars().take(64).collect();
            plan_err!(
                "event_id is compared with {shown:?}, which is not a uuid; expected such as '018f3c5e-7a1b-7c2d-9e3f-0123456789ab'"
            )
        }
    }
}

/// `uuid_text(event_id)`: 16 bytes as the 36 characters that people read.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct UuidText {
    signature: Signature,
}

impl UuidText {
    pub(super) fn new() -> Self {
        UuidText { signature: Signature::exact(vec![UUID], Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for UuidText {
    fn name(&self) -> &str {
        "uuid_text"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let ids = arrays.first().and_then(|array| array.as_fixed_size_binary_opt());
        let Some(ids) = ids else {
            return Err(DataFusionError::Internal("uuid_text of something else".into()));
        };
        let texts: StringArray = (0..ids.len())
            .map(|row| {
                let id = ids.is_valid(row).then(|| Uuid::from_slice(ids.value(row)).ok())??;
                Some(id.to_string())
            })
            .collect();
        Ok(ColumnarValue::Array(Arc::new(texts)))
    }
}
