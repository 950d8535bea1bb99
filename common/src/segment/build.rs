//! Rows into record batches: labels in the order of arrival, where memory is read in a row; then
//! the order of the file; then its batches, one piece of a batch at a time.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::builder::{
    FixedSizeBinaryBuilder, ListBuilder, StringBuilder, StructBuilder, UInt8Builder,
};
use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, DictionaryArray, Int32Array, ListArray, RecordBatch, StringArray,
    TimestampMicrosecondArray, UInt16Array, UInt64Array,
};
use arrow_schema::{ArrowError, Schema};
use foldhash::fast::RandomState;

use super::encode::Row;
use super::schema::{COLUMNS, ColumnKind, field, target_fields};
use super::spread::{spread, threads};
use crate::event::Event;
use crate::limits::{BATCH_ROWS_MAX, DICTIONARY_VALUES_MAX};

/// Rows whose labels are looked at column by column, so that they stay in the processor's memory.
const BLOCK_ROWS: usize = 256;
/// The code of a missing label.
const NULL: i32 = -1;

/// A text field of an event.
type Pick = for<'e> fn(&'e Event) -> Option<&'e str>;

fn pick(name: &str) -> Option<Pick> {
    Some(match name {
        "tenant" => |event| Some(&event.tenant),
        "action" => |event| Some(&event.action),
        "category" => |event| event.category.as_deref(),
        "actor_type" => |event| event.actor_type.as_deref(),
        "actor_id" => |event| event.actor_id.as_deref(),
        "actor_name" => |event| event.actor_name.as_deref(),
        "target_type" => |event| event.targets.first()?.kind.as_deref(),
        "target_id" => |event| event.targets.first()?.id.as_deref(),
        "outcome" => |event| event.outcome.as_deref(),
        "outcome_reason" => |event| event.outcome_reason.as_deref(),
        "source_ip" => |event| event.source_ip.as_deref(),
        "user_agent" => |event| event.user_agent.as_deref(),
        "service" => |event| event.service.as_deref(),
        "request_id" => |event| event.request_id.as_deref(),
        "session_id" => |event| event.session_id.as_deref(),
        "trace_id" => |event| event.trace_id.as_deref(),
        "message" => |event| event.message.as_deref(),
        "attributes" => |event| event.attributes.as_deref(),
        _ => return None,
    })
}

/// The rows as batches in the order of the file.
pub(super) fn build_batches<E: Borrow<Event> + Sync>(
    rows: &[Row<E>],
    shard: u16,
) -> Result<Vec<RecordBatch>, ArrowError> {
    let labels = Labels::of(rows);
    let order = labels.order(rows);
    let columns = COLUMNS.map(|(name, kind, _)| (name, kind, pick(name), labels.find(name)));
    let schema = Arc::new(Schema::new(
        columns
            .iter()
            .map(|(name, kind, _, label)| {
                field(name, *kind, label.is_some_and(|label| label.values.is_none()))
            })
            .collect::<Vec<_>>(),
    ));
    let parts: Vec<&[u32]> = order.chunks(BATCH_ROWS_MAX).collect();
    // Every second column of a batch is a piece: wide and narrow ones alternate well enough.
    let mut pieces = spread(threads(), parts.len() * 2, |piece| {
        let part = Part { rows, order: parts[piece / 2], shard };
        let half = columns.iter().skip(piece % 2).step_by(2);
        half.map(|(name, kind, pick, label)| part.column(name, *kind, *pick, *label))
            .collect::<Result<Vec<_>, _>>()
    })
    .into_iter();
    let mut batches = Vec::with_capacity(parts.len());
    while let (Some(even), Some(odd)) = (pieces.next(), pieces.next()) {
        let (even, mut odd) = (even?.into_iter(), odd?.into_iter());
        let mut arrays = Vec::with_capacity(COLUMNS.len());
        for array in even {
            arrays.push(array);
            arrays.extend(odd.next());
        }
        batches.push(RecordBatch::try_new(Arc::clone(&schema), arrays)?);
    }
    Ok(batches)
}

/// The label columns, each with a code for every row in the order of arrival.
struct Labels(Vec<Label>);

struct Label {
    name: &'static str,
    codes: Vec<i32>,
    /// Sorted, so that a code compares like its value; `None` above the bound.
    values: Option<ArrayRef>,
}

impl Labels {
    fn of<E: Borrow<Event> + Sync>(rows: &[Row<E>]) -> Self {
        let names: Vec<&'static str> = COLUMNS
            .iter()
            .filter(|(_, kind, _)| *kind == ColumnKind::Label)
            .map(|(name, ..)| *name)
            .collect();
        let halves = spread(threads(), 2, |half| {
            let mut found: Vec<Coder<'_>> = names
                .iter()
                .skip(half)
                .step_by(2)
                .filter_map(|name| Some(Coder::new(name, pick(name)?, rows.len())))
                .collect();
            for block in rows.chunks(BLOCK_ROWS) {
                found.iter_mut().for_each(|coder| coder.take(block));
            }
            found.into_iter().map(Coder::finish).collect::<Vec<_>>()
        });
        Labels(halves.into_iter().flatten().collect())
    }

    fn find(&self, name: &str) -> Option<&Label> {
        self.0.iter().find(|label| label.name == name)
    }

