//! The write-ahead log's file format: the tail of a shard, read only by its writer.
//!
//! ```text
//! header  "SCWAL001" | shard u16 | zero u16 | start seq u64 | log id 16 bytes | crc32 u32
//! frame   len u32 | crc32 u32 | kind u8 | payload (len bytes)
//! ```
//! Integers are little endian; a frame's CRC32 covers len, kind and payload. A frame holds what one
//! sync makes durable: one batch for each request of a group. So only the last frame can be torn,
//! and a torn one loses whole, unacknowledged requests.

use crate::cbor::{Reader, Writer};
use crate::event::decode_full;
use crate::fault::{Corruption, hex};
use crate::limits::WAL_FRAME_BYTES_MAX;
use crate::segment::RequestEntry;

const MAGIC: &[u8; 8] = b"SCWAL001";
/// Bytes of the header.
pub const HEADER_BYTES: usize = 40;
/// Bytes of a frame before its payload.
pub const FRAME_HEAD_BYTES: usize = 9;
/// Batches without a run of [`ZEROS_LEAST`] zeros: such a run is a page that was not written.
const KIND_BATCHES: u8 = 1;
/// Batches with one: zeros tell nothing. No flipped bit makes one kind of the other, or zero.
const KIND_ZEROS: u8 = 6;
const SECTOR: usize = 512;
/// Zeros at the end of the file that tell a lost page from an event's own last bytes.
const ZEROS_LEAST: usize = 64;

/// What a log file belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalHeader {
    /// The shard.
    pub shard: u16,
    /// Seq of the first event in the file.
    pub start: u64,
    /// Binds the file to the shard's origin.
    pub log_id: [u8; 16],
}

impl WalHeader {
    /// The first bytes of the file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_BYTES);
        out.extend(MAGIC);
        out.extend(self.shard.to_le_bytes());
        out.extend([0, 0]);
        out.extend(self.start.to_le_bytes());
        out.extend(self.log_id);
        let crc = crate::integrity::crc32(&out);
        out.extend(crc.to_le_bytes());
        out
    }

    /// Reads and checks the first bytes of a file.
    pub fn parse(bytes: &[u8]) -> Result<Self, Corruption> {
        let bad = |found: &str| Corruption::new("wal_header", 0, "a log's header", found);
        let header = bytes.get(..HEADER_BYTES).ok_or_else(|| bad("too few bytes"))?;
        let (fields, crc) = header.split_last_chunk::<4>().ok_or_else(|| bad("too few bytes"))?;
        if !fields.starts_with(MAGIC) {
            return Err(bad("other bytes than SCWAL001"));
        }
        let (expected, found) = (u32::from_le_bytes(*crc), crate::integrity::crc32(fields));
        if expected != found {
            let (expected, found) = (format!("{expected:08x}"), format!("{found:08x}"));
            return Err(Corruption::new("wal_header", 0, expected, found));
        }
        let mut log_id = [0; 16];
        log_id.copy_from_slice(&fields[20..36]);
        Ok(WalHeader {
            shard: u16::from_le_bytes([fields[8], fields[9]]),
            start: le_u64(&fields[12..20]),
            log_id,
        })
    }
}

fn le_u64(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, byte| (value << 8) | u64::from(*byte))
}

fn le_u32(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |value, byte| (value << 8) | u32::from(*byte))
}

/// One request's events for one shard, in the order of their seqs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalBatch {
    /// The routing version under which they were accepted.
    pub routing_version: u64,
    /// The request's idempotency key and answer, if it sent a key.
    pub request: Option<RequestEntry>,
    /// The events as [`crate::event::encode_full`] writes them.
    pub events: Vec<Vec<u8>>,
}

impl WalBatch {
    /// A frame of this batch alone.
    pub fn to_frame(&self) -> Result<Vec<u8>, Corruption> {
        let mut items = Writer::new();
        for event in &self.events {
            items.bytes(event);
        }
        let (request, count) = (self.request.as_ref(), self.events.len());
        let mut frame = Frame::default();
        frame.add(self.routing_version, request, count, &items.finish())?;
        Ok(frame.finish())
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, Corruption> {
        reader.array_exact(3)?;
        let routing_version = reader.uint()?;
        let request = if reader.null()? { None } else { Some(RequestEntry::read(reader)?) };
        let count = reader.array()?;
        let events =
            (0..count).map(|_| reader.bytes().map(<[u8]>::to_vec)).collect::<Result<_, _>>()?;
        Ok(WalBatch { routing_version, request, events })
    }
}

/// A group of requests on its way into the log.
#[derive(Debug, Default)]
pub struct Frame {
    out: Writer,
}

impl Frame {
    /// Adds a batch whose `count` events are encoded already, each as a byte string. One without
    /// events keeps a request's key: its entry says so ([`RequestEntry::stored_none`]).
    pub fn add(
        &mut self,
        routing_version: u64,
        request: Option<&RequestEntry>,
        count: usize,
        events: &[u8],
    ) -> Result<(), Corruption> {
        if self.out.buffer.is_empty() {
            self.out.raw(&[0; FRAME_HEAD_BYTES]);
        }
        let before = self.out.buffer.len();
        self.out.array(3).uint(routing_version);
        match request {
            Some(request) => request.write(&mut self.out),
            None => {
                self.out.null();
            }
        }
        self.out.array(count).raw(events);
        let size = self.out.buffer.len() - FRAME_HEAD_BYTES;
        if size > WAL_FRAME_BYTES_MAX {
            self.out.buffer.truncate(before);
            let expected = format!("at most {WAL_FRAME_BYTES_MAX} bytes a frame");
            return Err(Corruption::new("wal_frame", None, expected, size.to_string()));
        }
        Ok(())
    }

