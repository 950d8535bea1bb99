//! The shipper through what its users touch: a directory, a store, HTTP, how it ends.

mod boundary;
mod budget;
mod cluster;
mod cosign;
mod crash;
mod faults;
mod http;
mod keeper;
mod points;
mod probe;
mod sealed;
mod shipping;
mod stores;
mod tiles;
mod witness;

use std::time::Duration;

use sealcast_common::bucket::Store;
use sealcast_common::catalog::names::commit_key;
use sealcast_common::catalog::{Catalog, CommitRecord};
use sealcast_common::checked;
use sealcast_common::fault::unhex;
use sealcast_common::wire::StoreFile;
use tokio_util::sync::CancellationToken;

use crate::{Config, Ended, Handle, RunError, Seams, start_with_store};
use sealed::SealedDir;

/// A configuration for `sealed` that scans only when asked or nudged.
fn config(sealed: &SealedDir) -> Config {
    Config {
        dir: sealed.root().to_owned(),
        http: "127.0.0.1:0".into(),
        scan_ms: 3_600_000,
        ..Config::default()
    }
}

async fn started(config: Config, store: &Store) -> (Handle, CancellationToken) {
    let stop = CancellationToken::new();
    let handle = start_with_store(config, Seams::default(), store.clone(), stop.clone());
    (handle.await.unwrap(), stop)
}

/// Ships what is there, then ends.
async fn once(sealed: &SealedDir, store: &Store) -> Result<Ended, RunError> {
    let config = Config { once: true, ..config(sealed) };
    started(config, store).await.0.join().await
}

/// The log folded from its first record, as an auditor would.
async fn folded(store: &Store) -> Catalog {
    let file = store.get("SEALCAST.json").await.unwrap().unwrap();
    let file: StoreFile = checked::parse("store_file", &file).unwrap();
    let mut catalog = Catalog::empty(unhex(&file.store_id).unwrap(), "node-a");
    while let Some(object) = store.get(&commit_key("node-a", catalog.seq + 1)).await.unwrap() {
        let (record, hash) = CommitRecord::from_object(&object).unwrap();
        catalog = catalog.apply(&record, hash).unwrap();
    }
    catalog
}

/// Waits for a condition; fails after ten seconds.
async fn until(what: &str, holds: impl Fn() -> bool) {
    let waited = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(10), waited).await.is_ok(), "never: {what}");
}
