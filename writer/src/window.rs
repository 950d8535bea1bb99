//! What a shard remembers of requests and event ids, so that a retry stores nothing twice.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use arrow_array::RecordBatch;
use sealcast_common::clock::Micros;
use sealcast_common::event::{Event, EventRef, FieldError, Prepared};
use sealcast_common::fault::Corruption;
use sealcast_common::integrity::short_digest;
use sealcast_common::limits::{
    IDEMPOTENCY_EVENTS_MAX, IDEMPOTENCY_KEYS_MAX, IDEMPOTENCY_WINDOW_MICROS,
};
use sealcast_common::segment::columns::EventColumns;
use sealcast_common::segment::{RequestEntry, Row};

/// One valid event of a request, on its way to a shard.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    /// Index in the request.
    pub(crate) index: u32,
    /// The event. Without a stated time, the shard sets `time` to the ingest time.
    pub(crate) event: Event,
    /// It is encoded by whoever read it: the shard has only the position to add.
    pub(crate) prepared: Prepared,
    /// If the client gave the event its id.
    pub(crate) claim: Option<Claim>,
    /// Whether the client stated `time`.
    pub(crate) time_stated: bool,
}

impl Arrival {
    /// What it takes of memory while it waits: its encoding, and about as much for its texts.
    pub(crate) fn memory(&self) -> usize {
        size_of::<Arrival>() + 2 * self.prepared.bytes_max()
    }
}

/// What the client says of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) key: IdKey,
    /// [`EventRef::claim_digest`].
    pub(crate) digest: u64,
}

/// An id belongs to its tenant: two tenants may use the same one.
pub(crate) type IdKey = (u64, [u8; 16]);

/// The map key of an event's id.
pub(crate) fn id_key(tenant: &str, event_id: [u8; 16]) -> IdKey {
    (short_digest("window tenant", tenant.as_bytes()), event_id)
}

/// Accepted events by their ids.
pub(crate) type Ids = HashMap<IdKey, Remembered>;

/// What is kept of an accepted event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Remembered {
    pub(crate) claim: u64,
    pub(crate) time: Micros,
    pub(crate) seq: u64,
    pub(crate) at: Micros,
}

impl Remembered {
    fn of(event: &EventRef<'_>, seq: u64, at: Micros) -> (IdKey, Remembered) {
        let claim = event.claim_digest();
        (id_key(event.tenant, event.event_id), Remembered { claim, time: event.time, seq, at })
    }
}

/// The bounded memory of one shard: 24 hours, a million ids, a million request keys.
#[derive(Debug, Default)]
pub(crate) struct Window {
    ids: Ids,
    ids_by_age: VecDeque<(Micros, IdKey)>,
    requests: HashMap<String, Arc<RequestEntry>>,
    requests_by_age: VecDeque<Arc<RequestEntry>>,
    request_events: usize,
}

impl Window {
    /// The remembered answer to a request key.
    pub(crate) fn request(&self, key: &str) -> Option<&Arc<RequestEntry>> {
        self.requests.get(key)
    }

    /// Ids that are remembered.
    pub(crate) fn ids_len(&self) -> usize {
        self.ids.len()
    }

    /// Remembers an accepted event; a second one with its id is never accepted while it is here.
    pub(crate) fn insert_id(&mut self, key: IdKey, remembered: Remembered) {
        if let Entry::Vacant(entry) = self.ids.entry(key) {
            entry.insert(remembered);
            self.ids_by_age.push_back((remembered.at, key));
        }
    }

    /// Remembers an answered request.
    pub(crate) fn insert_request(&mut self, entry: RequestEntry) {
        if let Entry::Vacant(vacant) = self.requests.entry(entry.key.clone()) {
            let entry = Arc::new(entry);
            self.request_events += entry.events.len();
            self.requests_by_age.push_back(Arc::clone(&entry));
            vacant.insert(entry);
        }
    }

