//! What `sealcast bench` takes.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sealcast bench ingest                          a writer of its own, in this folder
  sealcast bench data --rows 2000000 --out set   build once,
  sealcast bench query --data set                ask often
  sealcast bench query --data set --only q05,q12 --runs 20
  sealcast bench query --data set --sql \"select * from events where _seq = 1234\"
  scripts/bench-peers --rows 2000000             the same beside DuckDB and others

Every event comes from one seeded generator: the same seed gives the same rows. Nothing is sent
beyond this machine. Figures of a debug build do not count: cargo build --release.")]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    pub(super) what: Bench,
}

#[derive(Debug, Subcommand)]
pub(super) enum Bench {
    /// Build a data set: store, warm replica, Parquet files of the same rows; bytes a row
    Data(DataArgs),
    /// Durable events/s in batches, the tree's share of the CPU, acknowledgements/s of single events
    Ingest(IngestArgs),
    /// Rows/s that a writer seals, and what its steps cost
    Seal(SealArgs),
    /// Rows/s and bytes/s that one core verifies, as on arrival at a replica
    Verify(SealArgs),
    /// Milliseconds from flush to visible on a replica, through a store
    Freshness(FreshnessArgs),
    /// The sixteen queries over a data set, hot
    Query(QueryArgs),
    /// Milliseconds of a verified proof from a data set's tiles, with nothing kept in memory
    Proofs(ProofsArgs),
    /// Queries/s of many clients: pages, points, newest of an actor
    Concurrency(ConcurrencyArgs),
}

#[derive(Clone, Debug, Args)]
pub(super) struct Common {
    /// Events [default: what suits the benchmark]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) rows: Option<u64>,
    /// Seed of the generator
    #[arg(long, default_value_t = 42, value_name = "N")]
    pub(super) seed: u64,
    /// Write the figures here, too
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
}

#[derive(Clone, Debug, Args)]
pub(super) struct DataArgs {
    #[command(flatten)]
    pub(super) common: Common,
    /// A new folder
    #[arg(long, value_name = "DIR")]
    pub(super) out: PathBuf,
    /// Rows of one segment
    #[arg(long, default_value_t = 1_000_000, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..=4_000_000))]
    pub(super) segment_rows: u64,
    /// Write events.ndjson, too
    #[arg(long)]
    pub(super) ndjson: bool,
}

#[derive(Clone, Debug, Args)]
pub(super) struct IngestArgs {
    #[command(flatten)]
    pub(super) common: Common,
    /// A running writer [default: one of its own, in --dir]
    #[arg(long, value_name = "URL")]
    pub(super) writer: Option<String>,
    /// Where its own writer gets a temporary folder: the disk matters
    #[arg(long, default_value = ".", value_name = "DIR")]
    pub(super) dir: PathBuf,
    /// Connections that send batches
    #[arg(long, default_value_t = 8, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..=1_024))]
    pub(super) connections: u64,
    /// Events of one batch
    #[arg(long, default_value_t = 1_000, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..=20_000))]
    pub(super) batch: u64,
    /// Connections that send single events
    #[arg(long, default_value_t = 64, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..=1_024))]
    pub(super) singles: u64,
    /// How long single events are sent, seconds; 0 leaves them out
    #[arg(long, default_value_t = 10, value_name = "N")]
    pub(super) seconds: u64,
}

#[derive(Clone, Debug, Args)]
pub(super) struct SealArgs {
    #[command(flatten)]
    pub(super) common: Common,
    /// Where a temporary folder is made: the disk matters
    #[arg(long, default_value = ".", value_name = "DIR")]
    pub(super) dir: PathBuf,
    /// Repetitions
    #[arg(long, default_value_t = 5, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..=1_000))]
    pub(super) runs: u64,
}

#[derive(Clone, Debug, Args)]
pub(super) struct FreshnessArgs {
    #[command(flatten)]
    pub(super) common: Common,
    /// Where a temporary folder is made: the disk matters
    #[arg(long, default_value = ".", value_name = "DIR")]
    pub(super) dir: PathBuf,
    /// The object store: a folder or URL, empty [default: a folder]
    #[arg(long, value_name = "URL")]
    pub(super) store: Option<String>,
    /// Flushes
    #[arg(long, default_value_t = 50, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub(super) rounds: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Via {
    /// POST /v1/sql on loopback, Arrow stream, read to its end
    Http,
    /// Arrow batches in this process, as peers that are libraries are measured
    Process,
    /// One after the other
    Both,
}

#[derive(Clone, Debug, Args)]
pub(super) struct QueryArgs {
    /// What `sealcast bench data` has built
    #[arg(long, value_name = "DIR")]
    pub(super) data: PathBuf,
    /// Queries, such as q05,q12 [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(super) only: Vec<String>,
    /// This statement instead
    #[arg(long, value_name = "STATEMENT", conflicts_with = "only")]
    pub(super) sql: Option<String>,
    /// How answers are taken
    #[arg(long, value_enum, default_value = "both")]
    pub(super) via: Via,
    /// Measured runs of each query, after two for warming
    #[arg(long, default_value_t = 7, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub(super) runs: u64,
    /// Print the queries' SQL and parameters as JSON, and run nothing
    #[arg(long)]
    pub(super) list: bool,
    /// Write every answer as DIR/qNN.arrow
    #[arg(long, value_name = "DIR")]
    pub(super) answers: Option<PathBuf>,
    /// Write the figures here, too
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
}

#[derive(Clone, Debug, Args)]
pub(super) struct ProofsArgs {
    /// What `sealcast bench data` has built
    #[arg(long, value_name = "DIR")]
    pub(super) data: PathBuf,
    /// Rows that are proved, chosen at random
    #[arg(long, default_value_t = 2_000, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub(super) proofs: u64,
    /// Seed of the choice
    #[arg(long, default_value_t = 42, value_name = "N")]
    pub(super) seed: u64,
    /// Write the figures here, too
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
}

#[derive(Clone, Debug, Args)]
pub(super) struct ConcurrencyArgs {
    /// What `sealcast bench data` has built
    #[arg(long, value_name = "DIR")]
    pub(super) data: PathBuf,
    /// Clients at the same time
    #[arg(long, default_value_t = 16, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..=1_024))]
    pub(super) clients: u64,
    /// How long each mix is asked, seconds
    #[arg(long, default_value_t = 5, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) seconds: u64,
    /// Write the figures here, too
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
}
