//! `bench seal` and `bench verify`: rows a second into sealed files, and out of them.

use arrow_buffer::Buffer;
use bytes::Bytes;
use sealcast_common::durable::{Durable as _, RealFiles};
use sealcast_common::integrity::CompactRange;
use sealcast_common::segment::{Expectation, compress, decompress, verify_segment};

use super::args::SealArgs;
use super::events::{Generator, write_json};
use super::http::Http;
use super::ingest::{OwnWriter, rows_of};
use super::report::Report;
use super::segments::{encode, generate};
use super::stats::{CpuWatch, Times, Watch};
use crate::args::FlushWait;
use crate::client::Client;
use crate::output::{Failure, failed};

/// Rows of one flush: just less than fills a tail.
const SEAL_ROWS: u64 = 80_000;
/// Rows of the segment that is verified.
const VERIFY_ROWS: u64 = 400_000;
/// Events of one request.
const BATCH: u64 = 1_000;

pub(super) async fn seal(args: SealArgs) -> Result<(), Failure> {
    let rows = args.common.rows.unwrap_or(SEAL_ROWS);
    let mut report = Report::new("seal", rows, args.common.seed);
    flushes(&args, rows, &mut report).await?;
    let dir = args.dir.clone();
    let (seed, runs) = (args.common.seed, args.runs);
    let steps = tokio::task::spawn_blocking(move || steps(seed, rows, runs, &dir, report));
    let report = steps.await.map_err(failed)??;
    report.print();
    report.save(args.common.json.as_deref())
}

/// Rows in sealed segments, as the writer's shards state them.
async fn sealed(http: &Http) -> Result<u64, Failure> {
    rows_of(http, "sealed").await
}

/// A writer's own sealing: everything from the request to flush to its answer.
async fn flushes(args: &SealArgs, rows: u64, report: &mut Report) -> Result<(), Failure> {
    let own = OwnWriter::start(&args.dir).await?;
    let (http, client) = (Http::new(&own.url)?, Client::new(&own.url)?);
    let events = Generator::new(args.common.seed);
    let mut times = Times::default();
    for run in 0..args.runs {
        for start in (run * rows..(run + 1) * rows).step_by(BATCH as usize) {
            let mut body = String::new();
            for index in start..(start + BATCH).min((run + 1) * rows) {
                write_json(&events.event(index), &mut body);
            }
            http.send(Bytes::from(body)).await?;
        }
        let before = sealed(&http).await?;
        let watch = Watch::default();
        client.flush(FlushWait::Sealed).await?;
        times.push(watch.elapsed());
        // Else the time is that of fewer rows, or of nothing.
        let flushed = sealed(&http).await?.saturating_sub(before);
        if flushed != rows {
            let what = format!("the flush sealed {flushed} rows of {rows} sent");
            return Err(Failure::new(what)
                .hint("tails are sealed by themselves when they are full or old: fewer --rows"));
        }
    }
    own.stop().await?;
    let rate = |ms: f64| rows as f64 / ms * 1_000.0;
    let goal = "≥ 400,000 on two cores";
    report.goal("a writer's flush, median", rate(times.quantile_ms(0.5)), "rows/s", goal);
    report.figure("a writer's flush, best", rate(times.quantile_ms(0.0)), "rows/s");
    Ok(())
}

/// The steps of sealing on one thread.
fn steps(
    seed: u64,
    rows: u64,
    runs: u64,
    dir: &std::path::Path,
    mut report: Report,
) -> Result<Report, Failure> {
    let events = Generator::new(seed);
    let frontier = CompactRange::empty(0);
    let folder = tempfile::Builder::new().prefix("sealcast-bench-").tempdir_in(dir);
    let file = folder.as_ref().map_err(failed)?.path().join("segment");
    let (mut encoded, mut written, mut judged) = <(Times, Times, Times)>::default();
    let mut length = 0;
    for _ in 0..runs {
        let made = generate(&events, 0..rows)?;
        let watch = Watch::default();
        let bytes = encode(made, &frontier)?;
        encoded.push(watch.elapsed());
        length = bytes.len();
        let watch = Watch::default();
        RealFiles.write_new(&file, &bytes).map_err(failed)?;
        written.push(watch.elapsed());
        let watch = Watch::default();
        verify_segment(Buffer::from_vec(bytes), &Expectation::default()).map_err(failed)?;
        judged.push(watch.elapsed());
    }
    let all = [("encode", encoded), ("write and sync", written), ("judge", judged)];
    for (step, mut times) in all {
        let ms = times.quantile_ms(0.5);
        report.figure(format!("step: {step}"), rows as f64 / ms * 1_000.0, "rows/s");
    }
    report.figure("sealed file", length as f64 / rows as f64, "B/row");
    Ok(report)
}

pub(super) async fn verify(args: SealArgs) -> Result<(), Failure> {
    let rows = args.common.rows.unwrap_or(VERIFY_ROWS);
    let (seed, runs) = (args.common.seed, args.runs);
    let judging = tokio::task::spawn_blocking(move || judge(seed, rows, runs));
    let report = judging.await.map_err(failed)??;
    report.print();
    report.save(args.common.json.as_deref())
}

/// On one thread, by its CPU time, from memory: decompressing the object, judging every byte, row and leaf.
fn judge(seed: u64, rows: u64, runs: u64) -> Result<Report, Failure> {
    let made = generate(&Generator::new(seed), 0..rows)?;
    let file = encode(made, &CompactRange::empty(0))?;
    let raw = file.len() as u64;
    let buffer = Buffer::from_vec(file);
    let expect = Expectation::default();
    let (view, _batches) = verify_segment(buffer.clone(), &expect).map_err(failed)?;
    let cuts = view.seal().blocks.iter().map(|block| block.offset);
    let object = compress(&buffer, cuts).map_err(failed)?;
    let (mut judged, mut unpacked) = (Times::default(), Times::default());
    for _ in 0..runs {
        let cpu = CpuWatch::default();
        let bytes = decompress(&object, raw).map_err(failed)?;
        unpacked.push(cpu.elapsed());
        let cpu = CpuWatch::default();
        verify_segment(Buffer::from_vec(bytes), &expect).map_err(failed)?;
        judged.push(cpu.elapsed());
    }
    let (judge, unpack) = (judged.quantile_ms(0.5), unpacked.quantile_ms(0.5));
    let mut report = Report::new("verify", rows, seed);
    let rate = |count: f64, ms: f64| count / ms * 1_000.0;
    let goal = "≥ 1,000,000 a core";
    report.goal("verify a segment", rate(rows as f64, judge), "rows/s per core", goal);
    report.figure("the same, bytes", rate(raw as f64, judge) / 1e6, "MB/s");
    report.figure("decompress the object", rate(rows as f64, unpack), "rows/s");
    let both = rate(rows as f64, judge + unpack);
    report.figure("both, as on arrival", both, "rows/s per core");
    report.figure("segment", raw as f64 / rows as f64, "B/row");
    report.figure("object", object.len() as f64 / rows as f64, "B/row");
    Ok(report)
}
