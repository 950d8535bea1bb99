//! The one judge of a segment's bytes: sealer, shipper, replica and auditor all ask here.
//!
//! Cheap checks come first. Every check has a stable name (`docs/format.md` lists them); the first
//! that fails is reported with its place.

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_select::concat::concat_batches;

use super::columns::EventColumns;
use super::encode::indexes;
use super::facts::{BatchZone, Facts};
use super::form::verify_form;
use super::schema::{COLUMNS, field};
use super::seal::{Block, Seal};
use super::{SCHEMA_VERSION, SegmentView};
use crate::event::{Position, encode_leaf};
use crate::fault::{Corruption, hex};
use crate::integrity::{CompactRange, Hash, crc32, file_hash, leaf_hash, log_id, shard_origin};

/// What the verifier knows from elsewhere: a file name, a signed commit, the tree so far.
/// Everything that is `Some` is enforced; `Expectation::default()` checks the file in itself.
#[derive(Clone, Debug, Default)]
pub struct Expectation {
    /// The file's BLAKE3, or its first 16 bytes.
    pub file_hash: Option<Vec<u8>>,
    /// File length, bytes.
    pub bytes: Option<u64>,
    /// The cluster, hence the origin.
    pub cluster: Option<String>,
    /// The shard.
    pub shard: Option<u16>,
    /// `[start, end)`.
    pub range: Option<(u64, u64)>,
    /// The tree before the segment.
    pub frontier: Option<CompactRange>,
    /// Root after it.
    pub root_after: Option<Hash>,
}

/// Judges a whole segment. On success the batches have been decoded from exactly these bytes.
pub fn verify_segment(
    buffer: Buffer,
    expect: &Expectation,
) -> Result<(SegmentView, Vec<RecordBatch>), Corruption> {
    verify_bytes(buffer.as_slice(), expect)?;
    let view = SegmentView::parse(buffer)?;
    let seal = view.seal();
    for block in &seal.blocks {
        verify_block(block, view.block(block))?;
    }
    verify_identity(seal, expect)?;
    verify_schema(&view)?;
    let batches = view.decode()?;
    verify_form(&batches)?;
    verify_rows(seal, &batches)?;
    verify_tree(seal, expect)?;
    verify_summaries(&view, &batches)?;
    Ok((view, batches))
}

fn verify_bytes(bytes: &[u8], expect: &Expectation) -> Result<(), Corruption> {
    if let Some(len) = expect.bytes
        && len != bytes.len() as u64
    {
        return Err(Corruption::new("length", None, len.to_string(), bytes.len().to_string()));
    }
    if let Some(expected) = &expect.file_hash {
        let found = file_hash(bytes);
        let found = found.get(..expected.len()).unwrap_or(&found);
        if found != expected.as_slice() {
            // Localise it: the blocks' own checksums know where, if the footer still reads.
            if let Some(place) = localise(bytes) {
                return Err(place);
            }
            return Err(Corruption::new("blake3", None, hex(expected), hex(found)));
        }
    }
    Ok(())
}

/// The block whose CRC32 differs, when the seal itself can still be read.
fn localise(bytes: &[u8]) -> Option<Corruption> {
    let view = SegmentView::parse(Buffer::from(bytes)).err();
    if let Some(corruption) = view {
        return Some(corruption);
    }
    let view = SegmentView::parse(Buffer::from(bytes)).ok()?;
    view.seal().blocks.iter().find_map(|block| verify_block(block, view.block(block)).err())
}

fn verify_block(block: &Block, bytes: &[u8]) -> Result<(), Corruption> {
    let found = crc32(bytes);
    if found == block.crc32 && bytes.len() as u64 == block.len {
        return Ok(());
    }
    let expected = format!("{:08x} over {} bytes of {:?}", block.crc32, block.len, block.kind);
    Err(Corruption::new("crc32", block.offset, expected, format!("{found:08x}")))
}

