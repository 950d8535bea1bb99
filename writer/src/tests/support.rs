//! What the tests share: a running writer, its answers, its files, and files that fail on order.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::header::HeaderMap;
use sealcast_common::durable::{AppendFile, Durable, RealFiles};
use sealcast_common::segment::columns::EventColumns;
use sealcast_common::segment::{Expectation, SegmentName, verify_segment};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::disk::{files_in, read_aligned};
use crate::{Config, Discord, Ended, Handle, RecoveryError, RunError, Seams, StartError, start};

pub(super) struct Writer {
    handle: Handle,
    stop: CancellationToken,
    base: String,
    client: reqwest::Client,
}

pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) text: String,
    headers: HeaderMap,
}

/// Where something is corrupt.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) check: String,
    pub(super) file: String,
    pub(super) offset: Option<u64>,
}

impl Answer {
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.text)
            .unwrap_or_else(|_| panic!("{}: {}", self.status, self.text))
    }

    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub(super) fn code(&self) -> (u16, String) {
        (self.status, self.json()["code"].as_str().unwrap_or_default().to_owned())
    }
}

/// Two shards, no seal by age within a test.
pub(super) fn config(dir: &Path) -> Config {
    Config {
        dir: dir.to_owned(),
        http: "127.0.0.1:0".to_owned(),
        cluster: Some("test".to_owned()),
        seal_age_ms: 3_600_000,
        ..Config::default()
    }
}

/// No certificates: reading the system's takes longer than most tests.
fn client() -> reqwest::Client {
    reqwest::Client::builder().tls_built_in_root_certs(false).build().unwrap()
}

impl Writer {
    pub(super) async fn start(dir: &Path) -> Writer {
        Writer::start_with(config(dir), Seams::default()).await.unwrap()
    }

    pub(super) async fn start_with(config: Config, seams: Seams) -> Result<Writer, StartError> {
        let stop = CancellationToken::new();
        let handle = start(config, seams, stop.clone()).await?;
        let base = format!("http://{}", handle.http);
        Ok(Writer { handle, stop, base, client: client() })
    }

    /// Why acme's shard is corrupt, as a client is told.
    pub(super) async fn corrupt_shard(&self) -> Found {
        let refused = self.post_json(&event("acme", "a")).await;
        assert_eq!(refused.code(), (503, "shard_corrupt".into()), "{}", refused.text);
        let problem = refused.json();
        Found {
            check: problem["check"].as_str().unwrap_or_default().to_owned(),
            file: problem["file"].as_str().unwrap_or_default().to_owned(),
            offset: problem["offset"].as_u64(),
        }
    }

    /// Asks again until the answer is a success: a shard that comes back by itself.
    pub(super) async fn post_until_stored(&self, body: &Value) -> Answer {
        for _ in 0..TRIES {
            if let Some(answer) = done(self.post_json(body).await).await {
                return answer;
            }
        }
        panic!("writes do not come back")
    }

    pub(super) async fn keyed_until_stored(&self, key: &str, body: &Value) -> Answer {
        for _ in 0..TRIES {
            if let Some(answer) = done(self.post_keyed("", key, body.to_string()).await).await {
                return answer;
            }
        }
        panic!("writes do not come back")
    }

    pub(super) async fn flush_until_sealed(&self) -> Answer {
        for _ in 0..TRIES {
            if let Some(answer) = done(self.flush("").await).await {
                return answer;
            }
        }
        panic!("seals do not come back")
    }

    pub(super) fn address(&self) -> std::net::SocketAddr {
        self.handle.http
    }

    pub(super) fn node(&self) -> &str {
        &self.handle.node.node
    }

    pub(super) async fn stop(self) -> Result<Ended, RunError> {
        self.stop.cancel();
        self.handle.join().await
    }

