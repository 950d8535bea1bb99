//! A segment's bytes, parsed but not trusted: the footer, the seal, batches on demand.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::reader::FileDecoder;
use arrow_schema::SchemaRef;

use super::index::IdIndex;
use super::seal::{BlockKind, SEAL_KEY, Seal};
use crate::fault::Corruption;
use crate::limits::SEGMENT_BYTES_MAX;

const MAGIC: &[u8; 6] = b"ARROW1";

/// A parsed segment. Batches borrow the buffer (no copy): whoever maps a file passes a buffer that
/// owns the map.
#[derive(Clone, Debug)]
pub struct SegmentView {
    buffer: Buffer,
    seal: Arc<Seal>,
    schema: SchemaRef,
    dictionaries: Vec<arrow_ipc::Block>,
    batches: Vec<arrow_ipc::Block>,
}

impl SegmentView {
    /// Parses footer and seal; touches no row. Block positions are checked against the file.
    pub fn parse(buffer: Buffer) -> Result<Self, Corruption> {
        guarded("footer", || Self::parse_unguarded(buffer))
    }

    fn parse_unguarded(buffer: Buffer) -> Result<Self, Corruption> {
        let bytes = buffer.as_slice();
        let len = bytes.len();
        if len as u64 > SEGMENT_BYTES_MAX {
            let expected = format!("at most {SEGMENT_BYTES_MAX} bytes");
            return Err(Corruption::new("length", None, expected, len.to_string()));
        }
        if !bytes.starts_with(MAGIC) {
            return Err(Corruption::new("magic", 0, "ARROW1", "other bytes"));
        }
        let tail = len.checked_sub(10).filter(|at| *at >= 64);
        let Some((at, tail)) = tail.and_then(|at| Some((at, bytes.get(at..)?))) else {
            return Err(Corruption::new("length", None, "an arrow file", format!("{len} bytes")));
        };
        if tail.get(4..) != Some(MAGIC) {
            let at = len as u64 - 6;
            return Err(Corruption::new("magic", at, "ARROW1", "other bytes"));
        }
        let size = tail.get(..4).and_then(|size| size.try_into().ok()).map(i32::from_le_bytes);
        let start = usize::try_from(size.unwrap_or(-1)).ok().and_then(|size| at.checked_sub(size));
        let Some((start, footer)) = start.and_then(|s| Some((s, bytes.get(s..at)?))) else {
            return Err(Corruption::new(
                "footer",
                at as u64,
                "a footer length",
                format!("{size:?}"),
            ));
        };
        let unreadable = |found: String| Corruption::new("footer", start as u64, "a footer", found);
        let footer =
            arrow_ipc::root_as_footer(footer).map_err(|error| unreadable(error.to_string()))?;
        let schema = footer.schema().ok_or_else(|| unreadable("no schema".into()))?;
        let schema = Arc::new(arrow_ipc::convert::fb_to_schema(schema));
        let seal = footer
            .custom_metadata()
            .into_iter()
            .flatten()
            .find(|pair| pair.key() == Some(SEAL_KEY))
            .and_then(|pair| pair.value())
            .ok_or_else(|| Corruption::new("seal", start as u64, SEAL_KEY, "no such metadata"))?;
        let seal = Seal::from_footer(seal)?;
        let blocks =
            |list: Option<flatbuffers::Vector<'_, arrow_ipc::Block>>| -> Vec<arrow_ipc::Block> {
                list.map(|list| list.iter().copied().collect()).unwrap_or_default()
            };
        let dictionaries = blocks(footer.dictionaries());
        let batches = blocks(footer.recordBatches());
        check_blocks(&seal, &dictionaries, &batches, start as u64)?;
        Ok(SegmentView { buffer, seal: Arc::new(seal), schema, dictionaries, batches })
    }

    /// What the footer says.
    pub fn seal(&self) -> &Arc<Seal> {
        &self.seal
    }

    /// The file's own schema: a label column may be plain text.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The whole file.
    pub fn bytes(&self) -> &[u8] {
        self.buffer.as_slice()
    }

    /// The bytes of a block.
    pub fn block(&self, block: &super::Block) -> &[u8] {
        let start = usize::try_from(block.offset).unwrap_or(usize::MAX);
        let end = start.saturating_add(usize::try_from(block.len).unwrap_or(usize::MAX));
        self.bytes().get(start..end).unwrap_or_default()
    }

    /// Decodes all batches, buffers borrowed from the file. Arrow's validation runs: offsets,
    /// dictionary codes and UTF-8 are checked, whatever the hashes said.
    pub fn decode(&self) -> Result<Vec<RecordBatch>, Corruption> {
        guarded("arrow", || {
            let mut decoder =
                FileDecoder::new(Arc::clone(&self.schema), arrow_ipc::MetadataVersion::V5)
                    .with_require_alignment(true);
            let failed = |block: &arrow_ipc::Block, found: String| {
                Corruption::new("arrow", block.offset() as u64, "a valid message", found)
            };
            for block in &self.dictionaries {
                self.check_plain(block).map_err(|found| failed(block, found))?;
                decoder
                    .read_dictionary(block, &alone(self.message(block)))
                    .map_err(|error| failed(block, error.to_string()))?;
            }
            self.batches
                .iter()
                .map(|block| {
                    self.check_plain(block).map_err(|found| failed(block, found))?;
                    decoder
                        .read_record_batch(block, &alone(self.message(block)))
                        .map_err(|error| failed(block, error.to_string()))?
                        .ok_or_else(|| failed(block, "an empty message".into()))
                })
                .collect()
        })
    }

    /// The index of one kind.
    pub fn index(&self, kind: BlockKind) -> Result<IdIndex<'_>, Corruption> {
        let block = self.seal.blocks_of(kind).next();
        let block = block.ok_or_else(|| Corruption::new("index", None, "an index", "none"))?;
        let bytes = self.block(block);
        // The block is padded to the alignment; the count says how much of it is index.
        let count = bytes.first_chunk::<4>().map_or(0, |count| u32::from_le_bytes(*count));
        let used = (count as usize).saturating_mul(8).saturating_add(4);
        IdIndex::parse(bytes.get(..used).unwrap_or_default())
            .map_err(|corruption| Corruption { offset: Some(block.offset), ..corruption })
    }

    /// Buffers lie uncompressed in the file. A compressed one would be unpacked into memory of
    /// whatever length it claims, before anything could refuse it.
    fn check_plain(&self, block: &arrow_ipc::Block) -> Result<(), String> {
        let message = self.message(block);
        let meta = usize::try_from(block.metaDataLength()).ok();
        let meta = meta.and_then(|meta| message.as_slice().get(8..meta));
        let message = arrow_ipc::root_as_message(meta.ok_or("no metadata")?);
        let message = message.map_err(|error| error.to_string())?;
        let dictionary = message.header_as_dictionary_batch().and_then(|batch| batch.data());
        let rows = message.header_as_record_batch().or(dictionary).ok_or("another header")?;
        if rows.compression().is_none() { Ok(()) } else { Err("compressed buffers".to_owned()) }
    }

    fn message(&self, block: &arrow_ipc::Block) -> Buffer {
        let len = block.metaDataLength() as usize + block.bodyLength() as usize;
        self.buffer.slice_with_length(block.offset() as usize, len)
    }
}

