//! The shards' signers: a key in this process, made once, or a process of its own; and the public
//! half beside the data.

use std::io;
use std::path::Path;
use std::sync::Arc;

use sealcast_common::durable::Durable;
use sealcast_common::integrity::{
    KeyHistory, LogSigner, RemoteSigner, SeedError, SignerError, check_keys, shown_key,
};
use sealcast_common::layout::DataDir;

use crate::Seams;
use crate::config::SignerAt;

/// Why a shard has no usable key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// Its file.
    #[error(transparent)]
    Seed(#[from] SeedError),
    /// The signer elsewhere does not say which key it has.
    #[error("the key of {origin} is not known: {source}")]
    Signer {
        /// The shard's log.
        origin: String,
        /// What it said.
        source: SignerError,
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
    #[error("public key file {file} cannot be read or made: {source}")]
    Io {
        /// Its path.
        file: String,
        /// The system's word.
        source: io::Error,
    },
}

/// The signer of `shard`, whose log is `origin`. `fresh` allows a missing key to be made here; a
/// signer elsewhere decides for itself.
pub(crate) fn open_signer(
    at: &SignerAt,
    dir: &DataDir,
    (shard, origin): (u16, &str),
    fresh: bool,
    seams: &Seams,
) -> Result<Arc<dyn LogSigner>, KeyError> {
    match at {
        SignerAt::Local => Ok(Arc::new(dir.shard_key(shard).signer(origin, fresh, seams)?)),
        SignerAt::Unix(socket) => match RemoteSigner::connect(socket, origin) {
            Ok(signer) => Ok(Arc::new(signer)),
            Err(source) => Err(KeyError::Signer { origin: origin.to_owned(), source }),
        },
    }
}

/// Puts the public half beside the key, for shippers and auditors; a published key never changes
/// but by hand-over, which a signer elsewhere may have made meanwhile.
/// `fresh`: a leftover of a first start that did not finish, under a name that nobody has seen,
/// is replaced.
pub(crate) fn publish(
    path: &Path,
    keys: &KeyHistory,
    fresh: bool,
    files: &dyn Durable,
) -> Result<(), KeyError> {
    let file = path.display().to_string();
    let failed = |source: io::Error| KeyError::Io { file: file.clone(), source };
    let expected = keys.to_text();
    match std::fs::read_to_string(path) {
        Ok(found) if found.trim() == expected => Ok(()),
        Ok(found) if !fresh && check_keys("shard_key", found.trim(), &expected).is_err() => {
            let (found, expected) = (shown_key(&found), shown_key(&expected));
            Err(KeyError::Published { file, found, expected })
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(error)),
        _ => files.replace(path, format!("{expected}\n").as_bytes()).map_err(failed),
    }
}
