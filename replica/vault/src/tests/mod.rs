//! The vault over a local store: what arrives, what is refused, what survives.

mod bytes;
mod crowd;
mod faults;
mod idle;
mod keep;
mod keeper;
mod log;
mod trust;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sealcast_common::bucket::Store;
use sealcast_common::seams::Seams;
use sealcast_common::wire::Token;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::testkit::{Layer, STREAM, Shipper};
use crate::{Vault, VaultConfig, VaultError, VaultSnapshot, VaultStatus};

const LONG: Duration = Duration::from_secs(20);

/// A running vault.
struct Node {
    vault: Vault,
    stop: CancellationToken,
    task: JoinHandle<Result<(), VaultError>>,
}

fn config(dir: &Path) -> VaultConfig {
    VaultConfig {
        dir: dir.to_owned(),
        poll_min_ms: 5,
        poll_max_ms: 20,
        hinted_poll_ms: 30_000,
        ..VaultConfig::default()
    }
}

impl Node {
    async fn start(config: VaultConfig, store: Store) -> Node {
        Node::with_seams(config, store, Seams::default()).await
    }

    async fn with_seams(config: VaultConfig, store: Store, seams: Seams) -> Node {
        Node::try_start(config, store, seams).await.unwrap_or_else(|error| panic!("{error}"))
    }

    async fn try_start(
        config: VaultConfig,
        store: Store,
        seams: Seams,
    ) -> Result<Node, VaultError> {
        let vault = Vault::open(config, store, seams).await?;
        let stop = CancellationToken::new();
        let (ours, stopped) = (vault.clone(), stop.clone());
        let task = tokio::spawn(async move { ours.run(stopped).await });
        Ok(Node { vault, stop, task })
    }

    /// As SIGTERM does.
    async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap().unwrap();
        gone(self.vault).await;
    }

    /// As kill -9 does, as far as one process can.
    async fn kill(self) {
        self.task.abort();
        let _aborted = self.task.await;
        gone(self.vault).await;
    }

    /// Waits until everything that the shipper has committed is held.
    async fn caught_up(&self, shipper: &Shipper) -> Arc<VaultSnapshot> {
        let token = Token(shipper.catalog.vector());
        let snapshot = self.vault.wait_for(&token, LONG).await;
        snapshot.unwrap_or_else(|have| panic!("{:?} {:#?}", have.vector, self.vault.status()))
    }

    /// Waits until the status satisfies `holds`.
    async fn until(&self, holds: impl Fn(&VaultStatus) -> bool) -> VaultStatus {
        let wait = async {
            loop {
                let status = self.vault.status();
                if holds(&status) {
                    return status;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        let waited = tokio::time::timeout(LONG, wait).await;
        waited.unwrap_or_else(|_| panic!("never so: {:#?}", self.vault.status()))
    }

    async fn booted(&self) -> VaultStatus {
        self.until(|status| status.streams.iter().any(|stream| stream.booted)).await
    }

    /// Rows of all segments, as counted in the opened ones.
    async fn count(&self) -> u64 {
        let snapshot = self.vault.snapshot();
        let mut rows = 0;
        for entry in snapshot.segments.iter() {
            let segment = snapshot.open(entry).await.unwrap();
            rows += segment.batches().iter().map(|batch| batch.num_rows() as u64).sum::<u64>();
        }
        rows
    }
}

/// The operating system frees the folder's lock at once; tasks that end here need a moment, and
/// whoever held the core last may still be dropping what is in it.
async fn gone(vault: Vault) {
    let lock = vault.core.config.dir.join("lock");
    let core = Arc::downgrade(&vault.core);
    drop(vault);
    let lock = std::fs::File::open(lock).unwrap();
    while core.strong_count() > 0 || lock.try_lock().is_err() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// The check that stopped the stream.
fn fault(status: &VaultStatus) -> Option<&'static str> {
    let stream = status.streams.iter().find(|stream| stream.stream == STREAM)?;
    stream.fault.as_ref().map(|corruption| corruption.check)
}

/// A folder with a store and one for the vault.
struct Place {
    dir: tempfile::TempDir,
    store: Store,
    layer: Arc<Layer>,
}

impl Place {
    fn new() -> Place {
        // In memory where there is such a folder: hundreds of vaults, each with its syncs.
        let memory = Path::new("/dev/shm");
        let dir = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        let dir = dir.unwrap();
        let (store, layer) = Layer::over(&dir.path().join("store"));
        Place { dir, store, layer }
    }

    fn config(&self) -> VaultConfig {
        config(&self.dir.path().join("vault"))
    }

    async fn node(&self) -> Node {
        Node::start(self.config(), self.store.clone()).await
    }

    /// Files under one of the vault's folders.
    fn files(&self, folder: &str) -> Vec<std::path::PathBuf> {
        let mut found = Vec::new();
        let mut folders = vec![self.dir.path().join("vault").join(folder)];
        while let Some(folder) = folders.pop() {
            for file in std::fs::read_dir(folder).into_iter().flatten() {
                let path = file.unwrap().path();
                if path.is_dir() { folders.push(path) } else { found.push(path) }
            }
        }
        found.sort();
        found
    }
}
