//! A log's key in this process, and the file in which it remembers what it signed.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::super::key_history::KeyHistory;
use super::super::merkle::CompactRange;
use super::super::note::{Checkpoint, Note};
use super::{Growth, LocalSigner, LogSigner, SignedState, Signer as _, SignerError};
use crate::checked;
use crate::durable::{Durable, replace_secret};
use crate::fault::{Corruption, hex, unhex};

/// Version of the file.
const FORMAT: u32 = 1;
/// The check that finds a damaged memory.
const CHECK: &str = "signed_state";

/// What was signed last, as a small JSON file (`keys/<shard>.signed`) and on the signer's socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignedFile {
    /// Version of this form.
    pub format: u32,
    /// The log.
    pub origin: String,
    /// Leaves.
    pub size: u64,
    /// Hex of the root.
    pub root: String,
    /// Hex of the compact range of `[0, size)`, left to right.
    pub frontier: Vec<String>,
}

impl SignedFile {
    /// The text form of a state.
    pub fn new(origin: &str, state: &SignedState) -> Self {
        SignedFile {
            format: FORMAT,
            origin: origin.to_owned(),
            size: state.size(),
            root: hex(state.root()),
            frontier: state.frontier().iter().map(|node| hex(node)).collect(),
        }
    }

    /// The state that it tells of `origin`; its root must be the frontier's.
    pub fn state(&self, origin: &str) -> Result<SignedState, Corruption> {
        let bad = |expected: String, found: String| Corruption::new(CHECK, None, expected, found);
        if self.format != FORMAT {
            return Err(bad(format!("format {FORMAT}"), self.format.to_string()));
        }
        if self.origin != origin {
            return Err(bad(format!("the state of {origin}"), format!("that of {}", self.origin)));
        }
        let nodes: Option<Vec<_>> = self.frontier.iter().map(|node| unhex(node)).collect();
        let nodes = nodes.ok_or_else(|| bad("hashes in hex".into(), "other text".into()))?;
        let tree = CompactRange::from_nodes(0, self.size, nodes);
        let state = tree.and_then(|tree| SignedState::of(&tree));
        let state = state.map_err(|found| Corruption { check: CHECK, ..found })?;
        match unhex(&self.root) {
            Some(root) if root == *state.root() => Ok(state),
            _ => Err(bad(format!("root {}, the frontier's", hex(state.root())), self.root.clone())),
        }
    }

    /// Reads the state of `origin` from `path`; `None` if there is no such file.
    pub fn read(path: &Path, origin: &str) -> Result<Option<SignedState>, SignerError> {
        let text = match std::fs::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(file_error(path, &error)),
        };
        let file: Result<SignedFile, Corruption> = checked::parse(CHECK, &text);
        let state = file.and_then(|file| file.state(origin));
        let named = |found: Corruption| found.in_object(path.display().to_string());
        state.map(Some).map_err(|found| SignerError::Memory(Box::new(named(found))))
    }

    /// Makes this the content of `path`, durable when it returns. Readable for its owner alone.
    pub fn write(&self, path: &Path, files: &dyn Durable) -> Result<(), SignerError> {
        let written = replace_secret(files, path, &checked::to_text(self));
        written.map_err(|error| file_error(path, &error))
    }
}

fn file_error(path: &Path, error: &io::Error) -> SignerError {
    let (file, reason) = (path.display().to_string(), error.to_string());
    SignerError::File { file, kind: error.kind(), reason }
}

/// A key that remembers in a file beside it.
pub struct RememberingSigner {
    keys: KeyHistory,
    signer: LocalSigner,
    state_file: PathBuf,
    files: Arc<dyn Durable>,
    /// From reading what was signed to having written what is signed now.
    signing: Mutex<()>,
}

impl RememberingSigner {
    /// A log's signer from its keys and the 32 secret bytes of the newest one. Nobody else may use
    /// `state_file`: its folder is locked by the caller.
    pub fn new(
        keys: KeyHistory,
        seed: &[u8; 32],
        state_file: PathBuf,
        files: Arc<dyn Durable>,
    ) -> Self {
        let signer = LocalSigner::from_seed(keys.origin(), seed);
        RememberingSigner { keys, signer, state_file, files, signing: Mutex::new(()) }
    }
}

impl fmt::Debug for RememberingSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("RememberingSigner");
        shown.field("origin", &self.signer.name()).field("state_file", &self.state_file);
        shown.finish_non_exhaustive()
    }
}

impl LogSigner for RememberingSigner {
    fn keys(&self) -> &KeyHistory {
        &self.keys
    }

    fn state(&self) -> Result<Option<SignedState>, SignerError> {
        SignedFile::read(&self.state_file, self.signer.name())
    }

    fn sign_growth(&self, growth: &Growth) -> Result<Note, SignerError> {
        let _one_at_a_time = self.signing.lock().unwrap_or_else(PoisonError::into_inner);
        let origin = self.signer.name();
        // Read anew each time: after a failed write nobody knows which of the two it holds.
        let signed = self.state()?.unwrap_or_default();
        let grown = signed.grow(growth).map_err(|why| SignerError::Refused(why.to_string()))?;
        // Written also if nothing changed: the last attempt may have failed after its rename.
        SignedFile::new(origin, &grown).write(&self.state_file, &*self.files)?;
        let (size, root) = (grown.size(), *grown.root());
        let checkpoint = Checkpoint { origin: origin.to_owned(), size, root };
        Note::sign(checkpoint.to_text(), &self.signer)
    }
}