    /// Remembers the rows of a recovered tail.
    pub(crate) fn insert_rows(&mut self, rows: &[Row]) {
        for row in rows {
            let (key, remembered) = Remembered::of(&row.event.as_ref(), row.seq, row.ingested_at);
            self.insert_id(key, remembered);
        }
    }

    /// Forgets what is too old or too much.
    pub(crate) fn evict(&mut self, now: Micros) {
        let oldest = Micros(now.0.saturating_sub(IDEMPOTENCY_WINDOW_MICROS));
        while let Some((at, key)) = self.ids_by_age.front()
            && (*at < oldest || self.ids_by_age.len() > IDEMPOTENCY_KEYS_MAX)
        {
            self.ids.remove(key);
            self.ids_by_age.pop_front();
        }
        while let Some(entry) = self.requests_by_age.front()
            && (entry.at < oldest
                || self.requests_by_age.len() > IDEMPOTENCY_KEYS_MAX
                || self.request_events > IDEMPOTENCY_EVENTS_MAX)
        {
            self.request_events -= entry.events.len();
            self.requests.remove(&entry.key);
            self.requests_by_age.pop_front();
        }
    }
}

/// Ids of a sealed segment's rows, in the order of their seqs.
pub(crate) fn ids_of(batches: &[RecordBatch]) -> Result<Vec<(IdKey, Remembered)>, Corruption> {
    let mut ids = Vec::new();
    for batch in batches {
        let columns = EventColumns::new(batch)?;
        ids.extend((0..columns.rows()).map(|row| {
            Remembered::of(&columns.event(row), columns.seq(row), columns.ingested_at(row))
        }));
    }
    ids.sort_unstable_by_key(|(_, remembered)| remembered.seq);
    Ok(ids)
}

/// What to do with an arriving event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Store it.
    New,
    /// It is stored, as this seq.
    Repeat(u64),
    /// Its id belongs to another event.
    Reused(FieldError),
}

/// Judges the events of one request against everything that is remembered, and each other.
#[derive(Debug)]
pub(crate) struct Judge<'w> {
    window: &'w Window,
    staged: &'w Ids,
    /// The request's own new ids.
    pub(crate) own: Ids,
}

impl<'w> Judge<'w> {
    /// `staged` are ids of the same group that are not in the window yet.
    pub(crate) fn new(window: &'w Window, staged: &'w Ids) -> Self {
        Judge { window, staged, own: Ids::default() }
    }

    /// `seq` and `at` are what the event gets if it is new.
    pub(crate) fn verdict(&mut self, arrival: &Arrival, seq: u64, at: Micros) -> Verdict {
        let Some(Claim { key, digest: claim }) = arrival.claim else { return Verdict::New };
        let event = &arrival.event;
        let time = if arrival.time_stated { event.time } else { at };
        let known = self.window.ids.get(&key);
        let known = known.or_else(|| self.staged.get(&key)).or_else(|| self.own.get(&key));
        let Some(known) = known else {
            self.own.insert(key, Remembered { claim, time, seq, at });
            return Verdict::New;
        };
        if known.claim == claim && (!arrival.time_stated || known.time == time) {
            return Verdict::Repeat(known.seq);
        }
        let found = if known.claim == claim { "another time" } else { "other content" };
        let id = uuid::Uuid::from_bytes(event.event_id);
        Verdict::Reused(FieldError::new(
            "event_id_reused",
            "event_id",
            format!("{id} with {found}"),
            "an id of its own, or exactly the event that was accepted under it",
        ))
    }

    /// The events of a request that would be refused.
    pub(crate) fn refusals(mut self, arrivals: &[Arrival]) -> Vec<(u32, FieldError)> {
        let refused = arrivals.iter().filter_map(|arrival| {
            match self.verdict(arrival, u64::MAX, arrival.event.time) {
                Verdict::Reused(error) => Some((arrival.index, error)),
                Verdict::New | Verdict::Repeat(_) => None,
            }
        });
        refused.collect()
    }
}
