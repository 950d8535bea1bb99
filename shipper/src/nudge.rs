//! File events, which only bring the next scan forward: a lost one costs time, nothing else.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::Notify;

/// Shards seal together: a moment's patience puts them into one commit.
const COALESCE: Duration = Duration::from_millis(20);

/// Wakes the loop early.
#[derive(Debug)]
pub(crate) struct Nudge {
    root: PathBuf,
    wake: Arc<Notify>,
    watcher: Option<RecommendedWatcher>,
}

impl Nudge {
    pub(crate) fn new(root: PathBuf) -> Self {
        Nudge { root, wake: Arc::new(Notify::new()), watcher: None }
    }

    /// Something else that may wake the loop.
    pub(crate) fn waker(&self) -> Arc<Notify> {
        Arc::clone(&self.wake)
    }

    /// Watches the directory if it exists by now and is not watched yet.
    pub(crate) fn watch(&mut self) {
        if self.watcher.is_some() || !self.root.is_dir() {
            return;
        }
        let wake = Arc::clone(&self.wake);
        let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            // An error may hide an event (a queue that ran over): look, to be sure.
            if event.as_ref().map_or(true, concerns_us) {
                wake.notify_one();
            }
        });
        let watching = watcher.and_then(|mut watcher| {
            watcher.watch(&self.root, RecursiveMode::Recursive)?;
            Ok(watcher)
        });
        match watching {
            Ok(watcher) => self.watcher = Some(watcher),
            Err(error) => tracing::debug!(%error, "sealed directory not watched"),
        }
    }

    /// Returns after an event.
    pub(crate) async fn nudged(&self) {
        self.wake.notified().await;
        tokio::time::sleep(COALESCE).await;
    }
}

/// Our own reading makes events too; only a change of a sealed file or its note counts.
fn concerns_us(event: &Event) -> bool {
    let changes = !matches!(event.kind, EventKind::Access(_));
    let ours = |path: &PathBuf| path.extension().is_some_and(|end| end == "seg" || end == "note");
    changes && (event.paths.is_empty() || event.paths.iter().any(ours))
}
