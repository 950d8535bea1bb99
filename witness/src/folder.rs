//! A witness's folder: one witness for life.
//!
//! ```text
//! witness.lock                        one witness at a time
//! witness.key                         32 secret bytes, hex, mode 0600
//! witness.pub                         its public key, C2SP text
//! logs/<origin hash>.note             the checkpoint cosigned last, with both signatures
//! evidence/<origin hash>/<size>.<root>.note   notes that contradict each other: same size
//! ```

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sealcast_common::clock::Random;
use sealcast_common::durable::{Durable, replace_secret};
use sealcast_common::fault::{Corruption, hex, unhex};
use sealcast_common::integrity::{
    Checkpoint, CosignerKey, LocalSigner, Note, NoteError, Signer as _, VerifyKey, origin_hash,
};

use crate::error::StartError;

/// Evidence kept of one log: two notes prove it, more add nothing and fill the disk.
const EVIDENCE_NOTES_MAX: usize = 64;

/// The folder, locked.
#[derive(Debug)]
pub(crate) struct Folder {
    root: PathBuf,
    files: Arc<dyn Durable>,
    /// The system lets go of it with the process.
    _lock: File,
}

/// What was cosigned last of a log.
#[derive(Clone, Debug)]
pub(crate) struct Cosigned {
    pub(crate) checkpoint: Checkpoint,
    /// The note with both signatures, in wire form.
    pub(crate) text: String,
}

impl Folder {
    /// Makes the folder if it is new, and locks it.
    pub(crate) fn open(root: &Path, files: Arc<dyn Durable>) -> Result<Self, StartError> {
        for folder in [root.to_owned(), root.join("logs"), root.join("evidence")] {
            files.create_dir(&folder).map_err(StartError::file(&folder))?;
        }
        files.sync_dir(root).map_err(StartError::file(root))?;
        let path = root.join("witness.lock");
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let file = file.map_err(StartError::file(&path))?;
        match file.try_lock() {
            Ok(()) => Ok(Folder { root: root.to_owned(), files, _lock: file }),
            Err(TryLockError::WouldBlock) => Err(StartError::Locked { dir: root.to_owned() }),
            Err(TryLockError::Error(error)) => Err(StartError::file(&path)(error)),
        }
    }

    /// The witness's key: made once, under a name that never changes.
    pub(crate) fn signer(
        &self,
        name: Option<&str>,
        random: &dyn Random,
    ) -> Result<LocalSigner, StartError> {
        let (secret, public) = (self.root.join("witness.key"), self.root.join("witness.pub"));
        let unusable = |path: &Path, reason: &str| StartError::Identity {
            path: path.to_owned(),
            reason: reason.to_owned(),
        };
        let known = match read_if_there(&public)? {
            None => None,
            Some(text) => Some(
                CosignerKey::parse(&text).map_err(|error| unusable(&public, &error.to_string()))?,
            ),
        };
        let seed = match read_if_there(&secret)? {
            Some(text) => {
                let expected = "other text, expected 64 hex digits; restore it";
                unhex(text.trim()).ok_or_else(|| unusable(&secret, expected))?
            }
            None if known.is_some() => {
                let reason = "it is missing beside witness.pub; restore it, or start another \
                              witness with an empty folder";
                return Err(unusable(&secret, reason));
            }
            None => random.bytes32(),
        };
        let expected = "no name in it yet; expected name (--name), such as witness.example/w1";
        let name = match (&known, name) {
            (Some(known), Some(name)) if known.name != name => {
                let found = format!(
                    "it is the key of {}, not of {name}; a key has one name for ever: give each \
                     witness a folder of its own",
                    known.name
                );
                return Err(unusable(&public, &found));
            }
            (Some(known), _) => known.name.clone(),
            (None, Some(name)) => name.to_owned(),
            (None, None) => return Err(unusable(&public, expected)),
        };
        let signer = LocalSigner::from_seed(name, &seed);
        let key = CosignerKey { name: signer.name().to_owned(), public_key: signer.public_key() };
        match known {
            Some(known) if known != key => {
                let reason = "it is not the public half of witness.key; restore both from one copy";
                Err(unusable(&public, reason))
            }
            Some(_) => Ok(signer),
            None => {
                // The secret first: a public key without it would be refused for ever.
                let made = replace_secret(&*self.files, &secret, hex(&seed).as_bytes());
                made.map_err(StartError::file(&secret))?;
                let made = self.files.replace(&public, format!("{}\n", key.to_text()).as_bytes());
                made.map_err(StartError::file(&public))?;
                Ok(signer)
            }
        }
    }

