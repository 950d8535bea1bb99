//! The judge's caller and the only maker of a [`VerifiedSegment`]: bytes → trusted, or refused.
//!
//! Order, cheap first, nothing kept before all have passed: object (length, BLAKE3, frames) →
//! temporary file, synced and mapped → `verify_segment` over exactly the mapped bytes (length,
//! BLAKE3, CRC32 per block, identity, Arrow, leaves, tree, facts, indexes) → what the signed commit
//! and its predecessor say → mode 0400, rename, sync the folder.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;
use sealcast_common::catalog::Descriptor;
use sealcast_common::durable::Durable;
use sealcast_common::fault::{Corruption, hex};
use sealcast_common::integrity::{CompactRange, file_hash, range_digest};
use sealcast_common::segment::{Expectation, Seal, SegmentView, decompress, verify_segment};

use crate::evict::Rights;
use crate::mmap::{Mapped, map_file};
use crate::sigbus::MapWatch;
use crate::snapshot::SegmentEntry;

/// A segment whose mapped bytes have passed every check. SQL accepts nothing else.
#[derive(Debug)]
pub struct VerifiedSegment {
    descriptor: Arc<Descriptor>,
    view: SegmentView,
    batches: Vec<RecordBatch>,
    watch: MapWatch,
}

impl VerifiedSegment {
    /// Tells whether all of it could be read so far. Every buffer borrows the file's pages, so what
    /// was made of them is true only if this is asked afterwards: see
    /// [`crate::VaultSnapshot::check`].
    pub fn watch(&self) -> &MapWatch {
        &self.watch
    }

    /// What the commit says; equal to what the file says.
    pub fn descriptor(&self) -> &Arc<Descriptor> {
        &self.descriptor
    }

    /// What the footer says.
    pub fn seal(&self) -> &Arc<Seal> {
        self.view.seal()
    }

    /// The file: its schema, blocks and indexes.
    pub fn view(&self) -> &SegmentView {
        &self.view
    }

    /// The rows, decoded once; every buffer borrows the map and keeps it alive.
    pub fn batches(&self) -> &[RecordBatch] {
        &self.batches
    }
}

/// Files of evidence that one folder keeps: the first ones.
const EVIDENCE_FILES_MAX: usize = 64;

/// Why bytes were not admitted.
#[derive(Debug)]
pub(crate) enum Rejected {
    /// They are wrong: quarantine.
    Bytes(Corruption),
    /// The local disk failed: nothing is known about them.
    Disk(io::Error),
    /// The object store failed: nothing is known about them.
    Store(String),
}

impl From<io::Error> for Rejected {
    fn from(error: io::Error) -> Self {
        Rejected::Disk(error)
    }
}

/// Where a fetched segment's bytes go.
#[derive(Debug)]
pub(crate) struct Paths {
    /// Written and judged here.
    pub(crate) temporary: std::path::PathBuf,
    /// Published here.
    pub(crate) file: std::path::PathBuf,
    /// Kept here when they are bad, without extension.
    pub(crate) quarantine: std::path::PathBuf,
}

/// Judges an object as fetched. On success the file is published and mapped.
pub(crate) fn admit_object(
    entry: &SegmentEntry,
    object: &[u8],
    paths: &Paths,
    rights: Rights,
    files: &dyn Durable,
) -> Result<VerifiedSegment, Rejected> {
    let raw = unpack(object, &entry.descriptor).map_err(|corruption| {
        keep_evidence(files, &paths.quarantine.with_extension("seg.zst"), object);
        Rejected::Bytes(corruption.in_object(entry.descriptor.key()))
    })?;
    // All blocks of the file are allocated by this: a full disk is an error here, and never a
    // fault when the map is read.
    let written = files.write_new(&paths.temporary, &raw);
    drop(raw);
    let judged = written
        .and_then(|()| map_file(&paths.temporary, rights))
        .map_err(Rejected::Disk)
        .and_then(|mapped| judge(mapped, entry).map_err(Rejected::Bytes))
        .and_then(|segment| Ok(publish(paths, files).map(|()| segment)?));
    judged.map_err(|rejected| match rejected {
        Rejected::Bytes(corruption) => {
            move_evidence(files, &paths.temporary, &paths.quarantine.with_extension("seg"));
            Rejected::Bytes(corruption.in_object(entry.descriptor.key()))
        }
        other => {
            discard(files, &paths.temporary);
            other
        }
    })
}

/// Judges a file of the local cache. `listed`: all rows were judged when it arrived, so its BLAKE3
/// says it all; `checked`: and that was compared in this process already.
pub(crate) fn admit_file(
    entry: &SegmentEntry,
    path: &Path,
    rights: Rights,
    (listed, checked): (bool, bool),
) -> Result<VerifiedSegment, Rejected> {
    let mapped = map_file(path, rights)?;
    let wanted = &entry.descriptor;
    let intact = listed
        && mapped.buffer.len() as u64 == wanted.bytes
        && (checked || file_hash(mapped.buffer.as_slice()) == wanted.id.hash);
    let judged = if intact { read(mapped, entry) } else { judge(mapped, entry) };
    judged.map_err(|corruption| Rejected::Bytes(corruption.in_object(path.display().to_string())))
}

