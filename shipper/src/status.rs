//! What the shipper tells about itself: the board that the loop writes and HTTP reads.

use std::collections::BTreeMap;

use sealcast_common::bucket::probe::{ProbeReport, Verdict};
use sealcast_common::catalog::Catalog;
use sealcast_common::clock::Micros;
use sealcast_common::fault::Corruption;
use sealcast_common::wire::StreamHint;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::fault::{Fault, FaultKind};

/// `200` of `POST /v1/ship`, and what a run with `--once` did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Shipped {
    /// Commits made.
    pub commits: usize,
    /// Segments in them.
    pub segments: usize,
    /// The stream's last commit.
    pub seq: u64,
    /// Shards of which not everything could be shipped, and why.
    pub blocked: BTreeMap<u16, String>,
}

/// One shard in `GET /v1/status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ShardShipping {
    /// The shard.
    pub shard: u16,
    /// Leaves in sealed files (or committed, if the local files are gone).
    pub sealed: u64,
    /// Leaves committed.
    pub shipped: u64,
    /// The difference.
    pub lag_rows: u64,
    /// When the oldest segment that is not committed was sealed, microseconds since the epoch.
    #[serde(skip)]
    pub oldest: Option<Micros>,
    /// Why it does not ship.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub fault: Option<ShardFault>,
}

/// Why a shard does not ship, with the place of the evidence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ShardFault {
    /// What stops it.
    pub kind: FaultKind,
    /// The check that failed.
    pub check: String,
    /// The file.
    pub object: String,
    /// Byte offset in it, when the check can tell.
    pub offset: Option<u64>,
    /// What was expected.
    pub expected: String,
    /// What was found.
    pub found: String,
}

impl ShardFault {
    fn new(fault: &Fault) -> Self {
        let Corruption { object, offset, check, expected, found } = fault.finding.clone();
        ShardFault { kind: fault.kind, check: check.to_owned(), object, offset, expected, found }
    }
}

/// `200` of `GET /v1/status`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Status {
    /// `starting`, `shipping`, `waiting` (an error is being retried), `fenced`, `failed`, `stopped`.
    pub state: String,
    /// The store's location, without credentials.
    pub store: String,
    /// The stream; empty until the writer is known.
    pub stream: String,
    /// The cluster.
    pub cluster: String,
    /// Our epoch, or the last one seen before the claim.
    pub epoch: u64,
    /// The stream's last commit.
    pub seq: u64,
    /// Sealed leaves that are not committed; unknown until the log has been read.
    pub lag_rows: Option<u64>,
    /// Age of the oldest sealed segment that is not committed, milliseconds; 0 when there is none,
    /// unknown until the log has been read.
    pub lag_ms: Option<u64>,
    /// How long ago the store last answered what a turn needed, milliseconds; unknown until it has.
    pub store_age_ms: Option<u64>,
    /// When that was.
    #[serde(skip)]
    pub store_seen: Option<Micros>,
    /// What the probe at start found.
    pub probe: Option<StoreProbe>,
    /// What went wrong last, also when it is over.
    pub last_error: Option<LastError>,
    /// Every shard.
    pub shards: Vec<ShardShipping>,
}

/// Whether the store keeps its promises, as tried at start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct StoreProbe {
    /// RFC 3339.
    pub at: String,
    /// `cas`: by the store; `external`: by the operator's word.
    pub fencing: String,
    /// Every check.
    pub checks: Vec<StoreCheck>,
}

/// One promise of a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct StoreCheck {
    /// Its name.
    pub check: String,
    /// Whether it was kept; `null` when the store gave no answer.
    pub kept: Option<bool>,
    /// What a fit store does.
    pub expected: String,
    /// What this one did.
    pub found: String,
}

impl StoreProbe {
    fn new(at: Micros, report: &ProbeReport, external: bool) -> Self {
        let checks = report.findings.iter().map(|finding| StoreCheck {
            check: finding.check.word().to_owned(),
            kept: match finding.verdict {
                Verdict::Kept => Some(true),
                Verdict::Broken => Some(false),
                Verdict::Unknown => None,
            },
            expected: finding.expected.to_owned(),
            found: finding.found.clone(),
        });
        let fencing = if external { "external" } else { "cas" };
        StoreProbe { at: at.to_rfc3339(), fencing: fencing.to_owned(), checks: checks.collect() }
    }
}

