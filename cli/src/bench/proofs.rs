//! `bench proofs`: proofs of random rows of a data set, verified, from its tiles: with nothing
//! remembered and the files' pages dropped, with nothing remembered, and with the tiles kept.

use std::hint::black_box;
use std::path::{Path, PathBuf};

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use sealcast_common::bucket::{RowLog, TileCache};
use sealcast_common::catalog::names::pack_key;
use sealcast_common::integrity::{HASH_BYTES, Hash};

use super::args::ProofsArgs;
use super::report::Report;
use super::stats::{Times, Watch};
use crate::export::{ShardLog, SourceArgs, cannot, shard_logs};
use crate::output::{Failure, failed};

/// Bytes of tiles that a replica keeps by default.
const CACHE_BYTES: usize = 64 << 20;

pub(super) async fn run(args: ProofsArgs) -> Result<(), Failure> {
    let store = args.data.join("store");
    let source = SourceArgs { dir: None, store: Some(store.display().to_string()) };
    let logs = shard_logs(&source, None, None).await?;
    let largest = logs.into_iter().max_by_key(|log| log.newest.size);
    let log = largest.ok_or_else(|| cannot("the data set has no rows"))?;
    let rows = log.newest.size;
    let files = Files::of(&store.join(format!("sh/{:04x}", log.shard)))?;
    let mut random = StdRng::seed_from_u64(args.seed);
    let warm = TileCache::new(CACHE_BYTES);
    let (mut disk, mut cold, mut kept) = <(Times, Times, Times)>::default();
    for _ in 0..args.proofs {
        let seq = random.random_range(0..rows);
        let leaf = leaf_of(&log, seq).await?;
        files.drop_pages()?;
        let fresh = || TileCache::new(CACHE_BYTES);
        for (cache, times) in [(&fresh(), &mut disk), (&fresh(), &mut cold), (&warm, &mut kept)] {
            let watch = Watch::default();
            prove(&log, cache, seq, &leaf).await?;
            times.push(watch.elapsed());
        }
    }
    let mut report = Report::new("proofs", rows, args.seed);
    let ways = [
        ("nothing kept, files from the disk", disk),
        ("nothing kept, files in the page cache", cold),
        ("tiles kept", kept),
    ];
    for (way, mut times) in ways {
        for (name, share) in [("p50", 0.5), ("p99", 0.99), ("longest", 1.0)] {
            let goal = if share < 1.0 { "≤ 1" } else { "" };
            report.goal(format!("proof, {way}, {name}"), times.quantile_ms(share), "ms", goal);
        }
    }
    report.print();
    report.save(args.json.as_deref())
}

/// What proofs are made of: packs, tiles, checkpoints.
struct Files(Vec<PathBuf>);

impl Files {
    fn of(shard: &Path) -> Result<Self, Failure> {
        let mut files = Vec::new();
        let mut folders = vec![shard.join("l0"), shard.join("tile"), shard.join("ckpt")];
        while let Some(folder) = folders.pop() {
            // A small data set has no tiles of higher levels.
            for entry in std::fs::read_dir(folder).into_iter().flatten() {
                let path = entry.map_err(failed)?.path();
                let list = if path.is_dir() { &mut folders } else { &mut files };
                list.push(path);
            }
        }
        Ok(Files(files))
    }

    /// Linux forgets what it holds of them in memory; elsewhere they stay there.
    fn drop_pages(&self) -> Result<(), Failure> {
        #[cfg(target_os = "linux")]
        for path in &self.0 {
            let file = std::fs::File::open(path).map_err(failed)?;
            rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed).map_err(failed)?;
        }
        Ok(())
    }
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
