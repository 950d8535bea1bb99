//! `sealcast bench`: how fast, on this machine, beside the figures that the design promises.
//!
//! Reading order: `args` (what can be typed), `events` (the seeded generator), `segments` and
//! `data` (rows → store, replica, Parquet), `queries` (the sixteen), then a file for each
//! benchmark, `report` (what is printed) and `stats`. `docs/performance.md` has results.

mod args;
mod concurrency;
mod data;
mod events;
mod export;
mod freshness;
mod http;
mod ingest;
mod proofs;
mod queries;
mod query;
mod report;
mod seal;
mod segments;
mod stats;
mod words;

#[cfg(test)]
mod tests;

pub(crate) use args::BenchArgs;

use args::Bench;

use crate::output::Failure;

pub(crate) async fn run(args: BenchArgs) -> Result<u8, Failure> {
    match args.what {
        Bench::Data(args) => data::run(args).await?,
        Bench::Ingest(args) => ingest::run(args).await?,
        Bench::Seal(args) => seal::seal(args).await?,
        Bench::Verify(args) => seal::verify(args).await?,
        Bench::Freshness(args) => freshness::run(args).await?,
        Bench::Query(args) => query::run(args).await?,
        Bench::Proofs(args) => proofs::run(args).await?,
        Bench::Concurrency(args) => concurrency::run(args).await?,
    }
    Ok(0)
}
