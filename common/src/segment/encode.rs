//! Rows into a sealed file's bytes: build batches, write Arrow IPC, add the seal.

use std::borrow::Borrow;
use std::collections::HashMap;

use arrow_array::RecordBatch;
use arrow_ipc::MetadataVersion;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions};
use arrow_schema::ArrowError;
use foldhash::fast::RandomState;

use super::build::build_batches;
use super::facts::summarize;
use super::index::{actor_hash, encode_index, event_hash};
use super::seal::{Block, BlockKind, RequestEntry, SEAL_KEY, Seal};
use super::spread::{spread, threads};
use super::{SCHEMA_VERSION, columns::EventColumns};
use crate::clock::Micros;
use crate::event::Event;
use crate::fault::Corruption;
use crate::integrity::{CompactRange, crc32};
use crate::limits::BATCH_ROWS_MAX;

/// File alignment of every buffer, bytes.
const ALIGNMENT: usize = 64;

/// One row to seal. Whoever keeps many may keep each event in a box of its own.
#[derive(Clone, Debug)]
pub struct Row<E = Event> {
    /// The event.
    pub event: E,
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
pub fn encode_segment(rows: Vec<Row>, request: &SealRequest) -> Result<Vec<u8>, Corruption> {
    encode_rows(&rows, request)
}

/// [`encode_segment`] of rows that are kept, so that a seal can be made again.
pub fn encode_rows<E: Borrow<Event> + Sync>(
    rows: &[Row<E>],
    request: &SealRequest,
) -> Result<Vec<u8>, Corruption> {
    let failed =
        |error: ArrowError| Corruption::new("encode", None, "a segment", error.to_string());
    let batches = build_batches(rows, request.shard).map_err(failed)?;
    let none = || Corruption::new("encode", None, "rows", "none");
    let schema = batches.first().ok_or_else(none)?.schema();
    let options =
        IpcWriteOptions::try_new(ALIGNMENT, false, MetadataVersion::V5).map_err(failed)?;
    let room: usize = batches.iter().map(RecordBatch::get_array_memory_size).sum();
    let file = Vec::with_capacity(room + room / 8);
    let mut writer = FileWriter::try_new_with_options(file, &schema, options).map_err(failed)?;
    for batch in &batches {
        writer.write(batch).map_err(failed)?;
    }
    let mut blocks = split_blocks(writer.get_ref())?;
    let indexes = spread(threads(), INDEXES.len(), |i| {
        id_hashes(&batches, INDEXES[i]).map(|hashes| encode_index(&hashes))
    });
    for (kind, index) in INDEXES.into_iter().zip(indexes) {
        let file = writer.get_mut();
        let offset = file.len() as u64;
        file.extend(index?);
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
    let (zones, facts) = summarize(batches)?;
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
        zones,
        facts,
        range_nodes: request.range.nodes().to_vec(),
        frontier_before: request.frontier.nodes().to_vec(),
        root_after: tree.root()?,
        requests: request.requests.clone(),
    })
}

/// The kinds of the two id indexes.
pub(super) const INDEXES: [BlockKind; 2] = [BlockKind::EventIndex, BlockKind::ActorIndex];

/// The hashes of the ids of one kind, row by row over all batches.
pub(super) fn id_hashes(
    batches: &[RecordBatch],
    kind: BlockKind,
) -> Result<Vec<Option<u32>>, Corruption> {
    let mut hashes = Vec::with_capacity(batches.iter().map(RecordBatch::num_rows).sum());
    let mut known: HashMap<&str, u32, RandomState> = HashMap::default();
    for batch in batches {
        let columns = EventColumns::new(batch)?;
        let rows = 0..columns.rows();
        match kind {
            BlockKind::EventIndex => {
                hashes.extend(rows.map(|row| Some(event_hash(&columns.event_id(row)))));
            }
            // Who acts acts often: most are known already.
            _ => hashes.extend(rows.map(|row| {
                let actor = columns.actor_id(row)?;
                Some(*known.entry(actor).or_insert_with(|| actor_hash(actor)))
            })),
        }
    }
    Ok(hashes)
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
