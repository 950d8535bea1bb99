//! Every committed size has its tiles: any row can be proved from the store alone, and what is
//! lost of them is made again.

use sealcast_common::bucket::{RowLog, RowLogError, Store, TileCache};
use sealcast_common::catalog::Catalog;
use sealcast_common::catalog::names::{checkpoint_key, pack_key, tile_key};
use sealcast_common::integrity::{CompactRange, Hash, Note, TlogProofError, VerifyKey, hashes};
use sealcast_common::segment::{Expectation, decompress, verify_segment_leaves};

use super::sealed::SealedDir;
use super::stores::folder;
use super::{folded, once};

/// The leaf hashes as the segments give them.
async fn leaves(store: &Store, catalog: &Catalog, shard: u16) -> Vec<Hash> {
    let mut all = Vec::new();
    for segment in &catalog.shards[&shard].segments {
        let object = store.get(&segment.key()).await.unwrap().unwrap();
        let file = decompress(&object, segment.bytes).unwrap();
        all.extend(verify_segment_leaves(file.into(), &Expectation::default()).unwrap().1);
    }
    all
}

/// Proves some rows, growth from some sizes and some ranges, as a stranger would check them.
async fn proves(store: &Store, shard: u16) {
    let catalog = folded(store).await;
    let (all, cache) = (leaves(store, &catalog, shard).await, TileCache::new(1 << 20));
    let log = RowLog::new(store, &cache, shard, &catalog.shards[&shard]).unwrap();
    assert_eq!(log.size(), all.len() as u64);
    let key = VerifyKey::parse(&log.checkpoint().key).unwrap();
    for index in (0..all.len()).step_by(97).chain([all.len() - 1]) {
        let proof = log.inclusion(index as u64, &all[index]).await.unwrap();
        let note = Note::parse(&proof.checkpoint).unwrap();
        note.verify(&key).map_err(TlogProofError::from).unwrap();
        let (left, right) = all.split_at(index);
        let mut tree = CompactRange::empty(0);
        left.iter().for_each(|leaf| tree.append(*leaf));
        let old = (index as u64, tree.root().unwrap());
        assert_eq!(log.root_at(old.0).await.unwrap(), old.1);
        log.consistency(old.0, &old.1).await.unwrap();
        let mut rows = CompactRange::empty(old.0);
        right.iter().take(300).for_each(|leaf| rows.append(*leaf));
        log.around(&rows).await.unwrap();
    }
    let other = log.inclusion(0, &[7; 32]).await;
    assert!(matches!(other, Err(RowLogError::Proof { .. })), "{other:?}");
    let beyond = log.inclusion(log.size(), &all[0]).await;
    assert!(matches!(beyond, Err(RowLogError::Beyond { .. })), "{beyond:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_proved_from_the_store_alone() {
    let (_folder, store) = folder();
    let mut sealed = SealedDir::new(2);
    for (shard, rows) in [(0, 200), (1, 1), (0, 300), (0, 1), (0, 11)] {
        sealed.seal(shard, rows);
    }
    once(&sealed, &store).await.unwrap();
    proves(&store, 0).await;
    proves(&store, 1).await;
    for (shard, rows) in [(0, 256), (1, 255), (0, 700)] {
        sealed.seal(shard, rows);
        once(&sealed, &store).await.unwrap();
    }
    proves(&store, 0).await;
    proves(&store, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_tiles_are_made_again_and_damaged_ones_prove_nothing() {
    let (dir, store) = folder();
    let mut sealed = SealedDir::new(1);
    for rows in [300, 400] {
        sealed.seal(0, rows);
        once(&sealed, &store).await.unwrap();
    }
    // One byte of a pack: no proof that needs it is given.
    let pack = pack_key(0, 0, 300);
    let mut bytes = store.get(&pack).await.unwrap().unwrap().to_vec();
    assert_eq!(hashes(&bytes).len(), 300);
    bytes[40] ^= 1;
    store.put(&pack, bytes.into()).await.unwrap();
    let (catalog, cache) = (folded(&store).await, TileCache::new(1 << 20));
    let log = RowLog::new(&store, &cache, 0, &catalog.shards[&0]).unwrap();
    let all = leaves(&store, &catalog, 0).await;
    let refused = log.inclusion(0, &all[0]).await;
    assert!(matches!(refused, Err(RowLogError::Proof { .. })), "{refused:?}");
    // The damaged pack, one that is gone, and the checkpoint: the next turn makes them again.
    std::fs::remove_file(dir.path().join(pack_key(0, 300, 400))).unwrap();
    std::fs::remove_file(dir.path().join(checkpoint_key(0, 700))).unwrap();
    let cache = TileCache::new(1 << 20);
    let log = RowLog::new(&store, &cache, 0, &catalog.shards[&0]).unwrap();
    let missing = log.inclusion(650, &all[650]).await;
    assert!(matches!(missing, Err(RowLogError::Missing { .. })), "{missing:?}");
    sealed.seal(0, 66_000);
    once(&sealed, &store).await.unwrap();
    proves(&store, 0).await;
    assert!(store.get(&tile_key(0, "1/000")).await.unwrap().is_some());
}
