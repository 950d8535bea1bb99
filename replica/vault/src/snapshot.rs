//! What queries see: an unchanging list of segments, and the way to open each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use sealcast_common::catalog::{Descriptor, ShardCatalog};
use sealcast_common::cbor::Writer;
use sealcast_common::clock::Micros;
use sealcast_common::integrity::{Hash, empty_root, keyed_digest};
use sealcast_common::segment::{Seal, SegmentName};
use sealcast_common::wire::Vector;
use serde::Serialize;

use crate::admit::VerifiedSegment;
use crate::cache::Cache;
use crate::error::OpenError;
use crate::evict::Charge;
use crate::publish::Boards;
use crate::segments::Segments;
use crate::sigbus::MapWatch;
use crate::status::{Board, Lag};

/// Where a segment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SegmentState {
    /// In the object store only.
    Absent,
    /// On its way: fetched and judged.
    Fetching,
    /// On the local disk.
    Local,
    /// On the local disk and mapped.
    Mapped,
    /// Its bytes are bad; retried.
    Quarantined,
}

/// One committed segment: the same object in every snapshot that lists it.
#[derive(Debug)]
pub struct SegmentEntry {
    /// What the commit says.
    pub descriptor: Arc<Descriptor>,
    /// The stream that shipped it.
    pub stream: String,
    /// The cluster whose shard it is of.
    pub cluster: String,
    /// Root of the shard's tree before it, from the commit of its predecessor.
    pub(crate) root_before: Hash,
    /// Greatest `ingested_at` of its predecessor.
    pub(crate) ingested_after: Micros,
    pub(crate) seal: OnceLock<Arc<Seal>>,
    /// One opening at a time.
    pub(crate) flight: Arc<tokio::sync::Mutex<()>>,
    /// Used since the eviction hand last passed.
    pub(crate) visited: AtomicBool,
    pub(crate) slot: Mutex<Slot>,
}

/// The local side of an entry.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    pub(crate) state: Place,
    /// Its share of the budget while a file is there.
    pub(crate) charge: Option<Arc<Charge>>,
    /// The open segment, as long as anybody holds it.
    pub(crate) open: Weak<VerifiedSegment>,
    /// Keeps it open between queries.
    pub(crate) idle: Option<Arc<VerifiedSegment>>,
    /// Its place among the open ones, by last use.
    pub(crate) tick: u64,
    /// The file's BLAKE3 has been compared in this process.
    pub(crate) checked: bool,
}

/// [`SegmentState`] without the mapping, which `open` knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Place {
    #[default]
    Absent,
    Fetching,
    Local,
    Quarantined,
}

impl Slot {
    /// A page of the open map was lost: neither the map nor the file is believed any more.
    pub(crate) fn doubt(&mut self) {
        self.open = Weak::new();
        self.idle = None;
        self.checked = false;
    }

    /// Held by somebody else than the list of idle ones.
    pub(crate) fn is_held(&self) -> bool {
        self.open.strong_count() > usize::from(self.idle.is_some())
    }
}

impl SegmentEntry {
    /// The entry of `descriptor`, which follows `previous` in its shard.
    pub(crate) fn new(
        stream: &str,
        cluster: &str,
        descriptor: Arc<Descriptor>,
        previous: Option<&Descriptor>,
    ) -> Self {
        SegmentEntry {
            descriptor,
            stream: stream.to_owned(),
            cluster: cluster.to_owned(),
            root_before: previous.map_or_else(empty_root, |before| before.root_after),
            ingested_after: previous.map_or(Micros(i64::MIN), |before| before.ingested_at.1),
            seal: OnceLock::new(),
            flight: Arc::default(),
            visited: AtomicBool::new(false),
            slot: Mutex::default(),
        }
    }

    /// `<shard>/<name>`, as in errors and tables.
    pub fn name(&self) -> String {
        self.descriptor.id.to_text()
    }

    /// `<name>.seg`.
    pub(crate) fn file_name(&self) -> String {
        let id = &self.descriptor.id;
        SegmentName::new(id.start, id.rows, &id.hash).file_name()
    }

    /// What the footer says, once it has been opened in this process. No input or output.
    pub fn seal(&self) -> Option<Arc<Seal>> {
        self.seal.get().cloned()
    }

    /// Where it is now.
    pub fn state(&self) -> SegmentState {
        let slot = self.slot.lock();
        match slot.state {
            Place::Local if slot.open.strong_count() > 0 => SegmentState::Mapped,
            Place::Local => SegmentState::Local,
            Place::Absent => SegmentState::Absent,
            Place::Fetching => SegmentState::Fetching,
            Place::Quarantined => SegmentState::Quarantined,
        }
    }
}

/// A place in a stream's log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Commit {
    /// Its number; 0 is before the first.
    pub seq: u64,
    /// BLAKE3 of its object.
    pub hash: [u8; 32],
}

