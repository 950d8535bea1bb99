//! A bucket's logs: every stream folded from its first record.

use sealcast_common::bucket::{CreateOnlyLog, Store};
use sealcast_common::catalog::names::{STORE_FORMAT, STORE_KEY, STREAMS_PREFIX, commit_key};
use sealcast_common::catalog::{Catalog, CommitRecord};
use sealcast_common::checked;
use sealcast_common::fault::unhex;
use sealcast_common::wire::StoreFile;

use super::cannot;
use crate::output::{Failure, failed};

/// Every stream's catalog. `each` sees every record that holds, in the stream's order.
pub(super) async fn catalogs(
    store: &Store,
    mut each: impl FnMut(&CommitRecord),
) -> Result<Vec<Catalog>, Failure> {
    let id = store_id(store).await?;
    let mut catalogs = Vec::new();
    for stream in store.list_folders(STREAMS_PREFIX).await.map_err(cannot)? {
        let log = CreateOnlyLog::new(store.clone(), &stream, commit_key);
        let mut catalog = Catalog::empty(id, &stream);
        while let Some(object) = log.read(catalog.seq + 1).await.map_err(cannot)? {
            let next = CommitRecord::from_object(&object).and_then(|(record, hash)| {
                catalog = catalog.apply(&record, hash)?;
                each(&record);
                Ok(())
            });
            let key = || log.key(catalog.seq + 1);
            next.map_err(|found| failed(found.in_object(key())))?;
        }
        catalogs.push(catalog);
    }
    Ok(catalogs)
}

async fn store_id(store: &Store) -> Result<[u8; 16], Failure> {
    let bytes = store.get(STORE_KEY).await.map_err(cannot)?;
    let none = || cannot(format!("{}: no {STORE_KEY}: not a store of Sealcast", store.name()));
    let file: StoreFile = checked::parse("store_file", &bytes.ok_or_else(none)?)
        .map_err(|found| failed(found.in_object(STORE_KEY)))?;
    let id = unhex(&file.store_id).filter(|_| file.format == STORE_FORMAT);
    id.ok_or_else(|| {
        let found = format!("found format {} and id {:?}", file.format, file.store_id);
        cannot(format!("{STORE_KEY}: {found}, expected format {STORE_FORMAT} and 16 bytes of hex"))
    })
}
