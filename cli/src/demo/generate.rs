//! Generates a day of audit events: the same seed, count and end give the same bytes.

use jiff::Timestamp;
use rand::rngs::StdRng;
use rand::{Rng, RngCore, SeedableRng};
use serde_json::{Map, Value, json};

use super::actions::{Action, Detail};
use super::cast::{Actor, Cast, hex, one_of};
use super::clock::DayClock;
use super::stories::{Scene, Story, stories};

const FAILURE_PERCENT: u32 = 5;
const DENIED_PERCENT: u32 = 3;
/// OpenTelemetry's "warn" and "error".
const SEVERITY_DENIED: u8 = 13;
const SEVERITY_FAILURE: u8 = 17;

/// An iterator over events in our own JSON form, by ascending time.
pub struct Generator {
    rng: StdRng,
    clock: DayClock,
    cast: Cast,
    stories: [Story; 2],
    index: usize,
    events: usize,
}

impl Generator {
    /// `events` events of the 24 hours before `end_time_micros` (since 1970, UTC).
    pub fn new(seed: u64, events: usize, end_time_micros: i64) -> Generator {
        let mut rng = StdRng::seed_from_u64(seed);
        let cast = Cast::new(&mut rng);
        let clock = DayClock::new(end_time_micros);
        Generator { rng, clock, cast, stories: stories(events), index: 0, events }
    }
}

impl Iterator for Generator {
    type Item = Value;

    fn next(&mut self) -> Option<Value> {
        if self.index >= self.events {
            return None;
        }
        let index = self.index;
        self.index += 1;
        let rng = &mut self.rng;
        let time = self.clock.time(index, self.events, rng.next_u32());
        let mut event = frame(time, rng);
        match self.stories.iter().find_map(|story| story.scene(index)) {
            Some(scene) => fill_scene(scene, &mut event),
            None => {
                let (tenant, actor) = self.cast.pick(rng);
                fill_ordinary(tenant, actor, rng, &mut event);
            }
        }
        Some(Value::Object(event))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.events - self.index;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Generator {}

fn put(event: &mut Map<String, Value>, name: &str, value: impl Into<Value>) {
    event.insert(name.to_owned(), value.into());
}

/// What every event has, whatever it is about.
fn frame(time: Timestamp, rng: &mut StdRng) -> Map<String, Value> {
    let mut random = [0; 10];
    rng.fill_bytes(&mut random);
    let millis = u64::try_from(time.as_millisecond()).unwrap_or_default();
    let id = uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid();
    let mut event = Map::new();
    put(&mut event, "event_id", id.to_string());
    put(&mut event, "time", format!("{time:.6}"));
    put(&mut event, "request_id", format!("req_{}", hex(16, rng)));
    put(&mut event, "trace_id", hex(32, rng));
    event
}

fn fill_ordinary(
    tenant: &str,
    actor: &mut Actor,
    rng: &mut StdRng,
    event: &mut Map<String, Value>,
) {
    let action = Action::pick(actor.kind, rng);
    let (outcome, reason, severity) = outcome(action, rng);
    let succeeded = reason.is_none();
    if succeeded && action.name == "user.login" {
        actor.session = Some(hex(16, rng));
    }
    let targets = action.targets(rng);
    let target_id = targets.first().and_then(|target| target["id"].as_str()).unwrap_or_default();
    let could_not = if succeeded { "" } else { "tried in vain: " };
    put(event, "message", format!("{} {could_not}{} {target_id}", actor.name, action.verb));
    put(event, "tenant", tenant);
    put(event, "action", action.name);
    put(event, "category", action.category);
    put(event, "service", action.service);
    put(event, "actor_type", actor.kind.name());
    put(event, "actor_id", actor.id.as_str());
    put(event, "actor_name", actor.name.as_str());
    put(event, "source_ip", actor.source_ip.as_str());
    put(event, "user_agent", actor.user_agent);
    put(event, "outcome", outcome);
    put(event, "severity", severity);
    if let Some(reason) = reason {
        put(event, "outcome_reason", reason);
    }
    if let Some(session) = &actor.session {
        put(event, "session_id", session.as_str());
    }
    put(event, "attributes", action.attributes(outcome, rng));
    put(event, "targets", targets);
}

/// Outcome, reason unless it succeeded, severity.
fn outcome(action: &Action, rng: &mut StdRng) -> (&'static str, Option<&'static str>, u8) {
    let draw = rng.random_range(0..100_u32);
    if draw < DENIED_PERCENT {
        let reasons: &[&'static str] = match action.detail {
            Detail::SignIn => &["bad_password", "mfa_failed", "account_locked"],
            _ => &["missing_permission", "ip_not_allowed", "role_expired"],
        };
        ("denied", Some(one_of(reasons, rng)), SEVERITY_DENIED)
    } else if draw < DENIED_PERCENT + FAILURE_PERCENT {
        let reasons = &["timeout", "invalid_request", "conflict", "rate_limited", "upstream_error"];
        ("failure", Some(one_of(reasons, rng)), SEVERITY_FAILURE)
    } else {
        ("success", None, action.severity)
    }
}

fn fill_scene(scene: Scene, event: &mut Map<String, Value>) {
    put(event, "tenant", scene.planted.tenant);
    put(event, "action", scene.action);
    put(event, "category", scene.category);
    put(event, "service", scene.service);
    put(event, "actor_type", "user");
    put(event, "actor_id", scene.planted.actor_id);
    put(event, "actor_name", scene.actor_name);
    put(event, "source_ip", scene.planted.source_ip);
    put(event, "user_agent", scene.user_agent);
    put(event, "outcome", scene.outcome);
    put(event, "severity", scene.severity);
    put(event, "message", scene.message);
    put(event, "targets", json!([{ "type": scene.target.0, "id": scene.target.1 }]));
    put(event, "attributes", scene.attributes);
    if let Some(reason) = scene.reason {
        put(event, "outcome_reason", reason);
    }
}
