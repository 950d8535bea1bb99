//! Where a walk is: an own position in every shard that may have more, and the size that the shard
//! had at the first page. Sealed: nobody reads it (sizes count the rows of others) or makes one.
//!
//! ```text
//! "c1." base64url(tag 32 | what follows, xored with the keystream that the tag names)
//! parameters 16 | tenants 16 | count u16 | count × (shard u16, size u64, begun u8, time i64, id 16, seq u64) | zeros
//! ```
//! The tag is a keyed BLAKE3 of the plain bytes, so that it is fresh exactly where they are.

use std::collections::BTreeMap;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use sealcast_common::clock::Random;
use sealcast_common::wire::{Token, Vector};

use super::place::Place;

const PREFIX: &str = "c1.";
/// Bytes of one shard's entry.
const ENTRY_BYTES: usize = 43;
/// Bytes of a secret, at least.
const SECRET_BYTES_MIN: usize = 32;

/// The file of the key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// It cannot be read.
    #[error("cursor key file cannot be read: {0}")]
    Read(#[from] std::io::Error),
    /// It holds too little.
    #[error(
        "cursor key file has {0} bytes; expected at least {SECRET_BYTES_MIN}, such as those of `openssl rand -hex 32`"
    )]
    Short(usize),
}

/// What cursors are sealed with.
pub(crate) struct CursorKey {
    tag: [u8; 32],
    stream: [u8; 32],
    /// Whether other replicas may have it too.
    pub(super) shared: bool,
}

impl std::fmt::Debug for CursorKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CursorKey").field("shared", &self.shared).finish_non_exhaustive()
    }
}

impl CursorKey {
    /// The key in `file`; without one, a fresh one of this process.
    pub(crate) fn load(file: Option<&Path>, random: &dyn Random) -> Result<Self, KeyError> {
        let Some(file) = file else { return Ok(Self::new(&random.bytes32(), false)) };
        let secret = std::fs::read(file)?;
        let secret = secret.trim_ascii();
        if secret.len() < SECRET_BYTES_MIN {
            return Err(KeyError::Short(secret.len()));
        }
        Ok(Self::new(secret, true))
    }

    fn new(secret: &[u8], shared: bool) -> Self {
        CursorKey {
            tag: blake3::derive_key("sealcast 2026-12 page cursor tag v1", secret),
            stream: blake3::derive_key("sealcast 2026-12 page cursor stream v1", secret),
            shared,
        }
    }

    /// Names the key without telling it.
    pub(super) fn id(&self) -> [u8; 32] {
        *blake3::keyed_hash(&self.tag, b"id").as_bytes()
    }

    /// Seals `cursor`.
    pub(super) fn seal(&self, cursor: &Cursor) -> String {
        let mut bytes = cursor.to_bytes();
        let tag = blake3::keyed_hash(&self.tag, &bytes);
        self.mask(tag.as_bytes(), &mut bytes);
        let mut sealed = tag.as_bytes().to_vec();
        sealed.extend(bytes);
        format!("{PREFIX}{}", BASE64.encode(sealed))
    }

    /// Opens what [`CursorKey::seal`] has sealed with the same key; nothing else.
    pub(super) fn open(&self, text: &str) -> Option<Cursor> {
        let sealed = BASE64.decode(text.strip_prefix(PREFIX)?).ok()?;
        let (tag, bytes) = sealed.split_first_chunk::<32>()?;
        let mut bytes = bytes.to_vec();
        self.mask(tag, &mut bytes);
        // The comparison takes the same time for every tag.
        let is_ours = blake3::keyed_hash(&self.tag, &bytes) == *tag;
        if is_ours { Cursor::from_bytes(&bytes) } else { None }
    }

    fn mask(&self, tag: &[u8; 32], bytes: &mut [u8]) {
        let mut stream = vec![0; bytes.len()];
        let mut hasher = blake3::Hasher::new_keyed(&self.stream);
        hasher.update(tag).finalize_xof().fill(&mut stream);
        bytes.iter_mut().zip(stream).for_each(|(byte, mask)| *byte ^= mask);
    }
}

/// Where a walk is in one shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ShardCursor {
    /// Rows that are part of the walk: those before it.
    pub(super) size: u64,
    /// The last row given, if any.
    pub(super) after: Option<Place>,
}

