//! The harness: real processes of `sealcast`, real HTTP, a real S3 server, Python as a stranger.

#![expect(clippy::panic, reason = "a harness fails its test by panicking")]

mod cluster;
mod environment;
mod process;
mod seaweed;

pub use cluster::{Cluster, Roles};
pub use environment::{data_dir, python, sealcast, skip, weed};
pub use process::{Process, free_port, run};
pub use seaweed::Seaweed;

use std::future::Future;
use std::time::Duration;

/// Longest wait for a condition; a test that needs it all has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `condition` gives a value; panics with `what` if it does not in time.
pub async fn until<T, F: Future<Output = Option<T>>>(what: &str, condition: impl Fn() -> F) -> T {
    let waited = tokio::time::timeout(PATIENCE, async {
        loop {
            if let Some(value) = condition().await {
                return value;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    waited.await.unwrap_or_else(|_| panic!("waited in vain: {what}"))
}
