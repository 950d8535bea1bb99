//! Follows one stream: `GET log/<n+1>`, fold, fetch what it adds, publish what has settled.
//!
//! The log is the truth, so every step is level-triggered: it looks at what the store has and does
//! what is missing. Nothing after a record that cannot be read or breaks the lineage is applied,
//! and nothing at all if the log is not the one that was seen before; both are looked at again, as
//! the store may heal, while everything admitted goes on being served.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::FuturesOrdered;
use sealcast_common::catalog::names::commit_key;
use sealcast_common::catalog::{Catalog, CommitRecord};
use sealcast_common::fault::{Corruption, hex};
use sealcast_common::integrity::file_hash;
use sealcast_common::limits::{COMMIT_BYTES_MAX, SNAPSHOT_EVERY};
use sealcast_common::trust::Trust;
use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::boot::{Trouble, boot, get};
use crate::error::OpenError;
use crate::position::{Position, StreamFiles};
use crate::publish::{Advance, Core};
use crate::snapshot::SegmentEntry;
use crate::status::{Board, Lag};

/// Commits being fetched at the same time; more wait in the store.
const SETTLING_MAX: usize = 64;
/// Records asked for at once while catching up.
const WINDOW_MAX: u64 = 32;
/// Between two looks at our own position, a store that was emptied or put back passes for one
/// that has nothing new. Shorter than any staleness that is tolerated.
const RECHECK_EVERY: Duration = Duration::from_secs(25);
/// While hints arrive: the shipper that sends them looks at its last commit every minute itself.
/// With [`Follower::hinted_wait`] this stays below 2,880 requests a day.
const RECHECK_HINTED: Duration = Duration::from_secs(300);
/// … and so many idle probes at most.
const RECHECK_PROBES: u32 = 16;
/// Attempts to fetch a new segment before the commit is published without it.
const SETTLE_TRIES: u32 = 5;

/// The task of one stream.
pub(crate) struct Follower {
    core: Arc<Core>,
    stream: String,
    board: Arc<Board>,
    local: StreamFiles,
    catalog: Option<Catalog>,
    /// The catalog as published during boot: where a boot that has met a fork starts again.
    base: Option<Catalog>,
    /// The farthest commit of earlier runs, until the end of boot.
    seen: Option<Position>,
    /// Entries of boot that no snapshot shows yet.
    unpublished: Vec<Arc<SegmentEntry>>,
    /// The last applied record, until the position is saved.
    unsaved: Option<Bytes>,
    saved_seq: u64,
    settling: FuturesOrdered<JoinHandle<Option<Advance>>>,
    forked: bool,
    window: u64,
    idle_probes: u32,
    /// When our position was last seen in the log (monotonic).
    confirmed_at: Option<Duration>,
    pace: Duration,
}

