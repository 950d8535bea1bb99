//! Rows to groups: the codes of a row's labels, and the number of its time, are one place in a
//! table that holds the group.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{
    Array as _, ArrayRef, AsArray as _, DictionaryArray, Int32Array, TimestampMicrosecondArray,
    UInt32Array,
};
use arrow::compute::take;
use arrow::datatypes::{DataType, Int32Type, TimestampMicrosecondType};
use datafusion::common::internal_err;
use datafusion::error::Result;

/// Places of the table; beyond it places are hashed.
const TABLE_MAX: u64 = 1 << 20;
/// Groups that are held before they are given to the second stage.
const GROUPS_MAX: usize = 1 << 16;

/// Labels whose codes mean values of one dictionary.
#[derive(Debug)]
struct Labels {
    /// Where in the row of group columns.
    at: usize,
    values: ArrayRef,
}

impl Labels {
    /// The code that stands for null.
    fn null(&self) -> u64 {
        self.values.len() as u64
    }

    fn size(&self) -> u64 {
        self.null() + 1
    }
}

/// Truncated times, numbered as they come: they are few, and the same ones follow each other.
#[derive(Debug, Default)]
struct Times {
    at: usize,
    kind: Option<DataType>,
    numbers: HashMap<Option<i64>, u64>,
    values: Vec<Option<i64>>,
}

impl Times {
    fn number(&mut self, time: Option<i64>) -> u64 {
        *self.numbers.entry(time).or_insert_with(|| {
            self.values.push(time);
            self.values.len() as u64 - 1
        })
    }
}

/// The groups of a stretch of rows whose labels have the same dictionaries.
#[derive(Debug, Default)]
pub(super) struct Keys {
    labels: Vec<Labels>,
    times: Option<Times>,
    /// Place to group, plus one; 0 where there is none.
    table: Vec<u32>,
    hashed: HashMap<u64, u32>,
    /// Group to place.
    groups: Vec<u64>,
    /// Places of the batch at hand.
    places: Vec<u64>,
}

impl Keys {
    /// Groups so far.
    pub(super) fn len(&self) -> usize {
        self.groups.len()
    }

    /// Bytes that it holds.
    pub(super) fn size(&self) -> usize {
        let times = self.times.as_ref().map_or(0, |times| times.values.len());
        self.table.capacity() * 4
            + (self.groups.capacity() + self.places.capacity()) * 8
            + (self.hashed.capacity() * 16 + times * 48)
    }

    /// Whether rows with these group columns can be added to those before.
    pub(super) fn takes(&self, columns: &[ArrayRef]) -> bool {
        let same = |labels: &Labels| {
            let column = columns.get(labels.at).and_then(|column| column.as_any_dictionary_opt());
            column.is_some_and(|column| Arc::ptr_eq(column.values(), &labels.values))
        };
        self.groups.is_empty() || (self.len() < GROUPS_MAX && self.labels.iter().all(same))
    }

    /// Begins a stretch.
    fn begin(&mut self, columns: &[ArrayRef]) -> Result<()> {
        *self = Keys { places: std::mem::take(&mut self.places), ..Keys::default() };
        for (at, column) in columns.iter().enumerate() {
            if let Some(labels) = column.as_any_dictionary_opt() {
                self.labels.push(Labels { at, values: Arc::clone(labels.values()) });
            } else if self.times.is_none() {
                let kind = Some(column.data_type().clone());
                self.times = Some(Times { at, kind, ..Times::default() });
            } else {
                return internal_err!("grouped by code: two columns of times");
            }
        }
        Ok(())
    }

    /// The group of every row.
    pub(super) fn assign(&mut self, columns: &[ArrayRef], groups: &mut Vec<usize>) -> Result<()> {
        if self.groups.is_empty() {
            self.begin(columns)?;
        }
        self.place(columns)?;
        let times = self.times.as_ref().map_or(1, |times| times.values.len() as u64);
        let size = self.label_size().saturating_mul(times);
        groups.clear();
        if size <= TABLE_MAX && self.hashed.is_empty() {
            self.table.resize(size as usize, 0);
            for place in &self.places {
                let entry = &mut self.table[*place as usize];
                if *entry == 0 {
                    self.groups.push(*place);
                    *entry = self.groups.len() as u32;
                }
                groups.push(*entry as usize - 1);
            }
            return Ok(());
        }
        if self.hashed.is_empty() {
            let known = self.groups.iter().enumerate();
            self.hashed = known.map(|(group, place)| (*place, group as u32)).collect();
            self.table = Vec::new();
        }
        for place in &self.places {
            let group = *self.hashed.entry(*place).or_insert_with(|| {
                self.groups.push(*place);
                self.groups.len() as u32 - 1
            });
            groups.push(group as usize);
        }
        Ok(())
    }

