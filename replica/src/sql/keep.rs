//! The rows of a batch that a filter keeps. Where they follow each other, as the rows of a tenant
//! and a time do, they are borrowed from the batch instead of copied.

use std::ops::Range;

use arrow::array::{
    Array as _, AsArray as _, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array,
};
use arrow::compute::{
    SlicesIterator, filter_record_batch, prep_null_mask_filter, take_record_batch,
};
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;

/// Rows in a row that are worth a batch of their own.
const RUN_ROWS_MIN: usize = 512;

/// Where a filter holds.
pub(super) fn mask(answer: ColumnarValue, rows: usize) -> Result<BooleanArray> {
    let mask = answer.into_array(rows)?;
    let mask = mask.as_boolean();
    Ok(if mask.nulls().is_some() { prep_null_mask_filter(mask) } else { mask.clone() })
}

/// The rows of `batch` in memory of their own: whoever holds some of few is charged for no more.
pub(super) fn own(batch: &RecordBatch) -> Result<RecordBatch> {
    let rows = u32::try_from(batch.num_rows()).unwrap_or(u32::MAX);
    if batch.num_columns() == 0 {
        return Ok(batch.clone());
    }
    Ok(take_record_batch(batch, &UInt32Array::from_iter_values(0..rows))?)
}

/// The rows of `batch` where `mask`, which has no nulls, holds, in their order.
pub(super) fn keep(batch: &RecordBatch, mask: &BooleanArray) -> Result<Vec<RecordBatch>> {
    let rows = mask.true_count();
    if rows == 0 {
        return Ok(Vec::new());
    }
    if rows == batch.num_rows() {
        return Ok(vec![batch.clone()]);
    }
    if batch.num_columns() == 0 {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        return Ok(vec![RecordBatch::try_new_with_options(batch.schema(), vec![], &options)?]);
    }
    let runs = SlicesIterator::new(mask).filter(|(start, end)| end - start >= RUN_ROWS_MIN);
    let (mut kept, mut at) = (Vec::new(), 0);
    for (start, end) in runs {
        kept.extend(copied(batch, mask, at..start)?);
        kept.push(batch.slice(start, end - start));
        at = end;
    }
    kept.extend(copied(batch, mask, at..batch.num_rows())?);
    Ok(kept)
}

fn copied(
    batch: &RecordBatch,
    mask: &BooleanArray,
    rows: Range<usize>,
) -> Result<Option<RecordBatch>> {
    let mask = mask.slice(rows.start, rows.len());
    if mask.true_count() == 0 {
        return Ok(None);
    }
    Ok(Some(filter_record_batch(&batch.slice(rows.start, rows.len()), &mask)?))
}
