//! The leaf: the canonical bytes of one event at its position, which the tree hashes.
//!
//! Deterministic CBOR (RFC 8949 §4.2.1): one map with unsigned keys. The numbers are for ever;
//! `docs/format.md` lists them. Independent of column order, dictionaries, batches, sort order,
//! compression and JSON formatting: two encodings of one event have one leaf.

use sha2::{Digest as _, Sha256};

use super::full::{encode_full, write_full};
use super::transcode::Transcoder;
use super::value::{Value, ValueError, cbor_order};
use crate::cbor::Writer;
use crate::clock::Micros;
use crate::integrity::{Hash, leaf_hash};
use crate::limits::{LEAF_ATTRIBUTES_INLINE_BYTES_MAX, LEAF_INLINE_BYTES_MAX};

/// Where an event stands: binds its leaf to one shard and one place in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// First 16 bytes of SHA-256 of the shard's origin.
    pub log_id: [u8; 16],
    /// Index of the leaf in the shard's tree.
    pub seq: u64,
    /// The writer's clock at commit; never decreases within a shard.
    pub ingested_at: Micros,
}

/// A borrowed target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TargetRef<'a> {
    /// What kind of thing.
    pub kind: Option<&'a str>,
    /// Its id.
    pub id: Option<&'a str>,
    /// Its name for people.
    pub name: Option<&'a str>,
}

/// A borrowed event, from an [`super::Event`] or from a segment's columns.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "the fields of `Event`, documented there")]
pub struct EventRef<'a> {
    pub event_id: [u8; 16],
    pub tenant: &'a str,
    pub time: Micros,
    pub action: &'a str,
    pub category: Option<&'a str>,
    pub actor_type: Option<&'a str>,
    pub actor_id: Option<&'a str>,
    pub actor_name: Option<&'a str>,
    pub targets: Vec<TargetRef<'a>>,
    pub outcome: Option<&'a str>,
    pub outcome_reason: Option<&'a str>,
    pub severity: Option<u8>,
    pub source_ip: Option<&'a str>,
    pub user_agent: Option<&'a str>,
    pub service: Option<&'a str>,
    pub request_id: Option<&'a str>,
    pub session_id: Option<&'a str>,
    pub trace_id: Option<&'a str>,
    pub message: Option<&'a str>,
    pub attributes: Option<&'a str>,
}

/// Keys of the leaf map. Never reused, never renumbered.
pub(super) mod key {
    pub(in crate::event) const VERSION: u64 = 0;
    pub(in crate::event) const LOG_ID: u64 = 1;
    pub(in crate::event) const SEQ: u64 = 2;
    pub(in crate::event) const TIME: u64 = 3;
    pub(in crate::event) const INGESTED_AT: u64 = 4;
    pub(in crate::event) const TENANT: u64 = 5;
    pub(in crate::event) const ACTION: u64 = 6;
    pub(in crate::event) const EVENT_ID: u64 = 7;
    pub(in crate::event) const CATEGORY: u64 = 8;
    pub(in crate::event) const ACTOR_TYPE: u64 = 9;
    pub(in crate::event) const ACTOR_ID: u64 = 10;
    pub(in crate::event) const ACTOR_NAME: u64 = 11;
    pub(in crate::event) const TARGETS: u64 = 12;
    pub(in crate::event) const OUTCOME: u64 = 13;
    pub(in crate::event) const OUTCOME_REASON: u64 = 14;
    pub(in crate::event) const ATTRIBUTES: u64 = 15;
    // 16 and 17 are reserved for salted commitments of redactable fields and attributes.
    pub(in crate::event) const OUT_OF_LINE: u64 = 18;
    pub(in crate::event) const SEVERITY: u64 = 19;
    pub(in crate::event) const SOURCE_IP: u64 = 20;
    pub(in crate::event) const USER_AGENT: u64 = 21;
    pub(in crate::event) const SERVICE: u64 = 22;
    pub(in crate::event) const REQUEST_ID: u64 = 23;
    pub(in crate::event) const SESSION_ID: u64 = 24;
    pub(in crate::event) const TRACE_ID: u64 = 25;
    pub(in crate::event) const MESSAGE: u64 = 26;
    pub(in crate::event) const OUT_OF_LINE_ATTRIBUTES: u64 = 27;
}

