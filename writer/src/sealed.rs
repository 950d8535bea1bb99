//! The sealed files of a shard as one chain: contiguous, each signed, the last one verified whole.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sealcast_common::clock::Micros;
use sealcast_common::fault::{Corruption, hex};
use sealcast_common::integrity::{Checkpoint, CompactRange, Hash, Note};
use sealcast_common::limits::{IDEMPOTENCY_KEYS_MAX, IDEMPOTENCY_WINDOW_MICROS};
use sealcast_common::segment::{Expectation, Seal, SegmentName, SegmentView, verify_segment};

use crate::context::ShardContext;
use crate::disk::{files_in, read_aligned, read_footer};
use crate::recovery::RecoveryError;
use crate::window::{Window, ids_of};

/// What recovery needs of one sealed file.
#[derive(Debug)]
struct Link {
    name: SegmentName,
    path: PathBuf,
    range_nodes: Vec<Hash>,
    root_after: Hash,
    sealed_at: Micros,
}

/// The sealed part of a shard.
#[derive(Debug)]
pub(crate) struct SealedChain {
    links: Vec<Link>,
    /// The tree `[0, end)`.
    pub(crate) tree: CompactRange,
    /// Latest ingest time.
    pub(crate) latest_ingest: Micros,
    /// Notes whose segment was not published: a crash between signing and renaming.
    pub(crate) unpublished: Vec<(PathBuf, Checkpoint)>,
}

impl SealedChain {
    /// Reads the folder: footers and notes of all files, every row of the last one.
    pub(crate) fn read(ctx: &ShardContext) -> Result<Self, RecoveryError> {
        let dir = ctx.dir.sealed_dir(ctx.shard);
        let mut notes = BTreeMap::new();
        let mut segments = Vec::new();
        let listed = files_in(&dir).map_err(|error| RecoveryError::io(&dir, error))?;
        for (file_name, path) in listed {
            if let Some(name) = SegmentName::parse(&file_name) {
                segments.push((name, path));
            } else if file_name.ends_with(".note") {
                notes.insert(file_name, path);
            } else {
                tracing::warn!(shard = ctx.shard, file = file_name, "unknown file ignored");
            }
        }
        let mut chain = SealedChain {
            links: Vec::new(),
            tree: CompactRange::empty(0),
            latest_ingest: Micros(i64::MIN),
            unpublished: Vec::new(),
        };
        let count = segments.len();
        for (i, (name, path)) in segments.into_iter().enumerate() {
            let note = notes.remove(&name.note_name());
            chain.link(ctx, name, path, note, i + 1 == count)?;
        }
        for path in notes.into_values() {
            let checkpoint = read_note(ctx, &path)?;
            chain.unpublished.push((path, checkpoint));
        }
        Ok(chain)
    }

    /// One past the last sealed leaf.
    pub(crate) fn end(&self) -> u64 {
        self.tree.end()
    }

    /// The root at a size where a segment ends.
    pub(crate) fn root_at(&self, size: u64) -> Option<Hash> {
        self.links.iter().find(|link| link.name.end() == size).map(|link| link.root_after)
    }

    /// The range nodes of the segment that begins at `start`, with its end.
    pub(crate) fn range_from(&self, start: u64) -> Option<(u64, &[Hash])> {
        let link = self.links.iter().find(|link| link.name.start == start)?;
        Some((link.name.end(), &link.range_nodes))
    }

    fn link(
        &mut self,
        ctx: &ShardContext,
        name: SegmentName,
        path: PathBuf,
        note: Option<PathBuf>,
        last: bool,
    ) -> Result<(), RecoveryError> {
        let object = path.display().to_string();
        let corrupt = |corruption: Corruption| RecoveryError::from(corruption.in_object(&object));
        let seal = if last { read_whole(ctx, &name, &path)? } else { read_seal(&path)? };
        // Retention may have removed the files before the first one: its own frontier counts then.
        let frontier = CompactRange::from_nodes(0, seal.start, seal.frontier_before.clone());
        let frontier = frontier.map_err(corrupt)?;
        if self.links.is_empty() {
            self.tree = frontier.clone();
        }
        let (start, end) = (self.tree.end(), name.end());
        if (name.start, seal.start, seal.end, &seal.origin) != (start, start, end, &ctx.origin) {
            let expected = format!("rows of {} from seq {start} up to {end}", ctx.origin);
            let found = format!("rows of {} [{}, {})", seal.origin, seal.start, seal.end);
            return Err(corrupt(Corruption::new("contiguity", None, expected, found)));
        }
        if frontier != self.tree {
            let found = "another frontier";
            let expected = "the tree of the segments before";
            return Err(corrupt(Corruption::new("frontier", None, expected, found)));
        }
        let range = CompactRange::from_nodes(start, end, seal.range_nodes.clone());
        self.tree.merge(&range.map_err(corrupt)?).map_err(corrupt)?;
        let root_after = self.tree.root().map_err(corrupt)?;
        let Some(note) = note else {
            let expected = format!("the note {}", name.note_name());
            return Err(corrupt(Corruption::new("note", None, expected, "no such file")));
        };
        check_root(&read_note(ctx, &note)?, end, &root_after)
            .map_err(|c| c.in_object(note.display().to_string()))?;
        self.latest_ingest = seal.facts.ingested_at.1;
        let (range_nodes, sealed_at) = (seal.range_nodes.clone(), seal.sealed_at);
        self.links.push(Link { name, path, range_nodes, root_after, sealed_at });
        Ok(())
    }

