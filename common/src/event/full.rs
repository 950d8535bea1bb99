//! The whole map of an event: the leaf with every value inside, which the write-ahead log keeps.
//!
//! The part that depends on the position comes first in the map, so an event is encoded before it
//! has a position, by whoever reads it, and only that first part is left to the shard.

use std::convert::Infallible;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::LazyLock;

use super::leaf::{EventRef, LEAF_VERSION, Position, key, write_targets};
use super::transcode::Transcoder;
use super::value::{Value, ValueError};
use crate::cbor::Writer;
use crate::clock::Micros;

/// Pairs before the tenant: version, log id, seq, time, ingest time.
const POSITION_PAIRS: usize = 5;

/// Bytes of the map's head and these pairs, at most.
const HEAD_BYTES_MAX: usize = 64;
/// Room for most events.
const BODY_BYTES: usize = 768;

/// Keyed by chance at every start: nobody can choose events that collide.
static CLAIMS: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// The pairs of an event that no position changes, encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    pairs: usize,
    body: Vec<u8>,
}

impl Prepared {
    /// Encodes everything but time and position.
    pub fn new(event: &EventRef<'_>) -> Result<Self, ValueError> {
        let mut out = Writer { buffer: Vec::with_capacity(BODY_BYTES) };
        let mut transcoder = Transcoder::default();
        write_body(event, &mut out, |text, out| write_attributes(text, out, &mut transcoder))?;
        Ok(Prepared { pairs: pairs_of(event), body: out.finish() })
    }

    /// The same with attributes that are encoded already.
    pub(super) fn with_attributes(event: &EventRef<'_>, encoded: &[u8]) -> Self {
        let mut out = Writer { buffer: Vec::with_capacity(BODY_BYTES) };
        let Ok(()) = write_body(event, &mut out, |_, out| {
            out.raw(encoded);
            Ok::<_, Infallible>(())
        });
        Prepared { pairs: pairs_of(event), body: out.finish() }
    }

    /// Appends the whole map.
    pub fn write(&self, time: Micros, position: &Position, out: &mut Vec<u8>) {
        let mut writer = Writer { buffer: std::mem::take(out) };
        write_head(self.pairs, time, position, &mut writer);
        writer.raw(&self.body);
        *out = writer.finish();
    }

    /// Length of the whole map, at most.
    pub fn bytes_max(&self) -> usize {
        self.body.len() + HEAD_BYTES_MAX
    }

    /// [`EventRef::claim_digest`] of the event.
    pub fn claim_digest(&self) -> u64 {
        CLAIMS.hash_one(&self.body)
    }
}

/// The leaf map with every value inside.
pub fn encode_full(event: &EventRef<'_>, position: &Position) -> Result<Vec<u8>, ValueError> {
    let mut out = Writer { buffer: Vec::with_capacity(BODY_BYTES) };
    write_full(event, position, &mut out, &mut Transcoder::default())?;
    Ok(out.finish())
}

/// Appends what [`encode_full`] gives.
pub(super) fn write_full<'a>(
    event: &EventRef<'a>,
    position: &Position,
    out: &mut Writer,
    transcoder: &mut Transcoder<'a, false>,
) -> Result<(), ValueError> {
    write_head(pairs_of(event), event.time, position, out);
    write_body(event, out, |text, out| write_attributes(text, out, transcoder))
}

/// The map's head with its first pairs.
fn write_head(pairs: usize, time: Micros, position: &Position, out: &mut Writer) {
    out.map(pairs + POSITION_PAIRS);
    out.uint(key::VERSION).uint(LEAF_VERSION);
    out.uint(key::LOG_ID).bytes(&position.log_id);
    out.uint(key::SEQ).uint(position.seq);
    out.uint(key::TIME).int(time.0);
    out.uint(key::INGESTED_AT).int(position.ingested_at.0);
}

/// How many pairs [`write_body`] writes.
fn pairs_of(e: &EventRef<'_>) -> usize {
    let texts = [
        e.category,
        e.actor_type,
        e.actor_id,
        e.actor_name,
        e.outcome,
        e.outcome_reason,
        e.attributes,
        e.source_ip,
        e.user_agent,
        e.service,
        e.request_id,
        e.session_id,
        e.trace_id,
        e.message,
    ];
    let texts = texts.iter().filter(|text| text.is_some()).count();
    3 + texts + usize::from(!e.targets.is_empty()) + usize::from(e.severity.is_some())
}

/// Everything but time and position, in the order of the keys.
fn write_body<'a, E>(
    e: &EventRef<'a>,
    out: &mut Writer,
    write_attributes: impl FnOnce(&'a str, &mut Writer) -> Result<(), E>,
) -> Result<(), E> {
    let text = |key, value: Option<&str>, out: &mut Writer| {
        if let Some(value) = value {
            out.uint(key).text(value);
        }
    };
    text(key::TENANT, Some(e.tenant), out);
    text(key::ACTION, Some(e.action), out);
    out.uint(key::EVENT_ID).bytes(&e.event_id);
    text(key::CATEGORY, e.category, out);
    text(key::ACTOR_TYPE, e.actor_type, out);
    text(key::ACTOR_ID, e.actor_id, out);
    text(key::ACTOR_NAME, e.actor_name, out);
    if !e.targets.is_empty() {
        write_targets(&e.targets, out.uint(key::TARGETS));
    }
    text(key::OUTCOME, e.outcome, out);
    text(key::OUTCOME_REASON, e.outcome_reason, out);
    if let Some(text) = e.attributes {
        write_attributes(text, out.uint(key::ATTRIBUTES))?;
    }
    if let Some(severity) = e.severity {
        out.uint(key::SEVERITY).uint(severity.into());
    }
    text(key::SOURCE_IP, e.source_ip, out);
    text(key::USER_AGENT, e.user_agent, out);
    text(key::SERVICE, e.service, out);
    text(key::REQUEST_ID, e.request_id, out);
    text(key::SESSION_ID, e.session_id, out);
    text(key::TRACE_ID, e.trace_id, out);
    text(key::MESSAGE, e.message, out);
    Ok(())
}

fn write_attributes<'a>(
    text: &'a str,
    out: &mut Writer,
    transcoder: &mut Transcoder<'a, false>,
) -> Result<(), ValueError> {
    if transcoder.transcode(text, out).is_some() {
        return Ok(());
    }
    let value = Value::parse_text(text)?;
    if !matches!(value, Value::Object(_)) {
        return Err(ValueError::Syntax("attributes are not an object".into()));
    }
    value.write_cbor(out);
    Ok(())
}
