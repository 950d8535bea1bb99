//! What does not change while a shipper runs: configuration, seams, directory, store, identity.

use std::time::Duration;

use sealcast_common::bucket::probe::{Fitness, probe};
use sealcast_common::bucket::{CreateOnlyLog, Store};
use sealcast_common::catalog::Catalog;
use sealcast_common::catalog::names::{STREAMS_PREFIX, commit_key};
use sealcast_common::integrity::LocalSigner;
use sealcast_common::layout::DataDir;
use sealcast_common::seams::Seams;
use sealcast_common::serve::Health;
use sealcast_common::wire::NodeFile;
use tokio_util::sync::CancellationToken;

use crate::config::{Config, Fencing};
use crate::error::{RunError, ShipError};
use crate::identity;
use crate::status::Board;
use crate::wait::Backoff;
use crate::writer::WriterClient;

/// See the module.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) config: Config,
    pub(crate) seams: Seams,
    pub(crate) dir: DataDir,
    pub(crate) store: Store,
    pub(crate) log: CreateOnlyLog,
    pub(crate) node: NodeFile,
    pub(crate) store_id: [u8; 16],
    pub(crate) signer: LocalSigner,
    pub(crate) writer: Option<WriterClient>,
    pub(crate) health: Health,
    pub(crate) stop: CancellationToken,
}

/// What is known before the writer and the store have been seen.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) config: Config,
    pub(crate) seams: Seams,
    pub(crate) dir: DataDir,
    pub(crate) store: Store,
    pub(crate) writer: Option<WriterClient>,
    pub(crate) health: Health,
    pub(crate) board: Board,
    pub(crate) stop: CancellationToken,
}

impl Opening {
    /// Waits for writer and store and learns who we are. `None`: stopped while waiting.
    pub(crate) async fn open(self) -> Result<Option<Place>, RunError> {
        let Some(node) = self.wait_for_node().await? else { return Ok(None) };
        let seed = identity::ship_key(&self.dir, &*self.seams.files, &*self.seams.random)?;
        let Some(store_id) = self.wait_for_store().await? else { return Ok(None) };
        self.sweep(&node).await;
        let log = CreateOnlyLog::new(self.store.clone(), &node.node, commit_key);
        let log = if self.config.fencing == Fencing::External { log.careful() } else { log };
        Ok(Some(Place {
            log,
            signer: LocalSigner::from_seed(node.node.clone(), &seed),
            config: self.config,
            seams: self.seams,
            dir: self.dir,
            store: self.store,
            node,
            store_id,
            writer: self.writer,
            health: self.health,
            stop: self.stop,
        }))
    }

    async fn wait_for_node(&self) -> Result<Option<NodeFile>, RunError> {
        let file = self.dir.node_file().display().to_string();
        let pause = Duration::from_millis(self.config.scan_ms.min(500));
        loop {
            if let Some(node) = identity::read_node(&self.dir)? {
                self.health.clear("writer");
                return Ok(Some(node));
            }
            let reason = "no such file yet; start a writer on this directory".to_owned();
            if self.config.once {
                return Err(RunError::Identity { object: file, reason });
            }
            self.health.not_ready("writer", format!("{file}: {reason}"));
            tokio::select! {
                () = self.stop.cancelled() => return Ok(None),
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    async fn wait_for_store(&self) -> Result<Option<[u8; 16]>, RunError> {
        let mut backoff = Backoff::default();
        loop {
            match self.look_at_store().await {
                Ok(id) => {
                    self.health.clear("store");
                    return id.map(Some);
                }
                Err(error) if self.config.once => return Err(error.into()),
                Err(error) => {
                    tracing::warn!(%error, "store not reached");
                    crate::metrics::failed(error.word());
                    self.health.not_ready("store", error.to_string());
                }
            }
            tokio::select! {
                () = self.stop.cancelled() => return Ok(None),
                () = tokio::time::sleep(backoff.next(&*self.seams.random)) => {}
            }
        }
    }

    /// Judged at every start: a store may have been moved behind another gateway since.
    async fn look_at_store(&self) -> Result<Result<[u8; 16], RunError>, ShipError> {
        let external = self.config.fencing == Fencing::External;
        let report = probe(&self.store, &*self.seams.random).await;
        for finding in &report.findings {
            let (check, verdict) = (finding.check.word(), finding.verdict);
            tracing::info!(check, ?verdict, found = finding.found, "store check done");
            crate::metrics::store_check(check, verdict);
        }
        self.board.probed(self.seams.clock.now(), &report, external);
        match report.fitness(external) {
            Fitness::Unknown => return Err(ShipError::Probe { findings: report.reason() }),
            Fitness::Unfit => {
                let (store, finding) = (report.store.clone(), report.reason());
                return Ok(Err(RunError::Probe { store, finding }));
            }
            Fitness::Fit => {}
        }
        if external {
            self.health.note("fencing", "external: the operator guarantees one shipper");
        }
        Ok(identity::store_id(&self.store, &*self.seams.random).await?)
    }

    /// What killed puts of ours left in a local store.
    async fn sweep(&self, node: &NodeFile) {
        let shards = node.shard_first..node.shard_first.saturating_add(node.shards);
        let mut ours: Vec<String> = shards.map(|shard| format!("sh/{shard:04x}")).collect();
        ours.push(format!("{STREAMS_PREFIX}/{}", node.node));
        let swept = self.store.sweep(ours, &*self.seams.clock).await;
        if swept > 0 {
            tracing::info!(files = swept, "unfinished puts removed");
        }
    }
}

impl Place {
    /// The stream before its first commit.
    pub(crate) fn empty_catalog(&self) -> Catalog {
        Catalog::empty(self.store_id, &self.node.node)
    }

    /// The node's shards.
    pub(crate) fn shards(&self) -> impl Iterator<Item = u16> + use<> {
        let first = self.node.shard_first;
        first..first.saturating_add(self.node.shards)
    }
}

/// Runs file work on a thread where it may block.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ShipError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| ShipError::Task(error.to_string()))
}
