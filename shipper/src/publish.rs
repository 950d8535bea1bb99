//! Telling others what is committed: the writer by `shipped.json`, readers by hints and snapshots.
//!
//! Nothing here decides anything: whatever is lost is made again from the log.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use sealcast_common::bucket::StreamIndex;
use sealcast_common::catalog::names::{head_key, snapshot_key, snapshot_leaf_key};
use sealcast_common::catalog::{Catalog, SnapshotRoot, encode_leaves};
use sealcast_common::checked;
use sealcast_common::fault::hex;
use sealcast_common::integrity::file_hash;
use sealcast_common::wire::{HeadFile, ShippedFile};

use crate::error::ShipError;
use crate::place::{Place, blocking};
use crate::position::SnapshotMark;

/// Head is put at most this often.
const HEAD_PAUSE: Duration = Duration::from_secs(1);
/// How much longer after a failure: it is only a hint.
const HEAD_PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(30);

/// What has been told, and when.
#[derive(Debug)]
pub(crate) struct Publisher {
    place: Arc<Place>,
    snapshot: Option<SnapshotMark>,
    leaves: HashSet<[u8; 32]>,
    /// The commit that `shipped.json` tells of.
    marked: Option<u64>,
    /// The commit that head tells of, and when it was put.
    head: Option<(u64, Duration)>,
    /// Whether the index of streams names ours.
    announced: bool,
}

impl Publisher {
    pub(crate) fn new(place: Arc<Place>) -> Self {
        Publisher {
            place,
            snapshot: None,
            leaves: HashSet::new(),
            marked: None,
            head: None,
            announced: false,
        }
    }

    /// The snapshot that the log was booted from.
    pub(crate) fn found(&mut self, snapshot: Option<SnapshotMark>) {
        self.leaves = snapshot.iter().flat_map(|mark| mark.leaves.iter().copied()).collect();
        self.snapshot = snapshot;
    }

    /// Replaces `shipped.json` if it tells of another commit.
    pub(crate) async fn mark_shipped(&mut self, catalog: &Catalog) -> Result<(), ShipError> {
        if self.marked == Some(catalog.seq) {
            return Ok(());
        }
        let file = ShippedFile {
            stream: catalog.stream.clone(),
            seq: catalog.seq,
            vector: catalog.vector(),
        };
        let text = checked::to_text(&file);
        let path = self.place.dir.shipped_file();
        let files = Arc::clone(&self.place.seams.files);
        let target = path.clone();
        let replaced = blocking(move || files.replace(&target, &text)).await?;
        replaced.map_err(ShipError::file(&path))?;
        self.marked = Some(catalog.seq);
        Ok(())
    }

    /// How long until head may be put again; `None` if it tells of this commit already.
    pub(crate) fn head_due(&self, seq: u64) -> Option<Duration> {
        match self.head {
            Some((told, _)) if told == seq => None,
            Some((_, at)) => {
                Some((at + HEAD_PAUSE).saturating_sub(self.place.seams.clock.monotonic()))
            }
            None => Some(Duration::ZERO),
        }
    }

    /// Puts head if it is due, or `now`.
    pub(crate) async fn put_head(&mut self, catalog: &Catalog, now: bool) {
        let due = self.head_due(catalog.seq);
        let wanted = due.is_some_and(|pause| now || pause.is_zero());
        if !wanted || catalog.seq == 0 {
            return;
        }
        let head = HeadFile {
            seq: catalog.seq,
            hash: hex(&catalog.hash),
            snapshot: self.snapshot.as_ref().map(|mark| mark.key.clone()),
        };
        let text = checked::to_text(&head);
        let at = self.place.seams.clock.monotonic();
        match self.place.store.put(&head_key(&catalog.stream), Bytes::from(text)).await {
            Ok(()) => self.head = Some((catalog.seq, at)),
            Err(error) => {
                tracing::warn!(%error, "head not put");
                crate::metrics::failed("head");
                self.head = Some((0, at + HEAD_PAUSE_AFTER_FAILURE));
            }
        }
    }

    /// Names the stream to replicas that run already. Once: whoever starts later lists.
    pub(crate) async fn announce(&mut self, catalog: &Catalog) {
        if self.announced {
            return;
        }
        match StreamIndex::new(self.place.store.clone()).announce(&catalog.stream).await {
            Ok(()) => self.announced = true,
            Err(error) => {
                tracing::warn!(%error, "stream not announced");
                crate::metrics::failed("announce");
            }
        }
    }

    /// S7: a snapshot of `catalog`, which we own, if at least `every` commits came since the last.
    pub(crate) async fn snapshot(&mut self, catalog: &Catalog, every: u64) {
        let last = self.snapshot.as_ref().map_or(0, |mark| mark.seq);
        if catalog.seq.saturating_sub(last) < every.max(1) {
            return;
        }
        match self.put_snapshot(catalog).await {
            Ok(mark) => {
                tracing::info!(seq = mark.seq, leaves = mark.leaves.len(), "snapshot written");
                self.leaves = mark.leaves.iter().copied().collect();
                self.snapshot = Some(mark);
                self.head = None;
            }
            Err(error) => {
                tracing::warn!(%error, "snapshot not written");
                crate::metrics::failed("snapshot");
            }
        }
    }

    async fn put_snapshot(&self, catalog: &Catalog) -> Result<SnapshotMark, ShipError> {
        let leaves = encode_leaves(catalog);
        let root = SnapshotRoot::new(catalog, &leaves);
        for (hash, bytes) in leaves {
            if !self.leaves.contains(&hash) {
                let key = snapshot_leaf_key(&catalog.stream, &hash);
                self.place.store.put(&key, bytes.into()).await?;
            }
        }
        let object = root.to_object(&self.place.signer)?;
        let key = snapshot_key(&catalog.stream, catalog.seq, &file_hash(&object));
        // The name holds the content's hash: whoever was first has put the same.
        self.place.store.create(&key, object.into()).await?;
        Ok(SnapshotMark { seq: catalog.seq, key, leaves: root.leaves })
    }
}
