//! What can be typed behind `export-log` and `prove`.

use std::path::PathBuf;

use clap::Args;

use crate::args::{ConnectArgs, REPLICA_URL};

/// Where rows lie.
#[derive(Debug, Args)]
pub(crate) struct SourceArgs {
    /// A store: a folder or a URL
    #[arg(long, value_name = "URL", conflicts_with = "dir")]
    pub(crate) store: Option<String>,
    /// A writer's data directory: what is sealed in it
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("source").required(true).args(["store", "dir"]))]
#[command(after_help = "\
Every leaf is derived again from the segments, and everything must lead to the signed checkpoint
before that is written. OUT then holds, as C2SP tlog-tiles says: tile/<L>/<N>[.p/<W>], tile/entries/…
and checkpoint; beside them checkpoint.old (an earlier signed one), vkey (the log's key as found:
compare it with one that you know from elsewhere), row.leaf.cbor and row.tlog-proof.

Exit code 0: written. 1: tampered or corrupt, and the check that found it. 2: cannot be done.

Example:
  sealcast export-log --store s3://audit/prod --shard 0 ./log
  sealcast verify ./log/row.tlog-proof --leaf ./log/row.leaf.cbor --vkey \"$KEY\"")]
pub(crate) struct ExportLogArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    /// The shard, decimal as in the column _shard
    #[arg(long, value_name = "N")]
    pub(crate) shard: u16,
    /// Folder to write; must be empty or missing
    #[arg(value_name = "OUT")]
    pub(crate) out: PathBuf,
    /// The row to prove in row.leaf.cbor and row.tlog-proof [default: a third of the log]
    #[arg(long, value_name = "SEQ")]
    pub(crate) sample: Option<u64>,
    /// Size of checkpoint.old; must be one that was signed [default: the last but one]
    #[arg(long, value_name = "N")]
    pub(crate) old_size: Option<u64>,
    /// Print the summary as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Writes OUT.tlog-proof (C2SP: path and signed checkpoint) and OUT.leaf.cbor (the row's canonical bytes),
both verified first. From a replica, the token decides whose rows can be proved. From a store or a
folder an event id is looked for in every segment.

Exit code 0: written. 1: tampered, or refused. 2: cannot be done.

Examples:
  sealcast prove 0/41
  sealcast prove 0195fa2c-7d1e-7000-8000-5d0e3b1f9a77 --store s3://audit/prod --out login
  sealcast verify login.tlog-proof --leaf login.leaf.cbor --vkey \"$KEY\"")]
pub(crate) struct ProveArgs {
    /// The row as in _shard and _seq, or its event id
    #[arg(value_name = "SHARD/SEQ|EVENT_ID")]
    pub(crate) row: String,
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    /// The replica, unless --store or --dir is given
    #[arg(long, default_value = REPLICA_URL, env = "SEALCAST_REPLICA", value_name = "URL")]
    pub(crate) replica: String,
    /// First part of the files' names [default: <shard>-<seq>]
    #[arg(long, value_name = "OUT")]
    pub(crate) out: Option<PathBuf>,
    /// Replace files that exist
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}
