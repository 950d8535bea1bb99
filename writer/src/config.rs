//! The writer's settings: flags and environment, and what they mean with defaults and bounds.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use sealcast_common::catalog::names::is_stream_name;
use sealcast_common::limits::{
    BODY_MS_MAX, BODY_STALL_MS_MAX, FUTURE_MICROS_MAX, INGEST_BYTES_MAX, REQUEST_BYTES_MAX,
    SHARD_QUEUE_BYTES_MAX, SHARD_QUEUE_MAX, SHARDS_MAX, TAIL_AGE_MS_MAX, TAIL_BYTES_MAX,
};
use sealcast_common::serve::access::{AccessArgs, AccessConfig};
use sealcast_common::serve::{ConfigError, load_section};
use serde::{Deserialize, Serialize};

/// When appended bytes are put on stable storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Fsync {
    /// Before every acknowledgement.
    #[default]
    Always,
    /// When the operating system likes: a power loss may take acknowledged events.
    Os,
}

impl Fsync {
    /// The word in settings, `/v1/shards` and logs.
    pub fn word(self) -> &'static str {
        match self {
            Fsync::Always => "always",
            Fsync::Os => "os",
        }
    }
}

/// Who signs the shards' checkpoints.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum SignerAt {
    /// This process, with the keys in the data directory.
    #[default]
    Local,
    /// `sealcast signer` behind this socket.
    Unix(PathBuf),
}

impl FromStr for SignerAt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("unix:") {
            Some(path) if !path.is_empty() => Ok(SignerAt::Unix(path.into())),
            None if text == "local" => Ok(SignerAt::Local),
            _ => Err(format!("signer is {text:?}, expected local or unix:PATH")),
        }
    }
}

