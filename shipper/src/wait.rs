//! How long to wait before trying again: doubling, with jitter, bounded.

use std::time::Duration;

use sealcast_common::clock::Random;

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(10);

/// Grows with every failure in a row.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// The next pause.
    pub(crate) fn next(&mut self, random: &dyn Random) -> Duration {
        let pause = FIRST.saturating_mul(1 << self.failures.min(10)).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        pause / 2 + jitter(random, pause / 2)
    }

    /// After a success.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }
}

/// A random part of `most`.
pub(crate) fn jitter(random: &dyn Random, most: Duration) -> Duration {
    let mut byte = [0];
    random.fill(&mut byte);
    most * u32::from(byte[0]) / 256
}