/// Something that went wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct LastError {
    /// RFC 3339.
    pub at: String,
    /// A word from a closed list.
    pub kind: String,
    /// What happened.
    pub message: String,
}

impl Status {
    /// The status at `now`: lag grows while nothing else happens.
    #[must_use]
    pub(crate) fn at(&self, now: Micros) -> Status {
        let oldest = self.shards.iter().filter_map(|shard| shard.oldest).min();
        let lag_ms = oldest.map_or(0, |oldest| now.millis_since(oldest));
        let lag_ms = self.lag_rows.map(|_| lag_ms);
        let store_age_ms = self.store_seen.map(|seen| now.millis_since(seen));
        Status { lag_ms, store_age_ms, ..self.clone() }
    }

    /// What is sent to those who listen.
    pub(crate) fn hint(&self) -> StreamHint {
        let (stream, unshipped_rows) = (self.stream.clone(), self.lag_rows.unwrap_or(0));
        StreamHint { stream, seq: self.seq, unshipped_rows }
    }

    fn count(&mut self) {
        let known = !self.shards.is_empty();
        self.lag_rows = known.then(|| self.shards.iter().map(|shard| shard.lag_rows).sum());
    }
}

/// The shared status: one writer, any number of readers and listeners.
#[derive(Clone, Debug)]
pub(crate) struct Board {
    status: watch::Sender<Status>,
}

impl Board {
    pub(crate) fn new(store: &str) -> Self {
        let status =
            Status { state: "starting".into(), store: store.to_owned(), ..Status::default() };
        Board { status: watch::Sender::new(status) }
    }

    pub(crate) fn read(&self, now: Micros) -> Status {
        self.status.borrow().at(now)
    }

    pub(crate) fn listen(&self) -> watch::Receiver<Status> {
        self.status.subscribe()
    }

    pub(crate) fn identified(&self, stream: &str, cluster: &str) {
        self.status.send_modify(|status| {
            stream.clone_into(&mut status.stream);
            cluster.clone_into(&mut status.cluster);
        });
    }

    pub(crate) fn state(&self, state: &str) {
        self.status.send_modify(|status| state.clone_into(&mut status.state));
    }

    pub(crate) fn error(&self, at: Micros, kind: &str, message: String) {
        let error = LastError { at: at.to_rfc3339(), kind: kind.to_owned(), message };
        self.status.send_modify(|status| status.last_error = Some(error));
    }

    /// The probe has ended.
    pub(crate) fn probed(&self, at: Micros, report: &ProbeReport, external: bool) {
        let probe = StoreProbe::new(at, report, external);
        self.status.send_modify(|status| status.probe = Some(probe));
    }

    /// The store has answered what a turn needed.
    pub(crate) fn store_seen(&self, at: Micros) {
        // Nobody who listens waits for that.
        self.status.send_if_modified(|status| {
            status.store_seen = Some(at);
            false
        });
    }

    /// Position and shipped sizes move together, so that a hint never tells half of it.
    pub(crate) fn committed(&self, catalog: &Catalog) {
        self.status.send_modify(|status| {
            (status.seq, status.epoch) = (catalog.seq, catalog.epoch);
            for shard in &mut status.shards {
                let shipped = catalog.shards.get(&shard.shard).map_or(0, |found| found.size());
                shard.shipped = shipped;
                shard.lag_rows = shard.sealed.saturating_sub(shipped);
                if shard.lag_rows == 0 {
                    shard.oldest = None;
                }
            }
            status.count();
        });
    }

    /// What a scan found. Faults stay until they are judged again.
    pub(crate) fn scanned(&self, shards: impl Iterator<Item = ShardShipping>) {
        self.status.send_modify(|status| {
            let mut faults: BTreeMap<u16, Option<ShardFault>> =
                status.shards.drain(..).map(|shard| (shard.shard, shard.fault)).collect();
            let kept = |shard: ShardShipping| {
                let fault = faults.remove(&shard.shard).flatten();
                ShardShipping { fault, ..shard }
            };
            status.shards = shards.map(kept).collect();
            status.count();
        });
    }

    pub(crate) fn fault(&self, shard: u16, fault: Option<&Fault>) {
        let fault = fault.map(ShardFault::new);
        self.status.send_if_modified(|status| {
            let found = status.shards.iter_mut().find(|found| found.shard == shard);
            let Some(found) = found.filter(|found| found.fault != fault) else { return false };
            found.fault = fault;
            true
        });
    }
}
