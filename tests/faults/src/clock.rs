//! A clock that is wrong: wall time jumps on order, monotonic time stays true.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use sealcast_common::clock::{Clock, Micros};

/// Another clock's time, moved by an offset. For a clock that stands still see `ManualClock`.
#[derive(Debug)]
pub struct SkewedClock {
    inner: Arc<dyn Clock>,
    offset: AtomicI64,
}

impl SkewedClock {
    /// A clock that is `micros` ahead of `inner`, or behind it with a negative number.
    pub fn new(inner: Arc<dyn Clock>, micros: i64) -> Self {
        SkewedClock { inner, offset: AtomicI64::new(micros) }
    }

    /// An administrator or NTP sets the wall clock by so much.
    pub fn jump(&self, micros: i64) {
        self.offset.fetch_add(micros, Ordering::SeqCst);
    }
}

impl Clock for SkewedClock {
    fn now(&self) -> Micros {
        let offset = self.offset.load(Ordering::SeqCst);
        Micros(self.inner.now().0.saturating_add(offset))
    }

    fn monotonic(&self) -> Duration {
        self.inner.monotonic()
    }
}
