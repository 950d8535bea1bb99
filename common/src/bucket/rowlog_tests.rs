//! Logs large enough for full tiles above the leaves: every tile, growth, and tiles that lie.

use std::collections::BTreeMap;

use super::*;
use crate::catalog::names::tile_key;
use crate::catalog::{Catalog, CheckpointEntry, CommitKind, CommitRecord, Descriptor, SegmentId};
use crate::integrity::{
    Checkpoint, CompactRange, Edge, Hash, LocalSigner, Note, Signer as _, TILE_WIDTH, TileId,
    VerifyKey, leaf_hash, shard_origin, verify_growth,
};

/// A full tile of level 1, partial ones of levels 0 to 2.
const ROWS: u64 = 66_000;

/// A log of two segments whose leaves are their own numbers.
struct Log {
    _dir: tempfile::TempDir,
    store: Store,
    catalog: Catalog,
    leaves: Vec<Hash>,
}

fn checkpoint(size: u64, root: Hash) -> CheckpointEntry {
    let origin = shard_origin("c", 0);
    let signer = LocalSigner::from_seed(&origin, &[1; 32]);
    let key = VerifyKey { name: origin.clone(), public_key: signer.public_key() };
    let note = Note::sign(Checkpoint { origin, size, root }.to_text(), &signer).unwrap();
    CheckpointEntry { size, root, note: note.to_text(), key: key.to_text() }
}

fn segment(start: u64, rows: u32, root_after: Hash) -> Descriptor {
    let none = (Micros(0), Micros(0));
    Descriptor {
        id: SegmentId { shard: 0, start, rows, hash: [start as u8; 32] },
        bytes: 1,
        object_bytes: 1,
        object_hash: [0; 32],
        range_digest: [0; 32],
        root_after,
        time: none,
        ingested_at: none,
        sealed_at: Micros(0),
        schema_version: 1,
        tenants: None,
    }
}

fn after(catalog: &Catalog, adds: Vec<Descriptor>) -> Catalog {
    let kind = if adds.is_empty() { CommitKind::Fence } else { CommitKind::Add };
    let entries = adds.iter().map(|add| (0, checkpoint(add.end(), add.root_after)));
    let record = CommitRecord {
        store_id: [0; 16],
        cluster: "c".into(),
        stream: "s".into(),
        seq: catalog.seq + 1,
        epoch: 1,
        author: [0; 32],
        nonce: [0; 16],
        previous: catalog.hash,
        kind,
        checkpoints: entries.collect::<BTreeMap<_, _>>(),
        adds,
        removes: Vec::new(),
        committed_at: Micros(0),
    };
    catalog.apply(&record, [record.seq as u8; 32]).unwrap()
}

impl Log {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path().to_str().unwrap()).unwrap();
        let leaves: Vec<Hash> = (0..ROWS).map(|row| leaf_hash(&row.to_be_bytes())).collect();
        let mut catalog = after(&Catalog::empty([0; 16], "s"), Vec::new());
        let mut edge = Edge::default();
        for (start, end) in [(0, 40_001), (40_001, ROWS)] {
            let mut grown = edge.clone();
            let part = &leaves[start as usize..end as usize];
            append_leaves(&mut grown, part);
            let root = grown.tree().unwrap().root().unwrap();
            let segment = segment(start, u32::try_from(end - start).unwrap(), root);
            put_leaves(&store, &segment, part, &mut edge).await.unwrap();
            put_checkpoint(&store, 0, checkpoint(end, root), &edge).await.unwrap();
            assert_eq!(edge, grown);
            catalog = after(&catalog, vec![segment]);
        }
        Log { _dir: dir, store, catalog, leaves }
    }

    fn open<'a>(&'a self, cache: &'a TileCache) -> RowLog<'a> {
        RowLog::new(&self.store, cache, 0, &self.catalog.shards[&0]).unwrap()
    }

    /// The root of the whole subtree of the first leaves from `first` on.
    fn root(&self, first: u64, rows: u64) -> Hash {
        let mut tree = CompactRange::empty(0);
        let leaves = &self.leaves[first as usize..(first + rows) as usize];
        leaves.iter().for_each(|leaf| tree.append(*leaf));
        tree.root().unwrap()
    }
}