impl TryFrom<String> for SignerAt {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<SignerAt> for String {
    fn from(signer: SignerAt) -> String {
        match signer {
            SignerAt::Local => "local".to_owned(),
            SignerAt::Unix(path) => format!("unix:{}", path.display()),
        }
    }
}

/// What flags and environment state; everything else comes from the file or the defaults.
#[derive(Clone, Debug, Default, Serialize, clap::Args)]
#[serde(default)]
pub struct Args {
    /// Data directory [default: ./sealcast-data/writer]
    #[arg(long, env = "SEALCAST_WRITER_DIR", value_name = "DIR")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dir: Option<PathBuf>,
    /// Address of the HTTP server [default: 127.0.0.1:7070]
    #[arg(long, env = "SEALCAST_WRITER_HTTP", value_name = "ADDRESS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<String>,
    /// Name of the cluster, for a new directory [default: local-<8 hex>]
    #[arg(long, env = "SEALCAST_WRITER_CLUSTER", value_name = "NAME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// Name of this node and its stream, for a new directory [default: n-<8 hex>]
    #[arg(long, env = "SEALCAST_WRITER_NODE", value_name = "NAME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Number of shards, 1 to 1024, for a new directory [default: 2]
    #[arg(long, env = "SEALCAST_WRITER_SHARDS", value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shards: Option<u16>,
    /// Number of the first shard, for a new directory [default: 0]
    #[arg(long, env = "SEALCAST_WRITER_SHARD_FIRST", value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shard_first: Option<u16>,
    /// Tail size that triggers a seal, bytes of log [default: 67108864]
    #[arg(long, env = "SEALCAST_WRITER_SEAL_BYTES", value_name = "BYTES")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seal_bytes: Option<u64>,
    /// Age of the oldest unsealed event that triggers a seal, milliseconds [default: 10000]
    #[arg(long, env = "SEALCAST_WRITER_SEAL_AGE_MS", value_name = "MS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seal_age_ms: Option<u64>,
    /// When to sync: `always` before each answer, or `os` (may lose events) [default: always]
    #[arg(long, env = "SEALCAST_WRITER_FSYNC", value_enum)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fsync: Option<Fsync>,
    /// Who signs: `local`, or `unix:PATH`, the socket of `sealcast signer` [default: local]
    #[arg(long, env = "SEALCAST_WRITER_SIGNER", value_name = "SIGNER")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signer: Option<SignerAt>,
    /// Extra wait for more requests before a sync, milliseconds [default: 0]
    #[arg(long, env = "SEALCAST_WRITER_GROUP_WAIT_MS", value_name = "MS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_wait_ms: Option<u64>,
    /// Requests that share one sync, bytes of events [default: 1048576]
    #[arg(long, env = "SEALCAST_WRITER_GROUP_BYTES", value_name = "BYTES")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_bytes: Option<usize>,
    /// How far an event's time may lie in the future, milliseconds [default: 300000]
    #[arg(long, env = "SEALCAST_WRITER_FUTURE_MS", value_name = "MS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub future_ms: Option<u64>,
    /// Requests that may wait for a shard [default: 1024]
    #[arg(long, env = "SEALCAST_WRITER_QUEUE_REQUESTS", value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_requests: Option<usize>,
    /// Events that may wait for a shard, bytes of memory [default: 134217728]
    #[arg(long, env = "SEALCAST_WRITER_QUEUE_BYTES", value_name = "BYTES")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_bytes: Option<usize>,
    /// Request bodies held at one time, bytes [default: 268435456]
    #[arg(long, env = "SEALCAST_WRITER_INGEST_BYTES", value_name = "BYTES")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ingest_bytes: Option<usize>,
    /// How long a request's body may take to arrive, milliseconds [default: 30000]
    #[arg(long, env = "SEALCAST_WRITER_BODY_MS", value_name = "MS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_ms: Option<u64>,
    /// A body that sends nothing for so long is given up, milliseconds [default: 4000]
    #[arg(long, env = "SEALCAST_WRITER_BODY_STALL_MS", value_name = "MS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_stall_ms: Option<u64>,
    /// Stay ready while a shard is out of service [default: false]
    #[arg(long, env = "SEALCAST_WRITER_READY_DEGRADED", value_name = "BOOL")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_degraded: Option<bool>,
    /// How long running requests may take to end at shutdown, milliseconds [default: 10000]
    #[arg(long, env = "SEALCAST_WRITER_DRAIN_MS", value_name = "MS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain_ms: Option<u64>,
    /// Section `[access]`.
    #[command(flatten)]
    #[serde(skip)]
    pub access: AccessArgs,
}

/// The settings of a writer, section `[writer]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Data directory.
    pub dir: PathBuf,
    /// Address of the HTTP server; port 0 takes a free one.
    pub http: String,
    /// The cluster. A directory keeps what it was made with; `None` takes that, or a random name.
    pub cluster: Option<String>,
    /// The node, also its stream's name; as `cluster`.
    pub node: Option<String>,
    /// Number of shards; `None` takes the directory's, or 2.
    pub shards: Option<u16>,
    /// Number of the first shard; `None` takes the directory's, or 0.
    pub shard_first: Option<u16>,
    /// Tail size that triggers a seal, bytes of log.
    pub seal_bytes: u64,
    /// Age of the oldest unsealed event that triggers a seal, milliseconds.
    pub seal_age_ms: u64,
    /// When appended bytes are synced.
    pub fsync: Fsync,
    /// Who signs.
    pub signer: SignerAt,
    /// Extra wait for more requests before a sync, milliseconds. 0, because whatever arrives while
    /// one sync runs shares the next one anyway: waiting helps only disks whose syncs are rationed.
    pub group_wait_ms: u64,
    /// Requests that share one sync, bytes of events; a single larger request is its own group.
    pub group_bytes: usize,
    /// How far an event's time may lie in the future, milliseconds.
    pub future_ms: u64,
    /// Requests that may wait for a shard; more are refused before anything is written.
    pub queue_requests: usize,
    /// Events that may wait for a shard, bytes of memory.
    pub queue_bytes: usize,
    /// Request bodies held and read at one time, bytes: counted as they arrive.
    pub ingest_bytes: usize,
    /// How long a request's body may take to arrive, milliseconds.
    pub body_ms: u64,
    /// A body that sends nothing for so long is given up, milliseconds.
    pub body_stall_ms: u64,
    /// Stay ready while a shard is out of service: its state is then a note of `/readyz`.
    pub ready_degraded: bool,
    /// How long running requests may take to end at shutdown, milliseconds.
    pub drain_ms: u64,
    /// Section `[access]`.
    #[serde(skip)]
    pub access: AccessConfig,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            dir: PathBuf::from("./sealcast-data/writer"),
            http: "127.0.0.1:7070".to_owned(),
            cluster: None,
            node: None,
            shards: None,
            shard_first: None,
            seal_bytes: TAIL_BYTES_MAX,
            seal_age_ms: TAIL_AGE_MS_MAX,
            fsync: Fsync::Always,
            signer: SignerAt::Local,
            group_wait_ms: 0,
            group_bytes: 1024 * 1024,
            future_ms: FUTURE_MICROS_MAX.unsigned_abs() / 1_000,
            queue_requests: SHARD_QUEUE_MAX,
            queue_bytes: SHARD_QUEUE_BYTES_MAX,
            ingest_bytes: INGEST_BYTES_MAX,
            body_ms: BODY_MS_MAX,
            body_stall_ms: BODY_STALL_MS_MAX,
            ready_degraded: false,
            drain_ms: 10_000,
            access: AccessConfig::default(),
        }
    }
}

