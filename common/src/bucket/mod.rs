//! Object stores: opened by URL, read by key, written create-only.
//!
//! Reading order: here (what roles ask of a store), `local` (folders), `remote` (providers by URL),
//! `retry` and `patient` (the one policy of trying again), `flight` (one fetch per object), `log`
//! (numbered create-only records), `rowlog` (a shard's tiles and proofs), `tiles` (putting
//! them), `streams` (the index of streams), [`probe`] (is it fit?).

mod cluster;
mod flight;
mod local;
mod log;
mod patient;
pub mod probe;
mod remote;
mod retry;
mod rowlog;
mod streams;
mod tiles;

#[cfg(test)]
mod rowlog_tests;
#[cfg(test)]
mod tests;

pub use cluster::{Addition, ClusterLog, check_cluster_note, join_bundle};
pub use log::{AppendOutcome, CreateOnlyLog};
pub use retry::{RESERVE, time_limit};
pub use rowlog::{LogGrowth, RowLog, RowLogError, TileCache};
pub use streams::StreamIndex;
pub use tiles::{append_leaves, put_checkpoint, put_leaves};

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures::TryStreamExt as _;
use object_store::path::Path as Key;
use object_store::prefix::PrefixStore;
use object_store::{GetOptions, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, PutPayload};

use crate::clock::{Clock, Micros, OsRandom, Random};
use crate::limits::SINGLE_PUT_BYTES_MAX;
use flight::Flights;
use patient::Patient;
use retry::Retry;

const PART_BYTES: usize = 16 * 1024 * 1024;
/// Parts on their way at one time: each has its own time limit, and all share the line.
const PARTS_PARALLEL: usize = 4;

/// Why a store did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The URL names no store that can be opened.
    #[error("object store {url:?} cannot be opened: {reason}")]
    Open {
        /// As given.
        url: String,
        /// What was wrong and what is expected.
        reason: String,
    },
    /// An operation failed; it may or may not have taken effect.
    #[error("object store could not {operation} {key}: {source}")]
    Operation {
        /// `get`, `put`, `create`, `list`.
        operation: &'static str,
        /// The object.
        key: String,
        /// The store's word.
        source: object_store::Error,
    },
}

impl StoreError {
    /// Whether the store says that it cannot do this at all: asking again will not help.
    fn is_unsupported(&self) -> bool {
        use object_store::Error;
        let StoreError::Operation { source, .. } = self else { return false };
        matches!(source, Error::NotImplemented { .. } | Error::NotSupported { .. })
    }
}

/// How a create-only put ended, when the store gave a clear answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Created {
    /// The object is new and ours.
    New,
    /// The store says that it exists already. It may still be ours, from a lost answer.
    Exists,
}

/// A store with the root that its URL names.
#[derive(Clone)]
pub struct Store {
    inner: Arc<dyn ObjectStore>,
    name: String,
    /// Where it lies, if it is a folder.
    folder: Option<PathBuf>,
    retry: Arc<Retry>,
    flights: Arc<Flights>,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Store").field(&self.name).finish()
    }
}

impl Store {
    /// Opens a local folder (made if missing) or a URL: `file://`, `s3://bucket/prefix`, `gs://`,
    /// `az://`, `https://`. Credentials and endpoints come from the provider's usual environment
    /// (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT`, `AWS_ALLOW_HTTP` …).
    pub fn open(location: &str) -> Result<Self, StoreError> {
        Self::open_with(location, Arc::new(OsRandom))
    }