/// Where a walk is. A shard that is not in it has no more rows for the walk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cursor {
    /// Digest of what was asked.
    pub(super) parameters: [u8; 16],
    /// Digest of the tenants that the caller may read.
    pub(super) tenants: [u8; 16],
    pub(super) shards: BTreeMap<u16, ShardCursor>,
}

impl Cursor {
    /// What a replica must hold to go on.
    pub(super) fn token(&self) -> Token {
        Token(self.shards.iter().map(|(shard, at)| (*shard, at.size)).collect::<Vector>())
    }

    /// Every number has its full width, and the places are a power of two: the length tells
    /// neither sizes nor exactly how many shards there are.
    fn to_bytes(&self) -> Vec<u8> {
        let places = self.shards.len().next_power_of_two();
        let mut out = Vec::with_capacity(34 + places * ENTRY_BYTES);
        out.extend(self.parameters);
        out.extend(self.tenants);
        out.extend((self.shards.len() as u16).to_be_bytes());
        for (shard, at) in &self.shards {
            out.extend(shard.to_be_bytes());
            out.extend(at.size.to_be_bytes());
            out.push(at.after.is_some().into());
            let nowhere = Place { time: 0, event_id: [0; 16], shard: 0, seq: 0 };
            let Place { time, event_id, seq, .. } = at.after.unwrap_or(nowhere);
            out.extend(time.to_be_bytes());
            out.extend(event_id);
            out.extend(seq.to_be_bytes());
        }
        out.resize(34 + places * ENTRY_BYTES, 0);
        out
    }

    fn from_bytes(bytes: &[u8]) -> Option<Cursor> {
        let mut rest = bytes;
        let (parameters, tenants) = (take(&mut rest)?, take(&mut rest)?);
        let count = u16::from_be_bytes(take(&mut rest)?);
        let mut shards = BTreeMap::new();
        for _ in 0..count {
            let shard = u16::from_be_bytes(take(&mut rest)?);
            let size = u64::from_be_bytes(take(&mut rest)?);
            let [begun] = take(&mut rest)?;
            let time = i64::from_be_bytes(take(&mut rest)?);
            let event_id = take(&mut rest)?;
            let seq = u64::from_be_bytes(take(&mut rest)?);
            let after = (begun == 1).then_some(Place { time, event_id, shard, seq });
            shards.insert(shard, ShardCursor { size, after });
        }
        Some(Cursor { parameters, tenants, shards })
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, others) = rest.split_first_chunk::<N>()?;
    *rest = others;
    Some(*first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cursor(shards: u16) -> Cursor {
        let at = |shard: u16| {
            let place = Place { time: -5, event_id: [shard as u8; 16], shard, seq: 7 };
            let after = shard.is_multiple_of(2).then_some(place);
            (shard, ShardCursor { size: u64::from(shard) << 40, after })
        };
        Cursor { parameters: [1; 16], tenants: [2; 16], shards: (0..shards).map(at).collect() }
    }

    #[test]
    fn only_the_same_key_opens_and_every_changed_bit_is_seen() {
        let key = CursorKey::new(&[7; 32], true);
        for shards in [0, 1, 5, 300] {
            let text = key.seal(&cursor(shards));
            assert_eq!(key.open(&text), Some(cursor(shards)));
            assert_eq!(CursorKey::new(&[8; 32], true).open(&text), None);
        }
        let text = key.seal(&cursor(5));
        let sealed = BASE64.decode(text.strip_prefix(PREFIX).unwrap()).unwrap();
        for bit in 0..sealed.len() * 8 {
            let mut changed = sealed.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(key.open(&format!("{PREFIX}{}", BASE64.encode(changed))), None, "{bit}");
        }
        for cut in 0..text.len() {
            assert_eq!(key.open(&text[..cut]), None);
        }
    }

    #[test]
    fn nothing_of_it_can_be_read() {
        let key = CursorKey::new(&[7; 32], true);
        let text = key.seal(&cursor(5));
        assert_eq!(text.len(), key.seal(&cursor(8)).len());
        let sealed = BASE64.decode(text.strip_prefix(PREFIX).unwrap()).unwrap();
        let plain = cursor(5).to_bytes();
        assert!(!sealed.windows(8).any(|window| plain.windows(8).any(|told| told == window)));
    }
}
