//! A leaf depends on the event and its place alone: not on how it was spelled, cut, sorted, encoded
//! or compressed.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod said;

use std::io::Cursor;
use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, DictionaryArray, Int32Array, RecordBatch, StringArray};
use arrow_array::{UInt32Array, new_null_array};
use arrow_buffer::Buffer;
use arrow_ipc::CompressionType;
use arrow_ipc::reader::FileReader;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions};
use arrow_schema::{DataType, Field, Schema};
use arrow_select::concat::concat_batches;
use arrow_select::take::take_record_batch;
use proptest::prelude::*;
use said::{Random, SaidEvent, said_event};
use sealcast_common::clock::Micros;
use sealcast_common::event::{
    Event, EventReader, ParseContext, Position, decode_full, encode_leaf, leaf_of, parse_event,
};
use sealcast_common::integrity::{CompactRange, Hash, leaf_hash, log_id};
use sealcast_common::segment::columns::{EventColumns, TextColumn};
use sealcast_common::segment::{
    Expectation, Row, SealRequest, SegmentView, compress, decompress, encode_segment,
    verify_segment,
};

const ORIGIN: &str = "c/0003";

fn context() -> ParseContext {
    ParseContext::new(Micros(1_800_000_000_000_000), [7; 16])
}

fn position(seq: u64) -> Position {
    let ingested_at = Micros(1_800_000_000_000_000 + seq as i64);
    Position { log_id: log_id(ORIGIN), seq, ingested_at }
}

fn leaf(event: &Event, seq: u64) -> Hash {
    leaf_hash(&encode_leaf(&event.as_ref(), &position(seq)).unwrap())
}

/// The leaf by each path that a JSON text takes: plain, quick, and back from the write-ahead log.
fn leaves_of_text(text: &str, seq: u64) -> Vec<Hash> {
    let (at, mut full) = (position(seq), Vec::new());
    let plain = parse_event(text, &context()).unwrap();
    let (quick, prepared) = EventReader::default().read(text, &context()).unwrap();
    prepared.write(quick.time, &at, &mut full);
    let (back, found) = decode_full(&full, "test").unwrap();
    assert_eq!(found, at);
    vec![leaf(&plain, seq), leaf_of(&full, &quick.as_ref(), &at).unwrap(), leaf(&back, seq)]
}

fn range(begin: u64, leaves: &[Hash]) -> CompactRange {
    let mut range = CompactRange::empty(begin);
    leaves.iter().for_each(|leaf| range.append(*leaf));
    range
}

/// Seals `rows` in any order, sends the file through the store's form, and has it judged.
fn sealed(mut rows: Vec<Row>, leaves: &[Hash], random: &mut Random) -> Vec<RecordBatch> {
    let (start, end) = (rows[0].seq, rows[0].seq + rows.len() as u64);
    random.shuffle(&mut rows);
    let frontier = range(0, &leaves[..start as usize]);
    let request = SealRequest {
        origin: ORIGIN.into(),
        shard: 3,
        frontier: frontier.clone(),
        range: range(start, &leaves[start as usize..end as usize]),
        routing_version: 1,
        sealed_at: Micros(1_900_000_000_000_000),
        requests: Vec::new(),
    };
    let file = encode_segment(rows, &request).unwrap();
    let view = SegmentView::parse(Buffer::from(file.as_slice())).unwrap();
    let object = compress(&file, view.seal().blocks.iter().map(|block| block.offset)).unwrap();
    let back = decompress(&object, file.len() as u64).unwrap();
    assert_eq!(back, file);
    let expect = Expectation { frontier: Some(frontier), ..Expectation::default() };
    verify_segment(Buffer::from(back.as_slice()), &expect).unwrap().1
}

/// Derives every row's leaf from the columns and puts it where its seq says.
fn place(batches: &[RecordBatch], rows: usize) -> Vec<Hash> {
    let mut leaves = vec![None; rows];
    for batch in batches {
        let columns = EventColumns::new(batch).unwrap();
        for row in 0..columns.rows() {
            let seq = columns.seq(row);
            let at =
                Position { log_id: log_id(ORIGIN), seq, ingested_at: columns.ingested_at(row) };
            let leaf = leaf_hash(&encode_leaf(&columns.event(row), &at).unwrap());
            assert_eq!(leaves[seq as usize].replace(leaf), None, "seq {seq} twice");
        }
    }
    leaves.into_iter().map(Option::unwrap).collect()
}

/// A text column as another engine would write it: plain, or another dictionary of the same values.
fn encoded_otherwise(column: &ArrayRef, random: &mut Random) -> ArrayRef {
    let Some(text) = TextColumn::new(column) else { return Arc::clone(column) };
    let values: Vec<Option<&str>> = (0..column.len()).map(|row| text.get(row)).collect();
    match random.below(3) {
        0 => Arc::new(StringArray::from(values)),
        1 => {
            // Descending, each value twice, one unused; every second row says the second copy.
            let mut distinct: Vec<&str> = values.iter().flatten().copied().collect();
            distinct.sort_unstable_by(|a, b| b.cmp(a));
            distinct.dedup();
            let code = |(row, value): (usize, &Option<&str>)| {
                let at = distinct.iter().position(|other| Some(*other) == *value)?;
                Some((2 * at + row % 2) as i32)
            };
            let codes: Int32Array = values.iter().enumerate().map(code).collect();
            let twice = distinct.iter().flat_map(|value| [*value, *value]).chain(["unused"]);
            let dictionary = Arc::new(StringArray::from_iter_values(twice));
            Arc::new(DictionaryArray::<Int32Type>::new(codes, dictionary))
        }
        _ => Arc::clone(column),
    }
}