/// A setting outside its bounds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("setting {name} of the writer is {found}, expected {expected}")]
pub struct SettingError {
    /// The setting.
    pub name: &'static str,
    /// As given.
    pub found: String,
    /// What is allowed.
    pub expected: String,
}

impl Config {
    /// Defaults, then `[writer]` and `[access]` of `file`, then `args`.
    pub fn load(file: Option<&Path>, args: &Args) -> Result<Self, ConfigError> {
        let config: Config = load_section("writer", file, args)?;
        Ok(Config { access: AccessConfig::load(file, &args.access)?, ..config })
    }

    /// Every setting is within its bounds.
    pub fn check(&self) -> Result<(), SettingError> {
        for (name, value) in [("cluster", &self.cluster), ("node", &self.node)] {
            if let Some(value) = value
                && !is_stream_name(value)
            {
                let expected = "1 to 64 of a-z, 0-9 and -".to_owned();
                return Err(SettingError { name, found: format!("{value:?}"), expected });
            }
        }
        let shards = u64::from(self.shards.unwrap_or(1));
        let first = u64::from(self.shard_first.unwrap_or(0));
        let bytes = |bytes: usize| u64::try_from(bytes).unwrap_or(u64::MAX);
        let request = bytes(REQUEST_BYTES_MAX);
        within("shards", shards, 1, SHARDS_MAX.into())?;
        within("shard_first", first, 0, u64::from(u16::MAX) + 1 - shards)?;
        within("seal_bytes", self.seal_bytes, 4 * 1024, 2 * TAIL_BYTES_MAX)?;
        within("seal_age_ms", self.seal_age_ms, 10, 24 * 3600 * 1_000)?;
        within("group_wait_ms", self.group_wait_ms, 0, 1_000)?;
        within("group_bytes", bytes(self.group_bytes), 4 * 1024, TAIL_BYTES_MAX)?;
        within("queue_requests", bytes(self.queue_requests), 1, 1_000_000)?;
        // One request of the greatest size always fits.
        within("queue_bytes", bytes(self.queue_bytes), request, 1 << 30)?;
        within("ingest_bytes", bytes(self.ingest_bytes), 2 * request, 1 << 30)?;
        within("body_ms", self.body_ms, 10, 600_000)?;
        within("body_stall_ms", self.body_stall_ms, 10, 600_000)?;
        within("future_ms", self.future_ms, 0, 10 * 365 * 24 * 3600 * 1_000)?;
        within("drain_ms", self.drain_ms, 0, 600_000)
    }
}

fn within(name: &'static str, found: u64, least: u64, most: u64) -> Result<(), SettingError> {
    if (least..=most).contains(&found) {
        return Ok(());
    }
    let expected = format!("{least} to {most}");
    Err(SettingError { name, found: found.to_string(), expected })
}
