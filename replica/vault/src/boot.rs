//! A new replica's first catalog: head → snapshot → (the follower reads the rest of the log).
//!
//! Nothing here is needed for correctness: the log is never trimmed, so whatever is wrong with a
//! head or a snapshot, replaying from the first commit gives the same catalog.

use std::time::Duration;

use bytes::Bytes;
use futures::stream::{StreamExt as _, TryStreamExt as _};
use object_store::ObjectStoreExt as _;
use object_store::path::Path as Key;
use sealcast_common::bucket::Store;
use sealcast_common::catalog::names::{STORE_KEY, commit_key, head_key, snapshot_leaf_key};
use sealcast_common::catalog::{Catalog, CommitRecord, SnapshotRoot, decode_leaf};
use sealcast_common::checked;
use sealcast_common::fault::{Corruption, hex, unhex};
use sealcast_common::limits::{COMMIT_BYTES_MAX, SINGLE_PUT_BYTES_MAX};
use sealcast_common::wire::{HeadFile, StoreFile};

const LEAVES_PARALLEL: usize = 16;
/// `SEALCAST.json` and head, bytes.
const SMALL_BYTES_MAX: usize = 64 * 1024;
/// A store that does not answer for so long counts as unreachable.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why a follower does not get on. All of it is retried.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The store does not answer.
    Store(String),
    /// An object cannot be read or breaks the lineage.
    Bytes(Corruption),
    /// The log is not the one that we have seen.
    Fork(Corruption),
}

impl From<Corruption> for Trouble {
    fn from(corruption: Corruption) -> Self {
        Trouble::Bytes(corruption)
    }
}

/// `Store::get` with a bound on patience, and on what is taken into memory.
pub(crate) async fn get(store: &Store, key: &str, max: usize) -> Result<Option<Bytes>, Trouble> {
    match tokio::time::timeout(PATIENCE, get_bounded(store, key, max)).await {
        Ok(found) => found,
        Err(_) => Err(Trouble::Store(format!("no answer for {key} in {} s", PATIENCE.as_secs()))),
    }
}

async fn get_bounded(store: &Store, key: &str, max: usize) -> Result<Option<Bytes>, Trouble> {
    let failed = |error: object_store::Error| Trouble::Store(error.to_string());
    let answer = match store.inner().get(&Key::from(key)).await {
        Ok(answer) => answer,
        Err(object_store::Error::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let found = answer.meta.size;
    if found > max as u64 {
        let (expected, found) = (format!("at most {max} bytes"), format!("{found} bytes"));
        let finding = Corruption::new("object_length", None, expected, found);
        return Err(finding.in_object(key).into());
    }
    answer.bytes().await.map(Some).map_err(failed)
}

/// The catalog of the newest snapshot that passes, or the empty one.
pub(crate) async fn boot(store: &Store, stream: &str) -> Result<Catalog, Trouble> {
    let store_id = store_id(store).await?;
    match from_snapshot(store, stream, store_id).await {
        Ok(Some(catalog)) => {
            let (seq, segments) = (catalog.seq, catalog.segments().count());
            tracing::info!(stream, seq, segments, "catalog booted from snapshot");
            Ok(catalog)
        }
        Ok(None) => Ok(Catalog::empty(store_id, stream)),
        Err(Trouble::Bytes(corruption) | Trouble::Fork(corruption)) => {
            tracing::warn!(stream, %corruption, "snapshot refused; the log is replayed");
            Ok(Catalog::empty(store_id, stream))
        }
        Err(unreachable) => Err(unreachable),
    }
}

async fn store_id(store: &Store) -> Result<[u8; 16], Trouble> {
    let bad = |found: &str| {
        Corruption::new("store_file", None, "format 1 and a store id", found).in_object(STORE_KEY)
    };
    let Some(bytes) = get(store, STORE_KEY, SMALL_BYTES_MAX).await? else {
        return Err(bad("no such object; has a shipper written here?").into());
    };
    let file: StoreFile =
        checked::parse("store_file", &bytes).map_err(|found| found.in_object(STORE_KEY))?;
    let id = unhex(&file.store_id).filter(|_| file.format == 1);
    Ok(id.ok_or_else(|| bad("others"))?)
}

async fn from_snapshot(
    store: &Store,
    stream: &str,
    store_id: [u8; 16],
) -> Result<Option<Catalog>, Trouble> {
    // The head is only a hint: one that cannot be read is as good as none.
    let head = get(store, &head_key(stream), SMALL_BYTES_MAX).await?;
    let head = head.and_then(|bytes| {
        let head = checked::parse::<HeadFile>("head", &bytes);
        head.inspect_err(|finding| tracing::warn!(stream, %finding, "head passed over")).ok()
    });
    let Some(key) = head.and_then(|head| head.snapshot) else { return Ok(None) };
    let Some(object) = get(store, &key, SINGLE_PUT_BYTES_MAX).await? else {
        let missing = Corruption::new("snapshot", None, "an object", "none");
        return Err(missing.in_object(key).into());
    };
    let root = SnapshotRoot::from_object(&object).map_err(|found| found.in_object(&key))?;
    if root.store_id != store_id || root.stream != stream {
        let found = format!("{} of store {}", root.stream, hex(&root.store_id));
        let expected = format!("{stream} of store {}", hex(&store_id));
        return Err(Corruption::new("snapshot", None, expected, found).in_object(key).into());
    }
    check_anchor(store, &root).await?;
    let leaves = futures::stream::iter(root.leaves.clone())
        .map(|hash| read_leaf(store, stream, hash))
        .buffered(LEAVES_PARALLEL);
    let leaves: Vec<_> = leaves.try_collect().await?;
    let catalog = root.into_catalog(leaves.into_iter().flatten().collect());
    Ok(Some(catalog.map_err(|found| found.in_object(key))?))
}

/// A snapshot counts only as far as the log has the commit that it claims to sum up, by the same
/// author in the same epoch.
async fn check_anchor(store: &Store, root: &SnapshotRoot) -> Result<(), Trouble> {
    let key = commit_key(&root.stream, root.seq);
    let expected = format!("commit {} of epoch {}", hex(&root.hash), root.epoch);
    let bad = |found: String| Corruption::new("snapshot_anchor", None, expected, found);
    let Some(object) = get(store, &key, COMMIT_BYTES_MAX).await? else {
        return Err(bad("no such commit".into()).in_object(key).into());
    };
    let (record, hash) =
        CommitRecord::from_object(&object).map_err(|found| found.in_object(&key))?;
    let same = hash == root.hash
        && (record.epoch, record.author, &record.cluster)
            == (root.epoch, root.author, &root.cluster);
    if same {
        return Ok(());
    }
    let found = format!("commit {} of epoch {}", hex(&hash), record.epoch);
    Err(bad(found).in_object(key).into())
}

async fn read_leaf(
    store: &Store,
    stream: &str,
    hash: [u8; 32],
) -> Result<Vec<sealcast_common::catalog::Descriptor>, Trouble> {
    let key = snapshot_leaf_key(stream, &hash);
    match get(store, &key, SINGLE_PUT_BYTES_MAX).await? {
        Some(bytes) => Ok(decode_leaf(&bytes, &hash).map_err(|found| found.in_object(key))?),
        None => {
            let missing = Corruption::new("snapshot_leaf", None, "an object", "none");
            Err(missing.in_object(key).into())
        }
    }
}
