//! What a vault says about itself: lag, streams, quarantine, readiness.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use sealcast_common::clock::Clock;
use sealcast_common::fault::{Corruption, hex};
use serde::{Serialize, Serializer};
use tokio::sync::Notify;

use crate::publish::Core;
use crate::snapshot::VaultSnapshot;

/// How far an answer may be behind the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lag {
    /// Everything committed up to so many milliseconds ago is included.
    Millis(u64),
    /// Not known: the store has not been heard for longer than two polls.
    Unknown,
}

impl Lag {
    /// The worse of two.
    #[must_use]
    pub fn max(self, other: Lag) -> Lag {
        match (self, other) {
            (Lag::Millis(a), Lag::Millis(b)) => Lag::Millis(a.max(b)),
            _ => Lag::Unknown,
        }
    }
}

impl fmt::Display for Lag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lag::Millis(millis) => write!(f, "{millis}"),
            Lag::Unknown => f.write_str("unknown"),
        }
    }
}

/// A number, or the text `unknown`.
impl Serialize for Lag {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Lag::Millis(millis) => serializer.serialize_u64(*millis),
            Lag::Unknown => serializer.serialize_str("unknown"),
        }
    }
}

/// One followed stream.
#[derive(Clone, Debug, Serialize)]
pub struct StreamStatus {
    /// Its name.
    pub stream: String,
    /// The cluster, once known.
    pub cluster: String,
    /// The last commit that was applied.
    pub seq: u64,
    /// Hex of its hash.
    pub hash: String,
    /// The shipper's epoch.
    pub epoch: u64,
    /// The last commit that queries see.
    pub published_seq: u64,
    /// Whether the store has been read up to its end since the process started.
    pub booted: bool,
    /// Age of the last successful probe, milliseconds.
    pub last_probe_age_ms: Option<u64>,
    /// The poll interval in force, milliseconds.
    pub poll_interval_ms: u64,
    /// Whether hints arrive.
    pub hinted: bool,
    /// Rows sealed and not shipped, as the last hint said.
    pub unshipped_rows: Option<u64>,
    /// Lag of this stream.
    pub lag: Lag,
    /// Nothing after this is applied; retried.
    pub fault: Option<Corruption>,
    /// The store's last error; retried.
    pub error: Option<String>,
}

/// One quarantined segment.
#[derive(Clone, Debug, Serialize)]
pub struct QuarantineStatus {
    /// `<shard>/<name>`.
    pub segment: String,
    /// What was found, with check and offset.
    pub corruption: Corruption,
    /// Attempts that found bad bytes.
    pub tries: u32,
    /// Until the next attempt, milliseconds.
    pub retry_in_ms: u64,
}

/// What is trusted of the cluster log, and whether it still is.
#[derive(Clone, Debug, Serialize)]
pub struct TrustStatus {
    /// `policy` or `first_use`.
    pub begun_by: &'static str,
    /// The cluster; empty before its log was seen.
    pub cluster: String,
    /// Leaves of its log.
    pub size: u64,
    /// The newest epoch.
    pub epoch: Option<u64>,
    /// Whether an epoch names all rows.
    pub anchored: bool,
    /// Since when it does not, milliseconds.
    pub unanchored_ms: Option<u64>,
    /// Why the last look told nothing; retried.
    pub trouble: Option<String>,
    /// What contradicts what was trusted: nothing new is attached; retried.
    pub broken: Option<Corruption>,
    /// The file that keeps two notes which cannot both be true.
    pub evidence: Option<String>,
    /// Age of the newest epoch by the policy's witnesses, milliseconds.
    pub cosigned_ago_ms: Option<u64>,
}

/// Everything.
#[derive(Clone, Debug, Serialize)]
pub struct VaultStatus {
    /// Version of the newest snapshot.
    pub version: u64,
    /// By name.
    pub streams: Vec<StreamStatus>,
    /// By segment.
    pub quarantine: Vec<QuarantineStatus>,
    /// Segments in the newest snapshot.
    pub segments: usize,
    /// Of them: on the local disk.
    pub segments_local: usize,
    /// Bytes on the local disk, in flight, and unlinked but still mapped.
    pub cache_bytes: u64,
    /// The budget.
    pub cache_bytes_max: u64,
    /// Mapped segments.
    pub maps: usize,
    /// Bound of the maps.
    pub maps_max: usize,
    /// How far the newest snapshot may be behind.
    pub lag: Lag,
    /// What is trusted.
    pub trust: TrustStatus,
    /// Why the vault is not ready, by name; empty when it is.
    pub not_ready: BTreeMap<String, String>,
    /// What an operator should know though it is ready, by name.
    pub notes: BTreeMap<String, String>,
}

/// What a follower writes and everybody reads.
#[derive(Debug)]
pub(crate) struct Board {
    clock: Arc<dyn Clock>,
    pub(crate) hints_alive: AtomicUsize,
    pub(crate) hinted: Notify,
    pub(crate) interval_ms: AtomicU64,
    pub(crate) notes: Mutex<Notes>,
}