    /// What was cosigned last of every log that ever was.
    pub(crate) fn read_all(&self, key: &CosignerKey) -> Result<Vec<Cosigned>, StartError> {
        let folder = self.root.join("logs");
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&folder).map_err(StartError::file(&folder))? {
            let path = entry.map_err(StartError::file(&folder))?.path();
            // Others are leftovers of a crash: a note counts under its own name only.
            if path.extension().is_some_and(|extension| extension == "note") {
                let bytes = std::fs::read(&path).map_err(StartError::file(&path))?;
                let named = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
                let read = read_note(&bytes, named, key);
                let in_file = |found: Corruption| found.in_object(path.display().to_string());
                found.push(read.map_err(in_file).map_err(StartError::Memory)?);
            }
        }
        Ok(found)
    }

    /// Makes `cosigned` the last of its log; durable when it returns.
    pub(crate) fn remember(&self, cosigned: &Cosigned) -> io::Result<()> {
        let name = format!("{}.note", origin_hash(&cosigned.checkpoint.origin));
        self.files.replace(&self.root.join("logs").join(name), cosigned.text.as_bytes())
    }

    /// Keeps a note that contradicts another one. Answers its file if it is new.
    pub(crate) fn keep(&self, cosigned: &Cosigned) -> io::Result<Option<PathBuf>> {
        let Checkpoint { origin, size, root } = &cosigned.checkpoint;
        let folder = self.root.join("evidence").join(origin_hash(origin));
        let path = folder.join(format!("{size}.{}.note", hex(root)));
        self.files.create_dir(&folder)?;
        if path.exists() || std::fs::read_dir(&folder)?.count() >= EVIDENCE_NOTES_MAX {
            return Ok(None);
        }
        self.files.sync_dir(&self.root.join("evidence"))?;
        self.files.replace(&path, cosigned.text.as_bytes())?;
        Ok(Some(path))
    }

    /// Whether some log was ever found to show two histories.
    pub(crate) fn has_evidence(&self) -> bool {
        std::fs::read_dir(self.root.join("evidence")).is_ok_and(|mut found| found.next().is_some())
    }
}

/// Only what this witness itself cosigned, under the name of its log, is its memory.
fn read_note(bytes: &[u8], named: &str, key: &CosignerKey) -> Result<Cosigned, Corruption> {
    let expected = "a checkpoint that this witness has cosigned";
    let bad = |found: String| Corruption::new("witness_state", None, expected, found);
    let text = std::str::from_utf8(bytes).map_err(|error| bad(error.to_string()))?;
    let note = Note::parse(text).map_err(|error| bad(error.to_string()))?;
    note.verify_cosignature(key).map_err(|error| bad(error.to_string()))?;
    let checkpoint = Checkpoint::parse(&note.text).map_err(|error| bad(error.to_string()))?;
    if origin_hash(&checkpoint.origin) != named {
        return Err(bad(format!("the checkpoint of {}", checkpoint.origin)));
    }
    Ok(Cosigned { checkpoint, text: text.to_owned() })
}

impl Cosigned {
    /// A signature by a key of the log that is trusted now does not verify: the file changed.
    pub(crate) fn check(&self, keys: &[VerifyKey]) -> Result<(), Corruption> {
        let Ok(note) = Note::parse(&self.text) else { return Ok(()) };
        let bad = keys.iter().filter_map(|key| note.verify(key).err());
        // One without any may be by a key that is not trusted any more.
        let mut bad = bad.filter(|error| matches!(error, NoteError::BadSignature(_)));
        match bad.next() {
            None => Ok(()),
            Some(error) => {
                let expected = "the log's signature as it was verified";
                Err(Corruption::new("witness_state", None, expected, error.to_string()))
            }
        }
    }
}

fn read_if_there(path: &Path) -> Result<Option<String>, StartError> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StartError::file(path)(error)),
    }
}
