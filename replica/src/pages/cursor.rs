//! Where a walk is: an own position in every shard that may have more, and the size that the shard
//! had at the first page. Opaque ([`crate::opaque`]): nobody reads it (sizes count the rows of others)
//! or makes one.
//!
//! ```text
//! "c1." base64url(wrapped)
//! parameters 16 | tenants 16 | count u16 | count × (shard u16, size u64, begun u8, time i64, id 16, seq u64) | zeros
//! ```
//! The tag is a keyed BLAKE3 of the plain bytes, so that it is fresh exactly where they are.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use sealcast_common::wire::{Token, Vector};

use super::place::Place;
use crate::opaque::{OpaqueKey, Secret};

const PREFIX: &str = "c1.";
/// Bytes of one shard's entry.
const ENTRY_BYTES: usize = 43;
/// What cursors are wrapped with.
#[derive(Debug)]
pub(crate) struct CursorKey {
    key: OpaqueKey,
    /// Whether other replicas may have it too.
    pub(super) shared: bool,
}

impl CursorKey {
    pub(crate) fn new(secret: &Secret) -> Self {
        CursorKey { key: secret.key("sealcast 2026-12 page cursor v1"), shared: secret.shared }
    }

    /// Names the key without telling it.
    pub(super) fn id(&self) -> [u8; 32] {
        self.key.id
    }

    /// The text of `cursor`.
    pub(super) fn wrap(&self, cursor: &Cursor) -> String {
        format!("{PREFIX}{}", BASE64.encode(self.key.wrap(cursor.to_bytes())))
    }

    /// Opens what [`CursorKey::wrap`] has made with the same key; nothing else.
    pub(super) fn open(&self, text: &str) -> Option<Cursor> {
        let wrapped = BASE64.decode(text.strip_prefix(PREFIX)?).ok()?;
        Cursor::from_bytes(&self.key.unwrap_text(&wrapped)?)
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
    fn a_cursor_is_read_back_and_its_length_tells_little() {
        let key = CursorKey::new(&Secret::of(7));
        for shards in [0, 1, 5, 300] {
            let text = key.wrap(&cursor(shards));
            assert_eq!(key.open(&text), Some(cursor(shards)));
            assert_eq!(CursorKey::new(&Secret::of(8)).open(&text), None);
        }
        assert_eq!(key.wrap(&cursor(5)).len(), key.wrap(&cursor(8)).len());
        let text = key.wrap(&cursor(5));
        (0..text.len()).for_each(|cut| assert_eq!(key.open(&text[..cut]), None));
    }
}