    /// Remembers what the files of the last 24 hours hold, newest first until a million ids are
    /// found; what goes into the window goes in oldest first.
    pub(crate) fn fill(&self, window: &mut Window, now: Micros) -> Result<(), RecoveryError> {
        let oldest = Micros(now.0.saturating_sub(IDEMPOTENCY_WINDOW_MICROS));
        let mut found = Vec::new();
        let mut count = 0;
        for link in self.links.iter().rev() {
            if link.sealed_at < oldest || count >= IDEMPOTENCY_KEYS_MAX {
                break;
            }
            let bytes = read_aligned(&link.path).map_err(|e| RecoveryError::io(&link.path, e))?;
            let object = link.path.display().to_string();
            let named = |corruption: Corruption| corruption.in_object(&object);
            let view = SegmentView::parse(bytes).map_err(named)?;
            let ids = ids_of(&view.decode().map_err(named)?).map_err(named)?;
            count += ids.len();
            found.push((ids, view.seal().requests.clone()));
        }
        for (ids, requests) in found.into_iter().rev() {
            for (key, remembered) in ids.into_iter().filter(|(_, known)| known.at >= oldest) {
                window.insert_id(key, remembered);
            }
            for request in requests.into_iter().filter(|request| request.at >= oldest) {
                window.insert_request(request);
            }
        }
        Ok(())
    }
}

/// A checkpoint says `size` and `root`, or names what it says instead.
pub(crate) fn check_root(found: &Checkpoint, size: u64, root: &Hash) -> Result<(), Corruption> {
    if found.size == size && found.root == *root {
        return Ok(());
    }
    let show = |size: u64, root: &Hash| format!("size {size}, root {}", hex(root));
    Err(Corruption::new("note", None, show(size, root), show(found.size, &found.root)))
}

fn read_whole(
    ctx: &ShardContext,
    name: &SegmentName,
    path: &Path,
) -> Result<Arc<Seal>, RecoveryError> {
    let bytes = read_aligned(path).map_err(|error| RecoveryError::io(path, error))?;
    let expect = Expectation {
        file_hash: Some(name.hash.to_vec()),
        cluster: Some(ctx.cluster.clone()),
        shard: Some(ctx.shard),
        range: Some((name.start, name.end())),
        ..Expectation::default()
    };
    let (view, _batches) = verify_segment(bytes, &expect)
        .map_err(|corruption| corruption.in_object(path.display().to_string()))?;
    Ok(Arc::clone(view.seal()))
}

fn read_seal(path: &Path) -> Result<Arc<Seal>, RecoveryError> {
    let bytes = read_footer(path).map_err(|error| RecoveryError::io(path, error))?;
    let view = SegmentView::parse(bytes)
        .map_err(|corruption| corruption.in_object(path.display().to_string()))?;
    Ok(Arc::clone(view.seal()))
}

fn read_note(ctx: &ShardContext, path: &Path) -> Result<Checkpoint, RecoveryError> {
    let bad = |found: String| {
        let expected = format!("a note signed by {}", ctx.signer.key().to_text());
        Corruption::new("note", None, expected, found).in_object(path.display().to_string())
    };
    let text = std::fs::read(path).map_err(|error| RecoveryError::io(path, error))?;
    let text = String::from_utf8(text).map_err(|_| bad("broken utf-8".to_owned()))?;
    let note = Note::parse(&text).map_err(|error| bad(error.to_string()))?;
    Ok(ctx.signer.keys().verify(&note).map_err(|error| bad(error.to_string()))?)
}