/// A catalog version. A query is pinned to one; what it opens stays mapped until it is dropped.
#[derive(Debug)]
pub struct VaultSnapshot {
    /// Counts up in one process.
    pub version: u64,
    /// `{shard → size}`.
    pub vector: Vector,
    /// Digest of the positions and their commits, which name every byte before them: the same
    /// contents have the same one on every replica, and nobody guesses it who has not read them.
    pub digest: [u8; 32],
    /// `{stream → last commit}`.
    pub positions: BTreeMap<String, Commit>,
    /// All committed and settled segments, by shard and start.
    pub segments: Segments,
    /// The clusters whose shards these are; one, usually.
    pub clusters: BTreeSet<String>,
    /// By shard: those segments, with the checkpoint that was signed after the last one; more of
    /// them where the snapshot is one of before.
    pub(crate) logs: Logs,
    pub(crate) fresh: Arc<Fresh>,
    pub(crate) cache: Arc<Cache>,
}

/// What has been committed of each shard.
pub(crate) type Logs = BTreeMap<u16, Arc<ShardCatalog>>;

/// What a snapshot knows of its own age.
#[derive(Debug)]
pub(crate) struct Fresh {
    /// All streams that are followed now, also those of which it has nothing yet.
    pub(crate) boards: Arc<Boards>,
    pub(crate) streams: BTreeMap<String, Freshness>,
}

/// When a snapshot last held everything of one stream.
#[derive(Debug)]
pub(crate) struct Freshness {
    pub(crate) board: Arc<Board>,
    pub(crate) complete_at: Mutex<Option<Duration>>,
}

impl VaultSnapshot {
    pub(crate) fn new(
        version: u64,
        positions: BTreeMap<String, Commit>,
        (segments, logs): (Segments, Logs),
        fresh: Fresh,
        cache: Arc<Cache>,
    ) -> Self {
        let (vector, clusters) = contents(&segments);
        let (digest, fresh) = (digest(&positions), Arc::new(fresh));
        VaultSnapshot { version, vector, digest, positions, segments, clusters, logs, fresh, cache }
    }

    /// Opens a segment: local → mapped; absent → fetched, verified and mapped, once for all who
    /// ask; quarantined → an error that names segment and check. Dropping the future stops no
    /// fetch that others wait for.
    pub async fn open(&self, entry: &Arc<SegmentEntry>) -> Result<Arc<VerifiedSegment>, OpenError> {
        if entry.slot.lock().state == Place::Local {
            entry.visited.store(true, Ordering::Relaxed);
        }
        self.cache.open_entry(entry).await
    }

    /// An error that names the segment if a page read through `watch` was lost: whatever was made
    /// of the segment's buffers may be wrong. To be asked after reading and before believing; the
    /// file is judged again at once.
    pub fn check(&self, entry: &Arc<SegmentEntry>, watch: &MapWatch) -> Result<(), OpenError> {
        self.cache.check(entry, watch)
    }

    /// Whether every followed stream has been read at least once, here or in an earlier life. Before
    /// that, no rows and no answer are the same thing.
    pub fn has_begun(&self) -> bool {
        let read = |name: &String| self.fresh.streams.contains_key(name);
        !self.fresh.streams.is_empty() && self.fresh.boards.lock().keys().all(read)
    }

    /// How far this snapshot may be behind the store: the worst of all streams that are followed.
    pub fn lag(&self) -> Lag {
        let followed = self.fresh.boards.lock().keys().all(|n| self.fresh.streams.contains_key(n));
        if !followed {
            return Lag::Unknown;
        }
        let lags = self.fresh.streams.values();
        let lags = lags.map(|fresh| fresh.board.lag_since(*fresh.complete_at.lock()));
        lags.reduce(Lag::max).unwrap_or(Lag::Unknown)
    }

    /// A probe asked at `at` found nothing after `seq`.
    pub(crate) fn note_complete(&self, stream: &str, seq: u64, at: Duration) {
        if self.positions.get(stream).is_some_and(|commit| commit.seq == seq)
            && let Some(fresh) = self.fresh.streams.get(stream)
        {
            *fresh.complete_at.lock() = Some(at);
        }
    }
}

/// The sizes of the shards of `segments`, and their clusters.
pub(crate) fn contents(segments: &Segments) -> (Vector, BTreeSet<String>) {
    let (mut vector, mut clusters) = (Vector::new(), BTreeSet::new());
    for last in segments.blocks().iter().map(|block| block.last()) {
        vector.insert(last.descriptor.id.shard, last.descriptor.end());
        if !clusters.contains(&last.cluster) {
            clusters.insert(last.cluster.clone());
        }
    }
    (vector, clusters)
}

fn digest(positions: &BTreeMap<String, Commit>) -> [u8; 32] {
    let mut out = Writer::new();
    out.map(positions.len());
    for (stream, commit) in positions {
        out.text(stream).uint(commit.seq).bytes(&commit.hash);
    }
    keyed_digest("vault snapshot", &out.finish())
}
