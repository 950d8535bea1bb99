//! Why a witness does not start.

use std::path::{Path, PathBuf};

use sealcast_common::fault::Corruption;
use sealcast_common::serve::{ConfigError, ServeError};

/// Why the role did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A setting is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The HTTP address cannot be listened on.
    #[error(transparent)]
    Http(#[from] ServeError),
    /// Another witness works on the directory.
    #[error("directory {} is locked by another witness: stop it first", dir.display())]
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
    /// Key and name do not fit.
    #[error("{} is unusable: {reason}", path.display())]
    Identity {
        /// The file.
        path: PathBuf,
        /// Found against expected, and what to do.
        reason: String,
    },
    /// What was cosigned last is not known: beginning at zero would allow a rollback.
    #[error(
        "{0}; a witness that has forgotten what it cosigned must not go on: retire its key, and \
         start another one with an empty folder"
    )]
    Memory(Corruption),
}

impl StartError {
    pub(crate) fn file(path: &Path) -> impl FnOnce(std::io::Error) -> StartError {
        let path = path.to_owned();
        move |source| StartError::File { path, source }
    }
}
