//! What a store's proofs are made of, made again from its rows where it is lost or damaged.
//!
//! Packs, tiles and checkpoints' objects are derived: every byte follows from rows that are judged in
//! full against what the shard has signed. So nothing here can make a false row provable.

use std::collections::BTreeMap;

use bytes::Bytes;
use sealcast_common::bucket::{Store, append_leaves};
use sealcast_common::catalog::names::{checkpoint_key, pack_key, tile_key};
use sealcast_common::catalog::{CheckpointEntry, CheckpointObject};
use sealcast_common::integrity::{Edge, Hash, TILE_WIDTH, leaf_hash};

use super::log::{Part, ShardLog, Signed, committed};
use super::{cannot, tree};
use crate::output::Failure;

/// What was found in a store.
#[derive(Debug, Default)]
pub(crate) struct Mended {
    /// Objects compared.
    pub(crate) objects: u64,
    /// Those that were missing.
    pub(crate) missing: Vec<String>,
    /// Those that held other bytes.
    pub(crate) damaged: Vec<String>,
}

/// Compares every pack, tile and checkpoint's object with what the rows give; puts what differs,
/// unless `dry_run`.
pub(crate) async fn mend(
    store: &Store,
    dry_run: bool,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<Mended, Failure> {
    let logs = committed(store, None, Signed::keeping_all()).await?;
    let total = logs.iter().map(|log| log.parts.len() as u64).sum();
    let (mut done, mut mended) = (0, Mended::default());
    for log in &logs {
        let mut edge = Edge::default();
        for part in &log.parts {
            let leaves = leaves(log, part, &edge).await?;
            for (key, bytes) in derived(log, part, &leaves, &mut edge) {
                mended.compare(store, key, bytes, dry_run).await?;
            }
            done += 1;
            progress(done, total);
        }
        tree::check_root(&edge, &log.newest)?;
    }
    Ok(mended)
}

async fn leaves(log: &ShardLog, part: &Part, edge: &Edge) -> Result<Vec<Hash>, Failure> {
    let frontier = edge.tree().map_err(crate::output::failed)?;
    let (rows, mut leaves) = (log.rows(part, Some(frontier)).await?, Vec::new());
    rows.each(|_, leaf| {
        leaves.push(leaf_hash(leaf));
        Ok(())
    })?;
    Ok(leaves)
}

/// The objects that a segment's rows give.
fn derived(log: &ShardLog, part: &Part, leaves: &[Hash], edge: &mut Edge) -> Vec<(String, Bytes)> {
    let ((start, end), shard) = (part.range(), log.shard);
    let rows = u32::try_from(end - start).unwrap_or(u32::MAX);
    let pack = Bytes::from(leaves.as_flattened().to_vec());
    let mut objects = vec![(pack_key(shard, start, rows), pack)];
    let full = append_leaves(edge, leaves).into_iter();
    objects.extend(full.map(|(id, tile)| (tile_key(shard, &id.path(TILE_WIDTH)), tile.into())));
    let signed = |all: &BTreeMap<u64, CheckpointEntry>| all.get(&end).cloned();
    if let Some(entry) = log.signed.all.as_ref().and_then(signed) {
        let object = CheckpointObject { entry, edge: edge.clone() }.to_object();
        objects.push((checkpoint_key(shard, end), object.into()));
    }
    objects
}

impl Mended {
    async fn compare(
        &mut self,
        store: &Store,
        key: String,
        bytes: Bytes,
        dry_run: bool,
    ) -> Result<(), Failure> {
        self.objects += 1;
        let found = store.get(&key).await.map_err(cannot)?;
        if found.as_ref() == Some(&bytes) {
            return Ok(());
        }
        if !dry_run {
            store.put(&key, bytes).await.map_err(cannot)?;
        }
        match found {
            None => self.missing.push(key),
            Some(_) => self.damaged.push(key),
        }
        Ok(())
    }
}
