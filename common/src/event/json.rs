//! JSON text into an [`Event`]: every refusal names the field, what was found and what is expected.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::value::{Value, ValueError, items, members};
use super::{Event, Prepared, Target, quick};
use crate::clock::Micros;
use crate::limits::{
    AGENT_BYTES_MAX, ATTRIBUTES_BYTES_MAX, ATTRIBUTES_DEPTH_MAX, EVENT_BYTES_MAX,
    FUTURE_MICROS_MAX, LABEL_BYTES_MAX, MESSAGE_BYTES_MAX, NAME_BYTES_MAX, TARGETS_MAX,
    TENANT_BYTES_MAX,
};

/// Bytes of a client's text that a refusal shows.
const SHOWN_BYTES_MAX: usize = 512;

/// Why one event is refused. `code` is stable; the rest is for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{field}: found {found}, expected {expected}")]
#[cfg_attr(feature = "serve", derive(utoipa::ToSchema))]
pub struct FieldError {
    /// Stable word: `missing_field`, `wrong_type`, `too_long`, …
    pub code: String,
    /// The field's name, or `event` for the whole.
    pub field: String,
    /// What was found.
    pub found: String,
    /// What was expected.
    pub expected: String,
}

impl FieldError {
    /// A refusal of `field`.
    pub fn new(
        code: &str,
        field: &str,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) -> Self {
        FieldError {
            code: code.to_owned(),
            field: shortened(field.to_owned()),
            found: shortened(found.into()),
            expected: expected.into(),
        }
    }
}

/// A client's text in an answer: its start says enough, and twenty thousand answers stay small.
fn shortened(mut text: String) -> String {
    if text.len() > SHOWN_BYTES_MAX {
        text.truncate(text.floor_char_boundary(SHOWN_BYTES_MAX));
        text.push('…');
    }
    text
}

/// What the writer fills in.
#[derive(Clone, Copy, Debug)]
pub struct ParseContext {
    /// The base of the future bound.
    pub now: Micros,
    /// Default for `time`.
    pub time: Micros,
    /// Default for `event_id`.
    pub fresh_id: [u8; 16],
    /// How far `time` may lie ahead of `now`, microseconds.
    pub future_micros_max: i64,
}

impl ParseContext {
    /// The default bound on the future, `now` for events without a time.
    pub fn new(now: Micros, fresh_id: [u8; 16]) -> Self {
        ParseContext { now, time: now, fresh_id, future_micros_max: FUTURE_MICROS_MAX }
    }
}

const FIELDS: &str = "event_id, tenant, time, action, category, actor_type, actor_id, actor_name, \
     target_type, target_id, targets, outcome, outcome_reason, severity, source_ip, user_agent, \
     service, request_id, session_id, trace_id, message, attributes";

/// Reads events and encodes them, for whoever stores them; in memory that is used again.
#[derive(Debug, Default)]
pub struct EventReader<'a>(quick::Scratch<'a>);

impl<'a> EventReader<'a> {
    /// As [`parse_event`], with the event's encoding.
    pub fn read(
        &mut self,
        text: &'a str,
        context: &ParseContext,
    ) -> Result<(Event, Prepared), FieldError> {
        if let Some(read) = quick::read(text, context, &mut self.0) {
            return Ok(read);
        }
        let event = parse_event(text, context)?;
        let prepared = Prepared::new(&event.as_ref()).map_err(|error| {
            let expected = "a value that can be kept";
            FieldError::new("bad_value", "attributes", error.to_string(), expected)
        })?;
        Ok((event, prepared))
    }
}

/// Reads one event. The first problem found is reported.
pub fn parse_event(text: &str, context: &ParseContext) -> Result<Event, FieldError> {
    if text.len() > EVENT_BYTES_MAX {
        let expected = format!("at most {EVENT_BYTES_MAX} bytes");
        return Err(FieldError::new("too_long", "event", bytes(text.len()), expected));
    }
    if !text.trim_start().starts_with('{') {
        let found = serde_json::from_str::<&RawValue>(text)
            .map_or_else(|error| format!("invalid json: {error}"), describe);
        return Err(FieldError::new("wrong_type", "event", found, "a json object"));
    }
    let members = members(text).map_err(|error| value_error("event", &error))?;
    if let Some(name) = duplicate(&members) {
        let expected = "every field at most once";
        return Err(FieldError::new("duplicate_key", name, format!("{name:?} twice"), expected));
    }
    let mut event = Event { time: context.time, event_id: context.fresh_id, ..Event::default() };
    let mut flat = Target::default();
    for (name, raw) in &members {
        if raw.get().trim() == "null" {
            continue;
        }
        field(&mut event, &mut flat, name, raw, context)?;
    }
    for (name, value) in [("tenant", &event.tenant), ("action", &event.action)] {
        if value.is_empty() {
            let given = members.iter().any(|(member, _)| member == name);
            let found = if given { "an empty or null value" } else { "no such field" };
            return Err(FieldError::new("missing_field", name, found, "a non-empty string"));
        }
    }
    flatten_target(&mut event, flat)?;
    Ok(event)
}

