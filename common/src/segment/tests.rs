//! Segments: what is sealed verifies, and no byte of it can change unnoticed.

use std::collections::BTreeSet;

use arrow_array::Array as _;
use arrow_buffer::Buffer;
use proptest::prelude::*;

use super::*;
use crate::clock::Micros;
use crate::event::{Event, Position, Target, encode_leaf};
use crate::integrity::{CompactRange, file_hash, leaf_hash, log_id};

const ORIGIN: &str = "c/0003";

fn event(i: u64) -> Event {
    Event {
        event_id: u128::from(i).to_be_bytes(),
        tenant: format!("tenant-{}", i % 3),
        time: Micros(1_000_000 + (i as i64 * 7_919) % 1_000),
        action: ["login", "logout", "read"][i as usize % 3].into(),
        actor_id: (!i.is_multiple_of(4)).then(|| format!("actor-{}", i % 5)),
        targets: (0..i % 3)
            .map(|t| Target { kind: Some("file".into()), id: Some(format!("{t}")), name: None })
            .collect(),
        outcome: (!i.is_multiple_of(5)).then(|| "success".to_owned()),
        severity: i.is_multiple_of(2).then_some(9),
        attributes: Some(format!(r#"{{"n":{i}}}"#)),
        ..Event::default()
    }
}

/// A sealed file of `rows` rows after `start` others, and its frontier.
fn sealed(start: u64, rows: u64) -> (Vec<u8>, CompactRange) {
    let leaf = |i: u64| {
        let position =
            Position { log_id: log_id(ORIGIN), seq: i, ingested_at: Micros(2_000_000 + i as i64) };
        leaf_hash(&encode_leaf(&event(i).as_ref(), &position).unwrap())
    };
    let mut frontier = CompactRange::empty(0);
    (0..start).for_each(|i| frontier.append(leaf(i)));
    let mut range = CompactRange::empty(start);
    (start..start + rows).for_each(|i| range.append(leaf(i)));
    let request = SealRequest {
        origin: ORIGIN.into(),
        shard: 3,
        frontier: frontier.clone(),
        range,
        routing_version: 1,
        sealed_at: Micros(3_000_000),
        requests: vec![RequestEntry {
            key: "k".into(),
            body_digest: [1; 32],
            at: Micros(2_000_000),
            events: vec![(0, [2; 16], start)],
        }],
    };
    let rows: Vec<_> = (start..start + rows)
        .map(|i| Row { event: event(i), seq: i, ingested_at: Micros(2_000_000 + i as i64) })
        .collect();
    (encode_segment(rows, &request).unwrap(), frontier)
}

fn expectation(file: &[u8], start: u64, rows: u64, frontier: CompactRange) -> Expectation {
    Expectation {
        file_hash: Some(file_hash(file)[..16].to_vec()),
        bytes: Some(file.len() as u64),
        cluster: Some("c".into()),
        shard: Some(3),
        range: Some((start, start + rows)),
        frontier: Some(frontier),
        root_after: None,
    }
}

#[test]
fn a_sealed_file_verifies_and_answers() {
    let (file, frontier) = sealed(100, 700);
    let expect = expectation(&file, 100, 700, frontier);
    let (view, batches) = verify_segment(Buffer::from(file.as_slice()), &expect).unwrap();
    assert_eq!(batches.iter().map(|batch| batch.num_rows()).sum::<usize>(), 700);
    let tenants = view.seal().facts.tenants.as_ref().unwrap();
    assert_eq!(tenants.len(), 3);
    assert_eq!(view.seal().requests.len(), 1);
    let wanted = u128::from(345u64).to_be_bytes();
    let rows = view.index(BlockKind::EventIndex).unwrap().candidates(event_hash(&wanted));
    let columns = columns::EventColumns::new(&batches[0]).unwrap();
    let found: Vec<u64> = rows
        .iter()
        .filter(|row| columns.event(**row as usize).event_id == wanted)
        .map(|row| columns.seq(*row as usize))
        .collect();
    assert_eq!(found, [345]);
}

#[test]
fn several_batches_verify() {
    let rows = crate::limits::BATCH_ROWS_MAX as u64 + 77;
    let (file, frontier) = sealed(0, rows);
    let expect = expectation(&file, 0, rows, frontier);
    let (view, batches) = verify_segment(Buffer::from(file.as_slice()), &expect).unwrap();
    assert_eq!((batches.len(), view.seal().zones.len()), (2, 2));
    // Whoever holds a row of the small one is charged for its message, not for the file.
    let held = batches[1].column(0).get_buffer_memory_size();
    assert!(held < file.len() / 10, "{held} of {}", file.len());
}

#[test]
fn arrow_readers_open_the_file() {
    let (file, _) = sealed(0, 50);
    let reader = arrow_ipc::reader::FileReader::try_new(std::io::Cursor::new(file), None).unwrap();
    let rows: usize = reader.map(|batch| batch.unwrap().num_rows()).sum();
    assert_eq!(rows, 50);
}

#[test]
fn every_flipped_byte_is_found_by_a_named_check() {
    let (file, frontier) = sealed(5, 40);
    let expect = expectation(&file, 5, 40, frontier);
    let mut checks = BTreeSet::new();
    for at in (0..file.len()).step_by(13).chain(file.len() - 200..file.len()) {
        let mut bad = file.clone();
        bad[at] ^= 0x10;
        let found = verify_segment(Buffer::from(bad.as_slice()), &expect).unwrap_err();
        checks.insert(found.check);
    }
    assert!(checks.contains("crc32") && checks.contains("blake3"), "{checks:?}");
}

#[test]
fn without_the_hash_from_outside_the_rows_still_tell() {
    // An attacker rewrites a row and every checksum, but holds no key: the leaves disagree.
    let (_, frontier) = sealed(0, 30);
    let mut rows: Vec<Row> = (0..30)
        .map(|i| Row { event: event(i), seq: i, ingested_at: Micros(2_000_000 + i as i64) })
        .collect();
    rows[7].event.action = "forged".into();
    let (honest, _) = sealed(0, 30);
    let honest = SegmentView::parse(Buffer::from(honest.as_slice())).unwrap();
    let nodes = honest.seal().range_nodes.clone();
    let request = SealRequest {
        origin: ORIGIN.into(),
        shard: 3,
        frontier: frontier.clone(),
        range: CompactRange::from_nodes(0, 30, nodes).unwrap(),
        routing_version: 1,
        sealed_at: Micros(3_000_000),
        requests: Vec::new(),
    };
    let forged = encode_segment(rows, &request).unwrap();
    let expect = Expectation { frontier: Some(frontier), ..Expectation::default() };
    let found = verify_segment(Buffer::from(forged.as_slice()), &expect).unwrap_err();
    assert_eq!(found.check, "leaves");
}

#[test]
fn expectations_from_outside_are_enforced_by_name() {
    let (file, frontier) = sealed(10, 20);
    let good = expectation(&file, 10, 20, frontier);
    let verify = |expect: &Expectation| {
        verify_segment(Buffer::from(file.as_slice()), expect).unwrap_err().check
    };
    assert_eq!(verify(&Expectation { shard: Some(4), ..good.clone() }), "shard");
    assert_eq!(verify(&Expectation { cluster: Some("d".into()), ..good.clone() }), "origin");
    assert_eq!(verify(&Expectation { range: Some((9, 29)), ..good.clone() }), "contiguity");
    assert_eq!(verify(&Expectation { bytes: Some(1), ..good.clone() }), "length");
    let other = Some(CompactRange::empty(0));
    assert_eq!(verify(&Expectation { frontier: other, ..good.clone() }), "frontier");
    assert_eq!(verify(&Expectation { root_after: Some([0; 32]), ..good }), "root");
}

#[test]
fn frames_give_the_same_bytes_and_refuse_damage() {
    let (file, _) = sealed(0, 200);
    let view = SegmentView::parse(Buffer::from(file.as_slice())).unwrap();
    let cuts = view.seal().blocks.iter().map(|block| block.offset);
    let object = compress(&file, cuts).unwrap();
    assert!(object.len() < file.len());
    assert_eq!(FrameTable::parse(&object).unwrap().frames.len(), view.seal().blocks.len());
    assert_eq!(decompress(&object, file.len() as u64).unwrap(), file);
    assert_eq!(decompress(&object, 1).unwrap_err().check, "length");
    // A frame has no checksum of its own (the object's hash is in the commit): damage is refused or
    // gives other bytes, which the hashes tell; the table and its ending are refused by themselves.
    let table = object.len() - 16 - view.seal().blocks.len() * 32;
    for at in 0..object.len() {
        let mut bad = object.clone();
        bad[at] ^= 1;
        match decompress(&bad, file.len() as u64) {
            Err(_) => {}
            Ok(raw) => assert!(at < table && raw.len() == file.len(), "byte {at}"),
        }
    }
}

#[test]
fn names_round_trip_and_strangers_are_ignored() {
    let name = SegmentName::new(256, 7, &[0xab; 32]);
    assert_eq!(SegmentName::parse(&name.file_name()), Some(name.clone()));
    for other in ["x.seg", "seal.note", &name.note_name(), &format!("{}.tmp", name.file_name())] {
        assert_eq!(SegmentName::parse(other), None, "{other}");
    }
}

/// `file` with another footer metadata: everything else stays.
fn resealed(file: &[u8], change: impl Fn(&mut Seal)) -> Vec<u8> {
    let view = SegmentView::parse(Buffer::from(file)).unwrap();
    let mut seal = Seal::clone(view.seal());
    let before = seal.to_footer();
    change(&mut seal);
    let after = seal.to_footer();
    assert_eq!(before.len(), after.len());
    let at = file.windows(before.len()).rposition(|window| window == before.as_bytes()).unwrap();
    let mut forged = file.to_vec();
    forged[at..at + after.len()].copy_from_slice(after.as_bytes());
    forged
}

#[test]
fn a_seal_that_would_hide_rows_is_refused() {
    let rows = 500;
    let (file, _) = sealed(0, rows);
    let same = resealed(&file, |_| {});
    verify_segment(Buffer::from(same.as_slice()), &Expectation::default()).unwrap();
    let forged = resealed(&file, |seal| seal.batch_rows = 256);
    let found = verify_segment(Buffer::from(forged.as_slice()), &Expectation::default());
    assert_eq!(found.unwrap_err().check, "zone_maps");
}

#[test]
fn a_row_has_one_form() {
    use std::sync::Arc;

    use arrow_array::cast::AsArray as _;
    use arrow_array::{
        Array as _, DictionaryArray, ListArray, RecordBatch, StringArray, StructArray,
    };
    use arrow_buffer::NullBuffer;
    use form::verify_form;

    let (file, _) = sealed(0, 30);
    let batches = SegmentView::parse(Buffer::from(file.as_slice())).unwrap().decode().unwrap();
    verify_form(&batches).unwrap();
    let batch = &batches[0];
    let with = |name: &str, column: arrow_array::ArrayRef| {
        let mut columns = batch.columns().to_vec();
        columns[batch.schema().index_of(name).unwrap()] = column;
        verify_form(&[RecordBatch::try_new(batch.schema(), columns).unwrap()])
    };
    let (field, offsets, values, _) =
        batch.column_by_name("targets").unwrap().as_list::<i32>().clone().into_parts();
    let empty = ListArray::new(Arc::clone(&field), offsets.clone(), Arc::clone(&values), None);
    assert_eq!(with("targets", Arc::new(empty)).unwrap_err().check, "schema");
    let (fields, parts, _) = values.as_struct().clone().into_parts();
    let nulls = NullBuffer::new_null(values.len());
    let hidden = Arc::new(StructArray::new(fields, parts, Some(nulls)));
    let nulls = batch.column_by_name("targets").unwrap().nulls().cloned();
    let hidden = ListArray::new(field, offsets, hidden, nulls);
    assert_eq!(with("targets", Arc::new(hidden)).unwrap_err().check, "schema");
    let keys = batch
        .column_by_name("action")
        .unwrap()
        .as_dictionary::<arrow_array::types::Int32Type>()
        .keys()
        .clone();
    let values = Arc::new(StringArray::from(vec!["read", "logout", "login"]));
    let unsorted = DictionaryArray::new(keys, values);
    assert_eq!(with("action", Arc::new(unsorted)).unwrap_err().check, "schema");
}

#[test]
fn compressed_buffers_are_refused_before_they_are_unpacked() {
    let (file, _) = sealed(0, 300);
    let view = SegmentView::parse(Buffer::from(file.as_slice())).unwrap();
    let batches = view.decode().unwrap();
    let options =
        arrow_ipc::writer::IpcWriteOptions::try_new(64, false, arrow_ipc::MetadataVersion::V5)
            .and_then(|options| {
                options.try_with_compression(Some(arrow_ipc::CompressionType::ZSTD))
            })
            .unwrap();
    let mut writer =
        arrow_ipc::writer::FileWriter::try_new_with_options(Vec::new(), view.schema(), options)
            .unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    let mut seal = Seal::clone(view.seal());
    seal.blocks = encode::split_blocks(writer.get_ref()).unwrap();
    writer.write_metadata(seal::SEAL_KEY, seal.to_footer());
    writer.finish().unwrap();
    let file = writer.into_inner().unwrap();
    let found = SegmentView::parse(Buffer::from(file.as_slice())).unwrap().decode().unwrap_err();
    assert_eq!((found.check, found.found.as_str()), ("arrow", "compressed buffers"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn hostile_files_never_panic(noise in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40), cut in any::<prop::sample::Index>()) {
        let (mut file, _) = sealed(0, 20);
        for (at, byte) in noise {
            let at = at.index(file.len());
            file[at] = byte;
        }
        file.truncate(cut.index(file.len()).max(file.len() / 2));
        let _ = verify_segment(Buffer::from(file.as_slice()), &Expectation::default());
        let _ = FrameTable::parse(&file);
    }
}
