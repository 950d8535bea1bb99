//! One object out of the store: bounded in size and time before a byte of it is believed.

use std::time::Duration;

use bytes::Bytes;
use object_store::path::Path as Key;
use object_store::{Error, ObjectStoreExt as _};
use sealcast_common::bucket::Store;
use sealcast_common::catalog::Descriptor;
use sealcast_common::fault::Corruption;

use crate::admit::{Rejected, check_object_length};

/// A store slower than this is as good as gone, bytes per second.
const SLOWEST: u64 = 256 * 1024;
const PATIENCE: Duration = Duration::from_secs(20);

/// The object of a segment, exactly as long as the commit says. An object that a commit names and
/// the store does not have is as bad as one with wrong bytes: quarantined and tried again.
pub(crate) async fn fetch_object(store: &Store, wanted: &Descriptor) -> Result<Bytes, Rejected> {
    let key = wanted.key();
    let limit = PATIENCE + Duration::from_secs(wanted.object_bytes / SLOWEST);
    let fetched = tokio::time::timeout(limit, get(store, &key, wanted)).await;
    let fetched = fetched.unwrap_or_else(|_| {
        Err(Rejected::Store(format!("no whole object {key} within {} s", limit.as_secs())))
    })?;
    metrics::counter!("sealcast_replica_fetched_bytes_total").increment(fetched.len() as u64);
    Ok(fetched)
}

async fn get(store: &Store, key: &str, wanted: &Descriptor) -> Result<Bytes, Rejected> {
    let missing = || Corruption::new("object_missing", None, "an object", "none").in_object(key);
    let failed = |error: Error| match error {
        Error::NotFound { .. } => Rejected::Bytes(missing()),
        other => Rejected::Store(other.to_string()),
    };
    let answer = store.inner().get(&Key::from(key)).await.map_err(failed)?;
    check_object_length(answer.meta.size, wanted)
        .map_err(|corruption| Rejected::Bytes(corruption.in_object(key)))?;
    answer.bytes().await.map_err(failed)
}
