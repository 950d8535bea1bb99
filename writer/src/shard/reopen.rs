//! After a disk failed: the log is read again as it is on disk, with growing waits between tries.

use std::sync::Arc;

use sealcast_common::limits::REOPEN_BYTES_LEAST;
use tokio::task::spawn_blocking;

use super::{Shard, write};
use crate::disk::has_space;
use crate::fault::{Backoff, Fault, FaultKind};
use crate::recovery::{Recovered, RecoveryError, recover, reopen};
use crate::tail::{Acknowledged, ActiveTail};

/// How a fault may end.
#[derive(Debug)]
pub(super) struct Repair {
    way: Way,
    backoff: Backoff,
}

#[derive(Debug)]
enum Way {
    /// The log that failed, compared with what was acknowledged.
    Reopen(Arc<Acknowledged>),
    /// The whole shard, which could not be recovered at the start.
    Recover,
}

/// What a try has opened.
enum Opened {
    Tail(ActiveTail),
    Shard(Recovered),
}

impl Shard {
    pub(super) fn repair_by_reopening(&self, known: Acknowledged) -> Repair {
        let backoff = Backoff::new(self.ctx.clock.monotonic());
        Repair { way: Way::Reopen(Arc::new(known)), backoff }
    }

    pub(super) fn repair_by_recovery(&self) -> Repair {
        Repair { way: Way::Recover, backoff: Backoff::new(self.ctx.clock.monotonic()) }
    }

    /// Tries to open the log again when it is time to.
    pub(super) async fn repair_if_due(&mut self) {
        let Some(Repair { way, backoff }) = &self.repair else { return };
        if !backoff.is_due(self.ctx.clock.monotonic()) {
            return;
        }
        let known = match way {
            Way::Reopen(known) => Some(Arc::clone(known)),
            Way::Recover => None,
        };
        let was_full = self.fault.as_ref().is_some_and(|f| f.kind == FaultKind::DiskFull);
        let ctx = Arc::clone(&self.ctx);
        let opened = spawn_blocking(move || {
            if was_full {
                let dir = ctx.dir.wal_dir(ctx.shard);
                has_space(&dir, REOPEN_BYTES_LEAST, &*ctx.files)
                    .map_err(|error| RecoveryError::io(&dir, error))?;
            }
            match known {
                Some(known) => reopen(&ctx, &known).map(Opened::Tail),
                None => recover(&ctx, false).map(Opened::Shard),
            }
        });
        match opened.await {
            Ok(Ok(opened)) => self.reopened(opened),
            Ok(Err(error)) => self.try_later(&error),
            Err(error) => self.give_up(Fault::of_panic("reopening", &error), None),
        }
    }

    fn reopened(&mut self, opened: Opened) {
        match opened {
            Opened::Tail(tail) => self.tail = Some(tail),
            Opened::Shard(Recovered { tail, window, sealed }) => {
                *write(&self.window) = window;
                (self.tail, self.sealed) = (Some(tail), sealed);
            }
        }
        self.clear_fault();
    }

    fn try_later(&mut self, error: &RecoveryError) {
        let found = match &self.repair {
            Some(Repair { way: Way::Recover, .. }) => FaultKind::Corrupt,
            _ => FaultKind::Poisoned,
        };
        let fault = Fault::of_recovery(error, found);
        if !fault.passes() {
            self.give_up(fault, None);
            return;
        }
        tracing::debug!(shard = self.ctx.shard, %error, "shard not reopened");
        if let Some(repair) = &mut self.repair {
            repair.backoff.failed(self.ctx.clock.monotonic());
        }
        self.state_fault(fault);
    }
}
