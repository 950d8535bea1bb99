//! Segments whose bytes were bad: remembered with what was found, tried again for ever.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sealcast_common::catalog::SegmentId;
use sealcast_common::clock::Clock;
use sealcast_common::fault::Corruption;
use tokio::sync::Notify;

use crate::error::OpenError;
use crate::snapshot::SegmentEntry;
use crate::status::QuarantineStatus;

const BACKOFF_MAX: Duration = Duration::from_secs(600);
/// Tries after which somebody should look: the store does not heal by itself.
const ALARM_TRIES: u32 = 8;

/// The list.
#[derive(Debug)]
pub(crate) struct Quarantine {
    clock: Arc<dyn Clock>,
    cells: Mutex<BTreeMap<SegmentId, Cell>>,
    /// Rings when the list changes.
    pub(crate) changed: Notify,
}

#[derive(Debug)]
struct Cell {
    entry: Arc<SegmentEntry>,
    corruption: Corruption,
    tries: u32,
    due: Duration,
}

impl Quarantine {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Quarantine { clock, cells: Mutex::default(), changed: Notify::new() }
    }

    /// An error while the next attempt is not due.
    pub(crate) fn refuse_until_due(&self, entry: &SegmentEntry) -> Result<(), OpenError> {
        match self.cells.lock().get(&entry.descriptor.id) {
            Some(cell) if self.clock.monotonic() < cell.due => Err(OpenError::Quarantined {
                segment: entry.name(),
                corruption: Box::new(cell.corruption.clone()),
            }),
            _ => Ok(()),
        }
    }

    /// Bad bytes, once more.
    pub(crate) fn add(&self, entry: &Arc<SegmentEntry>, corruption: &Corruption) {
        let mut cells = self.cells.lock();
        let tries = cells.get(&entry.descriptor.id).map_or(0, |cell| cell.tries) + 1;
        let due = self.clock.monotonic() + backoff(tries);
        let (entry_kept, kept) = (Arc::clone(entry), corruption.clone());
        let cell = Cell { entry: entry_kept, corruption: kept, tries, due };
        cells.insert(entry.descriptor.id.clone(), cell);
        drop(cells);
        self.changed.notify_one();
        metrics::counter!("sealcast_replica_segments_quarantined_total").increment(1);
        let (segment, check) = (entry.name(), corruption.check);
        let (offset, found) = (corruption.offset, &corruption.found);
        if tries < ALARM_TRIES {
            tracing::warn!(segment, check, offset, found, tries, "segment quarantined");
        } else {
            tracing::error!(segment, check, offset, found, tries, "segment quarantined");
        }
    }

    /// Good bytes at last. True if it was listed.
    pub(crate) fn release(&self, entry: &SegmentEntry) -> bool {
        self.cells.lock().remove(&entry.descriptor.id).is_some()
    }

    /// The store did not answer: nothing was learned, the next attempt waits as long again.
    /// True if it was listed.
    pub(crate) fn postpone(&self, entry: &SegmentEntry) -> bool {
        let now = self.clock.monotonic();
        let mut cells = self.cells.lock();
        let cell = cells.get_mut(&entry.descriptor.id);
        cell.map(|cell| cell.due = now + backoff(cell.tries)).is_some()
    }

    /// Entries whose next attempt is due.
    pub(crate) fn due(&self) -> Vec<Arc<SegmentEntry>> {
        let now = self.clock.monotonic();
        let cells = self.cells.lock();
        cells.values().filter(|cell| cell.due <= now).map(|cell| Arc::clone(&cell.entry)).collect()
    }

    /// How long until one is due.
    pub(crate) fn next_due(&self) -> Option<Duration> {
        let now = self.clock.monotonic();
        self.cells.lock().values().map(|cell| cell.due.saturating_sub(now)).min()
    }

    /// For people.
    pub(crate) fn list(&self) -> Vec<QuarantineStatus> {
        let now = self.clock.monotonic();
        let cells = self.cells.lock();
        let show = |cell: &Cell| QuarantineStatus {
            segment: cell.entry.name(),
            corruption: cell.corruption.clone(),
            tries: cell.tries,
            retry_in_ms: u64::try_from(cell.due.saturating_sub(now).as_millis()).unwrap_or(0),
        };
        cells.values().map(show).collect()
    }
}

/// 1 s, 2 s, 4 s … ten minutes.
fn backoff(tries: u32) -> Duration {
    let seconds = 1u64.checked_shl(tries.saturating_sub(1)).unwrap_or(u64::MAX);
    Duration::from_secs(seconds).min(BACKOFF_MAX)
}
