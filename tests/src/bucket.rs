//! An S3 server in the test's own process: as much of the protocol as the roles use, objects in
//! memory, and puts that are held back on order, before or after their effect.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Method, Request, Response, StatusCode, header};
use bytes::Bytes;
use sealcast_faults::{StoreCall, StoreOp, When};
use tokio::task::JoinHandle;

use crate::Latch;

/// The one bucket that it has.
const NAME: &str = "held";
/// Times are not looked at by anybody.
const MODIFIED: (&str, &str) = ("Thu, 01 Jan 2026 00:00:00 GMT", "2026-01-01T00:00:00.000Z");
/// The largest body: a segment's object in one put.
const BODY_BYTES_MAX: usize = 64 * 1024 * 1024;

type Picks = Box<dyn Fn(&StoreCall) -> bool + Send>;

#[derive(Default)]
struct Inner {
    latch: Latch,
    state: Mutex<Contents>,
}

#[derive(Default)]
struct Contents {
    /// Key → bytes and the number of their put.
    objects: BTreeMap<String, (Bytes, usize)>,
    puts: usize,
    hold: Option<(When, Picks)>,
}

/// A running server; it ends when dropped.
pub struct Bucket {
    address: SocketAddr,
    inner: Arc<Inner>,
    serving: JoinHandle<()>,
}

impl Drop for Bucket {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Bucket {
    /// Starts it, empty.
    pub async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("loopback");
        let address = listener.local_addr().expect("address");
        let inner = Arc::new(Inner::default());
        let router = Router::new().fallback(answer).with_state(Arc::clone(&inner));
        let serving = tokio::spawn(async move {
            axum::serve(listener, router).await.expect("S3 server");
        });
        Bucket { address, inner, serving }
    }

    /// The store's location.
    pub fn url(&self) -> String {
        format!("s3://{NAME}")
    }

