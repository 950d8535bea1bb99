//! The one form of a row. Leaves are hashes of values: what a column can say in two ways (no
//! targets as null or as an empty list, a null struct with members) must be said in the first.

use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, RecordBatch};

use crate::fault::Corruption;

/// Refuses forms that the encoder never writes. Dictionaries are sorted sets, so that a code
/// compares like its value and no value hides behind two codes.
pub(super) fn verify_form(batches: &[RecordBatch]) -> Result<(), Corruption> {
    let mut seen: Vec<&ArrayRef> = Vec::new();
    for batch in batches {
        for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
            if let Some(dictionary) = column.as_dictionary_opt::<Int32Type>() {
                // All batches share one dictionary a column.
                let values = dictionary.values();
                if !seen.iter().any(|known| Arc::ptr_eq(known, values)) {
                    verify_dictionary(field.name(), values)?;
                    seen.push(values);
                }
            } else if let Some(list) = column.as_list_opt::<i32>() {
                let one_form = (0..list.len())
                    .all(|row| list.is_null(row) == (list.value_length(row) == 0))
                    && list.values().null_count() == 0;
                if !one_form {
                    let expected =
                        format!("{} null or with entries, none of them null", field.name());
                    return Err(Corruption::new("schema", None, expected, "another form"));
                }
            }
        }
    }
    Ok(())
}

fn verify_dictionary(name: &str, values: &ArrayRef) -> Result<(), Corruption> {
    let sorted = values.as_string_opt::<i32>().is_some_and(|values| {
        values.null_count() == 0 && (1..values.len()).all(|i| values.value(i - 1) < values.value(i))
    });
    if sorted {
        return Ok(());
    }
    let expected = format!("a dictionary of {name} with ascending values");
    Err(Corruption::new("schema", None, expected, "another order, a repetition or a null"))
}
