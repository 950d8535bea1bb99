//! Repeatable reads: where an answer stood, as clients carry it and ask for it again. Opaque
//! ([`crate::opaque`]), because sizes of shards count the rows of others; whoever may see all of them
//! may also name them by a token.
//!
//! ```text
//! "a1." base64url(wrapped)
//! digest of the snapshot 32 | count u16 | count × (shard u16, size u64) | zeros
//! ```

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use sealcast_common::fault::Kind;
use sealcast_common::integrity::keyed_digest;
use sealcast_common::serve::Problem;
use sealcast_common::serve::access::Grant;
use sealcast_common::wire::{Token, Vector};
use sealcast_vault::VaultSnapshot;

use crate::opaque::{OpaqueKey, Secret};

const PREFIX: &str = "a1.";
/// Bytes of the digest and the count, and of one shard.
const HEAD_BYTES: usize = 34;
const SHARD_BYTES: usize = 10;

/// What positions are wrapped with.
#[derive(Debug)]
pub(crate) struct AsOfKey {
    key: OpaqueKey,
    /// Whether other replicas may have it too.
    shared: bool,
}

/// A position, opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AsOf {
    pub(crate) token: Token,
    /// Of the snapshot that was there, if the position tells it.
    digest: Option<[u8; 32]>,
}

fn refuse(detail: &str, hint: &str) -> Problem {
    Problem::new(Kind::Invalid, "as_of_invalid", detail).with("field", "as_of").hint(hint)
}

impl AsOfKey {
    pub(crate) fn new(secret: &Secret) -> Self {
        AsOfKey { key: secret.key("sealcast 2026-12 as of v1"), shared: secret.shared }
    }

    /// Where `snapshot` stands.
    pub(crate) fn wrap(&self, snapshot: &VaultSnapshot) -> String {
        self.text(snapshot.digest, &snapshot.vector)
    }

    /// The same for `count` parts of its shards, each of them in one.
    pub(crate) fn wrap_parts(&self, snapshot: &VaultSnapshot, count: usize) -> Vec<String> {
        let part = |place: usize| {
            let shards = snapshot.vector.iter().skip(place).step_by(count);
            let vector: Vector = shards.map(|(shard, size)| (*shard, *size)).collect();
            let named = [
                &snapshot.digest[..],
                &(place as u64).to_be_bytes(),
                &(count as u64).to_be_bytes(),
            ];
            self.text(keyed_digest("vault snapshot part", &named.concat()), &vector)
        };
        (0..count).map(part).collect()
    }

    fn text(&self, digest: [u8; 32], vector: &Vector) -> String {
        // The length tells neither sizes nor exactly how many shards there are.
        let bytes = HEAD_BYTES + vector.len().next_power_of_two() * SHARD_BYTES;
        let mut text = Vec::with_capacity(bytes);
        text.extend(digest);
        text.extend((vector.len() as u16).to_be_bytes());
        for (shard, size) in vector {
            text.extend(shard.to_be_bytes());
            text.extend(size.to_be_bytes());
        }
        text.resize(bytes, 0);
        format!("{PREFIX}{}", BASE64.encode(self.key.wrap(text)))
    }

    /// Opens what [`AsOfKey::wrap`] has made with the same key, or a token of whoever may see
    /// everybody's rows.
    pub(crate) fn open(&self, text: &str, grant: &Grant) -> Result<AsOf, Problem> {
        if !grant.is_limited()
            && let Ok(token) = Token::parse(text)
        {
            return Ok(AsOf { token, digest: None });
        }
        let wrapped = text.strip_prefix(PREFIX).and_then(|text| BASE64.decode(text).ok());
        let opened = wrapped.and_then(|wrapped| self.key.unwrap_text(&wrapped));
        opened.as_deref().and_then(read).ok_or_else(|| {
            let hint = match self.shared {
                true => "pass sealcast-as-of as it came; every replica needs the same opaque_key_file",
                false => {
                    "pass sealcast-as-of as it came; without opaque_key_file positions end with the \
                     replica's process and are no other replica's"
                }
            };
            refuse("as_of is not a position that this replica has told", hint)
        })
    }
}

fn read(text: &[u8]) -> Option<AsOf> {
    let (digest, rest) = text.split_first_chunk::<32>()?;
    let (count, mut rest) = rest.split_first_chunk::<2>()?;
    let mut vector = Vector::new();
    for _ in 0..u16::from_be_bytes(*count) {
        let (shard, more) = rest.split_first_chunk::<2>()?;
        let (size, more) = more.split_first_chunk::<8>()?;
        vector.insert(u16::from_be_bytes(*shard), u64::from_be_bytes(*size));
        rest = more;
    }
    Some(AsOf { token: Token(vector), digest: Some(*digest) })
}

impl AsOf {
    /// What `now` showed there.
    pub(crate) fn of(&self, now: &VaultSnapshot) -> Result<VaultSnapshot, Problem> {
        now.as_of(&self.token.0, self.digest).map_err(|error| {
            refuse(
                &format!("as_of was never shown: {error}"),
                "pass what an answer or a flush told",
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use sealcast_common::serve::access::Tenants;

    use super::*;

    #[test]
    fn a_position_is_opened_by_its_key_alone() {
        let grant = Grant { tenants: Tenants::Only(["acme".to_owned()].into()), ..Grant::open() };
        let key = AsOfKey::new(&Secret::of(7));
        let mut text = [7; 32].to_vec();
        text.extend([0, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 3, 0, 0, 0, 0, 0, 0, 1, 0]);
        let wrapped = format!("{PREFIX}{}", BASE64.encode(key.key.wrap(text)));
        let token = Token(Vector::from([(1, 9), (3, 256)]));
        let opened = key.open(&wrapped, &grant).unwrap();
        assert_eq!(opened, AsOf { token: token.clone(), digest: Some([7; 32]) });
        assert!(AsOfKey::new(&Secret::of(8)).open(&wrapped, &grant).is_err());
        assert_eq!(key.open(&token.to_text(), &grant).unwrap_err().code, "as_of_invalid");
        for end in 0..wrapped.len() {
            assert!(key.open(&wrapped[..end], &grant).is_err());
        }
    }
}
