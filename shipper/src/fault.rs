//! Why one shard does not ship while the others do.

use std::path::Path;

use sealcast_common::fault::Corruption;
use serde::{Deserialize, Serialize};

use crate::judge::Grounds;

/// What stops a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// Committed or sealed twice with different bytes.
    Fork,
    /// A sealed file is missing in the middle.
    Gap,
    /// A sealed file or its note fails a check.
    Corrupt,
    /// The shard's public key is not known, or not the one that signed before.
    Key,
    /// A file cannot be read.
    Unreadable,
}

impl FaultKind {
    /// A word from a closed list, as metric label.
    pub(crate) fn word(self) -> &'static str {
        match self {
            FaultKind::Fork => "fork",
            FaultKind::Gap => "gap",
            FaultKind::Corrupt => "corrupt",
            FaultKind::Key => "key",
            FaultKind::Unreadable => "unreadable",
        }
    }
}

/// A shard's fault with its evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: FaultKind,
    pub(crate) finding: Corruption,
    /// What was judged, and against what; the same is not judged again.
    pub(crate) grounds: Option<Box<Grounds>>,
}

impl Fault {
    pub(crate) fn new(kind: FaultKind, file: &Path, finding: Corruption) -> Self {
        let finding = finding.in_object(file.display().to_string());
        Fault { kind, finding, grounds: None }
    }
}
