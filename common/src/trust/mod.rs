//! What a follower of a store remembers, so that nobody can show it another history later.
//!
//! ```text
//! look    the cluster log: signature, witnesses, size, continuation, rules  ──▶ adopt (in memory)
//! hold    a stream's catalog against it, and against what was held before   ──▶ accept (in memory)
//! save    once everything holds, and not before: one file
//! ```
//! Replicas and auditors keep the same file. Reading order: `file` (its form), `look` (the cluster
//! log), `hold` (catalogs), `evidence` (two notes that contradict each other). The first look, with
//! nothing remembered, believes the keys of a policy; without one it believes what it sees, if
//! whoever runs it has said so (`first_use`).

mod evidence;
mod file;
mod hold;
mod look;

#[cfg(test)]
mod tests;

pub use look::{Look, News};

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::bucket::{RowLogError, StoreError};
use crate::catalog::CheckpointEntry;
use crate::clock::Micros;
use crate::cluster::ClusterState;
use crate::durable::Durable;
use crate::fault::Corruption;
use crate::integrity::{Note, Policy};

/// Why a step was not made.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// What lies in the store contradicts what was trusted: nothing new may be taken from it.
    #[error("{finding}{}", kept(evidence.as_deref()))]
    Contradiction {
        /// The named check.
        finding: Box<Corruption>,
        /// The file with both notes, if there are two.
        evidence: Option<PathBuf>,
    },
    /// Too few witnesses, or what they say is too old: no evidence against anybody, and no reason
    /// to believe it.
    #[error(transparent)]
    Unproven(Box<Corruption>),
    /// The state file is damaged. Never begun anew: whoever damages it would choose what is trusted.
    #[error("{0}; restore the file, or move it away to begin anew with what the store shows")]
    Damaged(Box<Corruption>),
    /// Nothing is trusted yet, and nobody said whom to believe.
    #[error("{path} does not exist: give a policy that names the keys, or say trust_on_first_use")]
    Begin {
        /// Where the state would be.
        path: String,
    },
    /// The state file cannot be read or written.
    #[error("trust state {path} cannot be used: {source}")]
    File {
        /// Its path.
        path: String,
        /// The system's word.
        source: io::Error,
    },
    /// The store does not answer: nothing is known.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn kept(evidence: Option<&Path>) -> String {
    evidence.map_or(String::new(), |path| format!("; both notes are kept in {}", path.display()))
}

impl TrustError {
    /// The named check, if one failed.
    pub fn check(&self) -> Option<&'static str> {
        match self {
            TrustError::Contradiction { finding: found, .. }
            | TrustError::Unproven(found)
            | TrustError::Damaged(found) => Some(found.check),
            _ => None,
        }
    }

    fn contradiction(finding: Corruption) -> Self {
        TrustError::Contradiction { finding: Box::new(finding), evidence: None }
    }
}

impl From<Corruption> for TrustError {
    fn from(finding: Corruption) -> Self {
        TrustError::contradiction(finding)
    }
}

impl From<RowLogError> for TrustError {
    fn from(error: RowLogError) -> Self {
        match error {
            RowLogError::Store(error) => TrustError::Store(error),
            RowLogError::Corrupt(finding) => TrustError::contradiction(finding),
            // Proofs and rows are not asked for here.
            other => TrustError::contradiction(Corruption::new(
                "cluster_missing",
                None,
                "the cluster log",
                other.to_string(),
            )),
        }
    }
}

/// What is trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustState {
    /// The cluster log, folded up to the newest trusted checkpoint; of size 0 before the first.
    pub cluster: ClusterState,
    /// That checkpoint as signed and cosigned; empty before the first.
    pub note: String,
    /// Of each shard, what the newest catalog that held says. Newer than the epoch, often.
    pub shards: BTreeMap<u16, TrustedShard>,
}

/// A shard as it was committed when everything held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustedShard {
    /// The stream that ships it.
    pub stream: String,
    /// Its newest signed checkpoint.
    pub checkpoint: CheckpointEntry,
}

/// The state, its file, and whom to believe. Cheap checks only: cloned to look at the store while
/// others read it.
#[derive(Clone, Debug)]
pub struct Trust {
    state: TrustState,
    path: PathBuf,
    files: Arc<dyn Durable>,
    policy: Option<Arc<Policy>>,
    saved: Arc<[u8]>,
}

impl Trust {
    /// Reads the state file. A missing one is begun with the first look, if `policy` names the keys
    /// or `first_use` is said; a damaged one is an error.
    pub fn open(
        path: &Path,
        files: Arc<dyn Durable>,
        policy: Option<Policy>,
        first_use: bool,
    ) -> Result<Self, TrustError> {
        let shown = path.display().to_string();
        let mut trust = Trust {
            state: TrustState::default(),
            path: path.to_owned(),
            files,
            policy: policy.map(Arc::new),
            saved: Arc::default(),
        };
        match std::fs::read(path) {
            Ok(text) => {
                let damaged =
                    |found: Corruption| TrustError::Damaged(Box::new(found.in_object(shown)));
                trust.state = TrustState::parse(&text).map_err(damaged)?;
                trust.saved = text.into();
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if trust.policy.is_none() && !first_use {
                    return Err(TrustError::Begin { path: shown });
                }
            }
            Err(source) => return Err(TrustError::File { path: shown, source }),
        }
        Ok(trust)
    }

    /// What is trusted, as far as it was adopted and accepted.
    pub fn state(&self) -> &TrustState {
        &self.state
    }

    /// Whether a policy names whom to believe.
    pub fn has_policy(&self) -> bool {
        self.policy.is_some()
    }

    /// Writes the state, if it differs from what was written last: synced and renamed. To be asked
    /// only after everything held.
    pub fn save(&mut self) -> Result<(), TrustError> {
        let text = self.state.to_text();
        if *self.saved == *text || self.state == TrustState::default() {
            return Ok(());
        }
        let failed = |source| TrustError::File { path: self.path.display().to_string(), source };
        self.files.replace(&self.path, &text).map_err(failed)?;
        self.saved = text.into();
        Ok(())
    }

    /// When the witnesses of the policy cosigned the newest trusted checkpoint: the median. `None`
    /// without a checkpoint, or without a witness that the policy names.
    pub fn cosigned_at(&self) -> Option<Micros> {
        let note = Note::parse(&self.state.note).ok()?;
        let mut times: Vec<u64> =
            self.policy.as_ref()?.cosigned(&note).ok()?.into_iter().map(|(_, time)| time).collect();
        times.sort_unstable();
        let median = *times.get(times.len().checked_sub(1)? / 2)?;
        Some(Micros(i64::try_from(median).ok()?.checked_mul(1_000_000)?))
    }

    /// The newest trusted checkpoint is younger than this, by its witnesses. Whoever goes on showing
    /// an old but valid state is found here. Nothing to say without witnesses.
    pub fn check_fresh(&self, now: Micros, max_ms: u64) -> Result<(), TrustError> {
        match self.cosigned_at().map(|at| now.millis_since(at)) {
            Some(age) if age > max_ms => {
                let expected = format!("cosigned within {max_ms} ms");
                let found =
                    Corruption::new("cluster_stale", None, expected, format!("{age} ms ago"));
                Err(TrustError::Unproven(Box::new(
                    found.in_object(crate::catalog::names::CLUSTER_HEAD_KEY),
                )))
            }
            _ => Ok(()),
        }
    }
}
