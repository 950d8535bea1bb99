//! What all streams of the store have committed, as far as it continues what was seen before.

use std::collections::BTreeMap;

use sealcast_common::bucket::{CreateOnlyLog, StreamIndex};
use sealcast_common::catalog::names::commit_key;
use sealcast_common::catalog::{Catalog, CommitRecord};
use sealcast_common::clock::Micros;
use sealcast_common::cluster::{ClusterRecord, ClusterState, Epoch, ShardPoint, StreamPoint};

use super::KeepError;
use crate::error::ShipError;
use crate::place::Place;
use crate::position;

/// Other shippers' streams, followed.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    seen: u64,
    catalogs: BTreeMap<String, Catalog>,
    /// Hashes of the commits that the newest epoch names, for streams that went on since.
    hashes: BTreeMap<(String, u64), [u8; 32]>,
}

impl Gathered {
    /// Follows every stream to its end; our own is `own`.
    pub(super) async fn follow(
        &mut self,
        place: &Place,
        own: &Catalog,
        state: &ClusterState,
    ) -> Result<&BTreeMap<String, Catalog>, KeepError> {
        let index = StreamIndex::new(place.store.clone());
        let named = index.follow(&mut self.seen).await.map_err(ShipError::from)?;
        for stream in named.into_iter().chain(state.streams.keys().cloned()) {
            let empty = || Catalog::empty(place.store_id, &stream);
            self.catalogs.entry(stream.clone()).or_insert_with(empty);
        }
        self.catalogs.insert(own.stream.clone(), own.clone());
        for (name, catalog) in &mut self.catalogs {
            if *name != own.stream {
                let log = CreateOnlyLog::new(place.store.clone(), name, commit_key);
                if catalog.seq == 0 {
                    *catalog = position::boot(&place.store, &log, catalog.clone()).await?.0;
                }
                *catalog = position::tail(&log, catalog.clone()).await?;
            }
        }
        self.bind(place, state).await?;
        Ok(&self.catalogs)
    }

    /// Learns the hashes of the commits that `state` names, in streams that went on since.
    async fn bind(&mut self, place: &Place, state: &ClusterState) -> Result<(), KeepError> {
        for (name, (seq, _)) in &state.streams {
            if self.catalogs.get(name).is_none_or(|catalog| catalog.seq <= *seq) {
                continue;
            }
            let log = CreateOnlyLog::new(place.store.clone(), name, commit_key);
            let at = (name.clone(), *seq);
            if let std::collections::btree_map::Entry::Vacant(vacant) = self.hashes.entry(at)
                && let Some(object) = log.read(*seq).await.map_err(ShipError::from)?
            {
                let (_, hash) = CommitRecord::from_object(&object)?;
                vacant.insert(hash);
            }
        }
        Ok(())
    }

    /// Whether everything that `state` says of shards and streams is known to be so.
    pub(super) async fn confirms(
        &mut self,
        place: &Place,
        state: &ClusterState,
    ) -> Result<bool, KeepError> {
        self.bind(place, state).await?;
        let is_known = |(name, (seq, _)): (&String, &(u64, [u8; 32]))| {
            self.catalogs.get(name).is_some_and(|catalog| catalog.seq == *seq)
                || self.hashes.contains_key(&(name.clone(), *seq))
        };
        Ok(state.streams.iter().all(is_known) && self.contradictions(state).is_empty())
    }

    /// The rules that what lies in the store breaks.
    pub(super) fn contradictions(
        &self,
        state: &ClusterState,
    ) -> Vec<sealcast_common::fault::Corruption> {
        let hash_at = |stream: &str, seq| self.hashes.get(&(stream.to_owned(), seq)).copied();
        state.contradictions(&self.catalogs, hash_at)
    }

    /// A new epoch stands: earlier commits are bound by it.
    pub(super) fn forget(&mut self) {
        self.hashes.clear();
    }
}

/// The records that bring `state` to what the catalogs say; nothing if it is there already, unless
/// `anyway`.
pub(super) fn records(
    state: &ClusterState,
    catalogs: &BTreeMap<String, Catalog>,
    now: Micros,
    anyway: bool,
) -> Vec<ClusterRecord> {
    let (mut records, mut shards, mut streams) = (Vec::new(), BTreeMap::new(), Vec::new());
    let mut changed = state.epoch.is_none();
    for (name, catalog) in catalogs.iter().filter(|(_, catalog)| catalog.seq > 0) {
        for (shard, rows) in &catalog.shards {
            let Some(entry) = &rows.checkpoint else { continue };
            let (known, shard) = (state.shards.get(shard), *shard);
            match known {
                None => {
                    let (key, stream) = (entry.key.clone(), name.clone());
                    records.push(ClusterRecord::ShardAdded { shard, key, stream });
                }
                Some(known) if known.key != entry.key => {
                    records.push(ClusterRecord::KeyRotated {
                        shard: Some(shard),
                        keys: entry.key.clone(),
                    });
                }
                Some(_) => {}
            }
            changed |= known.is_none_or(|k| (k.size, &k.key) != (entry.size, &entry.key));
            let point = ShardPoint { shard, size: entry.size, root: entry.root };
            shards.insert(shard, point);
        }
        let (seq, hash) = (catalog.seq, catalog.hash);
        streams.push(StreamPoint { stream: name.clone(), seq, hash });
    }
    // Fences alone say nothing about rows: they wait for the next epoch.
    if !changed && !anyway {
        return Vec::new();
    }
    let (number, previous) = match state.epoch {
        Some((number, index)) => (number + 1, Some(index)),
        None => (1, None),
    };
    let time = now.max(state.time);
    let shards = shards.into_values().collect();
    records.push(ClusterRecord::Epoch(Epoch { number, previous, time, shards, streams }));
    records
}
