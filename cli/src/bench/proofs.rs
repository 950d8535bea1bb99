//! `bench proofs`: proofs of random rows of a data set, with nothing remembered between them, and
//! what the tree costs a row on its way in.

use std::hint::black_box;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use sealcast_common::bucket::{RowLog, TileCache};
use sealcast_common::catalog::names::pack_key;
use sealcast_common::integrity::{CompactRange, HASH_BYTES, Hash, leaf_hash};

use super::args::ProofsArgs;
use super::report::Report;
use super::stats::{Times, Watch};
use crate::export::{ShardLog, SourceArgs, cannot, shard_logs};
use crate::output::{Failure, failed};

/// Bytes of tiles that a replica keeps by default.
const CACHE_BYTES: usize = 64 << 20;
/// A typical leaf, bytes.
const LEAF_BYTES: usize = 220;
/// Leaves of which the tree's cost is measured.
const TREE_ROWS: u64 = 2_000_000;

pub(super) async fn run(args: ProofsArgs) -> Result<(), Failure> {
    let store = args.data.join("store").display().to_string();
    let source = SourceArgs { dir: None, store: Some(store) };
    let logs = shard_logs(&source, None, None).await?;
    let largest = logs.into_iter().max_by_key(|log| log.newest.size);
    let log = largest.ok_or_else(|| cannot("the data set has no rows"))?;
    let rows = log.newest.size;
    let mut report = Report::new("proofs", rows, args.seed);
    let mut random = StdRng::seed_from_u64(args.seed);
    let warm = TileCache::new(CACHE_BYTES);
    let (mut cold_times, mut warm_times) = (Times::default(), Times::default());
    for _ in 0..args.proofs {
        let seq = random.random_range(0..rows);
        let leaf = leaf_of(&log, seq).await?;
        let cold = TileCache::new(CACHE_BYTES);
        for (cache, times) in [(&cold, &mut cold_times), (&warm, &mut warm_times)] {
            let watch = Watch::default();
            prove(&log, cache, seq, &leaf).await?;
            times.push(watch.elapsed());
        }
    }
    report.goal("proof, nothing cached, median", cold_times.quantile_ms(0.5), "ms", "≤ 1");
    report.figure("proof, nothing cached, 99 of 100", cold_times.quantile_ms(0.99), "ms");
    report.figure("proof, tiles kept, median", warm_times.quantile_ms(0.5), "ms");
    report.figure("leaf and tree of a row on its way in", tree_ns(), "ns");
    report.print();
    report.save(args.json.as_deref())
}

async fn prove(log: &ShardLog, cache: &TileCache, seq: u64, leaf: &Hash) -> Result<(), Failure> {
    let store = log.store.as_ref().ok_or_else(|| cannot("no store"))?;
    let rows = RowLog::new(store, cache, log.shard, &log.catalog).map_err(failed)?;
    // Verified before it is answered, as everywhere.
    rows.inclusion(seq, leaf).await.map(|proof| drop(black_box(proof))).map_err(failed)
}

/// A replica derives it from the row.
async fn leaf_of(log: &ShardLog, seq: u64) -> Result<Hash, Failure> {
    let none = || cannot(format!("no leaf of row {seq}"));
    let segment = log.catalog.segments.covering(seq).ok_or_else(none)?;
    let store = log.store.as_ref().ok_or_else(none)?;
    let key = pack_key(log.shard, segment.id.start, segment.id.rows);
    let at = (seq - segment.id.start) * HASH_BYTES as u64;
    let found = store.get_range(&key, at..at + HASH_BYTES as u64).await.map_err(failed)?;
    found.and_then(|bytes| Hash::try_from(&*bytes).ok()).ok_or_else(none)
}

/// SHA-256 of the leaf and of what it completes, nanoseconds a row on one thread.
fn tree_ns() -> f64 {
    let (mut leaf, mut tree) = ([7u8; LEAF_BYTES], CompactRange::empty(0));
    let watch = Watch::default();
    for row in 0..TREE_ROWS {
        leaf[..8].copy_from_slice(&row.to_be_bytes());
        tree.append(leaf_hash(&leaf));
    }
    black_box(tree.end());
    watch.elapsed().as_secs_f64() * 1e9 / TREE_ROWS as f64
}