    /// The whole frame; nothing, if nothing was added.
    pub fn finish(self) -> Vec<u8> {
        let mut frame = self.out.finish();
        match frame.split_first_chunk_mut::<FRAME_HEAD_BYTES>() {
            Some((head, payload)) if !payload.is_empty() => {
                let (len, kind) = (payload.len() as u32, kind_of(payload));
                head[..4].copy_from_slice(&len.to_le_bytes());
                head[4..8].copy_from_slice(&frame_crc(len, kind, payload).to_le_bytes());
                head[8] = kind;
            }
            _ => frame.clear(),
        }
        frame
    }
}

/// Every run of [`ZEROS_LEAST`] zeros fills one of these pieces.
fn kind_of(payload: &[u8]) -> u8 {
    let mut pieces = payload.chunks_exact(ZEROS_LEAST / 2);
    if pieces.any(|piece| piece.iter().all(|byte| *byte == 0)) { KIND_ZEROS } else { KIND_BATCHES }
}

fn frame_crc(len: u32, kind: u8, payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&len.to_le_bytes());
    hasher.update(&[kind]);
    hasher.update(payload);
    hasher.finalize()
}

/// What a log file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalScan {
    /// Its header.
    pub header: WalHeader,
    /// (offset of its frame, batch) in order.
    pub batches: Vec<(u64, WalBatch)>,
    /// Length of the good part: what follows is a torn, never acknowledged frame.
    pub good_bytes: u64,
    /// Bytes after it that may be cut.
    pub torn_bytes: u64,
}

/// Reads a whole log file. A bad frame is called torn only if it can be the unfinished end of the
/// last write; everything else is corruption, reported with its offset, and nothing is cut.
pub fn scan(bytes: &[u8]) -> Result<WalScan, Corruption> {
    let header = WalHeader::parse(bytes)?;
    let mut batches = Vec::new();
    let mut at = HEADER_BYTES;
    while at < bytes.len() {
        match frame_at(bytes, at) {
            Ok((payload, end)) => {
                let mut reader = Reader::new(payload, "wal_frame");
                loop {
                    let batch = WalBatch::read(&mut reader)
                        .map_err(|found| Corruption { offset: Some(at as u64), ..found })?;
                    batches.push((at as u64, batch));
                    if reader.position() == payload.len() {
                        break;
                    }
                }
                at = end;
            }
            Err(bad) => {
                judge_bad_frame(bytes, at, &header, bad)?;
                break;
            }
        }
    }
    let torn_bytes = (bytes.len() - at) as u64;
    Ok(WalScan { header, batches, good_bytes: at as u64, torn_bytes })
}

/// A good frame's payload and end.
fn frame_at(bytes: &[u8], at: usize) -> Result<(&[u8], usize), Corruption> {
    let bad =
        |expected: String, found: String| Corruption::new("wal_frame", at as u64, expected, found);
    let head = bytes.get(at..at + FRAME_HEAD_BYTES);
    let head = head.ok_or_else(|| bad("a frame".into(), format!("{} bytes", bytes.len() - at)))?;
    let (len, crc, kind) = (le_u32(&head[..4]), le_u32(&head[4..8]), head[8]);
    let start = at + FRAME_HEAD_BYTES;
    let end = start.saturating_add(len as usize);
    let Some(payload) = bytes.get(start..end) else {
        let found = format!("{} bytes up to the end of the file", bytes.len() - start);
        return Err(bad(format!("a frame of {len} bytes"), found));
    };
    let found = frame_crc(len, kind, payload);
    if found != crc {
        return Err(bad(format!("crc32 {crc:08x}"), format!("{found:08x}")));
    }
    if ![KIND_BATCHES, KIND_ZEROS].contains(&kind) {
        return Err(bad("a known frame kind".into(), kind.to_string()));
    }
    Ok((payload, end))
}

