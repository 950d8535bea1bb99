//! `bench data`: a store, a replica that holds all of it, and Parquet files of the same rows.
//!
//! Segments are sealed, shipped, committed, fetched, judged and admitted by the code that does so
//! in production; only the way through HTTP and the write-ahead log is left out.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sealcast_common::durable::{Durable as _, RealFiles};
use sealcast_common::wire::{Token, Vector};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::args::DataArgs;
use super::events::Generator;
use super::export::{Exports, NDJSON, bytes_below};
use super::report::Report;
use super::segments::{CLUSTER, Sealer, generate};
use super::stats::Watch;
use crate::commands::roles::writer_failure;
use crate::output::{Failure, Progress, failed, note};

/// How long a replica may take to admit everything.
const ADMIT_TIME: Duration = Duration::from_secs(3_600);

/// A query that no summary can answer.
const TOUCH: &str = "select count(*) from events where message = ''";

/// `bench.json`: what a folder holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DataSet {
    pub(super) rows: u64,
    pub(super) seed: u64,
    pub(super) segment_rows: u64,
}

impl DataSet {
    fn file(dir: &Path) -> PathBuf {
        dir.join("bench.json")
    }

    /// Reads what `bench data` wrote last, when everything else was there.
    pub(super) fn open(dir: &Path) -> Result<Self, Failure> {
        let file = Self::file(dir);
        let read = std::fs::read(&file).map_err(failed);
        read.and_then(|text| serde_json::from_slice(&text).map_err(failed)).map_err(|error| {
            Failure::new(format!("data set {} cannot be used: {}", file.display(), error.message))
                .hint("build it: sealcast bench data --rows 2000000 --out DIR")
        })
    }
}

pub(super) async fn run(args: DataArgs) -> Result<(), Failure> {
    let dir = args.out.clone();
    let (rows, seed) = (args.common.rows.unwrap_or(2_000_000), args.common.seed);
    let wanted = DataSet { rows, seed, segment_rows: args.segment_rows };
    match DataSet::open(&dir) {
        Ok(found) if found == wanted && args.ndjson && !dir.join(NDJSON).is_file() => {
            let what = format!("{} was built without {NDJSON}", dir.display());
            return Err(Failure::new(what).hint("name another folder, or remove this one"));
        }
        Ok(found) if found == wanted => {
            note(format!("{} holds these rows already", dir.display()));
            return Ok(());
        }
        Ok(_) => {
            let what = format!("{} holds another data set", dir.display());
            return Err(Failure::new(what).hint("name another folder, or remove this one"));
        }
        Err(_) if dir.exists() => {
            let what = format!("{} is there, but is no finished data set", dir.display());
            return Err(Failure::new(what).hint("remove it, and build again"));
        }
        Err(_) => {}
    }
    RealFiles.create_dir(&dir).map_err(failed)?;
    let watch = Watch::default();
    identity(&dir.join("writer")).await?;
    let (built, into, ndjson) = (wanted.clone(), dir.clone(), args.ndjson);
    let sealing = tokio::task::spawn_blocking(move || seal_all(&built, &into, ndjson));
    sealing.await.map_err(failed)??;
    let sealed = watch.elapsed();
    ship(&dir).await?;
    let shipped = watch.elapsed();
    let replica = open_replica(&dir, rows).await?;
    let admitted = watch.elapsed();
    replica.stop().await?;
    // What the store holds is enough from here on.
    std::fs::remove_dir_all(dir.join("writer")).map_err(failed)?;
    let text = serde_json::to_vec_pretty(&wanted).map_err(failed)?;
    RealFiles.write_new(&DataSet::file(&dir), &text).map_err(failed)?;
    let mut report = Report::new("data", rows, seed);
    let seconds = |time: Duration| time.as_secs_f64();
    report.figure("generate, seal and export", seconds(sealed), "s");
    report.figure("ship", seconds(shipped.saturating_sub(sealed)), "s");
    report.figure("admit by a replica", seconds(admitted.saturating_sub(shipped)), "s");
    sizes(&mut report, &dir, rows)?;
    report.print();
    report.save(args.common.json.as_deref())
}

