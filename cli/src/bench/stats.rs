//! Times and what they add up to.

use std::time::Duration;

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
/// a core than time does. Where the system does not tell, it is time.
#[derive(Debug)]
pub(super) struct CpuWatch(Watch, Option<Duration>);

impl Default for CpuWatch {
    fn default() -> Self {
        CpuWatch(Watch::default(), thread_cpu())
    }
}

impl CpuWatch {
    pub(super) fn elapsed(&self) -> Duration {
        let cpu = thread_cpu().zip(self.1).map(|(now, start)| now.saturating_sub(start));
        cpu.unwrap_or_else(|| self.0.elapsed())
    }
}

/// What this thread has computed so far, as Linux tells it: nanoseconds.
fn thread_cpu() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}

/// What this process has computed so far, as Linux tells it: hundredths of a second.
pub(super) fn process_cpu() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name may hold anything, and ends with the last parenthesis.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(Duration::from_millis((ticks(11)? + ticks(12)?) * 10))
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
