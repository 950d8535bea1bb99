//! The byte budget: who is charged for what, and who goes first (SIEVE).
//!
//! SIEVE (NSDI 2024): entries stand in order of arrival, a hand walks from old to new; what was
//! used since the last pass stays, the first that was not goes. One bit an entry, and a scan over
//! everything does not push out what is used again and again.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit};

use crate::snapshot::{Place, SegmentEntry};

/// Bytes of one file, counted as used until the last of slot, fetch and maps lets go.
#[derive(Debug)]
pub(crate) struct Charge {
    bytes: u64,
    account: Arc<AtomicU64>,
}

impl Charge {
    pub(crate) fn take(account: &Arc<AtomicU64>, bytes: u64) -> Arc<Self> {
        account.fetch_add(bytes, Ordering::Relaxed);
        Arc::new(Charge { bytes, account: Arc::clone(account) })
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// What a map holds of the two budgets, until it is unmapped.
#[derive(Debug)]
pub(crate) struct Rights {
    /// Bytes on the disk.
    pub(crate) _charge: Arc<Charge>,
    /// One of the process's maps.
    pub(crate) _map: OwnedSemaphorePermit,
}

/// Local segments in order of arrival, and open ones in order of last use.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    queue: VecDeque<Arc<SegmentEntry>>,
    hand: usize,
    open: BTreeMap<u64, Arc<SegmentEntry>>,
    ticks: u64,
}

impl Shelf {
    /// A segment became local.
    pub(crate) fn add(&mut self, entry: &Arc<SegmentEntry>) {
        self.queue.push_back(Arc::clone(entry));
    }

    /// A segment is no longer local, or never should have been.
    pub(crate) fn remove(&mut self, entry: &Arc<SegmentEntry>) {
        if let Some(at) = self.queue.iter().position(|other| Arc::ptr_eq(other, entry)) {
            self.queue.remove(at);
            self.hand -= usize::from(at < self.hand);
        }
        self.close(entry);
    }

    /// An open segment was used: it is the last to be closed now.
    pub(crate) fn touch(&mut self, entry: &Arc<SegmentEntry>) {
        self.ticks += 1;
        let mut slot = entry.slot.lock();
        self.open.remove(&slot.tick);
        slot.tick = self.ticks;
        self.open.insert(self.ticks, Arc::clone(entry));
    }

    /// Nothing keeps it open any more except those who hold it.
    pub(crate) fn close(&mut self, entry: &Arc<SegmentEntry>) {
        let mut slot = entry.slot.lock();
        self.open.remove(&slot.tick);
        slot.idle = None;
    }

    /// Maps that are held open.
    pub(crate) fn open_count(&self) -> usize {
        self.open.len()
    }

    /// Closes the longest unused one, if all are not held.
    pub(crate) fn close_one(&mut self) {
        self.trim_open(self.open.len().saturating_sub(1));
    }

    /// Closes the longest unused ones until at most `max` are open; what a query holds stays.
    pub(crate) fn trim_open(&mut self, max: usize) {
        let excess = self.open.len().saturating_sub(max);
        if excess == 0 {
            return;
        }
        let idle = self.open.values().filter(|entry| !entry.slot.lock().is_held());
        let idle: Vec<_> = idle.take(excess).map(Arc::clone).collect();
        for entry in idle {
            self.close(&entry);
        }
    }

    /// Takes the next victim off the shelf: not used lately, not held, not in flight. The guard
    /// keeps everybody else from opening it until its file is gone.
    pub(crate) fn next_victim(&mut self) -> Option<(Arc<SegmentEntry>, OwnedMutexGuard<()>)> {
        for _ in 0..self.queue.len() * 2 {
            if self.hand >= self.queue.len() {
                self.hand = 0;
            }
            let entry = Arc::clone(self.queue.get(self.hand)?);
            let spared = entry.visited.swap(false, Ordering::Relaxed);
            let spared = spared || entry.slot.lock().is_held();
            let flight = Arc::clone(&entry.flight).try_lock_owned();
            match flight {
                Ok(flight) if !spared => {
                    self.queue.remove(self.hand);
                    self.close(&entry);
                    return Some((entry, flight));
                }
                _ => self.hand += 1,
            }
        }
        None
    }

    /// Segments on the local disk.
    pub(crate) fn local_count(&self) -> usize {
        self.queue.len()
    }
}

/// The entry's file is gone.
pub(crate) fn forget_file(entry: &SegmentEntry, place: Place) {
    let mut slot = entry.slot.lock();
    slot.state = place;
    slot.charge = None;
    slot.idle = None;
    slot.checked = false;
}
