//! Signing behind seams. [`Signer`] signs bytes; [`LogSigner`] signs one log's growth, and nothing
//! that contradicts what it signed before.
//!
//! A log's signer is in this process ([`RememberingSigner`]) or another one, as another user
//! ([`RemoteSigner`] asks, [`SignerServer`] answers): both keep the same promise.

mod client;
mod files;
mod growth;
mod memory;
mod protocol;
mod seed;
mod server;

#[cfg(test)]
mod tests;

pub use client::RemoteSigner;
pub use files::{KeyFiles, RotateError};
pub use growth::{Growth, GrowthRefusal, SignedState};
pub use memory::{RememberingSigner, SignedFile};
pub use seed::{SeedError, load_or_make_seed, load_seed};
pub use server::{Keyring, RunningSigner, SignerServer, SignerStartError, is_allowed, own_uid};

use std::fmt;
use std::io;

use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};

use super::key_history::KeyHistory;
use super::note::{Note, VerifyKey};
use crate::fault::Corruption;

/// Why a signer did not sign.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignerError {
    /// The key cannot be used.
    #[error("signing key is unusable: {0}")]
    Key(String),
    /// The signer cannot be reached.
    #[error("signer is unavailable: {0}")]
    Unavailable(String),
    /// What it was asked to sign contradicts what it has signed: another try changes nothing.
    #[error("signer refuses: {0}")]
    Refused(String),
    /// What it remembers is damaged, so that it could not tell a contradiction.
    #[error("signer's memory is unusable: {0}")]
    Memory(Box<Corruption>),
    /// What it remembers cannot be read or written now.
    #[error("signer's memory {file} cannot be read or written: {reason}")]
    File {
        /// Its path.
        file: String,
        /// What kind of failure.
        kind: io::ErrorKind,
        /// The system's word.
        reason: String,
    },
}

impl SignerError {
    /// Whether the same request may succeed later.
    pub fn passes(&self) -> bool {
        matches!(self, SignerError::Unavailable(_) | SignerError::File { .. })
    }
}

/// Holds one Ed25519 key, for whatever its owner signs: the shipper's commits, a witness's
/// cosignatures.
pub trait Signer: Send + Sync + fmt::Debug {
    /// The name in notes: the log's origin or the author.
    fn name(&self) -> &str;
    /// The public key.
    fn public_key(&self) -> [u8; 32];
    /// Signs `message`.
    fn sign(&self, message: &[u8]) -> Result<[u8; 64], SignerError>;
}

/// Holds the key of one log and remembers what it has signed. The only text it signs is its own
/// origin's checkpoint.
pub trait LogSigner: Send + Sync + fmt::Debug {
    /// The keys under which checkpoints verify; their name is the log's origin.
    fn keys(&self) -> &KeyHistory;
    /// The newest of them, which signs.
    fn key(&self) -> &VerifyKey {
        self.keys().newest()
    }
    /// What was signed last; `None` before the first signature.
    fn state(&self) -> Result<Option<SignedState>, SignerError>;
    /// Signs the checkpoint at `growth.to`, if it continues what was signed last. That it did is on
    /// stable storage before the signature is anywhere else.
    fn sign_growth(&self, growth: &Growth) -> Result<Note, SignerError>;
}

/// A key in this process's memory, from a file with mode 0600.
pub struct LocalSigner {
    name: String,
    key: SigningKey,
}

impl LocalSigner {
    /// A signer from the 32 secret bytes.
    pub fn from_seed(name: impl Into<String>, seed: &[u8; 32]) -> Self {
        LocalSigner { name: name.into(), key: SigningKey::from_bytes(seed) }
    }
}

impl fmt::Debug for LocalSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalSigner").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Signer for LocalSigner {
    fn name(&self) -> &str {
        &self.name
    }

    fn public_key(&self) -> [u8; 32] {
        self.key.verifying_key().to_bytes()
    }

    fn sign(&self, message: &[u8]) -> Result<[u8; 64], SignerError> {
        Ok(self.key.sign(message).to_bytes())
    }
}

/// Strict Ed25519 verification (no small-order keys, no malleable signatures).
pub fn verify_detached(public_key: &[u8; 32], message: &[u8], signature: &[u8; 64]) -> bool {
    let Ok(key) = VerifyingKey::from_bytes(public_key) else { return false };
    key.verify_strict(message, &Signature::from_bytes(signature)).is_ok()
}
