//! The seal: what the footer of a segment says about the file, as deterministic CBOR.
//!
//! In the footer's metadata under `sealcast.seal`: base64 of the CBOR followed by its CRC32 (big
//! endian). It is as trustworthy as the file's BLAKE3, which the file's name and the signed commit
//! carry; every figure in it is recomputed from the rows before the segment is admitted.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::facts::{BatchZone, Facts};
use crate::cbor::{Reader, Writer};
use crate::clock::Micros;
use crate::fault::Corruption;
use crate::integrity::{Hash, crc32};
use crate::limits::SEAL_BYTES_MAX;

/// The footer's metadata key.
pub(super) const SEAL_KEY: &str = "sealcast.seal";
const SEAL_VERSION: u64 = 1;
/// The order of rows in the file.
pub(super) const SORT_ORDER: &str = "tenant,time,_seq";

/// What a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// Magic and schema message.
    Header,
    /// One dictionary message.
    Dictionary,
    /// One record batch message.
    Batch,
    /// Index over `event_id`.
    EventIndex,
    /// Index over `actor_id`.
    ActorIndex,
}

impl BlockKind {
    const ALL: [BlockKind; 5] = [
        BlockKind::Header,
        BlockKind::Dictionary,
        BlockKind::Batch,
        BlockKind::EventIndex,
        BlockKind::ActorIndex,
    ];

    fn code(self) -> u64 {
        self as u64
    }
}

/// A run of bytes with its checksum. Blocks tile the file from 0 to the end-of-stream marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// What it holds.
    pub kind: BlockKind,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
    /// CRC32 (IEEE) of them.
    pub crc32: u32,
}

/// One request's idempotency key, with the answer that it got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestEntry {
    /// The key as sent; of a caller who is limited to some tenants, a digest of both.
    pub key: String,
    /// Digest of the request's body.
    pub body_digest: [u8; 32],
    /// When it was answered.
    pub at: Micros,
    /// (index in the request, event id, seq) of the events that this shard took. If none of them
    /// was new, the first entry says so: index [`RequestEntry::NO_ROWS`], the log's id, 2^64 - 1.
    pub events: Vec<(u32, [u8; 16], u64)>,
}

/// Everything that the footer says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seal {
    /// `<cluster>/<shard>`.
    pub origin: String,
    /// The shard.
    pub shard: u16,
    /// First leaf.
    pub start: u64,
    /// One past the last leaf.
    pub end: u64,
    /// Version of the columns.
    pub schema_version: u64,
    /// The greatest routing version of the rows.
    pub routing_version: u64,
    /// The writer's clock when sealing.
    pub sealed_at: Micros,
    /// Rows of every batch but the last.
    pub batch_rows: u32,
    /// The file's blocks.
    pub blocks: Vec<Block>,
    /// One zone map per batch.
    pub zones: Vec<BatchZone>,
    /// Facts of the segment.
    pub facts: Facts,
    /// Compact range of `[start, end)`.
    pub range_nodes: Vec<Hash>,
    /// Compact range of `[0, start)`.
    pub frontier_before: Vec<Hash>,
    /// Root of the tree of size `end`.
    pub root_after: Hash,
    /// The idempotency window of the requests whose rows lie here.
    pub requests: Vec<RequestEntry>,
}

impl Seal {
    /// Rows.
    pub fn rows(&self) -> u64 {
        self.end - self.start
    }

    /// Blocks of one kind, in file order.
    pub fn blocks_of(&self, kind: BlockKind) -> impl Iterator<Item = &Block> {
        self.blocks.iter().filter(move |block| block.kind == kind)
    }

    /// The CBOR form.
    pub fn to_cbor(&self) -> Vec<u8> {
        let mut out = Writer::new();
        out.map(17).uint(0).uint(SEAL_VERSION);
        out.uint(1).text(&self.origin);
        out.uint(2).uint(self.shard.into());
        out.uint(3).uint(self.start);
        out.uint(4).uint(self.end);
        out.uint(5).uint(self.schema_version);
        out.uint(6).text(SORT_ORDER);
        out.uint(7).uint(self.routing_version);
        out.uint(8).int(self.sealed_at.0);
        out.uint(9).uint(self.batch_rows.into());
        out.uint(10).array(self.blocks.len());
        for block in &self.blocks {
            out.array(4).uint(block.kind.code()).uint(block.offset).uint(block.len);
            out.uint(block.crc32.into());
        }
        out.uint(11).array(self.zones.len());
        for zone in &self.zones {
            zone.write(&mut out);
        }
        out.uint(12);
        self.facts.write(&mut out);
        for (key, hashes) in [(13, &self.range_nodes), (14, &self.frontier_before)] {
            out.uint(key).array(hashes.len());
            for hash in hashes {
                out.bytes(hash);
            }
        }
        out.uint(15).bytes(&self.root_after);
        out.uint(16).array(self.requests.len());
        for request in &self.requests {
            request.write(&mut out);
        }
        out.finish()
    }

