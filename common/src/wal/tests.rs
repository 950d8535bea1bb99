//! Every cut, every flipped bit and every lost page of small logs.

use super::*;
use crate::clock::Micros;
use crate::event::{Event, Position, encode_full};

fn event(seq: u64, change: impl Fn(&mut Event)) -> Vec<u8> {
    let mut event = Event { tenant: "t".into(), action: "a".into(), ..Event::default() };
    change(&mut event);
    let position = Position { log_id: [9; 16], seq, ingested_at: Micros(1) };
    encode_full(&event.as_ref(), &position).unwrap()
}

fn batch(events: Vec<Vec<u8>>) -> Vec<u8> {
    WalBatch { routing_version: 1, request: None, events }.to_frame().unwrap()
}

fn header() -> Vec<u8> {
    WalHeader { shard: 2, start: 40, log_id: [9; 16] }.to_bytes()
}

fn file(batches: usize, bytes: usize) -> (Vec<u8>, Vec<usize>) {
    let mut file = header();
    let mut offsets = Vec::new();
    for i in 0..batches as u64 {
        let first = event(40 + i * 2, |event| event.message = Some("m".repeat(bytes)));
        offsets.push(file.len());
        file.extend(batch(vec![first, event(41 + i * 2, |_| {})]));
    }
    (file, offsets)
}

#[test]
fn what_looks_like_a_frame_inside_an_event_does_not_keep_a_torn_end() {
    let inner = batch(Vec::new());
    let mut file = header();
    file.extend(batch(vec![event(40, |event| {
        event.event_id[..inner.len()].copy_from_slice(&inner);
        event.message = Some("m".repeat(3_000));
    })]));
    let scan = scan(&file[..file.len() - 500]).unwrap();
    assert_eq!((scan.batches.len(), scan.good_bytes as usize), (0, HEADER_BYTES));
}

