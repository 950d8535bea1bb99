//! One file: a segment, its object form, a log, a commit record, a checkpoint object.

use std::path::Path;

use arrow_buffer::Buffer;
use sealcast_common::catalog::{CheckpointObject, CommitRecord};
use sealcast_common::fault::Corruption;
use sealcast_common::limits::SEGMENT_BYTES_MAX;
use sealcast_common::segment::{Expectation, FrameTable, SegmentName, decompress, verify_segment};
use sealcast_common::wal;

use super::Report;
use super::files::{Unread, read};

pub(super) fn verify(path: &Path) -> Report {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let place = path.display().to_string();
    let bytes = match read(path, SEGMENT_BYTES_MAX, "a file of Sealcast") {
        Ok(bytes) => bytes,
        Err(Unread::Tampered(found)) => return Report::cannot(found.to_string()),
        Err(Unread::Cannot(why)) => return Report::cannot(why),
    };
    let length = bytes.len() as u64;
    let checked = if name.ends_with(".seg.zst") {
        object(name, &bytes)
    } else if name.ends_with(".seg") {
        segment(name, &bytes)
    } else if name.ends_with(".wal") {
        wal::scan(&bytes).map(|scan| {
            let events = scan.batches.iter().map(|(_, batch)| batch.events.len() as u64).sum();
            Report { tail_events: events, ..Report::default() }
        })
    } else if CommitRecord::from_object(&bytes).is_ok() {
        Ok(Report { commits: 1, ..Report::default() })
    } else if CheckpointObject::from_object(&bytes, None).is_ok() {
        Ok(Report::default())
    } else {
        let expected = "expected .seg, .seg.zst, .wal, a commit record or a checkpoint object";
        return Report::cannot(format!("{place}: not a file that can be verified; {expected}"));
    };
    match checked {
        Ok(report) => Report { bytes: length, ..report },
        Err(found) => Report { findings: vec![found.in_object(place)], ..Report::default() },
    }
}

/// A file in itself, and against the hash in its name.
fn segment(name: &str, bytes: &[u8]) -> Result<Report, Corruption> {
    let mut expect = Expectation::default();
    if let Some(name) = SegmentName::parse(name) {
        expect.file_hash = Some(name.hash.to_vec());
        expect.range = Some((name.start, name.end()));
    }
    let (view, _) = verify_segment(Buffer::from(bytes), &expect)?;
    Ok(Report { segments: 1, rows: view.seal().rows(), ..Report::default() })
}

fn object(name: &str, bytes: &[u8]) -> Result<Report, Corruption> {
    let raw_len = FrameTable::parse(bytes)?.raw_len();
    let raw = decompress(bytes, raw_len)?;
    segment(name.trim_end_matches(".zst"), &raw)
}
