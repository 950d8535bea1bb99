//! Where the stream stands: head hint → snapshot → one record after the other until there is none.

use sealcast_common::bucket::{CreateOnlyLog, Store};
use sealcast_common::catalog::names::{head_key, snapshot_leaf_key};
use sealcast_common::catalog::{Catalog, CommitRecord, SnapshotRoot, decode_leaf};
use sealcast_common::checked;
use sealcast_common::fault::{Corruption, hex};
use sealcast_common::wire::HeadFile;

use crate::error::ShipError;

/// A snapshot that stands in the store.
#[derive(Clone, Debug)]
pub(crate) struct SnapshotMark {
    /// The commit that it holds.
    pub(crate) seq: u64,
    /// Key of its root.
    pub(crate) key: String,
    /// Its leaves.
    pub(crate) leaves: Vec<[u8; 32]>,
}

/// The catalog to start the tail from: the newest snapshot that head names and that holds, else
/// the beginning. Head is a hint: whatever is wrong with it costs time only.
pub(crate) async fn boot(
    store: &Store,
    log: &CreateOnlyLog,
    empty: Catalog,
) -> Result<(Catalog, Option<SnapshotMark>), ShipError> {
    let head = store.get(&head_key(&empty.stream)).await?;
    let head = head.and_then(|bytes| {
        let head = checked::parse::<HeadFile>("head", &bytes);
        head.inspect_err(|finding| tracing::warn!(%finding, "head is written anew")).ok()
    });
    let Some(key) = head.and_then(|head| head.snapshot) else { return Ok((empty, None)) };
    match load_snapshot(store, log, &empty, &key).await {
        Ok((catalog, mark)) => Ok((catalog, Some(mark))),
        Err(ShipError::Log(finding)) => {
            tracing::warn!(%finding, "snapshot refused, log read from its start");
            Ok((empty, None))
        }
        Err(error) => Err(error),
    }
}

/// A snapshot is believed if the author of the commit that it claims to hold has signed it.
async fn load_snapshot(
    store: &Store,
    log: &CreateOnlyLog,
    empty: &Catalog,
    key: &str,
) -> Result<(Catalog, SnapshotMark), ShipError> {
    let refused = |finding: Corruption| ShipError::Log(finding.in_object(key));
    let missing = || Corruption::new("snapshot", None, "an object", "none");
    let object = store.get(key).await?.ok_or_else(|| refused(missing()))?;
    let root = SnapshotRoot::from_object(&object).map_err(refused)?;
    let commit = log.read(root.seq).await?.ok_or_else(|| refused(missing()))?;
    let (record, hash) = CommitRecord::from_object(&commit).map_err(refused)?;
    let same = root.store_id == empty.store_id
        && root.stream == empty.stream
        && (root.seq, root.hash) == (record.seq, hash)
        && (root.epoch, root.author) == (record.epoch, record.author)
        && record.store_id == root.store_id
        && record.stream == root.stream;
    if !same {
        let expected = format!("commit {} with hash {}", record.seq, hex(&hash));
        let found = format!("commit {} with hash {}", root.seq, hex(&root.hash));
        return Err(refused(Corruption::new("snapshot", None, expected, found)));
    }
    let mark = SnapshotMark { seq: root.seq, key: key.to_owned(), leaves: root.leaves.clone() };
    let mut descriptors = Vec::new();
    for hash in &root.leaves {
        let leaf_key = snapshot_leaf_key(&empty.stream, hash);
        let leaf = store.get(&leaf_key).await?.ok_or_else(|| refused(missing()))?;
        descriptors.extend(decode_leaf(&leaf, hash).map_err(refused)?);
    }
    Ok((root.into_catalog(descriptors).map_err(refused)?, mark))
}

/// Folds every record after `catalog` into it, until the store says that there is none.
pub(crate) async fn tail(log: &CreateOnlyLog, mut catalog: Catalog) -> Result<Catalog, ShipError> {
    loop {
        let seq = catalog.seq + 1;
        let Some(object) = log.read(seq).await? else { return Ok(catalog) };
        let folded = CommitRecord::from_object(&object)
            .and_then(|(record, hash)| catalog.apply(&record, hash));
        catalog = folded.map_err(|finding| ShipError::Log(finding.in_object(log.key(seq))))?;
    }
}
