//! The core that followers share: settled commits → snapshots, and the tasks that run.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sealcast_common::bucket::Store;
use sealcast_common::catalog::names::{STREAMS_PREFIX, is_stream_name};
use sealcast_common::catalog::{Catalog, Descriptor};
use sealcast_common::fault::Corruption;
use sealcast_common::seams::Seams;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::cache::Cache;
use crate::error::VaultError;
use crate::follow::Follower;
use crate::position::StreamFiles;
use crate::segments::{Block, Segments, append};
use crate::snapshot::{Commit, Fresh, Freshness, Logs, SegmentEntry, VaultSnapshot};
use crate::status::Board;
use crate::trust::Guard;
use crate::{VaultConfig, hints};

/// What [`crate::Vault`] is a handle of.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) config: VaultConfig,
    pub(crate) store: Store,
    pub(crate) seams: Seams,
    pub(crate) cache: Arc<Cache>,
    settled: Mutex<BTreeMap<String, Settled>>,
    /// Which stream ships a shard.
    owners: Mutex<BTreeMap<u16, String>>,
    current: watch::Sender<Arc<VaultSnapshot>>,
    pub(crate) boards: Arc<Boards>,
    pub(crate) guard: Arc<Guard>,
    /// Catalogs loaded from the local folder, until a follower takes them.
    local: Mutex<BTreeMap<String, Catalog>>,
    /// Why the streams are not known yet.
    pub(crate) discovery: Mutex<Option<String>>,
    _lock: File,
}

/// The followed streams.
pub(crate) type Boards = Mutex<BTreeMap<String, Arc<Board>>>;

/// What queries see of one stream.
#[derive(Debug, Default)]
struct Settled {
    commit: Commit,
    shards: BTreeMap<u16, Vec<Arc<Block>>>,
    logs: Logs,
}

/// A commit that has settled, and what it leads to.
#[derive(Debug)]
pub(crate) struct Advance {
    pub(crate) commit: Commit,
    /// The segments that no snapshot shows yet.
    pub(crate) added: Vec<Arc<SegmentEntry>>,
    /// All shards of the stream after it.
    pub(crate) logs: Logs,
}

impl Advance {
    /// To the state that `catalog` is.
    pub(crate) fn to(catalog: &Catalog, added: Vec<Arc<SegmentEntry>>) -> Self {
        let commit = Commit { seq: catalog.seq, hash: catalog.hash };
        Advance { commit, added, logs: catalog.shards.clone() }
    }
}

impl Core {
    /// Local state only.
    pub(crate) fn open(
        config: VaultConfig,
        store: Store,
        seams: Seams,
    ) -> Result<Arc<Self>, VaultError> {
        let failed = VaultError::folder(&config.dir);
        seams.files.create_dir(&config.dir).map_err(failed)?;
        let lock = lock_folder(&config)?;
        let cache = Arc::new(Cache::open(&config, store.clone(), seams.clone())?);
        let boards = Arc::<Boards>::default();
        let guard = Arc::new(Guard::open(&config, &store, &seams, &boards)?);
        let fresh = Fresh { boards: Arc::clone(&boards), streams: BTreeMap::new() };
        let nothing = (Segments::default(), Logs::new());
        let nothing = VaultSnapshot::new(0, BTreeMap::new(), nothing, fresh, Arc::clone(&cache));
        let core = Arc::new(Core {
            config,
            store,
            seams,
            cache,
            settled: Mutex::default(),
            owners: Mutex::default(),
            current: watch::Sender::new(Arc::new(nothing)),
            boards,
            guard,
            local: Mutex::default(),
            discovery: Mutex::default(),
            _lock: lock,
        });
        for stream in core.local_streams()? {
            core.load_local(&stream);
        }
        Ok(core)
    }

    /// Streams that were followed before, if they still are to be.
    fn local_streams(&self) -> Result<Vec<String>, VaultError> {
        let failed = |error| VaultError::folder(&self.config.dir)(error);
        let mut streams = Vec::new();
        for file in std::fs::read_dir(&self.config.dir).map_err(failed)? {
            let name = file.map_err(failed)?.file_name().to_string_lossy().into_owned();
            let Some(stream) = StreamFiles::stream_of(&name) else { continue };
            let wanted = &self.config.streams;
            if is_stream_name(stream) && (wanted.is_empty() || wanted.iter().any(|s| s == stream)) {
                streams.push(stream.to_owned());
            }
        }
        streams.sort_unstable();
        Ok(streams)
    }

