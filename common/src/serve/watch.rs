//! Files that are read again when they change: tokens, certificates.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::Clock;

/// Between two looks at a file, milliseconds.
const LOOK_EVERY_MS: u64 = 1_000;

/// What tells one version of a file from another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    device: u64,
    inode: u64,
    len: u64,
    mode: u32,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    pub(crate) fn of(found: &Metadata) -> Self {
        Stamp {
            device: found.dev(),
            inode: found.ino(),
            len: found.len(),
            mode: found.mode(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        }
    }

    pub(crate) fn at(path: &Path) -> io::Result<Self> {
        std::fs::metadata(path).map(|found| Stamp::of(&found))
    }
}

/// Looks that come too often are left out.
#[derive(Debug)]
pub(crate) struct Pace {
    clock: Arc<dyn Clock>,
    looked_ms: AtomicU64,
}

impl Pace {
    /// The first look is just over.
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        let now = millis(&*clock);
        Pace { clock, looked_ms: AtomicU64::new(now) }
    }

    /// Whether it is time to look; true for one of those who ask at the same time.
    pub(crate) fn is_due(&self) -> bool {
        let (now, last) = (millis(&*self.clock), self.looked_ms.load(Ordering::Relaxed));
        now.saturating_sub(last) >= LOOK_EVERY_MS
            && self
                .looked_ms
                .compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }
}

fn millis(clock: &dyn Clock) -> u64 {
    u64::try_from(clock.monotonic().as_millis()).unwrap_or(u64::MAX)
}
