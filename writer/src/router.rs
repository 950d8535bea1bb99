//! From tenants to shards: judges a request as a whole, takes a place in every shard's queue that
//! it needs, and only then sends; answers when all of them have synced.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::future::join_all;
use sealcast_common::event::FieldError;
use sealcast_common::routing::Ring;
use sealcast_common::wire::Vector;

use crate::handle::{AppendError, Busy, FlushAnswer, ShardHandle};
use crate::shard::read;
use crate::stage::{Append, Appended, Placed, Refused, RequestKey};
use crate::window::{Arrival, Judge};

/// One request, read and valid.
#[derive(Debug)]
pub(crate) struct Submission {
    pub(crate) arrivals: Vec<Arrival>,
    pub(crate) request: Option<RequestKey>,
    pub(crate) partial: bool,
}

/// What became of it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Stored {
    /// In the order of the request.
    pub(crate) placed: Vec<(u16, Placed)>,
    pub(crate) duplicates: usize,
    pub(crate) refused: Vec<(u32, FieldError)>,
}

/// Why a request was not stored, or not as a whole.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SubmitError {
    /// Nothing was written.
    #[error(transparent)]
    Busy(Busy),
    /// Nothing was written.
    #[error(transparent)]
    Refused(Refused),
    /// Refused for good by some shards, stored by the others: a race with another request.
    #[error(transparent)]
    RefusedInPart(Refused),
    /// Some shards may have stored their part, these have not said so.
    #[error("{}", list(.0))]
    Failed(Vec<(u16, AppendError)>),
}

impl SubmitError {
    /// The same for a caller who may not see all tenants: no names of files, nothing that a check
    /// has found.
    pub(crate) fn concealed(mut self) -> Self {
        match &mut self {
            SubmitError::Busy(Busy::Faulty(_, fault)) => *fault = fault.concealed(),
            SubmitError::Failed(failed) => {
                for (_, error) in failed {
                    if let AppendError::Faulty(fault) = error {
                        *fault = fault.concealed();
                    }
                }
            }
            _ => {}
        }
        self
    }
}

fn list(failed: &[(u16, AppendError)]) -> String {
    let all: Vec<String> =
        failed.iter().map(|(shard, error)| format!("{shard}: {error}")).collect();
    all.join("; ")
}

/// The node's shards and the ring that spreads tenants over them.
#[derive(Debug)]
pub(crate) struct Router {
    ring: Ring,
    shards: BTreeMap<u16, ShardHandle>,
    keys: KeysInFlight,
}

impl Router {
    pub(crate) fn new(cluster: &str, shards: Vec<ShardHandle>) -> Self {
        let ring = Ring::new(cluster, shards.iter().map(|handle| handle.shard));
        let shards = shards.into_iter().map(|handle| (handle.shard, handle)).collect();
        Router { ring, shards, keys: KeysInFlight::default() }
    }

    /// All shards, in order.
    pub(crate) fn shards(&self) -> impl Iterator<Item = &ShardHandle> {
        self.shards.values()
    }

    /// Sealed size of every shard.
    pub(crate) fn sealed(&self) -> Vector {
        self.shards().map(|handle| (handle.shard, handle.view.borrow().sealed)).collect()
    }

    /// Stores a request. Every check that can refuse it runs before the first shard gets a part;
    /// what remains is a race of two requests that give one id to two events at the same moment:
    /// then the shard's own judgement counts. Two bodies never travel under one key.
    pub(crate) async fn submit(&self, submission: Submission) -> Result<Stored, SubmitError> {
        let Submission { arrivals, request, partial } = submission;
        let _held = request.as_ref().map(|request| self.hold_key(request)).transpose()?;
        let parts = self.split(arrivals);
        if parts.len() > 1 && !partial {
            check_ids(&parts)?;
        }
        let mut places = Vec::with_capacity(parts.len());
        for (handle, events) in parts {
            let memory = events.iter().map(Arrival::memory).sum();
            places.push((handle.shard, handle.reserve(memory).map_err(SubmitError::Busy)?, events));
        }
        let waiting = places.into_iter().map(|(shard, place, events)| {
            let receiver = place.send(Append { events, request: request.clone(), partial });
            async move { (shard, receiver.await.unwrap_or(Err(AppendError::Stopped))) }
        });
        gather(join_all(waiting).await)
    }