impl Follower {
    pub(crate) fn new(core: Arc<Core>, stream: &str, seen: Option<Position>) -> Self {
        let catalog = core.take_local(stream);
        Follower {
            stream: stream.to_owned(),
            board: core.board(stream),
            local: core.stream_files(stream),
            saved_seq: catalog.as_ref().map_or(0, |catalog| catalog.seq),
            base: catalog.clone(),
            catalog,
            seen,
            unpublished: Vec::new(),
            unsaved: None,
            settling: FuturesOrdered::new(),
            forked: false,
            window: 1,
            idle_probes: 0,
            confirmed_at: None,
            pace: Duration::from_millis(core.config.poll_min_ms),
            core,
        }
    }

    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let mut timer = Box::pin(tokio::time::sleep(Duration::ZERO));
        let board = Arc::clone(&self.board);
        loop {
            let has_room = self.settling.len() < SETTLING_MAX;
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(settled) = self.settling.next(), if !self.settling.is_empty() => {
                    self.advance(settled);
                    continue;
                }
                () = board.hinted.notified(), if has_room => {}
                () = &mut timer, if has_room => {}
            }
            let Some(wait) = self.turn(&stop).await else { break };
            timer.set(tokio::time::sleep(wait));
        }
        if self.board.notes.lock().booted && self.last().0 != self.saved_seq {
            self.save_catalog();
        }
        self.core.guard.save(true);
    }

    /// One look at the log; answers how long to wait until the next, `None` when stopped.
    pub(crate) async fn turn(&mut self, stop: &CancellationToken) -> Option<Duration> {
        let stepped = stop.run_until_cancelled(self.step(stop)).await?;
        Some(self.conclude(stepped))
    }

    /// See [`Follower::turn`]. True: its end was reached. Cancelled anywhere, it has done a part.
    async fn step(&mut self, stop: &CancellationToken) -> Result<bool, Trouble> {
        if self.catalog.is_none() {
            self.catalog = Some(self.first_catalog().await?);
        }
        if self.forked {
            let (seq, hash) = self.last();
            self.confirm(seq, hash).await?;
            self.forked = false;
        }
        // What is said of the stream before it is read must hold once it is read to its end.
        let guard = Arc::clone(&self.core.guard);
        let known = guard.begun().await;
        let asked_at = self.core.seams.clock.monotonic();
        let records = self.read_window().await?;
        if !records.is_empty() {
            guard.look().await;
        }
        guard.check()?;
        let applied = records.iter().try_for_each(|object| self.apply(object, stop));
        self.save_progress();
        applied?;
        if records.len() as u64 == self.window {
            self.window = (self.window * 2).min(WINDOW_MAX);
            return Ok(false);
        }
        self.window = 1;
        self.reached_end(asked_at, records.is_empty(), known).await?;
        Ok(true)
    }

    /// (seq, hash) of the last applied commit.
    fn last(&self) -> (u64, [u8; 32]) {
        self.catalog.as_ref().map_or((0, [0; 32]), |catalog| (catalog.seq, catalog.hash))
    }

    async fn first_catalog(&mut self) -> Result<Catalog, Trouble> {
        let catalog = boot(&self.core.store, &self.stream).await?;
        self.core.claim_shards(&self.stream, &catalog)?;
        if let Some(seen) = self.seen.as_ref().filter(|seen| seen.seq <= catalog.seq) {
            self.confirm(seen.seq, seen.hash).await?;
        }
        self.unpublished = self.core.new_entries(&catalog, None);
        Ok(catalog)
    }

    /// The records after the last one, as far as there are any.
    async fn read_window(&self) -> Result<Vec<Bytes>, Trouble> {
        let first = self.last().0 + 1;
        let store = &self.core.store;
        let keys = (first..first + self.window).map(|seq| commit_key(&self.stream, seq));
        let reads = keys.map(|key| async move { get(store, &key, COMMIT_BYTES_MAX).await });
        let found = futures::future::try_join_all(reads).await?;
        metrics::counter!("sealcast_replica_probes_total").increment(1);
        Ok(found.into_iter().map_while(|object| object).collect())
    }

    /// The next record of the log, folded in.
    fn apply(&mut self, object: &Bytes, stop: &CancellationToken) -> Result<(), Trouble> {
        let Some(catalog) = &self.catalog else { return Ok(()) };
        let seq = catalog.seq + 1;
        let key = commit_key(&self.stream, seq);
        let hash = file_hash(object);
        if let Some(seen) = self.seen.as_ref().filter(|seen| seen.seq == seq)
            && seen.hash != hash
        {
            self.local.keep_contradiction(seq, Some(object));
            return Err(Trouble::Fork(fork(&key, seen.hash, hex(&hash))));
        }
        let next = CommitRecord::from_object(object)
            .and_then(|(record, hash)| catalog.apply(&record, hash))
            .and_then(|next| self.core.claim_shards(&self.stream, &next).map(|()| next));
        let next = next.map_err(|corruption| {
            self.local.keep_contradiction(seq, Some(object));
            corruption.in_object(&key)
        })?;
        self.core.guard.hold(&next)?;
        let added = self.core.new_entries(&next, Some(catalog));
        if self.board.notes.lock().booted {
            self.settle(Advance::to(&next, added), stop);
        } else {
            self.unpublished.extend(added);
        }
        self.catalog = Some(next);
        self.unsaved = Some(object.clone());
        self.note_position();
        Ok(())
    }

    /// Once for all records of a window, and before queries can see what they add.
    fn save_progress(&mut self) {
        if self.unsaved.is_none() || !self.board.notes.lock().booted {
            return;
        }
        self.save_position();
        if self.last().0 >= self.saved_seq + SNAPSHOT_EVERY {
            self.save_catalog();
        }
    }

    fn note_position(&self) {
        let Some(catalog) = &self.catalog else { return };
        let mut notes = self.board.notes.lock();
        notes.cluster.clone_from(&catalog.cluster);
        (notes.seq, notes.hash, notes.epoch) = (catalog.seq, catalog.hash, catalog.epoch);
    }

    /// Fetches and judges what a commit adds, beside the follower.
    fn settle(&mut self, advance: Advance, stop: &CancellationToken) {
        let (core, stop) = (Arc::clone(&self.core), stop.clone());
        let settled = async move {
            let parallel = core.config.fetch_parallel;
            let fetched = futures::stream::iter(advance.added.clone())
                .map(|entry| settle_one(Arc::clone(&core), entry))
                .buffer_unordered(parallel)
                .for_each(futures::future::ready);
            stop.run_until_cancelled(fetched).await?;
            Some(advance)
        };
        self.settling.push_back(self.core.cache.flights.spawn(settled));
    }

    /// The oldest commit has settled: queries see it.
    fn advance(&self, settled: Result<Option<Advance>, JoinError>) {
        match settled {
            // Fetched, or found bad.
            Ok(Some(advance)) => self.core.publish(&self.stream, advance),
            // Stopping.
            Ok(None) => {}
            // Going on would leave a hole in what is published: the replica ends instead.
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(error) => tracing::debug!(stream = self.stream, %error, "settling ended"),
            },
        }
    }

    /// A probe found nothing new.
    async fn reached_end(
        &mut self,
        asked_at: Duration,
        was_idle: bool,
        known: Arc<Trust>,
    ) -> Result<(), Trouble> {
        let (seq, hash) = self.last();
        if let Some(seen) = self.seen.as_ref().filter(|seen| seen.seq > seq) {
            self.local.keep_contradiction(seen.seq, None);
            let expected = format!("a log up to {}, as seen before", seen.seq);
            let finding = Corruption::new("log_rollback", None, expected, "no such commit");
            return Err(Trouble::Fork(finding.in_object(commit_key(&self.stream, seq + 1))));
        }
        if let Some(catalog) = &self.catalog {
            self.core.guard.complete(known, catalog)?;
        }
        let booted = self.board.notes.lock().booted;
        let every = if self.board.is_hinted() { RECHECK_HINTED } else { RECHECK_EVERY };
        let recent = |at| asked_at.saturating_sub(at) < every;
        self.idle_probes = if was_idle { self.idle_probes + 1 } else { 0 };
        let recent = self.confirmed_at.is_some_and(recent);
        if !booted || !recent || self.idle_probes >= RECHECK_PROBES {
            let confirmed = self.confirm(seq, hash).await?;
            self.confirmed_at = Some(asked_at);
            self.idle_probes = 0;
            if !booted {
                self.unsaved = confirmed;
                self.finish_boot();
            }
        }
        self.note_position();
        self.board.notes.lock().tail = Some((seq, asked_at));
        self.core.current().note_complete(&self.stream, seq, asked_at);
        Ok(())
    }

    fn finish_boot(&mut self) {
        self.seen = None;
        self.base = None;
        self.save_position();
        let seq = self.last().0;
        if seq != self.saved_seq {
            self.save_catalog();
        }
        self.publish_boot();
        self.board.notes.lock().booted = true;
        tracing::info!(stream = self.stream, seq, "stream read to its end");
    }

    fn publish_boot(&mut self) {
        let added = std::mem::take(&mut self.unpublished);
        let Some(catalog) = &self.catalog else { return };
        self.core.publish(&self.stream, Advance::to(catalog, added));
    }

    /// The log must still have the record that we have at `seq`: records never change.
    async fn confirm(&self, seq: u64, hash: [u8; 32]) -> Result<Option<Bytes>, Trouble> {
        if seq == 0 {
            return Ok(None);
        }
        let key = commit_key(&self.stream, seq);
        let object = get(&self.core.store, &key, COMMIT_BYTES_MAX).await?;
        let found = object.as_ref().map(|object| file_hash(object));
        if found == Some(hash) {
            return Ok(object);
        }
        self.local.keep_contradiction(seq, object.as_deref());
        let found = found.map_or("no such commit".to_owned(), |found| hex(&found));
        Err(Trouble::Fork(fork(&key, hash, found)))
    }

    /// Books the outcome of a step; answers how long to wait.
    fn conclude(&mut self, stepped: Result<bool, Trouble>) -> Duration {
        let config = &self.core.config;
        let (min, max) = (config.poll_min_ms, config.poll_max_ms);
        let (min, max) = (Duration::from_millis(min), Duration::from_millis(max));
        let wait = match &stepped {
            Ok(false) => {
                self.pace = min;
                return Duration::ZERO;
            }
            Ok(true) => {
                let wait = if self.board.is_hinted() { self.hinted_wait() } else { self.pace };
                self.pace = (self.pace * 5 / 4).min(max);
                wait
            }
            Err(_) => {
                // One record at a time: what comes before the one that cannot be read is applied.
                self.window = 1;
                self.pace = (self.pace * 2).min(max);
                self.pace
            }
        };
        let millis = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        self.board.interval_ms.store(millis, Ordering::Relaxed);
        let lag = match self.core.current().lag() {
            Lag::Millis(millis) => millis as f64 / 1_000.0,
            Lag::Unknown => f64::INFINITY,
        };
        metrics::gauge!("sealcast_replica_lag_seconds").set(lag);
        self.book(stepped.err());
        wait
    }

    fn book(&mut self, trouble: Option<Trouble>) {
        let (fault, error) = match trouble {
            None => (None, None),
            Some(Trouble::Store(error)) => (None, Some(error)),
            Some(Trouble::Bytes(finding)) => {
                self.publish_readable_part();
                if self.last().0 == 0 {
                    // Nothing rests on the store's identity yet: it is read again, too.
                    self.catalog = None;
                }
                (Some(finding), None)
            }
            Some(Trouble::Fork(finding)) => {
                self.halt_on_fork();
                (Some(finding), None)
            }
        };
        let mut notes = self.board.notes.lock();
        let stream = &self.stream;
        if let Some(finding) = &fault
            && notes.fault != fault
        {
            let (check, object) = (finding.check, &finding.object);
            tracing::error!(stream, check, object, %finding, "stream halted");
            metrics::counter!("sealcast_replica_stream_faults_total").increment(1);
        }
        // An unreachable store says nothing about a fault: that one stands.
        if error.is_none() {
            if fault.is_none() && notes.fault.is_some() {
                tracing::info!(stream, "stream resumed");
            }
            notes.fault = fault;
        }
        notes.error = error;
    }

    /// Boot has met a record that it cannot read: what comes before it is served, unless an
    /// earlier run has seen more and could contradict it.
    fn publish_readable_part(&mut self) {
        let seq = self.last().0;
        let unconfirmed = self.seen.as_ref().is_some_and(|seen| seen.seq > seq);
        if !self.unpublished.is_empty() && !unconfirmed {
            self.publish_boot();
            self.base.clone_from(&self.catalog);
        }
    }

    /// The log is another one than before. A boot starts again from what it has published, as it
    /// may have followed the wrong one; later on everything waits until the log is ours again.
    fn halt_on_fork(&mut self) {
        self.forked = self.board.notes.lock().booted;
        if !self.forked {
            self.catalog.clone_from(&self.base);
            self.unpublished.clear();
        }
    }

    /// Up to 30 % above the setting, so that replicas do not probe in step.
    fn hinted_wait(&self) -> Duration {
        let mut byte = [0];
        self.core.seams.random.fill(&mut byte);
        let share = 100 + u64::from(byte[0]) * 30 / 255;
        Duration::from_millis(self.core.config.hinted_poll_ms * share / 100)
    }

    /// A disk that refuses only costs the detection of a rollback after the next restart.
    fn save_position(&mut self) {
        let Some((catalog, object)) = self.catalog.as_ref().zip(self.unsaved.take()) else {
            return;
        };
        if let Err(error) = self.local.save_position(catalog, &object) {
            tracing::warn!(stream = self.stream, %error, "position not saved");
        }
    }

    fn save_catalog(&mut self) {
        let Some(catalog) = &self.catalog else { return };
        match self.local.save_catalog(catalog) {
            Ok(()) => self.saved_seq = catalog.seq,
            Err(error) => tracing::warn!(stream = self.stream, %error, "catalog not saved"),
        }
    }
}

/// Verified or quarantined, or given up for now: queries and the background try again.
async fn settle_one(core: Arc<Core>, entry: Arc<SegmentEntry>) {
    let mut wait = Duration::from_millis(core.config.poll_min_ms);
    for _ in 0..SETTLE_TRIES {
        match core.cache.open_entry(&entry).await {
            Ok(_) | Err(OpenError::Quarantined { .. }) => return,
            Err(error) => tracing::warn!(%error, "segment not fetched yet"),
        }
        tokio::time::sleep(wait).await;
        wait *= 2;
    }
}

fn fork(key: &str, ours: [u8; 32], found: String) -> Corruption {
    let expected = format!("commit {}, as seen before", hex(&ours));
    Corruption::new("log_fork", None, expected, found).in_object(key)
}
