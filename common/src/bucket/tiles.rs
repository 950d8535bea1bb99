//! What is put beside a shard's segments: packs of leaf hashes, full tiles, the checkpoint's object.
//!
//! Each lies under a key that has one content for ever, so that a repeated put changes nothing.

use bytes::Bytes;
use futures::TryStreamExt as _;

use super::{Store, StoreError};
use crate::catalog::names::{checkpoint_key, pack_key, tile_key};
use crate::catalog::{CheckpointEntry, CheckpointObject, Descriptor};
use crate::integrity::{Edge, Hash, TILE_WIDTH, TileId};

/// Objects that are put at the same time.
const PUTS_AT_ONCE: usize = 8;

/// Appends a segment's leaves to the edge of the tree before it; puts its pack and the tiles that
/// it fills.
pub async fn put_leaves(
    store: &Store,
    segment: &Descriptor,
    leaves: &[Hash],
    edge: &mut Edge,
) -> Result<(), StoreError> {
    let shard = segment.id.shard;
    let pack = pack_key(shard, segment.id.start, segment.id.rows);
    let mut objects = vec![(pack, Bytes::from(leaves.as_flattened().to_vec()))];
    let full = append_leaves(edge, leaves).into_iter();
    objects.extend(full.map(|(id, tile)| (tile_key(shard, &id.path(TILE_WIDTH)), tile.into())));
    futures::stream::iter(objects.into_iter().map(Ok))
        .try_for_each_concurrent(PUTS_AT_ONCE, |(key, bytes)| async move {
            store.put(&key, bytes).await
        })
        .await
}

/// Appends leaves; answers the full tiles of level 1 and more: leaf hashes lie in packs.
pub fn append_leaves(edge: &mut Edge, leaves: &[Hash]) -> Vec<(TileId, Vec<u8>)> {
    let mut full = Vec::new();
    leaves.iter().for_each(|leaf| edge.append(*leaf, &mut full));
    full.retain(|(id, _)| id.level > 0);
    full
}

/// Puts the checkpoint at the edge's size.
pub async fn put_checkpoint(
    store: &Store,
    shard: u16,
    entry: CheckpointEntry,
    edge: &Edge,
) -> Result<(), StoreError> {
    let key = checkpoint_key(shard, entry.size);
    let object = CheckpointObject { entry, edge: edge.clone() }.to_object();
    store.put(&key, object.into()).await
}
