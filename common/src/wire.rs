//! What travels by HTTP and in shared files between roles, clients and the command line.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use serde::{Deserialize, Serialize};

use crate::cbor::{Reader, Writer};
use crate::event::FieldError;
use crate::fault::Corruption;

/// `{shard → size}`: how much of every shard is meant.
pub type Vector = BTreeMap<u16, u64>;

/// A vector as an opaque text: what a flush gives and `min=` takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Token(pub Vector);

impl Token {
    /// `v1.` and base64url of the CBOR map.
    pub fn to_text(&self) -> String {
        let mut out = Writer::new();
        out.map(self.0.len());
        for (shard, size) in &self.0 {
            out.uint((*shard).into()).uint(*size);
        }
        format!("v1.{}", BASE64.encode(out.finish()))
    }

    /// Parses the text form.
    pub fn parse(text: &str) -> Result<Self, Corruption> {
        let bad = |found: &str| Corruption::new("token", None, "a token from a flush", found);
        let encoded = text.strip_prefix("v1.").ok_or_else(|| bad("another prefix than v1."))?;
        let bytes = BASE64.decode(encoded).map_err(|_| bad("no base64url"))?;
        let mut reader = Reader::new(&bytes, "token");
        let mut vector = Vector::new();
        for _ in 0..reader.map()? {
            vector.insert(reader.narrow()?, reader.uint()?);
        }
        reader.end()?;
        Ok(Token(vector))
    }

    /// What holds this and `more`: of every shard the greater size.
    #[must_use]
    pub fn and(mut self, more: Option<&Token>) -> Self {
        for (shard, size) in more.iter().flat_map(|more| &more.0) {
            let held = self.0.entry(*shard).or_default();
            *held = (*held).max(*size);
        }
        self
    }

    /// Whether `have` holds at least this much of every shard.
    pub fn is_held_by(&self, have: &Vector) -> bool {
        self.0.iter().all(|(shard, size)| have.get(shard).copied().unwrap_or(0) >= *size)
    }
}

/// Where one accepted event stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "serve", derive(utoipa::ToSchema))]
pub struct AcceptedEvent {
    /// UUID text.
    pub event_id: String,
    /// The shard.
    pub shard: u16,
    /// Index of its leaf.
    pub seq: u64,
}

/// One refused event of a `?partial=true` request, or of a refused batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "serve", derive(utoipa::ToSchema))]
pub struct RejectedEvent {
    /// Its index in the request, from 0.
    pub index: usize,
    /// Line number from 1, for NDJSON.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub line: Option<usize>,
    /// Why.
    #[serde(flatten)]
    pub error: FieldError,
}

/// `200` of `POST /v1/events`, after the sync.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "serve", derive(utoipa::ToSchema))]
pub struct IngestResponse {
    /// Events that are durable now, repeated ones included.
    pub accepted: usize,
    /// Of them: events that had been accepted before.
    pub duplicates: usize,
    /// Events refused (`?partial=true` only).
    pub rejected: Vec<RejectedEvent>,
    /// Refused events, also beyond those listed.
    pub rejected_count: usize,
    /// In the order of the request.
    pub events: Vec<AcceptedEvent>,
    /// The routing version under which they were routed.
    pub routing_version: u64,
    /// Vector after this request, for `min=` once sealed and shipped.
    pub token: String,
}

/// `200` of `POST /v1/admin/flush`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "serve", derive(utoipa::ToSchema))]
pub struct FlushResponse {
    /// Segments sealed by this call.
    pub segments: usize,
    /// Sealed size of every shard.
    #[cfg_attr(feature = "serve", schema(value_type = BTreeMap<u16, u64>))]
    pub vector: Vector,
    /// The same, opaque.
    pub token: String,
    /// Whether all of it is committed in the object store (`?wait=shipped`).
    pub shipped: bool,
}

/// One shard in `GET /v1/shards`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "serve", derive(utoipa::ToSchema))]
pub struct ShardStatus {
    /// The shard.
    pub shard: u16,
    /// `<cluster>/<shard>`.
    pub origin: String,
    /// `active`, `disk_full`, `suspended`, `overdue`, `poisoned` or `corrupt`.
    pub state: String,
    /// Durable leaves.
    pub size: u64,
    /// Leaves in sealed segments.
    pub sealed: u64,
    /// Leaves committed in the object store, as the shipper last reported.
    pub shipped: u64,
    /// Hex of the tree's root at `size`.
    pub root: String,
    /// The shard's public key (C2SP text form).
    pub key: String,
    /// Why it is not active.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cause: Option<String>,
}

/// `GET /v1/shards`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "serve", derive(utoipa::ToSchema))]
pub struct ShardsResponse {
    /// The cluster.
    pub cluster: String,
    /// The writer node, also the name of its stream.
    pub node: String,
    /// Version of the routing.
    pub routing_version: u64,
    /// `always` or `os`.
    pub fsync: String,
    /// Every shard.
    pub shards: Vec<ShardStatus>,
}

/// The writer's identity file `node.json`, written once, read by the shipper.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeFile {
    /// Format of the data directory.
    pub format: u32,
    /// The cluster.
    pub cluster: String,
    /// The node, also the stream's name.
    pub node: String,
    /// First shard.
    pub shard_first: u16,
    /// Number of shards.
    pub shards: u16,
}

/// The shipper's mark `shipped.json` in the writer's directory: what is committed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShippedFile {
    /// The stream.
    pub stream: String,
    /// Its last commit.
    pub seq: u64,
    /// Committed size of every shard.
    pub vector: Vector,
}

/// The object `SEALCAST.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreFile {
    /// Format of the store.
    pub format: u32,
    /// Hex of the store's 16 random bytes.
    pub store_id: String,
}

/// The object `st/<stream>/head`: a hint, never trusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeadFile {
    /// A recent commit.
    pub seq: u64,
    /// Hex of its hash.
    pub hash: String,
    /// Key of the newest snapshot's root.
    pub snapshot: Option<String>,
}

/// A server-sent event of the shipper (`GET /v1/streams/{stream}/events`): a hint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamHint {
    /// The stream.
    pub stream: String,
    /// Its newest commit.
    pub seq: u64,
    /// Sealed leaves on the writer's disk that are not committed yet.
    pub unshipped_rows: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_round_trip_and_nonsense_is_refused() {
        let token = Token(Vector::from([(0, 7), (300, u64::MAX)]));
        assert_eq!(Token::parse(&token.to_text()).unwrap(), token);
        for text in ["", "v1.", "v1.!!", "v2.oA", "v1.oQE", "7"] {
            assert!(Token::parse(text).is_err(), "{text}");
        }
        assert!(token.is_held_by(&Vector::from([(0, 8), (300, u64::MAX)])));
        assert!(!token.is_held_by(&Vector::from([(0, 8)])));
    }
}