/// A part of a file that owns the file and says of itself that it is that part.
struct Part(Buffer);

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        self.0.as_slice()
    }
}

/// The same bytes, at the same place, as a buffer of their own length: whoever holds a few rows of a
/// message is charged for the message then, not for the whole file.
fn alone(message: Buffer) -> Buffer {
    Buffer::from(bytes::Bytes::from_owner(Part(message)))
}

/// Blocks tile the file from 0 to before the footer, and the footer's messages are exactly them.
fn check_blocks(
    seal: &Seal,
    dictionaries: &[arrow_ipc::Block],
    batches: &[arrow_ipc::Block],
    footer_at: u64,
) -> Result<(), Corruption> {
    let mut at = 0u64;
    for block in &seal.blocks {
        if block.offset != at || block.len == 0 {
            let expected = format!("a block at {at}");
            return Err(Corruption::new("blocks", at, expected, format!("{block:?}")));
        }
        at = at.saturating_add(block.len);
    }
    // Between the last block and the footer lies only the end-of-stream marker, 8 bytes padded.
    if at > footer_at || footer_at - at > 64 {
        let expected = format!("blocks up to {footer_at}");
        return Err(Corruption::new("blocks", at, expected, format!("blocks up to {at}")));
    }
    for (kind, listed) in [(BlockKind::Dictionary, dictionaries), (BlockKind::Batch, batches)] {
        let sealed: Vec<(u64, u64)> =
            seal.blocks_of(kind).map(|block| (block.offset, block.len)).collect();
        let listed: Vec<(u64, u64)> = listed
            .iter()
            .map(|block| {
                let meta = u64::try_from(block.metaDataLength()).unwrap_or(u64::MAX);
                let body = u64::try_from(block.bodyLength()).unwrap_or(u64::MAX);
                (u64::try_from(block.offset()).unwrap_or(u64::MAX), meta.saturating_add(body))
            })
            .collect();
        if sealed != listed {
            let expected = format!("{} {kind:?} blocks as sealed", sealed.len());
            let found = format!("{} in the arrow footer", listed.len());
            return Err(Corruption::new("blocks", footer_at, expected, found));
        }
    }
    if seal.zones.len() != batches.len() {
        let expected = format!("{} zone maps", batches.len());
        return Err(Corruption::new("zone_maps", None, expected, seal.zones.len().to_string()));
    }
    Ok(())
}

/// Bytes from outside are hostile: a panic in a decoder is a finding, not a crash.
fn guarded<T>(
    check: &'static str,
    decode: impl FnOnce() -> Result<T, Corruption>,
) -> Result<T, Corruption> {
    catch_unwind(AssertUnwindSafe(decode)).unwrap_or_else(|_| {
        Err(Corruption::new(check, None, "bytes that decode", "bytes that break the decoder"))
    })
}
