//! The vault: a replica's verified, memory-mapped copy of what has been shipped.
//!
//! ```text
//! store ──follow──▶ catalog ──fetch──▶ admit (the judge) ──▶ map ──▶ snapshot ──▶ queries
//! ```
//! Reading order: `snapshot` and `segments` (what queries see), `follow` and `boot` (the log → the catalog),
//! `cache` (absent → fetched → judged → mapped → evicted), `admit` (the only maker of a
//! [`VerifiedSegment`]), `mmap`, `sigbus`, `evict`, `quarantine`, `position` (what survives a restart),
//! `trust` (nobody shows it another history), `hints`, `background`, `status`; `prove` (rows as their logs have them). It knows nothing of SQL.
//!
//! Truth is `GET log/<n+1>`; hints only shorten the wait, and nothing lists after boot.

mod admit;
mod as_of;
mod background;
mod boot;
mod cache;
mod error;
mod evict;
mod fetch;
mod follow;
mod hints;
mod mmap;
mod position;
mod prove;
mod publish;
mod quarantine;
mod segments;
mod sigbus;
mod snapshot;
mod status;
mod trust;
mod verified;

#[cfg(test)]
mod testkit;
#[cfg(test)]
mod tests;

pub use admit::VerifiedSegment;
pub use as_of::AsOfError;
pub use error::{OpenError, VaultError};
pub use hints::HintPeer;
pub use prove::{Leaf, ProveError, Proven, RangeProof, RowPlace};
pub use segments::{Block, Bounds, Segments};
pub use sigbus::MapWatch;
pub use snapshot::{Commit, SegmentEntry, SegmentState, VaultSnapshot};
pub use status::{Lag, QuarantineStatus, StreamStatus, TrustStatus, VaultStatus};

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sealcast_common::bucket::Store;
use sealcast_common::seams::Seams;
use sealcast_common::wire::Token;
use tokio_util::sync::CancellationToken;

use crate::publish::Core;

/// Settings of a vault.
#[derive(Clone, Debug)]
pub struct VaultConfig {
    /// Its folder, for this process alone.
    pub dir: PathBuf,
    /// Budget of local segment files, bytes. One segment larger than it is still served.
    pub cache_bytes: u64,
    /// Streams to follow; empty: those that one listing finds at boot.
    pub streams: Vec<String>,
    /// Base URLs of shippers, for hints.
    pub hints: Vec<String>,
    /// What is shown to shippers, and whose certificates are believed.
    pub peer: HintPeer,
    /// Wait between two probes after activity, milliseconds.
    pub poll_min_ms: u64,
    /// Longest wait between two probes without hints, milliseconds.
    pub poll_max_ms: u64,
    /// Wait between two probes while hints arrive, milliseconds.
    pub hinted_poll_ms: u64,
    /// Segments fetched at the same time.
    pub fetch_parallel: usize,
    /// Without a successful probe for so long the vault is not ready, milliseconds.
    pub max_staleness_ms: u64,
    /// Policy file (C2SP tlog-policy): the keys that are believed, and which witnesses count.
    pub policy: Option<PathBuf>,
    /// Without a policy, the first cluster log that is seen is believed from then on.
    pub trust_on_first_use: bool,
    /// Rows that no epoch of the cluster log names after so long are told of, milliseconds.
    pub anchor_delay_ms: u64,
    /// If the policy's witnesses cosigned the newest epoch longer ago, the vault is not ready,
    /// milliseconds.
    pub cluster_staleness_ms: u64,
}

impl Default for VaultConfig {
    fn default() -> Self {
        VaultConfig {
            dir: PathBuf::from("vault"),
            cache_bytes: 16 * 1024 * 1024 * 1024,
            streams: Vec::new(),
            hints: Vec::new(),
            peer: HintPeer::default(),
            poll_min_ms: 500,
            poll_max_ms: 5_000,
            hinted_poll_ms: 30_000,
            fetch_parallel: 4,
            max_staleness_ms: 60_000,
            policy: None,
            trust_on_first_use: true,
            anchor_delay_ms: 60_000,
            cluster_staleness_ms: 7_200_000,
        }
    }
}

impl VaultConfig {
    /// Every setting is in its range.
    pub fn check(&self) -> Result<(), VaultError> {
        let refuse = |setting, found: String, expected| {
            Err(VaultError::Setting { setting, found, expected })
        };
        if self.poll_min_ms == 0 || self.poll_min_ms > self.poll_max_ms {
            let found = format!("{} (poll_max_ms {})", self.poll_min_ms, self.poll_max_ms);
            return refuse("poll_min_ms", found, "1 to poll_max_ms");
        }
        if self.hinted_poll_ms < self.poll_min_ms {
            return refuse(
                "hinted_poll_ms",
                self.hinted_poll_ms.to_string(),
                "poll_min_ms or more",
            );
        }
        if !(1..=256).contains(&self.fetch_parallel) {
            return refuse("fetch_parallel", self.fetch_parallel.to_string(), "1 to 256");
        }
        let is_stream_name = sealcast_common::catalog::names::is_stream_name;
        match self.streams.iter().find(|name| !is_stream_name(name)) {
            Some(name) => refuse("streams", name.clone(), "1 to 64 of a-z, 0-9 and -"),
            None => Ok(()),
        }
    }
}

/// A handle, cheap to clone. [`Vault::run`] must be polled by somebody for anything to arrive.
#[derive(Clone, Debug)]
pub struct Vault {
    core: Arc<Core>,
}

impl Vault {
    /// Loads the local state: what was admitted before is served at once, without the network.
    pub async fn open(
        config: VaultConfig,
        store: Store,
        seams: Seams,
    ) -> Result<Vault, VaultError> {
        config.check()?;
        Ok(Vault { core: Core::open(config, store, seams)? })
    }

    /// Follows, fetches and verifies until stopped. Network errors are retried for ever and shown
    /// in [`Vault::status`].
    pub async fn run(&self, stop: CancellationToken) -> Result<(), VaultError> {
        self.core.run(stop).await
    }

    /// The newest state; a query keeps one from start to end.
    pub fn snapshot(&self) -> Arc<VaultSnapshot> {
        self.core.current()
    }

    /// Waits until everything that `token` names is held; on time-out answers what is held.
    pub async fn wait_for(
        &self,
        token: &Token,
        timeout: Duration,
    ) -> Result<Arc<VaultSnapshot>, Arc<VaultSnapshot>> {
        let mut published = self.core.subscribe();
        let arrived = published.wait_for(|snapshot| token.is_held_by(&snapshot.vector));
        match tokio::time::timeout(timeout, arrived).await {
            Ok(Ok(snapshot)) => Ok(Arc::clone(&snapshot)),
            // Either the time is over or the vault is: the answer is the same.
            Ok(Err(_)) | Err(_) => Err(self.snapshot()),
        }
    }

    /// How far the newest snapshot may be behind the store.
    pub fn lag(&self) -> Lag {
        self.snapshot().lag()
    }

    /// Streams, quarantine, cache, and the reasons for not being ready.
    pub fn status(&self) -> VaultStatus {
        self.core.status()
    }
}
