//! Rows into a sealed file's bytes: sort, build columns, write Arrow IPC, add the seal.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_array::builder::{
    FixedSizeBinaryBuilder, ListBuilder, StringBuilder, StructBuilder, UInt8Builder,
};
use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, DictionaryArray, Int32Array, RecordBatch, StringArray, TimestampMicrosecondArray,
    UInt16Array, UInt64Array,
};
use arrow_ipc::MetadataVersion;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions};
use arrow_schema::{ArrowError, Schema};

use super::facts::{BatchZone, Facts};
use super::index::{actor_hash, encode_index, event_hash};
use super::schema::{COLUMNS, ColumnKind, field, target_fields};
use super::seal::{Block, BlockKind, RequestEntry, SEAL_KEY, Seal};
use super::{SCHEMA_VERSION, columns::EventColumns};
use crate::clock::Micros;
use crate::event::Event;
use crate::fault::Corruption;
use crate::integrity::{CompactRange, crc32};
use crate::limits::{BATCH_ROWS_MAX, DICTIONARY_VALUES_MAX};

/// File alignment of every buffer, bytes.
const ALIGNMENT: usize = 64;

/// One row to seal.
#[derive(Clone, Debug)]
pub struct Row {
    /// The event.
    pub event: Event,
    /// Its leaf's index.
    pub seq: u64,
    /// When it was committed.
    pub ingested_at: Micros,
}

/// What the seal says beyond the rows.
#[derive(Clone, Debug)]
pub struct SealRequest {
    /// `<cluster>/<shard>`.
    pub origin: String,
    /// The shard.
    pub shard: u16,
    /// The tree before the rows: compact range `[0, start)`.
    pub frontier: CompactRange,
    /// The rows' compact range `[start, end)`, as the tree was built when they were appended.
    pub range: CompactRange,
    /// The greatest routing version of the rows.
    pub routing_version: u64,
    /// The clock now.
    pub sealed_at: Micros,
    /// The idempotency window of the rows' requests.
    pub requests: Vec<RequestEntry>,
}

/// Encodes `rows` (at least one, in any order) as a segment. Nothing is verified here: the sealer
/// re-reads the written file and judges it like anybody else.
pub fn encode_segment(mut rows: Vec<Row>, request: &SealRequest) -> Result<Vec<u8>, Corruption> {
    rows.sort_by(|a, b| {
        let key = |row: &Row| (row.event.time, row.seq);
        a.event.tenant.cmp(&b.event.tenant).then_with(|| key(a).cmp(&key(b)))
    });
    let failed =
        |error: ArrowError| Corruption::new("encode", None, "a segment", error.to_string());
    let all = build_batch(&rows, request.shard).map_err(failed)?;
    drop(rows);
    let batches: Vec<RecordBatch> = (0..all.num_rows())
        .step_by(BATCH_ROWS_MAX)
        .map(|at| all.slice(at, BATCH_ROWS_MAX.min(all.num_rows() - at)))
        .collect();
    let options =
        IpcWriteOptions::try_new(ALIGNMENT, false, MetadataVersion::V5).map_err(failed)?;
    let mut writer =
        FileWriter::try_new_with_options(Vec::new(), &all.schema(), options).map_err(failed)?;
    for batch in &batches {
        writer.write(batch).map_err(failed)?;
    }
    let mut blocks = split_blocks(writer.get_ref())?;
    for (kind, index) in indexes(&all)? {
        let file = writer.get_mut();
        let offset = file.len() as u64;
        file.extend(&index);
        file.resize(file.len().next_multiple_of(ALIGNMENT), 0);
        let bytes = file.get(offset as usize..).unwrap_or_default();
        blocks.push(Block { kind, offset, len: bytes.len() as u64, crc32: crc32(bytes) });
    }
    let seal = make_seal(request, &batches, blocks)?;
    writer.write_metadata(SEAL_KEY, seal.to_footer());
    writer.finish().map_err(failed)?;
    writer.into_inner().map_err(failed)
}

