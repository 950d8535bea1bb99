//! The replica: follows the object store, keeps what it has verified, answers SQL over it.
//!
//! Reading order: [`config`], this file (starting and stopping), `sealcast-vault` (bytes → verified
//! segments), [`sql`] (segments → rows), `pages` (the same without SQL), `serve` (rows → HTTP), `flight` (rows → Arrow Flight),
//! `postgres` (rows → PostgreSQL's protocol),
//! [`queries`]. It never sees a
//! writer's tail, and nothing that the vault has not verified.

pub mod config;
mod embed;
mod flight;
mod metrics;
mod opaque;
mod pages;
mod postgres;
pub mod queries;
mod serve;
pub mod sql;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

pub use config::{Args, Config, SettingError};
pub use opaque::SecretError;
pub use serve::openapi;

use sealcast_common::bucket::{Store, StoreError};
use sealcast_common::clock::Clock;
use sealcast_common::fault::hex;
pub use sealcast_common::seams::Seams;
use sealcast_common::serve::{Bound, Health, ServeError, serve};
use sealcast_vault::{Vault, VaultError};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::flight::Tickets;
use crate::opaque::Secret;
use crate::pages::CursorKey;
use crate::queries::Queries;
use crate::serve::{Gate, Node, router};
use crate::sql::{Engine, EngineError, Limits};

/// How often readiness is taken over from the vault.
const READINESS_EVERY: Duration = Duration::from_millis(100);

/// Stack of a thread that plans and runs queries, bytes. The engine walks expressions recursively,
/// and what `sql::statement` admits must fit; only touched pages cost memory.
const QUERY_STACK_BYTES: usize = 64 * 1024 * 1024;

/// Why a replica does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A setting outside its range.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The store's location is no store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The vault's folder or settings.
    #[error(transparent)]
    Vault(#[from] VaultError),
    /// The SQL engine.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The address.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// What cursors and tickets are wrapped with.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The threads of queries.
    #[error("query threads cannot be started: {0}")]
    Threads(io::Error),
    /// The replica's own folder.
    #[error("replica folder {path} cannot be used: {source}")]
    Folder {
        /// The file or folder.
        path: String,
        /// The system's word.
        source: io::Error,
    },
}

/// Why a running replica ended.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The vault's folder failed.
    #[error(transparent)]
    Vault(#[from] VaultError),
    /// A part of the replica broke.
    #[error("replica stopped: {0}")]
    Broken(#[from] tokio::task::JoinError),
}

/// How a replica ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was told to.
    Stopped,
}

/// A running replica.
#[derive(Debug)]
pub struct Handle {
    /// Where it listens.
    pub http: SocketAddr,
    /// Where it listens for Flight alone; HTTP's port serves it too.
    pub flight: Option<SocketAddr>,
    /// Where it listens for PostgreSQL's protocol.
    pub postgres: Option<SocketAddr>,
    /// Why it is not ready.
    pub health: Health,
    /// What it follows and holds.
    pub vault: Vault,
    node: Arc<Node>,
    tasks: JoinSet<Result<(), RunError>>,
    queries: TaskTracker,
    threads: QueryThreads,
    stop: CancellationToken,
}

/// The threads of queries, apart from those that answer probes: a busy node stays alive.
#[derive(Debug)]
struct QueryThreads(Option<Runtime>);

impl QueryThreads {
    fn start(workers: usize) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(workers.max(2))
            .thread_stack_size(QUERY_STACK_BYTES)
            .thread_name("sealcast-query")
            .enable_all()
            .build()?;
        Ok(QueryThreads(Some(runtime)))
    }

    fn handle(&self) -> io::Result<tokio::runtime::Handle> {
        let runtime =
            self.0.as_ref().ok_or_else(|| io::Error::other("query threads have ended"))?;
        Ok(runtime.handle().clone())
    }
}