/// `Ok` if the bytes from `at` can only be an unfinished write; the corruption otherwise.
fn judge_bad_frame(
    bytes: &[u8],
    at: usize,
    header: &WalHeader,
    bad: Corruption,
) -> Result<(), Corruption> {
    let corrupt = |why: &str| Corruption { found: format!("{} ({why})", bad.found), ..bad.clone() };
    let rest = bytes.get(at..).unwrap_or_default();
    if let Some(good) = (at + 1..bytes.len()).find(|next| is_own_frame(bytes, *next, header)) {
        return Err(corrupt(&format!("a good frame follows at byte {good}: the tail is not torn")));
    }
    if rest.len() < FRAME_HEAD_BYTES || is_head_unwritten(bytes, at) {
        return Ok(());
    }
    // A damaged length makes a complete last frame look unfinished: its checksum, taken with the
    // length that the file gives, tells.
    let (claimed, crc, kind) = (le_u32(&rest[..4]), le_u32(&rest[4..8]), rest[8]);
    let payload = rest.get(FRAME_HEAD_BYTES..).unwrap_or_default();
    let actual = payload.len() as u32;
    if claimed != actual && frame_crc(actual, kind, payload) == crc {
        return Err(corrupt("the frame is complete, its length is damaged"));
    }
    // Complete in length, wrong in content: a lost page of an unfinished write is a run of zeros
    // (the kind may lie in it), where the frame has none of its own. Anything else was written whole
    // and has changed since.
    let zeros_tell = [KIND_BATCHES, 0].contains(&kind);
    if claimed <= actual && !(zeros_tell && has_zero_sector(bytes, at)) {
        return Err(corrupt("the frame is complete: it was written whole and has changed"));
    }
    Ok(())
}

/// Whether a good frame of this very log begins at `at`. Bytes inside an event can look like a
/// frame (sixteen bytes of a client's id hold a small one, checksum and all), so its first event
/// must be one of this log. The checksum comes last: it is what costs, at every offset.
fn is_own_frame(bytes: &[u8], at: usize, header: &WalHeader) -> bool {
    let Some(head) = bytes.get(at..at + FRAME_HEAD_BYTES) else { return false };
    let start = at + FRAME_HEAD_BYTES;
    let end = start.saturating_add(le_u32(&head[..4]) as usize);
    let Some(payload) = bytes.get(start..end) else { return false };
    [KIND_BATCHES, KIND_ZEROS].contains(&head[8])
        && log_id_of(payload).is_ok_and(|log_id| log_id == header.log_id)
        && frame_at(bytes, at).is_ok()
}

/// The log of a frame's first event, or of its first request if it stored none.
fn log_id_of(payload: &[u8]) -> Result<[u8; 16], Corruption> {
    let mut reader = Reader::new(payload, "wal_frame");
    reader.array_exact(3)?;
    reader.uint()?;
    let request = if reader.null()? { None } else { Some(RequestEntry::read(&mut reader)?) };
    if reader.array()? > 0 {
        return Ok(decode_full(reader.bytes()?, "wal_frame")?.1.log_id);
    }
    let nobody = || Corruption::new("wal_frame", None, "an event or a request", "neither");
    request.and_then(|request| request.stored_none()).ok_or_else(nobody)
}

/// Whether the sector in which the frame begins still holds, from there on, the zeros behind the
/// end of the write before. No written head is zero: its kind is not.
fn is_head_unwritten(bytes: &[u8], at: usize) -> bool {
    let end = (at + 1).next_multiple_of(SECTOR).min(bytes.len());
    let begun = bytes.get(at..end).unwrap_or_default();
    begun.len() >= FRAME_HEAD_BYTES && begun.iter().all(|byte| *byte == 0)
}

/// Whether a file-aligned sector after `at` is all zero. The last, unfinished one counts only if
/// it is long enough not to be the zeros in which many an event ends.
fn has_zero_sector(bytes: &[u8], at: usize) -> bool {
    let first = at.next_multiple_of(SECTOR);
    let sectors = bytes.get(first..).unwrap_or_default();
    sectors
        .chunks(SECTOR)
        .filter(|sector| sector.len() >= ZEROS_LEAST)
        .any(|sector| sector.iter().all(|byte| *byte == 0))
}

/// A one-line description for `inspect`.
pub fn describe(scan: &WalScan) -> String {
    let events: usize = scan.batches.iter().map(|(_, batch)| batch.events.len()).sum();
    format!(
        "shard {} from seq {}, log id {}: {} batches, {events} events, {} torn bytes",
        scan.header.shard,
        scan.header.start,
        hex(&scan.header.log_id),
        scan.batches.len(),
        scan.torn_bytes
    )
}

#[cfg(test)]
mod tests;