fn make_seal(
    request: &SealRequest,
    batches: &[RecordBatch],
    blocks: Vec<Block>,
) -> Result<Seal, Corruption> {
    let mut tree = request.frontier.clone();
    tree.merge(&request.range)?;
    Ok(Seal {
        origin: request.origin.clone(),
        shard: request.shard,
        start: request.range.begin(),
        end: request.range.end(),
        schema_version: SCHEMA_VERSION,
        routing_version: request.routing_version,
        sealed_at: request.sealed_at,
        batch_rows: BATCH_ROWS_MAX as u32,
        blocks,
        zones: batches.iter().map(BatchZone::compute).collect::<Result<_, _>>()?,
        facts: Facts::compute(batches)?,
        range_nodes: request.range.nodes().to_vec(),
        frontier_before: request.frontier.nodes().to_vec(),
        root_after: tree.root()?,
        requests: request.requests.clone(),
    })
}

/// The two id indexes over all rows, as padded block contents.
pub(super) fn indexes(all: &RecordBatch) -> Result<[(BlockKind, Vec<u8>); 2], Corruption> {
    let columns = EventColumns::new(all)?;
    let mut events = Vec::with_capacity(columns.rows());
    let mut actors = Vec::new();
    for row in 0..columns.rows() {
        let event = columns.event(row);
        events.push((event_hash(&event.event_id), row as u32));
        if let Some(actor) = event.actor_id {
            actors.push((actor_hash(actor), row as u32));
        }
    }
    Ok([
        (BlockKind::EventIndex, encode_index(events)),
        (BlockKind::ActorIndex, encode_index(actors)),
    ])
}

/// Finds the messages that the IPC writer has written so far.
pub(super) fn split_blocks(bytes: &[u8]) -> Result<Vec<Block>, Corruption> {
    let malformed =
        |at: usize| Corruption::new("encode", at as u64, "an ipc message", "other bytes");
    let mut blocks: Vec<Block> = Vec::new();
    let mut at = ALIGNMENT;
    while at < bytes.len() {
        let head = bytes.get(at..at + 8).ok_or_else(|| malformed(at))?;
        let length =
            head.get(4..8).and_then(|length| length.try_into().ok()).map(i32::from_le_bytes);
        let meta = usize::try_from(length.unwrap_or(-1)).map_err(|_| malformed(at))?;
        let message = bytes.get(at + 8..at + 8 + meta).ok_or_else(|| malformed(at))?;
        let message = arrow_ipc::root_as_message(message).map_err(|_| malformed(at))?;
        let body = usize::try_from(message.bodyLength()).map_err(|_| malformed(at))?;
        let kind = match message.header_type() {
            arrow_ipc::MessageHeader::Schema => BlockKind::Header,
            arrow_ipc::MessageHeader::DictionaryBatch => BlockKind::Dictionary,
            arrow_ipc::MessageHeader::RecordBatch => BlockKind::Batch,
            _ => return Err(malformed(at)),
        };
        let start = if kind == BlockKind::Header { 0 } else { at };
        let end = at + 8 + meta + body;
        let block = bytes.get(start..end).ok_or_else(|| malformed(at))?;
        blocks.push(Block {
            kind,
            offset: start as u64,
            len: block.len() as u64,
            crc32: crc32(block),
        });
        at = end;
    }
    Ok(blocks)
}