/// The changing part of a [`Board`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Notes {
    pub(crate) cluster: String,
    pub(crate) seq: u64,
    pub(crate) hash: [u8; 32],
    pub(crate) epoch: u64,
    pub(crate) booted: bool,
    pub(crate) fault: Option<Corruption>,
    pub(crate) error: Option<String>,
    pub(crate) unshipped_rows: Option<u64>,
    /// The last probe that found nothing new: after which commit, and when it was asked.
    pub(crate) tail: Option<(u64, Duration)>,
}

impl Board {
    pub(crate) fn new(clock: Arc<dyn Clock>, interval_ms: u64) -> Self {
        Board {
            clock,
            hints_alive: AtomicUsize::new(0),
            hinted: Notify::new(),
            interval_ms: AtomicU64::new(interval_ms),
            notes: Mutex::default(),
        }
    }

    pub(crate) fn is_hinted(&self) -> bool {
        self.hints_alive.load(Ordering::Relaxed) > 0
    }

    /// Age of the last successful probe.
    pub(crate) fn probe_age_ms(&self) -> Option<u64> {
        let (_, at) = self.notes.lock().tail?;
        Some(self.age_ms(at))
    }

    /// Lag of something that was complete at `complete_at`: only claimed while probes succeed.
    pub(crate) fn lag_since(&self, complete_at: Option<Duration>) -> Lag {
        let interval = self.interval_ms.load(Ordering::Relaxed);
        let heard = self.probe_age_ms().is_some_and(|age| age <= interval.saturating_mul(2));
        match complete_at {
            Some(at) if heard => Lag::Millis(self.age_ms(at)),
            _ => Lag::Unknown,
        }
    }

    fn age_ms(&self, at: Duration) -> u64 {
        let age = self.clock.monotonic().saturating_sub(at);
        u64::try_from(age.as_millis()).unwrap_or(u64::MAX)
    }
}

impl Board {
    /// Why this stream keeps the vault from being ready.
    pub(crate) fn not_ready(&self, max_staleness_ms: u64) -> Option<String> {
        let age = self.probe_age_ms();
        let notes = self.notes.lock();
        if let Some(fault) = &notes.fault {
            return Some(format!("stopped after commit {}: {fault}", notes.seq));
        }
        let store = notes.error.as_ref().map_or(String::new(), |error| format!("; {error}"));
        match age {
            _ if !notes.booted => Some(format!("not read to its end yet{store}")),
            Some(age) if age <= max_staleness_ms => None,
            Some(age) => Some(format!("no successful probe for {age} ms{store}")),
            None => Some(format!("no successful probe yet{store}")),
        }
    }
}

impl Core {
    /// See [`crate::Vault::status`].
    pub(crate) fn status(&self) -> VaultStatus {
        let snapshot = self.current();
        let boards = self.boards.lock().clone();
        let mut not_ready = BTreeMap::new();
        let discovery = self.discovery.lock().clone();
        if let Some(reason) = discovery {
            not_ready.insert("streams".to_owned(), format!("streams are not known: {reason}"));
        } else if boards.is_empty() {
            not_ready.insert("streams".to_owned(), "streams are not known yet".to_owned());
        }
        let mut streams = Vec::new();
        for (name, board) in &boards {
            if let Some(reason) = board.not_ready(self.config.max_staleness_ms) {
                not_ready.insert(format!("stream-{name}"), reason);
            }
            streams.push(stream_status(name, board, &snapshot));
        }
        let (trust, mut notes) = (self.guard.status(), BTreeMap::new());
        self.guard.tell(&trust, &mut not_ready, &mut notes);
        let (segments_local, maps) = self.cache.counts();
        VaultStatus {
            version: snapshot.version,
            streams,
            quarantine: self.cache.quarantine.list(),
            segments: snapshot.segments.len(),
            segments_local,
            cache_bytes: self.cache.used_bytes(),
            cache_bytes_max: self.config.cache_bytes,
            maps,
            maps_max: self.cache.maps_max,
            lag: snapshot.lag(),
            trust,
            not_ready,
            notes,
        }
    }
}

fn stream_status(name: &str, board: &Board, snapshot: &VaultSnapshot) -> StreamStatus {
    let last_probe_age_ms = board.probe_age_ms();
    let notes = board.notes.lock().clone();
    let fresh = snapshot.fresh.streams.get(name);
    StreamStatus {
        stream: name.to_owned(),
        cluster: notes.cluster,
        seq: notes.seq,
        hash: hex(&notes.hash),
        epoch: notes.epoch,
        published_seq: snapshot.positions.get(name).map_or(0, |commit| commit.seq),
        booted: notes.booted,
        last_probe_age_ms,
        poll_interval_ms: board.interval_ms.load(Ordering::Relaxed),
        hinted: board.is_hinted(),
        unshipped_rows: notes.unshipped_rows,
        lag: fresh.map_or(Lag::Unknown, |fresh| board.lag_since(*fresh.complete_at.lock())),
        fault: notes.fault,
        error: notes.error,
    }
}
