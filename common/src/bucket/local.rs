//! A local folder as an object store whose puts are on stable storage before they are answered.
//!
//! Reading is `object_store`'s `LocalFileSystem`; its puts (0.13) neither sync the file nor its
//! folder, and a commit that a power cut can undo is no commit. Create-only is a hard link, which
//! fails if the name exists.

use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;
use object_store::local::LocalFileSystem;
use object_store::path::Path as Key;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

use crate::clock::{Micros, OsRandom, Random as _};
use crate::durable::{Durable as _, RealFiles};

/// A put that takes longer than this was killed.
pub(super) const LEFTOVER_AGE_MICROS: i64 = 3_600 * 1_000_000;

/// See the module.
#[derive(Debug)]
pub(super) struct LocalStore {
    inner: LocalFileSystem,
    root: PathBuf,
}

impl LocalStore {
    /// Opens `root`, making it if missing.
    pub(super) fn open(root: &Path) -> Result<Self> {
        let generic = |source: io::Error| object_store::Error::Generic {
            store: "local",
            source: Box::new(source),
        };
        RealFiles.create_dir(root).map_err(generic)?;
        let root = root.canonicalize().map_err(generic)?;
        Ok(LocalStore { inner: LocalFileSystem::new_with_prefix(&root)?, root })
    }
}

impl fmt::Display for LocalStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LocalStore({})", self.root.display())
    }
}

/// Removes what puts that were killed before `before` left under `folder`; answers how many.
/// Whatever cannot be looked at or removed stays: it costs space only.
pub(super) fn sweep(folder: &Path, before: Micros) -> usize {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let mut swept = 0;
    for entry in entries.flatten() {
        let Ok(meta) = entry.metadata() else { continue };
        let path = entry.path();
        if meta.is_dir() {
            swept += sweep(&path, before);
        } else if meta.is_file() && is_staged(&path) && written(&meta) < before {
            swept += usize::from(RealFiles.remove(&path).is_ok());
        }
    }
    swept
}

fn written(meta: &std::fs::Metadata) -> Micros {
    Micros(meta.mtime().saturating_mul(1_000_000))
}

/// `name#digits`, as `put_durable` makes them.
fn is_staged(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let nonce = name.and_then(|name| name.rsplit_once('#')).map(|(_, nonce)| nonce);
    nonce.is_some_and(|n| (1..=20).contains(&n.len()) && n.bytes().all(|b| b.is_ascii_digit()))
}

/// Writes, syncs, links or renames, syncs the folder.
fn put_durable(target: &Path, payload: &PutPayload, create: bool) -> io::Result<()> {
    let missing = || io::Error::other("a key without a folder");
    let folder = target.parent().ok_or_else(missing)?;
    if !folder.is_dir() {
        RealFiles.create_dir(folder)?;
        for ancestor in folder.ancestors().skip(1).take(4) {
            RealFiles.sync_dir(ancestor)?;
        }
    }
    // `#` and digits: the listing of `LocalFileSystem` hides such names.
    let nonce = u64::from_be_bytes(OsRandom.bytes16()[..8].try_into().unwrap_or_default());
    let mut staged = target.as_os_str().to_owned();
    staged.push(format!("#{nonce}"));
    let staged = PathBuf::from(staged);
    let bytes: Vec<u8> = payload.iter().flat_map(|part| part.iter().copied()).collect();
    let written = RealFiles.write_new(&staged, &bytes).and_then(|()| {
        if create {
            if let Err(error) = std::fs::hard_link(&staged, target) {
                // Whoever is told "exists" may take it for stable; its maker may have died before.
                RealFiles.sync_dir(folder)?;
                return Err(error);
            }
            RealFiles.remove(&staged)?;
            return RealFiles.sync_dir(folder);
        }
        RealFiles.rename(&staged, target)
    });
    if written.is_err() {
        RealFiles.remove(&staged)?;
    }
    written
}

#[async_trait]
impl ObjectStore for LocalStore {
    async fn put_opts(
        &self,
        location: &Key,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        let create = match options.mode {
            PutMode::Create => true,
            PutMode::Overwrite => false,
            PutMode::Update(_) => {
                return Err(object_store::Error::NotSupported {
                    source: "conditional update of a local file".into(),
                });
            }
        };
        let target = self.inner.path_to_filesystem(location)?;
        let key = location.to_string();
        let put = tokio::task::spawn_blocking(move || put_durable(&target, &payload, create));
        let put = put.await.map_err(|source| object_store::Error::JoinError { source })?;
        match put {
            Ok(()) => Ok(PutResult { e_tag: None, version: None }),
            Err(source) if source.kind() == io::ErrorKind::AlreadyExists => {
                Err(object_store::Error::AlreadyExists { path: key, source: Box::new(source) })
            }
            Err(source) => {
                let source = io::Error::new(source.kind(), format!("{key}: {source}"));
                Err(object_store::Error::Generic { store: "local", source: Box::new(source) })
            }
        }
    }

    async fn put_multipart_opts(
        &self,
        location: &Key,
        _options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        Ok(Box::new(Buffered {
            parts: Vec::new(),
            target: location.clone(),
            root: self.root.clone(),
        }))
    }

    async fn get_opts(&self, location: &Key, options: GetOptions) -> Result<GetResult> {
        self.inner.get_opts(location, options).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Key>>,
    ) -> BoxStream<'static, Result<Key>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Key>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Key>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Key, to: &Key, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

/// Parts kept until the end, then one durable put: local files need no parts.
#[derive(Debug)]
struct Buffered {
    parts: Vec<PutPayload>,
    target: Key,
    root: PathBuf,
}

#[async_trait]
impl MultipartUpload for Buffered {
    fn put_part(&mut self, data: PutPayload) -> object_store::UploadPart {
        self.parts.push(data);
        Box::pin(async { Ok(()) })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let parts: Vec<bytes::Bytes> = self.parts.drain(..).flatten().collect();
        let store: Arc<dyn ObjectStore> = Arc::new(LocalStore::open(&self.root)?);
        store.put_opts(&self.target, PutPayload::from_iter(parts), PutOptions::default()).await
    }

    async fn abort(&mut self) -> Result<()> {
        self.parts.clear();
        Ok(())
    }
}
