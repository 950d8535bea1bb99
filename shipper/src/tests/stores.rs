//! A store that counts, breaks and loses answers, on a real folder.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use futures::stream::BoxStream;
use object_store::path::Path as Key;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use sealcast_common::bucket::Store;
use tempfile::TempDir;

/// What it does otherwise than a good store.
#[derive(Debug, Default)]
pub(super) struct Behaviour {
    /// Nothing is answered and nothing is done.
    pub(super) down: AtomicBool,
    /// The next put under `/log/` takes effect, and its answer is lost.
    pub(super) lose_answer: AtomicBool,
    /// From this operation on the process is dead, as far as the store can tell …
    pub(super) dies_at: Option<usize>,
    /// … which this operation still reaches.
    pub(super) dies_after_effect: bool,
    /// Puts and gets so far.
    pub(super) operations: AtomicUsize,
    pub(super) lists: AtomicUsize,
    pub(super) segment_puts: AtomicUsize,
    pub(super) log_gets: AtomicUsize,
}

#[derive(Debug)]
struct Odd {
    inner: Arc<dyn ObjectStore>,
    behaviour: Arc<Behaviour>,
}

/// In memory where that can be had: these tests make thousands of syncs, and ask no disk.
pub(super) fn fast_temp() -> TempDir {
    TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).unwrap()
}

/// A folder, and its store behaving well.
pub(super) fn folder() -> (TempDir, Store) {
    let temp = fast_temp();
    let store = Store::open(temp.path().to_str().unwrap()).unwrap();
    (temp, store)
}

/// The same store behaving as told.
pub(super) fn odd(store: &Store, behaviour: Behaviour) -> (Store, Arc<Behaviour>) {
    let behaviour = Arc::new(behaviour);
    let odd = Odd { inner: store.inner(), behaviour: Arc::clone(&behaviour) };
    (Store::from_object_store(Arc::new(odd), "odd"), behaviour)
}

fn broken<T>() -> Result<T> {
    Err(object_store::Error::Generic { store: "odd", source: "no answer".into() })
}

/// Whether an operation takes effect, and whether its answer arrives.
#[derive(PartialEq, Eq)]
enum Fate {
    Done,
    Unanswered,
    Nothing,
}

impl Odd {
    fn fate(&self, at: &Key) -> Fate {
        // The probe at start leaves nothing behind that could be in anybody's way.
        if at.as_ref().starts_with("cap/") && !self.behaviour.down.load(Ordering::SeqCst) {
            return Fate::Done;
        }
        let number = self.behaviour.operations.fetch_add(1, Ordering::SeqCst);
        let dies_at = self.behaviour.dies_at.unwrap_or(usize::MAX);
        if number == dies_at && self.behaviour.dies_after_effect {
            return Fate::Unanswered;
        }
        let dead = number >= dies_at || self.behaviour.down.load(Ordering::SeqCst);
        if dead { Fate::Nothing } else { Fate::Done }
    }
}

impl fmt::Display for Odd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("odd")
    }
}

#[async_trait]
impl ObjectStore for Odd {
    async fn put_opts(&self, at: &Key, bytes: PutPayload, how: PutOptions) -> Result<PutResult> {
        let mut fate = self.fate(at);
        if fate == Fate::Nothing {
            return broken();
        }
        if at.as_ref().contains("/seg/") {
            self.behaviour.segment_puts.fetch_add(1, Ordering::SeqCst);
        }
        let on_log = is_commit(at);
        if on_log && self.behaviour.lose_answer.swap(false, Ordering::SeqCst) {
            fate = Fate::Unanswered;
        }
        let put = self.inner.put_opts(at, bytes, how).await;
        if fate == Fate::Unanswered { broken() } else { put }
    }

    async fn get_opts(&self, at: &Key, how: GetOptions) -> Result<GetResult> {
        if self.fate(at) != Fate::Done {
            return broken();
        }
        if is_commit(at) {
            self.behaviour.log_gets.fetch_add(1, Ordering::SeqCst);
        }
        self.inner.get_opts(at, how).await
    }

    async fn put_multipart_opts(
        &self,
        at: &Key,
        how: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(at, how).await
    }

    fn delete_stream(
        &self,
        at: BoxStream<'static, Result<Key>>,
    ) -> BoxStream<'static, Result<Key>> {
        self.inner.delete_stream(at)
    }

    fn list(&self, prefix: Option<&Key>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.behaviour.lists.fetch_add(1, Ordering::SeqCst);
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Key>) -> Result<ListResult> {
        self.behaviour.lists.fetch_add(1, Ordering::SeqCst);
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Key, to: &Key, how: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, how).await
    }
}

/// Of a stream's log, not the cluster's.
fn is_commit(key: &Key) -> bool {
    key.as_ref().starts_with("st/") && key.as_ref().contains("/log/")
}
