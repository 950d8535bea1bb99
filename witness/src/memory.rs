//! What was cosigned last of each log. Checking a request and persisting its checkpoint are one
//! step: otherwise a slower request could take a log back behind a faster one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sealcast_common::clock::Clock;
use sealcast_common::fault::Corruption;
use sealcast_common::integrity::{
    AddCheckpoint, Admitted, CosignerKey, LocalSigner, Refusal, Signer as _, SignerError,
    VerifyKey, origin_hash,
};
use sealcast_common::seams::Seams;
use sealcast_common::serve::Health;

use crate::error::StartError;
use crate::folder::{Cosigned, Folder};
use crate::metrics;

/// Why a request gets no cosignature.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AddError {
    /// The protocol says no.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Nothing can be remembered, so nothing is cosigned.
    #[error("checkpoint cannot be remembered: {0}")]
    File(#[from] std::io::Error),
    /// A cosignature has a time.
    #[error("the witness's clock is before 1970")]
    Clock,
    /// The key does not sign.
    #[error(transparent)]
    Signer(#[from] SignerError),
}

/// A log: whom it may be signed by, and what was cosigned last.
#[derive(Debug, Default)]
struct Log {
    /// None: not cosigned any more, but what was cosigned is still told.
    keys: Vec<VerifyKey>,
    last: Mutex<Option<Cosigned>>,
}

impl Log {
    /// It is changed in one assignment: a panic elsewhere leaves it whole.
    fn last(&self) -> MutexGuard<'_, Option<Cosigned>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The witness behind its HTTP server. Its calls block: they sync files.
#[derive(Debug)]
pub(crate) struct Memory {
    folder: Folder,
    signer: LocalSigner,
    clock: Arc<dyn Clock>,
    health: Health,
    /// By hash of origin.
    logs: BTreeMap<String, Log>,
}

impl Memory {
    /// Reads all that was cosigned. What cannot be read is never begun anew.
    pub(crate) fn open(
        folder: Folder,
        signer: LocalSigner,
        known: BTreeMap<String, Vec<VerifyKey>>,
        seams: &Seams,
        health: Health,
    ) -> Result<Arc<Self>, StartError> {
        let log = |(origin, keys): (String, Vec<VerifyKey>)| {
            (origin_hash(&origin), Log { keys, last: Mutex::default() })
        };
        let mut logs: BTreeMap<String, Log> = known.into_iter().map(log).collect();
        for cosigned in folder.read_all(&key_of(&signer))? {
            let hash = origin_hash(&cosigned.checkpoint.origin);
            let log = logs.entry(hash.clone()).or_default();
            let in_file = |found: Corruption| {
                StartError::Memory(found.in_object(format!("logs/{hash}.note")))
            };
            cosigned.check(&log.keys).map_err(in_file)?;
            *log.last() = Some(cosigned);
        }
        let clock = Arc::clone(&seams.clock);
        let memory = Memory { folder, signer, clock, health, logs };
        if memory.folder.has_evidence() {
            memory.tell_evidence();
        }
        Ok(Arc::new(memory))
    }

    /// Its public key.
    pub(crate) fn key(&self) -> CosignerKey {
        key_of(&self.signer)
    }

    /// `POST add-checkpoint`: the cosignature's line.
    pub(crate) fn add(&self, body: &str) -> Result<String, AddError> {
        let request = AddCheckpoint::parse(body)?;
        let log = |origin: &str| self.logs.get(&origin_hash(origin));
        let admitted = request.admit(|origin| log(origin).map(|log| log.keys.as_slice()))?;
        let origin = &admitted.checkpoint.origin;
        let log = log(origin).ok_or_else(|| Refusal::UnknownLog(origin.clone()))?;
        // Held until the file is durable: checked and persisted in one step.
        let mut last = log.last();
        if let Some(cosigned) = last.as_ref()
            && admitted.contradicts(Some(&cosigned.checkpoint))
        {
            self.forked(cosigned, &admitted);
        }
        admitted.decide(&request, last.as_ref().map(|cosigned| &cosigned.checkpoint))?;
        let seconds = self.clock.now().0 / 1_000_000;
        let time = u64::try_from(seconds).ok().filter(|time| *time > 0).ok_or(AddError::Clock)?;
        let Admitted { mut note, checkpoint } = admitted;
        let line = note.cosign(&self.signer, time)?;
        let cosigned = Cosigned { checkpoint, text: note.to_text() };
        self.folder.remember(&cosigned)?;
        tracing::debug!(
            origin = cosigned.checkpoint.origin,
            size = cosigned.checkpoint.size,
            "cosigned"
        );
        *last = Some(cosigned);
        Ok(line)
    }

    /// `GET <hash>/checkpoint`: what was cosigned last, if anything was.
    pub(crate) fn last(&self, hash: &str) -> Option<String> {
        self.logs.get(hash)?.last().as_ref().map(|cosigned| cosigned.text.clone())
    }

    /// Both notes are kept: together they convict the log before everybody.
    fn forked(&self, ours: &Cosigned, theirs: &Admitted) {
        metrics::forked();
        self.tell_evidence();
        let text = theirs.note.to_text();
        let theirs = Cosigned { checkpoint: theirs.checkpoint.clone(), text };
        let origin = &theirs.checkpoint.origin;
        match self.folder.keep(ours).and_then(|_| self.folder.keep(&theirs)) {
            Ok(Some(file)) => {
                let (size, file) = (theirs.checkpoint.size, file.display());
                tracing::error!(origin, size, evidence = %file, "log shows two histories");
            }
            // It was told when it was kept first.
            Ok(None) => {}
            Err(error) => {
                tracing::error!(origin, %error, notes = ?[&ours.text, &theirs.text],
                                "log shows two histories; evidence not kept");
            }
        }
    }

    fn tell_evidence(&self) {
        let note = "a log has shown two histories: both notes lie under evidence/";
        self.health.note("evidence", note);
    }
}

fn key_of(signer: &LocalSigner) -> CosignerKey {
    CosignerKey { name: signer.name().to_owned(), public_key: signer.public_key() }
}
