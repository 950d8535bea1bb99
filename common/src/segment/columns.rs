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
    #[inline(always)]
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
    tenant: TextColumn<'a>,
    action: TextColumn<'a>,
    category: TextColumn<'a>,
    actor_type: TextColumn<'a>,
    actor_id: TextColumn<'a>,
    actor_name: TextColumn<'a>,
    target_type: TextColumn<'a>,
    target_id: TextColumn<'a>,
    outcome: TextColumn<'a>,
    outcome_reason: TextColumn<'a>,
    source_ip: TextColumn<'a>,
    user_agent: TextColumn<'a>,
    service: TextColumn<'a>,
    request_id: TextColumn<'a>,
    session_id: TextColumn<'a>,
    trace_id: TextColumn<'a>,
    message: TextColumn<'a>,
    attributes: TextColumn<'a>,
}

impl<'a> EventColumns<'a> {
    /// Finds every column by name and type.
    pub fn new(batch: &'a RecordBatch) -> Result<Self, Corruption> {
        let targets = typed(batch, "targets", |array| array.as_list_opt::<i32>())?;
        let wrong = || Corruption::new("schema", None, "targets of type, id, name", "other fields");
        let parts = targets.values().as_struct_opt().ok_or_else(wrong)?;
        let part = |i: usize| {
            parts.columns().get(i).and_then(|a| a.as_string_opt::<i32>()).ok_or_else(wrong)
        };
        let text = |name| typed(batch, name, TextColumn::new);
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
            tenant: text("tenant")?,
            action: text("action")?,
            category: text("category")?,
            actor_type: text("actor_type")?,
            actor_id: text("actor_id")?,
            actor_name: text("actor_name")?,
            target_type: text("target_type")?,
            target_id: text("target_id")?,
            outcome: text("outcome")?,
            outcome_reason: text("outcome_reason")?,
            source_ip: text("source_ip")?,
            user_agent: text("user_agent")?,
            service: text("service")?,
            request_id: text("request_id")?,
            session_id: text("session_id")?,
            trace_id: text("trace_id")?,
            message: text("message")?,
            attributes: text("attributes")?,
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
        self.actor_id.get(row)
    }

    /// What rows are sorted by.
    pub fn place(&self, row: usize) -> (&'a str, i64, u64) {
        (self.tenant.get(row).unwrap_or_default(), self.time.value(row), self.seq(row))
    }

    /// The flattened first target, which is not in the leaf: it must equal `targets[0]`.
    pub fn flat_target(&self, row: usize) -> (Option<&'a str>, Option<&'a str>) {
        (self.target_type.get(row), self.target_id.get(row))
    }

    /// The event at `row`.
    pub fn event(&self, row: usize) -> EventRef<'a> {
        let mut event = EventRef::default();
        self.read(row, &mut event);
        event
    }

    /// The event at `row`, in memory that is used again.
    pub(super) fn read(&self, row: usize, event: &mut EventRef<'a>) {
        let mut targets = std::mem::take(&mut event.targets);
        self.read_targets(row, &mut targets);
        *event = EventRef {
            targets,
            event_id: self.event_id(row),
            tenant: self.tenant.get(row).unwrap_or_default(),
            time: Micros(self.time.value(row)),
            action: self.action.get(row).unwrap_or_default(),
            category: self.category.get(row),
            actor_type: self.actor_type.get(row),
            actor_id: self.actor_id.get(row),
            actor_name: self.actor_name.get(row),
            outcome: self.outcome.get(row),
            outcome_reason: self.outcome_reason.get(row),
            severity: self.severity.is_valid(row).then(|| self.severity.value(row)),
            source_ip: self.source_ip.get(row),
            user_agent: self.user_agent.get(row),
            service: self.service.get(row),
            request_id: self.request_id.get(row),
            session_id: self.session_id.get(row),
            trace_id: self.trace_id.get(row),
            message: self.message.get(row),
            attributes: self.attributes.get(row),
        };
    }

    fn read_targets(&self, row: usize, targets: &mut Vec<TargetRef<'a>>) {
        targets.clear();
        if self.targets.is_null(row) {
            return;
        }
        let offsets = self.targets.value_offsets();
        let (Ok(start), Ok(end)) =
            (usize::try_from(offsets[row]), usize::try_from(offsets[row + 1]))
        else {
            return;
        };
        let get = |part: &'a StringArray, i: usize| part.is_valid(i).then(|| part.value(i));
        let [kind, id, name] = self.target_parts;
        let target = |i| TargetRef { kind: get(kind, i), id: get(id, i), name: get(name, i) };
        targets.extend((start..end).map(target));
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
