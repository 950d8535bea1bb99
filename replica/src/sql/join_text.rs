//! `a || b || c` of texts as one flat call, so that it can be bounded like others.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray as _};
use arrow::compute::kernels::concat_elements::{concat_elements_utf8, concat_elements_utf8_many};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::DFSchema;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable as _, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl,
    Signature, Volatility,
};

/// The name in plans.
const NAME: &str = "join_text";

/// Null if one of its texts is, as the operator has it (`concat` skips them).
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct JoinText {
    signature: Signature,
}

impl JoinText {
    pub(super) fn new() -> Self {
        JoinText { signature: Signature::variadic(vec![DataType::Utf8], Volatility::Immutable) }
    }

    /// Whether both sides are plain texts; lists and views are joined elsewhere.
    pub(super) fn takes(left: &Expr, right: &Expr, schema: &DFSchema) -> bool {
        let is_text = |side: &Expr| side.get_type(schema).is_ok_and(|kind| kind == DataType::Utf8);
        is_text(left) && is_text(right)
    }

    /// The texts of both sides, those of inner joins included.
    pub(super) fn flat(left: Expr, right: Expr) -> Vec<Expr> {
        let mut texts = Vec::new();
        for side in [left, right] {
            match side {
                Expr::ScalarFunction(call) if call.func.name() == NAME => texts.extend(call.args),
                other => texts.push(other),
            }
        }
        texts
    }
}

impl ScalarUDFImpl for JoinText {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(NAME, DataType::Utf8, nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let texts: Vec<_> = arrays.iter().map(|array| array.as_string::<i32>()).collect();
        let joined = match texts.as_slice() {
            [left, right] => concat_elements_utf8(left, right)?,
            many => concat_elements_utf8_many(many)?,
        };
        let joined: ArrayRef = Arc::new(joined);
        Ok(ColumnarValue::Array(joined))
    }
}