#[test]
fn zeros_at_the_end_of_an_event_are_no_lost_page() {
    for pad in 0..SECTOR {
        let mut file = header();
        file.extend(batch(vec![event(40, |event| {
            event.actor_id = Some("y".repeat(600 + pad));
            event.attributes = Some(r#"{"n":0.0}"#.into());
        })]));
        file[200] ^= 1;
        assert_eq!(scan(&file).unwrap_err().offset, Some(HEADER_BYTES as u64), "{pad}");
    }
}

#[test]
fn a_long_torn_end_full_of_heads_is_judged_at_once() {
    let mut file = header();
    file.extend([0, 0, 0, 0x0f, 1, 1, 1, 1, KIND_BATCHES]);
    while file.len() < 8 << 20 {
        file.extend([0, 0, 0x20, 0, 1, 1, 1, 1, KIND_BATCHES, 0x83, 1, 0xf6, 0x81]);
    }
    assert_eq!(scan(&file).unwrap().good_bytes as usize, HEADER_BYTES);
}

#[test]
fn what_is_written_is_read() {
    let (file, offsets) = file(3, 100);
    let scan = scan(&file).unwrap();
    assert_eq!((scan.header.start, scan.header.shard), (40, 2));
    assert_eq!(scan.batches.iter().map(|(at, _)| *at as usize).collect::<Vec<_>>(), offsets);
    assert_eq!((scan.good_bytes, scan.torn_bytes), (file.len() as u64, 0));
}

#[test]
fn every_cut_of_the_last_write_is_torn_and_loses_only_it() {
    let (file, offsets) = file(3, 100);
    for len in offsets[2] + 1..file.len() {
        let scan = scan(&file[..len]).unwrap();
        assert_eq!((scan.batches.len(), scan.good_bytes as usize), (2, offsets[2]));
    }
}

#[test]
fn an_unwritten_page_of_the_last_write_is_torn() {
    let (mut file, offsets) = file(2, 4_000);
    let zeros = (offsets[1] + 100).next_multiple_of(SECTOR);
    file[zeros..zeros + SECTOR].fill(0);
    assert_eq!(scan(&file).unwrap().good_bytes as usize, offsets[1]);
}

#[test]
fn an_unwritten_begin_of_the_last_write_is_torn() {
    // Short frames, whose zeros fill no whole sector; one that goes on in the next one.
    for bytes in [20, 600] {
        let (mut file, offsets) = file(2, bytes);
        let (at, len) = (offsets[1], file.len());
        file[at..(at + 1).next_multiple_of(SECTOR).min(len)].fill(0);
        assert_eq!(scan(&file).unwrap().good_bytes as usize, at, "{bytes}");
    }
}

#[test]
fn every_flipped_bit_of_a_written_frame_is_corruption_with_its_offset() {
    let (file, offsets) = file(3, 60);
    for at in HEADER_BYTES..file.len() {
        for bit in [0, 3, 7] {
            let mut bad = file.clone();
            bad[at] ^= 1 << bit;
            let found = scan(&bad).unwrap_err();
            let frame = offsets.iter().rfind(|offset| **offset <= at).unwrap();
            assert_eq!((found.check, found.offset), ("wal_frame", Some(*frame as u64)), "{at}");
        }
    }
}

#[test]
fn a_frame_without_events_is_as_good_as_any_other() {
    let first = (RequestEntry::NO_ROWS, [9; 16], u64::MAX);
    let events = vec![first, (0, [1; 16], 40)];
    let (key, body_digest, at) = ("k".to_owned(), [5; 32], Micros(1));
    let request = Some(RequestEntry { key, body_digest, at, events });
    let repeats = WalBatch { routing_version: 1, request, events: Vec::new() };
    let (mut file, offsets) = file(1, 100);
    file.extend(repeats.to_frame().unwrap());
    assert_eq!(scan(&file).unwrap().batches[1].1, repeats);
    // It proves that the damaged frame before it is no torn end.
    file[offsets[0] + 60] ^= 1;
    assert_eq!(scan(&file).unwrap_err().offset, Some(offsets[0] as u64));
}

#[test]
fn a_flipped_header_is_refused() {
    let (file, _) = file(1, 10);
    for at in 0..HEADER_BYTES {
        let mut bad = file.clone();
        bad[at] ^= 1;
        assert_eq!(scan(&bad).unwrap_err().check, "wal_header", "{at}");
    }
}

/// Two acknowledged frames, then a group of three requests; where the group begins.
fn grouped() -> (Vec<u8>, usize) {
    let (mut file, _) = file(2, 100);
    let at = file.len();
    let mut group = Frame::default();
    for seq in 44..47 {
        let mut events = Writer::new();
        events.bytes(&event(seq, |event| event.message = Some("m".repeat(1_500))));
        group.add(1, None, 1, &events.finish()).unwrap();
    }
    file.extend(group.finish());
    (file, at)
}

#[test]
fn a_group_is_torn_as_a_whole() {
    let (file, at) = grouped();
    assert_eq!(scan(&file).unwrap().batches.len(), 2 + 3);
    for len in at + 1..file.len() {
        let scan = scan(&file[..len]).unwrap();
        assert_eq!((scan.batches.len(), scan.good_bytes as usize), (2, at), "cut at {len}");
    }
    for page in (at.next_multiple_of(SECTOR)..file.len()).step_by(SECTOR) {
        let mut lost = file.clone();
        let end = (page + SECTOR).min(lost.len());
        lost[page..end].fill(0);
        assert_eq!(scan(&lost).unwrap().good_bytes as usize, at, "page at {page}");
    }
    for byte in at..file.len() {
        let mut bad = file.clone();
        bad[byte] ^= 1;
        assert_eq!(scan(&bad).unwrap_err().offset, Some(at as u64), "byte {byte}");
    }
}

#[test]
fn zeros_of_an_event_are_no_lost_page() {
    let mut file = header();
    let nul = |event: &mut Event| event.message = Some("\0".repeat(1_100));
    file.extend(batch(vec![event(40, nul), event(41, |_| {})]));
    assert_eq!(scan(&file).unwrap().batches.len(), 1);
    for byte in HEADER_BYTES..file.len() {
        for bit in 0..8 {
            let mut bad = file.clone();
            bad[byte] ^= 1 << bit;
            assert_eq!(scan(&bad).unwrap_err().offset, Some(HEADER_BYTES as u64), "{byte}");
        }
    }
    // What tells without them still does.
    for len in HEADER_BYTES + 1..file.len() {
        assert_eq!(scan(&file[..len]).unwrap().good_bytes as usize, HEADER_BYTES, "{len}");
    }
    file[HEADER_BYTES..SECTOR].fill(0);
    assert_eq!(scan(&file).unwrap().good_bytes as usize, HEADER_BYTES);
}
