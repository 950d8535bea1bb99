//! The seeded generator: row `i` of seed `s` is always the same event, whoever makes it.
//!
//! 2,000 tenants by Zipf's law (the hottest has a quarter of all rows), 200,000 actors, 60 actions,
//! 300 user agents, attributes of 80 to 400 bytes. Times grow with the row's index, give or take a
//! delay. Every 64 rows one actor is denied and succeeds within five seconds.

use std::fmt::Write as _;

use rand::rngs::StdRng;
use rand::{Rng, RngCore as _, SeedableRng as _};
use sealcast_common::clock::Micros;
use sealcast_common::event::{Event, Target};

use super::words::{
    AGENT_VERSIONS, AGENTS, FAMILIES, NEEDLE, REASONS, REGIONS, TENANTS, VERBS, WORDS,
};

/// 2025-01-01T00:00:00Z: when row 0 arrives.
pub(super) const EPOCH: i64 = 1_735_689_600_000_000;
/// Between two arrivals, microseconds: 20 million rows are 30 days.
pub(super) const STEP: i64 = 129_600;
const TENANT_COUNT: usize = 2_000;
const ACTOR_COUNT: usize = 200_000;
/// Every tenant has at least so many actors.
const ACTORS_MIN: usize = 10;
/// The exponent at which the first of 2,000 has 25 %.
const ZIPF: f64 = 1.25;
/// Rows of one story, the row in it that is denied, and the row that succeeds.
const STORY: (u64, u64, u64) = (64, 7, 44);
const ATTRIBUTES_BYTES: (usize, usize) = (80, 400);

#[derive(Debug)]
struct Tenant {
    name: String,
    /// Tenants up to and including this one have so much of all rows.
    share: f64,
    first_actor: usize,
    actors: usize,
}

/// Makes rows by index.
#[derive(Debug)]
pub(super) struct Generator {
    seed: u64,
    tenants: Vec<Tenant>,
    agents: Vec<String>,
}

/// An index below `count`, small ones more often.
fn skewed(rng: &mut StdRng, count: usize) -> usize {
    let draw: f64 = rng.random();
    ((draw * draw * count as f64) as usize).min(count.saturating_sub(1))
}

impl Generator {
    pub(super) fn new(seed: u64) -> Self {
        let weights: Vec<f64> = (1..=TENANT_COUNT).map(|rank| (rank as f64).powf(-ZIPF)).collect();
        let total: f64 = weights.iter().sum();
        let spread = (ACTOR_COUNT - TENANT_COUNT * ACTORS_MIN) as f64;
        let (mut share, mut next) = (0.0, 0);
        let mut tenants = Vec::with_capacity(TENANT_COUNT);
        for (rank, weight) in weights.iter().enumerate() {
            share += weight / total;
            let end = (share * spread).round() as usize + (rank + 1) * ACTORS_MIN;
            let name = format!("{}-{rank:04}", TENANTS[rank % TENANTS.len()]);
            tenants.push(Tenant { name, share, first_actor: next, actors: end - next });
            next = end;
        }
        let version = |v: usize| format!("{}.{}.{}", 1 + v / 7, v % 7, (v * 37) % 97);
        let agents = AGENTS
            .iter()
            .flat_map(|agent| (0..AGENT_VERSIONS).map(move |v| format!("{agent}/{}", version(v))))
            .collect();
        Generator { seed, tenants, agents }
    }

    /// The tenant with this rank, 0 being the hottest.
    pub(super) fn tenant(&self, rank: usize) -> &str {
        self.tenants.get(rank).map_or("", |tenant| &tenant.name)
    }

    /// The busiest actor of the tenant with this rank.
    pub(super) fn busiest_actor(&self, rank: usize) -> String {
        actor_id(self.tenants.get(rank).map_or(0, |tenant| tenant.first_actor))
    }

    /// When row `index` arrives at the writer.
    pub(super) fn arrival(index: u64) -> Micros {
        Micros(EPOCH + index as i64 * STEP)
    }

