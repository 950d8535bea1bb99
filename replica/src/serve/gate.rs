//! Whose turn it is: bounds what runs and what waits, on the node and per caller.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use sealcast_common::fault::Kind;
use sealcast_common::serve::Problem;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::error::limited;
use crate::config::Config;
use crate::metrics;

/// Callers that are remembered before those who are gone are forgotten.
const CALLERS_KEPT: usize = 1_024;

/// Turns to run, and places for those who wait for one.
#[derive(Debug)]
struct Lanes {
    turns: Arc<Semaphore>,
    places: Arc<Semaphore>,
}

impl Lanes {
    fn new(concurrent: usize, queued: usize) -> Self {
        let places = concurrent.saturating_add(queued).min(Semaphore::MAX_PERMITS);
        Lanes {
            turns: Arc::new(Semaphore::new(concurrent.min(Semaphore::MAX_PERMITS))),
            places: Arc::new(Semaphore::new(places)),
        }
    }
}

/// The node's own lanes, and those of each caller.
#[derive(Debug)]
pub(crate) struct Gate {
    node: Lanes,
    callers: Mutex<HashMap<String, Weak<Lanes>>>,
    wait: Duration,
    max_concurrent: usize,
    max_queued: usize,
    token_concurrent: usize,
    token_queued: usize,
}

/// The right to wait for a turn.
#[derive(Debug)]
pub(crate) struct Place {
    _permits: [OwnedSemaphorePermit; 2],
    /// Its semaphores live as long as anybody runs or waits.
    caller: Arc<Lanes>,
}

/// The right to run one query; dropping it is the next one's turn.
#[derive(Debug)]
pub(crate) struct Turn {
    _permits: [OwnedSemaphorePermit; 2],
    _place: Place,
}

impl Gate {
    pub(crate) fn new(config: &Config) -> Self {
        Gate {
            node: Lanes::new(config.max_concurrent, config.max_queued),
            callers: Mutex::default(),
            wait: Duration::from_millis(config.queue_ms),
            max_concurrent: config.max_concurrent,
            max_queued: config.max_queued,
            token_concurrent: config.token_concurrent,
            token_queued: config.token_queued,
        }
    }

    /// A place of `caller`, if there is one.
    pub(crate) fn place(&self, caller: &str) -> Result<Place, Problem> {
        let lanes = self.lanes(caller);
        let own = Arc::clone(&lanes.places).try_acquire_owned();
        let own =
            own.map_err(|_| full("queue of this token", "token_queued", self.token_queued))?;
        let place = Arc::clone(&self.node.places).try_acquire_owned();
        let place = place.map_err(|_| full("queue of queries", "max_queued", self.max_queued))?;
        Ok(Place { _permits: [own, place], caller: lanes })
    }

    /// Waits for the turn of `place`. The caller's own one comes before the node's: one caller's
    /// queue keeps nobody else waiting.
    pub(crate) async fn turn(&self, place: Place) -> Result<Turn, Problem> {
        let _waiting = metrics::Queued::new();
        let lanes = &place.caller;
        let mut late = ("token_concurrent", self.token_concurrent);
        let turns = async {
            let first = Arc::clone(&lanes.turns).acquire_owned().await;
            late = ("max_concurrent", self.max_concurrent);
            Some((first.ok()?, Arc::clone(&self.node.turns).acquire_owned().await.ok()?))
        };
        match tokio::time::timeout(self.wait, turns).await {
            Ok(Some((first, second))) => Ok(Turn { _permits: [first, second], _place: place }),
            _ => Err(self.too_late(late)),
        }
    }

    fn lanes(&self, caller: &str) -> Arc<Lanes> {
        let mut callers = self.callers.lock();
        if let Some(lanes) = callers.get(caller).and_then(Weak::upgrade) {
            return lanes;
        }
        if callers.len() >= CALLERS_KEPT {
            callers.retain(|_, lanes| lanes.strong_count() > 0);
        }
        let lanes = Arc::new(Lanes::new(self.token_concurrent, self.token_queued));
        callers.insert(caller.to_owned(), Arc::downgrade(&lanes));
        lanes
    }

    fn too_late(&self, (setting, limit): (&'static str, usize)) -> Problem {
        let wait_ms = self.wait.as_millis();
        let detail =
            format!("query had no turn within {wait_ms} ms (queue_ms): {limit} run at one time");
        limited(refused(detail), setting, limit as u64)
            .hint(format!("retry later, or raise {setting} or queue_ms of the replica"))
    }
}

fn refused(detail: String) -> Problem {
    Problem::new(Kind::Overloaded, "too_many_queries", detail).retry_after(1)
}

fn full(what: &str, setting: &'static str, limit: usize) -> Problem {
    let detail = format!("{what} is full: {limit} wait already");
    limited(refused(detail), setting, limit as u64)
        .hint(format!("retry later, or raise {setting} of the replica"))
}
