//! The local copy of segments: absent → fetched → judged → local ⇄ mapped → evicted.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use sealcast_common::bucket::{Store, TileCache};
use sealcast_common::fault::Corruption;
use sealcast_common::seams::Seams;
use sealcast_common::segment::SegmentName;
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use crate::VaultConfig;
use crate::admit::{
    Paths, Rejected, VerifiedSegment, admit_file, admit_object, check_read, move_evidence,
};
use crate::error::{OpenError, VaultError};
use crate::evict::{Charge, Rights, Shelf, forget_file};
use crate::fetch::fetch_object;
use crate::quarantine::Quarantine;
use crate::sigbus::MapWatch;
use crate::snapshot::{Place, SegmentEntry};
use crate::verified::VerifiedIndex;

/// Maps at most, whatever the system allows.
const MAPS_MAX: usize = 16_384;
/// How long an opening waits for one of them when queries hold all.
const MAPS_WAIT: Duration = Duration::from_secs(5);
const MAPS_LOOK_EVERY: Duration = Duration::from_millis(20);

/// Tiles that are kept for the next proof, bytes.
const TILE_CACHE_BYTES: usize = 32 * 1024 * 1024;

/// Everything local, shared by all snapshots.
#[derive(Debug)]
pub(crate) struct Cache {
    segments: PathBuf,
    bad: PathBuf,
    budget: u64,
    pub(crate) store: Store,
    /// Of the logs' tiles.
    pub(crate) tiles: TileCache,
    seams: Seams,
    account: Arc<AtomicU64>,
    shelf: Mutex<Shelf>,
    pub(crate) quarantine: Quarantine,
    verified: VerifiedIndex,
    /// Files found at start that no entry has claimed yet: name → length.
    found: Mutex<HashMap<String, u64>>,
    fetches: Semaphore,
    judges: Semaphore,
    temporaries: AtomicU64,
    pub(crate) maps_max: usize,
    /// One permit a map, held until it is unmapped.
    pub(crate) maps: Arc<Semaphore>,
    /// Flights outlive the queries that began them.
    pub(crate) flights: TaskTracker,
}

impl Cache {
    /// Finds what is local already. No segment is opened.
    pub(crate) fn open(
        config: &VaultConfig,
        store: Store,
        seams: Seams,
    ) -> Result<Self, VaultError> {
        let (segments, bad) = (config.dir.join("segments"), config.dir.join("quarantine"));
        for folder in [&segments, &bad] {
            seams.files.create_dir(folder).map_err(VaultError::folder(folder))?;
        }
        let found = scan(&segments, &seams).map_err(VaultError::folder(&segments))?;
        let verified =
            VerifiedIndex::open(&config.dir, &*seams.files, |name| found.contains_key(name))
                .map_err(VaultError::folder(&config.dir))?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let maps_max = maps_max();
        Ok(Cache {
            segments,
            bad,
            budget: config.cache_bytes,
            store,
            tiles: TileCache::new(TILE_CACHE_BYTES),
            account: Arc::default(),
            shelf: Mutex::default(),
            quarantine: Quarantine::new(Arc::clone(&seams.clock)),
            seams,
            verified,
            found: Mutex::new(found),
            fetches: Semaphore::new(config.fetch_parallel),
            judges: Semaphore::new(cores),
            temporaries: AtomicU64::new(0),
            maps_max,
            maps: Arc::new(Semaphore::new(maps_max)),
            flights: TaskTracker::new(),
        })
    }

    /// A new entry takes the file that was found for it, if there is one.
    pub(crate) fn adopt(&self, entry: &Arc<SegmentEntry>) {
        let mut found = self.found.lock();
        if found.is_empty() || found.remove(&local_name(entry)).is_none() {
            return;
        }
        drop(found);
        let charge = Charge::take(&self.account, entry.descriptor.bytes);
        let mut shelf = self.shelf.lock();
        let mut slot = entry.slot.lock();
        (slot.state, slot.charge) = (Place::Local, Some(charge));
        drop(slot);
        shelf.add(entry);
    }

    /// All streams are known: what no entry claims belongs to none.
    pub(crate) fn sweep(&self) {
        for (name, bytes) in self.found.lock().drain() {
            tracing::info!(file = name, bytes, "local file of no segment removed");
            if let Err(error) = self.seams.files.remove(&self.segments.join(&name)) {
                tracing::warn!(file = name, %error, "local file not removed");
            }
        }
    }

