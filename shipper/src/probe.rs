//! Whether a store keeps the one promise that commits rest on: create-only means create-only.

use bytes::Bytes;
use object_store::ObjectStoreExt as _;
use object_store::path::Path as Key;
use sealcast_common::bucket::{Created, Store, StoreError};
use sealcast_common::clock::Random;
use sealcast_common::fault::hex;

/// Tries it on a scratch object. `Some` says what the store did wrong.
///
/// The first read also tells a cache in front of the store that remembers "not found".
pub(crate) async fn probe(
    store: &Store,
    random: &dyn Random,
) -> Result<Option<String>, StoreError> {
    let key = format!("cap/{}", hex(&random.bytes16()));
    let (first, second) = (random.bytes16().to_vec(), random.bytes16().to_vec());
    let (first, second) = (Bytes::from(first), Bytes::from(second));
    if store.get(&key).await?.is_some() {
        return Ok(Some("it shows an object that nobody has put".into()));
    }
    // "Exists" may be ours from a lost answer: only the bytes tell.
    store.create(&key, first.clone()).await?;
    let read = store.get(&key).await?;
    let again = store.create(&key, second).await?;
    let after = store.get(&key).await?;
    // Best effort: a leftover costs sixteen bytes.
    let _leftover = store.inner().delete(&Key::from(key)).await;
    Ok(match (read, again, after) {
        (None, _, _) => Some("it does not show an object right after its put".into()),
        (Some(read), _, _) if read != first => Some("it shows other bytes than were put".into()),
        (_, Created::New, _) => Some("it creates an object that exists already".into()),
        (_, _, after) if after.as_ref() != Some(&first) => {
            Some("it says that an object exists and replaces it".into())
        }
        _ => None,
    })
}
