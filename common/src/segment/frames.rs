//! The object store's form, `.seg.zst`: one zstd frame per block, then a frame table.
//!
//! Independent frames, so that a reader may fetch the whole or single blocks. Layout: frames; then
//! the table: per frame `raw offset u64 | raw len u64 | frame offset u64 | frame len u64` (LE);
//! then `count u32 LE | crc32 of the table u32 LE | "SCZF0001"`. Trust comes from hashes of the
//! uncompressed file and of the whole object, both in the signed commit.

use std::io::Cursor;

use zstd::bulk::Decompressor;

use crate::fault::Corruption;
use crate::integrity::crc32;
use crate::limits::SEGMENT_BYTES_MAX;

const MAGIC: &[u8; 8] = b"SCZF0001";
const ENTRY: usize = 32;
const LEVEL: i32 = 3;

/// Where each block's frame lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameTable {
    /// (raw offset, raw length, frame offset, frame length), in file order, tiling the raw file.
    pub frames: Vec<(u64, u64, u64, u64)>,
}

/// Compresses a segment file, cutting it at `cuts` (block boundaries; any ascending offsets do).
pub fn compress(file: &[u8], cuts: impl IntoIterator<Item = u64>) -> std::io::Result<Vec<u8>> {
    let mut edges: Vec<usize> =
        cuts.into_iter().filter_map(|cut| usize::try_from(cut).ok()).collect();
    edges.retain(|edge| *edge > 0 && *edge < file.len());
    edges.push(file.len());
    edges.sort_unstable();
    edges.dedup();
    let mut out = Vec::with_capacity(file.len() / 3);
    let mut table = Vec::new();
    let mut start = 0;
    for edge in edges {
        let raw = file.get(start..edge).unwrap_or_default();
        let frame = zstd::bulk::compress(raw, LEVEL)?;
        for value in [start, raw.len(), out.len(), frame.len()] {
            table.extend((value as u64).to_le_bytes());
        }
        out.extend(frame);
        start = edge;
    }
    out.extend(&table);
    out.extend(((table.len() / ENTRY) as u32).to_le_bytes());
    out.extend(crc32(&table).to_le_bytes());
    out.extend(MAGIC);
    Ok(out)
}

impl FrameTable {
    /// Reads and checks the table at the end of an object.
    pub fn parse(object: &[u8]) -> Result<Self, Corruption> {
        let at = object.len() as u64;
        let malformed =
            |found: &str| Corruption::new("frame_table", at, "a table of zstd frames", found);
        let body = object.strip_suffix(MAGIC).ok_or_else(|| malformed("no magic at the end"))?;
        let (body, crc) = body.split_last_chunk::<4>().ok_or_else(|| malformed("too short"))?;
        let (body, count) = body.split_last_chunk::<4>().ok_or_else(|| malformed("too short"))?;
        let size = (u32::from_le_bytes(*count) as usize).saturating_mul(ENTRY);
        let split = body.len().checked_sub(size).ok_or_else(|| malformed("too short"))?;
        let (data, table) = body.split_at(split);
        if crc32(table) != u32::from_le_bytes(*crc) {
            return Err(malformed("a table with another crc32"));
        }
        let word = |entry: &[u8], i: usize| {
            let bytes = entry.get(i * 8..i * 8 + 8).and_then(|bytes| bytes.try_into().ok());
            u64::from_le_bytes(bytes.unwrap_or_default())
        };
        let frames: Vec<_> = table
            .chunks_exact(ENTRY)
            .map(|entry| (word(entry, 0), word(entry, 1), word(entry, 2), word(entry, 3)))
            .collect();
        let (mut raw, mut packed) = (0u64, 0u64);
        for (raw_at, raw_len, at, len) in &frames {
            if (*raw_at, *at) != (raw, packed) {
                return Err(malformed("frames with gaps"));
            }
            raw = raw.saturating_add(*raw_len);
            packed = packed.saturating_add(*len);
        }
        if packed != data.len() as u64 || raw > SEGMENT_BYTES_MAX {
            return Err(malformed("frames that do not fill the object"));
        }
        Ok(FrameTable { frames })
    }

    /// Length of the uncompressed file.
    pub fn raw_len(&self) -> u64 {
        self.frames.iter().map(|(_, len, _, _)| len).sum()
    }
}

/// Decompresses a whole object. `raw_len` is what the signed commit says: nothing larger is
/// allocated.
pub fn decompress(object: &[u8], raw_len: u64) -> Result<Vec<u8>, Corruption> {
    let table = FrameTable::parse(object)?;
    if table.raw_len() != raw_len || raw_len > SEGMENT_BYTES_MAX {
        let found = format!("{} bytes", table.raw_len());
        return Err(Corruption::new("length", None, format!("{raw_len} bytes"), found));
    }
    // One after the other into one buffer: its room bounds what any frame can unpack to.
    let mut out = Cursor::new(Vec::with_capacity(usize::try_from(raw_len).unwrap_or(0)));
    let mut zstd = Decompressor::default();
    for (_, raw_len, at, len) in &table.frames {
        let bad = |found: String| Corruption::new("zstd", *at, "a zstd frame", found);
        let (start, len) = (*at as usize, *len as usize);
        let frame = object.get(start..start + len).ok_or_else(|| bad("too short".into()))?;
        let found = zstd.decompress_to_buffer(frame, &mut out);
        let found = found.map_err(|error| bad(error.to_string()))? as u64;
        if found != *raw_len {
            return Err(bad(format!("{found} bytes, not {raw_len}")));
        }
        out.set_position(out.position() + found);
    }
    Ok(out.into_inner())
}
