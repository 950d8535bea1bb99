//! The shards' signing keys: 32 secret bytes in a file of mode 0600, made once.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use sealcast_common::clock::Random;
use sealcast_common::durable::{Durable, replace_secret};
use sealcast_common::fault::{hex, unhex};
use sealcast_common::integrity::{LocalSigner, Signer as _, VerifyKey};

/// Why a shard has no usable key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// Data is there, its key is not: a new key could not continue the log.
    #[error("key file {file} is missing, although the shard holds data")]
    Missing {
        /// Its path.
        file: String,
    },
    /// Others could sign in the writer's name.
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
    /// Whoever holds the published key could not verify what this key signs.
    #[error(
        "public key file {file} does not belong to the shard's key: found {found}, expected {expected}"
    )]
    Published {
        /// Its path.
        file: String,
        /// What it holds.
        found: String,
        /// The key's public half.
        expected: String,
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

/// The signer `name` from `path`. `fresh` allows a missing key to be made.
pub(crate) fn load_or_make(
    path: &Path,
    name: &str,
    fresh: bool,
    files: &dyn Durable,
    random: &dyn Random,
) -> Result<LocalSigner, KeyError> {
    let file = path.display().to_string();
    let failed = |source: io::Error| KeyError::Io { file: file.clone(), source };
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound && fresh => {
            let text = hex(&random.bytes32());
            replace_secret(files, path, text.as_bytes()).map_err(failed)?;
            text
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(KeyError::Missing { file });
        }
        Err(error) => return Err(failed(error)),
    };
    let mode = std::fs::metadata(path).map_err(failed)?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(KeyError::Mode { file, mode });
    }
    let seed = unhex::<32>(text.trim()).ok_or(KeyError::Malformed { file })?;
    Ok(LocalSigner::from_seed(name, &seed))
}

/// Puts the public half beside the key, for shippers and auditors; a published key never changes.
/// `fresh`: a leftover of a first start that did not finish, under a name that nobody has seen,
/// is replaced.
pub(crate) fn publish(
    path: &Path,
    signer: &LocalSigner,
    fresh: bool,
    files: &dyn Durable,
) -> Result<(), KeyError> {
    let file = path.display().to_string();
    let failed = |source: io::Error| KeyError::Io { file: file.clone(), source };
    let key = VerifyKey { name: signer.name().to_owned(), public_key: signer.public_key() };
    let expected = key.to_text();
    match std::fs::read_to_string(path) {
        Ok(found) if found.trim() == expected => Ok(()),
        Ok(found) if !fresh => {
            Err(KeyError::Published { file, found: found.trim().to_owned(), expected })
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(error)),
        _ => files.replace(path, format!("{expected}\n").as_bytes()).map_err(failed),
    }
}
