//! The store: acme's events, and with others among them.

use sealcast_common::clock::Micros;
use sealcast_common::event::{Event, Target};

use crate::tests::kit::{Bucket, EPOCH, event_id};

/// Acme's rows in a segment.
pub(in crate::tests) const OWN_ROWS: u64 = 60;
/// Others' rows beside them.
const OTHER_ROWS: u64 = 200;
/// In every text of every other tenant; acme's callers may never meet it.
pub(in crate::tests) const MARK: &str = "zzmark";

/// An event whose every column is either acme's, harmless in any expression, or another tenant's,
/// marked and made to fail: no number where acme has one, zero, no pattern, out of range.
pub(in crate::tests) fn event(shard: u16, seq: u64, tenant: &str) -> Event {
    let own = tenant == "acme";
    let text = |own_text: String| if own { own_text } else { format!("{MARK}-({seq}") };
    let n = seq % 7;
    Event {
        event_id: *event_id(shard, seq).as_bytes(),
        tenant: tenant.into(),
        time: Micros(EPOCH + if own { seq as i64 } else { 500_000 - seq as i64 } * 1_000_000),
        action: text(format!("{n}")),
        category: Some(text(format!("1{n}"))),
        actor_type: Some(text("user".into())),
        actor_id: Some(text(format!("{}", seq % 10))),
        actor_name: Some(text(format!("2026-01-0{}", n + 1))),
        targets: vec![Target {
            kind: Some(text("file".into())),
            id: Some(text(format!("{seq}"))),
            name: Some(text("name".into())),
        }],
        outcome: Some(if own { "success" } else { "denied" }.into()),
        outcome_reason: Some(text("0".into())),
        severity: Some(if own { n as u8 + 1 } else { 13 }),
        source_ip: Some(if own { "10.0.0.1" } else { "203.0.113.99" }.into()),
        user_agent: Some(text("agent".into())),
        service: Some(text("service".into())),
        request_id: Some(text(format!("r{seq}"))),
        session_id: Some(text(format!("s{n}"))),
        trace_id: Some(text(format!("t{seq}"))),
        message: Some(text(format!("message {seq}"))),
        attributes: Some(match own {
            true => format!(r#"{{"n":{seq},"k":"v{n}"}}"#),
            false => format!(r#"{{"{MARK}":"{MARK}{seq}","k":"{MARK}","n":"{MARK}"}}"#),
        }),
    }
}

/// Acme's events in two shards; if `crowded`, with those of a tenant before it in order and of one
/// after it in the same segments, and segments of the others alone. Acme's places are the same.
pub(in crate::tests) async fn filled(crowded: bool) -> Bucket {
    let mut bucket = Bucket::new().await;
    for shard in 0..2 {
        let own = (0..OWN_ROWS).map(|seq| event(shard, seq, "acme"));
        let others = (OWN_ROWS..OWN_ROWS + OTHER_ROWS)
            .map(|seq| event(shard, seq, ["aaa", "globex"][(seq % 2) as usize]));
        let others = others.take(if crowded { OTHER_ROWS as usize } else { 0 });
        bucket.ship(shard, own.chain(others).collect()).await;
    }
    if crowded {
        let first = bucket.size(0);
        let others = (first..first + 50).map(|seq| event(0, seq, "globex"));
        bucket.ship(0, others.collect()).await;
    }
    bucket
}