    /// Rows by tenant, time and seq.
    fn order<E: Borrow<Event>>(&self, rows: &[Row<E>]) -> Vec<u32> {
        let tenants = self.find("tenant").map(|label| label.codes.as_slice()).unwrap_or_default();
        let mut keys: Vec<(i32, i64, u64, u32)> = rows
            .iter()
            .zip(tenants)
            .enumerate()
            .map(|(i, (row, tenant))| (*tenant, row.event.borrow().time.0, row.seq, i as u32))
            .collect();
        keys.sort_unstable();
        keys.into_iter().map(|(.., row)| row).collect()
    }
}

/// Gives codes to the values of one label.
struct Coder<'r> {
    name: &'static str,
    pick: Pick,
    known: HashMap<&'r str, i32, RandomState>,
    values: Vec<&'r str>,
    codes: Vec<i32>,
}

impl<'r> Coder<'r> {
    fn new(name: &'static str, pick: Pick, rows: usize) -> Self {
        let (known, values) = (HashMap::default(), Vec::new());
        Coder { name, pick, known, values, codes: Vec::with_capacity(rows) }
    }

    fn take<E: Borrow<Event>>(&mut self, rows: &'r [Row<E>]) {
        for row in rows {
            let code = (self.pick)(row.event.borrow()).map(|value| {
                *self.known.entry(value).or_insert_with(|| {
                    self.values.push(value);
                    (self.values.len() - 1) as i32
                })
            });
            self.codes.push(code.unwrap_or(NULL));
        }
    }

    /// Codes in the order of their values.
    fn finish(self) -> Label {
        let Coder { name, values, mut codes, .. } = self;
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_unstable_by_key(|code| values[*code]);
        let mut sorted = vec![0; values.len()];
        for (place, code) in order.iter().enumerate() {
            sorted[*code] = place as i32;
        }
        for code in &mut codes {
            *code = usize::try_from(*code).map_or(NULL, |code| sorted[code]);
        }
        let few = values.len() <= DICTIONARY_VALUES_MAX;
        let values = few.then(|| {
            let values = order.into_iter().map(|code| values[code]);
            Arc::new(StringArray::from_iter_values(values)) as ArrayRef
        });
        Label { name, codes, values }
    }
}

/// The rows of one batch.
struct Part<'r, E> {
    rows: &'r [Row<E>],
    order: &'r [u32],
    shard: u16,
}

impl<'r, E: Borrow<Event>> Part<'r, E> {
    fn rows(&self) -> impl ExactSizeIterator<Item = &'r Row<E>> {
        let rows = self.rows;
        self.order.iter().map(move |row| &rows[*row as usize])
    }

    fn events(&self) -> impl ExactSizeIterator<Item = &'r Event> {
        self.rows().map(|row| row.event.borrow())
    }

    fn column(
        &self,
        name: &str,
        kind: ColumnKind,
        pick: Option<Pick>,
        label: Option<&Label>,
    ) -> Result<ArrayRef, ArrowError> {
        if let Some(Label { codes, values: Some(values), .. }) = label {
            let codes = self.order.iter().map(|row| codes[*row as usize]);
            let keys: Int32Array = codes.map(|code| (code != NULL).then_some(code)).collect();
            return Ok(Arc::new(DictionaryArray::<Int32Type>::new(keys, Arc::clone(values))));
        }
        Ok(match kind {
            ColumnKind::Uuid => self.event_ids()?,
            ColumnKind::Label | ColumnKind::Text => self.texts(pick.unwrap_or(|_| None)),
            ColumnKind::Time => self.times(name),
            ColumnKind::Targets => Arc::new(self.targets()),
            ColumnKind::U8 => self.severities(),
            ColumnKind::U16 => Arc::new(UInt16Array::from(vec![self.shard; self.order.len()])),
            ColumnKind::U64 => {
                Arc::new(UInt64Array::from_iter_values(self.rows().map(|row| row.seq)))
            }
        })
    }

    fn texts(&self, pick: Pick) -> ArrayRef {
        let bytes = self.events().filter_map(pick).map(str::len).sum();
        let mut builder = StringBuilder::with_capacity(self.order.len(), bytes);
        for event in self.events() {
            builder.append_option(pick(event));
        }
        Arc::new(builder.finish())
    }

    fn event_ids(&self) -> Result<ArrayRef, ArrowError> {
        let mut builder = FixedSizeBinaryBuilder::with_capacity(self.order.len(), 16);
        for event in self.events() {
            builder.append_value(event.event_id)?;
        }
        Ok(Arc::new(builder.finish()))
    }

    fn severities(&self) -> ArrayRef {
        let mut builder = UInt8Builder::with_capacity(self.order.len());
        for event in self.events() {
            builder.append_option(event.severity);
        }
        Arc::new(builder.finish())
    }

    fn times(&self, name: &str) -> ArrayRef {
        let stated = name == "time";
        let times = self
            .rows()
            .map(|row| if stated { row.event.borrow().time.0 } else { row.ingested_at.0 });
        let times = TimestampMicrosecondArray::from_iter_values(times);
        Arc::new(times.with_timezone("UTC"))
    }

    fn targets(&self) -> ListArray {
        let parts = StructBuilder::from_fields(target_fields(), self.order.len());
        let mut list = ListBuilder::new(parts);
        for event in self.events() {
            for target in &event.targets {
                let parts = list.values();
                for (i, value) in [&target.kind, &target.id, &target.name].into_iter().enumerate() {
                    if let Some(builder) = parts.field_builder::<StringBuilder>(i) {
                        builder.append_option(value.as_deref());
                    }
                }
                parts.append(true);
            }
            list.append(!event.targets.is_empty());
        }
        list.finish()
    }
}
