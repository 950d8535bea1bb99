//! The tenants of a limited caller: a filter below every statement, applied before anything that
//! the statement says is evaluated, and never to be left out.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef, AsArray as _, RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::DFSchema;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::reassign_expr_columns;
use datafusion::physical_plan::filter::batch_filter;
use datafusion::prelude::{col, lit};
use sealcast_common::segment::Seal;
use sealcast_common::segment::schema::logical_schema;

use super::prune::Prune;

/// The column that says whose a row is.
pub(super) const COLUMN: &str = "tenant";

/// See the module.
#[derive(Debug)]
pub(super) struct TenantFilter {
    names: BTreeSet<String>,
    predicate: Arc<dyn PhysicalExpr>,
    /// What it rules out.
    pub(super) prune: Prune,
}

impl TenantFilter {
    /// A filter over the columns of `schema`, one of which is the tenant.
    pub(super) fn new(
        session: &dyn Session,
        names: &BTreeSet<String>,
        schema: &SchemaRef,
    ) -> Result<Self> {
        let is_own = match names.len() {
            0 => lit(false),
            _ => col(COLUMN).in_list(names.iter().map(|name| lit(name.as_str())).collect(), false),
        };
        let predicate =
            session.create_physical_expr(is_own, &DFSchema::try_from(logical_schema())?)?;
        let predicate = reassign_expr_columns(predicate, schema)?;
        let prune = Prune::new(&predicate, schema);
        Ok(TenantFilter { names: names.clone(), predicate, prune })
    }

    /// Whether the file holds rows of these tenants only: then nothing in it is to be hidden.
    pub(super) fn owns(&self, seal: &Seal) -> bool {
        let directory = seal.facts.tenants.as_ref();
        directory.is_some_and(|runs| runs.iter().all(|run| self.names.contains(&run.tenant)))
    }

    /// The caller's own ones of `rows`. Unless the whole file is the caller's (`owned`), they are
    /// copied: an array that borrows from the file has the values of others around its own (in a
    /// dictionary, before and after a slice), where casts evaluate them and Arrow streams send them.
    pub(super) fn own_rows(&self, rows: &RecordBatch, owned: bool) -> Result<RecordBatch> {
        let found = batch_filter(rows, &self.predicate)?;
        let count = u32::try_from(found.num_rows()).unwrap_or(u32::MAX);
        if owned || count == 0 {
            return Ok(found);
        }
        let copied = take_record_batch(&found, &UInt32Array::from_iter_values(0..count))?;
        let columns = copied.columns().iter().map(without_others).collect::<Result<Vec<_>>>()?;
        // With its schema and at least one column: the tenant's.
        Ok(RecordBatch::try_new(copied.schema(), columns)?)
    }
}

/// A dictionary is copied whole; only what its rows name may stay. They are few values: through
/// text and back costs less than it seems, and leaves nothing over.
fn without_others(column: &ArrayRef) -> Result<ArrayRef> {
    let DataType::Dictionary(_, values) = column.data_type() else {
        return Ok(Arc::clone(column));
    };
    let Some(dictionary) = column.as_any_dictionary_opt() else { return Ok(Arc::clone(column)) };
    if dictionary.values().len() == dictionary.values().null_count() {
        return Ok(Arc::clone(column));
    }
    let plain = arrow::compute::cast(column, values)?;
    Ok(arrow::compute::cast(&plain, column.data_type())?)
}