fn duplicate<'m>(members: &'m [(std::borrow::Cow<'_, str>, &RawValue)]) -> Option<&'m str> {
    let mut names: Vec<&str> = members.iter().map(|(name, _)| name.as_ref()).collect();
    names.sort_unstable();
    names.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}

fn field(
    event: &mut Event,
    flat: &mut Target,
    name: &str,
    raw: &RawValue,
    context: &ParseContext,
) -> Result<(), FieldError> {
    let label = |raw| text(name, raw, LABEL_BYTES_MAX).map(Some);
    match name {
        "event_id" => event.event_id = uuid(name, raw)?,
        "tenant" => event.tenant = text(name, raw, TENANT_BYTES_MAX)?,
        "time" => event.time = time(name, raw, context)?,
        "action" => event.action = text(name, raw, LABEL_BYTES_MAX)?,
        "category" => event.category = label(raw)?,
        "actor_type" => event.actor_type = label(raw)?,
        "actor_id" => event.actor_id = Some(text(name, raw, NAME_BYTES_MAX)?),
        "actor_name" => event.actor_name = Some(text(name, raw, NAME_BYTES_MAX)?),
        "target_type" => flat.kind = label(raw)?,
        "target_id" => flat.id = Some(text(name, raw, NAME_BYTES_MAX)?),
        "targets" => event.targets = targets(raw)?,
        "outcome" => event.outcome = Some(outcome(name, raw)?),
        "outcome_reason" => event.outcome_reason = Some(text(name, raw, AGENT_BYTES_MAX)?),
        "severity" => event.severity = Some(severity(name, raw)?),
        "source_ip" => event.source_ip = label(raw)?,
        "user_agent" => event.user_agent = Some(text(name, raw, AGENT_BYTES_MAX)?),
        "service" => event.service = label(raw)?,
        "request_id" => event.request_id = label(raw)?,
        "session_id" => event.session_id = label(raw)?,
        "trace_id" => event.trace_id = label(raw)?,
        "message" => event.message = Some(text(name, raw, MESSAGE_BYTES_MAX)?),
        "attributes" => event.attributes = Some(attributes(name, raw)?),
        "ingested_at" | "_shard" | "_seq" => {
            let expected = "a field that the writer does not set itself";
            return Err(FieldError::new("reserved_field", name, "a value", expected));
        }
        _ => {
            let expected = format!("one of {FIELDS}; put anything else into `attributes`");
            return Err(FieldError::new("unknown_field", name, format!("{name:?}"), expected));
        }
    }
    Ok(())
}

fn text(name: &str, raw: &RawValue, bytes_max: usize) -> Result<String, FieldError> {
    let Ok(value) = serde_json::from_str::<String>(raw.get()) else {
        return Err(FieldError::new("wrong_type", name, describe(raw), "a string"));
    };
    if value.len() > bytes_max {
        let expected = format!("at most {bytes_max} bytes");
        return Err(FieldError::new("too_long", name, bytes(value.len()), expected));
    }
    Ok(value)
}

fn uuid(name: &str, raw: &RawValue) -> Result<[u8; 16], FieldError> {
    let value = text(name, raw, LABEL_BYTES_MAX)?;
    match uuid::Uuid::try_parse(&value) {
        Ok(id) => Ok(*id.as_bytes()),
        Err(_) => Err(FieldError::new("bad_uuid", name, format!("{value:?}"), "a UUID")),
    }
}

fn time(name: &str, raw: &RawValue, context: &ParseContext) -> Result<Micros, FieldError> {
    let value = text(name, raw, LABEL_BYTES_MAX)?;
    let Some(time) = Micros::parse_rfc3339(&value) else {
        let expected = "an RFC 3339 time with offset, such as 2026-12-02T09:00:00.25Z";
        return Err(FieldError::new("bad_time", name, format!("{value:?}"), expected));
    };
    let latest = Micros(context.now.0.saturating_add(context.future_micros_max));
    if time > latest {
        let expected = format!("at most {latest} (the writer's clock and the allowed skew)");
        return Err(FieldError::new("future_time", name, value, expected));
    }
    Ok(time)
}

pub(super) fn is_outcome(value: &str) -> bool {
    matches!(value, "success" | "failure" | "denied" | "unknown")
}

fn outcome(name: &str, raw: &RawValue) -> Result<String, FieldError> {
    let value = text(name, raw, LABEL_BYTES_MAX)?;
    if is_outcome(&value) {
        return Ok(value);
    }
    let expected = "success, failure, denied or unknown";
    Err(FieldError::new("bad_value", name, format!("{value:?}"), expected))
}

fn severity(name: &str, raw: &RawValue) -> Result<u8, FieldError> {
    match serde_json::from_str::<u8>(raw.get()) {
        Ok(value) if (1..=24).contains(&value) => Ok(value),
        _ => {
            let expected = "an integer from 1 to 24 (OpenTelemetry's severity number)";
            Err(FieldError::new("bad_value", name, describe(raw), expected))
        }
    }
}

fn targets(raw: &RawValue) -> Result<Vec<Target>, FieldError> {
    let Ok(list) = items(raw.get()) else {
        return Err(FieldError::new("wrong_type", "targets", describe(raw), "an array of objects"));
    };
    if list.len() > TARGETS_MAX {
        let found = format!("{} entries", list.len());
        let expected = format!("at most {TARGETS_MAX} entries");
        return Err(FieldError::new("too_long", "targets", found, expected));
    }
    list.into_iter().enumerate().map(|(i, raw)| target(i, raw)).collect()
}

fn target(i: usize, raw: &RawValue) -> Result<Target, FieldError> {
    let name = format!("targets[{i}]");
    let Ok(members) = members(raw.get()) else {
        let expected = "an object with type, id, name";
        return Err(FieldError::new("wrong_type", &name, describe(raw), expected));
    };
    if let Some(key) = duplicate(&members) {
        let found = format!("{key:?} twice");
        return Err(FieldError::new("duplicate_key", &name, found, "every field at most once"));
    }
    let mut target = Target::default();
    for (key, raw) in &members {
        if raw.get().trim() == "null" {
            continue;
        }
        let path = format!("{name}.{key}");
        match key.as_ref() {
            "type" => target.kind = Some(text(&path, raw, LABEL_BYTES_MAX)?),
            "id" => target.id = Some(text(&path, raw, NAME_BYTES_MAX)?),
            "name" => target.name = Some(text(&path, raw, NAME_BYTES_MAX)?),
            _ => {
                let found = format!("{key:?}");
                return Err(FieldError::new("unknown_field", &path, found, "type, id or name"));
            }
        }
    }
    Ok(target)
}

/// `target_type` and `target_id` are the first target; given alone, they become it.
pub(super) fn flatten_target(event: &mut Event, flat: Target) -> Result<(), FieldError> {
    if flat == Target::default() {
        return Ok(());
    }
    let Some(first) = event.targets.first() else {
        event.targets.push(flat);
        return Ok(());
    };
    let differs =
        |given: &Option<String>, first: &Option<String>| given.is_some() && given != first;
    if differs(&flat.kind, &first.kind) || differs(&flat.id, &first.id) {
        let found = "target_type or target_id that differ from targets[0]";
        let expected = "the same as targets[0], or no targets";
        return Err(FieldError::new("conflicting_fields", "targets", found, expected));
    }
    Ok(())
}

fn attributes(name: &str, raw: &RawValue) -> Result<String, FieldError> {
    if !raw.get().trim_start().starts_with('{') {
        return Err(FieldError::new("wrong_type", name, describe(raw), "a json object"));
    }
    let value =
        Value::parse(raw, ATTRIBUTES_DEPTH_MAX).map_err(|error| value_error(name, &error))?;
    let mut text = String::with_capacity(raw.get().len());
    value.write_json(&mut text);
    if text.len() > ATTRIBUTES_BYTES_MAX {
        let expected = format!("at most {ATTRIBUTES_BYTES_MAX} bytes");
        return Err(FieldError::new("too_long", name, bytes(text.len()), expected));
    }
    if let Value::Object(members) = &value
        && let Some((key, _)) = members.iter().find(|(key, _)| key.len() > LABEL_BYTES_MAX)
    {
        let expected = format!("names of at most {LABEL_BYTES_MAX} bytes");
        return Err(FieldError::new("too_long", name, bytes(key.len()), expected));
    }
    Ok(text)
}

fn value_error(name: &str, error: &ValueError) -> FieldError {
    match error {
        ValueError::Syntax(message) => {
            FieldError::new("invalid_json", name, message.clone(), "valid json")
        }
        ValueError::Depth { max } => {
            let found = "deeper nesting";
            FieldError::new("too_deep", name, found, format!("at most {max} levels"))
        }
        ValueError::Duplicate(key) => {
            FieldError::new("duplicate_key", name, format!("{key:?} twice"), "unique names")
        }
        ValueError::Number(literal) => {
            let expected = "a number of at most 512 characters and an exponent within a million";
            FieldError::new("bad_number", name, literal.clone(), expected)
        }
    }
}

fn bytes(count: usize) -> String {
    format!("{count} bytes")
}

/// The JSON type and the start of the value, for error texts.
fn describe(raw: &RawValue) -> String {
    let text = raw.get().trim();
    let kind = match text.as_bytes().first() {
        Some(b'{') => "an object",
        Some(b'[') => "an array",
        Some(b'"') => "a string",
        Some(b't' | b'f') => "a boolean",
        Some(b'n') => "null",
        _ => "a number",
    };
    let start: String = text.chars().take(40).collect();
    let more = if start.len() < text.len() { "…" } else { "" };
    format!("{kind}: {start}{more}")
}
