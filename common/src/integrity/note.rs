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
/// The same of a timestamped Ed25519 cosignature.
const COSIGNATURE: u8 = 0x04;
/// A note with more lines is nobody's: C2SP asks for at least 16.
const SIGNATURES_MAX: usize = 256;
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

/// A public key with the name under which it signs (C2SP `vkey`). `KIND` is the signature type that
/// its id is made with: a log's key is no witness's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedKey<const KIND: u8> {
    /// The signer's name.
    pub name: String,
    /// Ed25519 public key.
    pub public_key: [u8; 32],
}

/// A log's key.
pub type VerifyKey = NamedKey<ED25519>;
/// A witness's key (C2SP `tlog-cosignature`, Ed25519).
pub type CosignerKey = NamedKey<COSIGNATURE>;

impl<const KIND: u8> NamedKey<KIND> {
    const MALFORMED: NoteError = NoteError::Malformed(match KIND {
        ED25519 => "a log's key is name+hash+base64 of type 1 (Ed25519)",
        _ => "a witness's key is name+hash+base64 of type 4 (cosignature)",
    });

    /// First four bytes of SHA-256(name ‖ 0x0A ‖ type ‖ key).
    pub fn key_id(&self) -> [u8; 4] {
        let mut hasher = Sha256::new();
        hasher.update(self.name.as_bytes());
        hasher.update([b'\n', KIND]);
        hasher.update(self.public_key);
        let digest = hasher.finalize();
        [digest[0], digest[1], digest[2], digest[3]]
    }

    /// `name+hash+base64(type ‖ key)`.
    pub fn to_text(&self) -> String {
        let mut key = vec![KIND];
        key.extend(self.public_key);
        let id = crate::fault::hex(&self.key_id());
        format!("{}+{id}+{}", self.name, BASE64.encode(key))
    }

    /// Parses the text form and checks its type and key id.
    pub fn parse(text: &str) -> Result<Self, NoteError> {
        let mut parts = text.trim().splitn(3, '+');
        let (Some(name), Some(id), Some(key)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(Self::MALFORMED);
        };
        let key = BASE64.decode(key).map_err(|_| Self::MALFORMED)?;
        let Some((kind, public)) = key.split_first() else { return Err(Self::MALFORMED) };
        let public_key = <[u8; 32]>::try_from(public).map_err(|_| Self::MALFORMED)?;
        let parsed = NamedKey { name: name.to_owned(), public_key };
        let named = !name.is_empty() && !name.chars().any(char::is_whitespace);
        let its_id = crate::fault::hex(&parsed.key_id()) == id;
        if *kind == KIND && named && its_id { Ok(parsed) } else { Err(Self::MALFORMED) }
    }
}

/// Name, key id, signature.
pub type NoteSignature = (String, [u8; 4], Vec<u8>);

/// A text with its signature lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The signed text, ending in a newline.
    pub text: String,
    /// In the order of their lines.
    pub signatures: Vec<NoteSignature>,
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
            out.push_str(&signature_line(name, id, signature));
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
        let signatures = parse_signatures(lines)?;
        if signatures.is_empty() {
            return Err(NoteError::Malformed("no signature"));
        }
        Ok(Note { text: text.to_owned(), signatures })
    }

    /// At least one signature is by `key`, and every one that is verifies.
    pub fn verify(&self, key: &VerifyKey) -> Result<(), NoteError> {
        self.check_all(&key.name, key.key_id(), |signature| {
            let signature = <[u8; 64]>::try_from(signature).ok()?;
            verify_detached(&key.public_key, self.text.as_bytes(), &signature).then_some(())
        })
    }

    /// The same for a witness's cosignature. Answers its time, in seconds since 1970.
    pub fn verify_cosignature(&self, key: &CosignerKey) -> Result<u64, NoteError> {
        self.check_all(&key.name, key.key_id(), |signature| {
            let (time, signature) = signature.split_first_chunk::<8>()?;
            let signature = <[u8; 64]>::try_from(signature).ok()?;
            let time = u64::from_be_bytes(*time);
            let message = cosigned_message(time, &self.text);
            let valid = verify_detached(&key.public_key, message.as_bytes(), &signature);
            (valid && (1..=i64::MAX as u64).contains(&time)).then_some(time)
        })
    }

    /// Adds a cosignature by `signer` at `time`, in seconds since 1970. Answers its line.
    pub fn cosign(&mut self, signer: &dyn Signer, time: u64) -> Result<String, SignerError> {
        let key = CosignerKey { name: signer.name().to_owned(), public_key: signer.public_key() };
        let signature = signer.sign(cosigned_message(time, &self.text).as_bytes())?;
        let stamped = [time.to_be_bytes().as_slice(), &signature].concat();
        let line = signature_line(&key.name, &key.key_id(), &stamped);
        self.signatures.push((key.name.clone(), key.key_id(), stamped));
        Ok(line)
    }

    fn check_all<T>(
        &self,
        name: &str,
        id: [u8; 4],
        check: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<T, NoteError> {
        let mut found = Err(NoteError::Unsigned(name.to_owned()));
        let theirs = self.signatures.iter().filter(|(signer, i, _)| signer == name && *i == id);
        for (_, _, signature) in theirs {
            found = Ok(check(signature).ok_or_else(|| NoteError::BadSignature(name.to_owned()))?);
        }
        found
    }
}

/// Signature lines, as they end a note and as a witness answers them.
pub fn parse_signatures(lines: &str) -> Result<Vec<NoteSignature>, NoteError> {
    let mut signatures = Vec::new();
    for line in lines.split_terminator('\n') {
        let malformed = NoteError::Malformed("signature line");
        let line = line.strip_prefix(DASH).ok_or(malformed.clone())?;
        let (name, encoded) = line.split_once(' ').ok_or(malformed)?;
        let bytes = BASE64.decode(encoded).map_err(|_| NoteError::Malformed("signature base64"))?;
        let (id, signature) =
            bytes.split_first_chunk::<4>().ok_or(NoteError::Malformed("short signature"))?;
        signatures.push((name.to_owned(), *id, signature.to_vec()));
        if signatures.len() > SIGNATURES_MAX {
            return Err(NoteError::Malformed("more than 256 signatures"));
        }
    }
    Ok(signatures)
}

/// What a witness signs: the time and the whole text.
fn cosigned_message(time: u64, text: &str) -> String {
    format!("cosignature/v1\ntime {time}\n{text}")
}

fn signature_line(name: &str, id: &[u8; 4], signature: &[u8]) -> String {
    format!("{DASH}{name} {}\n", BASE64.encode([id.as_slice(), signature].concat()))
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
