//! What a witness is asked, and when it cosigns: the part of C2SP `tlog-witness` without files,
//! clocks and HTTP.
//!
//! Two steps, so that only the second needs the witness's memory: [`AddCheckpoint::admit`] (a known
//! log signed it) and [`Admitted::decide`] (it continues what was cosigned last).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use sha2::{Digest as _, Sha256};

use super::merkle::{Hash, empty_root};
use super::note::{Checkpoint, Note, NoteError, VerifyKey};
use super::proof::{ProofError, verify_growth};
use super::tlog_proof::parse_hash;

/// Media type of the size in a 409 answer.
pub const SIZE_MEDIA_TYPE: &str = "text/x.tlog.size";
/// Lines of a consistency proof: a tree of 2^63 leaves needs no more.
const PROOF_LINES_MAX: usize = 63;

/// The body of `POST …/add-checkpoint`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddCheckpoint {
    /// Size that the witness is believed to have cosigned last; 0 for none.
    pub old: u64,
    /// Consistency proof from `old` to the checkpoint; empty if `old` is 0.
    pub proof: Vec<Hash>,
    /// The signed checkpoint, in wire form.
    pub checkpoint: String,
}

/// Why a witness does not cosign.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Not the text form.
    #[error("request is malformed: {0}")]
    Malformed(String),
    /// The request contradicts itself.
    #[error("old size {old} is greater than the checkpoint's size {size}")]
    OldSize {
        /// As stated.
        old: u64,
        /// Of the checkpoint.
        size: u64,
    },
    /// Nobody told the witness of this log.
    #[error("log {0:?} is not known here; the witness's operator adds logs")]
    UnknownLog(String),
    /// No signature of a known key of the log, or one that does not verify.
    #[error("checkpoint is not believed: {0}")]
    Signature(NoteError),
    /// Another size was cosigned last: try again from there.
    #[error("size {size} was cosigned last")]
    Conflict {
        /// That size; 0 for none.
        size: u64,
    },
    /// A tree of nothing has one root only.
    #[error("a checkpoint of size 0 must have the root of the empty tree")]
    EmptyRoot,
    /// The proof does not lead from what was cosigned to the checkpoint.
    #[error("checkpoint does not continue what was cosigned last: {0}")]
    Proof(ProofError),
    /// The log signed two trees of one size.
    #[error("size {size} was cosigned with another root: the log shows two histories")]
    Fork {
        /// The size of both.
        size: u64,
    },
}

impl Refusal {
    /// The HTTP status that the specification asks for.
    pub fn status(&self) -> u16 {
        match self {
            Refusal::Malformed(_) | Refusal::OldSize { .. } => 400,
            Refusal::Signature(_) => 403,
            Refusal::UnknownLog(_) => 404,
            Refusal::Conflict { .. } => 409,
            Refusal::EmptyRoot | Refusal::Proof(_) | Refusal::Fork { .. } => 422,
        }
    }
}

impl AddCheckpoint {
    /// The text form.
    pub fn to_text(&self) -> String {
        let mut out = format!("old {}\n", self.old);
        for hash in &self.proof {
            out.push_str(&BASE64.encode(hash));
            out.push('\n');
        }
        out.push('\n');
        out.push_str(&self.checkpoint);
        out
    }

