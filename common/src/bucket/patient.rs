//! A remote store with time limits by size and budgeted retries around every call.
//!
//! A create that is tried again may meet its own first try: "exists" never means "somebody else's"
//! (see `log`), so even creates may be repeated. A body that breaks off is not resumed, and parts
//! are not put twice: their callers begin again, later.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use object_store::path::Path as Key;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
    UploadPart,
};

use super::retry::{Retry, TRIES, time_limit};

/// See the module.
#[derive(Debug)]
pub(super) struct Patient {
    pub(super) inner: Arc<dyn ObjectStore>,
    pub(super) retry: Arc<Retry>,
}

impl fmt::Display for Patient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.inner)
    }
}

/// What the store does by itself takes as long as that many bytes at most.
const LARGE_BYTES: u64 = 256 * 1024 * 1024;

fn too_slow(limit: Duration) -> Error {
    let source = format!("no answer in {} s", limit.as_secs()).into();
    Error::Generic { store: "store", source }
}

/// Whether asking again can help: everything else is an answer.
fn is_passing(error: &Error) -> bool {
    matches!(error, Error::Generic { .. } | Error::JoinError { .. })
}

async fn limited<T>(limit: Duration, call: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::time::timeout(limit, call).await.unwrap_or_else(|_| Err(too_slow(limit)))
}

impl Patient {
    /// Calls until there is an answer, the tries are used up or the budget is.
    async fn persist<T, F, C>(&self, bytes: usize, call: C) -> Result<T>
    where
        F: Future<Output = Result<T>>,
        C: Fn() -> F,
    {
        let limit = time_limit(bytes as u64);
        self.retry.earn();
        let mut number = 0;
        loop {
            let error = match limited(limit, call()).await {
                Err(error) if is_passing(&error) => error,
                answer => return answer,
            };
            let pause = if number + 1 < TRIES { self.retry.pause(number) } else { None };
            let Some(pause) = pause else { return Err(error) };
            tokio::time::sleep(pause).await;
            number += 1;
        }
    }
}

/// The body, which must be there in time.
fn timed(answer: GetResult) -> GetResult {
    let GetResult { payload, meta, range, attributes } = answer;
    let GetResultPayload::Stream(body) = payload else {
        return GetResult { payload, meta, range, attributes };
    };
    let limit = time_limit(range.end.saturating_sub(range.start));
    let rest = Some((body, Box::pin(tokio::time::sleep(limit))));
    let body = futures::stream::unfold(rest, move |rest| next_part(rest, limit)).boxed();
    GetResult { payload: GetResultPayload::Stream(body), meta, range, attributes }
}

/// Every next item in time; a listing has no size.
fn paced<T: Send + 'static>(items: BoxStream<'static, Result<T>>) -> BoxStream<'static, Result<T>> {
    let next = |items: Option<BoxStream<'static, Result<T>>>| async move {
        let mut items = items?;
        let limit = time_limit(LARGE_BYTES);
        match tokio::time::timeout(limit, items.next()).await {
            Ok(item) => item.map(|item| (item, Some(items))),
            Err(_) => Some((Err(too_slow(limit)), None)),
        }
    };
    futures::stream::unfold(Some(items), next).boxed()
}

type Rest = Option<(BoxStream<'static, Result<Bytes>>, Pin<Box<tokio::time::Sleep>>)>;

async fn next_part(rest: Rest, limit: Duration) -> Option<(Result<Bytes>, Rest)> {
    let (mut body, mut over) = rest?;
    tokio::select! {
        biased;
        part = body.next() => part.map(|part| (part, Some((body, over)))),
        () = &mut over => Some((Err(too_slow(limit)), None)),
    }
}

#[async_trait]
impl ObjectStore for Patient {
    async fn put_opts(&self, at: &Key, bytes: PutPayload, how: PutOptions) -> Result<PutResult> {
        let put = || self.inner.put_opts(at, bytes.clone(), how.clone());
        self.persist(bytes.content_length(), put).await
    }

    async fn put_multipart_opts(
        &self,
        at: &Key,
        how: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let begin = || self.inner.put_multipart_opts(at, how.clone());
        let inner = self.persist(0, begin).await?;
        Ok(Box::new(TimedParts { inner }))
    }

    async fn get_opts(&self, at: &Key, how: GetOptions) -> Result<GetResult> {
        let get = || self.inner.get_opts(at, how.clone());
        self.persist(0, get).await.map(timed)
    }

    fn delete_stream(
        &self,
        at: BoxStream<'static, Result<Key>>,
    ) -> BoxStream<'static, Result<Key>> {
        paced(self.inner.delete_stream(at))
    }

    fn list(&self, prefix: Option<&Key>) -> BoxStream<'static, Result<ObjectMeta>> {
        paced(self.inner.list(prefix))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Key>) -> Result<ListResult> {
        // A listing has no size; a long one takes many requests.
        let list = || self.inner.list_with_delimiter(prefix);
        self.persist(LARGE_BYTES as usize / 4, list).await
    }

    async fn copy_opts(&self, from: &Key, to: &Key, how: CopyOptions) -> Result<()> {
        limited(time_limit(LARGE_BYTES), self.inner.copy_opts(from, to, how)).await
    }
}

#[derive(Debug)]
struct TimedParts {
    inner: Box<dyn MultipartUpload>,
}

#[async_trait]
impl MultipartUpload for TimedParts {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let limit = time_limit(data.content_length() as u64);
        Box::pin(limited(limit, self.inner.put_part(data)))
    }

    async fn complete(&mut self) -> Result<PutResult> {
        // The store puts the parts together now: as slow as it likes, within reason.
        limited(time_limit(LARGE_BYTES), self.inner.complete()).await
    }

    async fn abort(&mut self) -> Result<()> {
        limited(time_limit(0), self.inner.abort()).await
    }
}