    /// See [`crate::VaultSnapshot::open`].
    pub(crate) async fn open_entry(
        self: &Arc<Self>,
        entry: &Arc<SegmentEntry>,
    ) -> Result<Arc<VerifiedSegment>, OpenError> {
        if let Some(open) = self.opened(entry) {
            return Ok(open);
        }
        let flight = Arc::clone(&entry.flight).lock_owned().await;
        if let Some(open) = self.opened(entry) {
            return Ok(open);
        }
        // A task of its own: a query that goes away leaves no half-done file to the next one.
        let (cache, ours) = (Arc::clone(self), Arc::clone(entry));
        let task = self.flights.spawn(async move {
            let result = cache.open_alone(&ours).await;
            drop(flight);
            result
        });
        task.await.unwrap_or_else(|error| Err(OpenError::local(entry.name(), error)))
    }

    fn opened(&self, entry: &Arc<SegmentEntry>) -> Option<Arc<VerifiedSegment>> {
        let mut shelf = self.shelf.lock();
        let open = entry.slot.lock().open.upgrade()?;
        if open.watch().fault().is_some() {
            // Not as good as thought: the file is compared as a whole before it is used again.
            shelf.close(entry);
            entry.slot.lock().doubt();
            return None;
        }
        entry.slot.lock().idle = Some(Arc::clone(&open));
        shelf.touch(entry);
        Some(open)
    }

    /// An error if a page that was read through `watch` could not be loaded. Then the file is judged
    /// at once: kept as evidence and fetched again, if it is bad.
    pub(crate) fn check(
        self: &Arc<Self>,
        entry: &Arc<SegmentEntry>,
        watch: &MapWatch,
    ) -> Result<(), OpenError> {
        let Err(corruption) = check_read(watch) else { return Ok(()) };
        let corruption = corruption.in_object(local_name(entry));
        let offset = corruption.offset;
        tracing::warn!(segment = entry.name(), offset, "mapped page lost");
        metrics::counter!("sealcast_replica_lost_pages_total").increment(1);
        entry.slot.lock().checked = false;
        let (cache, ours) = (Arc::clone(self), Arc::clone(entry));
        self.flights.spawn(async move {
            // What comes of it is logged, and seen by the next who opens it.
            let _judged = cache.open_entry(&ours).await;
        });
        Err(OpenError::Quarantined { segment: entry.name(), corruption: Box::new(corruption) })
    }

    /// The right to one more map. Idle ones give way; when queries hold all, this waits a little.
    async fn map_rights(
        &self,
        entry: &Arc<SegmentEntry>,
        charge: Arc<Charge>,
    ) -> Result<Rights, OpenError> {
        let start = self.seams.clock.monotonic();
        loop {
            if let Ok(permit) = Arc::clone(&self.maps).try_acquire_owned() {
                return Ok(Rights { _charge: charge, _map: permit });
            }
            self.shelf.lock().close_one();
            if self.maps.available_permits() > 0 {
                continue;
            }
            if self.seams.clock.monotonic().saturating_sub(start) >= MAPS_WAIT {
                return Err(OpenError::Maps { segment: entry.name(), max: self.maps_max });
            }
            tokio::time::sleep(MAPS_LOOK_EVERY).await;
        }
    }

    async fn open_alone(
        self: &Arc<Self>,
        entry: &Arc<SegmentEntry>,
    ) -> Result<Arc<VerifiedSegment>, OpenError> {
        self.quarantine.refuse_until_due(entry)?;
        let charge = entry.slot.lock().charge.clone();
        if let Some(charge) = charge {
            let rights = self.map_rights(entry, charge).await?;
            match self.judge_local(entry, rights).await {
                Ok(segment) => return Ok(self.keep(entry, segment, None)),
                Err(Rejected::Bytes(corruption)) => self.drop_local(entry, Some(&corruption)),
                Err(Rejected::Disk(error)) if error.kind() == io::ErrorKind::NotFound => {
                    self.drop_local(entry, None);
                }
                Err(Rejected::Disk(error)) => return Err(OpenError::local(entry.name(), error)),
                Err(Rejected::Store(reason)) => {
                    return Err(OpenError::Unavailable { segment: entry.name(), reason });
                }
            }
        }
        let charge = self.reserve(entry.descriptor.bytes);
        let rights = self.map_rights(entry, Arc::clone(&charge)).await?;
        entry.slot.lock().state = Place::Fetching;
        let error = match self.fetch(entry, rights).await {
            Ok(segment) => return Ok(self.keep(entry, segment, Some(charge))),
            Err(Rejected::Bytes(corruption)) => {
                self.quarantine.add(entry, &corruption);
                OpenError::Quarantined { segment: entry.name(), corruption: Box::new(corruption) }
            }
            Err(Rejected::Store(reason)) => {
                OpenError::Unavailable { segment: entry.name(), reason }
            }
            Err(Rejected::Disk(error)) => OpenError::local(entry.name(), error),
        };
        let bad = matches!(error, OpenError::Quarantined { .. }) || self.quarantine.postpone(entry);
        entry.slot.lock().state = if bad { Place::Quarantined } else { Place::Absent };
        Err(error)
    }

