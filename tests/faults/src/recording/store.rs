//! Objects in the recording: a put that was answered is durable, so each is one step.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;
use object_store::path::Path as Key;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use sealcast_common::bucket::Store;

use super::{Recording, Step};

/// A store in memory whose puts are recorded as files of one folder; small objects only.
#[derive(Clone, Debug)]
pub struct RecordingStore {
    inner: Arc<object_store::memory::InMemory>,
    recording: Recording,
    folder: PathBuf,
}

impl RecordingStore {
    /// Objects appear in replays as files under `folder`, so that a local store can open it.
    pub fn open(recording: &Recording, folder: &str) -> Store {
        let store = RecordingStore {
            inner: Arc::default(),
            recording: recording.clone(),
            folder: Path::new(folder).to_owned(),
        };
        Store::from_object_store(Arc::new(store), "recorded")
    }
}

impl fmt::Display for RecordingStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("recorded")
    }
}

fn not_supported() -> Error {
    Error::NotSupported { source: "the recording keeps whole puts only".into() }
}

#[async_trait]
impl ObjectStore for RecordingStore {
    async fn put_opts(&self, at: &Key, body: PutPayload, how: PutOptions) -> Result<PutResult> {
        let bytes: Vec<u8> = body.iter().flat_map(|part| part.iter().copied()).collect();
        let step = Step::Object(self.folder.join(at.as_ref()), bytes);
        if !matches!(how.mode, PutMode::Create | PutMode::Overwrite) {
            return Err(not_supported());
        }
        // The store in memory answers at once: nothing waits while the recording is locked.
        let put = || futures::executor::block_on(self.inner.put_opts(at, body, how));
        let mut refused = None;
        let done = self.recording.run(&[step], || {
            put().map_err(|error| {
                refused = Some(error);
                io::ErrorKind::Other.into()
            })
        });
        done.map_err(|_| refused.unwrap_or_else(not_supported))
    }

    async fn put_multipart_opts(
        &self,
        _at: &Key,
        _how: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        Err(not_supported())
    }

    async fn get_opts(&self, at: &Key, how: GetOptions) -> Result<GetResult> {
        self.inner.get_opts(at, how).await
    }

    fn delete_stream(
        &self,
        at: BoxStream<'static, Result<Key>>,
    ) -> BoxStream<'static, Result<Key>> {
        self.inner.delete_stream(at)
    }

    fn list(&self, prefix: Option<&Key>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Key>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, _from: &Key, _to: &Key, _how: CopyOptions) -> Result<()> {
        Err(not_supported())
    }
}
