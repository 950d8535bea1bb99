//! Times and what they add up to.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use sealcast_common::clock::{Clock as _, WallClock};

/// Measures from its making.
#[derive(Debug, Default)]
pub(super) struct Watch(WallClock);

impl Watch {
    pub(super) fn elapsed(&self) -> Duration {
        self.0.monotonic()
    }

    /// How many of `count` a second.
    pub(super) fn rate(&self, count: u64) -> f64 {
        count as f64 / self.elapsed().as_secs_f64().max(1e-9)
    }
}

/// Measures what this thread computes, in user and system mode: on a busy machine that says more of
/// a core than time does.
#[derive(Debug)]
pub(super) struct CpuWatch(Duration);

impl Default for CpuWatch {
    fn default() -> Self {
        CpuWatch(cpu(ClockId::ThreadCPUTime))
    }
}

impl CpuWatch {
    pub(super) fn elapsed(&self) -> Duration {
        cpu(ClockId::ThreadCPUTime).saturating_sub(self.0)
    }
}

/// What this process has computed so far.
pub(super) fn process_cpu() -> Duration {
    cpu(ClockId::ProcessCPUTime)
}

fn cpu(clock: ClockId) -> Duration {
    Duration::try_from(clock_gettime(clock)).unwrap_or_default()
}

/// Collected durations.
#[derive(Debug, Default)]
pub(super) struct Times(Vec<Duration>);

impl Times {
    pub(super) fn push(&mut self, time: Duration) {
        self.0.push(time);
    }

    pub(super) fn merge(&mut self, other: Times) {
        self.0.extend(other.0);
    }

    pub(super) fn count(&self) -> u64 {
        self.0.len() as u64
    }

    /// The time below which `share` (0 to 1) of all lie, milliseconds.
    pub(super) fn quantile_ms(&mut self, share: f64) -> f64 {
        self.0.sort_unstable();
        let last = self.0.len().saturating_sub(1);
        let at = (share * last as f64).round() as usize;
        self.0.get(at).map_or(f64::NAN, |time| time.as_secs_f64() * 1_000.0)
    }
}