    /// Strict reading of the CBOR form.
    pub fn from_cbor(bytes: &[u8]) -> Result<Self, Corruption> {
        let mut reader = Reader::new(bytes, "seal");
        let r = &mut reader;
        expect(r.map()?, 17, "map of 17 keys")?;
        r.key(0)?;
        expect(r.uint()?, SEAL_VERSION, "seal version 1")?;
        r.key(1)?;
        let origin = r.text()?.to_owned();
        r.key(2)?;
        let shard = r.narrow()?;
        r.key(3)?;
        let start = r.uint()?;
        r.key(4)?;
        let end = r.uint()?;
        r.key(5)?;
        let schema_version = r.uint()?;
        r.key(6)?;
        expect(r.text()?, SORT_ORDER, "sort order tenant,time,_seq")?;
        r.key(7)?;
        let routing_version = r.uint()?;
        r.key(8)?;
        let sealed_at = Micros(r.int()?);
        r.key(9)?;
        let batch_rows = r.narrow()?;
        r.key(10)?;
        let blocks = (0..r.array()?).map(|_| read_block(r)).collect::<Result<_, _>>()?;
        r.key(11)?;
        let zones = (0..r.array()?).map(|_| BatchZone::read(r)).collect::<Result<_, _>>()?;
        r.key(12)?;
        let facts = Facts::read(r)?;
        r.key(13)?;
        let range_nodes = read_hashes(r)?;
        r.key(14)?;
        let frontier_before = read_hashes(r)?;
        r.key(15)?;
        let root_after = r.bytes_exact()?;
        r.key(16)?;
        let requests = (0..r.array()?).map(|_| RequestEntry::read(r)).collect::<Result<_, _>>()?;
        r.end()?;
        if end <= start {
            return Err(Corruption::new(
                "seal",
                None,
                "end above start",
                format!("{start}..{end}"),
            ));
        }
        Ok(Seal {
            origin,
            shard,
            start,
            end,
            schema_version,
            routing_version,
            sealed_at,
            batch_rows,
            blocks,
            zones,
            facts,
            range_nodes,
            frontier_before,
            root_after,
            requests,
        })
    }

    /// The footer's text.
    pub(super) fn to_footer(&self) -> String {
        let mut bytes = self.to_cbor();
        bytes.extend(crc32(&bytes).to_be_bytes());
        BASE64.encode(bytes)
    }

    /// Reads the footer's text.
    pub(super) fn from_footer(text: &str) -> Result<Self, Corruption> {
        let unreadable = |found: &str| Corruption::new("seal", None, "base64 of a seal", found);
        if text.len() > SEAL_BYTES_MAX {
            return Err(unreadable("a text beyond the bound"));
        }
        let bytes = BASE64.decode(text).map_err(|_| unreadable("no base64"))?;
        let (cbor, crc) = bytes.split_last_chunk::<4>().ok_or_else(|| unreadable("too short"))?;
        let (expected, found) = (u32::from_be_bytes(*crc), crc32(cbor));
        if expected != found {
            let (expected, found) = (format!("{expected:08x}"), format!("{found:08x}"));
            return Err(Corruption::new("seal_crc32", None, expected, found));
        }
        Seal::from_cbor(cbor)
    }
}

fn expect<T: PartialEq + std::fmt::Debug>(
    found: T,
    wanted: T,
    what: &str,
) -> Result<(), Corruption> {
    if found == wanted {
        return Ok(());
    }
    Err(Corruption::new("seal", None, what, format!("{found:?}")))
}

fn read_block(reader: &mut Reader<'_>) -> Result<Block, Corruption> {
    reader.array_exact(4)?;
    let code = reader.uint()?;
    let kind = BlockKind::ALL.into_iter().find(|kind| kind.code() == code);
    let kind =
        kind.ok_or_else(|| Corruption::new("seal", None, "a block kind", code.to_string()))?;
    Ok(Block { kind, offset: reader.uint()?, len: reader.uint()?, crc32: reader.narrow()? })
}

fn read_hashes(reader: &mut Reader<'_>) -> Result<Vec<Hash>, Corruption> {
    (0..reader.array()?).map(|_| reader.bytes_exact()).collect()
}

impl RequestEntry {
    /// The index of no event: marks a request all of whose events were stored before.
    pub const NO_ROWS: u32 = u32::MAX;

    /// The log's id, if the request stored nothing new.
    pub fn stored_none(&self) -> Option<[u8; 16]> {
        self.events.first().filter(|first| first.0 == Self::NO_ROWS).map(|first| first.1)
    }

    /// Appends the CBOR form; also used by the write-ahead log.
    pub fn write(&self, out: &mut Writer) {
        out.array(4).text(&self.key).bytes(&self.body_digest).int(self.at.0);
        out.array(self.events.len());
        for (index, event_id, seq) in &self.events {
            out.array(3).uint((*index).into()).bytes(event_id).uint(*seq);
        }
    }

    /// Reads the CBOR form.
    pub fn read(reader: &mut Reader<'_>) -> Result<Self, Corruption> {
        reader.array_exact(4)?;
        let key = reader.text()?.to_owned();
        let body_digest = reader.bytes_exact()?;
        let at = Micros(reader.int()?);
        let events = (0..reader.array()?)
            .map(|_| {
                reader.array_exact(3)?;
                Ok((reader.narrow()?, reader.bytes_exact()?, reader.uint()?))
            })
            .collect::<Result<_, Corruption>>()?;
        Ok(RequestEntry { key, body_digest, at, events })
    }
}
