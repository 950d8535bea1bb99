//! The one policy for trying again: few extra calls, at random moments, never a storm.
//!
//! Every first call earns a tenth of a retry, a retry costs one, and at most [`RESERVE`] are kept.
//! So among any `n` calls at most `n / 10 + RESERVE` are retries, however long a store is down and
//! however many callers there are: clones of a store share its budget. Whoever loops forever
//! (the shipper's turns, a replica's polls) waits between rounds on its own.

use std::fmt;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use crate::clock::Random;

/// Retries that a quiet time saves up, and that a fresh store starts with.
pub const RESERVE: u32 = 10;
/// Tries of one call, the first included.
pub(super) const TRIES: u32 = 3;

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// A store that asks for more patience than this gets it from the caller's next round.
const LONGEST_WISH: Duration = Duration::from_secs(20);
/// What every call may take, whatever its size.
const ANSWER: Duration = Duration::from_secs(2);
/// The slowest transfer that is still waited for, bytes a second.
const SLOWEST: u64 = 1024 * 1024;
/// Tenths of a retry: what the budget counts in.
const TENTHS: u32 = 10;

/// Two seconds and the time that `bytes` take at 1 MiB/s.
pub fn time_limit(bytes: u64) -> Duration {
    ANSWER + Duration::from_micros(bytes.saturating_mul(1_000_000) / SLOWEST)
}

/// Shared by all clones of one store.
pub(super) struct Retry {
    random: Arc<dyn Random>,
    state: Mutex<State>,
}

struct State {
    tenths: u32,
    /// What the store's last refusal asked for (`Retry-After`).
    wish: Option<Duration>,
}

impl fmt::Debug for Retry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retry").finish_non_exhaustive()
    }
}

impl Retry {
    pub(super) fn new(random: Arc<dyn Random>) -> Arc<Self> {
        let state = State { tenths: RESERVE * TENTHS, wish: None };
        Arc::new(Retry { random, state: Mutex::new(state) })
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        match self.state.lock() {
            Ok(guard) => guard,
            Err(poisoned) => poisoned.into_inner(),
        }
    }

    /// A call that is no retry.
    pub(super) fn earn(&self) {
        let mut state = self.state();
        state.tenths = (state.tenths + 1).min(RESERVE * TENTHS);
    }

    /// The store asks for so much patience.
    pub(super) fn wish(&self, patience: Duration) {
        self.state().wish = Some(patience);
    }

    /// How long to wait before retry `number` (from 0); `None`: the budget is spent, or the store
    /// wants to be left alone for longer than a caller should wait.
    pub(super) fn pause(&self, number: u32) -> Option<Duration> {
        let wish = {
            let mut state = self.state();
            let wish = state.wish.take().unwrap_or_default();
            if state.tenths < TENTHS || wish > LONGEST_WISH {
                metrics::counter!("sealcast_store_retries_refused_total").increment(1);
                return None;
            }
            state.tenths -= TENTHS;
            wish
        };
        metrics::counter!("sealcast_store_retries_total").increment(1);
        let most = FIRST_PAUSE.saturating_mul(1 << number.min(8)).min(LONGEST_PAUSE);
        Some(wish + self.part_of(most))
    }

    /// Full jitter: anything from nothing to `most`.
    fn part_of(&self, most: Duration) -> Duration {
        let mut bytes = [0; 2];
        self.random.fill(&mut bytes);
        most * u32::from(u16::from_le_bytes(bytes)) / 65_536
    }
}
