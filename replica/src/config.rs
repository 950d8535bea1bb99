//! The replica's settings: defaults, then `[replica]` of the file, then environment and flags.

use std::path::{Path, PathBuf};

use sealcast_common::limits::WAIT_MS_MAX;
use sealcast_common::serve::access::{AccessArgs, AccessConfig};
use sealcast_common::serve::{ConfigError, load_section};
use sealcast_vault::{HintPeer, VaultConfig, VaultError};
use serde::{Deserialize, Serialize};

/// What flags and environment state.
#[derive(Clone, Debug, Default, clap::Args, Serialize)]
pub struct Args {
    /// Folder of the local copy and of spilled queries, for this process alone
    /// [default: sealcast-data/replica]
    #[arg(long, env = "SEALCAST_REPLICA_DIR", value_name = "DIR")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dir: Option<PathBuf>,
    /// Object store to follow: a folder or a URL (s3://, gs://, az://) [default: sealcast-data/store]
    #[arg(long, env = "SEALCAST_REPLICA_STORE", value_name = "URL")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store: Option<String>,
    /// Address to listen on [default: 127.0.0.1:7080]
    #[arg(long, env = "SEALCAST_REPLICA_HTTP", value_name = "ADDRESS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<String>,
    /// Address of a port for Arrow Flight alone, or none [default: none: HTTP's port serves it too]
    #[arg(long, env = "SEALCAST_REPLICA_FLIGHT", value_name = "ADDRESS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flight: Option<String>,
    /// Address of a port for PostgreSQL's protocol, or none [default: none]
    #[arg(long, env = "SEALCAST_REPLICA_POSTGRES", value_name = "ADDRESS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub postgres: Option<String>,
    /// Name of this replica [default: made once and kept in the folder]
    #[arg(long, env = "SEALCAST_REPLICA_ID", value_name = "NAME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Base URLs of shippers, for hints [default: none, polling only]
    #[arg(long, env = "SEALCAST_REPLICA_SHIPPER", value_name = "URL", value_delimiter = ',')]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shipper: Option<Vec<String>>,
    /// Streams to follow [default: all that the store has at boot]
    #[arg(long, env = "SEALCAST_REPLICA_STREAMS", value_name = "NAME", value_delimiter = ',')]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streams: Option<Vec<String>>,
    /// Budget of local segment files, bytes [default: 17179869184]
    #[arg(long, env = "SEALCAST_REPLICA_CACHE_BYTES", value_name = "BYTES")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_bytes: Option<u64>,
    /// Memory of all running queries, bytes; beyond it they spill [default: 1073741824]
    #[arg(long, env = "SEALCAST_REPLICA_MEMORY_BYTES", value_name = "BYTES")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<usize>,
    /// Time of one query, milliseconds [default: 30000]
    #[arg(long, env = "SEALCAST_REPLICA_TIMEOUT_MS", value_name = "MS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Memory of one query, bytes; beyond it its operators spill [default: 536870912]
    #[arg(long, env = "SEALCAST_REPLICA_QUERY_MEMORY_BYTES", value_name = "BYTES")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query_memory_bytes: Option<usize>,
    /// Queries that run at the same time [default: 16]
    #[arg(long, env = "SEALCAST_REPLICA_MAX_CONCURRENT", value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_concurrent: Option<usize>,
    /// Longest wait for running queries when stopping, milliseconds [default: 10000]
    #[arg(long, env = "SEALCAST_REPLICA_DRAIN_MS", value_name = "MS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain_ms: Option<u64>,
    /// Policy file: the keys that are believed, and which witnesses must have cosigned
    /// [default: none]
    #[arg(long, env = "SEALCAST_REPLICA_POLICY", value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<PathBuf>,
    /// Believe the first cluster log that is seen, without a policy [default: on loopback only]
    #[arg(long, env = "SEALCAST_REPLICA_TRUST_ON_FIRST_USE", value_name = "BOOL")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trust_on_first_use: Option<bool>,
    /// File with the secret that makes cursors of /v1/events and tickets of Flight opaque, the same
    /// at all replicas behind one address [default: none, a fresh secret in each process]
    #[arg(long, env = "SEALCAST_REPLICA_OPAQUE_KEY_FILE", value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opaque_key_file: Option<PathBuf>,
    /// Section `[access]`.
    #[command(flatten)]
    #[serde(skip)]
    pub access: AccessArgs,
}

