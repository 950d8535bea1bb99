//! The three files of a log's key: the secret, the public history, and what was signed last; and how
//! one key takes the place of another there.
//!
//! ```text
//! <name>.key        32 secret bytes, hex, mode 0600
//! <name>.pub        the key's history; in a signer's folder only after the first rotation
//! <name>.signed     what was signed last
//! <name>.key.next   a rotation that has begun: its key is in force once `.pub` names it
//! ```

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::key_history::KeyHistory;
use super::super::note::{Checkpoint, VerifyKey};
use super::{
    LocalSigner, RememberingSigner, SeedError, SignedFile, Signer as _, SignerError,
    load_or_make_seed, load_seed,
};
use crate::durable::{Durable, replace_secret};
use crate::fault::hex;
use crate::seams::Seams;

/// Where the key of one log lies. Its folder is locked by the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFiles {
    /// `<name>.key`.
    pub secret: PathBuf,
    /// `<name>.pub`.
    pub public: PathBuf,
    /// `<name>.signed`.
    pub signed: PathBuf,
}

/// Why a key was not replaced. Nothing was changed, or a key waits for the next attempt.
#[derive(Debug, thiserror::Error)]
pub enum RotateError {
    /// The key in force.
    #[error(transparent)]
    Key(#[from] SeedError),
    /// What was signed last, or the hand-over.
    #[error(transparent)]
    Signer(#[from] SignerError),
    /// The published history is not that of the key in force.
    #[error("{file} does not tell of the key beside it: found {found}, expected {expected}")]
    Published {
        /// Its path.
        file: String,
        /// What it says.
        found: String,
        /// The key in force.
        expected: String,
    },
    /// The file system refused.
    #[error("{file} cannot be read or written: {source}")]
    Io {
        /// Its path.
        file: String,
        /// The system's word.
        source: io::Error,
    },
}

fn failed(path: &Path) -> impl Fn(io::Error) -> RotateError {
    move |source| RotateError::Io { file: path.display().to_string(), source }
}

impl KeyFiles {
    /// The log's signer. A rotation that a crash cut short is finished first, or undone. `make`: a
    /// missing key is made.
    pub fn signer(
        &self,
        origin: &str,
        make: bool,
        seams: &Seams,
    ) -> Result<RememberingSigner, SeedError> {
        self.settle(origin, &*seams.files)?;
        let seed = match make {
            true => load_or_make_seed(&self.secret, &*seams.files, &*seams.random)?,
            false => load_seed(&self.secret)?,
        };
        let key = public_half(origin, &seed);
        // Another history is for the caller to refuse: what it publishes would not agree.
        let keys = self.published().filter(|keys| *keys.newest() == key);
        let (state, files) = (self.signed.clone(), Arc::clone(&seams.files));
        Ok(RememberingSigner::new(keys.unwrap_or(key.into()), &seed, state, files))
    }

    /// Hands the log over to a new key, at what was signed last; the old secret is gone afterwards.
    /// Nobody may sign meanwhile.
    pub fn rotate(&self, origin: &str, seams: &Seams) -> Result<(KeyHistory, u64), RotateError> {
        self.settle(origin, &*seams.files)?;
        let old = load_seed(&self.secret)?;
        let key = public_half(origin, &old);
        let mut keys = match self.read_public()? {
            None => KeyHistory::from(key.clone()),
            Some(text) => KeyHistory::parse(&text)
                .ok()
                .filter(|keys| *keys.newest() == key)
                .ok_or_else(|| self.unlike(&text, &key))?,
        };
        let state = SignedFile::read(&self.signed, origin)?.unwrap_or_default();
        let (size, root) = (state.size(), *state.root());
        let new = seams.random.bytes32();
        let signer = |seed| LocalSigner::from_seed(origin, seed);
        let at = Checkpoint { origin: origin.to_owned(), size, root };
        keys.hand_over(&at, &signer(&old), &signer(&new))?;
        let next = self.next();
        replace_secret(&*seams.files, &next, hex(&new).as_bytes()).map_err(failed(&next))?;
        // From here on the new key is in force, whatever happens.
        let text = format!("{}\n", keys.to_text());
        seams.files.replace(&self.public, text.as_bytes()).map_err(failed(&self.public))?;
        self.take(&next, &new, &*seams.files).map_err(failed(&self.secret))?;
        Ok((keys, size))
    }

    fn next(&self) -> PathBuf {
        let mut name = self.secret.clone().into_os_string();
        name.push(".next");
        PathBuf::from(name)
    }

    /// Puts a key in force that the history names, and drops one that it does not.
    fn settle(&self, origin: &str, files: &dyn Durable) -> Result<(), SeedError> {
        let next = self.next();
        let new = match load_seed(&next) {
            Ok(seed) => seed,
            Err(SeedError::Missing { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        let io = |source| SeedError::Io { file: next.display().to_string(), source };
        let named = self.published().is_some_and(|k| *k.newest() == public_half(origin, &new));
        if named { self.take(&next, &new, files) } else { files.remove(&next) }.map_err(io)
    }

    /// The secret's file keeps its owner: who rotates may be somebody else than who signs.
    fn take(&self, next: &Path, new: &[u8; 32], files: &dyn Durable) -> io::Result<()> {
        replace_secret(files, &self.secret, hex(new).as_bytes())?;
        files.remove(next)
    }

    fn published(&self) -> Option<KeyHistory> {
        KeyHistory::parse(&std::fs::read_to_string(&self.public).ok()?).ok()
    }

    fn read_public(&self) -> Result<Option<String>, RotateError> {
        match std::fs::read_to_string(&self.public) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(&self.public)(error)),
        }
    }

    fn unlike(&self, found: &str, key: &VerifyKey) -> RotateError {
        let file = self.public.display().to_string();
        RotateError::Published { file, found: found.trim().to_owned(), expected: key.to_text() }
    }
}

fn public_half(origin: &str, seed: &[u8; 32]) -> VerifyKey {
    let public_key = LocalSigner::from_seed(origin, seed).public_key();
    VerifyKey { name: origin.to_owned(), public_key }
}
