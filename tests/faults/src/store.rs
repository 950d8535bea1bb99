//! An object store that counts, breaks, loses answers, lies, forgets promises and heals on order.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use object_store::path::Path as Key;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult,
    Result, UploadPart,
};
use sealcast_common::bucket::Store;

use crate::ledger::{Ledger, Verdict, When};

/// What is asked of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StoreOp {
    /// The bytes of an object.
    Get,
    /// Its size only.
    Head,
    /// A put that replaces.
    Put,
    /// A put that must find nothing.
    Create,
    /// The end of an upload in parts.
    Complete,
    /// A listing; the key is the prefix.
    List,
    /// Anything else: copies, removals, parts.
    Other,
}

/// One request, as a plan sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreCall {
    /// How many came before it.
    pub number: usize,
    /// What is asked.
    pub op: StoreOp,
    /// Of which object.
    pub key: String,
}

/// How the store departs from a good one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreFault {
    /// An error, before or after the effect: the second is a lost acknowledgement.
    Error(When),
    /// `503 Slow Down`.
    SlowDown,
    /// No answer for so long, then the right one.
    Delay(Duration),
    /// A stale 404: the object is there, the answer says that it is not.
    Missing,
    /// The object's first bytes only, as if there were no more.
    Truncated(usize),
    /// The body breaks off with an error after so many bytes.
    BrokenBody(usize),
    /// One bit flipped at this offset; from the end, if negative.
    Flipped(i64),
    /// Other bytes.
    Replaced(Bytes),
    /// The process dies here: this request and every later one fail.
    Crash(When),
}

/// A store behind a plan; clones share it.
#[derive(Clone, Debug)]
pub struct FaultyStore {
    inner: Arc<dyn ObjectStore>,
    ledger: Arc<Ledger<StoreCall, StoreFault>>,
    stopped: Arc<AtomicBool>,
    forgets_create: Arc<AtomicBool>,
}

impl FaultyStore {
    /// `store` behind a layer without any fault, and the layer.
    pub fn over(store: &Store) -> (Store, FaultyStore) {
        let layer = FaultyStore {
            inner: store.inner(),
            ledger: Arc::default(),
            stopped: Arc::default(),
            forgets_create: Arc::default(),
        };
        (Store::from_object_store(Arc::new(layer.clone()), "faulty"), layer)
    }

    /// Asks `plan` about every request from now on.
    pub fn plan(&self, plan: impl FnMut(&StoreCall) -> Option<StoreFault> + Send + 'static) {
        self.ledger.plan(plan);
    }

    /// The request with this number meets the fault, once.
    pub fn fail_nth(&self, number: usize, fault: StoreFault) {
        self.plan(move |call| (call.number == number).then(|| fault.clone()));
    }

    /// The next request that `of` picks meets the fault, once.
    pub fn fail_once(&self, fault: StoreFault, of: impl Fn(&StoreCall) -> bool + Send + 'static) {
        let mut once = Some(fault);
        self.plan(move |call| if of(call) { once.take() } else { None });
    }

    /// Every request that `of` picks meets the fault until [`FaultyStore::heal`].
    pub fn fail_always(&self, fault: StoreFault, of: impl Fn(&StoreCall) -> bool + Send + 'static) {
        self.plan(move |call| of(call).then(|| fault.clone()));
    }

    /// A new object is visible only after `reads` further requests for it, create-only puts
    /// excepted: a store without read-after-write.
    pub fn delay_visibility(&self, reads: usize) {
        let mut young = std::collections::HashMap::new();
        self.plan(move |call| match call.op {
            StoreOp::Put | StoreOp::Create | StoreOp::Complete => {
                young.insert(call.key.clone(), reads);
                None
            }
            StoreOp::Get | StoreOp::Head => {
                let left = young.get_mut(&call.key)?;
                *left = left.checked_sub(1)?;
                Some(StoreFault::Missing)
            }
            StoreOp::List | StoreOp::Other => None,
        });
    }