/// The settings in force.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Folder of the local copy and of spilled queries, for this process alone.
    pub dir: PathBuf,
    /// Object store to follow: a folder or a URL.
    pub store: String,
    /// Address to listen on.
    pub http: String,
    /// Address of a port for Arrow Flight alone; `none`: HTTP's port serves it too.
    pub flight: String,
    /// Address of a port for PostgreSQL's protocol; `none`: it is not served.
    pub postgres: String,
    /// Name of this replica; made once and kept in the folder if absent.
    pub id: Option<String>,
    /// Base URLs of shippers, for hints.
    pub shipper: Vec<String>,
    /// Streams to follow; empty: all that the store has at boot.
    pub streams: Vec<String>,
    /// Budget of local segment files, bytes.
    pub cache_bytes: u64,
    /// Shortest wait between two probes of the store, milliseconds.
    pub poll_min_ms: u64,
    /// Longest wait between two probes of the store, milliseconds.
    pub poll_max_ms: u64,
    /// Wait between two probes while hints arrive, milliseconds.
    pub hinted_poll_ms: u64,
    /// Segments fetched at the same time.
    pub fetch_parallel: usize,
    /// Without a successful probe for so long the node is not ready and refuses `events` to all who
    /// do not say `allow_stale`, milliseconds.
    pub max_staleness_ms: u64,
    /// Policy file (C2SP tlog-policy): the keys that are believed, and which witnesses count.
    pub policy: Option<PathBuf>,
    /// Without a policy, the first cluster log that is seen is believed from then on. Must be said
    /// beyond loopback.
    pub trust_on_first_use: Option<bool>,
    /// Rows that no epoch of the cluster log names after so long are told of, milliseconds.
    pub anchor_delay_ms: u64,
    /// If the policy's witnesses cosigned the newest epoch longer ago, the node is not ready,
    /// milliseconds.
    pub cluster_staleness_ms: u64,
    /// Memory of all running queries, bytes; beyond it they spill.
    pub memory_bytes: usize,
    /// Memory of one query, bytes; beyond it its operators spill.
    pub query_memory_bytes: usize,
    /// Bytes spilled at the same time.
    pub spill_bytes: u64,
    /// Partitions of one query; 0: the number of cores.
    pub partitions: usize,
    /// Time of one query, milliseconds; a request may ask for less.
    pub timeout_ms: u64,
    /// Wait for `min=<token>` when the request does not say, milliseconds.
    pub wait_ms: u64,
    /// Rows of one answer; absent: no limit.
    pub max_rows: Option<u64>,
    /// Bytes of one answer before compression; absent: no limit.
    pub max_result_bytes: Option<u64>,
    /// Bytes of columns that one query reads; absent: no limit.
    pub max_scan_bytes: Option<u64>,
    /// Queries that run at the same time.
    pub max_concurrent: usize,
    /// Queries that wait for their turn.
    pub max_queued: usize,
    /// Queries of one token that run at the same time.
    pub token_concurrent: usize,
    /// Queries of one token that wait for their turn.
    pub token_queued: usize,
    /// Longest wait for a turn, milliseconds.
    pub queue_ms: u64,
    /// After SIGTERM, serving goes on for so long, for load balancers to notice, milliseconds.
    pub drain_delay_ms: u64,
    /// Longest wait for running queries after that, milliseconds.
    pub drain_ms: u64,
    /// File with the secret that makes cursors and tickets opaque, the same at all replicas behind
    /// one address; absent: a fresh secret in each process.
    pub opaque_key_file: Option<PathBuf>,
    /// Section `[access]`.
    #[serde(skip)]
    pub access: AccessConfig,
}

impl Default for Config {
    fn default() -> Self {
        let vault = VaultConfig::default();
        Config {
            dir: PathBuf::from("sealcast-data/replica"),
            store: "sealcast-data/store".into(),
            http: "127.0.0.1:7080".into(),
            flight: "none".into(),
            postgres: "none".into(),
            id: None,
            shipper: Vec::new(),
            streams: Vec::new(),
            cache_bytes: vault.cache_bytes,
            poll_min_ms: vault.poll_min_ms,
            poll_max_ms: vault.poll_max_ms,
            hinted_poll_ms: vault.hinted_poll_ms,
            fetch_parallel: vault.fetch_parallel,
            max_staleness_ms: vault.max_staleness_ms,
            policy: None,
            trust_on_first_use: None,
            anchor_delay_ms: vault.anchor_delay_ms,
            cluster_staleness_ms: vault.cluster_staleness_ms,
            memory_bytes: 1024 * 1024 * 1024,
            query_memory_bytes: 512 * 1024 * 1024,
            spill_bytes: 16 * 1024 * 1024 * 1024,
            partitions: 0,
            timeout_ms: 30_000,
            wait_ms: 10_000,
            max_rows: None,
            max_result_bytes: None,
            max_scan_bytes: None,
            max_concurrent: 16,
            max_queued: 64,
            token_concurrent: 8,
            token_queued: 32,
            queue_ms: 5_000,
            drain_delay_ms: 500,
            drain_ms: 10_000,
            opaque_key_file: None,
            access: AccessConfig::default(),
        }
    }
}

