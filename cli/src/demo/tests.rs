//! The generated day: reproducible, well-formed, distributed as said, and with its two stories.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use serde_json::Value;

use super::*;

/// 2 December 2026, 12:00 UTC.
const END: i64 = 1_796_212_800_000_000;
const DAY_MICROS: i64 = 86_400_000_000;

fn day(events: usize) -> Vec<Value> {
    Generator::new(7, events, END).collect()
}

fn text<'a>(event: &'a Value, name: &str) -> &'a str {
    event[name].as_str().unwrap()
}

fn micros(event: &Value) -> i64 {
    text(event, "time").parse::<Timestamp>().unwrap().as_microsecond()
}

fn share(events: &[Value], name: &str, value: &str) -> f64 {
    events.iter().filter(|event| event[name] == value).count() as f64 / events.len() as f64
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let bytes = |seed, events| -> String {
        Generator::new(seed, events, END).map(|event| event.to_string() + "\n").collect()
    };
    assert_eq!(bytes(1, 500), bytes(1, 500));
    assert_ne!(bytes(1, 500), bytes(2, 500));
}

#[test]
fn every_event_is_well_formed() {
    let events = day(3000);
    for event in &events {
        assert_eq!(uuid::Uuid::try_parse(text(event, "event_id")).unwrap().get_version_num(), 7);
        assert_eq!(text(event, "time").len(), "2026-12-02T12:00:00.000000Z".len());
        for name in [
            "tenant",
            "action",
            "category",
            "actor_type",
            "actor_id",
            "actor_name",
            "service",
            "message",
            "user_agent",
        ] {
            assert!(!text(event, name).is_empty(), "{name}: {event}");
        }
        let trace = text(event, "trace_id");
        assert!(trace.len() == 32 && trace.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let ip: std::net::Ipv4Addr = text(event, "source_ip").parse().unwrap();
        assert!(ip.is_documentation() || ip.is_private(), "{ip}");
        assert!((1..=24).contains(&event["severity"].as_u64().unwrap()));
        assert!((1..=3).contains(&event["targets"].as_array().unwrap().len()));
        assert!(event["attributes"].is_object());
        assert_eq!(event.get("outcome_reason").is_some(), event["outcome"] != "success");
    }
    let ids: HashSet<_> = events.iter().map(|event| text(event, "event_id")).collect();
    assert_eq!(ids.len(), events.len());
}

#[test]
fn times_ascend_through_one_day_and_follow_its_curve() {
    let events = day(20_000);
    assert!(events.is_sorted_by_key(micros));
    assert!(micros(&events[0]) >= END - DAY_MICROS && micros(&events[19_999]) < END);
    let in_hour =
        |hour: &str| events.iter().filter(|event| &text(event, "time")[11..13] == hour).count();
    assert!(in_hour("14") > 5 * in_hour("03"), "{} {}", in_hour("14"), in_hour("03"));
}

#[test]
fn tenants_outcomes_and_actors_are_distributed_as_said() {
    let events = day(20_000);
    let near =
        |found: f64, wanted: f64| assert!((found - wanted).abs() < 0.012, "{found} {wanted}");
    near(share(&events, "tenant", "acme"), 0.40);
    near(share(&events, "outcome", "success"), 0.92);
    near(share(&events, "outcome", "failure"), 0.05);
    near(share(&events, "outcome", "denied"), 0.03);
    let distinct =
        |name: &str| events.iter().map(|event| text(event, name)).collect::<HashSet<_>>().len();
    assert_eq!(
        (distinct("tenant"), distinct("action"), distinct("category"), distinct("actor_type")),
        (12, 25, 5, 3)
    );
    assert!((250..=310).contains(&distinct("actor_id")), "{}", distinct("actor_id"));
}

fn of(planted: Planted, events: &[Value]) -> Vec<&Value> {
    let is_theirs = |event: &&Value| event["actor_id"] == planted.actor_id;
    let theirs: Vec<_> = events.iter().filter(is_theirs).collect();
    assert!(
        theirs
            .iter()
            .all(|event| event["tenant"] == planted.tenant
                && event["source_ip"] == planted.source_ip)
    );
    let others = events.iter().filter(|event| event["source_ip"] == planted.source_ip).count();
    assert_eq!(others, theirs.len(), "nobody else uses the address");
    theirs
}

#[test]
fn many_denied_sign_ins_end_in_one_that_succeeds() {
    let events = day(20_000);
    let story = of(BRUTE_FORCE, &events);
    let (last, before) = story.split_last().unwrap();
    assert_eq!((before.len(), text(last, "outcome")), (79, "success"));
    assert!(
        before.iter().all(|event| event["outcome"] == "denied" && event["action"] == "user.login")
    );
    // No other actor is refused nearly as often: the story stands out.
    let mut denied: HashMap<&str, usize> = HashMap::new();
    for event in events
        .iter()
        .filter(|event| event["outcome"] == "denied" && event["action"] == "user.login")
    {
        *denied.entry(text(event, "actor_id")).or_default() += 1;
    }
    let second = denied
        .iter()
        .filter(|(id, _)| **id != BRUTE_FORCE.actor_id)
        .map(|(_, count)| *count)
        .max()
        .unwrap();
    assert!(second < 10, "{second}");
}

#[test]
fn large_downloads_follow_a_new_key() {
    let events = day(20_000);
    let story = of(EXFILTRATION, &events);
    let actions: Vec<_> = story.iter().map(|event| text(event, "action")).collect();
    assert_eq!(actions[..3], ["user.login", "apikey.create", "export.request"]);
    assert!(actions.len() == 40 && actions[39] == "apikey.revoke");
    let bytes = |event: &Value| event["attributes"]["bytes"].as_u64().unwrap_or(0);
    let theirs: u64 = story.iter().map(|event| bytes(event)).sum();
    let largest_other = events
        .iter()
        .filter(|event| event["actor_id"] != EXFILTRATION.actor_id)
        .map(bytes)
        .max()
        .unwrap();
    assert!(theirs > 1000 * largest_other, "{theirs} {largest_other}");
}

#[test]
fn any_count_and_end_will_do() {
    for events in [0, 1, 10, 500] {
        assert_eq!(day(events).len(), events);
    }
    for end in [i64::MIN, 0, i64::MAX] {
        let events: Vec<Value> = Generator::new(1, 20, end).collect();
        assert!(events.is_sorted_by_key(micros));
    }
}
