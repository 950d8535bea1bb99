//! What tests and simulation replace in every role: time, randomness, durable files.

use std::sync::Arc;

use crate::clock::{Clock, OsRandom, Random, WallClock};
use crate::durable::{Durable, RealFiles};

/// One of each; the default is the real machine.
#[derive(Clone, Debug)]
pub struct Seams {
    /// Wall and monotonic time.
    pub clock: Arc<dyn Clock>,
    /// Names, ids, nonces, keys, jitter.
    pub random: Arc<dyn Random>,
    /// File writes that survive a crash.
    pub files: Arc<dyn Durable>,
}

impl Default for Seams {
    fn default() -> Self {
        Seams {
            clock: Arc::new(WallClock::default()),
            random: Arc::new(OsRandom),
            files: Arc::new(RealFiles),
        }
    }
}
