//! What happens without a commit or a query: healing what is quarantined, fetching ahead.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use tokio_util::sync::CancellationToken;

use crate::error::OpenError;
use crate::publish::Core;
use crate::snapshot::SegmentState;

/// How often the background looks whether something is worth fetching.
const PREFETCH_EVERY: Duration = Duration::from_secs(30);

impl Core {
    /// Tries quarantined segments again when they are due.
    pub(crate) async fn heal(self: Arc<Self>, stop: CancellationToken) {
        let cache = &self.cache;
        let quarantine = &cache.quarantine;
        loop {
            let wait = quarantine.next_due().unwrap_or(Duration::from_secs(60));
            tokio::select! {
                () = stop.cancelled() => return,
                () = quarantine.changed.notified() => continue,
                () = tokio::time::sleep(wait.max(Duration::from_millis(10))) => {}
            }
            let tried = futures::stream::iter(quarantine.due())
                .map(|entry| async move { cache.open_entry(&entry).await })
                .buffer_unordered(self.config.fetch_parallel)
                // The result is on the list, or the entry is off it.
                .for_each(|_| futures::future::ready(()));
            let _stopped = stop.run_until_cancelled(tried).await;
        }
    }

    /// Fetches what is absent, newest first, as long as it fits without evicting anything.
    pub(crate) async fn prefetch(self: Arc<Self>, stop: CancellationToken) {
        let mut published = self.subscribe();
        let mut swept = false;
        loop {
            if self.is_booted() {
                if !std::mem::replace(&mut swept, true) {
                    self.cache.sweep();
                }
                self.cache.make_room(0);
                if stop.run_until_cancelled(self.prefetch_once()).await.is_none() {
                    return;
                }
            }
            tokio::select! {
                () = stop.cancelled() => return,
                _ = published.changed() => {}
                () = tokio::time::sleep(PREFETCH_EVERY) => {}
            }
        }
    }

    async fn prefetch_once(&self) {
        let snapshot = self.current();
        let absent = snapshot.segments.iter();
        let absent = absent.filter(|entry| entry.state() == SegmentState::Absent);
        let mut absent: Vec<_> = absent.map(Arc::clone).collect();
        absent.sort_unstable_by_key(|entry| std::cmp::Reverse(entry.descriptor.sealed_at));
        // What is on its way is not charged yet, so the room is counted here.
        let mut room = self.cache.room();
        let fits = absent.into_iter().take_while(|entry| {
            let left = room.checked_sub(entry.descriptor.bytes);
            room = left.unwrap_or(room);
            left.is_some()
        });
        let fetched = futures::stream::iter(fits);
        let fetched = fetched.map(|entry| async move { self.cache.open_entry(&entry).await });
        let mut fetched = std::pin::pin!(fetched.buffer_unordered(self.config.fetch_parallel));
        while let Some(result) = fetched.next().await {
            match result {
                Ok(_) | Err(OpenError::Quarantined { .. }) => {}
                // One that cannot be had now says nothing about the next: all get their turn.
                Err(error) => tracing::debug!(%error, "prefetch put off"),
            }
        }
    }

    fn is_booted(&self) -> bool {
        let boards = self.boards.lock();
        !boards.is_empty() && boards.values().all(|board| board.notes.lock().booted)
    }
}
