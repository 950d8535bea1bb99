//! An event's text in one pass: what nearly every client sends.
//!
//! What is unusual, an error above all, is `None` here: `json` reads it again, slowly, and says what
//! is wrong. So what is accepted, and what becomes of it, are the same either way.

use std::borrow::Cow;

use super::json::{flatten_target, is_outcome};
use super::scan::Scanner;
use super::transcode::Transcoder;
use super::{Event, ParseContext, Prepared, Target};
use crate::cbor::Writer;
use crate::clock::Micros;
use crate::limits::{
    AGENT_BYTES_MAX, ATTRIBUTES_BYTES_MAX, EVENT_BYTES_MAX, LABEL_BYTES_MAX, MESSAGE_BYTES_MAX,
    NAME_BYTES_MAX, TARGETS_MAX, TENANT_BYTES_MAX,
};

/// Memory that is used again from event to event.
#[derive(Debug, Default)]
pub(super) struct Scratch<'a> {
    transcoder: Transcoder<'a, true>,
    /// The attributes' CBOR.
    attributes: Writer,
}

/// The event, and its encoding.
pub(super) fn read<'a>(
    text: &'a str,
    context: &ParseContext,
    scratch: &mut Scratch<'a>,
) -> Option<(Event, Prepared)> {
    if text.len() > EVENT_BYTES_MAX {
        return None;
    }
    let mut reader = Reader {
        from: Scanner::new(text),
        event: Event { time: context.time, event_id: context.fresh_id, ..Event::default() },
        flat: Target::default(),
        scratch,
        seen: 0,
    };
    reader.members(context)?;
    let Reader { mut event, flat, scratch, .. } = reader;
    if event.tenant.is_empty() || event.action.is_empty() {
        return None;
    }
    flatten_target(&mut event, flat).ok()?;
    let prepared = Prepared::with_attributes(&event.as_ref(), &scratch.attributes.buffer);
    Some((event, prepared))
}

struct Reader<'a, 's> {
    from: Scanner<'a>,
    event: Event,
    flat: Target,
    scratch: &'s mut Scratch<'a>,
    /// A bit for each field that has come.
    seen: u32,
}

impl Reader<'_, '_> {
    fn members(&mut self, context: &ParseContext) -> Option<()> {
        self.from.take(b'{')?;
        loop {
            // An escaped name is unusual enough.
            let Cow::Borrowed(name) = self.from.string()? else { return None };
            let field = Field::of(name)?;
            let bit = 1 << field as u32;
            (self.seen & bit == 0).then(|| self.seen |= bit)?;
            self.from.take(b':')?;
            match self.from.peek()? {
                b'n' => self.from.word("null")?,
                _ => self.field(field, context)?,
            }
            if self.from.take(b',').is_none() {
                break;
            }
        }
        self.from.take(b'}')?;
        let nothing_follows = self.from.peek().is_none();
        nothing_follows.then_some(())
    }

    fn field(&mut self, field: Field, context: &ParseContext) -> Option<()> {
        let Reader { from, event, flat, .. } = self;
        let (slot, bytes_max) = match field {
            Field::EventId => {
                let id = uuid::Uuid::try_parse(&text(from, LABEL_BYTES_MAX)?).ok()?;
                event.event_id = *id.as_bytes();
                return Some(());
            }
            Field::Time => {
                event.time = Micros::parse_rfc3339(&text(from, LABEL_BYTES_MAX)?)?;
                let latest = context.now.0.saturating_add(context.future_micros_max);
                return (event.time.0 <= latest).then_some(());
            }
            Field::Severity => {
                let (literal, integer) = from.number()?;
                event.severity = literal.parse().ok().filter(|s| integer && (1..=24).contains(s));
                return event.severity.map(|_| ());
            }
            Field::Outcome => {
                let outcome = text(from, LABEL_BYTES_MAX).filter(|text| is_outcome(text))?;
                event.outcome = Some(outcome.into_owned());
                return Some(());
            }
            Field::Tenant => {
                event.tenant = text(from, TENANT_BYTES_MAX)?.into_owned();
                return Some(());
            }
            Field::Action => {
                event.action = text(from, LABEL_BYTES_MAX)?.into_owned();
                return Some(());
            }
            Field::Targets => return self.targets(),
            Field::Attributes => return self.attributes(),
            Field::Category => (&mut event.category, LABEL_BYTES_MAX),
            Field::ActorType => (&mut event.actor_type, LABEL_BYTES_MAX),
            Field::ActorId => (&mut event.actor_id, NAME_BYTES_MAX),
            Field::ActorName => (&mut event.actor_name, NAME_BYTES_MAX),
            Field::TargetType => (&mut flat.kind, LABEL_BYTES_MAX),
            Field::TargetId => (&mut flat.id, NAME_BYTES_MAX),
            Field::OutcomeReason => (&mut event.outcome_reason, AGENT_BYTES_MAX),
            Field::SourceIp => (&mut event.source_ip, LABEL_BYTES_MAX),
            Field::UserAgent => (&mut event.user_agent, AGENT_BYTES_MAX),
            Field::Service => (&mut event.service, LABEL_BYTES_MAX),
            Field::RequestId => (&mut event.request_id, LABEL_BYTES_MAX),
            Field::SessionId => (&mut event.session_id, LABEL_BYTES_MAX),
            Field::TraceId => (&mut event.trace_id, LABEL_BYTES_MAX),
            Field::Message => (&mut event.message, MESSAGE_BYTES_MAX),
        };
        *slot = Some(text(from, bytes_max)?.into_owned());
        Some(())
    }

