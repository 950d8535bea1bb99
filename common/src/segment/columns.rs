//! A record batch's columns as borrowed events: what re-derives leaves from durable bytes.

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Int32Type, TimestampMicrosecondType, UInt8Type, UInt16Type, UInt64Type};
use arrow_array::{Array, ArrayRef, FixedSizeBinaryArray, Int32Array, ListArray, PrimitiveArray};
use arrow_array::{RecordBatch, StringArray};

use crate::clock::Micros;
use crate::event::{EventRef, TargetRef};
use crate::fault::Corruption;

/// Text, whether stored as a dictionary or plainly.
#[derive(Clone, Copy, Debug)]
pub enum TextColumn<'a> {
    /// Codes and the segment's values.
    Dictionary(&'a Int32Array, &'a StringArray),
    /// One value a row.
    Plain(&'a StringArray),
}

impl<'a> TextColumn<'a> {
    /// Reads either form.
    pub fn new(array: &'a ArrayRef) -> Option<Self> {
        if let Some(plain) = array.as_string_opt::<i32>() {
            return Some(TextColumn::Plain(plain));
        }
        let dictionary = array.as_dictionary_opt::<Int32Type>()?;
        let values = dictionary.values().as_string_opt::<i32>()?;
        Some(TextColumn::Dictionary(dictionary.keys(), values))
    }

    /// The value at `row`.
    #[inline]
    pub fn get(&self, row: usize) -> Option<&'a str> {
        match self {
            TextColumn::Plain(array) => array.is_valid(row).then(|| array.value(row)),
            TextColumn::Dictionary(keys, values) => {
                if keys.is_null(row) {
                    return None;
                }
                let key = usize::try_from(keys.value(row)).ok()?;
                (key < values.len() && values.is_valid(key)).then(|| values.value(key))
            }
        }
    }

    /// One past the last of the rows from `row` on that hold the same value.
    pub(super) fn run_end(&self, row: usize) -> usize {
        let same = |other: &usize| match self {
            TextColumn::Dictionary(keys, _) if keys.null_count() == 0 => {
                keys.value(*other) == keys.value(row)
            }
            _ => self.get(*other) == self.get(row),
        };
        let rows = match self {
            TextColumn::Plain(array) => array.len(),
            TextColumn::Dictionary(keys, _) => keys.len(),
        };
        (row + 1..rows).find(|other| !same(other)).unwrap_or(rows)
    }
}

/// The typed columns of one batch of `events`.
#[derive(Debug)]
pub struct EventColumns<'a> {
    rows: usize,
    event_id: &'a FixedSizeBinaryArray,
    time: &'a PrimitiveArray<TimestampMicrosecondType>,
    ingested_at: &'a PrimitiveArray<TimestampMicrosecondType>,
    severity: &'a PrimitiveArray<UInt8Type>,
    shard: &'a PrimitiveArray<UInt16Type>,
    seq: &'a PrimitiveArray<UInt64Type>,
    targets: &'a ListArray,
    target_parts: [&'a StringArray; 3],
    texts: Vec<TextColumn<'a>>,
}

/// The text columns in the order of [`EventColumns::texts`].
const TEXTS: [&str; 18] = [
    "tenant",
    "action",
    "category",
    "actor_type",
    "actor_id",
    "actor_name",
    "target_type",
    "target_id",
    "outcome",
    "outcome_reason",
    "source_ip",
    "user_agent",
    "service",
    "request_id",
    "session_id",
    "trace_id",
    "message",
    "attributes",
];

