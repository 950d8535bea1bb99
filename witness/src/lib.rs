//! The witness: cosigns what logs have signed, if it continues what it cosigned before.
//!
//! It follows C2SP `tlog-witness`, so that any log may ask it and any witness may stand in its place.
//! What it decides is in `common::integrity`. Reading order: [`Config`], `folder` (paths, lock, key),
//! `memory` (what was cosigned last: check and persist in one step), `api` (HTTP).
//!
//! *Invariant:* no cosignature leaves before the file that remembers it is durable.

mod api;
mod config;
mod error;
mod folder;
mod memory;
mod metrics;

#[cfg(test)]
mod tests;

pub use config::{Args, Config};
pub use error::StartError;
pub use sealcast_common::seams::Seams;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use sealcast_common::integrity::CosignerKey;
use sealcast_common::serve::{Health, serve};
use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;

use folder::Folder;
use memory::Memory;

/// How long running requests may take after the end was asked for.
const DRAIN: Duration = Duration::from_secs(5);

/// A running witness.
#[derive(Debug)]
pub struct Handle {
    /// Where its HTTP server listens.
    pub http: SocketAddr,
    /// Its readiness.
    pub health: Health,
    /// Its public key: what policies of others name.
    pub key: CosignerKey,
    task: JoinHandle<()>,
}

impl Handle {
    /// Waits for its end.
    pub async fn join(self) -> Result<(), JoinError> {
        self.task.await
    }
}

/// Starts a witness. Cancelling `stop` ends it.
pub async fn start(
    config: Config,
    seams: Seams,
    stop: CancellationToken,
) -> Result<Handle, StartError> {
    config.check()?;
    let logs = config.logs()?;
    let known = logs.len();
    let health = Health::starting();
    let folder = Folder::open(&config.data, Arc::clone(&seams.files))?;
    let signer = folder.signer(config.name.as_deref(), &*seams.random)?;
    let memory = Memory::open(folder, signer, logs, &seams, health.clone())?;
    let key = memory.key();
    let bound = config.access.bind_public(&config.http, &seams, &health).await?;
    let http = bound.address;
    let router = api::router(memory, health.clone());
    let task = tokio::spawn(serve(bound, router, stop, DRAIN));
    metrics::logs(known);
    health.clear("starting");
    tracing::info!(%http, logs = known, key = key.to_text(), "witness started");
    Ok(Handle { http, health, key, task })
}