    fn targets(&mut self) -> Option<()> {
        self.from.take(b'[')?;
        if self.from.take(b']').is_some() {
            return Some(());
        }
        loop {
            let target = self.target()?;
            self.event.targets.push(target);
            if self.from.take(b',').is_none() {
                break;
            }
        }
        self.from.take(b']')?;
        (self.event.targets.len() <= TARGETS_MAX).then_some(())
    }

    fn target(&mut self) -> Option<Target> {
        let mut target = Target::default();
        self.from.take(b'{')?;
        if self.from.take(b'}').is_some() {
            return Some(target);
        }
        loop {
            let name = self.from.string()?;
            let (slot, bytes_max) = match name.as_ref() {
                "type" => (&mut target.kind, LABEL_BYTES_MAX),
                "id" => (&mut target.id, NAME_BYTES_MAX),
                "name" => (&mut target.name, NAME_BYTES_MAX),
                _ => return None,
            };
            self.from.take(b':')?;
            let value = text(&mut self.from, bytes_max)?.into_owned();
            slot.is_none().then(|| *slot = Some(value))?;
            if self.from.take(b',').is_none() {
                break;
            }
        }
        self.from.take(b'}')?;
        Some(target)
    }

    fn attributes(&mut self) -> Option<()> {
        let Scratch { transcoder, attributes } = self.scratch;
        attributes.buffer.clear();
        let text = transcoder.canonical(&mut self.from, attributes)?;
        (text.len() <= ATTRIBUTES_BYTES_MAX).then(|| self.event.attributes = Some(text.to_owned()))
    }
}

fn text<'a>(from: &mut Scanner<'a>, bytes_max: usize) -> Option<Cow<'a, str>> {
    from.string().filter(|text| text.len() <= bytes_max)
}

/// The fields that a client may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    EventId,
    Tenant,
    Time,
    Action,
    Category,
    ActorType,
    ActorId,
    ActorName,
    TargetType,
    TargetId,
    Targets,
    Outcome,
    OutcomeReason,
    Severity,
    SourceIp,
    UserAgent,
    Service,
    RequestId,
    SessionId,
    TraceId,
    Message,
    Attributes,
}

impl Field {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "event_id" => Field::EventId,
            "tenant" => Field::Tenant,
            "time" => Field::Time,
            "action" => Field::Action,
            "category" => Field::Category,
            "actor_type" => Field::ActorType,
            "actor_id" => Field::ActorId,
            "actor_name" => Field::ActorName,
            "target_type" => Field::TargetType,
            "target_id" => Field::TargetId,
            "targets" => Field::Targets,
            "outcome" => Field::Outcome,
            "outcome_reason" => Field::OutcomeReason,
            "severity" => Field::Severity,
            "source_ip" => Field::SourceIp,
            "user_agent" => Field::UserAgent,
            "service" => Field::Service,
            "request_id" => Field::RequestId,
            "session_id" => Field::SessionId,
            "trace_id" => Field::TraceId,
            "message" => Field::Message,
            "attributes" => Field::Attributes,
            _ => return None,
        })
    }
}