/// The version that [`key::VERSION`] holds.
pub(super) const LEAF_VERSION: u64 = 1;

/// The canonical leaf bytes: at most [`crate::limits::LEAF_BYTES_MAX`], large values out of line.
/// Below the bound of a single value nothing is: leaf and whole map are the same bytes.
pub fn encode_leaf(event: &EventRef<'_>, position: &Position) -> Result<Vec<u8>, ValueError> {
    let full = encode_full(event, position)?;
    if full.len() <= LEAF_INLINE_BYTES_MAX {
        return Ok(full);
    }
    encode_split(event, position)
}

/// The hash of [`encode_leaf`], from the whole map (`full`) of the event.
pub fn leaf_of(full: &[u8], event: &EventRef<'_>, position: &Position) -> Result<Hash, ValueError> {
    if full.len() <= LEAF_INLINE_BYTES_MAX {
        return Ok(leaf_hash(full));
    }
    encode_split(event, position).map(|leaf| leaf_hash(&leaf))
}

/// Encodes and hashes leaves, in memory that is used again.
#[derive(Debug, Default)]
pub struct LeafHasher<'a> {
    map: Writer,
    transcoder: Transcoder<'a, false>,
}

impl<'a> LeafHasher<'a> {
    /// The hash of [`encode_leaf`].
    pub fn hash(&mut self, event: &EventRef<'a>, position: &Position) -> Result<Hash, ValueError> {
        self.map.buffer.clear();
        write_full(event, position, &mut self.map, &mut self.transcoder)?;
        leaf_of(&self.map.buffer, event, position)
    }
}

/// The map under construction: which pairs there are must be known before the header is written.
struct Fields {
    pairs: Vec<(u64, std::ops::Range<usize>)>,
    values: Writer,
    out_of_line: Vec<(u64, Vec<u8>)>,
}

impl Fields {
    fn put(&mut self, key: u64, write: impl FnOnce(&mut Writer)) {
        let start = self.values.buffer.len();
        write(&mut self.values);
        let end = self.values.buffer.len();
        if end - start > LEAF_INLINE_BYTES_MAX {
            self.out_of_line.push((key, reference(&self.values.buffer[start..])));
            self.values.buffer.truncate(start);
        } else {
            self.pairs.push((key, start..end));
        }
    }

    fn text(&mut self, key: u64, value: Option<&str>) {
        if let Some(value) = value {
            self.put(key, |out| {
                out.text(value);
            });
        }
    }

    /// Attributes: large members first, then the whole map if it is still large.
    fn attributes(&mut self, text: &str) -> Result<(), ValueError> {
        let value = Value::parse_text(text)?;
        let Value::Object(members) = &value else {
            return Err(ValueError::Syntax("attributes are not an object".into()));
        };
        let mut inline = Vec::new();
        let mut large = Vec::new();
        for (name, value) in cbor_order(members) {
            let mut out = Writer::new();
            value.write_cbor(&mut out);
            let encoded = out.finish();
            if encoded.len() > LEAF_INLINE_BYTES_MAX {
                large.push((name, reference(&encoded)));
            } else {
                inline.push((name, encoded));
            }
        }
        let mut map = Writer::new();
        map.map(inline.len());
        for (name, encoded) in &inline {
            map.text(name).raw(encoded);
        }
        let map = map.finish();
        if map.len() > LEAF_ATTRIBUTES_INLINE_BYTES_MAX {
            let mut whole = Writer::new();
            value.write_cbor(&mut whole);
            self.out_of_line.push((key::ATTRIBUTES, reference(&whole.finish())));
            return Ok(());
        }
        self.raw(key::ATTRIBUTES, &map);
        if !large.is_empty() {
            let mut out = Writer::new();
            out.map(large.len());
            for (name, reference) in &large {
                out.text(name).raw(reference);
            }
            self.raw(key::OUT_OF_LINE_ATTRIBUTES, &out.finish());
        }
        Ok(())
    }