fn build_batch(rows: &[Row], shard: u16) -> Result<RecordBatch, ArrowError> {
    let mut fields = Vec::with_capacity(COLUMNS.len());
    let mut arrays: Vec<ArrayRef> = Vec::with_capacity(COLUMNS.len());
    for (name, kind, _) in COLUMNS {
        let array: ArrayRef = match kind {
            ColumnKind::Uuid => event_ids(rows)?,
            ColumnKind::Label => labels(rows, name),
            ColumnKind::Text => {
                Arc::new(rows.iter().map(|row| text(row, name)).collect::<StringArray>())
            }
            ColumnKind::Time => Arc::new(times(rows, name)),
            ColumnKind::Targets => Arc::new(targets(rows)),
            ColumnKind::U8 => severities(rows),
            ColumnKind::U16 => Arc::new(UInt16Array::from(vec![shard; rows.len()])),
            ColumnKind::U64 => {
                Arc::new(rows.iter().map(|row| Some(row.seq)).collect::<UInt64Array>())
            }
        };
        let plain = kind == ColumnKind::Label && array.data_type() == &arrow_schema::DataType::Utf8;
        fields.push(field(name, kind, plain));
        arrays.push(array);
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
}

fn event_ids(rows: &[Row]) -> Result<ArrayRef, ArrowError> {
    let mut builder = FixedSizeBinaryBuilder::with_capacity(rows.len(), 16);
    for row in rows {
        builder.append_value(row.event.event_id)?;
    }
    Ok(Arc::new(builder.finish()))
}

fn severities(rows: &[Row]) -> ArrayRef {
    let mut builder = UInt8Builder::with_capacity(rows.len());
    for row in rows {
        builder.append_option(row.event.severity);
    }
    Arc::new(builder.finish())
}

fn times(rows: &[Row], name: &str) -> TimestampMicrosecondArray {
    let pick = |row: &Row| if name == "time" { row.event.time.0 } else { row.ingested_at.0 };
    TimestampMicrosecondArray::from_iter_values(rows.iter().map(pick)).with_timezone("UTC")
}

fn text<'a>(row: &'a Row, name: &str) -> Option<&'a str> {
    let event = &row.event;
    let first = event.targets.first();
    match name {
        "tenant" => Some(&event.tenant),
        "action" => Some(&event.action),
        "category" => event.category.as_deref(),
        "actor_type" => event.actor_type.as_deref(),
        "actor_id" => event.actor_id.as_deref(),
        "actor_name" => event.actor_name.as_deref(),
        "target_type" => first.and_then(|target| target.kind.as_deref()),
        "target_id" => first.and_then(|target| target.id.as_deref()),
        "outcome" => event.outcome.as_deref(),
        "outcome_reason" => event.outcome_reason.as_deref(),
        "source_ip" => event.source_ip.as_deref(),
        "user_agent" => event.user_agent.as_deref(),
        "service" => event.service.as_deref(),
        "request_id" => event.request_id.as_deref(),
        "session_id" => event.session_id.as_deref(),
        "trace_id" => event.trace_id.as_deref(),
        "message" => event.message.as_deref(),
        "attributes" => event.attributes.as_deref(),
        _ => None,
    }
}

/// A dictionary whose values are sorted, so that a code compares like its value; plain text above
/// the bound.
fn labels(rows: &[Row], name: &str) -> ArrayRef {
    let distinct: BTreeSet<&str> = rows.iter().filter_map(|row| text(row, name)).collect();
    if distinct.len() > DICTIONARY_VALUES_MAX {
        return Arc::new(rows.iter().map(|row| text(row, name)).collect::<StringArray>());
    }
    let values: Vec<&str> = distinct.into_iter().collect();
    let keys: Int32Array = rows
        .iter()
        .map(|row| {
            let value = text(row, name)?;
            values.binary_search(&value).ok().and_then(|code| i32::try_from(code).ok())
        })
        .collect();
    let values: ArrayRef = Arc::new(StringArray::from_iter_values(values));
    Arc::new(DictionaryArray::<Int32Type>::new(keys, values))
}

fn targets(rows: &[Row]) -> arrow_array::ListArray {
    let parts = StructBuilder::from_fields(target_fields(), rows.len());
    let mut list = ListBuilder::new(parts);
    for row in rows {
        for target in &row.event.targets {
            let parts = list.values();
            for (i, value) in [&target.kind, &target.id, &target.name].into_iter().enumerate() {
                if let Some(builder) = parts.field_builder::<StringBuilder>(i) {
                    builder.append_option(value.as_deref());
                }
            }
            parts.append(true);
        }
        list.append(!row.event.targets.is_empty());
    }
    list.finish()
}
