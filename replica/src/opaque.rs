//! Texts that clients carry and can neither read, make nor change: cursors of pages, tickets and
//! handles of Flight. Whichever replica has the secret opens them; none keeps anything.
//!
//! `tag 32 ‖ text ⊕ stream`: the tag is the text's keyed BLAKE3, the stream the keyed output that the
//! tag selects (a synthetic IV: it is fresh exactly where the text is).

use std::io;
use std::path::Path;

use sealcast_common::clock::Random;

const TAG_BYTES: usize = 32;
/// Less is no secret.
const SECRET_BYTES_MIN: usize = 32;

/// Why there is no secret.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The file system.
    #[error("opaque_key_file {file} cannot be read: {source}")]
    Read {
        /// Its path.
        file: String,
        /// The system's word.
        source: io::Error,
    },
    /// Too easy to guess.
    #[error(
        "opaque_key_file {file} has {found} bytes; expected at least 32 random ones, such as those of `openssl rand -hex 32`"
    )]
    Short {
        /// Its path.
        file: String,
        /// Without white space at its ends.
        found: usize,
    },
}

/// What keys are made from.
pub(crate) struct Secret {
    bytes: Vec<u8>,
    /// Whether other replicas may have it too.
    pub(crate) shared: bool,
}

impl Secret {
    /// The secret in `file`, which replicas share; without one, a fresh one of this process.
    pub(crate) fn load(file: Option<&Path>, random: &dyn Random) -> Result<Self, SecretError> {
        let Some(path) = file else {
            return Ok(Secret { bytes: random.bytes32().to_vec(), shared: false });
        };
        let file = path.display().to_string();
        let read = std::fs::read(path);
        let read = read.map_err(|source| SecretError::Read { file: file.clone(), source })?;
        let bytes = read.trim_ascii().to_vec();
        match bytes.len() {
            found if found < SECRET_BYTES_MIN => Err(SecretError::Short { file, found }),
            _ => Ok(Secret { bytes, shared: true }),
        }
    }

    /// The key for texts of one sort, named by a fixed text: no other sort's key opens them.
    pub(crate) fn key(&self, context: &'static str) -> OpaqueKey {
        let key = blake3::derive_key(context, &self.bytes);
        let part = |name: &[u8]| *blake3::keyed_hash(&key, name).as_bytes();
        OpaqueKey { tag: part(b"tag"), stream: part(b"stream"), id: part(b"id") }
    }
}

/// Wraps and unwraps texts of one sort.
pub(crate) struct OpaqueKey {
    tag: [u8; 32],
    stream: [u8; 32],
    /// Names the key without telling it.
    pub(crate) id: [u8; 32],
}

impl std::fmt::Debug for OpaqueKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OpaqueKey")
    }
}

impl OpaqueKey {
    /// The opaque form of `text`.
    pub(crate) fn wrap(&self, mut text: Vec<u8>) -> Vec<u8> {
        let tag = blake3::keyed_hash(&self.tag, &text);
        self.mask(tag.as_bytes(), &mut text);
        let mut wrapped = tag.as_bytes().to_vec();
        wrapped.append(&mut text);
        wrapped
    }

    /// What [`OpaqueKey::wrap`] has wrapped with the same key; nothing else.
    pub(crate) fn unwrap_text(&self, wrapped: &[u8]) -> Option<Vec<u8>> {
        let (tag, text) = wrapped.split_first_chunk::<TAG_BYTES>()?;
        let mut text = text.to_vec();
        self.mask(tag, &mut text);
        // The comparison takes the same time for every tag.
        (blake3::keyed_hash(&self.tag, &text) == *tag).then_some(text)
    }

    fn mask(&self, tag: &[u8; TAG_BYTES], text: &mut [u8]) {
        let mut stream = vec![0; text.len()];
        let mut hasher = blake3::Hasher::new_keyed(&self.stream);
        hasher.update(tag).finalize_xof().fill(&mut stream);
        text.iter_mut().zip(stream).for_each(|(byte, mask)| *byte ^= mask);
    }
}

#[cfg(test)]
impl Secret {
    /// A secret of tests.
    pub(crate) fn of(byte: u8) -> Self {
        Secret { bytes: vec![byte; 32], shared: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_key_opens_and_every_changed_bit_is_seen() {
        let key = Secret::of(7).key("one");
        let text = b"what nobody shall read".to_vec();
        let wrapped = key.wrap(text.clone());
        assert_eq!(key.unwrap_text(&wrapped), Some(text.clone()));
        assert!(!wrapped.windows(8).any(|part| text.windows(8).any(|told| told == part)));
        for other in [Secret::of(8).key("one"), Secret::of(7).key("other")] {
            assert_eq!(other.unwrap_text(&wrapped), None);
        }
        for bit in 0..wrapped.len() * 8 {
            let mut changed = wrapped.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(key.unwrap_text(&changed), None, "bit {bit}");
        }
        for cut in 0..wrapped.len() {
            assert_eq!(key.unwrap_text(&wrapped[..cut]), None, "{cut} bytes");
        }
    }

    #[test]
    fn a_file_that_holds_no_secret_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let (file, random) = (dir.path().join("k"), sealcast_common::clock::OsRandom);
        let missing = Secret::load(Some(&file), &random).err().unwrap().to_string();
        assert!(missing.contains("cannot be read") && missing.contains("k"), "{missing}");
        for (text, found) in [("", 0), ("short\n", 5)] {
            #[expect(clippy::disallowed_methods, reason = "a test's own file")]
            std::fs::write(&file, text).unwrap();
            let short = Secret::load(Some(&file), &random).err().unwrap().to_string();
            assert!(short.contains(&format!("has {found} bytes; expected at least 32")), "{short}");
        }
    }
}