    /// The same, with the moments of retries from `random`.
    pub fn open_with(location: &str, random: Arc<dyn Random>) -> Result<Self, StoreError> {
        let failed = |reason: String| StoreError::Open { url: without_secret(location), reason };
        if location.is_empty() {
            return Err(failed("a folder or a URL is expected".into()));
        }
        let url = match location.split_once("://") {
            None => return Self::open_folder(Path::new(location), random).map_err(failed),
            Some(("file", path)) => {
                return Self::open_folder(Path::new(path), random).map_err(failed);
            }
            Some(_) => url::Url::parse(location).map_err(|error| failed(error.to_string()))?,
        };
        let known = ["s3", "s3a", "gs", "az", "adl", "abfs", "abfss", "azure", "http", "https"];
        if !known.contains(&url.scheme()) {
            let expected = "a folder, file://, s3://, gs://, az:// or https:// is expected";
            return Err(failed(format!("unknown scheme {:?}; {expected}", url.scheme())));
        }
        let environment = std::env::vars_os().filter_map(|(name, value)| {
            let name = name.into_string().ok()?.to_ascii_lowercase();
            // A bare `TOKEN` or `ENDPOINT` is somebody else's.
            let ours = ["aws_", "google_", "azure_"].iter().any(|prefix| name.starts_with(prefix));
            Some((name, value.into_string().ok()?)).filter(|_| ours)
        });
        let retry = Retry::new(random);
        let (inner, prefix) = remote::open(&url, environment.collect(), Arc::clone(&retry))
            .map_err(|error| failed(error.to_string()))?;
        let name = format!("{}://{}{}", url.scheme(), url.host_str().unwrap_or(""), url.path());
        let inner: Arc<dyn ObjectStore> = Arc::new(Patient { inner, retry: Arc::clone(&retry) });
        let inner: Arc<dyn ObjectStore> = if prefix.as_ref().is_empty() {
            inner
        } else {
            Arc::new(PrefixStore::new(inner, prefix))
        };
        Ok(Store::made(inner, name, None, retry))
    }

    fn made(
        inner: Arc<dyn ObjectStore>,
        name: String,
        folder: Option<PathBuf>,
        retry: Arc<Retry>,
    ) -> Self {
        Store { inner, name, folder, retry, flights: Arc::default() }
    }

    /// No time limits and no retries here: a call to the kernel cannot be taken back, and a disk
    /// that failed fails again.
    fn open_folder(path: &Path, random: Arc<dyn Random>) -> Result<Self, String> {
        let store = local::LocalStore::open(path).map_err(|error| error.to_string())?;
        let (name, folder) = (path.display().to_string(), Some(path.to_owned()));
        Ok(Store::made(Arc::new(store), name, folder, Retry::new(random)))
    }

    /// Wraps a store as it is: tests count, delay and break it this way.
    pub fn from_object_store(inner: Arc<dyn ObjectStore>, name: &str) -> Self {
        Store::made(inner, name.to_owned(), None, Retry::new(Arc::new(OsRandom)))
    }

    /// The same store with the time limits and the budgeted retries of a remote one.
    #[must_use]
    pub fn patient(self, random: Arc<dyn Random>) -> Self {
        let retry = Retry::new(random);
        let inner = Arc::new(Patient { inner: self.inner, retry: Arc::clone(&retry) });
        Store::made(inner, self.name, self.folder, retry)
    }

    /// Removes temporary files that killed puts left in the folders `prefixes` of a local store,
    /// if they are older than an hour. Answers how many. Other stores have none.
    pub async fn sweep(&self, prefixes: Vec<String>, clock: &dyn Clock) -> usize {
        let Some(root) = self.folder.clone() else { return 0 };
        let before = Micros(clock.now().0.saturating_sub(local::LEFTOVER_AGE_MICROS));
        let swept = move || prefixes.iter().map(|p| local::sweep(&root.join(p), before)).sum();
        tokio::task::spawn_blocking(swept).await.unwrap_or(0)
    }

    /// The wrapped store.
    pub fn inner(&self) -> Arc<dyn ObjectStore> {
        Arc::clone(&self.inner)
    }

    /// The location without credentials.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The object's bytes; `None` if there is none. Who asks while the same object is on its way
    /// to another gets that answer.
    pub async fn get(&self, key: &str) -> Result<Option<Bytes>, StoreError> {
        self.flights.join(key, || self.fetch(key)).await
    }