/// A setting outside its range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("replica setting {setting} is {found}; expected {expected}")]
pub struct SettingError {
    /// Its name.
    pub setting: &'static str,
    /// As given.
    pub found: String,
    /// What would do.
    pub expected: String,
}

impl Config {
    /// Defaults, then `[replica]` and `[access]` of `file`, then `args`.
    pub fn load(file: Option<&Path>, args: &Args) -> Result<Self, ConfigError> {
        let config: Config = load_section("replica", file, args)?;
        Ok(Config { access: AccessConfig::load(file, &args.access)?, ..config })
    }

    /// Checks ranges, the vault's too.
    pub fn check(&self) -> Result<(), SettingError> {
        let checks = [
            ("memory_bytes", self.memory_bytes as u64, 16 * 1024 * 1024, u64::MAX),
            ("query_memory_bytes", self.query_memory_bytes as u64, 1024 * 1024, u64::MAX),
            ("timeout_ms", self.timeout_ms, 1, 24 * 3_600_000),
            ("queue_ms", self.queue_ms, 1, 3_600_000),
            ("wait_ms", self.wait_ms, 0, WAIT_MS_MAX),
            ("max_concurrent", self.max_concurrent as u64, 1, 10_000),
            ("max_queued", self.max_queued as u64, 0, 100_000),
            ("token_concurrent", self.token_concurrent as u64, 1, 10_000),
            ("token_queued", self.token_queued as u64, 0, 100_000),
            ("partitions", self.partitions as u64, 0, 1_024),
            ("drain_ms", self.drain_ms, 0, 3_600_000),
            ("anchor_delay_ms", self.anchor_delay_ms, 0, 24 * 3_600_000),
            ("cluster_staleness_ms", self.cluster_staleness_ms, 1, 30 * 24 * 3_600_000),
            ("drain_delay_ms", self.drain_delay_ms, 0, 600_000),
        ];
        for (setting, found, least, greatest) in checks {
            if !(least..=greatest).contains(&found) {
                let expected = match greatest {
                    u64::MAX => format!("at least {least}"),
                    _ => format!("{least} to {greatest}"),
                };
                return Err(SettingError { setting, found: found.to_string(), expected });
            }
        }
        self.check_trust()?;
        match self.vault().check() {
            Err(VaultError::Setting { setting, found, expected }) => {
                Err(SettingError { setting, found, expected: expected.to_owned() })
            }
            _ => Ok(()),
        }
    }

    /// Beyond loopback somebody must have decided whom to believe.
    fn check_trust(&self) -> Result<(), SettingError> {
        if self.policy.is_some() || self.trusts_first() {
            return Ok(());
        }
        let found = format!("absent, and http is {}", self.http);
        let expected = "a file that names the keys of the cluster, or trust_on_first_use = true";
        Err(SettingError { setting: "policy", found, expected: expected.to_owned() })
    }

    fn trusts_first(&self) -> bool {
        let loopback = ["127.", "[::1]", "localhost"];
        let is_loopback = std::iter::once(self.http.as_str())
            .chain(self.flight_address())
            .chain(self.postgres_address())
            .all(|address| loopback.iter().any(|start| address.starts_with(start)));
        self.policy.is_none() && self.trust_on_first_use.unwrap_or(is_loopback)
    }

    /// Where Flight has a port of its own.
    pub(crate) fn flight_address(&self) -> Option<&str> {
        Some(self.flight.as_str()).filter(|address| !["", "none"].contains(address))
    }

    /// Where PostgreSQL's protocol is served.
    pub(crate) fn postgres_address(&self) -> Option<&str> {
        Some(self.postgres.as_str()).filter(|address| !["", "none"].contains(address))
    }

    pub(crate) fn vault(&self) -> VaultConfig {
        VaultConfig {
            dir: self.dir.join("vault"),
            cache_bytes: self.cache_bytes,
            streams: self.streams.clone(),
            hints: self.shipper.clone(),
            peer: HintPeer {
                token_file: self.access.peer_token_file.clone(),
                ca: self.access.peer_ca.clone(),
            },
            poll_min_ms: self.poll_min_ms,
            poll_max_ms: self.poll_max_ms,
            hinted_poll_ms: self.hinted_poll_ms,
            fetch_parallel: self.fetch_parallel,
            max_staleness_ms: self.max_staleness_ms,
            policy: self.policy.clone(),
            trust_on_first_use: self.trusts_first(),
            anchor_delay_ms: self.anchor_delay_ms,
            cluster_staleness_ms: self.cluster_staleness_ms,
        }
    }

    pub(crate) fn partitions(&self) -> usize {
        match self.partitions {
            0 => std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get),
            given => given,
        }
    }
}
