//! The harness: real processes of `sealcast`, real HTTP, a real S3 server, Python as a stranger.

#![expect(clippy::panic, reason = "a harness fails its test by panicking")]

mod bucket;
mod checker;
mod cluster;
mod environment;
mod latch;
mod load;
mod mount;
mod notes;
mod pipe;
mod process;
mod seaweed;
mod signer_line;

pub use bucket::Bucket;
pub use checker::{Checked, Checker, SealedRow, deliver, sealed_rows};
pub use cluster::{Cluster, REPLICA, Roles, SHIPPER, WRITER};
pub use environment::{
    below, data_dir, node_modules, number, open_files, python, python_with, random, rclone,
    sealcast, skip, weed,
};
pub use latch::Latch;
pub use load::Load;
pub use mount::{Disk, Mount};
pub use notes::Notes;
pub use pipe::{ReadPipe, WritePipe};
pub use process::{Process, free_port, run, run_with, said, said_with};
pub use seaweed::Seaweed;
pub use signer_line::SignerLine;

use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest wait for a condition; a test that needs it all has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `condition` gives a value; panics with `what` if it does not in time.
pub async fn until<T, F: Future<Output = Option<T>>>(
    what: &str,
    mut condition: impl FnMut() -> F,
) -> T {
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

/// Every file under a folder whose name ends in `suffix`, sorted.
pub fn files_under(folder: &Path, suffix: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files_under(&path, suffix));
        } else if path.to_string_lossy().ends_with(suffix) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// A copy of a folder, as a cloned disk or a restored backup is one; files that are there stay.
pub fn copy_dir(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("folder");
    for entry in std::fs::read_dir(from).expect("folder") {
        let entry = entry.expect("entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("type").is_dir() {
            copy_dir(&entry.path(), &target);
        } else if !target.exists() {
            std::fs::copy(entry.path(), target).expect("copy");
        }
    }
}
