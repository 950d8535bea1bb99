//! The keeper's folder: its key, what it has signed, and the leaves that it signed last.

use std::sync::Arc;

use sealcast_common::cluster::Pending;
use sealcast_common::durable::Durable;
use sealcast_common::fault::Corruption;
use sealcast_common::integrity::{LogSigner as _, RememberingSigner};
use sealcast_common::layout::DataDir;
use sealcast_common::seams::Seams;

use super::KeepError;

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    dir: DataDir,
    files: Arc<dyn Durable>,
}

impl Folder {
    pub(super) fn new(dir: &DataDir, files: Arc<dyn Durable>) -> Self {
        Folder { dir: dir.clone(), files }
    }

    /// The log's signer; its key is made at the first start.
    pub(super) fn signer(
        &self,
        origin: &str,
        seams: &Seams,
    ) -> Result<RememberingSigner, KeepError> {
        let folder = self.dir.cluster_dir();
        self.files.create_dir(&folder).map_err(|error| self.failed(&folder, error))?;
        let seams = Seams { files: Arc::clone(&self.files), ..seams.clone() };
        let signer = self.dir.cluster_key().signer(origin, true, &seams);
        let signer = signer.map_err(|error| KeepError::Key(error.to_string()))?;
        let public = self.dir.cluster_public_key_file();
        let text = format!("{}\n", signer.keys().to_text());
        match std::fs::read(&public) {
            Ok(found) if found == text.as_bytes() => return Ok(signer),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            _ => {
                let file = public.display().to_string();
                tracing::warn!(check = "cluster_key", file, "not log.key's half: written anew");
            }
        }
        let published = self.files.replace(&public, text.as_bytes());
        published.map_err(|error| self.failed(&public, error))?;
        Ok(signer)
    }

    /// What was to be signed last.
    pub(super) fn pending(&self) -> Result<Pending, KeepError> {
        let path = self.dir.cluster_pending_file();
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Pending::default());
            }
            Err(error) => return Err(self.failed(&path, error)),
        };
        let named = |finding: Corruption| finding.in_object(path.display().to_string());
        Ok(Pending::parse(&text).map_err(named)?)
    }

    /// Written down before anything is signed.
    pub(super) fn write(&self, pending: &Pending) -> Result<(), KeepError> {
        let path = self.dir.cluster_pending_file();
        self.files.replace(&path, &pending.to_text()).map_err(|error| self.failed(&path, error))
    }

    fn failed(&self, path: &std::path::Path, source: std::io::Error) -> KeepError {
        KeepError::File { file: path.display().to_string(), source }
    }
}
