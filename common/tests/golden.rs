//! Files of every released format version must open and verify for ever.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::path::{Path, PathBuf};

use arrow_buffer::Buffer;
use sealcast_common::clock::Micros;
use sealcast_common::event::{
    Event, ParseContext, Position, encode_full, encode_leaf, parse_event,
};
use sealcast_common::fault::hex;
use sealcast_common::integrity::{CompactRange, file_hash, leaf_hash, log_id};
use sealcast_common::segment::{
    Expectation, Row, SealRequest, SegmentName, encode_segment, verify_segment,
};
use sealcast_common::wal::{self, WalBatch, WalHeader};

const ORIGIN: &str = "golden/0001";
const ROWS: u64 = 40;
/// Root of the tree over the golden events: a leaf that encodes differently changes it.
const ROOT: &str = "0e0db2f93a1646e0a03ad7f2b5217cd999151ab9686f35bf11ea1b226bb0f092";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("tests/golden/v1")
}

fn event(i: u64) -> Event {
    let outcome = ["success", "failure", "denied", "unknown"][i as usize % 4];
    let text = format!(
        r#"{{"event_id":"00000000-0000-4000-8000-{i:012x}","tenant":"tenant-{}","action":"act.{}",
        "time":"2026-01-0{}T00:00:00.{i:06}Z","outcome":"{outcome}","severity":{},"actor_id":"a{}",
        "targets":[{{"type":"doc","id":"{i}"}},{{"name":"né"}}],"message":"m {i}",
        "attributes":{{"i":{i},"f":{i}.5,"big":123456789012345678901234567890,"n":null,"l":[true,"x"]}}}}"#,
        i % 3,
        i % 5,
        i % 9 + 1,
        i % 24 + 1,
        i % 7,
    );
    parse_event(&text, &ParseContext::new(Micros(1_800_000_000_000_000), [0; 16])).unwrap()
}

fn position(seq: u64) -> Position {
    Position {
        log_id: log_id(ORIGIN),
        seq,
        ingested_at: Micros(1_790_000_000_000_000 + seq as i64),
    }
}

fn tree() -> CompactRange {
    let mut range = CompactRange::empty(0);
    for i in 0..ROWS {
        range.append(leaf_hash(&encode_leaf(&event(i).as_ref(), &position(i)).unwrap()));
    }
    range
}

fn segment() -> Vec<u8> {
    let request = SealRequest {
        origin: ORIGIN.into(),
        shard: 1,
        frontier: CompactRange::empty(0),
        range: tree(),
        routing_version: 1,
        sealed_at: Micros(1_790_000_001_000_000),
        requests: Vec::new(),
    };
    let row = |i| Row { event: event(i), seq: i, ingested_at: position(i).ingested_at };
    encode_segment((0..ROWS).map(row).collect::<Vec<_>>(), &request).unwrap()
}

fn log() -> Vec<u8> {
    let mut file = WalHeader { shard: 1, start: 0, log_id: log_id(ORIGIN) }.to_bytes();
    for i in 0..ROWS {
        let full = encode_full(&event(i).as_ref(), &position(i)).unwrap();
        let batch = WalBatch { routing_version: 1, request: None, events: vec![full] };
        file.extend(batch.to_frame().unwrap());
    }
    file
}

#[test]
fn the_tree_over_the_golden_events_is_unchanged() {
    assert_eq!(hex(&tree().root().unwrap()), ROOT);
}

#[test]
fn golden_segments_open_and_verify() {
    let mut seen = 0;
    for entry in std::fs::read_dir(folder()).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        let Some(name) = SegmentName::parse(&name) else { continue };
        let bytes = std::fs::read(entry.path()).unwrap();
        let expect = Expectation {
            file_hash: Some(name.hash.to_vec()),
            cluster: Some("golden".into()),
            frontier: Some(CompactRange::empty(0)),
            root_after: Some(tree().root().unwrap()),
            ..Expectation::default()
        };
        verify_segment(Buffer::from(bytes), &expect).unwrap();
        seen += 1;
    }
    assert!(seen > 0, "no golden segment in {}", folder().display());
}

#[test]
fn golden_logs_scan_to_the_same_events() {
    let bytes = std::fs::read(folder().join("0000000000000000.wal")).unwrap();
    assert_eq!(wal::scan(&bytes).unwrap().batches.len() as u64, ROWS);
    assert_eq!(bytes, log(), "the log's bytes changed: that is a new version");
}

/// Writes the golden files of the current version: run once by hand when a version is released.
#[test]
#[ignore = "writes files; run by hand with --ignored"]
fn write_golden_files() {
    let file = segment();
    let name = SegmentName::new(0, ROWS as u32, &file_hash(&file)).file_name();
    #[expect(clippy::disallowed_methods, reason = "a release tool, not product code")]
    std::fs::write(folder().join(name), file).unwrap();
    #[expect(clippy::disallowed_methods, reason = "a release tool, not product code")]
    std::fs::write(folder().join("0000000000000000.wal"), log()).unwrap();
}