    /// Nothing is answered and nothing is done until [`FaultyStore::heal`].
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
    }

    /// "Put if absent" is put, as with servers that ignore conditions.
    pub fn ignore_create(&self) {
        self.forgets_create.store(true, Ordering::SeqCst);
    }

    /// A good store again; the requests stay counted.
    pub fn heal(&self) {
        self.ledger.heal();
        self.stopped.store(false, Ordering::SeqCst);
        self.forgets_create.store(false, Ordering::SeqCst);
    }

    /// Every request so far, failed ones included.
    pub fn calls(&self) -> Vec<StoreCall> {
        self.ledger.calls()
    }

    /// How many requests `of` picks.
    pub fn count(&self, of: impl Fn(&StoreCall) -> bool) -> usize {
        self.ledger.count(of)
    }

    /// Counts a request; the fault that it meets, if not death.
    fn enter(&self, op: StoreOp, key: &str) -> Result<Option<StoreFault>> {
        let entered = self.ledger.enter(|number| StoreCall { number, op, key: key.to_owned() });
        if self.stopped.load(Ordering::SeqCst) {
            return Err(no_answer());
        }
        match entered {
            Verdict::Done => Ok(None),
            Verdict::Dead => Err(no_answer()),
            Verdict::Fault(StoreFault::Crash(when)) => {
                self.ledger.die();
                Ok(Some(StoreFault::Error(when)))
            }
            Verdict::Fault(fault) => Ok(Some(fault)),
        }
    }

    /// Runs a request without a body in its answer.
    async fn run<T>(
        &self,
        op: StoreOp,
        key: &str,
        act: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        match self.enter(op, key)? {
            Some(StoreFault::Error(When::Before)) => Err(no_answer()),
            Some(StoreFault::Error(When::After)) => act.await.and_then(|_| Err(no_answer())),
            Some(StoreFault::SlowDown) => Err(slow_down()),
            Some(StoreFault::Missing) => Err(missing(key)),
            Some(StoreFault::Delay(time)) => {
                tokio::time::sleep(time).await;
                act.await
            }
            _ => act.await,
        }
    }
}

fn generic(text: &str) -> Error {
    Error::Generic { store: "faulty", source: text.into() }
}

fn no_answer() -> Error {
    generic("no answer, as planned")
}

fn slow_down() -> Error {
    generic("503 Slow Down, as planned")
}

fn missing(key: &str) -> Error {
    Error::NotFound { path: key.to_owned(), source: "hidden as planned".into() }
}

/// The answer with another body; sizes and ranges agree with it.
async fn with_body(
    mut answer: GetResult,
    change: impl FnOnce(Vec<u8>) -> Bytes,
) -> Result<GetResult> {
    let meta = answer.meta.clone();
    let body = change(answer.bytes().await?.to_vec());
    answer = GetResult {
        range: 0..body.len() as u64,
        meta: ObjectMeta { size: body.len() as u64, ..meta },
        attributes: object_store::Attributes::new(),
        payload: GetResultPayload::Stream(futures::stream::iter([Ok(body)]).boxed()),
    };
    Ok(answer)
}

/// The true size, the first bytes, then an error.
async fn breaking_off(answer: GetResult, at: usize) -> Result<GetResult> {
    let (meta, range) = (answer.meta.clone(), answer.range.clone());
    let body = answer.bytes().await?;
    let parts = [Ok(body.slice(..at.min(body.len()))), Err(no_answer())];
    Ok(GetResult {
        payload: GetResultPayload::Stream(futures::stream::iter(parts).boxed()),
        meta,
        range,
        attributes: object_store::Attributes::new(),
    })
}

fn flip(mut bytes: Vec<u8>, at: i64) -> Bytes {
    let len = i64::try_from(bytes.len()).unwrap_or(i64::MAX);
    let at = usize::try_from(if at < 0 { len + at } else { at });
    if let Some(byte) = at.ok().and_then(|at| bytes.get_mut(at)) {
        *byte ^= 1;
    }
    bytes.into()
}