    /// Row `index`.
    pub(super) fn event(&self, index: u64) -> Event {
        let (cycle, denied, allowed) = STORY;
        let scene = index % cycle;
        let (tenant, actor) =
            self.who(if scene == allowed { index - (allowed - denied) } else { index });
        let mut rng = self.rng(index, 1);
        let arrival = Self::arrival(index);
        let late = if rng.random_range(0..100) < 3 { 60_000_000 } else { 2_000_000 };
        let time = Micros(arrival.0 - rng.random_range(2_000..late));
        let mut random = [0; 10];
        rng.fill_bytes(&mut random);
        let id =
            uuid::Builder::from_unix_timestamp_millis((time.0 / 1_000).unsigned_abs(), &random);
        let kind = skewed(&mut rng, FAMILIES.len() * VERBS.len());
        let (family, thing) = FAMILIES[kind % FAMILIES.len()];
        let action = format!("{family}.{thing}.{}", VERBS[kind / FAMILIES.len()]);
        let outcome = match (scene, rng.random_range(0..100)) {
            (scene, _) if scene == denied => "denied",
            (scene, 4..) if scene != denied => "success",
            (scene, _) if scene == allowed => "success",
            (_, 0) => "denied",
            _ => "failure",
        };
        let succeeded = outcome == "success";
        let target = format!("{thing}-{:05x}", skewed(&mut rng, 50_000));
        let mut message = format!("{action} on {target} ended in {outcome}");
        if rng.random_range(0..5_000) == 0 {
            message = format!("{message} ({NEEDLE})");
        }
        Event {
            event_id: *id.into_uuid().as_bytes(),
            tenant: tenant.to_owned(),
            time,
            category: Some(family.to_owned()),
            actor_type: Some(if actor % 8 == 0 { "service" } else { "user" }.to_owned()),
            actor_id: Some(actor_id(actor)),
            targets: vec![Target { kind: Some(thing.to_owned()), id: Some(target), name: None }],
            outcome: Some(outcome.to_owned()),
            outcome_reason: (!succeeded)
                .then(|| REASONS[skewed(&mut rng, REASONS.len())].to_owned()),
            severity: Some(if succeeded { 9 } else { 13 }),
            source_ip: Some(source_ip(actor, rng.random_range(0..4))),
            user_agent: self
                .agents
                .get((actor * 7 + skewed(&mut rng, 6)) % self.agents.len())
                .cloned(),
            message: Some(message),
            attributes: Some(attributes(&mut rng, thing, succeeded)),
            action,
            ..Event::default()
        }
    }

    /// Tenant and actor that row `index` draws.
    fn who(&self, index: u64) -> (&str, usize) {
        let mut rng = self.rng(index, 0);
        let draw: f64 = rng.random();
        let rank = self.tenants.partition_point(|tenant| tenant.share < draw);
        match self.tenants.get(rank).or(self.tenants.last()) {
            Some(tenant) => (&tenant.name, tenant.first_actor + skewed(&mut rng, tenant.actors)),
            None => ("", 0),
        }
    }

    fn rng(&self, index: u64, stream: u64) -> StdRng {
        let mixed = (index * 2 + stream).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        StdRng::seed_from_u64(self.seed.wrapping_add(mixed))
    }
}

fn actor_id(actor: usize) -> String {
    format!("u-{:08x}", (actor as u32).wrapping_mul(0x9E37_79B1))
}

/// A few addresses for each actor, twenty thousand in all.
fn source_ip(actor: usize, nth: usize) -> String {
    let host = (actor * 31 + nth * 7) % 20_000;
    format!("10.{}.{}.{}", host / 5_000, host / 100 % 50, host % 100)
}

/// Canonical JSON text, as the writer would make it: names sorted, no white space.
fn attributes(rng: &mut StdRng, thing: &str, succeeded: bool) -> String {
    let (least, most) = ATTRIBUTES_BYTES;
    let wanted = least + skewed(rng, most - least);
    let status = if succeeded { 200 } else { [403, 409, 429, 503][skewed(rng, 4)] };
    let (bytes, ms) = (skewed(rng, 100_000), skewed(rng, 3_000));
    let end = format!(
        "\",\"path\":\"/v1/{thing}/{:x}\",\"region\":\"{}\",\"status\":{status}}}",
        skewed(rng, 4_096),
        REGIONS[skewed(rng, REGIONS.len())],
    );
    let mut out = format!("{{\"bytes\":{bytes},\"ms\":{ms},\"note\":\"");
    out.push_str(if rng.random_range(0..5_000) == 0 { NEEDLE } else { "-" });
    loop {
        let word = WORDS[rng.random_range(0..WORDS.len())];
        if out.len() + 1 + word.len() + end.len() > wanted {
            break;
        }
        out.push(' ');
        out.push_str(word);
    }
    out.push_str(&end);
    out
}

/// The event as a client sends it, and a newline. Nothing that is generated needs an escape.
pub(super) fn write_json(event: &Event, out: &mut String) {
    let id = uuid::Uuid::from_bytes(event.event_id);
    // Writing to a String cannot fail.
    let _ok = write!(
        out,
        "{{\"event_id\":\"{id}\",\"tenant\":\"{}\",\"time\":\"{}\",\"action\":\"{}\"",
        event.tenant, event.time, event.action
    );
    let texts = [
        ("category", &event.category),
        ("actor_type", &event.actor_type),
        ("actor_id", &event.actor_id),
        ("outcome", &event.outcome),
        ("outcome_reason", &event.outcome_reason),
        ("source_ip", &event.source_ip),
        ("user_agent", &event.user_agent),
        ("message", &event.message),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            let _ok = write!(out, ",\"{name}\":\"{text}\"");
        }
    }
    for target in &event.targets {
        if let (Some(kind), Some(id)) = (&target.kind, &target.id) {
            let _ok = write!(out, ",\"targets\":[{{\"type\":\"{kind}\",\"id\":\"{id}\"}}]");
        }
    }
    if let Some(severity) = event.severity {
        let _ok = write!(out, ",\"severity\":{severity}");
    }
    if let Some(attributes) = &event.attributes {
        let _ok = write!(out, ",\"attributes\":{attributes}");
    }
    out.push_str("}\n");
}
