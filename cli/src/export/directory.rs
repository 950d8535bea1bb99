//! A shard's log as a folder of static files, as C2SP `tlog-tiles` lays them out.
//!
//! Written tile by tile and bundle by bundle while the rows pass; `checkpoint` comes last, so that a
//! folder without one is an export that did not end.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use sealcast_common::fault::Corruption;
use sealcast_common::integrity::{
    Edge, HASH_BYTES, Hash, Question, TILE_WIDTH, TileId, Tiles, TlogProof, index_path,
    verify_consistency,
};
use sealcast_common::limits::LEAF_BYTES_MAX;
use serde::Serialize;

use super::log::ShardLog;
use super::tree::{Sink, check_proof, walk};
use super::{cannot, files};
use crate::output::{Failure, failed};

/// What was written.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Exported {
    pub(crate) origin: String,
    /// Rows of `checkpoint`.
    pub(crate) size: u64,
    /// Rows of `checkpoint.old`.
    pub(crate) old_size: Option<u64>,
    /// The row of `row.tlog-proof`.
    pub(crate) sample: u64,
    /// Files of hashes, partial ones included.
    pub(crate) tiles: u64,
    /// Files of leaves, partial ones included.
    pub(crate) bundles: u64,
    /// The log's key, as the source has it.
    pub(crate) vkey: String,
}

/// Writes the log to `out`, which must be empty or missing.
pub(crate) async fn export(
    log: &ShardLog,
    out: &Path,
    (sample, old_size): (Option<u64>, Option<u64>),
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Exported, Failure> {
    let size = log.newest.size;
    let sample = sample.unwrap_or(size / 3);
    if sample >= size {
        let found = format!("--sample {sample}: {} has {size} signed rows", log.origin());
        return Err(cannot(found).hint("seqs count from 0"));
    }
    let older = log.older(old_size)?;
    files::empty_folder(out)?;
    let mut folder = Directory::new(out, sample);
    walk(log, older, &mut folder, progress).await?;
    let proof = folder.inclusion(log)?;
    check_proof(&proof, &folder.row, &log.newest.key)?;
    if let Some(older) = older {
        let hashes = folder.answer(Question::Consistency(older.size), size)?;
        verify_consistency((older.size, &older.root), (size, &log.newest.root), &hashes)
            .map_err(failed)?;
        folder.write("checkpoint.old", older.note.as_bytes())?;
        if older.vkey() != log.newest.vkey() {
            folder.write("vkey.old", format!("{}\n", older.vkey()).as_bytes())?;
        }
    }
    folder.write("row.leaf.cbor", &folder.row)?;
    folder.write("row.tlog-proof", proof.to_text().as_bytes())?;
    folder.write("vkey", format!("{}\n", log.newest.vkey()).as_bytes())?;
    folder.write("checkpoint", log.newest.note.as_bytes())?;
    Ok(Exported {
        origin: log.origin(),
        size,
        old_size: older.map(|older| older.size),
        sample,
        tiles: folder.tiles,
        bundles: folder.bundles,
        vkey: log.newest.vkey(),
    })
}

struct Directory {
    out: PathBuf,
    sample: u64,
    /// The sample's leaf, once it has passed.
    row: Vec<u8>,
    /// Leaves since the last full bundle, each behind its length, u16 big endian.
    bundle: Vec<u8>,
    /// Partial tiles that stand: two sizes may share those of upper levels.
    partial: BTreeSet<(TileId, u64)>,
    tiles: u64,
    bundles: u64,
}

impl Directory {
    fn new(out: &Path, sample: u64) -> Self {
        let (row, bundle) = (Vec::new(), Vec::new());
        let partial = BTreeSet::new();
        Directory { out: out.to_owned(), sample, row, bundle, partial, tiles: 0, bundles: 0 }
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Failure> {
        files::write_new(&self.out.join(name), bytes)
    }

    fn write_tile(&mut self, id: TileId, width: u64, hashes: &[u8]) -> Result<(), Failure> {
        self.tiles += 1;
        self.write(&format!("tile/{}", id.path(width)), hashes)
    }

    /// `size`: rows up to the end of the bundle.
    fn write_bundle(&mut self, size: u64) -> Result<(), Failure> {
        self.bundles += 1;
        let (index, rest) = ((size - 1) / TILE_WIDTH, size % TILE_WIDTH);
        let partial = if rest == 0 { String::new() } else { format!(".p/{rest}") };
        self.write(&format!("tile/entries/{}{partial}", index_path(index)), &self.bundle)
    }

    /// The answer from the tiles that were written, as a stranger would read them.
    fn answer(&self, question: Question, size: u64) -> Result<Vec<Hash>, Failure> {
        let mut tiles = Tiles::default();
        for id in question.tiles(size) {
            let path = self.out.join("tile").join(id.path(id.width(size)));
            tiles.insert(id, files::read(&path, TILE_WIDTH * HASH_BYTES as u64)?);
        }
        tiles.answer(question, size).map_err(failed)
    }

    fn inclusion(&self, log: &ShardLog) -> Result<TlogProof, Failure> {
        let hashes = self.answer(Question::Inclusion(self.sample), log.newest.size)?;
        Ok(TlogProof { index: self.sample, hashes, checkpoint: log.newest.note.clone() })
    }
}

impl Sink for Directory {
    fn leaf(&mut self, seq: u64, leaf: &[u8]) -> Result<(), Failure> {
        let length = u16::try_from(leaf.len()).map_err(|_| {
            let expected = format!("at most {LEAF_BYTES_MAX} bytes in the leaf with seq {seq}");
            failed(Corruption::new("leaves", None, expected, leaf.len().to_string()))
        })?;
        self.bundle.extend(length.to_be_bytes());
        self.bundle.extend_from_slice(leaf);
        if seq == self.sample {
            leaf.clone_into(&mut self.row);
        }
        if (seq + 1).is_multiple_of(TILE_WIDTH) {
            self.write_bundle(seq + 1)?;
            self.bundle.clear();
        }
        Ok(())
    }

    fn tile(&mut self, id: TileId, hashes: &[u8]) -> Result<(), Failure> {
        self.write_tile(id, TILE_WIDTH, hashes)
    }

    fn signed(&mut self, edge: &Edge) -> Result<(), Failure> {
        for (level, entries) in (0u32..).zip(edge.levels()) {
            let index = (edge.size() >> (8 * level)) / TILE_WIDTH;
            let (id, width) = (TileId { level, index }, entries.len() as u64);
            if width > 0 && self.partial.insert((id, width)) {
                self.write_tile(id, width, entries.as_flattened())?;
            }
        }
        if self.bundle.is_empty() { Ok(()) } else { self.write_bundle(edge.size()) }
    }
}
