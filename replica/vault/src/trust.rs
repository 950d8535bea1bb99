//! Keeps the vault from believing another history than before: the cluster log, followed beside the
//! streams, and every catalog held against it before anything of it is attached.
//!
//! A cluster log that is away, slow, or behind keeps nobody waiting: what it does not name yet is
//! *unanchored*, and told after a while. One that contradicts what was trusted stops attaching, as
//! does a stream that contradicts it; what is attached already goes on being served, and both are
//! looked at again, as the store may heal.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use sealcast_common::bucket::{ClusterLog, Store};
use sealcast_common::catalog::Catalog;
use sealcast_common::catalog::names::commit_key;
use sealcast_common::clock::{Clock, Micros};
use sealcast_common::fault::{Corruption, hex};
use sealcast_common::integrity::{Policy, file_hash};
use sealcast_common::limits::COMMIT_BYTES_MAX;
use sealcast_common::seams::Seams;
use sealcast_common::trust::{Look, Trust, TrustError, TrustState};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::boot::{Trouble, get};
use crate::error::VaultError;
use crate::publish::Boards;
use crate::{TrustStatus, VaultConfig};

/// Nobody waits longer for a look: a slow cluster log must not keep commits back.
const LOOK_PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks while everything is anchored: a keeper's heartbeat is an hour apart.
const IDLE: Duration = Duration::from_secs(1_800);
/// Between two writes of the state for catalogs alone; a new epoch is written at once.
const SAVE_EVERY: Duration = Duration::from_secs(10);

/// See the module.
#[derive(Debug)]
pub(crate) struct Guard {
    store: Store,
    log: ClusterLog,
    clock: Arc<dyn Clock>,
    boards: Arc<Boards>,
    /// Only these streams are followed; empty: all.
    streams: Vec<String>,
    pace_min: Duration,
    anchor_delay_ms: u64,
    staleness_ms: u64,
    trust: Mutex<Arc<Trust>>,
    notes: Mutex<Notes>,
    is_running: AtomicBool,
    knows_streams: AtomicBool,
    wake: Notify,
    /// Rings when the next look is due earlier than it was.
    sooner: Notify,
    /// Looks that were begun, and that have ended.
    looks: watch::Sender<(u64, u64)>,
}

#[derive(Debug, Default)]
struct Notes {
    /// The cluster log contradicts what was trusted, or a stream that it names is gone.
    broken: Option<Corruption>,
    evidence: Option<String>,
    /// Streams that contradict it.
    breaches: BTreeMap<String, Corruption>,
    /// Why the last look told nothing new, if so.
    trouble: Option<String>,
    /// Shards with rows that no epoch names yet: how many, and since when (monotonic).
    waiting: BTreeMap<u16, (u64, Duration)>,
    /// What held last: commit, and leaves of the cluster log.
    held: BTreeMap<String, ([u8; 32], u64)>,
    /// Leaves of the cluster log when all streams that nobody follows were there.
    unfollowed_at: u64,
    cosigned_at: Option<Micros>,
    epoch: u64,
    /// Leaves of the cluster log in the file, and when it was written (monotonic).
    saved: (u64, Duration),
    /// Turns since something happened.
    quiet: u32,
}

impl Guard {
    /// Reads the state of earlier lives.
    pub(crate) fn open(
        config: &VaultConfig,
        store: &Store,
        seams: &Seams,
        boards: &Arc<Boards>,
    ) -> Result<Self, VaultError> {
        let policy = config.policy.as_deref().map(read_policy).transpose()?;
        let path = config.dir.join("trust.json");
        let trust =
            Trust::open(&path, Arc::clone(&seams.files), policy, config.trust_on_first_use)?;
        let cluster = &trust.state().cluster;
        if cluster.size() == 0 && !trust.has_policy() {
            tracing::warn!("no policy and no trust state: the first cluster log seen is trusted");
        }
        let saved = (cluster.size(), Duration::ZERO);
        let epoch = cluster.epoch.map_or(0, |(number, _)| number);
        let notes = Notes { cosigned_at: trust.cosigned_at(), epoch, saved, ..Notes::default() };
        Ok(Guard {
            store: store.clone(),
            log: ClusterLog::new(store.clone()),
            clock: Arc::clone(&seams.clock),
            boards: Arc::clone(boards),
            streams: config.streams.clone(),
            pace_min: Duration::from_millis(config.poll_max_ms),
            anchor_delay_ms: config.anchor_delay_ms,
            staleness_ms: config.cluster_staleness_ms,
            trust: Mutex::new(Arc::new(trust)),
            notes: Mutex::new(notes),
            is_running: AtomicBool::new(false),
            knows_streams: AtomicBool::new(false),
            wake: Notify::new(),
            sooner: Notify::new(),
            looks: watch::Sender::new((0, 0)),
        })
    }