impl<'a> EventColumns<'a> {
    /// Finds every column by name and type.
    pub fn new(batch: &'a RecordBatch) -> Result<Self, Corruption> {
        let targets = typed(batch, "targets", |array| array.as_list_opt::<i32>())?;
        let wrong = || Corruption::new("schema", None, "targets of type, id, name", "other fields");
        let parts = targets.values().as_struct_opt().ok_or_else(wrong)?;
        let part = |i: usize| {
            parts.columns().get(i).and_then(|a| a.as_string_opt::<i32>()).ok_or_else(wrong)
        };
        Ok(EventColumns {
            rows: batch.num_rows(),
            event_id: typed(batch, "event_id", |array| array.as_fixed_size_binary_opt())?,
            time: typed(batch, "time", |array| array.as_primitive_opt())?,
            ingested_at: typed(batch, "ingested_at", |array| array.as_primitive_opt())?,
            severity: typed(batch, "severity", |array| array.as_primitive_opt())?,
            shard: typed(batch, "_shard", |array| array.as_primitive_opt())?,
            seq: typed(batch, "_seq", |array| array.as_primitive_opt())?,
            targets,
            target_parts: [part(0)?, part(1)?, part(2)?],
            texts: TEXTS
                .iter()
                .map(|name| typed(batch, name, TextColumn::new))
                .collect::<Result<_, _>>()?,
        })
    }

    /// Rows of the batch.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// `_shard`.
    pub fn shard(&self, row: usize) -> u16 {
        self.shard.value(row)
    }

    /// `_seq`.
    pub fn seq(&self, row: usize) -> u64 {
        self.seq.value(row)
    }

    /// `ingested_at`.
    pub fn ingested_at(&self, row: usize) -> Micros {
        Micros(self.ingested_at.value(row))
    }

    /// `event_id`.
    pub fn event_id(&self, row: usize) -> [u8; 16] {
        let mut event_id = [0; 16];
        event_id.copy_from_slice(self.event_id.value(row));
        event_id
    }

    /// `actor_id`.
    pub fn actor_id(&self, row: usize) -> Option<&'a str> {
        self.text(4, row)
    }

    /// What rows are sorted by.
    pub fn place(&self, row: usize) -> (&'a str, i64, u64) {
        (self.text(0, row).unwrap_or_default(), self.time.value(row), self.seq(row))
    }

    /// The flattened first target, which is not in the leaf: it must equal `targets[0]`.
    pub fn flat_target(&self, row: usize) -> (Option<&'a str>, Option<&'a str>) {
        (self.text(6, row), self.text(7, row))
    }

    fn text(&self, column: usize, row: usize) -> Option<&'a str> {
        self.texts.get(column).and_then(|text| text.get(row))
    }

    /// The event at `row`.
    pub fn event(&self, row: usize) -> EventRef<'a> {
        EventRef {
            event_id: self.event_id(row),
            tenant: self.text(0, row).unwrap_or_default(),
            time: Micros(self.time.value(row)),
            action: self.text(1, row).unwrap_or_default(),
            category: self.text(2, row),
            actor_type: self.text(3, row),
            actor_id: self.text(4, row),
            actor_name: self.text(5, row),
            targets: self.targets(row),
            outcome: self.text(8, row),
            outcome_reason: self.text(9, row),
            severity: self.severity.is_valid(row).then(|| self.severity.value(row)),
            source_ip: self.text(10, row),
            user_agent: self.text(11, row),
            service: self.text(12, row),
            request_id: self.text(13, row),
            session_id: self.text(14, row),
            trace_id: self.text(15, row),
            message: self.text(16, row),
            attributes: self.text(17, row),
        }
    }

    fn targets(&self, row: usize) -> Vec<TargetRef<'a>> {
        if self.targets.is_null(row) {
            return Vec::new();
        }
        let offsets = self.targets.value_offsets();
        let (Ok(start), Ok(end)) =
            (usize::try_from(offsets[row]), usize::try_from(offsets[row + 1]))
        else {
            return Vec::new();
        };
        let get = |part: &'a StringArray, i: usize| part.is_valid(i).then(|| part.value(i));
        let [kind, id, name] = self.target_parts;
        (start..end)
            .map(|i| TargetRef { kind: get(kind, i), id: get(id, i), name: get(name, i) })
            .collect()
    }
}

fn typed<'a, T>(
    batch: &'a RecordBatch,
    name: &str,
    cast: impl FnOnce(&'a ArrayRef) -> Option<T>,
) -> Result<T, Corruption> {
    let Some(array) = batch.column_by_name(name) else {
        return Err(Corruption::new("schema", None, format!("column {name}"), "no such column"));
    };
    cast(array).ok_or_else(|| {
        let expected = format!("column {name} of its type");
        Corruption::new("schema", None, expected, array.data_type().to_string())
    })
}
