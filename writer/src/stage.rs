//! One group of requests on its way into the tail: judged, numbered, encoded; not yet durable.

use std::collections::HashSet;

use sealcast_common::cbor::Writer;
use sealcast_common::clock::Micros;
use sealcast_common::event::{FieldError, Position, leaf_of};
use sealcast_common::fault::Corruption;
use sealcast_common::integrity::Hash;
use sealcast_common::routing::FIRST_ROUTING_VERSION;
use sealcast_common::segment::{RequestEntry, Row};
use sealcast_common::wal::Frame;

use crate::window::{Arrival, Ids, Judge, Verdict, Window};

/// A request's `Idempotency-Key` and what it stands for.
#[derive(Clone, Debug)]
pub(crate) struct RequestKey {
    pub(crate) key: String,
    pub(crate) body_digest: [u8; 32],
}

/// One request's events for one shard.
#[derive(Clone, Debug)]
pub(crate) struct Append {
    pub(crate) events: Vec<Arrival>,
    pub(crate) request: Option<RequestKey>,
    /// Accept the good events even if others are refused.
    pub(crate) partial: bool,
}

/// Where an event of the request stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) index: u32,
    pub(crate) event_id: [u8; 16],
    pub(crate) seq: u64,
}

/// The answer to an [`Append`], given once its group is durable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Appended {
    pub(crate) placed: Vec<Placed>,
    /// How many of them had been stored before.
    pub(crate) duplicates: usize,
    pub(crate) refused: Vec<(u32, FieldError)>,
}

/// Why one request is refused, while the others of its group go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    #[error("request carries event ids of other events")]
    IdsReused(Vec<(u32, FieldError)>),
    #[error("request carries the idempotency key of another body")]
    KeyReused,
    #[error("request cannot be encoded: {0}")]
    Encode(Corruption),
}

impl Refused {
    /// Two shards' refusals of one request as one: of ids, all of them.
    pub(crate) fn and(self, other: Refused) -> Refused {
        match (self, other) {
            (Refused::IdsReused(mut all), Refused::IdsReused(more)) => {
                all.extend(more);
                all.sort_by_key(|(index, _)| *index);
                Refused::IdsReused(all)
            }
            (first, _) => first,
        }
    }
}

/// Everything that a group adds to the tail at once.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// The log's next frame, with a batch for each request; empty if there is nothing to keep.
    pub(crate) frame: Vec<u8>,
    pub(crate) rows: Vec<Row>,
    pub(crate) leaves: Vec<Hash>,
    pub(crate) requests: Vec<RequestEntry>,
    pub(crate) ids: Ids,
}

/// A group under construction.
#[derive(Debug)]
pub(crate) struct Group<'w> {
    window: &'w Window,
    log_id: [u8; 16],
    next_seq: u64,
    ingested_at: Micros,
    /// Whether a request that stores nothing may still record its key.
    keys_of_repeats: bool,
    frame: Frame,
    batch: Batch,
}

/// One request under construction: dropped if it is refused.
#[derive(Debug, Default)]
struct Draft {
    /// Each as a byte string, as the frame holds them.
    events: Writer,
    /// One event at a time.
    scratch: Vec<u8>,
    rows: Vec<Row>,
    leaves: Vec<Hash>,
    fresh: Vec<Placed>,
    repeated: Vec<Placed>,
    refused: Vec<(u32, FieldError)>,
}

impl<'w> Group<'w> {
    /// A group whose first event gets `next_seq`; all of it gets the ingest time `ingested_at`.
    pub(crate) fn new(
        window: &'w Window,
        log_id: [u8; 16],
        next_seq: u64,
        ingested_at: Micros,
        keys_of_repeats: bool,
    ) -> Self {
        let (frame, batch) = (Frame::default(), Batch::default());
        Group { window, log_id, next_seq, ingested_at, keys_of_repeats, frame, batch }
    }

    /// Stages one request as a whole, or nothing of it.
    pub(crate) fn add(&mut self, append: Append) -> Result<Appended, Refused> {
        if let Some(request) = &append.request
            && let Some(known) = self.known_request(&request.key)
        {
            if known.body_digest == request.body_digest {
                return Ok(self.replayed(known, &append.events));
            }
            return Err(Refused::KeyReused);
        }
        let mut judge = Judge::new(self.window, &self.batch.ids);
        let mut draft = Draft::default();
        for arrival in append.events {
            let seq = self.next_seq + draft.rows.len() as u64;
            let (index, event_id) = (arrival.index, arrival.event.event_id);
            match judge.verdict(&arrival, seq, self.ingested_at) {
                Verdict::New => {
                    let position =
                        Position { log_id: self.log_id, seq, ingested_at: self.ingested_at };
                    draft.take(arrival, &position).map_err(Refused::Encode)?;
                    draft.fresh.push(Placed { index, event_id, seq });
                }
                Verdict::Repeat(seq) => draft.repeated.push(Placed { index, event_id, seq }),
                Verdict::Reused(error) => draft.refused.push((index, error)),
            }
        }
        if !append.partial && !draft.refused.is_empty() {
            return Err(Refused::IdsReused(draft.refused));
        }
        let own = judge.own;
        self.keep(draft, append.request, own).map_err(Refused::Encode)
    }

