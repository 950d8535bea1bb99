//! The row log beside the segments: leaf hashes, full tiles, the checkpoint with its right edge.
//!
//! All of it is derived from rows that were judged, under keys that have one content for ever. It
//! lies in the store before the commit that needs it; what is missing is made again from the rows.

use std::sync::Arc;

use arrow_buffer::Buffer;
use sealcast_common::bucket::{append_leaves, put_checkpoint, put_leaves};
use sealcast_common::catalog::names::{checkpoint_key, pack_key};
use sealcast_common::catalog::{CheckpointObject, Descriptor, ShardCatalog};
use sealcast_common::fault::{Corruption, hex};
use sealcast_common::integrity::{Edge, HASH_BYTES, Hash, hashes, shard_origin};
use sealcast_common::segment::{Expectation, decompress, verify_segment_leaves};

use crate::error::ShipError;
use crate::place::{Place, blocking};

/// The edge of the shard's tree at its committed size: as remembered, else as the store has it,
/// else made again from packs and segments.
pub(crate) async fn edge_at(
    place: &Place,
    shard: u16,
    shipped: Option<&ShardCatalog>,
    remembered: Option<Edge>,
) -> Result<Edge, ShipError> {
    let Some(entry) = shipped.and_then(|shipped| shipped.checkpoint.as_ref()) else {
        return Ok(Edge::default());
    };
    let is_ours = |edge: &Edge| {
        edge.size() == entry.size
            && edge.tree().and_then(|tree| tree.root()).is_ok_and(|root| root == entry.root)
    };
    if let Some(edge) = remembered.filter(is_ours) {
        return Ok(edge);
    }
    let key = checkpoint_key(shard, entry.size);
    let origin = shard_origin(&place.node.cluster, shard);
    if let Some(object) = place.store.get(&key).await? {
        match CheckpointObject::from_object(&object, Some(&origin)) {
            Ok(found) if is_ours(&found.edge) => return Ok(found.edge),
            Ok(_) => tracing::warn!(key, "checkpoint object is of another tree"),
            Err(finding) => tracing::warn!(key, %finding, "checkpoint object is written anew"),
        }
    }
    let Some(shipped) = shipped else { return Ok(Edge::default()) };
    let edge = rebuild(place, shipped).await?;
    put_checkpoint(&place.store, shard, entry.clone(), &edge).await?;
    Ok(edge)
}

/// All tiles of a shard, from its first row on: for stores that were written before there were
/// tiles, and where one was lost.
async fn rebuild(place: &Place, shipped: &ShardCatalog) -> Result<Edge, ShipError> {
    let mut edge = Edge::default();
    for segment in &shipped.segments {
        tracing::info!(segment = segment.id.to_text(), "tiles made again");
        let key = pack_key(segment.id.shard, segment.id.start, segment.id.rows);
        let pack = place.store.get(&key).await?;
        let whole = segment.id.rows as usize * HASH_BYTES;
        let pack = pack.filter(|pack| pack.len() == whole).map(|pack| hashes(&pack));
        let leaves = match pack.filter(|leaves| leads_to(&edge, leaves, segment)) {
            Some(leaves) => leaves,
            None => leaves_of(place, segment).await?,
        };
        put_leaves(&place.store, segment, &leaves, &mut edge).await?;
    }
    Ok(edge)
}

fn leads_to(edge: &Edge, leaves: &[Hash], segment: &Descriptor) -> bool {
    let mut after = edge.clone();
    append_leaves(&mut after, leaves);
    after.tree().and_then(|tree| tree.root()).is_ok_and(|root| root == segment.root_after)
}

/// The leaf hashes of a segment in the store, which is judged in full.
async fn leaves_of(place: &Place, segment: &Arc<Descriptor>) -> Result<Vec<Hash>, ShipError> {
    let key = segment.key();
    let object = place.store.get(&key).await?;
    let (segment, cluster) = (Arc::clone(segment), place.node.cluster.clone());
    let judged = blocking(move || {
        let object = object.ok_or_else(|| {
            Corruption::new("object_missing", None, hex(&segment.object_hash), "no such object")
        })?;
        let file = decompress(&object, segment.bytes)?;
        let expect = Expectation {
            file_hash: Some(segment.id.hash.to_vec()),
            bytes: Some(segment.bytes),
            cluster: Some(cluster),
            shard: Some(segment.id.shard),
            range: Some((segment.id.start, segment.end())),
            frontier: None,
            root_after: Some(segment.root_after),
        };
        verify_segment_leaves(Buffer::from_vec(file), &expect).map(|(_, leaves)| leaves)
    });
    judged.await?.map_err(|finding| ShipError::Log(finding.in_object(key)))
}
