//! The one judge of a segment's bytes: sealer, shipper, replica and auditor all ask here.
//!
//! Cheap checks come first. Every check has a stable name (`docs/format.md` lists them); the first
//! that fails is reported with its place.

use std::sync::{Mutex, PoisonError};

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;

use super::columns::EventColumns;
use super::encode::{INDEXES, id_hashes};
use super::facts::summarize;
use super::form::verify_form;
use super::index::is_index_of;
use super::schema::{COLUMNS, field};
use super::seal::{Block, BlockKind, Seal};
use super::spread::{spread, threads};
use super::{SCHEMA_VERSION, SegmentView};
use crate::event::{EventRef, LeafHasher, Position};
use crate::fault::{Corruption, hex};
use crate::integrity::{CompactRange, Hash, crc32, file_hash, log_id, shard_origin};

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
    verify_on(1, buffer, expect).map(|(view, batches, _)| (view, batches))
}

/// The same with all cores, for whom somebody waits.
pub fn verify_segment_at_once(
    buffer: Buffer,
    expect: &Expectation,
) -> Result<(SegmentView, Vec<RecordBatch>), Corruption> {
    verify_on(threads(), buffer, expect).map(|(view, batches, _)| (view, batches))
}

/// The same, with the hashes of the leaves in the order of their seqs: what tiles are made of.
pub fn verify_segment_leaves(
    buffer: Buffer,
    expect: &Expectation,
) -> Result<(SegmentView, Vec<Hash>), Corruption> {
    verify_on(1, buffer, expect).map(|(view, _, leaves)| (view, leaves))
}