/// The whole judgement.
fn judge(mapped: Mapped, entry: &SegmentEntry) -> Result<VerifiedSegment, Corruption> {
    let wanted = &entry.descriptor;
    let expect = Expectation {
        file_hash: Some(wanted.id.hash.to_vec()),
        bytes: Some(wanted.bytes),
        cluster: Some(entry.cluster.clone()),
        shard: Some(wanted.id.shard),
        range: Some((wanted.id.start, wanted.end())),
        frontier: None,
        root_after: Some(wanted.root_after),
    };
    let Mapped { buffer, watch } = mapped;
    let judged = verify_segment(buffer, &expect);
    // Zeros in the place of what could not be read are no finding about the bytes.
    check_read(&watch)?;
    let (view, batches) = judged?;
    judge_lineage(view.seal(), entry)?;
    Ok(VerifiedSegment { descriptor: Arc::clone(wanted), view, batches, watch })
}

/// Bytes that are known to have been judged: parsed and decoded, Arrow's validation included.
fn read(mapped: Mapped, entry: &SegmentEntry) -> Result<VerifiedSegment, Corruption> {
    let Mapped { buffer, watch } = mapped;
    let decoded = SegmentView::parse(buffer).and_then(|view| Ok((view.decode()?, view)));
    check_read(&watch)?;
    let (batches, view) = decoded?;
    Ok(VerifiedSegment { descriptor: Arc::clone(&entry.descriptor), view, batches, watch })
}

/// An error if a page that was asked for could not be read.
pub(crate) fn check_read(watch: &MapWatch) -> Result<(), Corruption> {
    match watch.fault() {
        Some(offset) => {
            let found = "a page that the disk does not give: the file was cut or the disk failed";
            Err(Corruption::new("mapping", offset, "every mapped page", found))
        }
        None => Ok(()),
    }
}

/// The file against the signed commit and against its predecessor in the shard. A root stands for
/// exactly one frontier, so this needs the predecessor's descriptor only, in whatever order
/// segments arrive.
fn judge_lineage(seal: &Seal, entry: &SegmentEntry) -> Result<(), Corruption> {
    let wanted = &entry.descriptor;
    let digest = range_digest(&seal.range_nodes);
    if digest != wanted.range_digest {
        let (expected, found) = (hex(&wanted.range_digest), hex(&digest));
        return Err(Corruption::new("range_nodes", None, expected, found));
    }
    let frontier = CompactRange::from_nodes(0, seal.start, seal.frontier_before.clone())?;
    let root = frontier.root()?;
    if root != entry.root_before {
        let (expected, found) = (hex(&entry.root_before), hex(&root));
        return Err(Corruption::new("frontier", None, expected, found));
    }
    let earliest = seal.facts.ingested_at.0;
    if earliest < entry.ingested_after {
        let expected = format!("not before {}", entry.ingested_after);
        return Err(Corruption::new("ingest_time", None, expected, earliest.to_string()));
    }
    let file = (&wanted.id.hash, wanted.bytes);
    let found = Descriptor::new(seal, file, (&wanted.object_hash, wanted.object_bytes));
    if found != **wanted {
        let expected = "times, tenants and versions as the file gives them";
        return Err(Corruption::new("descriptor", None, expected, "others in the commit"));
    }
    Ok(())
}

/// Object → file bytes. Nothing larger than the signed commit says is allocated.
fn unpack(object: &[u8], wanted: &Descriptor) -> Result<Vec<u8>, Corruption> {
    check_object_length(object.len() as u64, wanted)?;
    let found = file_hash(object);
    if found != wanted.object_hash {
        // The frames often know where.
        let place = decompress(object, wanted.bytes).err().and_then(|error| error.offset);
        let (expected, found) = (hex(&wanted.object_hash), hex(&found));
        return Err(Corruption::new("object_blake3", place, expected, found));
    }
    decompress(object, wanted.bytes)
}

pub(crate) fn check_object_length(found: u64, wanted: &Descriptor) -> Result<(), Corruption> {
    if found == wanted.object_bytes {
        return Ok(());
    }
    let expected = format!("{} bytes", wanted.object_bytes);
    Err(Corruption::new("object_length", None, expected, format!("{found} bytes")))
}

fn publish(paths: &Paths, files: &dyn Durable) -> io::Result<()> {
    std::fs::set_permissions(&paths.temporary, std::fs::Permissions::from_mode(0o400))?;
    files.rename(&paths.temporary, &paths.file)
}

/// Best effort: a finding counts even if its evidence cannot be kept.
pub(crate) fn keep_evidence(files: &dyn Durable, path: &Path, bytes: &[u8]) {
    if path.exists() || is_full(path) {
        return;
    }
    if let Err(error) = files.write_new(path, bytes) {
        tracing::warn!(path = %path.display(), %error, "evidence not kept");
    }
}

/// The same for a file; it is gone from its place in any case.
pub(crate) fn move_evidence(files: &dyn Durable, from: &Path, to: &Path) {
    if is_full(to) {
        return discard(files, from);
    }
    if let Err(error) = files.rename(from, to) {
        tracing::warn!(path = %to.display(), %error, "evidence not kept");
        discard(files, from);
    }
}

/// Whether the folder of `path` has all the evidence that it gets: a store that goes on giving bad
/// bytes must not fill the disk.
fn is_full(path: &Path) -> bool {
    let kept = path.parent().and_then(|folder| std::fs::read_dir(folder).ok());
    let full = kept.map_or(0, Iterator::count) >= EVIDENCE_FILES_MAX;
    if full {
        tracing::warn!(path = %path.display(), max = EVIDENCE_FILES_MAX, "evidence not kept: full");
    }
    full
}

fn discard(files: &dyn Durable, path: &Path) {
    match files.remove(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(path = %path.display(), %error, "temporary file not removed");
        }
        _ => {}
    }
}
