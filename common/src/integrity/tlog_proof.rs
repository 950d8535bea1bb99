//! The `.tlog-proof` file: one leaf's place in a signed tree, for whoever trusts nobody.
//!
//! Source: C2SP `tlog-proof`. `c2sp.org/tlog-proof@v1`, `index N`, the inclusion proof in base64
//! lines, a blank line, the checkpoint as it was signed.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::merkle::{Hash, leaf_hash};
use super::note::{Checkpoint, Note, NoteError};
use super::proof::{ProofError, verify_inclusion};

const HEADER: &str = "c2sp.org/tlog-proof@v1";
/// A tree of 2^63 leaves needs no more.
const PROOF_HASHES_MAX: usize = 63;

/// A proof file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlogProof {
    /// The leaf's index.
    pub index: u64,
    /// Inclusion proof, from the leaf's sibling upwards.
    pub hashes: Vec<Hash>,
    /// The signed checkpoint, in wire form.
    pub checkpoint: String,
}

/// Why a proof file proves nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlogProofError {
    /// Not the text form.
    #[error("proof file is malformed: {0}")]
    Malformed(&'static str),
    /// The checkpoint in it.
    #[error("checkpoint in the proof: {0}")]
    Note(#[from] NoteError),
    /// The hashes in it.
    #[error(transparent)]
    Proof(#[from] ProofError),
}

impl TlogProof {
    /// The text form.
    pub fn to_text(&self) -> String {
        let mut out = format!("{HEADER}\nindex {}\n", self.index);
        for hash in &self.hashes {
            out.push_str(&BASE64.encode(hash));
            out.push('\n');
        }
        out.push('\n');
        out.push_str(&self.checkpoint);
        out
    }

    /// Parses the text form; verifies nothing.
    pub fn parse(text: &str) -> Result<Self, TlogProofError> {
        let bad = TlogProofError::Malformed;
        let (head, checkpoint) = text
            .split_once("\n\n")
            .ok_or(bad("no blank line, expected one before the checkpoint"))?;
        let mut lines = head.split('\n').peekable();
        if lines.next() != Some(HEADER) {
            return Err(bad("the first line is not c2sp.org/tlog-proof@v1"));
        }
        // Opaque and not authenticated: nothing is read from it.
        if let Some(extra) = lines.next_if(|line| line.starts_with("extra ")) {
            BASE64
                .decode(&extra["extra ".len()..])
                .map_err(|_| bad("the extra line is not base64"))?;
        }
        let index = lines.next().and_then(|line| line.strip_prefix("index "));
        let index = index.filter(|text| *text == "0" || !text.starts_with(['0', '+']));
        let index = index
            .and_then(|text| text.parse().ok())
            .ok_or(bad("no line `index N`, expected before the hashes"))?;
        let hashes = lines
            .map(parse_hash)
            .collect::<Option<Vec<_>>>()
            .ok_or(bad("a line before the checkpoint is not the base64 of 32 bytes"))?;
        if hashes.len() > PROOF_HASHES_MAX {
            return Err(bad("more than 63 hashes, which no tree needs"));
        }
        Ok(TlogProof { index, hashes, checkpoint: checkpoint.to_owned() })
    }

    /// Judges the whole: `judge` decides about the checkpoint's signatures, then the leaf's bytes
    /// must lead to its root. There is no way to ask for less.
    pub fn verify<E: From<TlogProofError>>(
        &self,
        leaf: &[u8],
        judge: impl FnOnce(&Note, &Checkpoint) -> Result<(), E>,
    ) -> Result<Checkpoint, E> {
        let note = Note::parse(&self.checkpoint).map_err(TlogProofError::from)?;
        let checkpoint = Checkpoint::parse(&note.text).map_err(TlogProofError::from)?;
        judge(&note, &checkpoint)?;
        let leaf = leaf_hash(leaf);
        verify_inclusion(&leaf, self.index, checkpoint.size, &self.hashes, &checkpoint.root)
            .map_err(TlogProofError::from)?;
        Ok(checkpoint)
    }
}

/// One base64 line of 32 bytes.
pub(super) fn parse_hash(line: &str) -> Option<Hash> {
    let bytes = BASE64.decode(line).ok()?;
    Hash::try_from(bytes).ok()
}
