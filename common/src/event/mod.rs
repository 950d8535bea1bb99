//! An event: what an application sends, how it is read, and the canonical bytes that are hashed.
//!
//! Reading order: [`Event`] (the fields), `json` (text → event, every refusal), `number` and
//! `value` (attributes without rounding), `leaf` (event → canonical CBOR), `full` (the log's form of
//! it), `decode` (back again); then the short cut that nearly every event takes, with the same
//! result: `scan`, `transcode` (attributes), `quick` (the whole event).

mod decode;
mod full;
mod json;
mod leaf;
mod number;
mod place;
mod quick;
mod scan;
mod transcode;
mod value;

#[cfg(test)]
mod tests;

pub use decode::decode_full;
pub use full::{Prepared, encode_full};
pub use json::{EventReader, FieldError, ParseContext, parse_event};
pub use leaf::{EventRef, LeafHasher, Position, TargetRef, encode_leaf, leaf_of};
pub use number::Number;
pub use place::position_of;
pub use value::{Value, ValueError};

use crate::clock::Micros;

/// Something that the event is about: every related entity finds the event again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// What kind of thing.
    pub kind: Option<String>,
    /// Its id.
    pub id: Option<String>,
    /// Its name for people.
    pub name: Option<String>,
}

/// One event as a client sent it, validated: every bound of [`crate::limits`] holds.
///
/// An absent field is `None`; the empty string is a value. `attributes` is canonical JSON text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// The client's UUID, or one that the writer makes.
    pub event_id: [u8; 16],
    /// Owner: the unit of routing and of access.
    pub tenant: String,
    /// When it happened (the client's claim).
    pub time: Micros,
    /// What happened: `user.login`.
    pub action: String,
    /// Family or service of the action.
    pub category: Option<String>,
    /// Kind of actor.
    pub actor_type: Option<String>,
    /// Who, by id.
    pub actor_id: Option<String>,
    /// Who, for people.
    pub actor_name: Option<String>,
    /// Every related entity; the first is flattened to `target_type` and `target_id`.
    pub targets: Vec<Target>,
    /// `success`, `failure`, `denied` or `unknown`.
    pub outcome: Option<String>,
    /// The source's code or message.
    pub outcome_reason: Option<String>,
    /// OpenTelemetry's 1 to 24.
    pub severity: Option<u8>,
    /// Where from.
    pub source_ip: Option<String>,
    /// With what.
    pub user_agent: Option<String>,
    /// Which service saw it.
    pub service: Option<String>,
    /// The request it belongs to.
    pub request_id: Option<String>,
    /// The session it belongs to.
    pub session_id: Option<String>,
    /// The trace it belongs to.
    pub trace_id: Option<String>,
    /// For people.
    pub message: Option<String>,
    /// Everything else, as canonical JSON text of an object.
    pub attributes: Option<String>,
}

impl Event {
    /// A borrowed view, the form that encoders take.
    pub fn as_ref(&self) -> EventRef<'_> {
        EventRef {
            event_id: self.event_id,
            tenant: &self.tenant,
            time: self.time,
            action: &self.action,
            category: self.category.as_deref(),
            actor_type: self.actor_type.as_deref(),
            actor_id: self.actor_id.as_deref(),
            actor_name: self.actor_name.as_deref(),
            targets: self
                .targets
                .iter()
                .map(|target| TargetRef {
                    kind: target.kind.as_deref(),
                    id: target.id.as_deref(),
                    name: target.name.as_deref(),
                })
                .collect(),
            outcome: self.outcome.as_deref(),
            outcome_reason: self.outcome_reason.as_deref(),
            severity: self.severity,
            source_ip: self.source_ip.as_deref(),
            user_agent: self.user_agent.as_deref(),
            service: self.service.as_deref(),
            request_id: self.request_id.as_deref(),
            session_id: self.session_id.as_deref(),
            trace_id: self.trace_id.as_deref(),
            message: self.message.as_deref(),
            attributes: self.attributes.as_deref(),
        }
    }
}

impl EventRef<'_> {
    /// A digest of what the client claims, apart from `time` and position: a retry of the same
    /// event has the same one, whether or not the writer had to fill in the time. For this process
    /// only: it is never stored.
    pub fn claim_digest(&self) -> u64 {
        match Prepared::new(self) {
            Ok(prepared) => prepared.claim_digest(),
            // Validated attributes always encode; a digest that matches nothing is the safe answer.
            Err(_) => u64::MAX,
        }
    }
}