    /// What the group adds.
    pub(crate) fn finish(self) -> Batch {
        Batch { frame: self.frame.finish(), ..self.batch }
    }

    /// The first answer again. An event that it does not list was refused then (`partial`), and is
    /// refused now.
    fn replayed(&self, entry: &RequestEntry, events: &[Arrival]) -> Appended {
        let listed: HashSet<u32> = entry.events.iter().map(|(index, ..)| *index).collect();
        let mut judge = Judge::new(self.window, &self.batch.ids);
        let refused = events.iter().filter(|arrival| !listed.contains(&arrival.index)).map(|a| {
            let error = match judge.verdict(a, u64::MAX, self.ingested_at) {
                Verdict::Reused(error) => error,
                Verdict::New | Verdict::Repeat(_) => FieldError::new(
                    "refused_before",
                    "event",
                    "an event that this request was answered without",
                    "a new Idempotency-Key to send it again",
                ),
            };
            (a.index, error)
        });
        Appended { refused: refused.collect(), ..first_answer(entry) }
    }

    fn known_request(&self, key: &str) -> Option<&RequestEntry> {
        let staged = self.batch.requests.iter().find(|entry| entry.key == key);
        staged.or_else(|| self.window.request(key).map(AsRef::as_ref))
    }

    fn keep(
        &mut self,
        draft: Draft,
        request: Option<RequestKey>,
        own: Ids,
    ) -> Result<Appended, Corruption> {
        let duplicates = draft.repeated.len();
        let mut placed = draft.fresh;
        let rows = placed.len();
        placed.extend(draft.repeated);
        // Also a key whose events are all repeats is recorded: it stands for this body from now on.
        let request = request
            .filter(|_| rows > 0 || (self.keys_of_repeats && !placed.is_empty()))
            .map(|request| self.entry(request, &placed, rows == 0));
        if rows > 0 || request.is_some() {
            let (version, events) = (FIRST_ROUTING_VERSION, draft.events.finish());
            self.frame.add(version, request.as_ref(), rows, &events)?;
            self.batch.requests.extend(request);
            self.batch.rows.extend(draft.rows);
            self.batch.leaves.extend(draft.leaves);
            self.batch.ids.extend(own);
            self.next_seq += rows as u64;
        }
        Ok(Appended { placed, duplicates, refused: draft.refused })
    }

    /// New rows first, repeated ones after them: [`first_answer`] tells them apart again.
    fn entry(&self, request: RequestKey, placed: &[Placed], stored_none: bool) -> RequestEntry {
        let mark = stored_none.then_some((RequestEntry::NO_ROWS, self.log_id, u64::MAX));
        let events = placed.iter().map(|p| (p.index, p.event_id, p.seq));
        RequestEntry {
            key: request.key,
            body_digest: request.body_digest,
            at: self.ingested_at,
            events: mark.into_iter().chain(events).collect(),
        }
    }
}

impl Draft {
    fn take(&mut self, arrival: Arrival, position: &Position) -> Result<(), Corruption> {
        let mut event = arrival.event;
        if !arrival.time_stated {
            event.time = position.ingested_at;
        }
        self.scratch.clear();
        arrival.prepared.write(event.time, position, &mut self.scratch);
        let leaf = leaf_of(&self.scratch, &event.as_ref(), position).map_err(|error| {
            Corruption::new("encode", None, "canonical attributes", error.to_string())
        })?;
        self.leaves.push(leaf);
        self.rows.push(Row { event, seq: position.seq, ingested_at: position.ingested_at });
        self.events.bytes(&self.scratch);
        Ok(())
    }
}

/// What a request was answered. New rows had consecutive seqs, and a repeated event never has the next
/// one, so the first run is what the request stored.
fn first_answer(entry: &RequestEntry) -> Appended {
    let stored_none = entry.stored_none().is_some();
    let placed: Vec<Placed> = entry
        .events
        .iter()
        .skip(usize::from(stored_none))
        .map(|(index, event_id, seq)| Placed { index: *index, event_id: *event_id, seq: *seq })
        .collect();
    let run = placed.windows(2).take_while(|pair| pair[1].seq == pair[0].seq + 1).count();
    let fresh = if stored_none || placed.is_empty() { 0 } else { run + 1 };
    Appended { duplicates: placed.len() - fresh, placed, refused: Vec::new() }
}
