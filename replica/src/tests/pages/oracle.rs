//! Random events in several shards, and what a walk over them must give, from a plain sorted list.

use std::collections::BTreeMap;

use reqwest::Response;
use sealcast_common::clock::Micros;
use sealcast_common::event::{Event, Target};
use serde_json::Value;
use uuid::Uuid;

use crate::tests::kit::{Bucket, EPOCH, Replica, event};
use crate::tests::plans::Dice;

/// Shards that may get rows; one more never does.
const SHARDS: u64 = 5;

/// A store, and what was shipped to it.
pub(super) struct World {
    pub(super) bucket: Bucket,
    /// Every row shipped so far.
    pub(super) rows: Vec<Row>,
}

#[derive(Clone)]
pub(super) struct Row {
    pub(super) event: Event,
    pub(super) shard: u16,
    pub(super) seq: u64,
}

impl Row {
    pub(super) fn place(&self) -> (i64, [u8; 16], u16, u64) {
        (self.event.time.0, self.event.event_id, self.shard, self.seq)
    }
}

/// Events that collide often: few times, few ids, few of everything.
fn random(dice: &mut Dice, shard: u16, seq: u64, span: u64) -> Event {
    let mut event = event(shard, seq);
    event.event_id = *Uuid::from_u128(u128::from(dice.below(400))).as_bytes();
    event.tenant = format!("tenant-{}", dice.below(4));
    event.time = Micros(EPOCH + dice.below(span) as i64);
    event.actor_id = [None, Some("ann"), Some("bob")][dice.below(3) as usize].map(str::to_owned);
    let target = |id: &str| Target { kind: None, id: Some(id.to_owned()), name: None };
    event.targets = match dice.below(3) {
        0 => Vec::new(),
        1 => vec![target("f1")],
        _ => vec![target("f0"), target("f1")],
    };
    event.message = dice.chance(50).then(|| format!("it is 100% {}_", dice.below(3)));
    event
}

impl World {
    pub(super) async fn new(dice: &mut Dice) -> Self {
        let mut world = World { bucket: Bucket::new().await, rows: Vec::new() };
        for _ in 0..1 + dice.below(9) {
            world.grow(dice).await;
        }
        world
    }

    /// One more segment somewhere.
    pub(super) async fn grow(&mut self, dice: &mut Dice) {
        let shard = dice.below(SHARDS) as u16;
        let start = self.bucket.size(shard);
        let span = [3, 40, 10_000_000][dice.below(3) as usize];
        let events: Vec<Event> =
            (start..start + 1 + dice.below(60)).map(|seq| random(dice, shard, seq, span)).collect();
        let rows = events.iter().zip(start..);
        self.rows.extend(rows.map(|(event, seq)| Row { event: event.clone(), shard, seq }));
        self.bucket.ship(shard, events).await;
    }

    /// What a walk must give, in its order.
    pub(super) fn expected(&self, query: &BTreeMap<&str, String>) -> Vec<(u16, u64)> {
        let mut rows: Vec<&Row> = self.rows.iter().filter(|row| matches(row, query)).collect();
        rows.sort_by_key(|row| row.place());
        if query.get("order").is_none_or(|order| order == "desc") {
            rows.reverse();
        }
        rows.into_iter().map(|row| (row.shard, row.seq)).collect()
    }

    /// Parameters that mean something here.
    pub(super) fn query(&self, dice: &mut Dice) -> BTreeMap<&'static str, String> {
        let mut query = BTreeMap::new();
        let mut maybe = |dice: &mut Dice, name, value: String| {
            if dice.chance(25) {
                query.insert(name, value);
            }
        };
        let mut time = || {
            let row = &self.rows[dice.below(self.rows.len() as u64) as usize];
            row.event.time.0 + dice.below(3) as i64 - 1
        };
        let (a, b) = (time(), time());
        maybe(dice, "from", a.min(b).to_string());
        maybe(dice, "to", Micros(a.max(b)).to_rfc3339());
        let word =
            |dice: &mut Dice, of: &[&str]| of[dice.below(of.len() as u64) as usize].to_owned();
        let value = word(dice, &["tenant-0", "tenant-3", "nobody"]);
        maybe(dice, "tenant", value);
        let value = word(dice, &["ann", "bob", "eve"]);
        maybe(dice, "actor", value);
        let value = word(dice, &["user.login", "file.read", "zzz"]);
        maybe(dice, "action", value);
        let value = word(dice, &["f0", "f1"]);
        maybe(dice, "target", value);
        let value = word(dice, &["success", "denied", "unknown"]);
        maybe(dice, "outcome", value);
        let value = word(dice, &["100%", "2_", "nested", "actor-", "\"n\":1"]);
        maybe(dice, "q", value);
        let value = word(dice, &["asc", "desc"]);
        maybe(dice, "order", value);
        query
    }
}

fn matches(row: &Row, query: &BTreeMap<&str, String>) -> bool {
    let event = &row.event;
    let time = |text: &String| match text.parse() {
        Ok(micros) => micros,
        Err(_) => Micros::parse_rfc3339(text).unwrap().0,
    };
    query.iter().all(|(name, value)| match *name {
        "from" => event.time.0 >= time(value),
        "to" => event.time.0 < time(value),
        "tenant" => event.tenant == *value,
        "actor" => event.actor_id.as_ref() == Some(value),
        "action" => event.action == *value,
        "target" => event.targets.iter().any(|target| target.id.as_ref() == Some(value)),
        "outcome" => event.outcome.as_ref() == Some(value),
        "q" => {
            let first = event.targets.first().and_then(|target| target.id.as_ref());
            let texts = [&event.message, &event.attributes, &event.actor_id, &event.actor_name];
            let mut texts = texts.into_iter().flatten().chain(first).chain([&event.action]);
            texts.any(|text| text.contains(value.as_str()))
        }
        _ => true,
    })
}

/// Asks for a page.
pub(super) async fn ask(replica: &Replica, query: &BTreeMap<&str, String>) -> Response {
    let query: Vec<_> = query.iter().collect();
    replica.client.get(replica.url("/v1/events")).query(&query).send().await.unwrap()
}

/// A page that there must be.
pub(super) async fn page(replica: &Replica, query: &BTreeMap<&str, String>) -> Value {
    let response = ask(replica, query).await;
    let status = response.status();
    let text = response.text().await.unwrap();
    assert_eq!(status, 200, "{query:?}: {text}");
    serde_json::from_str(&text).unwrap()
}

/// The places of a page's rows.
pub(super) fn places(page: &Value) -> Vec<(u16, u64)> {
    let events = page["events"].as_array().unwrap();
    let place =
        |event: &Value| (event["_shard"].as_u64().unwrap() as u16, event["_seq"].as_u64().unwrap());
    events.iter().map(place).collect()
}
