//! A store filled as a shipper would, and a replica over it on a free port.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use arrow::record_batch::RecordBatch;
use reqwest::{Response, StatusCode};
use sealcast_common::bucket::{Store, put_checkpoint, put_leaves};
use sealcast_common::catalog::names::{STORE_KEY, commit_key};
use sealcast_common::catalog::{Catalog, CheckpointEntry, CommitKind, CommitRecord, Descriptor};
use sealcast_common::clock::{Micros, Random};
use sealcast_common::event::{Event, Position, Target, encode_leaf};
use sealcast_common::fault::hex;
use sealcast_common::integrity::{
    Checkpoint, CompactRange, Edge, LocalSigner, Note, Signer as _, VerifyKey, file_hash,
    leaf_hash, log_id, shard_origin,
};
use sealcast_common::segment::{
    Expectation, Row, SealRequest, compress, encode_segment, verify_segment,
};
use sealcast_common::wire::{StoreFile, Token};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{Config, Ended, Handle, Seams, start};

const STREAM: &str = "writer-1";
const CLUSTER: &str = "test";
/// 2023-11-14T22:13:20Z.
pub(crate) const EPOCH: i64 = 1_700_000_000_000_000;

/// The id of the event at a place.
pub(crate) fn event_id(shard: u16, seq: u64) -> Uuid {
    Uuid::from_u64_pair(0x0189_0000_0000_7000 | u64::from(shard), seq)
}