    async fn fetch(&self, key: &str) -> Result<Option<Bytes>, StoreError> {
        let failed = failure("get", key);
        match self.inner.get(&Key::from(key)).await {
            Ok(found) => found.bytes().await.map(Some).map_err(failed),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    /// A part of the object's bytes; `None` if there is no such object. A range that begins beyond
    /// the object's end is the store's error.
    pub async fn get_range(
        &self,
        key: &str,
        range: std::ops::Range<u64>,
    ) -> Result<Option<Bytes>, StoreError> {
        let options = GetOptions { range: Some(range.into()), ..GetOptions::default() };
        let failed = failure("get", key);
        match self.inner.get_opts(&Key::from(key), options).await {
            Ok(found) => found.bytes().await.map(Some).map_err(failed),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    /// The object's length in bytes; `None` if there is none.
    pub async fn size(&self, key: &str) -> Result<Option<u64>, StoreError> {
        match self.inner.head(&Key::from(key)).await {
            Ok(found) => Ok(Some(found.size)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(failure("head", key)(error)),
        }
    }

    /// Puts an object that must not exist.
    pub async fn create(&self, key: &str, bytes: Bytes) -> Result<Created, StoreError> {
        let options = PutOptions::from(PutMode::Create);
        match self.inner.put_opts(&Key::from(key), PutPayload::from(bytes), options).await {
            Ok(_) => Ok(Created::New),
            Err(
                object_store::Error::AlreadyExists { .. }
                | object_store::Error::Precondition { .. },
            ) => Ok(Created::Exists),
            Err(error) => Err(failure("create", key)(error)),
        }
    }

    /// Puts an object whose key has one content for ever (or a hint): large ones in parts.
    pub async fn put(&self, key: &str, bytes: Bytes) -> Result<(), StoreError> {
        let failed = failure("put", key);
        let path = Key::from(key);
        if bytes.len() <= SINGLE_PUT_BYTES_MAX {
            let put = self.inner.put(&path, PutPayload::from(bytes)).await;
            return put.map(|_| ()).map_err(failed);
        }
        let upload = self.inner.put_multipart(&path).await.map_err(failure("put", key))?;
        let mut upload = object_store::WriteMultipart::new_with_chunk_size(upload, PART_BYTES);
        for start in (0..bytes.len()).step_by(PART_BYTES) {
            if let Err(error) = upload.wait_for_capacity(PARTS_PARALLEL).await {
                // What the store keeps of a broken upload costs money; it may refuse this, too.
                let _best_effort = upload.abort().await;
                return Err(failed(error));
            }
            upload.put(bytes.slice(start..bytes.len().min(start + PART_BYTES)));
        }
        // Aborts by itself where the parts cannot be put together. One of the last parts that fails
        // leaves its upload to the store's own rule for unfinished ones.
        upload.finish().await.map(|_| ()).map_err(failed)
    }

    /// Names of the folders directly under `prefix`. A LIST: for boot and tools only.
    pub async fn list_folders(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        let found = self.inner.list_with_delimiter(Some(&Key::from(prefix))).await;
        let found = found.map_err(failure("list", prefix))?;
        let names = found.common_prefixes.iter();
        Ok(names.filter_map(|path| path.filename().map(str::to_owned)).collect())
    }

    /// Every key under `prefix` with its size. A LIST: for tools only.
    pub async fn list_all(&self, prefix: &str) -> Result<Vec<(String, u64)>, StoreError> {
        let prefix_key = (!prefix.is_empty()).then(|| Key::from(prefix));
        let list = self.inner.list(prefix_key.as_ref());
        let found = list.map_ok(|meta| (meta.location.to_string(), meta.size));
        found.try_collect().await.map_err(failure("list", prefix))
    }
}

/// `location`, or any URL, as it may be printed: who put a password into it did not mean the log to have it.
pub fn without_secret(location: &str) -> String {
    let parts = location.split_once("://").and_then(|(scheme, rest)| {
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        authority.rsplit_once('@').map(|(_, host)| format!("{scheme}://…@{host}{path}"))
    });
    parts.unwrap_or_else(|| location.to_owned())
}

fn failure(operation: &'static str, key: &str) -> impl Fn(object_store::Error) -> StoreError {
    let key = key.to_owned();
    move |source| StoreError::Operation { operation, key: key.clone(), source }
}