fn verify_identity(seal: &Seal, expect: &Expectation) -> Result<(), Corruption> {
    if let Some(shard) = expect.shard
        && shard != seal.shard
    {
        return Err(Corruption::new("shard", None, shard.to_string(), seal.shard.to_string()));
    }
    if let Some(cluster) = &expect.cluster {
        let origin = shard_origin(cluster, seal.shard);
        if origin != seal.origin {
            return Err(Corruption::new("origin", None, origin, seal.origin.clone()));
        }
    }
    if let Some((start, end)) = expect.range
        && (start, end) != (seal.start, seal.end)
    {
        let found = format!("[{}, {})", seal.start, seal.end);
        return Err(Corruption::new("contiguity", None, format!("[{start}, {end})"), found));
    }
    if seal.schema_version > SCHEMA_VERSION {
        let expected = format!("schema version up to {SCHEMA_VERSION}; use a newer sealcast");
        return Err(Corruption::new("schema", None, expected, seal.schema_version.to_string()));
    }
    Ok(())
}

fn verify_schema(view: &SegmentView) -> Result<(), Corruption> {
    let schema = view.schema();
    let same = schema.fields().len() == COLUMNS.len()
        && schema.fields().iter().zip(COLUMNS).all(|(found, (name, kind, _))| {
            [false, true].into_iter().any(|plain| {
                let wanted = field(name, kind, plain);
                wanted.name() == found.name()
                    && wanted.data_type() == found.data_type()
                    && wanted.is_nullable() == found.is_nullable()
            })
        });
    if same {
        return Ok(());
    }
    let found = schema.fields().iter().map(|f| f.name().as_str()).collect::<Vec<_>>().join(",");
    Err(Corruption::new("schema", None, "the columns of schema version 1", found))
}

/// Leaves re-derived from the columns, put in their places, folded into the range nodes.
fn verify_rows(seal: &Seal, batches: &[RecordBatch]) -> Result<(), Corruption> {
    let rows = usize::try_from(seal.rows()).unwrap_or(usize::MAX);
    let counted: usize = batches.iter().map(RecordBatch::num_rows).sum();
    if rows != counted {
        return Err(Corruption::new(
            "contiguity",
            None,
            format!("{rows} rows"),
            counted.to_string(),
        ));
    }
    let log_id = log_id(&seal.origin);
    let mut leaves: Vec<Option<(Hash, i64)>> = vec![None; rows];
    let mut last: Option<(String, i64, u64)> = None;
    for batch in batches {
        let columns = EventColumns::new(batch)?;
        for row in 0..columns.rows() {
            let (seq, ingested_at) = (columns.seq(row), columns.ingested_at(row));
            let at = |check, expected: &str, found: String| {
                Corruption::new(check, None, format!("{expected} in row with seq {seq}"), found)
            };
            if columns.shard(row) != seal.shard {
                let found = columns.shard(row).to_string();
                return Err(at("shard", &format!("_shard {}", seal.shard), found));
            }
            let event = columns.event(row);
            let first = event.targets.first().copied().unwrap_or_default();
            if (first.kind, first.id) != columns.flat_target(row) {
                let found = format!("{:?}", columns.flat_target(row));
                return Err(at("target", "target_type and target_id of targets[0]", found));
            }
            let in_order = last.as_ref().is_none_or(|(tenant, time, seq_before)| {
                (tenant.as_str(), *time, *seq_before) < (event.tenant, event.time.0, seq)
            });
            if !in_order {
                return Err(at("sort_order", "rows by tenant, time, _seq", "another order".into()));
            }
            match &mut last {
                Some((tenant, time, before)) => {
                    if tenant != event.tenant {
                        event.tenant.clone_into(tenant);
                    }
                    (*time, *before) = (event.time.0, seq);
                }
                None => last = Some((event.tenant.to_owned(), event.time.0, seq)),
            }
            let slot = seq
                .checked_sub(seal.start)
                .and_then(|i| leaves.get_mut(usize::try_from(i).ok()?))
                .filter(|slot| slot.is_none());
            let Some(slot) = slot else {
                let expected = format!("each seq of [{}, {}) once", seal.start, seal.end);
                return Err(Corruption::new("contiguity", None, expected, seq.to_string()));
            };
            let position = Position { log_id, seq, ingested_at };
            let leaf = encode_leaf(&event, &position)
                .map_err(|error| at("leaves", "canonical attributes", error.to_string()))?;
            *slot = Some((leaf_hash(&leaf), ingested_at.0));
        }
    }
    fold_leaves(seal, &leaves)
}

