//! The generator: the same rows for ever, in the shape that the goals were measured with.

use std::collections::{BTreeMap, BTreeSet};

use sealcast_common::clock::Micros;
use sealcast_common::event::{ParseContext, parse_event};

use super::data::DataSet;
use super::events::{Generator, write_json};
use super::queries::{Parameters, queries};

const ROWS: u64 = 8_000;

#[test]
fn what_is_sent_is_what_is_sealed() {
    let events = Generator::new(42);
    let context = ParseContext::new(Micros(i64::MAX / 2), [9; 16]);
    let mut bytes = 0;
    for index in 0..1_000 {
        let event = events.event(index);
        let mut text = String::new();
        write_json(&event, &mut text);
        bytes += text.len();
        assert_eq!(parse_event(&text, &context).unwrap(), event, "row {index}: {text}");
        let attributes = event.attributes.unwrap().len();
        assert!((80..=400).contains(&attributes), "row {index}: {attributes} bytes");
    }
    assert!((500..=660).contains(&(bytes / 1_000)), "{} bytes an event", bytes / 1_000);
}

#[test]
fn a_row_depends_on_seed_and_index_alone() {
    let (one, other) = (Generator::new(1), Generator::new(1));
    let backwards: Vec<_> = (0..100).rev().map(|index| other.event(index)).collect();
    let forwards: Vec<_> = (0..100).map(|index| one.event(index)).collect();
    assert!(forwards.iter().eq(backwards.iter().rev()));
    assert_ne!(Generator::new(2).event(7), one.event(7));
}

#[test]
fn the_shape_is_that_of_the_study() {
    let events = Generator::new(42);
    let rows: Vec<_> = (0..ROWS).map(|index| events.event(index)).collect();
    let ids: BTreeSet<_> = rows.iter().map(|event| event.event_id).collect();
    assert_eq!(ids.len() as u64, ROWS);
    let mut tenants: BTreeMap<&str, u64> = BTreeMap::new();
    for event in &rows {
        *tenants.entry(&event.tenant).or_default() += 1;
    }
    let hottest = tenants.values().max().copied().unwrap_or(0) as f64 / ROWS as f64;
    assert!((0.23..0.27).contains(&hottest), "{hottest}");
    assert_eq!(tenants[events.tenant(0)] as f64 / ROWS as f64, hottest);
    let actions: BTreeSet<_> = rows.iter().map(|event| &event.action).collect();
    assert_eq!(actions.len(), 60);
    let agents: BTreeSet<_> = rows.iter().map(|event| &event.user_agent).collect();
    assert_eq!(agents.len(), 300);
    let disorder = rows.windows(2).filter(|pair| pair[0].time > pair[1].time).count();
    assert!(disorder > 0 && disorder < rows.len());
}

#[test]
fn the_denied_succeed_within_five_minutes() {
    let events = Generator::new(42);
    for story in 0..50 {
        let (denied, allowed) = (events.event(story * 64 + 7), events.event(story * 64 + 44));
        assert_eq!(denied.outcome.as_deref(), Some("denied"));
        assert_eq!(allowed.outcome.as_deref(), Some("success"));
        assert_eq!((&denied.tenant, &denied.actor_id), (&allowed.tenant, &allowed.actor_id));
        assert!((allowed.time.0 - denied.time.0).abs() < 300_000_000);
    }
}

#[test]
fn sixteen_queries_ask_about_rows_that_exist() {
    let set = DataSet { rows: ROWS, seed: 42, segment_rows: ROWS };
    let events = Generator::new(set.seed);
    let all = queries(&Parameters::new(&set, &events));
    assert_eq!(all.len(), 16);
    let names: BTreeSet<_> = all.iter().map(|query| query.name).collect();
    assert_eq!(names.len(), 16);
    let actor = events.busiest_actor(10);
    assert!((0..ROWS).any(|index| events.event(index).actor_id.as_ref() == Some(&actor)));
}