    fn load_local(&self, stream: &str) {
        self.board(stream);
        let loaded = self.stream_files(stream).load_catalog().and_then(|catalog| {
            let claimed = catalog.as_ref().map_or(Ok(()), |c| self.claim_shards(stream, c));
            claimed.map(|()| catalog)
        });
        match loaded {
            Ok(Some(catalog)) => {
                let entries = self.new_entries(&catalog, None);
                self.publish(stream, Advance::to(&catalog, entries));
                self.local.lock().insert(stream.to_owned(), catalog);
            }
            Ok(None) => {}
            Err(corruption) => {
                tracing::warn!(stream, %corruption, "local catalog refused; read again");
            }
        }
    }

    pub(crate) fn take_local(&self, stream: &str) -> Option<Catalog> {
        self.local.lock().remove(stream)
    }

    pub(crate) fn stream_files(&self, stream: &str) -> StreamFiles {
        StreamFiles::new(self.config.dir.clone(), stream, Arc::clone(&self.seams.files))
    }

    pub(crate) fn board(&self, stream: &str) -> Arc<Board> {
        let new = || Arc::new(Board::new(Arc::clone(&self.seams.clock), self.config.poll_min_ms));
        Arc::clone(self.boards.lock().entry(stream.to_owned()).or_insert_with(new))
    }