/// All rows in another order, other columns' order and encodings, with columns of a later schema.
fn rearranged(batches: &[RecordBatch], random: &mut Random) -> RecordBatch {
    let all = concat_batches(&batches[0].schema(), batches).unwrap();
    let mut order: Vec<u32> = (0..all.num_rows() as u32).collect();
    random.shuffle(&mut order);
    let all = take_record_batch(&all, &UInt32Array::from(order)).unwrap();
    let mut columns: Vec<(Field, ArrayRef)> = Vec::new();
    for (field, column) in all.schema().fields().iter().zip(all.columns()) {
        let column = encoded_otherwise(column, random);
        let field = field.as_ref().clone().with_data_type(column.data_type().clone());
        columns.push((field, column));
    }
    for (name, kind) in [("later_text", DataType::Utf8), ("later_number", DataType::Int64)] {
        let nulls = new_null_array(&kind, all.num_rows());
        columns.push((Field::new(name, kind, true), nulls));
    }
    random.shuffle(&mut columns);
    let (fields, columns): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

/// Written in pieces of any size, with or without compression, and read again.
fn rewritten(all: &RecordBatch, random: &mut Random) -> Vec<RecordBatch> {
    let compression = [None, Some(CompressionType::ZSTD)][random.below(2)];
    let options = IpcWriteOptions::default().try_with_compression(compression).unwrap();
    let mut writer = FileWriter::try_new_with_options(Vec::new(), &all.schema(), options).unwrap();
    let mut at = 0;
    while at < all.num_rows() {
        let rows = (1 + random.below(9)).min(all.num_rows() - at);
        writer.write(&all.slice(at, rows)).unwrap();
        at += rows;
    }
    let file = writer.into_inner().unwrap();
    FileReader::try_new(Cursor::new(file), None).unwrap().map(Result::unwrap).collect()
}

/// Events as they were sent, and their leaves.
fn appended(sent: &[SaidEvent], random: &mut Random) -> (Vec<Row>, Vec<Hash>) {
    let row = |(seq, said): (u64, &SaidEvent)| {
        let event = parse_event(&said.spell(random), &context()).unwrap();
        Row { event, seq, ingested_at: position(seq).ingested_at }
    };
    let rows: Vec<Row> = (0..).zip(sent).map(row).collect();
    let leaves = rows.iter().map(|row| leaf(&row.event, row.seq)).collect();
    (rows, leaves)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn spelling_changes_no_leaf(said in said_event(), seed in any::<u64>(), seq in 0u64..1 << 40) {
        let mut random = Random(seed);
        let first = said.spell(&mut random);
        let leaves = leaves_of_text(&first, seq);
        prop_assert!(leaves.iter().all(|leaf| *leaf == leaves[0]), "{first}");
        for _ in 0..6 {
            let other = said.spell(&mut random);
            prop_assert_eq!(&leaves_of_text(&other, seq), &leaves, "{} and {}", first, other);
        }
    }

    #[test]
    fn another_value_is_another_leaf(said in said_event(), seed in any::<u64>()) {
        let mut random = Random(seed);
        let leaves = leaves_of_text(&said.spell(&mut random), 5);
        prop_assert_ne!(&leaves_of_text(&said.spell(&mut random), 6), &leaves);
        for changed in said.changed() {
            let text = changed.spell(&mut random);
            prop_assert_ne!(&leaves_of_text(&text, 5), &leaves, "{}", text);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn cutting_sorting_encoding_and_compression_change_no_leaf(
        sent in prop::collection::vec(said_event(), 1..40),
        seed in any::<u64>(),
    ) {
        let mut random = Random(seed);
        let (rows, leaves) = appended(&sent, &mut random);
        // However the shard is cut into segments …
        for cut_max in [1 + random.below(5), sent.len()] {
            let (mut rest, mut batches) = (rows.clone(), Vec::new());
            while !rest.is_empty() {
                let cut = (1 + random.below(cut_max)).min(rest.len());
                batches.extend(sealed(rest.drain(..cut).collect(), &leaves, &mut random));
            }
            prop_assert_eq!(&place(&batches, sent.len()), &leaves);
            // … and whatever a columnar engine makes of them.
            let all = rearranged(&batches, &mut random);
            let again = rewritten(&all, &mut random);
            prop_assert_eq!(&place(&again, sent.len()), &leaves);
        }
    }
}

#[test]
fn the_engine_really_changes_encodings() {
    let column: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None, Some("b")]));
    let kinds: std::collections::BTreeSet<String> = (0..50)
        .map(|seed| encoded_otherwise(&column, &mut Random(seed)))
        .map(|other| match other.as_dictionary_opt::<Int32Type>() {
            Some(dictionary) => format!("dictionary of {}", dictionary.values().len()),
            None => other.data_type().to_string(),
        })
        .collect();
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), ["Utf8", "dictionary of 5"]);
}