    /// Parses the text form; verifies nothing.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let bad = |what: &str| Refusal::Malformed(what.to_owned());
        let (head, checkpoint) = text.split_once("\n\n").ok_or_else(|| bad("no empty line"))?;
        let mut lines = head.split('\n');
        let old = lines.next().and_then(|line| line.strip_prefix("old ")).and_then(decimal);
        let old = old.ok_or_else(|| bad("the first line is not `old SIZE`"))?;
        let proof: Option<Vec<Hash>> = lines.map(parse_hash).collect();
        let proof = proof.ok_or_else(|| bad("a line of the proof is not a hash in base64"))?;
        if proof.len() > PROOF_LINES_MAX {
            return Err(bad("more than 63 lines of proof"));
        }
        Ok(AddCheckpoint { old, proof, checkpoint: checkpoint.to_owned() })
    }

    /// First step: the checkpoint is by a log that is known. `keys_of` answers the keys that are
    /// trusted for an origin; none: the log is unknown.
    pub fn admit<'k>(
        &self,
        keys_of: impl FnOnce(&str) -> Option<&'k [VerifyKey]>,
    ) -> Result<Admitted, Refusal> {
        let malformed = |error: NoteError| Refusal::Malformed(error.to_string());
        let note = Note::parse(&self.checkpoint).map_err(malformed)?;
        let checkpoint = Checkpoint::parse(&note.text).map_err(malformed)?;
        // Cosigned word for word: what two readers could read in two ways is not.
        if note.text.contains("\n\n")
            || note.text.chars().any(|c| c.is_ascii_control() && c != '\n')
        {
            return Err(Refusal::Malformed("empty lines or control characters in it".to_owned()));
        }
        let unknown = || Refusal::UnknownLog(checkpoint.origin.clone());
        let keys = keys_of(&checkpoint.origin).filter(|keys| !keys.is_empty());
        let keys = keys.ok_or_else(unknown)?;
        let mut verdict = Err(NoteError::Unsigned(checkpoint.origin.clone()));
        for key in keys {
            match note.verify(key) {
                Ok(()) => verdict = Ok(()),
                // A wrong signature of a known key spoils the note, whoever else signed.
                Err(error @ NoteError::BadSignature(_)) => return Err(Refusal::Signature(error)),
                Err(_) => {}
            }
        }
        verdict.map_err(Refusal::Signature)?;
        let mut signatures = note.signatures;
        signatures.retain(|(name, id, _)| {
            keys.iter().any(|key| key.name == *name && key.key_id() == *id)
        });
        Ok(Admitted { note: Note { text: note.text, signatures }, checkpoint })
    }
}

/// A checkpoint that a known log has signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// With the signatures of the log's known keys; others, which nobody verified, are gone.
    pub note: Note,
    /// What its text says.
    pub checkpoint: Checkpoint,
}

impl Admitted {
    /// Second step: cosign, or why not. `last` is what was cosigned last of this log; `None` for
    /// nothing yet.
    pub fn decide(
        &self,
        request: &AddCheckpoint,
        last: Option<&Checkpoint>,
    ) -> Result<(), Refusal> {
        let (size, root) = (self.checkpoint.size, &self.checkpoint.root);
        let empty = empty_root();
        let (last_size, last_root) = last.map_or((0, &empty), |last| (last.size, &last.root));
        if request.old > size {
            return Err(Refusal::OldSize { old: request.old, size });
        }
        if request.old != last_size {
            return Err(Refusal::Conflict { size: last_size });
        }
        if size == 0 && *root != empty {
            return Err(Refusal::EmptyRoot);
        }
        if self.contradicts(last) {
            return Err(Refusal::Fork { size });
        }
        verify_growth((last_size, last_root), (size, root), &request.proof).map_err(Refusal::Proof)
    }

    /// Whether this and `last` together prove that the log shows two histories: one size, two
    /// roots, both signed. True whatever the request's old size and proof are.
    pub fn contradicts(&self, last: Option<&Checkpoint>) -> bool {
        last.is_some_and(|last| {
            last.size == self.checkpoint.size && last.root != self.checkpoint.root
        })
    }
}

/// The body of a 409 answer.
pub fn size_text(size: u64) -> String {
    format!("{size}\n")
}

/// Parses the body of a 409 answer.
pub fn parse_size(text: &str) -> Option<u64> {
    text.strip_suffix('\n').and_then(decimal)
}

/// Lower-case hex of SHA-256 of an origin: the log's name in a witness's URLs and files.
pub fn origin_hash(origin: &str) -> String {
    crate::fault::hex(&Sha256::digest(origin.as_bytes()))
}

/// ASCII digits without leading zeros.
fn decimal(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let canonical = digits && (text == "0" || !text.starts_with('0'));
    canonical.then(|| text.parse().ok()).flatten()
}
