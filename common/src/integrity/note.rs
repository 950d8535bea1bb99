//! C2SP signed notes and checkpoints: what a signature over a log's size and root looks like.
//!
//! Source: C2SP `signed-note` and `tlog-checkpoint`. Text, a blank line, then one signature line
//! `— name base64(key id ‖ signature)` per signer.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use sha2::{Digest as _, Sha256};

use super::merkle::Hash;
use super::signer::{Signer, SignerError, verify_detached};

/// Signature type byte of plain Ed25519 in C2SP key ids.
const ED25519: u8 = 0x01;
const DASH: &str = "\u{2014} ";

/// Why a note is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoteError {
    /// Not the text form.
    #[error("note is malformed: {0}")]
    Malformed(&'static str),
    /// No signature of the wanted key.
    #[error("note carries no signature by {0}")]
    Unsigned(String),
    /// A signature of the wanted key that does not verify.
    #[error("signature by {0} does not verify")]
    BadSignature(String),
}

/// A public key with the name under which it signs (C2SP `vkey`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyKey {
    /// The signer's name.
    pub name: String,
    /// Ed25519 public key.
    pub public_key: [u8; 32],
}

impl VerifyKey {
    /// First four bytes of SHA-256(name ‖ 0x0A ‖ 0x01 ‖ key).
    pub fn key_id(&self) -> [u8; 4] {
        let mut hasher = Sha256::new();
        hasher.update(self.name.as_bytes());
        hasher.update([b'\n', ED25519]);
        hasher.update(self.public_key);
        let digest = hasher.finalize();
        [digest[0], digest[1], digest[2], digest[3]]
    }

    /// `name+hash+base64(0x01 ‖ key)`.
    pub fn to_text(&self) -> String {
        let mut key = vec![ED25519];
        key.extend(self.public_key);
        let id = crate::fault::hex(&self.key_id());
        format!("{}+{id}+{}", self.name, BASE64.encode(key))
    }

    /// Parses the text form and checks its key id.
    pub fn parse(text: &str) -> Result<Self, NoteError> {
        let malformed = NoteError::Malformed("a key is name+hash+base64");
        let mut parts = text.trim().splitn(3, '+');
        let (Some(name), Some(id), Some(key)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(malformed);
        };
        let key = BASE64.decode(key).map_err(|_| malformed.clone())?;
        let Some((&ED25519, public)) = key.split_first() else { return Err(malformed) };
        let public_key = <[u8; 32]>::try_from(public).map_err(|_| malformed.clone())?;
        let parsed = VerifyKey { name: name.to_owned(), public_key };
        if crate::fault::hex(&parsed.key_id()) == id { Ok(parsed) } else { Err(malformed) }
    }
}

/// A text with its signature lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The signed text, ending in a newline.
    pub text: String,
    /// (name, key id, signature).
    pub signatures: Vec<(String, [u8; 4], Vec<u8>)>,
}

impl Note {
    /// Signs `text`, which must end in a newline.
    pub fn sign(text: String, signer: &dyn Signer) -> Result<Note, SignerError> {
        let key = VerifyKey { name: signer.name().to_owned(), public_key: signer.public_key() };
        let signature = signer.sign(text.as_bytes())?;
        Ok(Note { text, signatures: vec![(key.name.clone(), key.key_id(), signature.to_vec())] })
    }

    /// The wire form.
    pub fn to_text(&self) -> String {
        let mut out = format!("{}\n", self.text);
        for (name, id, signature) in &self.signatures {
            let bytes = [id.as_slice(), signature].concat();
            out.push_str(&format!("{DASH}{name} {}\n", BASE64.encode(bytes)));
        }
        out
    }

    /// Parses the wire form; verifies nothing.
    pub fn parse(wire: &str) -> Result<Note, NoteError> {
        let split = wire.rfind("\n\n").ok_or(NoteError::Malformed("no blank line"))?;
        let (text, lines) = (&wire[..=split], &wire[split + 2..]);
        if !lines.ends_with('\n') {
            return Err(NoteError::Malformed("no newline after the last signature"));
        }
        let mut signatures = Vec::new();
        for line in lines.lines() {
            let line = line.strip_prefix(DASH).ok_or(NoteError::Malformed("signature line"))?;
            let (name, encoded) =
                line.split_once(' ').ok_or(NoteError::Malformed("signature line"))?;
            let bytes =
                BASE64.decode(encoded).map_err(|_| NoteError::Malformed("signature base64"))?;
            let (id, signature) =
                bytes.split_first_chunk::<4>().ok_or(NoteError::Malformed("short signature"))?;
            signatures.push((name.to_owned(), *id, signature.to_vec()));
        }
        if signatures.is_empty() {
            return Err(NoteError::Malformed("no signature"));
        }
        Ok(Note { text: text.to_owned(), signatures })
    }

    /// At least one signature is by `key` and verifies.
    pub fn verify(&self, key: &VerifyKey) -> Result<(), NoteError> {
        let id = key.key_id();
        let ours = self.signatures.iter().find(|(name, i, _)| *name == key.name && *i == id);
        let Some((_, _, signature)) = ours else {
            return Err(NoteError::Unsigned(key.name.clone()));
        };
        let signature = <[u8; 64]>::try_from(signature.as_slice())
            .map_err(|_| NoteError::BadSignature(key.name.clone()))?;
        if verify_detached(&key.public_key, self.text.as_bytes(), &signature) {
            return Ok(());
        }
        Err(NoteError::BadSignature(key.name.clone()))
    }
}

/// The size and root of one log (C2SP `tlog-checkpoint`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// `<cluster>/<shard>`.
    pub origin: String,
    /// Leaves.
    pub size: u64,
    /// Root of the tree with that many leaves.
    pub root: Hash,
}

impl Checkpoint {
    /// The text that is signed.
    pub fn to_text(&self) -> String {
        format!("{}\n{}\n{}\n", self.origin, self.size, BASE64.encode(self.root))
    }

    /// Parses the text; extension lines are accepted and ignored.
    pub fn parse(text: &str) -> Result<Self, NoteError> {
        let mut lines = text.lines();
        let (Some(origin), Some(size), Some(root)) = (lines.next(), lines.next(), lines.next())
        else {
            return Err(NoteError::Malformed("a checkpoint has three lines"));
        };
        let canonical = size == "0" || !size.starts_with(['0', '+']);
        let size = size.parse::<u64>().ok().filter(|_| canonical);
        let root = BASE64.decode(root).ok().and_then(|root| Hash::try_from(root).ok());
        match (size, root) {
            (Some(size), Some(root)) if !origin.is_empty() => {
                Ok(Checkpoint { origin: origin.to_owned(), size, root })
            }
            _ => Err(NoteError::Malformed("checkpoint size or root")),
        }
    }
}