fn verify_on(
    threads: usize,
    buffer: Buffer,
    expect: &Expectation,
) -> Result<(SegmentView, Vec<RecordBatch>, Vec<Hash>), Corruption> {
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
    let leaves = verify_rows(seal, &batches, threads)?;
    verify_tree(seal, expect)?;
    verify_summaries(&view, &batches, threads)?;
    Ok((view, batches, leaves))
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
fn verify_rows(
    seal: &Seal,
    batches: &[RecordBatch],
    threads: usize,
) -> Result<Vec<Hash>, Corruption> {
    let rows = usize::try_from(seal.rows()).unwrap_or(usize::MAX);
    let counted: usize = batches.iter().map(RecordBatch::num_rows).sum();
    if rows != counted {
        let expected = format!("{rows} rows");
        return Err(Corruption::new("contiguity", None, expected, counted.to_string()));
    }
    let columns = batches.iter().map(EventColumns::new).collect::<Result<Vec<_>, _>>()?;
    let mut last = None;
    for batch in columns.iter().filter(|batch| batch.rows() > 0) {
        if last.is_some_and(|last| last >= batch.place(0)) {
            return Err(out_of_order(batch.seq(0)));
        }
        last = Some(batch.place(batch.rows() - 1));
    }
    let leaves = Mutex::new(Leaves::new(seal.start, rows));
    let placed = spread(threads, columns.len(), |i| {
        let derived = derive_leaves(seal, &columns[i])?;
        let mut leaves = leaves.lock().unwrap_or_else(PoisonError::into_inner);
        derived.into_iter().try_for_each(|leaf| leaves.place(leaf))
    });
    placed.into_iter().collect::<Result<(), _>>()?;
    let leaves = leaves.into_inner().unwrap_or_else(PoisonError::into_inner);
    leaves.fold(seal)?;
    Ok(leaves.hashes)
}

/// What a row's columns say.
#[derive(Clone, Copy, Debug)]
struct Leaf {
    seq: u64,
    ingested_at: i64,
    hash: Hash,
}

fn out_of_order(seq: u64) -> Corruption {
    let expected = format!("rows by tenant, time, _seq in row with seq {seq}");
    Corruption::new("sort_order", None, expected, "another order")
}

fn derive_leaves(seal: &Seal, columns: &EventColumns<'_>) -> Result<Vec<Leaf>, Corruption> {
    let (log_id, mut hasher) = (log_id(&seal.origin), LeafHasher::default());
    let (mut leaves, mut last) = (Vec::with_capacity(columns.rows()), None);
    let mut event = EventRef::default();
    for row in 0..columns.rows() {
        let (seq, ingested_at) = (columns.seq(row), columns.ingested_at(row));
        let at = |check, expected: &str, found: String| {
            Corruption::new(check, None, format!("{expected} in row with seq {seq}"), found)
        };
        if columns.shard(row) != seal.shard {
            let found = columns.shard(row).to_string();
            return Err(at("shard", &format!("_shard {}", seal.shard), found));
        }
        columns.read(row, &mut event);
        let first = event.targets.first().copied().unwrap_or_default();
        if (first.kind, first.id) != columns.flat_target(row) {
            let found = format!("{:?}", columns.flat_target(row));
            return Err(at("target", "target_type and target_id of targets[0]", found));
        }
        let place = (event.tenant, event.time.0, seq);
        if last.replace(place).is_some_and(|last| last >= place) {
            return Err(out_of_order(seq));
        }
        let hash = hasher
            .hash(&event, &Position { log_id, seq, ingested_at })
            .map_err(|error| at("leaves", "canonical attributes", error.to_string()))?;
        leaves.push(Leaf { seq, ingested_at: ingested_at.0, hash });
    }
    Ok(leaves)
}

/// Leaves by their seqs.
struct Leaves {
    start: u64,
    /// Hash, ingest time, and whether the row has come.
    hashes: Vec<Hash>,
    times: Vec<i64>,
    present: Vec<bool>,
}

impl Leaves {
    fn new(start: u64, rows: usize) -> Self {
        let (hashes, times) = (vec![Hash::default(); rows], vec![0; rows]);
        Leaves { start, hashes, times, present: vec![false; rows] }
    }

    fn place(&mut self, leaf: Leaf) -> Result<(), Corruption> {
        let place = leaf.seq.checked_sub(self.start).and_then(|place| usize::try_from(place).ok());
        if let Some(place) = place
            && let Some(present @ false) = self.present.get_mut(place)
        {
            *present = true;
            self.hashes[place] = leaf.hash;
            self.times[place] = leaf.ingested_at;
            return Ok(());
        }
        let end = self.start + self.present.len() as u64;
        let expected = format!("each seq of [{}, {end}) once", self.start);
        Err(Corruption::new("contiguity", None, expected, leaf.seq.to_string()))
    }

    /// As many rows as places, and none came twice: all of them are there.
    fn fold(&self, seal: &Seal) -> Result<(), Corruption> {
        let decreases = self.times.windows(2).position(|pair| pair[1] < pair[0]);
        if let Some(before) = decreases {
            let (seq, found) = (self.start + before as u64 + 1, self.times[before + 1]);
            let expected = format!("ingested_at not before its predecessor at seq {seq}");
            return Err(Corruption::new("ingest_time", None, expected, found.to_string()));
        }
        let mut range = CompactRange::empty(self.start);
        self.hashes.iter().for_each(|hash| range.append(*hash));
        range
            .check_nodes(&seal.range_nodes)
            .map_err(|corruption| Corruption { check: "leaves", ..corruption })
    }
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
fn verify_summaries(
    view: &SegmentView,
    batches: &[RecordBatch],
    threads: usize,
) -> Result<(), Corruption> {
    let seal = view.seal();
    let (zones, facts) = summarize(batches)?;
    for (i, (zone, claimed)) in zones.iter().zip(&seal.zones).enumerate() {
        // Readers find a row's batch by division: rows beyond the figure would be invisible.
        let (rows, full) = (zone.rows, seal.batch_rows);
        if rows > full || (i + 1 < batches.len() && rows != full) {
            let expected = format!("{full} rows in batch {i}, fewer only in the last");
            return Err(Corruption::new("zone_maps", None, expected, rows.to_string()));
        }
        if zone != claimed {
            let expected = format!("zone map of batch {i} as its rows give it");
            return Err(Corruption::new("zone_maps", None, expected, "another"));
        }
    }
    if facts != seal.facts {
        return Err(Corruption::new("facts", None, "facts as the rows give them", "others"));
    }
    let indexes = spread(threads, INDEXES.len(), |i| verify_index(view, batches, INDEXES[i]));
    indexes.into_iter().collect()
}

fn verify_index(
    view: &SegmentView,
    batches: &[RecordBatch],
    kind: BlockKind,
) -> Result<(), Corruption> {
    let block = view.seal().blocks_of(kind).next();
    let found = block.map(|block| view.block(block)).unwrap_or_default();
    if is_index_of(found, &id_hashes(batches, kind)?) {
        return Ok(());
    }
    let expected = format!("{kind:?} as the rows give it");
    Err(Corruption::new("index", block.map(|block| block.offset), expected, "another"))
}
