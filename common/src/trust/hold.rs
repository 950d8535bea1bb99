//! A stream's catalog against the newest epoch, and against the catalogs that held before.
//!
//! Segments never change and none is removed in this version, so a size that was trusted is the end
//! of a segment for ever, and its root stands in the catalog: no tile is asked for. That the rows
//! between two such roots lead from one to the other is shown by whoever judges the rows.

use std::collections::BTreeMap;

use super::{Trust, TrustError, TrustedShard};
use crate::catalog::names::{cluster_record_key, commit_key};
use crate::catalog::{Catalog, CheckpointEntry, ShardCatalog};
use crate::cluster::{ClusterState, check_shard, check_stream};
use crate::fault::{Corruption, hex};
use crate::integrity::{check_keys, shard_origin};

impl Trust {
    /// The catalog contradicts nothing. `complete`: it was read to its end after the cluster log
    /// was looked at, so everything that the epoch names must be there; otherwise only what the
    /// catalog has reached is compared. `hash_at` gives the hash of a commit of this stream where it
    /// is known.
    pub fn hold(
        &self,
        catalog: &Catalog,
        complete: bool,
        hash_at: impl Fn(u64) -> Option<[u8; 32]>,
    ) -> Result<(), TrustError> {
        let state = &self.state.cluster;
        let at_epoch = |found: Corruption| {
            found.in_object(cluster_record_key(state.epoch.map_or(0, |(_, leaf)| leaf)))
        };
        anchored(state, catalog, complete, hash_at).map_err(at_epoch)?;
        let at_commit =
            |found: Corruption| found.in_object(commit_key(&catalog.stream, catalog.seq));
        self.keys(catalog).map_err(at_commit)?;
        for (shard, before) in &self.state.shards {
            let checkpoint = &before.checkpoint;
            match catalog.shards.get(shard) {
                Some(rows) => continues(*shard, checkpoint, rows, complete).map_err(at_commit)?,
                None if complete && before.stream == catalog.stream => {
                    return Err(at_commit(missing(*shard, &before.stream)).into());
                }
                None => {}
            }
        }
        Ok(())
    }

    /// As [`Trust::hold`] for all streams of a store, each complete; a stream or shard that was
    /// trusted and is not there is a finding. Then everything is accepted and saved.
    pub fn conclude(
        &mut self,
        catalogs: &BTreeMap<String, Catalog>,
        hash_at: impl Fn(&str, u64) -> Option<[u8; 32]>,
    ) -> Result<(), TrustError> {
        let found = self.state.cluster.contradictions(catalogs, &hash_at).into_iter().next();
        if let Some(found) = found {
            let epoch = self.state.cluster.epoch.map_or(0, |(_, leaf)| leaf);
            return Err(found.in_object(cluster_record_key(epoch)).into());
        }
        for (shard, before) in &self.state.shards {
            if !catalogs.contains_key(&before.stream) {
                return Err(missing(*shard, &before.stream).into());
            }
        }
        for (name, catalog) in catalogs {
            self.hold(catalog, true, |seq| hash_at(name, seq))?;
        }
        catalogs.values().for_each(|catalog| self.accept(catalog));
        self.save()
    }

    /// The catalog has held, complete: its checkpoints are trusted from now on. In memory, until
    /// [`Trust::save`].
    pub fn accept(&mut self, catalog: &Catalog) {
        for (shard, rows) in &catalog.shards {
            let Some(checkpoint) = rows.checkpoint.clone() else { continue };
            let stream = catalog.stream.clone();
            self.state.shards.insert(*shard, TrustedShard { stream, checkpoint });
        }
    }

    /// Shards' keys are those of the cluster log and, where it names some, of the policy, or were
    /// handed over by them.
    fn keys(&self, catalog: &Catalog) -> Result<(), Corruption> {
        for (shard, rows) in &catalog.shards {
            let Some(CheckpointEntry { size, key: found, .. }) = &rows.checkpoint else { continue };
            let mut keys = found;
            if let Some(known) = self.state.cluster.shards.get(shard) {
                // An epoch from after a hand-over knows more than a catalog from before it.
                let later = check_keys("shard_key", found, &known.key).unwrap_or_default();
                if later.first().is_none_or(|next| next.at.size < *size) {
                    check_keys("shard_key", &known.key, found)?;
                } else {
                    keys = &known.key;
                }
                if known.stream != catalog.stream {
                    let expected = format!("shard {shard:04x} from stream {} only", known.stream);
                    return Err(Corruption::new("shard_owner", None, expected, &catalog.stream));
                }
            }
            let Some(policy) = &self.policy else { continue };
            policy.check_keys("shard_key", &shard_origin(&catalog.cluster, *shard), keys)?;
        }
        Ok(())
    }
}

/// Against the newest epoch.
fn anchored(
    state: &ClusterState,
    catalog: &Catalog,
    complete: bool,
    hash_at: impl Fn(u64) -> Option<[u8; 32]>,
) -> Result<(), Corruption> {
    if state.size() > 0 && catalog.seq > 0 && catalog.cluster != state.cluster {
        return Err(Corruption::new("cluster", None, &state.cluster, &catalog.cluster));
    }
    if state.size() > 0 && catalog.store_id != state.store_id {
        let (expected, found) = (hex(&state.store_id), hex(&catalog.store_id));
        return Err(Corruption::new("store_id", None, expected, found));
    }
    let point = state.streams.get(&catalog.stream);
    let reached = complete || point.is_some_and(|(seq, _)| catalog.seq >= *seq);
    for (shard, known) in state.shards.iter().filter(|(_, k)| k.stream == catalog.stream) {
        let size = catalog.shards.get(shard).map_or(0, |rows| rows.size());
        if reached || size >= known.size {
            check_shard(*shard, known, Some(catalog))?;
        }
    }
    // Last, as it says least: which shard lost or changed rows is known by now, if one did.
    if let Some((seq, hash)) = point.filter(|_| reached) {
        check_stream(&catalog.stream, *seq, hash, Some(catalog), |_: &str, seq| hash_at(seq))?;
    }
    Ok(())
}

/// Against the newest checkpoint that held before.
fn continues(
    shard: u16,
    before: &CheckpointEntry,
    rows: &ShardCatalog,
    complete: bool,
) -> Result<(), Corruption> {
    if rows.size() < before.size {
        let expected = format!("shard {shard:04x} with at least {} rows, as before", before.size);
        let found = rows.size().to_string();
        return match complete {
            true => Err(Corruption::new("shard_rollback", None, expected, found)),
            false => Ok(()),
        };
    }
    let rewritten = |found: String| {
        let root = hex(&before.root);
        let expected = format!("shard {shard:04x} with root {root} at {}", before.size);
        Err(Corruption::new("shard_rewritten", None, expected, found))
    };
    if let Some(entry) = &rows.checkpoint {
        check_keys("shard_key", &before.key, &entry.key)?;
    }
    let Some(last) = before.size.checked_sub(1) else { return Ok(()) };
    match rows.segments.covering(last) {
        Some(segment) if segment.end() == before.size && segment.root_after == before.root => {
            Ok(())
        }
        Some(segment) if segment.end() == before.size => rewritten(hex(&segment.root_after)),
        Some(segment) => rewritten(format!("segment {}", segment.id.to_text())),
        None => rewritten("no segment".into()),
    }
}

fn missing(shard: u16, stream: &str) -> Corruption {
    let expected = format!("shard {shard:04x} from stream {stream}, as before");
    Corruption::new("shard_missing", None, expected, "nothing of it")
}
