//! The data directory as one node's property: its lock, its identity, its private mode.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use sealcast_common::checked;
use sealcast_common::clock::Random;
use sealcast_common::durable::Durable;
use sealcast_common::fault::hex;
use sealcast_common::layout::{DATA_FORMAT, DataDir};
use sealcast_common::wire::NodeFile;

use crate::config::Config;

/// Shards of a new directory, unless stated.
const SHARDS_DEFAULT: u16 = 2;

/// Why a data directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// Somebody else writes there.
    #[error("data directory {dir} is in use by another writer ({owner})")]
    Locked {
        /// The directory.
        dir: String,
        /// What the lock file says.
        owner: String,
    },
    /// The directory belongs to another node or has another shape.
    #[error("data directory {dir} was made with {name} {found}, the configuration says {expected}")]
    Identity {
        /// The directory.
        dir: String,
        /// `cluster`, `node`, `shards` or `shard_first`.
        name: &'static str,
        /// In `node.json`.
        found: String,
        /// In the configuration.
        expected: String,
    },
    /// `node.json` is not what this version writes.
    #[error("identity file {file} is unreadable: {reason}")]
    Unreadable {
        /// Its path.
        file: String,
        /// What is wrong.
        reason: String,
    },
    /// The file system refused.
    #[error("data directory {dir} cannot be used: {source}")]
    Io {
        /// The directory.
        dir: String,
        /// The system's word.
        source: io::Error,
    },
}

/// A locked data directory. Dropping it gives the lock back.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) dir: DataDir,
    pub(crate) identity: NodeFile,
    /// Nothing was ever acknowledged here: shards may be made.
    pub(crate) fresh: bool,
    _lock: File,
}

impl Node {
    /// Makes or opens the directory, locks it, and reads or invents its identity. The identity of
    /// a new directory is not yet on disk: [`Node::publish`] is the last step of its making.
    pub(crate) fn open(
        config: &Config,
        files: &dyn Durable,
        random: &dyn Random,
    ) -> Result<Node, NodeError> {
        let dir = DataDir::new(&config.dir);
        let shown = config.dir.display().to_string();
        let failed = |source| NodeError::Io { dir: shown.clone(), source };
        make_private(dir.root(), files).map_err(failed)?;
        let lock = lock(&dir)?;
        for name in ["keys", "wal", "sealed"] {
            make_private(&dir.root().join(name), files).map_err(failed)?;
        }
        let known = read_identity(&dir)?;
        let fresh = known.is_none();
        let identity = match known {
            Some(identity) => {
                check_identity(config, &identity)?;
                identity
            }
            None => NodeFile {
                format: DATA_FORMAT,
                cluster: config.cluster.clone().unwrap_or_else(|| invented("local", random)),
                node: config.node.clone().unwrap_or_else(|| invented("n", random)),
                shard_first: config.shard_first.unwrap_or(0),
                shards: config.shards.unwrap_or(SHARDS_DEFAULT),
            },
        };
        Ok(Node { dir, identity, fresh, _lock: lock })
    }

    /// Writes `node.json`, once: from now on every shard's log must be there.
    pub(crate) fn publish(&mut self, files: &dyn Durable) -> Result<(), NodeError> {
        if self.fresh {
            let failed =
                |source| NodeError::Io { dir: self.dir.root().display().to_string(), source };
            files
                .replace(&self.dir.node_file(), &checked::to_text(&self.identity))
                .map_err(failed)?;
            self.fresh = false;
        }
        Ok(())
    }

    /// The shard numbers.
    pub(crate) fn shards(&self) -> impl Iterator<Item = u16> + use<> {
        let first = self.identity.shard_first;
        (0..self.identity.shards).map(move |i| first + i)
    }
}

fn invented(prefix: &str, random: &dyn Random) -> String {
    let mut bytes = [0; 4];
    random.fill(&mut bytes);
    format!("{prefix}-{}", hex(&bytes))
}

fn make_private(path: &Path, files: &dyn Durable) -> io::Result<()> {
    files.create_dir(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700))
}

fn lock(dir: &DataDir) -> Result<File, NodeError> {
    let shown = dir.root().display().to_string();
    let failed = |source| NodeError::Io { dir: shown.clone(), source };
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create(true).truncate(false);
    let mut file = options.open(dir.lock_file()).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut owner = String::new();
            let _best_effort = file.read_to_string(&mut owner);
            let owner = if owner.is_empty() { "unknown process" } else { owner.trim() };
            return Err(NodeError::Locked { dir: shown, owner: owner.to_owned() });
        }
        Err(TryLockError::Error(error)) => return Err(failed(error)),
    }
    // For people only: the lock is the kernel's, and ends with the process. So a full disk, which
    // the shards know how to wait for, keeps nobody from starting.
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = if host.is_empty() { "this machine" } else { host.trim() };
    let owner = format!("process {} on {host}\n", std::process::id());
    let _best_effort = file.set_len(0).and_then(|()| file.write_all(owner.as_bytes()));
    Ok(file)
}

fn read_identity(dir: &DataDir) -> Result<Option<NodeFile>, NodeError> {
    let path = dir.node_file();
    let unreadable =
        |reason: String| NodeError::Unreadable { file: path.display().to_string(), reason };
    let text = match std::fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(error.to_string())),
    };
    let identity: NodeFile =
        checked::parse("node_file", &text).map_err(|found| unreadable(found.to_string()))?;
    if identity.format != DATA_FORMAT {
        let found = identity.format;
        return Err(unreadable(format!("format {found}, expected {DATA_FORMAT}")));
    }
    let stated = Config {
        cluster: Some(identity.cluster.clone()),
        node: Some(identity.node.clone()),
        shards: Some(identity.shards),
        shard_first: Some(identity.shard_first),
        ..Config::default()
    };
    stated.check().map_err(|found| unreadable(found.to_string()))?;
    Ok(Some(identity))
}

fn check_identity(config: &Config, identity: &NodeFile) -> Result<(), NodeError> {
    let pairs = [
        ("cluster", identity.cluster.clone(), config.cluster.clone()),
        ("node", identity.node.clone(), config.node.clone()),
        ("shards", identity.shards.to_string(), config.shards.map(|n| n.to_string())),
        (
            "shard_first",
            identity.shard_first.to_string(),
            config.shard_first.map(|n| n.to_string()),
        ),
    ];
    for (name, found, stated) in pairs {
        if let Some(expected) = stated
            && expected != found
        {
            let dir = config.dir.display().to_string();
            return Err(NodeError::Identity { dir, name, found, expected });
        }
    }
    Ok(())
}
