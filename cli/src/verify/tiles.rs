//! What lies beside a shard's segments: packs, tiles and checkpoint objects say what the rows say.
//!
//! They are derived, so that damage costs a proof and never makes a wrong one; found it must be all
//! the same.

use std::collections::BTreeSet;

use sealcast_common::bucket::{Store, StoreError, append_leaves};
use sealcast_common::catalog::names::{checkpoint_key, checkpoints_prefix, pack_key, tile_key};
use sealcast_common::catalog::{CheckpointObject, Descriptor};
use sealcast_common::fault::{Corruption, hex};
use sealcast_common::integrity::{Edge, Hash, TILE_WIDTH, file_hash, shard_origin};

use super::Report;
use super::files::Unread;

/// A shard's tree, followed segment by segment.
pub(super) struct TileCheck<'a> {
    store: &'a Store,
    shard: u16,
    origin: String,
    /// The sizes at which a checkpoint object stands.
    sizes: BTreeSet<u64>,
    /// `None` behind a damaged segment: what follows cannot be compared.
    edge: Option<Edge>,
    /// The shard's store was last written by a shipper that made none.
    absent: bool,
}

impl<'a> TileCheck<'a> {
    /// `committed` is the size at which the checkpoint object must stand.
    pub(super) async fn new(
        store: &'a Store,
        cluster: &str,
        shard: u16,
        committed: u64,
        report: &mut Report,
    ) -> Self {
        let listed = store.list_all(&checkpoints_prefix(shard)).await;
        let listed = listed.map_err(|error| report.unchecked.push(error.to_string()));
        let sizes: BTreeSet<u64> =
            listed.iter().flatten().filter_map(|(key, _)| size(key)).collect();
        let absent = listed.is_ok() && sizes.is_empty();
        if absent && committed > 0 {
            let why = "no proof can be made of its rows before a shipper of this version has run";
            report.unchecked.push(format!("shard {shard:04x} has no tiles: {why}"));
        } else if listed.is_ok() && committed > 0 && !sizes.contains(&committed) {
            let found = Corruption::new("object", None, "the object", "no such object");
            report.findings.push(found.in_object(checkpoint_key(shard, committed)));
        }
        let edge = (listed.is_ok() && !absent).then(Edge::default);
        TileCheck { store, shard, origin: shard_origin(cluster, shard), sizes, edge, absent }
    }

    /// After a segment: its leaves, or `None` where it is damaged.
    pub(super) async fn segment(
        &mut self,
        descriptor: &Descriptor,
        leaves: Option<&[Hash]>,
        report: &mut Report,
    ) {
        if self.absent {
            return;
        }
        let Some(leaves) = leaves else {
            self.edge = None;
            return;
        };
        let pack = pack_key(self.shard, descriptor.id.start, descriptor.id.rows);
        self.same(&pack, leaves.as_flattened(), report).await;
        let Some(mut edge) = self.edge.take() else { return };
        for (id, tile) in append_leaves(&mut edge, leaves) {
            self.same(&tile_key(self.shard, &id.path(TILE_WIDTH)), &tile, report).await;
        }
        if self.sizes.contains(&edge.size()) {
            let key = checkpoint_key(self.shard, edge.size());
            let found = same_edge(self.store, &key, &self.origin, &edge, &mut report.bytes).await;
            report.book(found.map(drop));
        }
        self.edge = Some(edge);
    }

    async fn same(&self, key: &str, expected: &[u8], report: &mut Report) {
        let found = same(self.store, key, expected, &mut report.bytes).await;
        report.book(found);
    }
}

fn size(key: &str) -> Option<u64> {
    key.rsplit('/').next()?.parse().ok()
}

/// An object of which every byte is known.
pub(super) async fn same(
    store: &Store,
    key: &str,
    expected: &[u8],
    bytes: &mut u64,
) -> Result<(), Unread> {
    let found = read(store, key, bytes).await?;
    if found == expected {
        return Ok(());
    }
    let show = |bytes: &[u8]| format!("{} bytes, BLAKE3 {}", bytes.len(), hex(&file_hash(bytes)));
    Err(Corruption::new("tile", None, show(expected), show(&found)).in_object(key).into())
}

/// A checkpoint object: signed, adding up to its root, and of this very tree.
pub(super) async fn same_edge(
    store: &Store,
    key: &str,
    origin: &str,
    edge: &Edge,
    bytes: &mut u64,
) -> Result<CheckpointObject, Unread> {
    let object = read(store, key, bytes).await?;
    let read = CheckpointObject::from_object(&object, Some(origin));
    let read = read.map_err(|found| found.in_object(key))?;
    if read.edge == *edge {
        return Ok(read);
    }
    let root = |edge: &Edge| edge.tree().and_then(|tree| tree.root()).map(|root| hex(&root));
    let show =
        |edge: &Edge| Ok::<_, Corruption>(format!("size {}, root {}", edge.size(), root(edge)?));
    let (expected, found) = (show(edge)?, show(&read.edge)?);
    Err(Corruption::new("checkpoint_object", None, expected, found).in_object(key).into())
}

/// The object, which must be there.
pub(super) async fn read(
    store: &Store,
    key: &str,
    bytes: &mut u64,
) -> Result<bytes::Bytes, Unread> {
    let found =
        store.get(key).await.map_err(|error: StoreError| Unread::Cannot(error.to_string()))?;
    let gone = || Corruption::new("object", None, "the object", "no such object").in_object(key);
    let found = found.ok_or_else(gone)?;
    *bytes += found.len() as u64;
    Ok(found)
}