impl fmt::Display for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "faulty {}", self.inner)
    }
}

#[async_trait]
impl ObjectStore for FaultyStore {
    async fn put_opts(&self, at: &Key, body: PutPayload, how: PutOptions) -> Result<PutResult> {
        let create = how.mode == PutMode::Create;
        let op = if create { StoreOp::Create } else { StoreOp::Put };
        let forgets = create && self.forgets_create.load(Ordering::SeqCst);
        let how = if forgets { PutOptions::default() } else { how };
        self.run(op, at.as_ref(), self.inner.put_opts(at, body, how)).await
    }

    async fn put_multipart_opts(
        &self,
        at: &Key,
        how: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let begun = self.inner.put_multipart_opts(at, how);
        let inner = self.run(StoreOp::Other, at.as_ref(), begun).await?;
        Ok(Box::new(FaultyUpload { store: self.clone(), key: at.to_string(), inner }))
    }

    async fn get_opts(&self, at: &Key, how: GetOptions) -> Result<GetResult> {
        let key = at.as_ref();
        let op = if how.head { StoreOp::Head } else { StoreOp::Get };
        let get = self.inner.get_opts(at, how);
        match self.enter(op, key)? {
            None => get.await,
            Some(StoreFault::Error(_)) => Err(no_answer()),
            Some(StoreFault::SlowDown) => Err(slow_down()),
            Some(StoreFault::Missing) => Err(missing(key)),
            Some(StoreFault::Delay(time)) => {
                tokio::time::sleep(time).await;
                get.await
            }
            Some(StoreFault::BrokenBody(at)) => breaking_off(get.await?, at).await,
            Some(StoreFault::Truncated(len)) => {
                let cut = |mut bytes: Vec<u8>| {
                    bytes.truncate(len);
                    Bytes::from(bytes)
                };
                with_body(get.await?, cut).await
            }
            Some(StoreFault::Flipped(at)) => with_body(get.await?, |bytes| flip(bytes, at)).await,
            Some(StoreFault::Replaced(other)) => with_body(get.await?, |_| other).await,
            Some(StoreFault::Crash(_)) => Err(no_answer()),
        }
    }

    fn delete_stream(
        &self,
        at: BoxStream<'static, Result<Key>>,
    ) -> BoxStream<'static, Result<Key>> {
        let layer = self.clone();
        let asked = at.map(move |key| {
            let key = key?;
            layer.enter(StoreOp::Other, key.as_ref())?;
            Ok(key)
        });
        self.inner.delete_stream(asked.boxed())
    }

    fn list(&self, prefix: Option<&Key>) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.enter(StoreOp::List, prefix.map_or("", Key::as_ref)) {
            Ok(None) => self.inner.list(prefix),
            Ok(Some(_)) => futures::stream::iter([Err(no_answer())]).boxed(),
            Err(error) => futures::stream::iter([Err(error)]).boxed(),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Key>) -> Result<ListResult> {
        let listed = self.inner.list_with_delimiter(prefix);
        self.run(StoreOp::List, prefix.map_or("", Key::as_ref), listed).await
    }

    async fn copy_opts(&self, from: &Key, to: &Key, how: CopyOptions) -> Result<()> {
        self.run(StoreOp::Other, to.as_ref(), self.inner.copy_opts(from, to, how)).await
    }
}

#[derive(Debug)]
struct FaultyUpload {
    store: FaultyStore,
    key: String,
    inner: Box<dyn MultipartUpload>,
}

#[async_trait]
impl MultipartUpload for FaultyUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let (store, key) = (self.store.clone(), self.key.clone());
        let part = self.inner.put_part(data);
        Box::pin(async move { store.run(StoreOp::Other, &key, part).await })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let completed = self.inner.complete();
        self.store.run(StoreOp::Complete, &self.key, completed).await
    }

    async fn abort(&mut self) -> Result<()> {
        self.inner.abort().await
    }
}
