//! Why a shard takes no events, what to do about it, and how long to wait before the next try.

use std::io;
use std::time::Duration;

use sealcast_common::fault::Corruption;
use sealcast_common::integrity::SignerError;
use sealcast_common::limits::{REOPEN_MS_LEAST, REOPEN_MS_MAX};
use tokio::task::JoinError;

use crate::recovery::RecoveryError;
use crate::sealer::SealError;

/// The states of a shard that takes no events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultKind {
    /// No space: the log is opened again when there is some.
    DiskFull,
    /// A write or a sync failed: the log is opened again, and read as it is on disk.
    Suspended,
    /// Seals fail, and the tail has reached its hard bound; or the signer does not answer.
    Overdue,
    /// What was acknowledged is not there, or a thread broke off: a restart must look.
    Poisoned,
    /// The start found bytes that nobody wrote: nothing was changed.
    Corrupt,
}

impl FaultKind {
    /// The word in `/v1/shards` and in logs.
    pub(crate) fn word(self) -> &'static str {
        match self {
            FaultKind::DiskFull => "disk_full",
            FaultKind::Suspended => "suspended",
            FaultKind::Overdue => "overdue",
            FaultKind::Poisoned => "poisoned",
            FaultKind::Corrupt => "corrupt",
        }
    }

    /// What to do.
    pub(crate) fn hint(self) -> &'static str {
        match self {
            FaultKind::DiskFull => {
                "free space on the disk of the data directory: writes come back by themselves"
            }
            FaultKind::Suspended => {
                "look at the disk: the log is read again and writes come back by themselves"
            }
            FaultKind::Overdue => {
                "look at the disk and the signer: segments cannot be sealed, see the log"
            }
            FaultKind::Poisoned => {
                "nothing acknowledged is cut: find the cause in the log, then restart the writer"
            }
            FaultKind::Corrupt => {
                "nothing was changed: copy the directory first, then run `sealcast verify DIR`"
            }
        }
    }
}

/// Why a shard takes no events now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{cause}")]
pub(crate) struct Fault {
    pub(crate) kind: FaultKind,
    /// What happened.
    pub(crate) cause: String,
    /// The named check that found it.
    pub(crate) corruption: Option<Box<Corruption>>,
}

impl Fault {
    pub(crate) fn new(kind: FaultKind, cause: impl Into<String>) -> Self {
        Fault { kind, cause: cause.into(), corruption: None }
    }

    pub(crate) fn of_io(step: &str, error: &io::Error) -> Self {
        Fault::new(kind_of(error), format!("{step} failed: {error}"))
    }

    pub(crate) fn of_seal(error: &SealError) -> Self {
        let kind = match error {
            SealError::Io { source, .. } => kind_of(source),
            SealError::Sign(error) => kind_of_signer(error, FaultKind::Poisoned),
            SealError::Corrupt(_) => FaultKind::Poisoned,
        };
        let corruption = match error {
            SealError::Corrupt(corruption) => Some(Box::new(corruption.clone())),
            SealError::Sign(SignerError::Memory(corruption)) => Some(corruption.clone()),
            _ => None,
        };
        Fault { kind, cause: error.to_string(), corruption }
    }

    /// `found`: what corruption means to the caller, `Corrupt` at a start, `Poisoned` later.
    pub(crate) fn of_recovery(error: &RecoveryError, found: FaultKind) -> Self {
        match error {
            RecoveryError::Io { source, .. } => Fault::new(kind_of(source), error.to_string()),
            RecoveryError::Seal(error) => match Fault::of_seal(error) {
                fault if fault.kind == FaultKind::Poisoned => Fault { kind: found, ..fault },
                fault => fault,
            },
            RecoveryError::Signer(signer) => {
                Fault::new(kind_of_signer(signer, found), error.to_string())
            }
            RecoveryError::Corrupt(corruption)
            | RecoveryError::Signed { finding: corruption, .. } => Fault {
                kind: found,
                cause: error.to_string(),
                corruption: Some(Box::new(corruption.clone())),
            },
            RecoveryError::Orphaned { .. } => Fault::new(found, error.to_string()),
        }
    }

    pub(crate) fn of_panic(step: &str, error: &JoinError) -> Self {
        Fault::new(FaultKind::Poisoned, format!("{step} broke off: {error}"))
    }

    /// The same without what it says of files.
    pub(crate) fn concealed(&self) -> Self {
        Fault::new(self.kind, "the cause is in the writer's log")
    }

    /// Whether another try may help without a restart.
    pub(crate) fn passes(&self) -> bool {
        matches!(self.kind, FaultKind::DiskFull | FaultKind::Suspended | FaultKind::Overdue)
    }
}

/// Space and quotas come back; anything else may too, but says less.
fn kind_of(error: &io::Error) -> FaultKind {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => FaultKind::DiskFull,
        _ => FaultKind::Suspended,
    }
}

/// A signer that cannot be reached comes back; one that refuses has seen something.
fn kind_of_signer(error: &SignerError, refused: FaultKind) -> FaultKind {
    match error {
        SignerError::Unavailable(_) => FaultKind::Overdue,
        SignerError::File { kind, .. } => kind_of(&io::Error::from(*kind)),
        SignerError::Key(_) | SignerError::Refused(_) | SignerError::Memory(_) => refused,
    }
}

/// Waits between tries: doubled from the least to the most.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    wait: Duration,
    /// Monotonic time of the next try.
    due: Duration,
}

impl Backoff {
    /// The first try comes after the least wait.
    pub(crate) fn new(now: Duration) -> Self {
        let wait = Duration::from_millis(REOPEN_MS_LEAST);
        Backoff { wait, due: now + wait }
    }

    pub(crate) fn is_due(&self, now: Duration) -> bool {
        now >= self.due
    }

    /// After a try that failed.
    pub(crate) fn failed(&mut self, now: Duration) {
        self.wait = (self.wait * 2).min(Duration::from_millis(REOPEN_MS_MAX));
        self.due = now + self.wait;
    }
}
