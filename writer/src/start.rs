//! Starting and stopping: lock, recover, serve; at the end drain, sync, seal.

use std::net::SocketAddr;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use sealcast_common::integrity::SeedError;
use sealcast_common::seams::Seams;
use sealcast_common::serve::{Bound, Health, ServeError, serve};
use sealcast_common::wire::{NodeFile, Vector};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::api::{Api, Bodies, routes};
use crate::config::{Config, Fsync, SettingError};
use crate::context::ShardContext;
use crate::fault::{Fault, FaultKind};
use crate::handle::{QueueBounds, ShardHandle, ShardView};
use crate::keys::{KeyError, open_signer, publish};
use crate::node::{Node, NodeError};
use crate::recovery::{Recovered, RecoveryError, recover};
use crate::router::Router;
use crate::shard::{Opening, Pace, Shard};
use crate::window::Window;

/// Shards that are recovered at one time.
const RECOVERIES_MAX: usize = 4;

/// Why a writer does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A setting is out of bounds.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The data directory.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// A shard's key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A shard's data.
    #[error("shard {shard} does not start: {source}")]
    Shard {
        /// The shard.
        shard: u16,
        /// What was found.
        source: RecoveryError,
    },
    /// The address.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// A thread broke off.
    #[error("start broke off: {0}")]
    Broken(#[from] tokio::task::JoinError),
}

impl StartError {
    /// What to do.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            StartError::Node(NodeError::Locked { .. }) => {
                "stop the other writer, or give this one a directory of its own"
            }
            StartError::Node(NodeError::Identity { .. }) => {
                "leave the setting out to go on with this directory, or use another directory"
            }
            StartError::Key(KeyError::Seed(SeedError::Mode { .. })) => {
                "run chmod 600 on the key file"
            }
            StartError::Key(KeyError::Seed(SeedError::Missing { .. })) => {
                "restore the key from a backup: without it nobody can continue this log"
            }
            StartError::Key(KeyError::Signer { .. }) => {
                "see that `sealcast signer` runs, has this key and answers the writer's user"
            }
            StartError::Shard { source: RecoveryError::Signed { discord, .. }, .. } => {
                discord.hint()
            }
            StartError::Shard { source: RecoveryError::Corrupt(_), .. } => {
                "nothing was changed: copy the directory first, then run `sealcast verify DIR`"
            }
            StartError::Shard { source: RecoveryError::Orphaned { .. }, .. } => {
                "restore node.json from a backup, or use another directory"
            }
            _ => return None,
        })
    }
}

/// Why a running writer ended badly.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A shard was out of service at the end; everything acknowledged is in its log.
    #[error("shard {shard} ended out of service: {cause}")]
    Faulty {
        /// The shard.
        shard: u16,
        /// What happened.
        cause: String,
    },
    /// The writer's task broke off.
    #[error("writer broke off: {0}")]
    Broken(#[from] tokio::task::JoinError),
}

/// How a writer ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Sealed size of every shard: all that was acknowledged.
    pub vector: Vector,
}

/// A running writer.
#[derive(Debug)]
pub struct Handle {
    /// Where it listens.
    pub http: SocketAddr,
    /// Its readiness.
    pub health: Health,
    /// Its identity.
    pub node: NodeFile,
    task: JoinHandle<Result<Ended, RunError>>,
}

impl Handle {
    /// Waits for the end, which cancelling the stop token brings about.
    pub async fn join(self) -> Result<Ended, RunError> {
        self.task.await?
    }
}

/// Starts a writer; returns when it serves. `stop` is its SIGTERM.
pub async fn start(
    config: Config,
    seams: Seams,
    stop: CancellationToken,
) -> Result<Handle, StartError> {
    config.check()?;
    let health = Health::starting();
    let (opening, opened_with) = (config.clone(), seams.clone());
    let mut node = tokio::task::spawn_blocking(move || {
        Node::open(&opening, &*opened_with.files, &*opened_with.random)
    })
    .await??;
    let recovered = recover_all(&node, &config, &seams).await?;
    node.publish(&*seams.files)?;
    let bound = config.access.bind(&config.http, &seams, &health).await?;
    let (http, identity) = (bound.address, node.identity.clone());
    let actors = Actors { tracker: TaskTracker::new(), closing: CancellationToken::new() };
    let shards = recovered
        .into_iter()
        .map(|(ctx, recovered)| actors.spawn(ctx, recovered, &config, health.clone()))
        .collect();
    let api = Arc::new(Api {
        cluster: identity.cluster.clone(),
        node: identity.node.clone(),
        fsync: config.fsync,
        router: Router::new(&identity.cluster, shards),
        shipped_file: node.dir.shipped_file(),
        future_micros: i64::try_from(config.future_ms.saturating_mul(1_000)).unwrap_or(i64::MAX),
        bodies: Bodies::of(&config),
        clock: seams.clock,
        random: seams.random,
        stop: stop.clone(),
    });
    if config.fsync == Fsync::Os {
        health.note("fsync", "os: a power loss may take acknowledged events");
    }
    health.clear("starting");
    let (cluster, name) = (&identity.cluster, &identity.node);
    tracing::info!(cluster, node = name, %http, shards = identity.shards, "writer started");
    let drain = Duration::from_millis(config.drain_ms);
    let running = Running { node, bound, api, health: health.clone(), actors, drain };
    let task = tokio::spawn(running.run(stop));
    Ok(Handle { http, health, node: identity, task })
}

/// A shard with what its recovery has given, or why it takes no events.
type Begun = (Arc<ShardContext>, Result<Recovered, Fault>);

