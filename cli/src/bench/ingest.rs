//! `bench ingest`: durable events a second in batches, acknowledgements a second one by one.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use sealcast_common::event::{Position, encode_leaf};
use sealcast_common::integrity::{CompactRange, leaf_hash};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::args::IngestArgs;
use super::events::{Generator, write_json};
use super::http::Http;
use super::report::Report;
use super::stats::{CpuWatch, Times, Watch, process_cpu};
use crate::args::FlushWait;
use crate::client::Client;
use crate::commands::roles::writer_failure;
use crate::output::{Failure, failed, note};

/// Events sent in batches, unless stated.
const ROWS: u64 = 1_000_000;
/// Events whose leaves are hashed, at most.
const TREE_ROWS: u64 = 200_000;

/// A writer in this process, in a temporary folder.
pub(super) struct OwnWriter {
    pub(super) url: String,
    handle: sealcast_writer::Handle,
    stop: CancellationToken,
    _folder: tempfile::TempDir,
}

impl OwnWriter {
    pub(super) async fn start(dir: &Path) -> Result<Self, Failure> {
        let folder = tempfile::Builder::new().prefix("sealcast-bench-").tempdir_in(dir);
        let folder = folder.map_err(failed)?;
        let config = sealcast_writer::Config {
            dir: folder.path().join("writer"),
            http: "127.0.0.1:0".to_owned(),
            ..sealcast_writer::Config::default()
        };
        let stop = CancellationToken::new();
        let handle = sealcast_writer::start(config, Default::default(), stop.clone()).await;
        let handle = handle.map_err(|error| writer_failure(&error))?;
        let url = format!("http://{}", handle.http);
        Ok(OwnWriter { url, handle, stop, _folder: folder })
    }

    pub(super) async fn stop(self) -> Result<(), Failure> {
        self.stop.cancel();
        self.handle.join().await.map_err(failed)?;
        Ok(())
    }
}

pub(super) async fn run(args: IngestArgs) -> Result<(), Failure> {
    let own = match args.writer {
        Some(_) => None,
        None => Some(OwnWriter::start(&args.dir).await?),
    };
    let url = own.as_ref().map(|own| own.url.clone()).or(args.writer.clone()).unwrap_or_default();
    let http = Http::new(&url)?;
    let rows = args.common.rows.unwrap_or(ROWS);
    let mut report = Report::new("ingest", rows, args.common.seed);
    let events = Arc::new(Generator::new(args.common.seed));
    batches(&args, rows, &events, &http, &mut report).await?;
    if args.seconds > 0 {
        singles(&args, rows, &events, &http, &mut report).await?;
    }
    if let Some(own) = own {
        own.stop().await?;
    }
    report.print();
    report.save(args.common.json.as_deref())
}

/// The bodies are made before the clock starts; the client still shares the cores.
async fn batches(
    args: &IngestArgs,
    rows: u64,
    events: &Generator,
    http: &Http,
    report: &mut Report,
) -> Result<(), Failure> {
    note("making the requests");
    let bodies = bodies(events, rows, args.batch);
    let bytes: u64 = bodies.iter().map(|body| body.len() as u64).sum();
    let before = durable(http).await?;
    let (watch, start) = (Watch::default(), process_cpu());
    let (mut times, client) = send(args.connections, bodies, http.base().to_owned()).await?;
    let (rate, seconds) = (watch.rate(rows), watch.elapsed().as_secs_f64());
    require(durable(http).await?.saturating_sub(before), rows)?;
    let how = format!("{} connections, {} a request", args.connections, args.batch);
    report.goal(format!("durable events, {how}"), rate, "events/s", "≥ 100,000 on two cores");
    report.figure("the same, bytes of JSON", bytes as f64 / seconds / 1e6, "MB/s");
    report.figure("an event as JSON", bytes as f64 / rows as f64, "B");
    report.figure("request p50", times.quantile_ms(0.5), "ms");
    report.figure("request p99", times.quantile_ms(0.99), "ms");
    if args.writer.is_none() {
        Client::new(http.base())?.flush(FlushWait::Sealed).await?;
        let all = process_cpu().saturating_sub(start);
        tree(all.saturating_sub(client), rows, events, report)?;
    }
    Ok(())
}

/// Sends everything from one thread; answers what a request took, and what the thread computed.
async fn send(
    connections: u64,
    bodies: Vec<Bytes>,
    url: String,
) -> Result<(Times, Duration), Failure> {
    let sending = async move {
        // Connections belong to the runtime that has opened them.
        let (http, bodies) = (Http::new(&url)?, Arc::new(bodies));
        let next = Arc::new(AtomicU64::new(0));
        let mut senders = JoinSet::new();
        for _ in 0..connections {
            let (bodies, next, http) = (Arc::clone(&bodies), Arc::clone(&next), http.clone());
            senders.spawn(async move {
                let mut times = Times::default();
                while let Some(body) = bodies.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
                    let watch = Watch::default();
                    http.send(body.clone()).await?;
                    times.push(watch.elapsed());
                }
                Ok::<_, Failure>(times)
            });
        }
        all(senders).await
    };
    let thread = tokio::task::spawn_blocking(move || {
        let cpu = CpuWatch::default();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let times = runtime.map_err(failed)?.block_on(sending)?;
        Ok((times, cpu.elapsed()))
    });
    thread.await.map_err(failed)?
}

