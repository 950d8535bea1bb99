//! Filters on text that look at a whole batch's bytes at once, not at one value after another:
//! `LIKE '%needle%'`, and a JSON key that must have a value, whose text is looked for before any
//! object is parsed.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef, AsArray as _, BooleanArray, RecordBatch, StringArray};
use arrow::buffer::BooleanBuffer;
use arrow::compute::filter;
use arrow::datatypes::{DataType, Schema};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, Operator};
use datafusion::physical_expr::expressions::{BinaryExpr, Column, LikeExpr, Literal};
use datafusion::physical_expr::utils::reassign_expr_columns;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};

use super::needle::rows_with;

/// What `->>` is to the engine.
const JSON_TEXT: &str = "json_as_text";

/// `filter` with faster terms where there are some. A filter takes null for false: that is used.
pub(super) fn searching(filter: Arc<dyn PhysicalExpr>, schema: &Schema) -> Arc<dyn PhysicalExpr> {
    if let Some(binary) = filter.downcast_ref::<BinaryExpr>()
        && matches!(binary.op(), Operator::And | Operator::Or)
    {
        let [left, right] =
            [binary.left(), binary.right()].map(|side| searching(Arc::clone(side), schema));
        return Arc::new(BinaryExpr::new(left, *binary.op(), right));
    }
    let search = Search::contains(&filter, schema).or_else(|| Search::json(&filter, schema));
    search.map_or(filter, |search| Arc::new(search))
}

/// How the rows that a needle points at are judged.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Verdict {
    /// All of them are meant.
    Found,
    /// None of them is.
    Missing,
    /// This filter over the text column alone decides.
    Ask(Arc<dyn PhysicalExpr>),
}

/// A filter that only holds for rows whose text has a needle.
#[derive(Debug)]
struct Search {
    /// What it stands for.
    filter: Arc<dyn PhysicalExpr>,
    column: usize,
    needle: String,
    verdict: Verdict,
}

fn literal(expr: &Arc<dyn PhysicalExpr>) -> Option<&str> {
    expr.downcast_ref::<Literal>()?.value().try_as_str().flatten().filter(|text| !text.is_empty())
}

/// The column, if it is one of plain text.
fn text_column<'a>(expr: &'a Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<&'a Column> {
    let column = expr.downcast_ref::<Column>()?;
    let field = schema.fields().get(column.index())?;
    (*field.data_type() == DataType::Utf8).then_some(column)
}

impl Search {
    /// `text LIKE '%needle%'`.
    fn contains(filter: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<Self> {
        let like = filter.downcast_ref::<LikeExpr>().filter(|like| !like.case_insensitive())?;
        let needle = literal(like.pattern())?.strip_prefix('%')?.strip_suffix('%')?;
        if needle.is_empty() || needle.contains(['%', '_', '\\']) {
            return None;
        }
        let verdict = if like.negated() { Verdict::Missing } else { Verdict::Found };
        let column = text_column(like.expr(), schema)?.index();
        Some(Search { filter: Arc::clone(filter), column, needle: needle.to_owned(), verdict })
    }

    /// `text ->> key… = value`. As long as nothing is escaped in a text, what `->>` makes of it is a
    /// part of it.
    fn json(filter: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<Self> {
        let binary = filter.downcast_ref::<BinaryExpr>().filter(|b| *b.op() == Operator::Eq)?;
        let (call, needle) = match (literal(binary.left()), literal(binary.right())) {
            (None, Some(value)) => (binary.left(), value),
            (Some(value), None) => (binary.right(), value),
            _ => return None,
        };
        let call = call.downcast_ref::<ScalarFunctionExpr>().filter(|f| f.name() == JSON_TEXT)?;
        let (text, path) = call.args().split_first()?;
        let column = text_column(text, schema)?;
        if !path.iter().all(|step| step.downcast_ref::<Literal>().is_some()) {
            return None;
        }
        let alone = schema.project(&[column.index()]).ok()?;
        let verdict = Verdict::Ask(reassign_expr_columns(Arc::clone(filter), &alone).ok()?);
        let (column, needle) = (column.index(), needle.to_owned());
        Some(Search { filter: Arc::clone(filter), column, needle, verdict })
    }

    /// The rows of `text` for which `ask` holds, which only the candidates are asked.
    fn ask(
        &self,
        ask: &Arc<dyn PhysicalExpr>,
        batch: &RecordBatch,
        text: &StringArray,
    ) -> Result<ColumnarValue> {
        let candidates = &rows_with(text, self.needle.as_bytes()) | &rows_with(text, b"\\");
        let count = candidates.count_set_bits();
        if count == 0 {
            return Ok(ColumnarValue::Scalar(ScalarValue::Boolean(Some(false))));
        }
        if count > text.len() / 2 {
            return self.filter.evaluate(batch);
        }
        let rows: Vec<usize> = candidates.set_indices().collect();
        let few = filter(text, &BooleanArray::new(candidates, None))?;
        let schema = Arc::new(batch.schema_ref().project(&[self.column])?);
        let few = RecordBatch::try_new(schema, vec![few])?;
        let answers = ask.evaluate(&few)?.into_array(count)?;
        let answers = answers.as_boolean();
        let mut found = arrow::array::BooleanBufferBuilder::new(text.len());
        found.append_n(text.len(), false);
        for (answer, row) in answers.iter().zip(rows) {
            found.set_bit(row, answer == Some(true));
        }
        Ok(boolean(found.finish(), None))
    }
}

fn boolean(values: BooleanBuffer, text: Option<&StringArray>) -> ColumnarValue {
    let nulls = text.and_then(|text| text.nulls().cloned());
    let array: ArrayRef = Arc::new(BooleanArray::new(values, nulls));
    ColumnarValue::Array(array)
}

impl fmt::Display for Search {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.filter.fmt(f)
    }
}

impl PartialEq for Search {
    fn eq(&self, other: &Self) -> bool {
        self.filter.eq(&other.filter)
    }
}

impl Eq for Search {}

impl Hash for Search {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.filter.hash(state);
    }
}

impl PhysicalExpr for Search {
    fn data_type(&self, _: &Schema) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.filter.nullable(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let Some(text) = batch.column(self.column).as_string_opt::<i32>() else {
            return self.filter.evaluate(batch);
        };
        let needle = self.needle.as_bytes();
        match &self.verdict {
            Verdict::Found => Ok(boolean(rows_with(text, needle), Some(text))),
            Verdict::Missing => Ok(boolean(!&rows_with(text, needle), Some(text))),
            Verdict::Ask(ask) => self.ask(ask, batch, text),
        }
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        Vec::new()
    }

    fn with_new_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(self)
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.filter.fmt_sql(f)
    }
}
