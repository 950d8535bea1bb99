//! `sealcast inspect`: what a file says about itself. Nothing is verified: see `sealcast verify`.

use arrow_buffer::Buffer;
use sealcast_common::catalog::{CheckpointObject, CommitRecord};
use sealcast_common::cluster::ClusterRecord;
use sealcast_common::fault::hex;
use sealcast_common::integrity::{Checkpoint, HASH_BYTES, Note};
use sealcast_common::segment::{FrameTable, Seal, SegmentView, decompress};
use sealcast_common::wal;

use crate::args::InspectArgs;
use crate::output::{Failure, failed, line, table};

pub(crate) fn run(args: &InspectArgs) -> Result<u8, Failure> {
    let path = args.file.display();
    let bytes = std::fs::read(&args.file)
        .map_err(|error| Failure::new(format!("{path} cannot be read: {error}")))?;
    let name = args.file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if name.ends_with(".seg.zst") {
        let frames = FrameTable::parse(&bytes).map_err(failed)?;
        line(format!(
            "object of {} frames, {} bytes, {} uncompressed",
            frames.frames.len(),
            bytes.len(),
            frames.raw_len()
        ));
        let raw = decompress(&bytes, frames.raw_len()).map_err(failed)?;
        show_segment(raw)?;
    } else if name.ends_with(".seg") {
        show_segment(bytes)?;
    } else if name.ends_with(".wal") {
        let scan = wal::scan(&bytes).map_err(|found| failed(found.in_object(path.to_string())))?;
        line(wal::describe(&scan));
    } else if name.ends_with(".pack") {
        line(format!("hashes of {} leaves", bytes.len() / HASH_BYTES));
    } else if let Some(note) = str::from_utf8(&bytes).ok().and_then(|text| Note::parse(text).ok()) {
        show_note(&note)?;
    } else if let Ok(object) = CheckpointObject::from_object(&bytes, None) {
        show_note(&Note::parse(&object.entry.note).map_err(failed)?)?;
        let widths: Vec<_> = object.edge.levels().iter().map(Vec::len).collect();
        line(format!("  under key {}, hashes at the right edge: {widths:?}", object.entry.key));
    } else if let Ok(record) = ClusterRecord::from_leaf(&bytes) {
        line(format!("leaf of a cluster log: {record:#?}"));
    } else if let Ok((record, hash)) = CommitRecord::from_object(&bytes) {
        show_record(&record, &hash);
    } else {
        let expected = "expected .seg, .seg.zst, .wal, .note, .pack, a commit record, a checkpoint \
                        or a leaf of the cluster log";
        return Err(Failure::new(format!("{path}: not a file of Sealcast")).hint(expected));
    }
    Ok(0)
}

fn show_note(note: &Note) -> Result<(), Failure> {
    let Checkpoint { origin, size, root } = Checkpoint::parse(&note.text).map_err(failed)?;
    line(format!("checkpoint of {origin} at size {size}, root {}", hex(&root)));
    for (name, id, _) in &note.signatures {
        line(format!("signed by {name} (key id {})", hex(id)));
    }
    Ok(())
}

fn show_segment(bytes: Vec<u8>) -> Result<(), Failure> {
    let view = SegmentView::parse(Buffer::from(bytes)).map_err(failed)?;
    let seal = view.seal();
    line(format!(
        "segment of {} (shard {}), rows [{}, {}), sealed {}",
        seal.origin, seal.shard, seal.start, seal.end, seal.sealed_at
    ));
    line(format!(
        "  schema version {}, routing version {}, root after {}",
        seal.schema_version,
        seal.routing_version,
        hex(&seal.root_after)
    ));
    line(format!(
        "  time {} to {}, ingested {} to {}",
        seal.facts.time.0, seal.facts.time.1, seal.facts.ingested_at.0, seal.facts.ingested_at.1
    ));
    line(format!("  {} requests in the idempotency window", seal.requests.len()));
    show_tables(seal);
    Ok(())
}

fn show_tables(seal: &Seal) {
    let text = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let blocks: Vec<Vec<String>> = seal
        .blocks
        .iter()
        .map(|block| {
            let crc = format!("{:08x}", block.crc32);
            vec![format!("{:?}", block.kind), block.offset.to_string(), block.len.to_string(), crc]
        })
        .collect();
    line(table(&text(&["block", "offset", "bytes", "crc32"]), &blocks));
    let tenants: Vec<Vec<String>> = seal
        .facts
        .tenants
        .iter()
        .flatten()
        .map(|run| vec![run.tenant.clone(), run.rows.to_string(), run.time.0.to_string()])
        .collect();
    line(table(&text(&["tenant", "rows", "first time"]), &tenants));
}

fn show_record(record: &CommitRecord, hash: &[u8; 32]) {
    line(format!(
        "commit {} of stream {} (cluster {}), {:?}, epoch {}, committed {}",
        record.seq, record.stream, record.cluster, record.kind, record.epoch, record.committed_at
    ));
    line(format!("  hash {}, previous {}", hex(hash), hex(&record.previous)));
    for add in &record.adds {
        line(format!("  adds {} ({} bytes) as {}", add.id.to_text(), add.bytes, add.key()));
    }
    for (shard, entry) in &record.checkpoints {
        line(format!("  shard {shard} at {} with root {}", entry.size, hex(&entry.root)));
    }
}