/// Recovers every shard, a few at a time; in the order of their numbers. One shard's bad bytes or
/// a full disk keep no other shard from starting.
async fn recover_all(
    node: &Node,
    config: &Config,
    seams: &Seams,
) -> Result<Vec<Begun>, StartError> {
    let (mut jobs, mut all) = (JoinSet::new(), Vec::new());
    for shard in node.shards() {
        let (cluster, dir, fresh) = (node.identity.cluster.clone(), node.dir.clone(), node.fresh);
        let (fsync, signer, seams) = (config.fsync, config.signer.clone(), seams.clone());
        if jobs.len() >= RECOVERIES_MAX
            && let Some(done) = jobs.join_next().await
        {
            all.push(done??);
        }
        jobs.spawn_blocking(move || {
            let origin = sealcast_common::integrity::shard_origin(&cluster, shard);
            let signer = open_signer(&signer, &dir, (shard, &origin), fresh, &seams)?;
            let (public, keys) = (dir.public_key_file(shard), signer.keys().clone());
            if !fresh {
                publish(&public, &keys, fresh, &*seams.files)?;
            }
            let ctx = ShardContext::new(&cluster, shard, dir, signer, fsync, &seams);
            let recovered = recover(&ctx, fresh);
            // A directory that is not fresh after all has been refused: its key stays as it is.
            if fresh && recovered.is_ok() {
                publish(&public, &keys, fresh, &*seams.files)?;
            }
            Ok::<_, StartError>((Arc::new(ctx), recovered))
        });
    }
    while let Some(done) = jobs.join_next().await {
        all.push(done??);
    }
    all.sort_by_key(|(ctx, _)| ctx.shard);
    go_on_without(all, node.fresh)
}

/// Which failures a start survives: those that concern some shards' bytes, and a lack of space or
/// of a signer, which passes. A folder that is another copy than the one that was signed is no
/// shard's own trouble. If no shard would take events for good, there is nothing to serve.
fn go_on_without(
    all: Vec<(Arc<ShardContext>, Result<Recovered, RecoveryError>)>,
    fresh: bool,
) -> Result<Vec<Begun>, StartError> {
    let lost = |error: &RecoveryError| !Fault::of_recovery(error, FaultKind::Corrupt).passes();
    let hopeless = all.iter().all(|(_, recovered)| recovered.as_ref().is_err_and(lost));
    let begun = all.into_iter().map(|(ctx, recovered)| {
        let shard = ctx.shard;
        let recovered = match recovered {
            Ok(recovered) => Ok(recovered),
            Err(source) => {
                let fault = Fault::of_recovery(&source, FaultKind::Corrupt);
                let foreign = matches!(source, RecoveryError::Signed { .. });
                if fresh || foreign || hopeless || fault.kind == FaultKind::Suspended {
                    return Err(StartError::Shard { shard, source });
                }
                Err(fault)
            }
        };
        Ok((ctx, recovered))
    });
    begun.collect()
}

/// The shards' tasks.
#[derive(Debug)]
struct Actors {
    tracker: TaskTracker,
    closing: CancellationToken,
}

impl Actors {
    fn spawn(
        &self,
        ctx: Arc<ShardContext>,
        recovered: Result<Recovered, Fault>,
        config: &Config,
        health: Health,
    ) -> ShardHandle {
        let shard = ctx.shard;
        let (opening, window) = match recovered {
            Ok(Recovered { tail, window, sealed }) => {
                let (size, ids) = (tail.end(), window.ids_len());
                tracing::info!(shard, size, sealed, ids, "shard recovered");
                (Opening::Ready(tail, sealed), window)
            }
            Err(fault) => (Opening::Faulty(fault), Window::default()),
        };
        let window = Arc::new(RwLock::new(window));
        let (view, watched) = watch::channel(ShardView::default());
        let (sender, queue) = mpsc::channel(config.queue_requests);
        let names = (shard, ctx.origin.clone(), ctx.signer.keys().to_text());
        let mut actor = Shard::new(ctx, Pace::of(config), health, Arc::clone(&window), view);
        actor.open(opening);
        self.tracker.spawn(actor.run(queue, self.closing.clone()));
        let bounds = QueueBounds { requests: config.queue_requests, bytes: config.queue_bytes };
        ShardHandle::new(names, window, watched, sender, bounds)
    }
}

/// Everything that lives until the end.
#[derive(Debug)]
struct Running {
    /// Holds the directory's lock.
    node: Node,
    bound: Bound,
    api: Arc<Api>,
    health: Health,
    actors: Actors,
    drain: Duration,
}

impl Running {
    async fn run(self, stop: CancellationToken) -> Result<Ended, RunError> {
        let Running { node, bound, api, health, actors, drain } = self;
        let serving = serve(bound, routes(Arc::clone(&api), health.clone()), stop.clone(), drain);
        tokio::pin!(serving);
        tokio::select! {
            () = &mut serving => {}
            () = stop.cancelled() => {
                health.not_ready("draining", "the writer is shutting down");
                serving.await;
            }
        }
        // No request is running any more, or its time is over: the queues hold what is left.
        actors.closing.cancel();
        actors.tracker.close();
        actors.tracker.wait().await;
        for handle in api.router.shards() {
            if let Some(fault) = handle.view.borrow().fault.clone() {
                return Err(RunError::Faulty { shard: handle.shard, cause: fault.cause });
            }
        }
        let vector = api.router.sealed();
        tracing::info!(node = node.identity.node, "writer stopped");
        Ok(Ended { vector })
    }
}