    fn finish(mut self) -> Vec<u8> {
        if !self.out_of_line.is_empty() {
            self.out_of_line.sort_by_key(|(key, _)| *key);
            let mut out = Writer::new();
            out.map(self.out_of_line.len());
            for (key, reference) in &self.out_of_line {
                out.uint(*key).raw(reference);
            }
            self.raw(key::OUT_OF_LINE, &out.finish());
        }
        self.pairs.sort_unstable_by_key(|(key, _)| *key);
        let size = self.values.buffer.len() + self.pairs.len() * 2 + 2;
        let mut out = Writer { buffer: Vec::with_capacity(size) };
        out.map(self.pairs.len());
        for (key, range) in &self.pairs {
            out.uint(*key).raw(&self.values.buffer[range.clone()]);
        }
        out.finish()
    }

    fn raw(&mut self, key: u64, encoded: &[u8]) {
        let start = self.values.buffer.len();
        self.values.raw(encoded);
        self.pairs.push((key, start..start + encoded.len()));
    }
}

/// `[length, SHA-256]` of an encoded value that is hashed out of line.
fn reference(encoded: &[u8]) -> Vec<u8> {
    let mut out = Writer::new();
    out.array(2).uint(encoded.len() as u64).bytes(&Sha256::digest(encoded));
    out.finish()
}

fn encode_split(e: &EventRef<'_>, position: &Position) -> Result<Vec<u8>, ValueError> {
    let mut fields = Fields {
        pairs: Vec::with_capacity(24),
        values: Writer { buffer: Vec::with_capacity(512) },
        out_of_line: Vec::new(),
    };
    fields.put(key::VERSION, |out| {
        out.uint(LEAF_VERSION);
    });
    fields.put(key::LOG_ID, |out| {
        out.bytes(&position.log_id);
    });
    fields.put(key::SEQ, |out| {
        out.uint(position.seq);
    });
    fields.put(key::TIME, |out| {
        out.int(e.time.0);
    });
    fields.put(key::INGESTED_AT, |out| {
        out.int(position.ingested_at.0);
    });
    fields.put(key::EVENT_ID, |out| {
        out.bytes(&e.event_id);
    });
    if let Some(severity) = e.severity {
        fields.put(key::SEVERITY, |out| {
            out.uint(severity.into());
        });
    }
    if !e.targets.is_empty() {
        fields.put(key::TARGETS, |out| write_targets(&e.targets, out));
    }
    for (key, value) in [
        (key::TENANT, Some(e.tenant)),
        (key::ACTION, Some(e.action)),
        (key::CATEGORY, e.category),
        (key::ACTOR_TYPE, e.actor_type),
        (key::ACTOR_ID, e.actor_id),
        (key::ACTOR_NAME, e.actor_name),
        (key::OUTCOME, e.outcome),
        (key::OUTCOME_REASON, e.outcome_reason),
        (key::SOURCE_IP, e.source_ip),
        (key::USER_AGENT, e.user_agent),
        (key::SERVICE, e.service),
        (key::REQUEST_ID, e.request_id),
        (key::SESSION_ID, e.session_id),
        (key::TRACE_ID, e.trace_id),
        (key::MESSAGE, e.message),
    ] {
        fields.text(key, value);
    }
    if let Some(text) = e.attributes {
        fields.attributes(text)?;
    }
    Ok(fields.finish())
}

pub(super) fn write_targets(targets: &[TargetRef<'_>], out: &mut Writer) {
    out.array(targets.len());
    for target in targets {
        let parts = [(0, target.kind), (1, target.id), (2, target.name)];
        out.map(parts.iter().filter(|(_, value)| value.is_some()).count());
        for (key, value) in parts {
            if let Some(value) = value {
                out.uint(key).text(value);
            }
        }
    }
}
