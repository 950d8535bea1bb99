//! What the shipper can be told: flags and `SEALCAST_SHIPPER_*`, above `[shipper]` of the file.

use std::path::{Path, PathBuf};

use sealcast_common::integrity::Policy;
use sealcast_common::limits::{COMMIT_ADDS_MAX, SNAPSHOT_EVERY};
use sealcast_common::serve::access::{AccessArgs, AccessConfig};
use sealcast_common::serve::{ConfigError, load_section};
use serde::{Deserialize, Serialize};

/// How it is made sure that one shipper at a time owns the stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Fencing {
    /// The store refuses to create an object twice; probed at every start.
    #[default]
    Cas,
    /// The operator guarantees it, on a store that cannot.
    External,
}

/// The word that no witness is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Unwitnessed {
    /// None.
    None,
}

/// Flags and environment: what is stated here wins over the file.
#[derive(Clone, Debug, Default, clap::Args, Serialize)]
pub struct Args {
    /// The writer's data directory [default: ./sealcast-data/writer]
    #[arg(long, env = "SEALCAST_SHIPPER_DIR", value_name = "DIR")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dir: Option<PathBuf>,

    /// Object store: a folder, file://, s3://, gs://, az:// [default: ./sealcast-data/store]
    #[arg(long, env = "SEALCAST_SHIPPER_STORE", value_name = "URL")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store: Option<String>,

    /// Address of the HTTP server [default: 127.0.0.1:7071]
    #[arg(long, env = "SEALCAST_SHIPPER_HTTP", value_name = "ADDRESS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<String>,

    /// Milliseconds between scans when no file event comes [default: 5000]
    #[arg(long, env = "SEALCAST_SHIPPER_SCAN_MS", value_name = "MS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scan_ms: Option<u64>,

    /// Base URL of the writer, to ask it to flush [default: none]
    #[arg(long, env = "SEALCAST_SHIPPER_WRITER", value_name = "URL")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writer: Option<String>,

    /// Milliseconds between flushes asked of the writer [default: never]
    #[arg(long, env = "SEALCAST_SHIPPER_FLUSH_EVERY_MS", value_name = "MS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flush_every_ms: Option<u64>,

    /// Commits between two snapshots of the catalog [default: 64]
    #[arg(long, env = "SEALCAST_SHIPPER_SNAPSHOT_EVERY", value_name = "COMMITS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_every: Option<u64>,

    /// Segments in one commit, at most [default: 128]
    #[arg(long, env = "SEALCAST_SHIPPER_COMMIT_ADDS", value_name = "SEGMENTS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit_adds: Option<usize>,

    /// `external` only if you guarantee one shipper per stream yourself [default: cas]
    #[arg(long, env = "SEALCAST_SHIPPER_FENCING", value_name = "HOW")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fencing: Option<Fencing>,

    /// Milliseconds between two epochs of the cluster log [default: 10000]
    #[arg(long, env = "SEALCAST_SHIPPER_CLUSTER_EVERY_MS", value_name = "MS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_every_ms: Option<u64>,

    /// Policy file: who must cosign the cluster log before it is published [default: none]
    #[arg(long, env = "SEALCAST_SHIPPER_POLICY", value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<PathBuf>,

    /// `none` says that no witness is wanted; stands in /readyz [default: unstated]
    #[arg(long, env = "SEALCAST_SHIPPER_WITNESS", value_name = "none")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub witness: Option<Unwitnessed>,

    /// Ship what is sealed now, then exit
    #[arg(long)]
    #[serde(skip)]
    pub once: bool,

    /// Section `[access]`.
    #[command(flatten)]
    #[serde(skip)]
    pub access: AccessArgs,
}