    /// Looks at the cluster log when asked, and from time to time, until stopped.
    pub(crate) fn run(self: Arc<Self>, stop: CancellationToken) -> impl Future<Output = ()> {
        // At once: followers that begin before the task does wait for it.
        self.is_running.store(true, Ordering::SeqCst);
        self.turns(stop)
    }

    async fn turns(self: Arc<Self>, stop: CancellationToken) {
        while stop.run_until_cancelled(self.look_once()).await.is_some() {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = self.wake.notified() => self.notes.lock().quiet = 0,
                () = self.due() => self.notes.lock().quiet += 1,
            }
        }
    }

    /// Waits until it is time to look by itself, however that changes meanwhile.
    async fn due(&self) {
        while tokio::time::timeout(self.wait(), self.sooner.notified()).await.is_ok() {}
    }

    /// All streams that are to be followed are: others may be looked for.
    pub(crate) fn streams_are_known(&self) {
        self.knows_streams.store(true, Ordering::SeqCst);
        self.wake.notify_one();
    }

    fn wait(&self) -> Duration {
        let notes = self.notes.lock();
        if notes.broken.is_some() || !notes.breaches.is_empty() {
            return self.pace_min;
        }
        let growing = self.pace_min * 2u32.saturating_pow(notes.quiet.min(16));
        match self.unanchored_ms(&notes) {
            // Before anybody is alarmed, it is looked at again.
            Some(age) if age <= self.anchor_delay_ms => {
                let often = Duration::from_millis(self.anchor_delay_ms / 4);
                growing.min(often.max(self.pace_min))
            }
            None if notes.trouble.is_none() => IDLE,
            _ => growing.min(IDLE),
        }
    }

    /// What is trusted now.
    pub(crate) fn known(&self) -> Arc<Trust> {
        Arc::clone(&self.trust.lock())
    }

    /// What is trusted after the first look; with it, streams are read from the start.
    pub(crate) async fn begun(&self) -> Arc<Trust> {
        let ended = self.looks.borrow().1;
        if ended == 0 {
            self.look().await;
        }
        self.known()
    }

    /// Waits until the cluster log contradicts nothing. Streams that a listing names are nobody's
    /// before: a replica that waited for them would serve nothing of what it holds.
    pub(crate) async fn sound(&self) {
        let mut looks = self.looks.subscribe();
        self.begun().await;
        let is_sound = |_: &(u64, u64)| self.notes.lock().broken.is_none();
        let _never_ends = looks.wait_for(is_sound).await;
    }

    /// Waits for a look that begins now; not for long.
    pub(crate) async fn look(&self) {
        if !self.is_running.load(Ordering::SeqCst) {
            return;
        }
        let mut looks = self.looks.subscribe();
        let wanted = looks.borrow().0 + 1;
        self.wake.notify_one();
        let looked = looks.wait_for(|(_, ended)| *ended >= wanted);
        if tokio::time::timeout(LOOK_PATIENCE, looked).await.is_err() {
            tracing::warn!("cluster log not read in time: commits are attached unanchored");
        }
    }

    async fn look_once(&self) {
        self.looks.send_modify(|(begun, _)| *begun += 1);
        let outcome = self.known().look(&self.log).await;
        let outcome = match outcome {
            Ok(look) => self.take(look).await,
            Err(error) => Err(error),
        };
        let mut notes = self.notes.lock();
        match outcome {
            Ok(trouble) => {
                if notes.broken.take().is_some() {
                    tracing::info!("cluster log is again the one that was trusted");
                }
                notes.trouble = trouble;
            }
            Err(TrustError::Contradiction { finding, evidence }) => {
                notes.evidence =
                    evidence.map(|path| path.display().to_string()).or(notes.evidence.take());
                if notes.broken.as_ref() != Some(&*finding) {
                    alarm("cluster log", &finding, notes.evidence.as_deref());
                }
                notes.broken = Some(*finding);
            }
            Err(error) => {
                tracing::debug!(%error, "cluster log tells nothing");
                notes.trouble = Some(error.to_string());
            }
        }
        self.gauges(&notes);
        drop(notes);
        self.looks.send_modify(|(begun, ended)| *ended = *begun);
    }

    /// Takes over what a look has found; answers why it was nothing.
    async fn take(&self, look: Look) -> Result<Option<String>, TrustError> {
        let trouble = match look {
            Look::Absent => Some("the store has no cluster log".to_owned()),
            Look::Behind => Some("its head is older than what is trusted".to_owned()),
            Look::Same => None,
            Look::News(news) => {
                let mut trust = self.trust.lock();
                Arc::make_mut(&mut trust).adopt(*news);
                let mut notes = self.notes.lock();
                notes.cosigned_at = trust.cosigned_at();
                let anchored = &trust.state().cluster.shards;
                notes.epoch = trust.state().cluster.epoch.map_or(0, |(number, _)| number);
                notes.waiting.retain(|shard, (rows, _)| {
                    anchored.get(shard).is_none_or(|known| known.size < *rows)
                });
                None
            }
        };
        self.unfollowed().await?;
        Ok(trouble)
    }

    /// Streams that the epoch names and nobody here follows: began after us, or were they hidden?
    async fn unfollowed(&self) -> Result<(), TrustError> {
        let trust = self.known();
        let cluster = &trust.state().cluster;
        let is_known = self.knows_streams.load(Ordering::SeqCst);
        if !is_known || self.notes.lock().unfollowed_at == cluster.size() {
            return Ok(());
        }
        for (name, (seq, hash)) in &cluster.streams {
            let follows = self.boards.lock().contains_key(name);
            if follows || !self.streams.is_empty() {
                continue;
            }
            let key = commit_key(name, *seq);
            let found = match get(&self.store, &key, COMMIT_BYTES_MAX).await {
                Ok(object) => object.map(|object| file_hash(&object)),
                // Nothing is known.
                Err(Trouble::Store(_)) => return Ok(()),
                Err(Trouble::Bytes(found) | Trouble::Fork(found)) => return Err(found.into()),
            };
            if found != Some(*hash) {
                let expected = format!("commit {seq} of stream {name} as {}", hex(hash));
                let found = found.map_or("no such commit".to_owned(), |found| hex(&found));
                return Err(Corruption::new("cluster_stream", None, expected, found)
                    .in_object(key)
                    .into());
            }
        }
        self.notes.lock().unfollowed_at = cluster.size();
        Ok(())
    }

    /// An error if nothing may be attached.
    pub(crate) fn check(&self) -> Result<(), Trouble> {
        match &self.notes.lock().broken {
            Some(finding) => Err(Trouble::Fork(finding.clone())),
            None => Ok(()),
        }
    }

    /// A catalog on its way contradicts nothing of what it has reached.
    pub(crate) fn hold(&self, catalog: &Catalog) -> Result<(), Trouble> {
        let held = self.known().hold(catalog, false, |_| None);
        self.judged(&catalog.stream, held)
    }

    /// A catalog that was read to its end, after `known` was what is trusted. Then it is trusted too.
    pub(crate) fn complete(&self, known: Arc<Trust>, catalog: &Catalog) -> Result<(), Trouble> {
        let now = (catalog.hash, known.state().cluster.size());
        let stream = &catalog.stream;
        if self.notes.lock().held.get(stream) == Some(&now) {
            return Ok(());
        }
        let held = known.hold(catalog, true, |_| None);
        drop(known);
        self.judged(stream, held)?;
        // What was looked at since may name more than was read: only what was reached is held to it.
        self.hold(catalog)?;
        let mut trust = self.trust.lock();
        Arc::make_mut(&mut trust).accept(catalog);
        let mut notes = self.notes.lock();
        if notes.breaches.remove(stream).is_some() {
            tracing::info!(stream, "stream agrees again with what was trusted");
        }
        notes.held.insert(stream.clone(), now);
        let anchored = &trust.state().cluster.shards;
        let clock = self.clock.monotonic();
        for (shard, rows) in &catalog.shards {
            let size = anchored.get(shard).map_or(0, |known| known.size);
            if rows.size() > size {
                notes.waiting.entry(*shard).or_insert((rows.size(), clock));
            }
        }
        self.sooner.notify_one();
        drop((notes, trust));
        self.save(false);
        Ok(())
    }

    fn judged(&self, stream: &str, held: Result<(), TrustError>) -> Result<(), Trouble> {
        let Err(error) = held else { return Ok(()) };
        let TrustError::Contradiction { finding, .. } = error else {
            return Err(Trouble::Store(error.to_string()));
        };
        let mut notes = self.notes.lock();
        let before = notes.breaches.insert(stream.to_owned(), (*finding).clone());
        if before.as_ref() != Some(&*finding) {
            alarm(stream, &finding, None);
        }
        notes.held.remove(stream);
        self.sooner.notify_one();
        self.gauges(&notes);
        Err(Trouble::Fork(*finding))
    }

    /// Writes the state, if every stream has held against the newest epoch that is trusted.
    pub(crate) fn save(&self, now: bool) {
        let mut trust = self.trust.lock();
        let mut notes = self.notes.lock();
        let (size, clock) = (trust.state().cluster.size(), self.clock.monotonic());
        let holds = |name: &String| notes.held.get(name).is_some_and(|(_, at)| *at == size);
        let all = self.boards.lock().keys().all(holds);
        let (saved, at) = notes.saved;
        let due = now || size > saved || at.is_zero() || clock.saturating_sub(at) >= SAVE_EVERY;
        if !all || !due || notes.broken.is_some() || !notes.breaches.is_empty() {
            return;
        }
        match Arc::make_mut(&mut trust).save() {
            // Not zero, which says never.
            Ok(()) => notes.saved = (size, clock.max(Duration::from_nanos(1))),
            Err(error) => tracing::warn!(%error, "trust state not saved"),
        }
    }

    fn gauges(&self, notes: &Notes) {
        let is_broken = notes.broken.is_some() || !notes.breaches.is_empty();
        metrics::gauge!("sealcast_replica_trust_broken").set(f64::from(u8::from(is_broken)));
        let age = self.unanchored_ms(notes).map_or(0.0, |age| age as f64 / 1_000.0);
        metrics::gauge!("sealcast_replica_trust_unanchored_seconds").set(age);
        metrics::gauge!("sealcast_replica_trust_epoch").set(notes.epoch as f64);
    }

    fn unanchored_ms(&self, notes: &Notes) -> Option<u64> {
        let since = notes.waiting.values().map(|(_, since)| *since).min()?;
        let age = self.clock.monotonic().saturating_sub(since);
        Some(u64::try_from(age.as_millis()).unwrap_or(u64::MAX))
    }

    /// What is trusted, and what is wrong with it.
    pub(crate) fn status(&self) -> TrustStatus {
        let trust = self.known();
        let TrustState { cluster, .. } = trust.state();
        let notes = self.notes.lock();
        self.gauges(&notes);
        let broken = notes.broken.clone().or_else(|| notes.breaches.values().next().cloned());
        TrustStatus {
            begun_by: if trust.has_policy() { "policy" } else { "first_use" },
            cluster: cluster.cluster.clone(),
            size: cluster.size(),
            epoch: cluster.epoch.map(|(number, _)| number),
            anchored: cluster.size() > 0 && notes.waiting.is_empty(),
            unanchored_ms: self.unanchored_ms(&notes),
            trouble: notes.trouble.clone(),
            broken,
            evidence: notes.evidence.clone(),
            cosigned_ago_ms: notes.cosigned_at.map(|at| self.clock.now().millis_since(at)),
        }
    }

    /// Reasons and notes of `/readyz`.
    pub(crate) fn tell(
        &self,
        status: &TrustStatus,
        reasons: &mut BTreeMap<String, String>,
        notes: &mut BTreeMap<String, String>,
    ) {
        if let Some(finding) = &status.broken {
            let kept =
                status.evidence.as_ref().map_or(String::new(), |path| format!("; see {path}"));
            let text = format!("nothing new is attached: {finding}{kept}");
            reasons.insert("trust_broken".to_owned(), text);
        }
        if let Some(age) = status.cosigned_ago_ms.filter(|age| *age > self.staleness_ms) {
            let max = self.staleness_ms;
            let text = format!("witnesses cosigned the newest epoch {age} ms ago, expected {max}");
            reasons.insert("cluster_stale".to_owned(), text);
        }
        if let Some(age) = status.unanchored_ms.filter(|age| *age > self.anchor_delay_ms) {
            let why = status.trouble.as_deref().unwrap_or("no epoch names them yet");
            let text = format!("rows attached {age} ms ago stand in no epoch: {why}");
            notes.insert("anchor".to_owned(), text);
        }
        if status.begun_by == "first_use" {
            let text = "on first use: no policy names the keys of the cluster log";
            notes.insert("trust".to_owned(), text.to_owned());
        }
    }
}

fn alarm(whose: &str, finding: &Corruption, evidence: Option<&str>) {
    let check = finding.check;
    tracing::error!(whose, check, %finding, evidence, "trust broken: nothing new is attached");
    metrics::counter!("sealcast_replica_trust_contradictions_total", "check" => check).increment(1);
}

fn read_policy(path: &Path) -> Result<Policy, VaultError> {
    let refused = |found: String| VaultError::Setting {
        setting: "policy",
        found: format!("{} ({found})", path.display()),
        expected: "a file in the form of C2SP tlog-policy",
    };
    let text = std::fs::read_to_string(path).map_err(|error| refused(error.to_string()))?;
    Policy::parse(&text).map_err(|error| refused(error.to_string()))
}
