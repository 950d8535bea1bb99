//! What the witness can be told: flags and `SEALCAST_WITNESS_*`, above `[witness]` of the file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sealcast_common::integrity::{Policy, VerifyKey};
use sealcast_common::serve::access::{AccessArgs, AccessConfig};
use sealcast_common::serve::{ConfigError, load_section};
use serde::{Deserialize, Serialize};

/// Flags and environment: what is stated here wins over the file.
#[derive(Clone, Debug, Default, clap::Args, Serialize)]
#[command(after_help = "\
Example:
  sealcast witness --data /var/lib/sealcast/witness --name witness.example/w1 --policy logs.policy

with a logs.policy such as
  log example.com/prod+1a2b3c4d+AbCd…
  quorum none

The public key is logged at the start and kept in DIR/witness.pub: logs and verifiers put it into
their policies as `witness NAME KEY http://HOST:7090`. Nobody needs a token to ask: a request counts
by the signature of its log. See docs/witness.md.")]
pub struct Args {
    /// Folder of key, memory and evidence: one witness for life [default: ./sealcast-data/witness]
    #[arg(long, env = "SEALCAST_WITNESS_DATA", value_name = "DIR")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<PathBuf>,

    /// Address of the HTTP server [default: 127.0.0.1:7090]
    #[arg(long, env = "SEALCAST_WITNESS_HTTP", value_name = "ADDRESS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<String>,

    /// Name in its key, such as witness.example/w1; a new folder needs one and keeps it
    #[arg(long, env = "SEALCAST_WITNESS_NAME", value_name = "NAME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,

    /// C2SP policy file; its `log` lines are the logs it cosigns [default: none]
    #[arg(long, env = "SEALCAST_WITNESS_POLICY", value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<PathBuf>,

    /// Key of a log it cosigns, ORIGIN+HASH+BASE64; may be repeated [default: none]
    #[arg(long, env = "SEALCAST_WITNESS_KNOWN_LOG", value_name = "KEY", value_delimiter = ',')]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub known_log: Option<Vec<String>>,

    /// Section `[access]`.
    #[command(flatten)]
    #[serde(skip)]
    pub access: AccessArgs,
}

/// The settings in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Folder of key, memory and evidence.
    pub data: PathBuf,
    /// Address of the HTTP server; port 0 takes a free one.
    pub http: String,
    /// Name in its key; a folder keeps the one it was made with.
    pub name: Option<String>,
    /// C2SP policy file whose logs are cosigned.
    pub policy: Option<PathBuf>,
    /// Keys of further logs.
    pub known_log: Vec<String>,
    /// Section `[access]`.
    #[serde(skip)]
    pub access: AccessConfig,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            data: "./sealcast-data/witness".into(),
            http: "127.0.0.1:7090".into(),
            name: None,
            policy: None,
            known_log: Vec::new(),
            access: AccessConfig::default(),
        }
    }
}

impl Config {
    /// Defaults, then `[witness]` and `[access]` of `file`, then `args`.
    pub fn load(file: Option<&Path>, args: &Args) -> Result<Self, ConfigError> {
        let config: Config = load_section("witness", file, args)?;
        let access = AccessConfig::load(file, &args.access)?;
        Ok(Config { access, ..config })
    }

    /// Whether every setting is one that could be in force.
    pub fn check(&self) -> Result<(), ConfigError> {
        if let Some(name) = &self.name {
            let spoils = |c: char| c.is_whitespace() || c.is_control() || c == '+';
            if name.is_empty() || name.len() > 255 || name.chars().any(spoils) {
                return Err(invalid(format!(
                    "name is {name:?}: expected up to 255 characters without spaces and +, such \
                     as witness.example/w1"
                )));
            }
        }
        self.known_log.iter().try_for_each(|text| known_log(text).map(|_| ()))
    }

    /// The keys of every log, by origin. Reads the policy file.
    pub(crate) fn logs(&self) -> Result<BTreeMap<String, Vec<VerifyKey>>, ConfigError> {
        let mut keys = Vec::new();
        if let Some(path) = &self.policy {
            let file = path.display().to_string();
            let text = std::fs::read_to_string(path).map_err(|error| ConfigError::Read {
                file: file.clone(),
                reason: error.to_string(),
            })?;
            let policy = Policy::parse(&text).map_err(|error| ConfigError::Invalid {
                origin: file,
                reason: error.to_string(),
            })?;
            keys.extend(policy.logs.into_iter().map(|log| log.key));
        }
        for text in &self.known_log {
            keys.push(known_log(text)?);
        }
        let mut logs: BTreeMap<String, Vec<VerifyKey>> = BTreeMap::new();
        for key in keys {
            let known = logs.entry(key.name.clone()).or_default();
            if !known.contains(&key) {
                known.push(key);
            }
        }
        if logs.is_empty() {
            let expected = "expected policy, a file with `log` lines, or known_log";
            return Err(invalid(format!("no log is known, so none could be cosigned: {expected}")));
        }
        Ok(logs)
    }
}

fn known_log(text: &str) -> Result<VerifyKey, ConfigError> {
    VerifyKey::parse(text).map_err(|error| invalid(format!("known_log is {text:?}: {error}")))
}

fn invalid(reason: String) -> ConfigError {
    ConfigError::Invalid { origin: "[witness]".into(), reason }
}