/// What the tree adds to the writer's work: each leaf is hashed when it is committed, and again by
/// the judge of its segment.
fn tree(
    writer: Duration,
    rows: u64,
    events: &Generator,
    report: &mut Report,
) -> Result<(), Failure> {
    let micros = |time: Duration, rows: u64| time.as_secs_f64() * 1e6 / rows as f64;
    let hashed = rows.min(TREE_ROWS);
    let tree = micros(hash_leaves(events, hashed)?, hashed);
    report.figure("leaf and tree, hashed once", tree, "µs/event");
    let writer = micros(writer, rows);
    report.figure("the writer's CPU, sealing included", writer, "µs/event");
    let share = 200.0 * tree / writer;
    report.goal("leaf and tree, hashed twice, of it", share, "%", "≤ 10");
    Ok(())
}

/// What it takes to hash the leaves of `rows` events into a tree.
fn hash_leaves(events: &Generator, rows: u64) -> Result<Duration, Failure> {
    let leaf = |seq| {
        let position = Position { log_id: [7; 16], seq, ingested_at: Generator::arrival(seq) };
        encode_leaf(&events.event(seq).as_ref(), &position).map_err(failed)
    };
    let leaves = (0..rows).map(leaf).collect::<Result<Vec<_>, _>>()?;
    let (cpu, mut tree) = (CpuWatch::default(), CompactRange::empty(0));
    leaves.iter().for_each(|leaf| tree.append(leaf_hash(leaf)));
    black_box(tree);
    Ok(cpu.elapsed())
}

fn bodies(events: &Generator, rows: u64, batch: u64) -> Vec<Bytes> {
    let starts = (0..rows).step_by(batch as usize);
    starts
        .map(|start| {
            let mut body = String::new();
            for index in start..(start + batch).min(rows) {
                write_json(&events.event(index), &mut body);
            }
            Bytes::from(body)
        })
        .collect()
}

async fn singles(
    args: &IngestArgs,
    first: u64,
    events: &Arc<Generator>,
    http: &Http,
    report: &mut Report,
) -> Result<(), Failure> {
    note(format!("single events for {} s", args.seconds));
    let next = Arc::new(AtomicU64::new(first));
    let before = durable(http).await?;
    let watch = Arc::new(Watch::default());
    let end = Duration::from_secs(args.seconds);
    let mut senders = JoinSet::new();
    for _ in 0..args.singles {
        let (events, next) = (Arc::clone(events), Arc::clone(&next));
        let (http, whole) = (http.clone(), Arc::clone(&watch));
        senders.spawn(async move {
            let mut times = Times::default();
            while whole.elapsed() < end {
                let mut body = String::new();
                write_json(&events.event(next.fetch_add(1, Ordering::Relaxed)), &mut body);
                let watch = Watch::default();
                http.send(Bytes::from(body)).await?;
                times.push(watch.elapsed());
            }
            Ok::<_, Failure>(times)
        });
    }
    let mut times = all(senders).await?;
    let rate = watch.rate(times.count());
    require(durable(http).await?.saturating_sub(before), times.count())?;
    let name = format!("single events, {} connections", args.singles);
    report.goal(name, rate, "acknowledgements/s", "≥ 5,000");
    for (name, share) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("longest", 1.0)] {
        report.figure(format!("acknowledgement {name}"), times.quantile_ms(share), "ms");
    }
    Ok(())
}

async fn all(mut senders: JoinSet<Result<Times, Failure>>) -> Result<Times, Failure> {
    let mut times = Times::default();
    while let Some(ended) = senders.join_next().await {
        times.merge(ended.map_err(failed)??);
    }
    Ok(times)
}

/// Durable rows, as the writer's shards state them.
async fn durable(http: &Http) -> Result<u64, Failure> {
    rows_of(http, "size").await
}

/// The sum of one member of the writer's shards.
pub(super) async fn rows_of(http: &Http, member: &str) -> Result<u64, Failure> {
    let answer = http.get("/v1/shards").await?;
    let shards = answer["shards"].as_array().cloned().unwrap_or_default();
    Ok(shards.iter().filter_map(|shard| shard[member].as_u64()).sum())
}

fn require(found: u64, sent: u64) -> Result<(), Failure> {
    if found == sent {
        return Ok(());
    }
    let what = format!("the writer holds {found} new rows of {sent} sent");
    Err(Failure::new(what).hint("does it hold rows of this seed already? name another --seed"))
}