fn fold_leaves(seal: &Seal, leaves: &[Option<(Hash, i64)>]) -> Result<(), Corruption> {
    let mut range = CompactRange::empty(seal.start);
    let mut latest = i64::MIN;
    for (i, leaf) in leaves.iter().enumerate() {
        let seq = seal.start + i as u64;
        let Some((hash, ingested_at)) = leaf else {
            return Err(Corruption::new("contiguity", None, format!("seq {seq}"), "no such row"));
        };
        if *ingested_at < latest {
            let expected = format!("ingested_at not before its predecessor at seq {seq}");
            return Err(Corruption::new("ingest_time", None, expected, ingested_at.to_string()));
        }
        latest = *ingested_at;
        range.append(*hash);
    }
    range
        .check_nodes(&seal.range_nodes)
        .map_err(|corruption| Corruption { check: "leaves", ..corruption })
}

/// Frontier before, range and root after must agree with each other and with what is known.
fn verify_tree(seal: &Seal, expect: &Expectation) -> Result<(), Corruption> {
    let mut tree = CompactRange::from_nodes(0, seal.start, seal.frontier_before.clone())?;
    if let Some(known) = &expect.frontier
        && *known != tree
    {
        let show = |range: &CompactRange| {
            format!("{} leaves, root {}", range.end(), range.root().map_or("?".into(), |r| hex(&r)))
        };
        return Err(Corruption::new("frontier", None, show(known), show(&tree)));
    }
    let nodes = seal.range_nodes.clone();
    tree.merge(&CompactRange::from_nodes(seal.start, seal.end, nodes)?)?;
    let root = tree.root()?;
    if root != seal.root_after {
        return Err(Corruption::new("root", None, hex(&seal.root_after), hex(&root)));
    }
    match expect.root_after {
        Some(known) if known != root => Err(Corruption::new("root", None, hex(&known), hex(&root))),
        _ => Ok(()),
    }
}

/// Whatever pruning relies on is recomputed.
fn verify_summaries(view: &SegmentView, batches: &[RecordBatch]) -> Result<(), Corruption> {
    let seal = view.seal();
    for (i, (batch, claimed)) in batches.iter().zip(&seal.zones).enumerate() {
        // Readers find a row's batch by division: rows beyond the figure would be invisible.
        let (rows, full) = (batch.num_rows(), seal.batch_rows as usize);
        if rows > full || (i + 1 < batches.len() && rows != full) {
            let expected = format!("{full} rows in batch {i}, fewer only in the last");
            return Err(Corruption::new("zone_maps", None, expected, batch.num_rows().to_string()));
        }
        if BatchZone::compute(batch)? != *claimed {
            let expected = format!("zone map of batch {i} as its rows give it");
            return Err(Corruption::new("zone_maps", None, expected, "another"));
        }
    }
    if Facts::compute(batches)? != seal.facts {
        return Err(Corruption::new("facts", None, "facts as the rows give them", "others"));
    }
    let unreadable =
        |error: arrow_schema::ArrowError| Corruption::new("arrow", None, "rows", error.to_string());
    let all = concat_batches(view.schema(), batches).map_err(unreadable)?;
    for (kind, index) in indexes(&all)? {
        let block = seal.blocks_of(kind).next();
        let found = block.map(|block| view.block(block)).unwrap_or_default();
        let (used, padding) = found.split_at_checked(index.len()).unwrap_or_default();
        if used != index.as_slice() || padding.iter().any(|byte| *byte != 0) {
            let offset = block.map(|block| block.offset);
            let expected = format!("{kind:?} as the rows give it");
            return Err(Corruption::new("index", offset, expected, "another"));
        }
    }
    Ok(())
}
