//! Who ships what: the directory's lock, the writer's identity, our key, the store's id.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use bytes::Bytes;
use sealcast_common::bucket::{Store, StoreError};
use sealcast_common::catalog::names::{STORE_FORMAT, STORE_KEY, is_stream_name};
use sealcast_common::checked;
use sealcast_common::clock::Random;
use sealcast_common::durable::{Durable, temporary_name};
use sealcast_common::fault::{hex, unhex};
use sealcast_common::layout::{DATA_FORMAT, DataDir};
use sealcast_common::wire::{NodeFile, StoreFile};

use crate::error::{RunError, StartError};

/// Holds `ship.lock`; the system lets go of it with the process.
#[derive(Debug)]
pub(crate) struct ShipLock {
    _file: File,
}

/// Makes the directory if the writer has not yet, and locks it against other shippers.
pub(crate) fn lock(dir: &DataDir, files: &dyn Durable) -> Result<ShipLock, StartError> {
    let path = dir.ship_lock_file();
    let failed = |source| StartError::File { path: path.clone(), source };
    files.create_dir(dir.root()).map_err(failed)?;
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
    let file = file.map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(ShipLock { _file: file }),
        Err(TryLockError::WouldBlock) => Err(StartError::Locked { dir: dir.root().to_owned() }),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

/// `node.json`; `None` until the writer has made it.
pub(crate) fn read_node(dir: &DataDir) -> Result<Option<NodeFile>, RunError> {
    let path = dir.node_file();
    let Some(text) = read_if_there(&path)? else { return Ok(None) };
    let node: NodeFile = checked::parse("node_file", text.as_bytes())
        .map_err(|found| unusable(&path, found.to_string()))?;
    if node.format != DATA_FORMAT {
        let reason =
            format!("format {}, expected {DATA_FORMAT}; use a newer sealcast", node.format);
        return Err(unusable(&path, reason));
    }
    if !is_stream_name(&node.node) {
        let expected = "expected 1 to 64 of a-z, 0-9, -";
        return Err(unusable(&path, format!("node {:?}, {expected}", node.node)));
    }
    Ok(Some(node))
}

/// The secret bytes of `ship.key`, made once, readable by the owner only.
pub(crate) fn ship_key(
    dir: &DataDir,
    files: &dyn Durable,
    random: &dyn Random,
) -> Result<[u8; 32], RunError> {
    let path = dir.ship_key_file();
    if let Some(text) = read_if_there(&path)? {
        let expected = "expected 64 hex digits; restore it, or remove it to ship under a new key";
        return unhex(text.trim())
            .ok_or_else(|| unusable(&path, format!("other text, {expected}")));
    }
    let seed = random.bytes32();
    let temporary = temporary_name(&path);
    let made = files
        .remove(&temporary)
        // The mode comes before the secret.
        .and_then(|()| OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary))
        .and_then(|_empty| files.write_new(&temporary, format!("{}\n", hex(&seed)).as_bytes()))
        .and_then(|()| files.rename(&temporary, &path));
    made.map_err(|error| unusable(&path, error.to_string()))?;
    Ok(seed)
}

/// The store's id, given to it by whoever comes first.
pub(crate) async fn store_id(
    store: &Store,
    random: &dyn Random,
) -> Result<Result<[u8; 16], RunError>, StoreError> {
    let mut found = store.get(STORE_KEY).await?;
    if found.is_none() {
        let file = StoreFile { format: STORE_FORMAT, store_id: hex(&random.bytes16()) };
        store.create(STORE_KEY, Bytes::from(checked::to_text(&file))).await?;
        found = store.get(STORE_KEY).await?;
    }
    Ok(parse_store_file(&found.unwrap_or_default()))
}

fn parse_store_file(bytes: &[u8]) -> Result<[u8; 16], RunError> {
    let bad = |reason: String| RunError::Identity { object: STORE_KEY.to_owned(), reason };
    let file: StoreFile =
        checked::parse("store_file", bytes).map_err(|found| bad(found.to_string()))?;
    if file.format != STORE_FORMAT {
        let hint = "use a newer sealcast";
        return Err(bad(format!("format {}, expected {STORE_FORMAT}; {hint}", file.format)));
    }
    unhex(&file.store_id).ok_or_else(|| bad("store_id is not 32 hex digits".into()))
}

fn read_if_there(path: &Path) -> Result<Option<String>, RunError> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unusable(path, error.to_string())),
    }
}

fn unusable(path: &Path, reason: String) -> RunError {
    RunError::Identity { object: path.display().to_string(), reason }
}