    /// Begins to stop without waiting.
    pub(super) fn cancel(&self) {
        self.stop.cancel();
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Answer {
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Answer { status, headers, text: response.text().await.unwrap() }
    }

    /// Sends bytes as they are and keeps the connection open; everything that comes back.
    pub(super) async fn raw(&self, request: &[u8]) -> String {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let mut stream = tokio::net::TcpStream::connect(self.handle.http).await.unwrap();
        stream.write_all(request).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    pub(super) async fn get(&self, path: &str) -> Answer {
        self.send(self.client.get(format!("{}{path}", self.base))).await
    }

    pub(super) async fn flush(&self, query: &str) -> Answer {
        self.send(self.client.post(format!("{}/v1/admin/flush{query}", self.base))).await
    }

    pub(super) async fn method(&self, method: reqwest::Method, path: &str) -> Answer {
        self.send(self.client.request(method, format!("{}{path}", self.base))).await
    }

    pub(super) async fn post_query(&self, query: &str, body: String) -> Answer {
        let request = self.client.post(format!("{}/v1/events{query}", self.base));
        self.send(request.body(body)).await
    }

    pub(super) async fn post_keyed(&self, query: &str, key: &str, body: String) -> Answer {
        let request = self.client.post(format!("{}/v1/events{query}", self.base));
        self.send(request.header("idempotency-key", key).body(body)).await
    }

    pub(super) async fn post_json(&self, body: &Value) -> Answer {
        self.post(Some("application/json"), None, body.to_string().into()).await
    }

    /// `None` if the connection is refused or closed before an answer.
    pub(super) async fn try_post(&self, body: &Value) -> Option<Answer> {
        let request = self.client.post(format!("{}/v1/events", self.base)).body(body.to_string());
        let response = request.send().await.ok()?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Some(Answer { status, headers, text: response.text().await.ok()? })
    }

    pub(super) async fn post_json_owned(&self, body: Value) -> Answer {
        self.post_json(&body).await
    }

    pub(super) async fn post_with(&self, headers: &[(&str, &str)], body: String) -> Answer {
        let mut request = self.client.post(format!("{}/v1/events", self.base)).body(body);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(request).await
    }

    pub(super) async fn post(
        &self,
        content_type: Option<&str>,
        encoding: Option<&str>,
        body: Vec<u8>,
    ) -> Answer {
        let mut request = self.client.post(format!("{}/v1/events", self.base)).body(body);
        if let Some(content_type) = content_type {
            request = request.header("content-type", content_type);
        }
        if let Some(encoding) = encoding {
            request = request.header("content-encoding", encoding);
        }
        self.send(request).await
    }
}

/// A thousand times ten milliseconds.
const TRIES: usize = 1_000;

/// The answer, if it is a success; a refusal must say that it passes.
async fn done(answer: Answer) -> Option<Answer> {
    if answer.status == 200 {
        return Some(answer);
    }
    assert!(answer.status == 503 || answer.status == 507, "{}", answer.text);
    assert!(!answer.header("retry-after").is_empty());
    tokio::time::sleep(Duration::from_millis(10)).await;
    None
}

/// By which check a folder is refused as another copy than the one that was signed.
pub(super) async fn refused_start(dir: &Path) -> (&'static str, Discord) {
    refused_start_with(config(dir)).await
}

pub(super) async fn refused_start_with(config: Config) -> (&'static str, Discord) {
    match Writer::start_with(config, Seams::default()).await {
        Err(StartError::Shard { source: RecoveryError::Signed { finding, discord }, .. }) => {
            (finding.check, discord)
        }
        Err(other) => panic!("refused for another reason: {other}"),
        Ok(_) => panic!("started"),
    }
}

pub(super) fn event(tenant: &str, action: &str) -> Value {
    json!({ "tenant": tenant, "action": action, "attributes": { "n": 1.5, "deep": { "a": [1, 2] } } })
}

pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A row of a sealed file.
#[derive(Debug)]
pub(super) struct SealedRow {
    pub(super) shard: u16,
    pub(super) seq: u64,
    pub(super) event_id: String,
    pub(super) action: String,
}

/// All rows of all sealed files, each of which verifies and has its note.
pub(super) fn sealed_rows(dir: &Path) -> Vec<SealedRow> {
    let mut rows = Vec::new();
    for path in files_under(&dir.join("sealed"), ".seg") {
        let name = SegmentName::parse(path.file_name().unwrap().to_str().unwrap()).unwrap();
        let expect = Expectation {
            file_hash: Some(name.hash.to_vec()),
            range: Some((name.start, name.end())),
            ..Expectation::default()
        };
        let (_, batches) = verify_segment(read_aligned(&path).unwrap(), &expect).unwrap();
        assert!(path.with_extension("note").exists());
        for batch in &batches {
            let columns = EventColumns::new(batch).unwrap();
            rows.extend((0..columns.rows()).map(|row| SealedRow {
                shard: columns.shard(row),
                seq: columns.seq(row),
                event_id: uuid::Uuid::from_bytes(columns.event(row).event_id).to_string(),
                action: columns.event(row).action.to_owned(),
            }));
        }
    }
    rows
}

/// Files in the shards' folders under `root` whose names end so, sorted.
pub(super) fn files_under(root: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in std::fs::read_dir(root).unwrap() {
        let listed = files_in(&folder.unwrap().path()).unwrap();
        found.extend(listed.into_iter().filter(|(n, _)| n.ends_with(ending)).map(|(_, path)| path));
    }
    found.sort();
    found
}

/// The logs that hold events.
pub(super) fn logs(dir: &Path) -> Vec<PathBuf> {
    let all = files_under(&dir.join("wal"), ".wal");
    all.into_iter().filter(|path| std::fs::metadata(path).unwrap().len() > 40).collect()
}

pub(super) fn write(path: &Path, bytes: &[u8]) {
    RealFiles.write_new(path, bytes).unwrap();
}

/// A copy of a directory as a crash would leave it.
pub(super) fn copy_dir(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_dir(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// An operation on files, as the plan below sees it: its name and the file's.
type Fail = Box<dyn FnMut(&str, &Path) -> Option<io::Error> + Send>;

/// Real files, except where the plan says otherwise.
#[derive(Clone)]
pub(super) struct PlannedFiles {
    plan: Arc<Mutex<Fail>>,
}

impl std::fmt::Debug for PlannedFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PlannedFiles")
    }
}

impl PlannedFiles {
    pub(super) fn new(plan: impl FnMut(&str, &Path) -> Option<io::Error> + Send + 'static) -> Self {
        PlannedFiles { plan: Arc::new(Mutex::new(Box::new(plan))) }
    }

    pub(super) fn seams(self) -> Seams {
        Seams { files: Arc::new(self), ..Seams::default() }
    }

    fn ask(&self, operation: &str, path: &Path) -> io::Result<()> {
        // A plan may panic, as a thread of the writer would.
        let mut plan = self.plan.lock().unwrap_or_else(PoisonError::into_inner);
        plan(operation, path).map_or(Ok(()), Err)
    }
}

#[derive(Debug)]
struct PlannedAppend {
    files: PlannedFiles,
    path: PathBuf,
    inner: Box<dyn AppendFile>,
}

impl AppendFile for PlannedAppend {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.files.ask("append", &self.path)?;
        self.inner.append(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.files.ask("sync", &self.path)?;
        self.inner.sync()
    }
}

impl Durable for PlannedFiles {
    fn create_append(&self, path: &Path) -> io::Result<Box<dyn AppendFile>> {
        RealFiles.create_append(path)
    }

    fn open_append(&self, path: &Path, len: u64) -> io::Result<Box<dyn AppendFile>> {
        self.ask("open", path)?;
        let (files, path_buf) = (self.clone(), path.to_owned());
        let inner = RealFiles.open_append(path, len)?;
        Ok(Box::new(PlannedAppend { files, path: path_buf, inner }))
    }

    fn write_new(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.ask("write", path)?;
        RealFiles.write_new(path, bytes)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.ask("rename", to)?;
        RealFiles.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.ask("remove", path)?;
        RealFiles.remove(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        RealFiles.sync_dir(path)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        RealFiles.create_dir(path)
    }
}

/// A disk that changes one byte of every segment right after it was written.
#[derive(Debug)]
pub(super) struct DamagedSeals(pub(super) PlannedFiles);

impl Durable for DamagedSeals {
    fn create_append(&self, path: &Path) -> io::Result<Box<dyn AppendFile>> {
        self.0.create_append(path)
    }

    fn open_append(&self, path: &Path, len: u64) -> io::Result<Box<dyn AppendFile>> {
        self.0.open_append(path, len)
    }

    fn write_new(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut bytes = bytes.to_vec();
        if path.to_string_lossy().ends_with(".seg.tmp") {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
        }
        self.0.write_new(path, &bytes)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.remove(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.0.sync_dir(path)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.0.create_dir(path)
    }
}