    async fn judge_local(
        self: &Arc<Self>,
        entry: &Arc<SegmentEntry>,
        rights: Rights,
    ) -> Result<VerifiedSegment, Rejected> {
        let name = local_name(entry);
        let path = self.segments.join(&name);
        let known = (self.verified.holds(&name), entry.slot.lock().checked);
        let ours = Arc::clone(entry);
        self.judging(move || admit_file(&ours, &path, rights, known)).await
    }

    async fn fetch(
        self: &Arc<Self>,
        entry: &Arc<SegmentEntry>,
        rights: Rights,
    ) -> Result<VerifiedSegment, Rejected> {
        // The permit lasts until the bytes are judged: it bounds the objects in memory as well.
        let _permit = self.fetches.acquire().await;
        let object = fetch_object(&self.store, &entry.descriptor).await?;
        let name = local_name(entry);
        let number = self.temporaries.fetch_add(1, Ordering::Relaxed);
        let file = self.segments.join(&name);
        let paths = Paths {
            temporary: file.with_extension(format!("{number}.tmp")),
            quarantine: self.bad.join(name.replace('/', "-")),
            file,
        };
        if let Some(folder) = paths.file.parent() {
            self.seams.files.create_dir(folder)?;
        }
        let (cache, ours) = (Arc::clone(self), Arc::clone(entry));
        let segment = self
            .judging(move || {
                let files = &*cache.seams.files;
                let segment = admit_object(&ours, &object, &paths, rights, files)?;
                cache.verified.add(&name);
                Ok(segment)
            })
            .await?;
        metrics::counter!("sealcast_replica_segments_admitted_total").increment(1);
        let (segment_name, rows) = (entry.name(), entry.descriptor.id.rows);
        let bytes = entry.descriptor.bytes;
        tracing::info!(segment = segment_name, rows, bytes, "segment admitted");
        Ok(segment)
    }

    /// Judges on a thread that may block, one per core at most.
    async fn judging(
        &self,
        judge: impl FnOnce() -> Result<VerifiedSegment, Rejected> + Send + 'static,
    ) -> Result<VerifiedSegment, Rejected> {
        let _permit = self.judges.acquire().await;
        let start = self.seams.clock.monotonic();
        let judged = tokio::task::spawn_blocking(judge).await;
        let took = self.seams.clock.monotonic().saturating_sub(start);
        metrics::histogram!("sealcast_replica_verify_seconds").record(took.as_secs_f64());
        // Bytes that break the judge are as bad as those that fail it.
        judged.unwrap_or_else(|error| {
            if error.is_cancelled() {
                return Err(Rejected::Disk(io::Error::other("the process is stopping")));
            }
            let expected = "bytes that can be judged";
            Err(Rejected::Bytes(Corruption::new("read", None, expected, error.to_string())))
        })
    }

    /// A judged segment becomes local and stays open until others are used more.
    fn keep(
        &self,
        entry: &Arc<SegmentEntry>,
        segment: VerifiedSegment,
        charge: Option<Arc<Charge>>,
    ) -> Arc<VerifiedSegment> {
        let segment = Arc::new(segment);
        entry.seal.get_or_init(|| Arc::clone(segment.seal()));
        if self.quarantine.release(entry) {
            tracing::info!(segment = entry.name(), "segment healed");
        }
        let mut shelf = self.shelf.lock();
        let mut slot = entry.slot.lock();
        let is_new = slot.state != Place::Local;
        slot.state = Place::Local;
        slot.checked = true;
        slot.open = Arc::downgrade(&segment);
        slot.idle = Some(Arc::clone(&segment));
        if charge.is_some() {
            slot.charge = charge;
        }
        drop(slot);
        if is_new {
            shelf.add(entry);
        }
        shelf.touch(entry);
        shelf.trim_open(self.maps_max);
        metrics::gauge!("sealcast_replica_maps").set(shelf.open_count() as f64);
        drop(shelf);
        if is_new {
            // Several that arrived at the same time had nothing to evict but each other.
            self.make_room(0);
        }
        metrics::gauge!("sealcast_replica_cache_bytes").set(self.used_bytes() as f64);
        segment
    }

