//! Files that hold a signing key: 32 secret bytes as hex, mode 0600, made once.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::clock::Random;
use crate::durable::{Durable, replace_secret};
use crate::fault::{hex, unhex};

/// Why there is no usable key.
#[derive(Debug, thiserror::Error)]
pub enum SeedError {
    /// A new key could not continue what the missing one signed.
    #[error("key file {file} is missing")]
    Missing {
        /// Its path.
        file: String,
    },
    /// Others could sign in its owner's name.
    #[error("key file {file} has mode {mode:o}, expected 600")]
    Mode {
        /// Its path.
        file: String,
        /// Its permission bits.
        mode: u32,
    },
    /// Not a key.
    #[error("key file {file} holds other text than 64 hex digits")]
    Malformed {
        /// Its path.
        file: String,
    },
    /// The file system refused.
    #[error("key file {file} cannot be read or made: {source}")]
    Io {
        /// Its path.
        file: String,
        /// The system's word.
        source: io::Error,
    },
}

/// The secret bytes in `path`.
pub fn load_seed(path: &Path) -> Result<[u8; 32], SeedError> {
    let file = path.display().to_string();
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => SeedError::Missing { file: file.clone() },
        _ => SeedError::Io { file: file.clone(), source },
    };
    let text = std::fs::read_to_string(path).map_err(failed)?;
    let mode = std::fs::metadata(path).map_err(failed)?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(SeedError::Mode { file, mode });
    }
    unhex::<32>(text.trim()).ok_or(SeedError::Malformed { file })
}

/// The secret bytes in `path`; new ones if it is missing.
pub fn load_or_make_seed(
    path: &Path,
    files: &dyn Durable,
    random: &dyn Random,
) -> Result<[u8; 32], SeedError> {
    match load_seed(path) {
        Err(SeedError::Missing { file }) => {
            let seed = random.bytes32();
            let made = replace_secret(files, path, hex(&seed).as_bytes());
            made.map_err(|source| SeedError::Io { file, source })?;
            Ok(seed)
        }
        other => other,
    }
}