/// Bytes a row, in the bucket and elsewhere.
fn sizes(report: &mut Report, dir: &Path, rows: u64) -> Result<(), Failure> {
    let per_row = |bytes: u64| bytes as f64 / rows as f64;
    let bucket = per_row(bytes_below(&dir.join("store"))?);
    let parquet = per_row(bytes_below(&dir.join("parquet"))?);
    report.goal("bucket, everything in it", bucket, "B/row", "≤ Parquet + 10 %");
    report.figure("Parquet zstd-3 of the same rows", parquet, "B/row");
    report.goal("bucket / Parquet", bucket / parquet, "×", "≤ 1.10");
    report.figure("replica, mapped files", per_row(bytes_below(&dir.join("replica"))?), "B/row");
    report.more(json!({ "bucket_bytes_per_row": bucket, "parquet_bytes_per_row": parquet }));
    Ok(())
}

/// A writer makes its folder and its key, and ends.
async fn identity(dir: &Path) -> Result<(), Failure> {
    let config = sealcast_writer::Config {
        dir: dir.to_owned(),
        http: "127.0.0.1:0".to_owned(),
        cluster: Some(CLUSTER.to_owned()),
        node: Some(CLUSTER.to_owned()),
        shards: Some(1),
        ..sealcast_writer::Config::default()
    };
    let stop = CancellationToken::new();
    let writer = sealcast_writer::start(config, Default::default(), stop.clone()).await;
    let writer = writer.map_err(|error| writer_failure(&error))?;
    stop.cancel();
    writer.join().await.map_err(failed)?;
    Ok(())
}

fn seal_all(set: &DataSet, dir: &Path, ndjson: bool) -> Result<(), Failure> {
    let events = Generator::new(set.seed);
    let mut sealer = Sealer::new(&dir.join("writer"))?;
    let exports = Arc::new(Exports::new(dir, ndjson)?);
    let progress = Progress::new("sealed", set.rows, false);
    let mut exporting: Option<std::thread::JoinHandle<Result<(), Failure>>> = None;
    let finish = |running: Option<std::thread::JoinHandle<Result<(), Failure>>>| match running {
        Some(thread) => thread.join().map_err(|_| Failure::new("an export broke"))?,
        None => Ok(()),
    };
    let mut start = 0;
    while start < set.rows {
        let end = (start + set.segment_rows).min(set.rows);
        let view = sealer.seal(generate(&events, start..end)?)?;
        exports.ndjson(&events, start..end)?;
        // While one segment is exported, the next is sealed.
        finish(exporting.take())?;
        let exports = Arc::clone(&exports);
        exporting = Some(std::thread::spawn(move || exports.parquet(&view, start)));
        progress.set(end, "");
        start = end;
    }
    finish(exporting)?;
    progress.finish();
    Ok(())
}

async fn ship(dir: &Path) -> Result<(), Failure> {
    let config = sealcast_shipper::Config {
        dir: dir.join("writer"),
        store: dir.join("store").display().to_string(),
        http: "127.0.0.1:0".to_owned(),
        once: true,
        ..sealcast_shipper::Config::default()
    };
    let shipper = sealcast_shipper::start(config, Default::default(), CancellationToken::new());
    let ended = shipper.await.map_err(failed)?.join().await.map_err(failed)?;
    match ended.exit_code() {
        0 => Ok(()),
        _ => Err(Failure::new(format!("not everything was shipped: {ended:?}"))),
    }
}

/// A running replica over a data set.
pub(super) struct Replica {
    pub(super) handle: sealcast_replica::Handle,
    stop: CancellationToken,
}

impl Replica {
    pub(super) fn url(&self) -> String {
        format!("http://{}", self.handle.http)
    }

    pub(super) async fn stop(self) -> Result<(), Failure> {
        self.stop.cancel();
        self.handle.join().await.map_err(failed)?;
        Ok(())
    }
}

/// Starts a replica on the data set's store and waits until it has admitted `rows`.
pub(super) async fn open_replica(dir: &Path, rows: u64) -> Result<Replica, Failure> {
    let config = sealcast_replica::Config {
        dir: dir.join("replica"),
        store: dir.join("store").display().to_string(),
        http: "127.0.0.1:0".to_owned(),
        cache_bytes: 1 << 40,
        memory_bytes: 8 << 30,
        timeout_ms: 600_000,
        drain_delay_ms: 0,
        ..sealcast_replica::Config::default()
    };
    let stop = CancellationToken::new();
    let handle = sealcast_replica::start(config, Default::default(), stop.clone());
    let handle = handle.await.map_err(failed)?;
    let everything = Token(Vector::from([(0, rows)]));
    if handle.vault.wait_for(&everything, ADMIT_TIME).await.is_err() {
        return Err(Failure::new("the replica does not know all rows, even after an hour"));
    }
    // What is known is fetched and judged when a query first needs it: this one needs all of it.
    handle.collect(TOUCH).await.map_err(failed)?;
    Ok(Replica { handle, stop })
}
