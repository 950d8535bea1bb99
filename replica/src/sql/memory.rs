//! One query's share of the node's memory.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};

/// Bounds a query before the node's pool is asked. Operators that can spill do so at either bound.
#[derive(Debug)]
pub(super) struct QueryPool {
    node: Arc<dyn MemoryPool>,
    used: AtomicUsize,
    bytes_max: usize,
}

impl QueryPool {
    pub(super) fn new(node: Arc<dyn MemoryPool>, bytes_max: usize) -> Self {
        QueryPool { node, used: AtomicUsize::new(0), bytes_max }
    }

    fn refusal(&self, reservation: &MemoryReservation, more: usize) -> DataFusionError {
        let (name, max) = (reservation.consumer().name(), self.bytes_max);
        let used = self.used.load(Ordering::Relaxed);
        DataFusionError::ResourcesExhausted(format!(
            "query uses {used} bytes and needs {more} more for {name}; query_memory_bytes is {max}"
        ))
    }
}

impl fmt::Display for QueryPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "query({}/{} of {})", self.reserved(), self.bytes_max, self.node)
    }
}

impl MemoryPool for QueryPool {
    fn name(&self) -> &str {
        "query"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.node.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.node.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, more: usize) {
        self.used.fetch_add(more, Ordering::Relaxed);
        self.node.grow(reservation, more);
    }

    fn shrink(&self, reservation: &MemoryReservation, less: usize) {
        self.used.fetch_sub(less, Ordering::Relaxed);
        self.node.shrink(reservation, less);
    }

    fn try_grow(&self, reservation: &MemoryReservation, more: usize) -> Result<()> {
        let within = |used: usize| used.checked_add(more).filter(|used| *used <= self.bytes_max);
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, within)
            .map_err(|_| self.refusal(reservation, more))?;
        self.node.try_grow(reservation, more).inspect_err(|_| {
            self.used.fetch_sub(more, Ordering::Relaxed);
        })
    }

    fn reserved(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.bytes_max)
    }
}
