//! Why shipping stops or waits.

use std::path::{Path, PathBuf};

use sealcast_common::bucket::StoreError;
use sealcast_common::fault::Corruption;
use sealcast_common::integrity::SignerError;
use sealcast_common::serve::{ConfigError, ServeError};

/// Why the role did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A setting is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The store's URL names nothing that can be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The HTTP address cannot be listened on.
    #[error(transparent)]
    Http(#[from] ServeError),
    /// Another shipper works on the directory.
    #[error("directory {} is locked by another shipper: stop it first", dir.display())]
    Locked {
        /// The data directory.
        dir: PathBuf,
    },
    /// The data directory cannot be used.
    #[error("{} cannot be used: {source}", path.display())]
    File {
        /// What was touched.
        path: PathBuf,
        /// The system's word.
        source: std::io::Error,
    },
}

/// Why a running shipper ended otherwise than by request.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The directory, the key or the store's identity is unusable.
    #[error("{object} is unusable: {reason}")]
    Identity {
        /// File or object.
        object: String,
        /// Found against expected, and what to do.
        reason: String,
    },
    /// The store does not keep the promise that everything rests on.
    #[error(
        "store {store} is refused: {finding}; use a store that keeps these promises (see \
         `sealcast store probe`), or, if only create_only or race fail, state \
         fencing = \"external\" if you guarantee one shipper per stream yourself"
    )]
    Probe {
        /// The store.
        store: String,
        /// What it did.
        finding: String,
    },
    /// Shipping failed for good, or `--once` could not finish.
    #[error(transparent)]
    Ship(#[from] ShipError),
    /// A task of ours broke.
    #[error("shipper task failed: {0}")]
    Task(String),
}

/// Why a step of shipping did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum ShipError {
    /// The store does not answer as it should.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The probe got no clear answer.
    #[error("store cannot be judged yet: {findings}")]
    Probe {
        /// What was asked, and what came.
        findings: String,
    },
    /// A commit may or may not stand; nothing is given up.
    #[error("commit {seq} may or may not stand: {source}; the same record is offered again")]
    Unknown {
        /// The commit.
        seq: u64,
        /// The store's last word.
        source: StoreError,
    },
    /// An object of the log is not what it should be, or breaks an invariant.
    #[error("stream log cannot be followed: {0}")]
    Log(Corruption),
    /// A local file cannot be used.
    #[error("{} cannot be used: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's word.
        source: std::io::Error,
    },
    /// The key does not sign.
    #[error(transparent)]
    Signer(#[from] SignerError),
    /// Somebody else claimed the stream at the same moment.
    #[error("claim of epoch {epoch} was lost to another shipper; reading the log again")]
    ClaimLost {
        /// The epoch that was wanted.
        epoch: u64,
    },
    /// A newer owner exists: stop for ever.
    #[error("commit {seq} belongs to epoch {by}, ours is {epoch}: another shipper has taken over")]
    Fenced {
        /// Where.
        seq: u64,
        /// Our epoch.
        epoch: u64,
        /// The newer epoch.
        by: u64,
    },
    /// Two shippers write in one epoch: a copied key or a broken store.
    #[error(
        "commit {seq} of epoch {found} stands where epoch {epoch} found nothing: the store lost \
         or hid an object, or ship.key was copied to a second machine; stop every other shipper"
    )]
    Split {
        /// Where.
        seq: u64,
        /// Our epoch.
        epoch: u64,
        /// The epoch of the record that stands there.
        found: u64,
    },
    /// Work on another thread broke.
    #[error("shipper task failed: {0}")]
    Task(String),
}

impl ShipError {
    /// Whether trying again could be wrong.
    pub fn is_final(&self) -> bool {
        matches!(self, ShipError::Fenced { .. } | ShipError::Split { .. })
    }

    /// A word from a closed list: metric label and readiness reason.
    pub fn word(&self) -> &'static str {
        match self {
            ShipError::Store(_) | ShipError::Probe { .. } => "store",
            ShipError::Unknown { .. } => "commit_unknown",
            ShipError::Log(_) => "log",
            ShipError::File { .. } => "file",
            ShipError::Signer(_) => "signer",
            ShipError::ClaimLost { .. } => "claim",
            ShipError::Fenced { .. } => "fenced",
            ShipError::Split { .. } => "split",
            ShipError::Task(_) => "task",
        }
    }

    pub(crate) fn file(path: &Path) -> impl FnOnce(std::io::Error) -> ShipError {
        let path = path.to_owned();
        move |source| ShipError::File { path, source }
    }
}
