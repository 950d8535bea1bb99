//! One record on its way into the log: made, validated, offered until its fate is known.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use sealcast_common::bucket::{AppendOutcome, CreateOnlyLog};
use sealcast_common::catalog::{Catalog, CheckpointEntry, CommitKind, CommitRecord, Descriptor};
use sealcast_common::fault::Corruption;
use sealcast_common::integrity::{LocalSigner, Signer as _};
use sealcast_common::limits::EPOCH_STEP_MAX;

use crate::error::ShipError;
use crate::place::Place;

/// What a record is to add.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) adds: Vec<Descriptor>,
    pub(crate) checkpoints: BTreeMap<u16, CheckpointEntry>,
}

/// A signed record, valid after the catalog that it was made for. Its bytes hold a nonce and are
/// never made again: the same bytes are offered until they stand or others do.
#[derive(Debug)]
pub(crate) struct Offer {
    pub(crate) kind: CommitKind,
    pub(crate) adds: Vec<Descriptor>,
    /// The catalog once it stands.
    pub(crate) next: Catalog,
    /// When it was made (monotonic).
    pub(crate) since: Duration,
    bytes: Bytes,
}

/// How an offer ended.
#[derive(Debug)]
pub(crate) enum Settled {
    /// It stands.
    Ours,
    /// A record of this epoch stands instead.
    Theirs(u64),
}

impl Offer {
    /// A claim of the next epoch.
    pub(crate) fn fence(place: &Place, catalog: &Catalog) -> Result<Self, ShipError> {
        Self::make(place, catalog, CommitKind::Fence, Batch::default())
    }

    /// Segments in our epoch.
    pub(crate) fn add(place: &Place, catalog: &Catalog, batch: Batch) -> Result<Self, ShipError> {
        Self::make(place, catalog, CommitKind::Add, batch)
    }

    fn make(
        place: &Place,
        catalog: &Catalog,
        kind: CommitKind,
        batch: Batch,
    ) -> Result<Self, ShipError> {
        let signer: &LocalSigner = &place.signer;
        let record = CommitRecord {
            store_id: place.store_id,
            cluster: place.node.cluster.clone(),
            stream: place.node.node.clone(),
            seq: catalog.seq + 1,
            epoch: catalog.epoch.saturating_add(u64::from(kind == CommitKind::Fence)),
            author: signer.public_key(),
            nonce: place.seams.random.bytes16(),
            previous: catalog.hash,
            kind,
            adds: batch.adds,
            removes: Vec::new(),
            checkpoints: batch.checkpoints,
            committed_at: place.seams.clock.now(),
        };
        let bytes = record.to_object(signer)?;
        // Read back and folded before it is offered: no reader will refuse what stands.
        let next = CommitRecord::from_object(&bytes)
            .and_then(|(record, hash)| catalog.apply(&record, hash))
            .map_err(|finding| ShipError::Log(finding.in_object(place.log.key(record.seq))))?;
        let since = place.seams.clock.monotonic();
        Ok(Offer { kind, adds: record.adds, next, since, bytes: bytes.into() })
    }

    /// Offers the bytes. An error says that the fate is not known, or that what stands there is
    /// no record of this stream: keep the offer and come again.
    pub(crate) async fn settle(&self, log: &CreateOnlyLog) -> Result<Settled, ShipError> {
        let seq = self.next.seq;
        let object = match log.append(seq, &self.bytes).await {
            AppendOutcome::Committed => return Ok(Settled::Ours),
            AppendOutcome::Unknown(source) => return Err(ShipError::Unknown { seq, source }),
            AppendOutcome::Taken(object) => object,
        };
        let broken = |finding| ShipError::Log(finding);
        let (record, _) = CommitRecord::from_object(&object)
            .map_err(|finding| broken(finding.in_object(log.key(seq))))?;
        // Nobody follows such a claim, whoever made it: it fences nobody.
        let most = self.next.epoch.saturating_add(EPOCH_STEP_MAX);
        if record.epoch > most {
            let (expected, found) = (format!("an epoch up to {most}"), record.epoch.to_string());
            let finding = Corruption::new("epoch", None, expected, found);
            return Err(broken(finding.in_object(log.key(seq))));
        }
        let wanted = (&self.next.store_id, &self.next.stream, seq);
        if (&record.store_id, &record.stream, record.seq) == wanted {
            return Ok(Settled::Theirs(record.epoch));
        }
        let expected = format!("commit {seq} of stream {}", self.next.stream);
        let found = format!("commit {} of stream {}", record.seq, record.stream);
        let finding = Corruption::new("stream", None, expected, found);
        Err(broken(finding.in_object(log.key(seq))))
    }
}