impl Drop for QueryThreads {
    fn drop(&mut self) {
        // Waiting for threads is not allowed here; what still runs ends at its next step.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Handle {
    /// Completes when everything has ended. The first failure stops the rest.
    pub async fn join(mut self) -> Result<Ended, RunError> {
        let mut first = Ok(Ended::Stopped);
        while let Some(ended) = self.tasks.join_next().await {
            self.stop.cancel();
            if let Err(error) = ended.unwrap_or_else(|error| Err(error.into()))
                && first.is_ok()
            {
                first = Err(error);
            }
        }
        self.queries.close();
        drop(self.threads);
        tracing::info!("replica stopped");
        first
    }
}

/// Starts a replica. What was verified before is served at once; the store may be away.
pub async fn start(
    config: Config,
    seams: Seams,
    stop: CancellationToken,
) -> Result<Handle, StartError> {
    config.check()?;
    let store = Store::open(&config.store)?;
    start_on(store, config, seams, stop).await
}

/// Starts a replica on an opened store: tests count, delay and break it this way.
pub async fn start_on(
    store: Store,
    config: Config,
    seams: Seams,
    stop: CancellationToken,
) -> Result<Handle, StartError> {
    config.check()?;
    // First of all: it locks the folder, whose other files are ours from then on.
    let vault = Vault::open(config.vault(), store.clone(), seams.clone()).await?;
    let spill = config.dir.join("spill");
    // What an earlier process spilled is of no use to anybody.
    if spill.is_dir() {
        std::fs::remove_dir_all(&spill).map_err(folder(&spill))?;
    }
    seams.files.create_dir(&spill).map_err(folder(&spill))?;
    let id = match &config.id {
        Some(id) => id.clone(),
        None => kept_id(&config.dir, &seams)?,
    };
    let engine = Engine::new(&Limits {
        memory_bytes: config.memory_bytes,
        query_memory_bytes: config.query_memory_bytes.min(config.memory_bytes),
        spill_dir: spill,
        spill_bytes: config.spill_bytes,
        partitions: config.partitions(),
    })?;
    let threads = QueryThreads::start(config.partitions()).map_err(StartError::Threads)?;
    let health = Health::starting();
    let secret = Secret::load(config.opaque_key_file.as_deref(), &*seams.random)?;
    let mut bound = vec![config.access.bind(&config.http, &seams, &health).await?];
    if let Some(address) = config.flight_address() {
        bound.push(config.access.bind(address, &seams, &health).await?);
    }
    let of_postgres = match config.postgres_address() {
        Some(address) => Some(config.access.bind(address, &seams, &health).await?),
        None => None,
    };
    let queries = TaskTracker::new();
    let node = Arc::new(Node {
        id,
        started_at: seams.clock.now(),
        clock: Arc::clone(&seams.clock),
        gate: Gate::new(&config),
        cursor_key: CursorKey::new(&secret),
        queries: Arc::new(Queries::new(Arc::clone(&seams.clock), Arc::clone(&seams.random))),
        tasks: queries.clone(),
        quiet_ms: AtomicU64::new(0),
        threads: threads.handle().map_err(StartError::Threads)?,
        config,
        vault: vault.clone(),
        engine,
        tickets: Tickets::new(&secret),
        health: health.clone(),
    });
    let addresses: Vec<SocketAddr> = bound.iter().map(|bound| bound.address).collect();
    let (http, flight) = (addresses[0], addresses.get(1).copied());
    let postgres = of_postgres.as_ref().map(|bound| bound.address);
    let mut tasks = JoinSet::new();
    spawn_all(&mut tasks, &node, (bound, of_postgres), (&seams, &stop));
    tracing::info!(replica = %node.id, %http, ?flight, ?postgres, store = store.name(), "replica started");
    Ok(Handle { http, flight, postgres, health, vault, node, tasks, queries, threads, stop })
}

/// Server first, vault last: queries end before what they read goes away.
fn spawn_all(
    tasks: &mut JoinSet<Result<(), RunError>>,
    node: &Arc<Node>,
    (bound, of_postgres): (Vec<Bound>, Option<Bound>),
    (seams, stop): (&Seams, &CancellationToken),
) {
    let served = CancellationToken::new();
    let (delay, drain) = (node.config.drain_delay_ms, node.config.drain_ms);
    tasks.spawn({
        let (node, stop, served) = (Arc::clone(node), stop.clone(), served.clone());
        let random = Arc::clone(&seams.random);
        async move {
            let _ended = served.drop_guard();
            let closing = CancellationToken::new();
            let draining = async {
                stop.cancelled().await;
                node.health.not_ready("draining", "the replica is stopping");
                tracing::info!("replica draining");
                tokio::time::sleep(Duration::from_millis(delay)).await;
                closing.cancel();
            };
            let routers = [router(Arc::clone(&node)), flight::router(&node)];
            let serving = bound.into_iter().zip(routers).map(|(bound, router)| {
                serve(bound, router, closing.clone(), Duration::from_millis(drain))
            });
            let answering = async {
                if let Some(bound) = of_postgres {
                    let (node, drain) = (Arc::clone(&node), Duration::from_millis(drain));
                    postgres::serve(node, random, bound, closing.clone(), drain).await;
                }
            };
            tokio::join!(draining, futures::future::join_all(serving), answering);
            Ok(())
        }
    });
    tasks.spawn({
        let (vault, served) = (node.vault.clone(), served.clone());
        async move { Ok(vault.run(served).await?) }
    });
    tasks.spawn(watch_readiness(Arc::clone(node), Arc::clone(&seams.clock), served));
}

/// Takes the vault's reasons over, and samples what queries hold: level-triggered, so that none is
/// ever missed or kept.
async fn watch_readiness(
    node: Arc<Node>,
    clock: Arc<dyn Clock>,
    stop: CancellationToken,
) -> Result<(), RunError> {
    let began = clock.monotonic();
    let mut stated: BTreeSet<String> = BTreeSet::new();
    loop {
        let status = node.vault.status();
        let uptime = clock.monotonic().saturating_sub(began);
        node.note_quiet(&status, u64::try_from(uptime.as_millis()).unwrap_or(u64::MAX));
        let reasons = status.not_ready;
        for (name, reason) in &reasons {
            node.health.not_ready(name, reason.clone());
        }
        for (name, note) in &status.notes {
            node.health.note(name, note.clone());
        }
        let tells = |name: &String| reasons.contains_key(name) || status.notes.contains_key(name);
        for name in stated.iter().filter(|name| !tells(name)) {
            node.health.clear(name);
        }
        let (engine, threads) = (&node.engine, node.threads.metrics());
        let tasks = threads.num_alive_tasks();
        metrics::queries_hold(engine.reserved_bytes(), engine.spilled_bytes(), tasks);
        stated = reasons.into_keys().chain(status.notes.into_keys()).collect();
        node.health.clear("starting");
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = tokio::time::sleep(READINESS_EVERY) => {}
        }
    }
}

fn folder(path: &Path) -> impl FnOnce(io::Error) -> StartError {
    let path = path.display().to_string();
    move |source| StartError::Folder { path, source }
}

/// The name in `replica.id`, made once.
fn kept_id(dir: &Path, seams: &Seams) -> Result<String, StartError> {
    let path = dir.join("replica.id");
    match std::fs::read_to_string(&path) {
        Ok(id) if !id.trim().is_empty() => return Ok(id.trim().to_owned()),
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(folder(&path)(error)),
        _ => {}
    }
    let id = format!("replica-{}", hex(&seams.random.bytes16()[..4]));
    seams.files.replace(&path, id.as_bytes()).map_err(folder(&path))?;
    Ok(id)
}
