//! Cancellation: a connection's key stops what that connection runs, on this replica alone.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use parking_lot::Mutex;
use sealcast_common::clock::Random;
use sealcast_common::serve::access::Grant;
use uuid::Uuid;

use crate::queries::Queries;

/// What a connection runs, and in whose name.
#[derive(Debug)]
struct Running {
    secret: i32,
    query: Option<Uuid>,
    grant: Arc<Grant>,
}

/// The keys of all connections, by their public half.
#[derive(Debug, Default)]
pub(super) struct Keys(Mutex<HashMap<i32, Running>>);

/// A connection's key; gone with the connection.
#[derive(Debug)]
pub(super) struct Key {
    keys: Arc<Keys>,
    pub(super) process: i32,
    pub(super) secret: i32,
}

impl Keys {
    /// A fresh key of a connection of `grant`'s owner.
    pub(super) fn fresh(self: &Arc<Self>, random: &dyn Random, grant: &Arc<Grant>) -> Key {
        let mut all = self.0.lock();
        loop {
            let mut bytes = [0; 8];
            random.fill(&mut bytes);
            let [a, b, c, d, e, f, g, h] = bytes;
            let process = i32::from_be_bytes([a, b, c, d]) & i32::MAX;
            let secret = i32::from_be_bytes([e, f, g, h]);
            if let Entry::Vacant(free) = all.entry(process) {
                free.insert(Running { secret, query: None, grant: Arc::clone(grant) });
                return Key { keys: Arc::clone(self), process, secret };
            }
        }
    }

    /// Stops what the connection with this key runs. Nobody is told whether there is one.
    pub(super) fn cancel(&self, process: i32, secret: i32, queries: &Queries) {
        let all = self.0.lock();
        let found = all.get(&process).filter(|running| running.secret == secret);
        if let Some(Running { query: Some(id), grant, .. }) = found {
            let _told = queries.cancel(*id, grant);
        }
    }
}

impl Key {
    /// What the connection runs from now on.
    pub(super) fn runs(&self, query: Uuid) {
        if let Some(running) = self.keys.0.lock().get_mut(&self.process) {
            running.query = Some(query);
        }
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        self.keys.0.lock().remove(&self.process);
    }
}
