//! A log followed once from its first row to its signed checkpoint, and the proof of one row.

use sealcast_common::bucket::{RowLog, RowLogError, TileCache};
use sealcast_common::catalog::CheckpointEntry;
use sealcast_common::event::position_of;
use sealcast_common::fault::{Corruption, hex};
use sealcast_common::integrity::{
    Checkpoint, Edge, KeyHistory, Note, Question, TILE_WIDTH, TileId, Tiles, TlogProof,
    TlogProofError, leaf_hash,
};

use super::cannot;
use super::log::{Part, ShardLog};
use crate::output::{Failure, failed};

/// Room for the tiles of one proof, bytes.
const CACHE_BYTES: usize = 1024 * 1024;

/// What is made of a log on the way.
pub(super) trait Sink {
    /// The next row.
    fn leaf(&mut self, seq: u64, leaf: &[u8]) -> Result<(), Failure>;
    /// A tile is full.
    fn tile(&mut self, id: TileId, hashes: &[u8]) -> Result<(), Failure>;
    /// A signed size is reached; the rows up to here have its root.
    fn signed(&mut self, edge: &Edge) -> Result<(), Failure>;
}

/// Follows all rows. At `older` and at the newest checkpoint the rows must have the signed root.
pub(super) async fn walk(
    log: &ShardLog,
    older: Option<&CheckpointEntry>,
    sink: &mut impl Sink,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<(), Failure> {
    let mut edge = Edge::default();
    for part in &log.parts {
        if part.range().0 >= log.newest.size {
            break;
        }
        let rows = log.rows(part, Some(edge.tree().map_err(failed)?)).await?;
        rows.each(|seq, leaf| {
            sink.leaf(seq, leaf)?;
            let mut full = Vec::new();
            edge.append(leaf_hash(leaf), &mut full);
            full.iter().try_for_each(|(id, hashes)| sink.tile(*id, hashes))?;
            match older.filter(|older| older.size == edge.size()) {
                Some(older) => check_root(&edge, older).and_then(|()| sink.signed(&edge)),
                None => Ok(()),
            }
        })?;
        progress(edge.size());
    }
    check_root(&edge, &log.newest)?;
    sink.signed(&edge)
}

/// The rows up to here have the signed root.
pub(super) fn check_root(edge: &Edge, signed: &CheckpointEntry) -> Result<(), Failure> {
    let root = edge.tree().and_then(|tree| tree.root()).map_err(failed)?;
    if (edge.size(), root) == (signed.size, signed.root) {
        return Ok(());
    }
    let expected = format!("root {} at size {}, as signed", hex(&signed.root), signed.size);
    let found = format!("root {} at size {}", hex(&root), edge.size());
    Err(failed(Corruption::new("root", None, expected, found)))
}

/// The proof holds for this leaf under this key, as anybody would check it.
pub(crate) fn check_proof(
    proof: &TlogProof,
    leaf: &[u8],
    key: &str,
) -> Result<Checkpoint, Failure> {
    let keys = KeyHistory::parse(key).map_err(failed)?;
    let judge =
        |note: &Note, _: &Checkpoint| keys.verify(note).map(drop).map_err(TlogProofError::from);
    let checkpoint = proof.verify::<TlogProofError>(leaf, judge).map_err(failed)?;
    position_of(leaf).and_then(|at| at.check(keys.origin(), proof.index)).map_err(failed)?;
    Ok(checkpoint)
}

/// A row's leaf and its proof, verified: from the store's tiles, or from all rows of a folder.
pub(crate) async fn prove(log: &ShardLog, seq: u64) -> Result<(Vec<u8>, TlogProof), Failure> {
    if seq >= log.newest.size {
        let rows = format!("{} has {} signed rows", log.origin(), log.newest.size);
        return Err(cannot(format!("{rows}, asked for the one with seq {seq}")));
    }
    let (leaf, proof) = match &log.store {
        Some(store) => {
            let holds = |part: &&Part| part.range().0 <= seq && seq < part.range().1;
            let part = log.parts.iter().find(holds);
            let part = part.ok_or_else(|| cannot(format!("no segment holds seq {seq}")))?;
            let leaf = log.rows(part, None).await?.leaf(seq)?;
            let cache = TileCache::new(CACHE_BYTES);
            let tiles = RowLog::new(store, &cache, log.shard, &log.catalog).map_err(unproved)?;
            let proof = tiles.inclusion(seq, &leaf_hash(&leaf)).await.map_err(unproved)?;
            (leaf, proof)
        }
        None => {
            let mut wanted = OneRow::new(seq, log.newest.size);
            walk(log, None, &mut wanted, &|_| {}).await?;
            wanted.proof(log)?
        }
    };
    check_proof(&proof, &leaf, &log.newest.key)?;
    Ok((leaf, proof))
}

fn unproved(error: RowLogError) -> Failure {
    match error {
        RowLogError::Missing { .. } => cannot(error).hint(
            "without its tiles a store proves nothing; `sealcast export-log` makes them anew",
        ),
        RowLogError::Store(_) | RowLogError::Beyond { .. } => cannot(error),
        RowLogError::Corrupt(_) | RowLogError::Proof { .. } => failed(error),
    }
}

/// Keeps the tiles that one row's proof needs.
struct OneRow {
    seq: u64,
    wanted: std::collections::BTreeSet<TileId>,
    tiles: Tiles,
    leaf: Vec<u8>,
}

impl OneRow {
    fn new(seq: u64, size: u64) -> Self {
        let wanted = Question::Inclusion(seq).tiles(size);
        OneRow { seq, wanted, tiles: Tiles::default(), leaf: Vec::new() }
    }

    fn proof(self, log: &ShardLog) -> Result<(Vec<u8>, TlogProof), Failure> {
        let hashes = self.tiles.answer(Question::Inclusion(self.seq), log.newest.size);
        let (index, hashes) = (self.seq, hashes.map_err(failed)?);
        let checkpoint = log.newest.note.clone();
        Ok((self.leaf, TlogProof { index, hashes, checkpoint }))
    }
}

impl Sink for OneRow {
    fn leaf(&mut self, seq: u64, leaf: &[u8]) -> Result<(), Failure> {
        if seq == self.seq {
            leaf.clone_into(&mut self.leaf);
        }
        Ok(())
    }

    fn tile(&mut self, id: TileId, hashes: &[u8]) -> Result<(), Failure> {
        if self.wanted.contains(&id) {
            self.tiles.insert(id, hashes.to_vec());
        }
        Ok(())
    }

    fn signed(&mut self, edge: &Edge) -> Result<(), Failure> {
        for id in self.wanted.iter().filter(|id| id.width(edge.size()) < TILE_WIDTH) {
            if let Some(partial) = edge.partial(*id) {
                self.tiles.insert(*id, partial);
            }
        }
        Ok(())
    }
}

impl ShardLog {
    /// Where the event with this id stands: its seqs, which are more than one if it was sent again
    /// long after.
    pub(crate) async fn find(&self, event_id: &[u8; 16]) -> Result<Vec<u64>, Failure> {
        let mut seqs = Vec::new();
        for part in &self.parts {
            seqs.extend(self.seqs_of(part, event_id).await?);
        }
        Ok(seqs)
    }
}