/// The settings in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The writer's data directory.
    pub dir: PathBuf,
    /// The object store, as a folder or URL.
    pub store: String,
    /// Address of the HTTP server; port 0 takes a free one.
    pub http: String,
    /// Milliseconds between scans when no file event comes.
    pub scan_ms: u64,
    /// Base URL of the writer, such as `http://127.0.0.1:7070`.
    pub writer: Option<String>,
    /// Milliseconds between flushes asked of the writer.
    pub flush_every_ms: Option<u64>,
    /// Commits between two snapshots.
    pub snapshot_every: u64,
    /// Segments in one commit, at most.
    pub commit_adds: usize,
    /// Who guarantees one owner.
    pub fencing: Fencing,
    /// Milliseconds between two epochs of the cluster log.
    pub cluster_every_ms: u64,
    /// Policy file (C2SP tlog-policy) with the witnesses of the cluster log.
    pub policy: Option<PathBuf>,
    /// Said on purpose: no witness.
    pub witness: Option<Unwitnessed>,
    /// Ship what is sealed now, then end. A flag only.
    #[serde(skip)]
    pub once: bool,
    /// Section `[access]`.
    #[serde(skip)]
    pub access: AccessConfig,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            dir: "./sealcast-data/writer".into(),
            store: "./sealcast-data/store".into(),
            http: "127.0.0.1:7071".into(),
            scan_ms: 5_000,
            writer: None,
            flush_every_ms: None,
            snapshot_every: SNAPSHOT_EVERY,
            commit_adds: 128,
            fencing: Fencing::Cas,
            cluster_every_ms: 10_000,
            policy: None,
            witness: None,
            once: false,
            access: AccessConfig::default(),
        }
    }
}

impl Config {
    /// Defaults, then `[shipper]` and `[access]` of `file`, then `args`.
    pub fn load(file: Option<&Path>, args: &Args) -> Result<Self, ConfigError> {
        let config: Config = load_section("shipper", file, args)?;
        let access = AccessConfig::load(file, &args.access)?;
        Ok(Config { once: args.once, access, ..config })
    }

    /// The policy file, parsed. Off loopback somebody must have decided about witnesses.
    pub(crate) fn witness_policy(&self) -> Result<Option<Policy>, ConfigError> {
        let Some(path) = &self.policy else {
            let exposed = !self.http.starts_with("127.") && !self.http.starts_with("[::1]");
            if exposed && !self.http.starts_with("localhost") && self.witness.is_none() {
                let hint = "name the witnesses in a file for policy, or say witness = \"none\"";
                let found = format!("http is {}, and nobody witnesses the cluster log", self.http);
                return Err(invalid(format!("{found}: {hint}")));
            }
            return Ok(None);
        };
        let text = std::fs::read_to_string(path)
            .map_err(|error| invalid(format!("policy {}: {error}", path.display())))?;
        let policy = Policy::parse(&text)
            .map_err(|error| invalid(format!("policy {}: {error}", path.display())))?;
        if self.witness.is_some() && policy.wants_witnesses() {
            return Err(invalid("witness is none, and policy has a quorum: expected one".into()));
        }
        Ok(Some(policy))
    }

    /// Whether every setting lies in its range.
    pub fn check(&self) -> Result<(), ConfigError> {
        let within = |name: &str, value: u64, least: u64, most: u64| {
            if (least..=most).contains(&value) {
                return Ok(());
            }
            Err(invalid(format!("{name} is {value}: expected {least} to {most}")))
        };
        within("scan_ms", self.scan_ms, 10, 3_600_000)?;
        within("snapshot_every", self.snapshot_every, 1, 1_000_000)?;
        within("cluster_every_ms", self.cluster_every_ms, 0, 3_600_000)?;
        within("commit_adds", self.commit_adds as u64, 1, COMMIT_ADDS_MAX as u64)?;
        if let Some(every) = self.flush_every_ms {
            within("flush_every_ms", every, 100, 86_400_000)?;
        }
        match &self.writer {
            Some(url) if !url.starts_with("http://") && !url.starts_with("https://") => {
                Err(invalid(format!("writer is {url:?}: expected http://HOST:PORT")))
            }
            None if self.flush_every_ms.is_some() => {
                Err(invalid("flush_every_ms needs writer: expected http://HOST:PORT".into()))
            }
            _ => Ok(()),
        }
    }
}

fn invalid(reason: String) -> ConfigError {
    ConfigError::Invalid { origin: "[shipper]".into(), reason }
}
