//! Rows as JSON: the names that events are sent with, without what is null.

use sealcast_common::event::{EventRef, TargetRef};
use sealcast_common::fault::Corruption;
use sealcast_common::segment::columns::EventColumns;
use uuid::Uuid;

use super::place::Place;
use super::walk::Picked;

/// The columns of batches that were met before: neighbours are often of the same few.
type Known<'a> = Vec<((usize, usize), EventColumns<'a>)>;

/// Batches whose columns are kept at hand.
const KNOWN_MAX: usize = 32;

/// Appends `row` to `out`; gives its place.
pub(super) fn event<'a>(
    row: &'a Picked,
    known: &mut Known<'a>,
    out: &mut Vec<u8>,
) -> Result<Place, Corruption> {
    let (batch, at) = row.open.locate(row.row);
    let key = (std::sync::Arc::as_ptr(&row.open.segment) as usize, batch);
    let found = known.iter().position(|(of, _)| *of == key);
    let index = match found {
        Some(index) => index,
        None => {
            let gone = || Corruption::new("schema", None, "a batch of the row", "none");
            let rows = row.open.segment.batches().get(batch).ok_or_else(gone)?;
            if known.len() == KNOWN_MAX {
                known.remove(0);
            }
            known.push((key, EventColumns::new(rows)?));
            known.len() - 1
        }
    };
    let Some((_, columns)) = known.get(index) else {
        return Err(Corruption::new("schema", None, "columns", "none"));
    };
    let event = columns.event(at);
    let (shard, seq) = (columns.shard(at), columns.seq(at));
    let mut object = Object { out, first: true };
    object.fields(&event);
    object.text("ingested_at", Some(&columns.ingested_at(at).to_rfc3339()));
    object.number("_shard", Some(shard.into()));
    object.number("_seq", Some(seq));
    object.end();
    Ok(Place { time: event.time.0, event_id: event.event_id, shard, seq })
}

struct Object<'a> {
    out: &'a mut Vec<u8>,
    first: bool,
}

fn write_text(out: &mut Vec<u8>, text: &str) {
    // A vector takes everything.
    let _infallible = serde_json::to_writer(out, text);
}

impl Object<'_> {
    fn name(&mut self, name: &str) {
        self.out.push(if std::mem::replace(&mut self.first, false) { b'{' } else { b',' });
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
    }

    fn text(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.name(name);
            write_text(self.out, value);
        }
    }

    fn number(&mut self, name: &str, value: Option<u64>) {
        if let Some(value) = value {
            self.name(name);
            self.out.extend_from_slice(value.to_string().as_bytes());
        }
    }

    fn end(self) {
        self.out.extend_from_slice(if self.first { b"{}" } else { b"}" });
    }

    fn fields(&mut self, event: &EventRef<'_>) {
        self.text("event_id", Some(&Uuid::from_bytes(event.event_id).to_string()));
        self.text("tenant", Some(event.tenant));
        self.text("time", Some(&event.time.to_rfc3339()));
        self.text("action", Some(event.action));
        self.text("category", event.category);
        self.text("actor_type", event.actor_type);
        self.text("actor_id", event.actor_id);
        self.text("actor_name", event.actor_name);
        self.targets(&event.targets);
        self.text("outcome", event.outcome);
        self.text("outcome_reason", event.outcome_reason);
        self.number("severity", event.severity.map(u64::from));
        self.text("source_ip", event.source_ip);
        self.text("user_agent", event.user_agent);
        self.text("service", event.service);
        self.text("request_id", event.request_id);
        self.text("session_id", event.session_id);
        self.text("trace_id", event.trace_id);
        self.text("message", event.message);
        if let Some(attributes) = event.attributes {
            // It is canonical JSON already.
            self.name("attributes");
            self.out.extend_from_slice(attributes.as_bytes());
        }
    }

    fn targets(&mut self, targets: &[TargetRef<'_>]) {
        if targets.is_empty() {
            return;
        }
        self.name("targets");
        for (at, target) in targets.iter().enumerate() {
            self.out.push(if at == 0 { b'[' } else { b',' });
            let mut object = Object { out: self.out, first: true };
            object.text("type", target.kind);
            object.text("id", target.id);
            object.text("name", target.name);
            object.end();
        }
        self.out.push(b']');
    }
}
