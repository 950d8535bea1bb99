//! Two signed notes that cannot both be true, kept for who judges between them.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{Trust, TrustError};
use crate::checked;
use crate::fault::{Corruption, hex};
use crate::integrity::file_hash;

/// The file: checked JSON. Anybody can verify the signatures of both with `key`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EvidenceFile {
    check: String,
    reason: String,
    key: String,
    trusted: String,
    shown: String,
}

impl Trust {
    /// The contradiction, with both notes beside the state: once for a pair, and best effort, as a
    /// finding counts even if its evidence cannot be kept.
    pub(super) fn convict(&self, finding: Corruption, shown: &str) -> TrustError {
        let (key, trusted) = (self.state.cluster.key.clone(), self.state.note.clone());
        if trusted.is_empty() || shown.is_empty() || trusted == shown {
            return finding.into();
        }
        let pair = file_hash([trusted.as_bytes(), shown.as_bytes()].concat().as_slice());
        let path = self.path.with_file_name(format!("fork-evidence-{}.json", hex(&pair[..8])));
        let file = EvidenceFile {
            check: finding.check.to_owned(),
            reason: finding.to_string(),
            key,
            trusted,
            shown: shown.to_owned(),
        };
        let kept = path.exists() || self.keep(&path, &checked::to_text(&file));
        let evidence = kept.then_some(path);
        TrustError::Contradiction { finding: Box::new(finding), evidence }
    }

    fn keep(&self, path: &Path, text: &[u8]) -> bool {
        let kept = self.files.replace(path, text);
        if let Err(error) = &kept {
            tracing::warn!(path = %path.display(), %error, "evidence not kept");
        }
        kept.is_ok()
    }
}