    /// Places that one time has.
    fn label_size(&self) -> u64 {
        self.labels.iter().fold(1, |size, labels| size.saturating_mul(labels.size()))
    }

    /// Times are the highest digit of a place, since nobody knows how many there will be.
    fn place(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let places = &mut self.places;
        places.clear();
        let rows = columns.first().map_or(0, |column| column.len());
        match &mut self.times {
            None => places.resize(rows, 0),
            Some(times) => {
                let Some(column) = columns[times.at].as_primitive_opt::<TimestampMicrosecondType>()
                else {
                    return internal_err!("grouped by code: a time of another type");
                };
                let mut last: Option<(Option<i64>, u64)> = None;
                for row in 0..rows {
                    let time = column.is_valid(row).then(|| column.value(row));
                    let number = match last {
                        Some((before, number)) if before == time => number,
                        _ => times.number(time),
                    };
                    last = Some((time, number));
                    places.push(number);
                }
            }
        }
        for labels in &self.labels {
            let Some(column) = columns[labels.at].as_dictionary_opt::<Int32Type>() else {
                return internal_err!("grouped by code: labels of another type");
            };
            let (codes, null, size) = (column.keys(), labels.null(), labels.size());
            let code = |code: i32| u64::from(code as u32).min(null);
            if codes.null_count() == 0 {
                for (place, key) in places.iter_mut().zip(codes.values()) {
                    *place = *place * size + code(*key);
                }
            } else {
                for (place, key) in places.iter_mut().zip(codes) {
                    *place = *place * size + key.map_or(null, code);
                }
            }
        }
        Ok(())
    }

    /// The group columns of all groups, in the order of their numbers; then there are none.
    pub(super) fn take(&mut self) -> Result<Vec<ArrayRef>> {
        let mut columns: Vec<(usize, ArrayRef)> = Vec::new();
        let mut places = std::mem::take(&mut self.groups);
        for labels in self.labels.iter().rev() {
            let (null, size) = (labels.null(), labels.size());
            let digits: Vec<u64> = places.iter().map(|place| place % size).collect();
            places.iter_mut().for_each(|place| *place /= size);
            let codes = digits.iter().map(|code| (*code < null).then_some(*code as u32));
            columns.push((labels.at, label_column(&labels.values, codes.collect())?));
        }
        if let Some(times) = &self.times {
            let zone = match &times.kind {
                Some(DataType::Timestamp(_, zone)) => zone.clone(),
                _ => None,
            };
            let value = |place: &u64| times.values.get(*place as usize).copied().flatten();
            let array: TimestampMicrosecondArray = places.iter().map(value).collect();
            columns.push((times.at, Arc::new(array.with_timezone_opt(zone))));
        }
        *self = Keys { places: std::mem::take(&mut self.places), ..Keys::default() };
        columns.sort_by_key(|(at, _)| *at);
        Ok(columns.into_iter().map(|(_, column)| column).collect())
    }
}

/// Labels of few codes, with no more values than there are labels.
fn label_column(values: &ArrayRef, codes: UInt32Array) -> Result<ArrayRef> {
    if codes.len() >= values.len() {
        let keys: Int32Array = codes.iter().map(|code| code.map(|code| code as i32)).collect();
        return Ok(Arc::new(DictionaryArray::<Int32Type>::try_new(keys, Arc::clone(values))?));
    }
    let keys = codes.iter().enumerate().map(|(row, code)| code.map(|_| row as i32));
    let keys: Int32Array = keys.collect();
    // A null code names no value: any will do.
    let some: UInt32Array = codes.iter().map(|code| Some(code.unwrap_or(0))).collect();
    Ok(Arc::new(DictionaryArray::<Int32Type>::try_new(keys, take(values, &some, None)?)?))
}