    pub(crate) fn current(&self) -> Arc<VaultSnapshot> {
        Arc::clone(&self.current.borrow())
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Arc<VaultSnapshot>> {
        self.current.subscribe()
    }

    /// Entries for the segments that `catalog` has beyond `before`; local files are claimed.
    pub(crate) fn new_entries(
        &self,
        catalog: &Catalog,
        before: Option<&Catalog>,
    ) -> Vec<Arc<SegmentEntry>> {
        let mut entries = Vec::new();
        for (shard, segments) in &catalog.shards {
            let known = before.and_then(|before| before.shards.get(shard));
            let known = known.map_or(0, |shard| shard.segments.len());
            for (i, descriptor) in segments.segments.iter().enumerate().skip(known) {
                let previous: Option<&Descriptor> =
                    i.checked_sub(1).and_then(|i| segments.segments.get(i)).map(|d| &**d);
                let (stream, cluster) = (&catalog.stream, &catalog.cluster);
                let entry = SegmentEntry::new(stream, cluster, Arc::clone(descriptor), previous);
                let entry = Arc::new(entry);
                self.cache.adopt(&entry);
                entries.push(entry);
            }
        }
        entries
    }

    /// A shard has one writer for life, so it arrives by one stream: the first that brings it.
    pub(crate) fn claim_shards(&self, stream: &str, catalog: &Catalog) -> Result<(), Corruption> {
        let mut owners = self.owners.lock();
        for shard in catalog.shards.keys() {
            let owner = owners.entry(*shard).or_insert_with(|| stream.to_owned());
            if owner != stream {
                let expected = format!("shard {shard:04x} from stream {owner} only");
                return Err(Corruption::new("shard_owner", None, expected, stream));
            }
        }
        Ok(())
    }

    /// `advance` has settled: queries see it from now on.
    pub(crate) fn publish(&self, stream: &str, advance: Advance) {
        let mut settled = self.settled.lock();
        let ours = settled.entry(stream.to_owned()).or_default();
        ours.commit = advance.commit;
        for (shard, log) in advance.logs {
            let held = ours.logs.get(&shard).map_or(0, |held| held.size());
            if held <= log.size() {
                ours.logs.insert(shard, log);
            }
        }
        for entry in advance.added {
            let shard = ours.shards.entry(entry.descriptor.id.shard).or_default();
            // Never twice: a boot that starts again may bring what is shown already.
            let end = shard.last().map_or(0, |block| block.last().descriptor.end());
            if end <= entry.descriptor.id.start {
                append(shard, entry);
            }
        }
        let mut shards: Vec<_> = settled.values().flat_map(|stream| &stream.shards).collect();
        shards.sort_unstable_by_key(|(shard, _)| **shard);
        let blocks = shards.into_iter().flat_map(|(_, blocks)| blocks).map(Arc::clone);
        let segments = Segments::new(blocks.collect());
        let logs = settled.values().flat_map(|stream| &stream.logs);
        let logs: Logs = logs.map(|(shard, log)| (*shard, Arc::clone(log))).collect();
        let positions: BTreeMap<String, Commit> =
            settled.iter().map(|(name, stream)| (name.clone(), stream.commit)).collect();
        let before = self.current();
        let streams = positions.iter().map(|(name, commit)| {
            let board = self.board(name);
            let tail = board.notes.lock().tail;
            let tail = tail.filter(|(seq, _)| *seq == commit.seq).map(|(_, at)| at);
            // A newer snapshot holds whatever an older one held.
            let earlier =
                before.fresh.streams.get(name).and_then(|fresh| *fresh.complete_at.lock());
            let complete_at = Mutex::new(earlier.max(tail));
            (name.clone(), Freshness { board, complete_at })
        });
        let fresh = Fresh { boards: Arc::clone(&self.boards), streams: streams.collect() };
        let cache = Arc::clone(&self.cache);
        let version = before.version + 1;
        let snapshot = VaultSnapshot::new(version, positions, (segments, logs), fresh, cache);
        tracing::debug!(version, segments = snapshot.segments.len(), "snapshot published");
        metrics::gauge!("sealcast_replica_segments").set(snapshot.segments.len() as f64);
        self.current.send_replace(Arc::new(snapshot));
    }

    /// See [`crate::Vault::run`].
    pub(crate) async fn run(self: &Arc<Self>, stop: CancellationToken) -> Result<(), VaultError> {
        let mut tasks = JoinSet::new();
        tasks.spawn(Arc::clone(&self.guard).run(stop.clone()));
        tasks.spawn(Arc::clone(self).heal(stop.clone()));
        tasks.spawn(Arc::clone(self).prefetch(stop.clone()));
        let mut known: Vec<String> = self.boards.lock().keys().cloned().collect();
        known.extend(self.config.streams.iter().cloned());
        if self.config.streams.is_empty() {
            // Those that were trusted are looked for even if no listing names them any more.
            known.extend(self.guard.known().state().cluster.streams.keys().cloned());
        }
        known.sort_unstable();
        known.dedup();
        for stream in &known {
            self.start_stream(stream, &mut tasks, &stop)?;
        }
        if self.config.streams.is_empty() {
            let found = async {
                let found = self.discover().await;
                self.guard.sound().await;
                found
            };
            let found = stop.run_until_cancelled(found).await.unwrap_or_default();
            for stream in found.iter().filter(|name| !known.contains(name)) {
                self.start_stream(stream, &mut tasks, &stop)?;
            }
        }
        self.guard.streams_are_known();
        let ended = tokio::select! {
            () = stop.cancelled() => None,
            ended = tasks.join_next() => ended,
        };
        match ended {
            Some(Err(error)) => Err(VaultError::Task { reason: error.to_string() }),
            _ => {
                while tasks.join_next().await.is_some() {}
                Ok(())
            }
        }
    }

    fn start_stream(
        self: &Arc<Self>,
        stream: &str,
        tasks: &mut JoinSet<()>,
        stop: &CancellationToken,
    ) -> Result<(), VaultError> {
        let position = self.stream_files(stream).load_position()?;
        let follower = Follower::new(Arc::clone(self), stream, position);
        tasks.spawn(follower.run(stop.clone()));
        for base in &self.config.hints {
            let (stream, peer) = (stream.to_owned(), self.config.peer.clone());
            let listening = hints::listen(base.clone(), stream.clone(), self.board(&stream), peer);
            let stop = stop.clone();
            tasks.spawn(async move {
                let _stopped = stop.run_until_cancelled(listening).await;
            });
        }
        Ok(())
    }

    /// Boot's only listing, until it finds a stream.
    async fn discover(&self) -> Vec<String> {
        let mut wait = Duration::from_millis(self.config.poll_min_ms);
        loop {
            let reason = match self.store.list_folders(STREAMS_PREFIX).await {
                Ok(mut names) => {
                    names.retain(|name| is_stream_name(name));
                    if !names.is_empty() {
                        *self.discovery.lock() = None;
                        return names;
                    }
                    "no shipper has written to the store yet".to_owned()
                }
                Err(error) => error.to_string(),
            };
            *self.discovery.lock() = Some(reason);
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(Duration::from_millis(self.config.poll_max_ms));
        }
    }
}

fn lock_folder(config: &VaultConfig) -> Result<File, VaultError> {
    let path = config.dir.join("lock");
    let options = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
    let file = options.map_err(VaultError::folder(&path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => {
            Err(VaultError::InUse { path: config.dir.display().to_string() })
        }
        Err(std::fs::TryLockError::Error(source)) => Err(VaultError::folder(&path)(source)),
    }
}