    /// What a process needs in its environment.
    pub fn env(&self) -> Vec<(String, String)> {
        [
            ("AWS_ACCESS_KEY_ID", NAME.to_owned()),
            ("AWS_SECRET_ACCESS_KEY", NAME.to_owned()),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_ENDPOINT", format!("http://{}", self.address)),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .to_vec()
    }

    /// From here on puts that `picks` picks are not answered, and have their effect or have it not.
    pub fn hold(&self, when: When, picks: impl Fn(&StoreCall) -> bool + Send + 'static) {
        self.inner.latch.close();
        self.inner.state().hold = Some((when, Box::new(picks)));
    }

    /// Returns once a put is held.
    pub async fn reached(&self, what: &str) {
        self.inner.latch.reached(what).await;
    }

    /// Nothing is held any more. What was held before its effect never has it.
    pub fn release(&self) {
        self.inner.state().hold = None;
        self.inner.latch.open();
    }

    /// Every object under `prefix`, with the number of its put.
    pub fn objects(&self, prefix: &str) -> BTreeMap<String, (Bytes, usize)> {
        let state = self.inner.state();
        let found = state.objects.iter().filter(|(key, _)| key.starts_with(prefix));
        found.map(|(key, object)| (key.clone(), object.clone())).collect()
    }
}

impl Contents {
    /// Judged and done at one moment: whoever looks after a hold has begun sees no late effect.
    fn put(&mut self, key: &str, create: bool, bytes: Bytes) -> (Option<When>, Response<Body>) {
        self.puts += 1;
        let (number, op) = (self.puts, if create { StoreOp::Create } else { StoreOp::Put });
        let call = StoreCall { number, op, key: key.to_owned() };
        let held = self.hold.as_ref().filter(|(_, picks)| picks(&call)).map(|(when, _)| *when);
        if held == Some(When::Before) {
            return (held, plain(StatusCode::SERVICE_UNAVAILABLE));
        }
        if create && self.objects.contains_key(key) {
            return (held, plain(StatusCode::PRECONDITION_FAILED));
        }
        self.objects.insert(key.to_owned(), (bytes, number));
        (held, made(StatusCode::OK, &[(header::ETAG, etag(number))], Body::empty()))
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, Contents> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn put(&self, key: &str, create: bool, bytes: Bytes) -> Response<Body> {
        let (held, answer) = self.state().put(key, create, bytes);
        if held.is_some() {
            self.latch.pass().await;
        }
        answer
    }

    fn get(&self, key: &str, headers: &HeaderMap) -> Response<Body> {
        let Some((bytes, number)) = self.state().objects.get(key).cloned() else {
            return plain(StatusCode::NOT_FOUND);
        };
        let tag = etag(number);
        if text(headers, header::IF_NONE_MATCH) == Some(&tag) {
            return plain(StatusCode::NOT_MODIFIED);
        }
        let mut about = vec![(header::ETAG, tag), (header::LAST_MODIFIED, MODIFIED.0.to_owned())];
        let Some(range) = text(headers, header::RANGE) else {
            return made(StatusCode::OK, &about, Body::from(bytes));
        };
        let bounds = range.strip_prefix("bytes=").and_then(|range| range.split_once('-'));
        let (first, last) = bounds.expect("one range");
        let first: usize = first.parse().expect("a range that says where it begins");
        let end = last.parse().map_or(bytes.len(), |last: usize| bytes.len().min(last + 1));
        if first >= end {
            return plain(StatusCode::RANGE_NOT_SATISFIABLE);
        }
        let of = format!("bytes {first}-{}/{}", end - 1, bytes.len());
        about.push((header::CONTENT_RANGE, of));
        made(StatusCode::PARTIAL_CONTENT, &about, Body::from(bytes.slice(first..end)))
    }

    fn list(&self, prefix: &str, delimited: bool) -> Response<Body> {
        let (mut entries, mut folders) = (String::new(), BTreeMap::new());
        let state = self.state();
        for (key, (bytes, number)) in state.objects.range(prefix.to_owned()..) {
            let Some(rest) = key.strip_prefix(prefix) else { break };
            if let Some((folder, _)) = rest.split_once('/').filter(|_| delimited) {
                folders.insert(format!("{prefix}{folder}/"), ());
                continue;
            }
            entries += &format!(
                "<Contents><Key>{key}</Key><LastModified>{}</LastModified><ETag>{}</ETag>\
                 <Size>{}</Size></Contents>",
                MODIFIED.1,
                etag(*number).replace('"', "&quot;"),
                bytes.len()
            );
        }
        for folder in folders.keys() {
            entries += &format!("<CommonPrefixes><Prefix>{folder}</Prefix></CommonPrefixes>");
        }
        let body = format!("<ListBucketResult>{entries}</ListBucketResult>");
        made(StatusCode::OK, &[], Body::from(body))
    }
}

async fn answer(State(inner): State<Arc<Inner>>, request: Request<Body>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let path = head.uri.path().trim_start_matches('/');
    let key = path.strip_prefix(NAME).unwrap_or(path).trim_start_matches('/').to_owned();
    match head.method {
        Method::PUT => {
            let bytes = axum::body::to_bytes(body, BODY_BYTES_MAX).await;
            let create = text(&head.headers, header::IF_NONE_MATCH) == Some("*");
            match bytes {
                Ok(bytes) => inner.put(&key, create, bytes).await,
                // Its sender died in the middle.
                Err(_) => plain(StatusCode::BAD_REQUEST),
            }
        }
        Method::GET if key.is_empty() => {
            let url = reqwest::Url::parse(&format!("http://bucket{}", head.uri)).expect("a URL");
            let asked: BTreeMap<_, _> = url.query_pairs().into_owned().collect();
            let prefix = asked.get("prefix").map_or("", String::as_str);
            inner.list(prefix, asked.contains_key("delimiter"))
        }
        Method::GET | Method::HEAD => inner.get(&key, &head.headers),
        // Removals: the probe's scratch stays, which is allowed.
        _ => plain(StatusCode::NOT_IMPLEMENTED),
    }
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn etag(number: usize) -> String {
    format!("\"{number}\"")
}

fn plain(status: StatusCode) -> Response<Body> {
    made(status, &[], Body::empty())
}

fn made(
    status: StatusCode,
    headers: &[(header::HeaderName, String)],
    body: Body,
) -> Response<Body> {
    let response = Response::builder().status(status);
    let response = headers.iter().fold(response, |made, (name, value)| made.header(name, value));
    response.body(body).expect("an answer")
}