    /// Seals every tail; answers of the shards in order, `None` of one that has stopped.
    pub(crate) async fn flush(&self) -> Vec<(u16, Option<FlushAnswer>)> {
        join_all(self.shards().map(|handle| async { (handle.shard, handle.flush().await) })).await
    }

    /// A key belongs to one body, on whichever shards its events lie.
    fn hold_key(&self, request: &RequestKey) -> Result<KeyHeld<'_>, SubmitError> {
        let reused = SubmitError::Refused(Refused::KeyReused);
        let Some(held) = self.keys.hold(request) else { return Err(reused) };
        let other = self.shards().any(|handle| {
            let window = read(&handle.window);
            let known = window.request(&request.key);
            known.is_some_and(|known| known.body_digest != request.body_digest)
        });
        if other { Err(reused) } else { Ok(held) }
    }

    fn split(&self, arrivals: Vec<Arrival>) -> Vec<(&ShardHandle, Vec<Arrival>)> {
        let mut parts: BTreeMap<u16, Vec<Arrival>> = BTreeMap::new();
        for arrival in arrivals {
            // The ring was made of these shards: a tenant always has one of them.
            if let Some(shard) = self.ring.shard(&arrival.event.tenant) {
                parts.entry(shard).or_default().push(arrival);
            }
        }
        parts
            .into_iter()
            .filter_map(|(shard, events)| Some((self.shards.get(&shard)?, events)))
            .collect()
    }
}

fn check_ids(parts: &[(&ShardHandle, Vec<Arrival>)]) -> Result<(), SubmitError> {
    let mut refused = Vec::new();
    for (handle, events) in parts {
        let window = read(&handle.window);
        refused.extend(Judge::new(&window, &Default::default()).refusals(events));
    }
    if refused.is_empty() {
        return Ok(());
    }
    refused.sort_by_key(|(index, _)| *index);
    Err(SubmitError::Refused(Refused::IdsReused(refused)))
}

fn gather(answers: Vec<(u16, Result<Appended, AppendError>)>) -> Result<Stored, SubmitError> {
    let count = answers.len();
    let (mut stored, mut refused, mut failed) = (Stored::default(), Vec::new(), Vec::new());
    for (shard, answer) in answers {
        match answer {
            Ok(appended) => {
                stored.duplicates += appended.duplicates;
                stored.refused.extend(appended.refused);
                stored.placed.extend(appended.placed.into_iter().map(|placed| (shard, placed)));
            }
            Err(AppendError::Refused(reason)) => refused.push(reason),
            Err(error) => failed.push((shard, error)),
        }
    }
    // Whatever the others say: a retry of what is refused for good is refused again.
    let all = refused.len() == count;
    if let Some(reason) = refused.into_iter().reduce(Refused::and) {
        let refused = if all { SubmitError::Refused } else { SubmitError::RefusedInPart };
        return Err(refused(reason));
    }
    if !failed.is_empty() {
        return Err(SubmitError::Failed(failed));
    }
    stored.placed.sort_by_key(|(_, placed)| placed.index);
    stored.refused.sort_by_key(|(index, _)| *index);
    Ok(stored)
}

/// Keys of requests that are on their way, with their bodies' digests.
#[derive(Debug, Default)]
struct KeysInFlight(Mutex<HashMap<String, ([u8; 32], usize)>>);

/// One request's hold on its key.
struct KeyHeld<'k> {
    keys: &'k KeysInFlight,
    key: String,
}

impl KeysInFlight {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, ([u8; 32], usize)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None`: another body travels under this key right now.
    fn hold(&self, request: &RequestKey) -> Option<KeyHeld<'_>> {
        let mut keys = self.lock();
        let known = keys.entry(request.key.clone()).or_insert((request.body_digest, 0));
        if known.0 != request.body_digest {
            return None;
        }
        known.1 += 1;
        Some(KeyHeld { keys: self, key: request.key.clone() })
    }
}

impl Drop for KeyHeld<'_> {
    fn drop(&mut self) {
        let mut keys = self.keys.lock();
        if let Some((_, count)) = keys.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                keys.remove(&self.key);
            }
        }
    }
}