#[tokio::test]
async fn tiles_of_every_level_hold_the_roots_below_them() {
    let (log, cache) = (Log::new().await, TileCache::new(1 << 20));
    let rows = log.open(&cache);
    for (level, below) in [(0, 1), (1, TILE_WIDTH), (2, TILE_WIDTH * TILE_WIDTH)] {
        let entries = ROWS / below;
        for index in [0, entries / TILE_WIDTH] {
            let id = TileId { level, index };
            let width = id.width(ROWS);
            let tile = rows.tile(id, width).await.unwrap().unwrap();
            for (at, hash) in crate::integrity::hashes(&tile).into_iter().enumerate().step_by(51) {
                let first = (index * TILE_WIDTH + at as u64) * below;
                assert_eq!(hash, log.root(first, below), "{level} {index} {at}");
            }
            assert_eq!(rows.tile(id, width + 1).await.unwrap(), None);
            let part = rows.tile(id, width.div_ceil(2)).await.unwrap().unwrap();
            assert_eq!(part, tile[..part.len()]);
        }
        let beyond = TileId { level, index: entries / TILE_WIDTH + 1 };
        assert_eq!(rows.tile(beyond, 1).await.unwrap(), None);
    }
    let high = TileId { level: 63, index: u64::MAX };
    assert_eq!(rows.tile(high, 1).await.unwrap(), None);
}

#[tokio::test]
async fn growth_leads_from_size_to_size_and_on_to_the_checkpoint() {
    let (log, cache) = (Log::new().await, TileCache::new(1 << 20));
    let rows = log.open(&cache);
    let sizes = [0, 1, 257, 40_000, 40_001, 65_535, 65_536, 65_537, ROWS];
    for (old, new) in sizes.iter().flat_map(|old| sizes.map(|new| (*old, new))) {
        if old > new {
            continue;
        }
        let grown = rows.growth(old, new).await.unwrap();
        assert_eq!((grown.old_root, grown.new_root), (log.root(0, old), log.root(0, new)));
        let newest = (ROWS, &rows.checkpoint().root);
        verify_growth((old, &grown.old_root), (new, &grown.new_root), &grown.proof).unwrap();
        verify_growth((new, &grown.new_root), newest, &grown.rest).unwrap();
    }
    let beyond = rows.growth(0, ROWS + 1).await;
    assert!(matches!(beyond, Err(RowLogError::Beyond { asked, .. }) if asked == ROWS + 1));
}

#[tokio::test]
async fn a_tile_that_lies_is_found_and_forgotten() {
    let (log, cache) = (Log::new().await, TileCache::new(1 << 20));
    let rows = log.open(&cache);
    let id = TileId { level: 1, index: 0 };
    let key = tile_key(0, &id.path(TILE_WIDTH));
    let good = log.store.get(&key).await.unwrap().unwrap();
    let mut bad = good.to_vec();
    bad[32 * 7] ^= 1;
    let kinds = [bad.clone(), good[..good.len() - 32].to_vec(), Vec::new()];
    for bytes in kinds {
        log.store.put(&key, bytes.into()).await.unwrap();
        let proof = rows.inclusion(3, &log.leaves[3]).await.map(drop);
        let tile = rows.tile(id, TILE_WIDTH).await.map(drop);
        let growth = rows.growth(300, ROWS).await.map(drop);
        for refused in [proof, tile, growth] {
            let error = refused.unwrap_err();
            let named = matches!(&error, RowLogError::Proof { .. } | RowLogError::Corrupt(_));
            assert!(named, "{error}");
        }
        // The entry of the liar is not kept: once the store is whole again, so are proofs.
        log.store.put(&key, good.clone()).await.unwrap();
        rows.inclusion(3, &log.leaves[3]).await.unwrap();
        assert_eq!(rows.tile(id, TILE_WIDTH).await.unwrap().unwrap(), good);
        cache.clear();
    }
}
