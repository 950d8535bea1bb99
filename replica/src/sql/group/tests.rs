//! Groups by code, whatever the size of dictionaries, and with nulls.

use std::sync::Arc;

use arrow::array::{
    Array as _, ArrayRef, AsArray as _, DictionaryArray, Int32Array, StringArray,
    TimestampMicrosecondArray,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int32Type, TimestampMicrosecondType};

use super::keys::Keys;

fn dictionary(size: i32) -> ArrayRef {
    Arc::new((0..size).map(|value| Some(format!("v{value:06}"))).collect::<StringArray>())
}

fn labels(values: &ArrayRef, codes: Vec<Option<i32>>) -> ArrayRef {
    let keys = Int32Array::from(codes);
    Arc::new(DictionaryArray::<Int32Type>::try_new(keys, Arc::clone(values)).unwrap())
}

fn times(values: Vec<Option<i64>>) -> ArrayRef {
    Arc::new(TimestampMicrosecondArray::from(values).with_timezone("UTC"))
}

/// The group columns of every row, as text.
fn rows(columns: &[ArrayRef], pick: impl Iterator<Item = usize> + Clone) -> Vec<String> {
    let texts: Vec<ArrayRef> =
        columns.iter().map(|column| cast(column, &DataType::Utf8).unwrap()).collect();
    let text = |row: usize| {
        let cells = texts.iter().map(|text| {
            let text = text.as_string::<i32>();
            if text.is_null(row) { "null" } else { text.value(row) }
        });
        cells.collect::<Vec<_>>().join("|")
    };
    pick.map(text).collect()
}

/// Assigns `batches` and checks that each row's group is its own group columns.
fn check(batches: &[Vec<ArrayRef>]) -> usize {
    let (mut keys, mut all) = (Keys::default(), Vec::new());
    let (mut wanted, mut groups) = (Vec::new(), Vec::new());
    for batch in batches {
        assert!(keys.takes(batch));
        keys.assign(batch, &mut groups).unwrap();
        all.extend_from_slice(&groups);
        wanted.extend(rows(batch, 0..batch[0].len()));
    }
    let count = keys.len();
    let columns = keys.take().unwrap();
    assert!(columns.iter().all(|column| column.len() == count));
    assert_eq!(rows(&columns, all.into_iter()), wanted);
    assert_eq!(keys.len(), 0);
    count
}

#[test]
fn labels_and_times_make_groups() {
    let (few, other) = (dictionary(3), dictionary(5));
    let first = labels(&few, vec![Some(0), Some(2), None, Some(2), Some(0)]);
    let second = labels(&other, vec![Some(4), None, None, None, Some(4)]);
    let hours = times(vec![Some(0), Some(3_600_000_000), None, Some(3_600_000_000), Some(0)]);
    assert_eq!(check(&[vec![Arc::clone(&first)]]), 3);
    assert_eq!(check(&[vec![Arc::clone(&hours)]]), 3);
    let both = vec![Arc::clone(&first), Arc::clone(&second)];
    assert_eq!(check(&[both.clone(), both]), 3);
    assert_eq!(check(&[vec![Arc::clone(&hours), first, second]]), 3);
    // More times come later: groups that are known stay what they are.
    let later = times((0..5).map(|hour| Some(hour * 7)).collect());
    let column = labels(&few, vec![Some(1); 5]);
    assert_eq!(check(&[vec![Arc::clone(&column), hours], vec![column, later]]), 7);
}

#[test]
fn large_dictionaries_are_hashed() {
    let large = dictionary(3_000);
    let codes: Vec<_> = (0..5_000).map(|row| (row % 7 != 0).then_some(row % 3_000)).collect();
    let turned: Vec<_> = codes.iter().rev().copied().collect();
    let batch = vec![labels(&large, codes), labels(&large, turned)];
    let small = vec![labels(&large, vec![Some(1)]), labels(&large, vec![None])];
    assert!(check(&[batch, small]) > 2_000);
}

#[test]
fn another_dictionary_begins_anew() {
    let (one, other) = (dictionary(3), dictionary(3));
    let mut keys = Keys::default();
    let mut groups = Vec::new();
    keys.assign(&[labels(&one, vec![Some(1)])], &mut groups).unwrap();
    assert!(keys.takes(&[labels(&one, vec![Some(2)])]));
    assert!(!keys.takes(&[labels(&other, vec![Some(2)])]));
    let taken = keys.take().unwrap();
    assert_eq!(rows(&taken, 0..1), ["v000001"]);
    assert!(keys.takes(&[labels(&other, vec![Some(2)])]));
    // The zone of the times stays.
    let mut keys = Keys::default();
    keys.assign(&[times(vec![Some(1)])], &mut groups).unwrap();
    let taken = keys.take().unwrap();
    let time = taken[0].as_primitive::<TimestampMicrosecondType>();
    assert_eq!(time.timezone(), Some("UTC"));
}