/// An ordinary event: the tenant by turns, one second after the one before.
pub(crate) fn event(shard: u16, seq: u64) -> Event {
    let tenant = ["acme", "globex", "initech"][(seq % 3) as usize];
    Event {
        event_id: *event_id(shard, seq).as_bytes(),
        tenant: tenant.into(),
        time: Micros(EPOCH + seq as i64 * 1_000_000 + 123),
        action: if seq.is_multiple_of(5) { "user.login" } else { "file.read" }.into(),
        actor_id: Some(format!("actor-{}", seq % 100)),
        outcome: match seq % 4 {
            0 => Some("denied".into()),
            1 => None,
            _ => Some("success".into()),
        },
        severity: Some((seq % 24) as u8 + 1),
        targets: vec![Target {
            kind: Some("file".into()),
            id: Some(format!("f{seq}")),
            name: None,
        }],
        attributes: Some(format!(r#"{{"n":{seq},"nested":{{"k":"v{seq}"}},"ok":true}}"#)),
        ..Event::default()
    }
}

/// A store in a temporary folder, with one stream.
pub(crate) struct Bucket {
    pub(crate) dir: tempfile::TempDir,
    store: Store,
    catalog: Catalog,
    trees: BTreeMap<u16, CompactRange>,
    edges: BTreeMap<u16, Edge>,
    /// The leaf of every row shipped so far, by shard.
    pub(crate) leaves: BTreeMap<u16, Vec<Vec<u8>>>,
    /// Every row shipped so far, as its file has it.
    pub(crate) rows: Vec<RecordBatch>,
}

impl Bucket {
    pub(crate) async fn new() -> Self {
        // In memory where there is such a folder: every segment and commit is synced.
        let memory = Path::new("/dev/shm");
        let dir = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        let dir = dir.unwrap();
        let store = Store::open(dir.path().join("store").to_str().unwrap()).unwrap();
        let file = StoreFile { format: 1, store_id: hex(&[7; 16]) };
        store.put(STORE_KEY, serde_json::to_vec(&file).unwrap().into()).await.unwrap();
        let catalog = Catalog::empty([7; 16], STREAM);
        let mut bucket = Bucket {
            dir,
            store,
            catalog,
            trees: BTreeMap::new(),
            edges: BTreeMap::new(),
            leaves: BTreeMap::new(),
            rows: Vec::new(),
        };
        bucket.commit(CommitKind::Fence, 1, Vec::new()).await;
        bucket
    }

    /// `segments` segments of `rows` ordinary events each, in shard 0.
    pub(crate) async fn filled(segments: u64, rows: u64) -> Self {
        let mut bucket = Bucket::new().await;
        for segment in 0..segments {
            let events = (segment * rows..(segment + 1) * rows).map(|seq| event(0, seq));
            bucket.ship(0, events.collect()).await;
        }
        bucket
    }

    /// One segment, uploaded and committed.
    pub(crate) async fn ship(&mut self, shard: u16, events: Vec<Event>) -> Descriptor {
        let origin = shard_origin(CLUSTER, shard);
        let frontier = self.trees.entry(shard).or_insert_with(|| CompactRange::empty(0)).clone();
        let mut range = CompactRange::empty(frontier.end());
        let (mut rows, mut leaves) = (Vec::new(), Vec::new());
        for (seq, event) in (frontier.end()..).zip(events) {
            let ingested_at = Micros(EPOCH + seq as i64 * 1_000_000 + 500_000);
            let position = Position { log_id: log_id(&origin), seq, ingested_at };
            leaves.push(encode_leaf(&event.as_ref(), &position).unwrap());
            range.append(leaf_hash(&leaves[leaves.len() - 1]));
            rows.push(Row { event, seq, ingested_at });
        }
        let sealed_at = rows.last().unwrap().ingested_at;
        let request = SealRequest {
            origin,
            shard,
            frontier,
            range: range.clone(),
            routing_version: 1,
            sealed_at,
            requests: Vec::new(),
        };
        let file = encode_segment(rows, &request).unwrap();
        let buffer = arrow::buffer::Buffer::from(file.clone());
        let (view, _) = verify_segment(buffer, &Expectation::default()).unwrap();
        self.rows.extend(view.decode().unwrap());
        let object = compress(&file, view.seal().blocks.iter().map(|b| b.offset)).unwrap();
        let descriptor = Descriptor::new(
            view.seal(),
            (&file_hash(&file), file.len() as u64),
            (&file_hash(&object), object.len() as u64),
        );
        self.trees.get_mut(&shard).unwrap().merge(&range).unwrap();
        self.store.put(&descriptor.key(), object.into()).await.unwrap();
        let hashes: Vec<_> = leaves.iter().map(|leaf| leaf_hash(leaf)).collect();
        let edge = self.edges.entry(shard).or_default();
        put_leaves(&self.store, &descriptor, &hashes, edge).await.unwrap();
        put_checkpoint(&self.store, shard, checkpoint(&descriptor), edge).await.unwrap();
        self.leaves.entry(shard).or_default().extend(leaves);
        self.commit(CommitKind::Add, self.catalog.epoch, vec![descriptor.clone()]).await;
        descriptor
    }

    async fn commit(&mut self, kind: CommitKind, epoch: u64, adds: Vec<Descriptor>) {
        let signer = LocalSigner::from_seed("shipper", &[1; 32]);
        let record = CommitRecord {
            store_id: self.catalog.store_id,
            cluster: CLUSTER.into(),
            stream: STREAM.into(),
            seq: self.catalog.seq + 1,
            epoch,
            author: signer.public_key(),
            nonce: [3; 16],
            previous: self.catalog.hash,
            kind,
            checkpoints: adds.iter().map(|add| (add.id.shard, checkpoint(add))).collect(),
            adds,
            removes: Vec::new(),
            committed_at: Micros(EPOCH),
        };
        let object = record.to_object(&signer).unwrap();
        let (record, hash) = CommitRecord::from_object(&object).unwrap();
        self.catalog = self.catalog.apply(&record, hash).unwrap();
        self.store.create(&commit_key(STREAM, record.seq), object.into()).await.unwrap();
    }

    /// Rows of a shard.
    pub(crate) fn size(&self, shard: u16) -> u64 {
        self.trees.get(&shard).map_or(0, CompactRange::end)
    }

    /// Flips one bit of a segment's object.
    pub(crate) fn damage(&self, descriptor: &Descriptor) {
        let path = self.dir.path().join("store").join(descriptor.key());
        let mut bytes = std::fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        #[expect(clippy::disallowed_methods, reason = "damage is not durable work")]
        std::fs::write(&path, bytes).unwrap();
    }

    /// The path of an object.
    pub(crate) fn object(&self, key: &str) -> PathBuf {
        self.dir.path().join("store").join(key)
    }

    /// The token of everything shipped.
    pub(crate) fn token(&self) -> String {
        Token(self.catalog.vector()).to_text()
    }

    pub(crate) fn config(&self) -> Config {
        Config {
            dir: self.dir.path().join("replica"),
            store: self.dir.path().join("store").display().to_string(),
            http: "127.0.0.1:0".into(),
            postgres: "127.0.0.1:0".into(),
            poll_min_ms: 10,
            poll_max_ms: 20,
            partitions: 2,
            drain_delay_ms: 0,
            drain_ms: 2_000,
            ..Config::default()
        }
    }

    /// A replica that holds everything shipped so far.
    pub(crate) async fn replica(&self) -> Replica {
        let replica = self.replica_with(|_| {}).await;
        replica.wait(&self.token()).await;
        replica
    }

    pub(crate) async fn replica_with(&self, change: impl FnOnce(&mut Config)) -> Replica {
        let mut config = self.config();
        change(&mut config);
        let stop = CancellationToken::new();
        let handle = start(config, Seams::default(), stop.clone()).await.unwrap();
        let base = format!("http://{}", handle.http);
        Replica { handle, stop, base, client: reqwest::Client::new() }
    }
}

fn checkpoint(add: &Descriptor) -> CheckpointEntry {
    let origin = shard_origin(CLUSTER, add.id.shard);
    let signer = LocalSigner::from_seed(origin.clone(), &[add.id.shard as u8 + 100; 32]);
    let (size, root) = (add.end(), add.root_after);
    let text = Checkpoint { origin: origin.clone(), size, root }.to_text();
    let note = Note::sign(text, &signer).unwrap().to_text();
    let key = VerifyKey { name: origin, public_key: signer.public_key() }.to_text();
    CheckpointEntry { size, root, note, key }
}

/// A running replica and a client.
pub(crate) struct Replica {
    pub(crate) handle: Handle,
    pub(crate) stop: CancellationToken,
    pub(crate) base: String,
    pub(crate) client: reqwest::Client,
}

impl Replica {
    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// Waits until `token` is held.
    pub(crate) async fn wait(&self, token: &str) {
        let body = json!({ "sql": "select 1", "min": token, "wait_ms": 30_000 });
        let response = self.post(&body).await;
        // Read to its end: who leaves before that cancels it.
        let (status, answer) = (response.status(), response.text().await.unwrap());
        assert_eq!(status, StatusCode::OK, "{answer}");
    }

    /// Waits until the catalog shows `rows` rows, whether or not they can be read.
    pub(crate) async fn wait_visible(&self, rows: u64) {
        let names = "select sum(rows) from sealcast.segments";
        for _ in 0..1_000 {
            if self.rows(names).await == json!([[rows]]) {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        panic!("{rows} rows are not visible");
    }

    /// Waits until the log has been read, also where it holds no rows.
    pub(crate) async fn wait_begun(&self) {
        while self.post(&json!({ "sql": "select count(*) from events" })).await.status() == 503 {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    }

    pub(crate) async fn post(&self, body: &Value) -> Response {
        self.client.post(self.url("/v1/sql")).json(body).send().await.unwrap()
    }

    pub(crate) async fn get(&self, path: &str) -> Response {
        self.client.get(self.url(path)).send().await.unwrap()
    }

    /// The whole JSON answer.
    pub(crate) async fn answer(&self, body: &Value) -> Value {
        let response = self.post(body).await;
        let status = response.status();
        let text = response.text().await.unwrap();
        assert_eq!(status, StatusCode::OK, "{body}: {text}");
        serde_json::from_str(&text).unwrap()
    }

    /// The rows of a statement.
    pub(crate) async fn rows(&self, sql: &str) -> Value {
        self.answer(&json!({ "sql": sql })).await["rows"].take()
    }

    /// A refusal: status and problem document.
    pub(crate) async fn refusal(&self, body: &Value) -> (u16, Value) {
        let response = self.post(body).await;
        let status = response.status().as_u16();
        let kind = response.headers()["content-type"].to_str().unwrap().to_owned();
        let text = response.text().await.unwrap();
        assert_eq!(kind, "application/problem+json", "{body}: {status} {text}");
        (status, serde_json::from_str(&text).unwrap())
    }

    /// Sums of the scan's counters over `EXPLAIN ANALYZE`.
    pub(crate) async fn counters(&self, sql: &str) -> BTreeMap<String, u64> {
        let plan = self.rows(&format!("explain analyze {sql}")).await;
        let plan = plan[0][1].as_str().unwrap();
        let line = plan.lines().find(|line| line.contains("SegmentScan")).expect(plan);
        let metrics = line.split_once("metrics=[").unwrap().1.trim_end_matches(']');
        let counts = metrics.split(", ").filter_map(|metric| {
            let (name, value) = metric.split_once('=')?;
            let value = value.split(' ').next()?;
            let number: f64 = value.parse().ok()?;
            let thousands = metric.ends_with(" K");
            Some((name.to_owned(), (number * if thousands { 1_000.0 } else { 1.0 }) as u64))
        });
        counts.collect()
    }

    pub(crate) async fn stop(self) {
        self.stop.cancel();
        assert_eq!(self.handle.join().await.unwrap(), Ended::Stopped);
    }
}

/// A path that does not exist yet.
pub(crate) fn file_of(bucket: &Bucket, name: &str) -> PathBuf {
    bucket.dir.path().join(name)
}

/// `bytes` with some of them changed, cut, doubled or put in.
pub(crate) fn changed(bytes: &[u8], random: &dyn Random) -> Vec<u8> {
    let mut out = bytes.to_vec();
    let draw = |bound: usize| {
        let mut bytes = [0; 8];
        random.fill(&mut bytes);
        usize::try_from(u64::from_le_bytes(bytes) % bound.max(1) as u64).unwrap()
    };
    for _ in 0..=draw(4) {
        let at = draw(out.len());
        match draw(5) {
            0 if !out.is_empty() => out[at] ^= 1 << draw(8),
            1 if !out.is_empty() => out[at] = [0, 0xff, 0x7f, 0x80][draw(4)],
            2 => out.truncate(at),
            3 => out.insert(at, u8::try_from(draw(256)).unwrap()),
            _ => {
                let part = out[at..].to_vec();
                out.extend(part.into_iter().take(64));
            }
        }
    }
    out
}
