//! What a vault refuses, one enum per operation.

use std::fmt;
use std::io;
use std::path::Path;

use sealcast_common::fault::Corruption;
use sealcast_common::trust::TrustError;

/// Why a vault cannot work at all. The network is never among the reasons.
#[derive(Debug, thiserror::Error)]
pub enum VaultError {
    /// The local folder cannot be read or written.
    #[error("vault folder {path} cannot be used: {source}")]
    Folder {
        /// The file or folder.
        path: String,
        /// The system's word.
        source: io::Error,
    },
    /// Two vaults on one folder would evict each other's files.
    #[error("vault folder {path} is in use by another process; give every replica its own")]
    InUse {
        /// The folder.
        path: String,
    },
    /// What earlier lives trusted cannot be read, or nothing is to be trusted.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// A task of the vault broke; nothing more is followed.
    #[error("vault stopped following: {reason}; restart the replica and report this")]
    Task {
        /// What the task said.
        reason: String,
    },
    /// A setting outside its range.
    #[error("vault setting {setting} is {found}; expected {expected}")]
    Setting {
        /// Its name.
        setting: &'static str,
        /// As given.
        found: String,
        /// What would do.
        expected: &'static str,
    },
}

impl VaultError {
    pub(crate) fn folder(path: &Path) -> impl FnOnce(io::Error) -> VaultError {
        let path = path.display().to_string();
        move |source| VaultError::Folder { path, source }
    }
}

/// Why a segment cannot be read now. Each names the segment, so that a strict query can too.
#[derive(Clone, Debug, thiserror::Error)]
pub enum OpenError {
    /// Its bytes are not what the commit signed; fetched again in the background, for ever.
    #[error("segment {segment} is quarantined: {corruption}")]
    Quarantined {
        /// `<shard>/<name>`.
        segment: String,
        /// The check that failed, with its place.
        corruption: Box<Corruption>,
    },
    /// The object store did not give it.
    #[error("segment {segment} cannot be fetched: {reason}; retry later")]
    Unavailable {
        /// `<shard>/<name>`.
        segment: String,
        /// The store's word.
        reason: String,
    },
    /// The local disk did not take it or give it back.
    #[error("segment {segment} cannot be kept on the local disk: {reason}")]
    Local {
        /// `<shard>/<name>`.
        segment: String,
        /// The system's word.
        reason: String,
    },
    /// Queries hold as many maps as there may be.
    #[error(
        "segment {segment} cannot be mapped: running queries hold all {max} maps; retry later, or raise vm.max_map_count"
    )]
    Maps {
        /// `<shard>/<name>`.
        segment: String,
        /// A quarter of what the system allows, at most 16,384.
        max: usize,
    },
}

impl OpenError {
    /// Which segment.
    pub fn segment(&self) -> &str {
        match self {
            OpenError::Quarantined { segment, .. }
            | OpenError::Unavailable { segment, .. }
            | OpenError::Local { segment, .. }
            | OpenError::Maps { segment, .. } => segment,
        }
    }

    pub(crate) fn local(segment: String, error: impl fmt::Display) -> Self {
        OpenError::Local { segment, reason: error.to_string() }
    }
}
