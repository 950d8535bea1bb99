//! The only home of time and randomness: the seams that make a run repeatable.

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// Microseconds since the Unix epoch, UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Micros(pub i64);

impl Micros {
    /// RFC 3339 with microseconds, as every text output writes times.
    pub fn to_rfc3339(self) -> String {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(timestamp) => format!("{timestamp:.6}"),
            Err(_) => format!("{}us", self.0),
        }
    }

    /// Parses RFC 3339; digits beyond microseconds are cut off.
    pub fn parse_rfc3339(text: &str) -> Option<Micros> {
        let timestamp: jiff::Timestamp = text.parse().ok()?;
        let micros = timestamp.as_nanosecond().div_euclid(1_000);
        i64::try_from(micros).ok().map(Micros)
    }

    /// Milliseconds from `earlier` to `self`, zero when the clock went back.
    pub fn millis_since(self, earlier: Micros) -> u64 {
        u64::try_from(self.0.saturating_sub(earlier.0).max(0) / 1_000).unwrap_or(0)
    }
}

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_rfc3339())
    }
}

/// Wall time as data, monotonic time for waiting. No decision of correctness rests on either.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Wall time now.
    fn now(&self) -> Micros;
    /// Monotonic time since an arbitrary start.
    fn monotonic(&self) -> Duration;
}

/// The machine's clocks.
#[derive(Debug)]
pub struct WallClock {
    start: std::time::Instant,
}

impl Default for WallClock {
    #[expect(clippy::disallowed_methods, reason = "the seam's one home")]
    fn default() -> Self {
        WallClock { start: std::time::Instant::now() }
    }
}

impl Clock for WallClock {
    #[expect(clippy::disallowed_methods, reason = "the seam's one home")]
    fn now(&self) -> Micros {
        let now = std::time::SystemTime::now();
        let micros = match now.duration_since(std::time::UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_micros()).unwrap_or(i64::MAX),
            Err(before) => -i64::try_from(before.duration().as_micros()).unwrap_or(i64::MAX),
        };
        Micros(micros)
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }
}

/// A clock that moves only when told: tests and simulation.
#[derive(Debug)]
pub struct ManualClock {
    micros: AtomicI64,
    start: i64,
}

impl ManualClock {
    /// Starts at `micros` since the epoch.
    pub fn new(micros: i64) -> Self {
        ManualClock { micros: AtomicI64::new(micros), start: micros }
    }

    /// Moves forward (or back, with a negative number).
    pub fn advance(&self, micros: i64) {
        self.micros.fetch_add(micros, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Micros {
        Micros(self.micros.load(Ordering::SeqCst))
    }

    fn monotonic(&self) -> Duration {
        let elapsed = self.micros.load(Ordering::SeqCst).saturating_sub(self.start);
        Duration::from_micros(u64::try_from(elapsed).unwrap_or(0))
    }
}

/// Random bytes: nonces, node names, ids, keys.
pub trait Random: Send + Sync + fmt::Debug {
    /// Fills `buffer`.
    fn fill(&self, buffer: &mut [u8]);

    /// A fresh 16-byte value.
    fn bytes16(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        self.fill(&mut bytes);
        bytes
    }

    /// A fresh 32-byte value.
    fn bytes32(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        self.fill(&mut bytes);
        bytes
    }
}

/// The operating system's generator.
#[derive(Debug, Default)]
pub struct OsRandom;

impl Random for OsRandom {
    #[expect(clippy::panic, reason = "without randomness no key or nonce is safe: stop at once")]
    fn fill(&self, buffer: &mut [u8]) {
        if let Err(error) = getrandom::fill(buffer) {
            panic!("the operating system gives no random bytes: {error}");
        }
    }
}

/// A repeatable stream of bytes from a seed: BLAKE3 in extendable output mode.
#[derive(Debug)]
pub struct SeededRandom {
    reader: Mutex<blake3::OutputReader>,
}

impl SeededRandom {
    /// The stream of `seed`.
    pub fn new(seed: u64) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("sealcast 2026-12 seeded random v1");
        hasher.update(&seed.to_le_bytes());
        SeededRandom { reader: Mutex::new(hasher.finalize_xof()) }
    }
}

impl Random for SeededRandom {
    fn fill(&self, buffer: &mut [u8]) {
        let mut reader = match self.reader.lock() {
            Ok(guard) => guard,
            Err(poisoned) => poisoned.into_inner(),
        };
        reader.fill(buffer);
    }
}