    /// A local file turned out to be bad (kept as evidence) or gone: fetched again at once.
    fn drop_local(&self, entry: &Arc<SegmentEntry>, corruption: Option<&Corruption>) {
        let name = local_name(entry);
        self.shelf.lock().remove(entry);
        forget_file(entry, Place::Absent);
        self.verified.remove(&name);
        let Some(corruption) = corruption else {
            tracing::warn!(segment = entry.name(), "local file was gone");
            return;
        };
        metrics::counter!("sealcast_replica_segments_quarantined_total").increment(1);
        let (check, offset) = (corruption.check, corruption.offset);
        tracing::warn!(segment = entry.name(), check, offset, "segment quarantined");
        let kept = self.bad.join(format!("{}.local", name.replace('/', "-")));
        move_evidence(&*self.seams.files, &self.segments.join(&name), &kept);
    }

    /// Room for a file, before it is fetched. If nothing more can go, the budget is exceeded for a
    /// while: a segment that a query wants is served, however large.
    fn reserve(&self, bytes: u64) -> Arc<Charge> {
        self.make_room(bytes);
        Charge::take(&self.account, bytes)
    }

    /// Evicts until `bytes` more fit, or nothing is left that may go.
    pub(crate) fn make_room(&self, bytes: u64) {
        let mut excess = (self.used_bytes() + bytes).saturating_sub(self.budget);
        let mut shelf = self.shelf.lock();
        while excess > 0 {
            let Some((entry, _flight)) = shelf.next_victim() else {
                metrics::counter!("sealcast_replica_cache_exceeded_total").increment(1);
                tracing::debug!(excess, "cache budget exceeded");
                return;
            };
            let name = local_name(&entry);
            forget_file(&entry, Place::Absent);
            self.verified.remove(&name);
            // Unlinked at once; the pages of one that is still mapped go with its last reader.
            if let Err(error) = self.seams.files.remove(&self.segments.join(&name)) {
                tracing::warn!(segment = entry.name(), %error, "local file not removed");
            }
            metrics::counter!("sealcast_replica_segments_evicted_total").increment(1);
            tracing::debug!(segment = entry.name(), "segment evicted");
            excess = excess.saturating_sub(entry.descriptor.bytes);
        }
    }

    /// Bytes that fit without evicting anything.
    pub(crate) fn room(&self) -> u64 {
        self.budget.saturating_sub(self.used_bytes())
    }

    pub(crate) fn used_bytes(&self) -> u64 {
        self.account.load(Ordering::Relaxed)
    }

    /// (local segments, open maps).
    pub(crate) fn counts(&self) -> (usize, usize) {
        let shelf = self.shelf.lock();
        (shelf.local_count(), shelf.open_count())
    }
}

/// `<shard>/<name>.seg`, under `segments/`.
fn local_name(entry: &SegmentEntry) -> String {
    format!("{:04x}/{}", entry.descriptor.id.shard, entry.file_name())
}

/// Segment files by name; leftovers of a crash are removed.
fn scan(root: &Path, seams: &Seams) -> io::Result<HashMap<String, u64>> {
    let mut found = HashMap::new();
    for shard in std::fs::read_dir(root)? {
        let shard = shard?;
        if !shard.file_type()?.is_dir() {
            continue;
        }
        for file in std::fs::read_dir(shard.path())? {
            let file = file?;
            let name = file.file_name().to_string_lossy().into_owned();
            if name.ends_with(".tmp") {
                seams.files.remove(&file.path())?;
            } else if SegmentName::parse(&name).is_some() {
                let folder = shard.file_name().to_string_lossy().into_owned();
                found.insert(format!("{folder}/{name}"), file.metadata()?.len());
            }
        }
    }
    Ok(found)
}

/// A quarter of what the system allows a process, at most [`MAPS_MAX`].
fn maps_max() -> usize {
    let allowed = std::fs::read_to_string("/proc/sys/vm/max_map_count").ok();
    let allowed = allowed.and_then(|text| text.trim().parse::<usize>().ok());
    allowed.map_or(MAPS_MAX, |allowed| (allowed / 4).clamp(1, MAPS_MAX))
}
