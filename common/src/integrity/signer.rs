//! Signing behind a seam: in-process now, a process of its own later, with the same promise.

use std::fmt;

use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};

/// Why a signer did not sign.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignerError {
    /// The key cannot be used.
    #[error("signing key is unusable: {0}")]
    Key(String),
    /// The signer cannot be reached.
    #[error("signer is unavailable: {0}")]
    Unavailable(String),
}

/// Holds one Ed25519 key. The writer has one per shard, the shipper one per stream.
pub trait Signer: Send + Sync + fmt::Debug {
    /// The name in notes: the log's origin or the author.
    fn name(&self) -> &str;
    /// The public key.
    fn public_key(&self) -> [u8; 32];
    /// Signs `message`.
    fn sign(&self, message: &[u8]) -> Result<[u8; 64], SignerError>;
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
