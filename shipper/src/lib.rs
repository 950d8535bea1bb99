//! The shipper: copies what a writer has sealed to the object store, and commits it.
//!
//! It meets the writer only in a directory and the replicas only in the store. Reading order:
//! [`Config`], `place` (what stays the same), `run` (when something is done), `ship` (one turn:
//! reconcile → judge and upload → commit → publish), `scan`, `judge`, `upload`, `commit`, `claim`,
//! `position`, `witness`, `publish`, then `api` and `status` (HTTP). Every step may be cut off anywhere: the
//! next turn, or the next process, goes on from what stands in the store.

mod api;
mod claim;
mod cluster;
mod commit;
mod config;
pub mod cosign;
mod error;
mod fault;
mod identity;
mod judge;
mod metrics;
mod nudge;
mod openapi;
mod place;
mod position;
mod publish;
mod run;
mod scan;
mod ship;
mod status;
mod tiles;
mod upload;
mod wait;
mod witness;
mod writer;

#[cfg(test)]
mod tests;

pub use config::{Args, Config, Fencing};
pub use error::{RunError, ShipError, StartError};
pub use fault::FaultKind;
pub use openapi::openapi;
pub use sealcast_common::seams::Seams;
pub use status::{LastError, ShardFault, ShardShipping, Shipped, Status, StoreCheck, StoreProbe};

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use sealcast_common::bucket::Store;
use sealcast_common::clock::Clock;
use sealcast_common::integrity::Policy;
use sealcast_common::layout::DataDir;
use sealcast_common::serve::{Health, serve};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use api::{Api, Order};
use nudge::Nudge;
use place::Opening;
use run::Run;
use status::Board;
use writer::WriterClient;

/// How long an end by request may take before the rest is left to the next start.
const DRAIN: Duration = Duration::from_secs(10);
/// Requests to ship that may wait.
const ORDERS_MAX: usize = 64;

/// How a shipper ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By request.
    Stopped,
    /// `--once`: everything that can be shipped is.
    Done(Shipped),
    /// Another shipper owns the stream now.
    Fenced,
}

impl Ended {
    /// The process's exit code: 75 (`EX_TEMPFAIL`) tells a supervisor not to start again at once;
    /// 1 that `--once` had to leave something behind.
    pub fn exit_code(&self) -> u8 {
        match self {
            Ended::Stopped => 0,
            Ended::Done(shipped) => u8::from(!shipped.blocked.is_empty()),
            Ended::Fenced => 75,
        }
    }
}

/// A running shipper.
#[derive(Debug)]
pub struct Handle {
    /// Where its HTTP server listens.
    pub http: SocketAddr,
    /// Its readiness.
    pub health: Health,
    board: Board,
    clock: Arc<dyn Clock>,
    task: JoinHandle<Result<Ended, RunError>>,
}

impl Handle {
    /// What `GET /v1/status` answers.
    pub fn status(&self) -> Status {
        self.board.read(self.clock.now())
    }

    /// Waits for its end.
    pub async fn join(self) -> Result<Ended, RunError> {
        self.task.await.unwrap_or_else(|error| Err(RunError::Task(error.to_string())))
    }
}

/// Starts a shipper. Cancelling `stop` ends it.
pub async fn start(
    config: Config,
    seams: Seams,
    stop: CancellationToken,
) -> Result<Handle, StartError> {
    let store = Store::open_with(&config.store, Arc::clone(&seams.random))?;
    start_with_store(config, seams, store, stop).await
}

/// Starts a shipper on a store that is open already: tests wrap theirs.
pub async fn start_with_store(
    config: Config,
    seams: Seams,
    store: Store,
    stop: CancellationToken,
) -> Result<Handle, StartError> {
    config.check()?;
    let policy = config.witness_policy()?;
    let writer = config.writer.as_deref().map(|url| WriterClient::new(url, config.access.peer()));
    let writer = writer.transpose();
    let writer = writer.map_err(|error| sealcast_common::serve::ConfigError::Invalid {
        origin: "writer".into(),
        reason: error.to_string(),
    })?;
    let dir = DataDir::new(&config.dir);
    let lock = identity::lock(&dir, &*seams.files)?;
    let health = Health::starting();
    if config.witness.is_some() {
        health.note("witness", "none: a split view needs no more than our own keys");
    }
    let bound = config.access.bind(&config.http, &seams, &health).await?;
    let http = bound.address;
    let board = Board::new(store.name());
    let (orders, taken) = mpsc::channel(ORDERS_MAX);
    let closing = CancellationToken::new();
    let clock = Arc::clone(&seams.clock);
    let api = Api {
        board: board.clone(),
        clock: Arc::clone(&clock),
        orders,
        writer: writer.clone(),
        closing: closing.clone(),
    };
    let router = api::router(api, health.clone());
    let tasks = TaskTracker::new();
    tasks.spawn(serve(bound, router, closing.clone(), Duration::from_secs(2)));
    let (reasons, board_) = (health.clone(), board.clone());
    let opening =
        Opening { config, seams, dir, store, writer, health: reasons, board: board_, stop };
    let role = Role { opening, board: board.clone(), orders: taken, tasks, closing, policy };
    let task = tokio::spawn(async move {
        let ended = role.run().await;
        drop(lock);
        ended
    });
    tracing::info!(%http, "shipper started");
    Ok(Handle { http, health, board, clock, task })
}

/// The role's own task: loop, drain, end of the server.
struct Role {
    opening: Opening,
    board: Board,
    orders: mpsc::Receiver<Order>,
    tasks: TaskTracker,
    closing: CancellationToken,
    policy: Option<Policy>,
}

impl Role {
    async fn run(self) -> Result<Ended, RunError> {
        let Role { opening, board, orders, tasks, closing, policy } = self;
        let (health, stop) = (opening.health.clone(), opening.stop.clone());
        let nudge = Nudge::new(opening.dir.sealed_root());
        if let (Some(writer), Some(every)) = (&opening.writer, opening.config.flush_every_ms) {
            let flushes = flush_often(writer.clone(), Duration::from_millis(every), nudge.waker());
            tasks.spawn(closing.clone().run_until_cancelled_owned(flushes));
        }
        let shipping = async {
            let Some(place) = opening.open().await? else { return Ok(Ended::Stopped) };
            board.identified(&place.node.node, &place.node.cluster);
            let place = Arc::new(place);
            let run = Run { place, board: board.clone(), orders, nudge, policy };
            run.run().await
        };
        let drained = async {
            stop.cancelled().await;
            health.not_ready("draining", "the shipper is ending");
            tokio::time::sleep(DRAIN).await;
        };
        let ended = tokio::select! {
            ended = Box::pin(shipping) => ended,
            () = drained => Ok(Ended::Stopped),
        };
        let (state, reason) = match &ended {
            Ok(Ended::Fenced) => ("fenced", "another shipper owns the stream".to_owned()),
            Ok(_) => ("stopped", "the shipper has ended".to_owned()),
            Err(error) => ("failed", error.to_string()),
        };
        tracing::info!(state, reason, "shipper ended");
        board.state(state);
        health.not_ready(state, reason);
        closing.cancel();
        tasks.close();
        tasks.wait().await;
        ended
    }
}

/// Asks the writer to seal again and again: an upper bound for the age of what is not shipped.
async fn flush_often(writer: WriterClient, every: Duration, wake: Arc<tokio::sync::Notify>) {
    let mut ticks = tokio::time::interval(every);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        match writer.flush().await {
            Ok(_) => wake.notify_one(),
            Err(error) => {
                tracing::warn!(%error, "flush not answered");
                metrics::failed("flush");
            }
        }
    }
}
