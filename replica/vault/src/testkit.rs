//! What tests need: a store filled as a shipper would, and a wrapper that counts and breaks.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use object_store::path::Path as Key;
use object_store::{
    CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use parking_lot::Mutex;
use sealcast_common::bucket::{Store, put_checkpoint, put_leaves};
use sealcast_common::catalog::names::{
    STORE_KEY, commit_key, head_key, snapshot_key, snapshot_leaf_key,
};
use sealcast_common::catalog::{
    Catalog, CheckpointEntry, CommitKind, CommitRecord, Descriptor, SnapshotRoot, encode_leaves,
};
use sealcast_common::checked;
use sealcast_common::clock::Micros;
use sealcast_common::event::{Event, Position, encode_leaf};
use sealcast_common::fault::hex;
use sealcast_common::integrity::{
    Checkpoint, CompactRange, Edge, Hash, LocalSigner, Note, Signer as _, VerifyKey, file_hash,
    leaf_hash, log_id, shard_origin,
};
use sealcast_common::segment::{
    Expectation, Row, SealRequest, compress, encode_segment, verify_segment,
};
use sealcast_common::wire::{HeadFile, StoreFile};

pub(crate) const STREAM: &str = "writer-1";
pub(crate) const CLUSTER: &str = "test";

/// Fills a store: rows → segments → commits, one stream.
pub(crate) struct Shipper {
    pub(crate) store: Store,
    pub(crate) catalog: Catalog,
    signer: LocalSigner,
    trees: BTreeMap<u16, CompactRange>,
    edges: BTreeMap<u16, Edge>,
    /// Hashes of the leaves of the last segment.
    leaves: Vec<Hash>,
    pub(crate) time: i64,
}

impl Shipper {
    /// A new store with its identity and the first fence.
    pub(crate) async fn start(store: Store) -> Self {
        let file = StoreFile { format: 1, store_id: hex(&[7; 16]) };
        store.put(STORE_KEY, checked::to_text(&file).into()).await.unwrap();
        let mut shipper = Shipper {
            store,
            catalog: Catalog::empty([7; 16], STREAM),
            signer: LocalSigner::from_seed("shipper", &[1; 32]),
            trees: BTreeMap::new(),
            edges: BTreeMap::new(),
            leaves: Vec::new(),
            time: 1_700_000_000_000_000,
        };
        let fence = shipper.record(CommitKind::Fence, 1, Vec::new());
        shipper.commit(fence).await;
        shipper
    }

    /// One segment of `rows` events in `shard`, uploaded and committed.
    pub(crate) async fn ship(&mut self, shard: u16, rows: u64) -> Descriptor {
        self.ship_lie(shard, rows, |_| {}).await
    }

    /// Ships what `lie` makes of the true descriptor, signed all the same.
    pub(crate) async fn ship_lie(
        &mut self,
        shard: u16,
        rows: u64,
        lie: impl FnOnce(&mut Descriptor),
    ) -> Descriptor {
        let (mut descriptor, object) = self.segment(shard, rows);
        let edge = self.edges.entry(shard).or_default();
        put_leaves(&self.store, &descriptor, &self.leaves, edge).await.unwrap();
        let signed = checkpoint(&descriptor);
        put_checkpoint(&self.store, shard, signed, edge).await.unwrap();
        lie(&mut descriptor);
        self.store.put(&descriptor.key(), object.into()).await.unwrap();
        let record = self.record(CommitKind::Add, self.catalog.epoch, vec![descriptor.clone()]);
        self.commit(record).await;
        descriptor
    }

    /// `count` segments of one row whose objects nobody has put, for those who only fold: the last
    /// in a commit that stands, all others in one that a snapshot alone knows of.
    pub(crate) async fn pretend(&mut self, count: usize) {
        let (like, _) = self.segment(0, 1);
        let add = |start: u64| {
            let mut add = like.clone();
            add.id.start = start;
            add.id.hash[..8].copy_from_slice(&start.to_be_bytes());
            add
        };
        let mut adds: Vec<Descriptor> = (0..count as u64).map(add).collect();
        let last = adds.pop().unwrap();
        let record = self.record(CommitKind::Add, self.catalog.epoch, adds);
        self.catalog = self.catalog.apply(&record, [9; 32]).unwrap();
        let record = self.record(CommitKind::Add, self.catalog.epoch, vec![last]);
        self.commit(record).await;
    }

    fn segment(&mut self, shard: u16, rows: u64) -> (Descriptor, Vec<u8>) {
        let origin = shard_origin(CLUSTER, shard);
        let frontier = self.trees.entry(shard).or_insert_with(|| CompactRange::empty(0)).clone();
        let mut range = CompactRange::empty(frontier.end());
        let mut list = Vec::new();
        self.leaves.clear();
        for seq in frontier.end()..frontier.end() + rows {
            self.time += 1_000;
            let mut event_id = [0; 16];
            event_id[..8].copy_from_slice(&seq.to_be_bytes());
            event_id[8..10].copy_from_slice(&shard.to_be_bytes());
            let event = Event {
                event_id,
                tenant: format!("tenant-{}", seq % 3),
                time: Micros(self.time),
                action: "user.login".into(),
                actor_id: Some(format!("actor-{}", seq % 7)),
                ..Event::default()
            };
            let ingested_at = Micros(self.time + 5);
            let position = Position { log_id: log_id(&origin), seq, ingested_at };
            let leaf = leaf_hash(&encode_leaf(&event.as_ref(), &position).unwrap());
            self.leaves.push(leaf);
            range.append(leaf);
            list.push(Row { event, seq, ingested_at });
        }
        let request = SealRequest {
            origin,
            shard,
            frontier: frontier.clone(),
            range: range.clone(),
            routing_version: 1,
            sealed_at: Micros(self.time + 10),
            requests: Vec::new(),
        };
        let file = encode_segment(list, &request).unwrap();
        let buffer = arrow_buffer::Buffer::from(file.clone());
        let (view, _) = verify_segment(buffer, &Expectation::default()).unwrap();
        let object = compress(&file, view.seal().blocks.iter().map(|b| b.offset)).unwrap();
        let (file_part, object_part) = (file_hash(&file), file_hash(&object));
        let descriptor = Descriptor::new(
            view.seal(),
            (&file_part, file.len() as u64),
            (&object_part, object.len() as u64),
        );
        self.trees.get_mut(&shard).unwrap().merge(&range).unwrap();
        (descriptor, object)
    }

    fn record(&self, kind: CommitKind, epoch: u64, adds: Vec<Descriptor>) -> CommitRecord {
        let last: BTreeMap<u16, &Descriptor> = adds.iter().map(|add| (add.id.shard, add)).collect();
        let checkpoints = last.into_iter().map(|(shard, add)| (shard, checkpoint(add))).collect();
        CommitRecord {
            store_id: self.catalog.store_id,
            cluster: CLUSTER.into(),
            stream: STREAM.into(),
            seq: self.catalog.seq + 1,
            epoch,
            author: self.signer.public_key(),
            nonce: [3; 16],
            previous: self.catalog.hash,
            kind,
            adds,
            removes: Vec::new(),
            checkpoints,
            committed_at: Micros(self.time),
        }
    }

    async fn commit(&mut self, record: CommitRecord) {
        let object = record.to_object(&self.signer).unwrap();
        let (record, hash) = CommitRecord::from_object(&object).unwrap();
        self.catalog = self.catalog.apply(&record, hash).unwrap();
        let key = commit_key(STREAM, record.seq);
        self.store.create(&key, object.into()).await.unwrap();
    }

    /// A snapshot of everything so far, and the head that names it.
    pub(crate) async fn snapshot(&self) {
        let leaves = encode_leaves(&self.catalog);
        for (hash, bytes) in &leaves {
            let key = snapshot_leaf_key(STREAM, hash);
            self.store.put(&key, bytes.clone().into()).await.unwrap();
        }
        let root = SnapshotRoot::new(&self.catalog, &leaves).to_object(&self.signer).unwrap();
        let key = snapshot_key(STREAM, self.catalog.seq, &file_hash(&root));
        self.store.put(&key, root.into()).await.unwrap();
        let (seq, hash) = (self.catalog.seq, hex(&self.catalog.hash));
        let head = HeadFile { seq, hash, snapshot: Some(key) };
        self.store.put(&head_key(STREAM), checked::to_text(&head).into()).await.unwrap();
    }

    pub(crate) fn rows(&self) -> u64 {
        self.catalog.vector().values().sum()
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

/// A local store behind a layer that counts requests, and answers wrongly where it is told to.
#[derive(Debug)]
pub(crate) struct Layer {
    inner: Arc<dyn ObjectStore>,
    pub(crate) gets: AtomicU64,
    pub(crate) lists: AtomicU64,
    pub(crate) keys: Mutex<Vec<String>>,
    /// Key → what is served instead of the object; `None`: not found.
    pub(crate) lies: Mutex<HashMap<String, Option<Bytes>>>,
    /// Keys that answer with an error.
    pub(crate) refused: Mutex<HashSet<String>>,
    pub(crate) down: AtomicBool,
}

impl Layer {
    /// A store in `dir`, with its layer.
    pub(crate) fn over(dir: &Path) -> (Store, Arc<Layer>) {
        let store = Store::open(dir.to_str().unwrap()).unwrap();
        let layer = Arc::new(Layer {
            inner: store.inner(),
            gets: AtomicU64::new(0),
            lists: AtomicU64::new(0),
            keys: Mutex::default(),
            lies: Mutex::default(),
            refused: Mutex::default(),
            down: AtomicBool::new(false),
        });
        (Store::from_object_store(Arc::clone(&layer) as _, "layered"), layer)
    }

    /// Serves the object with one bit flipped at `at` (from the end, if negative).
    pub(crate) async fn flip(&self, key: &str, at: i64) {
        use object_store::ObjectStoreExt as _;
        let bytes = self.inner.get(&Key::from(key)).await.unwrap().bytes().await.unwrap();
        let mut bytes = bytes.to_vec();
        let at = if at < 0 { bytes.len() as i64 + at } else { at };
        bytes[at as usize] ^= 1;
        self.lies.lock().insert(key.to_owned(), Some(bytes.into()));
    }

    pub(crate) fn hide(&self, key: &str) {
        self.lies.lock().insert(key.to_owned(), None);
    }

    pub(crate) fn refuse(&self, key: &str) {
        self.refused.lock().insert(key.to_owned());
    }

    pub(crate) fn heal(&self) {
        self.lies.lock().clear();
        self.refused.lock().clear();
    }

    /// Gets of segment objects.
    pub(crate) fn segment_gets(&self) -> usize {
        self.keys.lock().iter().filter(|key| key.ends_with(".seg.zst")).count()
    }

    fn answer(&self) -> Result<()> {
        if self.down.load(Ordering::SeqCst) {
            let source = "the test has cut the connection".into();
            return Err(object_store::Error::Generic { store: "layer", source });
        }
        Ok(())
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("layer")
    }
}

#[async_trait]
impl ObjectStore for Layer {
    async fn put_opts(&self, at: &Key, body: PutPayload, how: PutOptions) -> Result<PutResult> {
        self.inner.put_opts(at, body, how).await
    }

    async fn put_multipart_opts(
        &self,
        at: &Key,
        how: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(at, how).await
    }

    async fn get_opts(&self, at: &Key, how: GetOptions) -> Result<GetResult> {
        self.gets.fetch_add(1, Ordering::SeqCst);
        self.keys.lock().push(at.to_string());
        self.answer()?;
        if self.refused.lock().contains(at.as_ref()) {
            return Err(object_store::Error::Generic { store: "layer", source: "refused".into() });
        }
        let lie = self.lies.lock().get(at.as_ref()).cloned();
        match lie {
            None => self.inner.get_opts(at, how).await,
            Some(None) => Err(object_store::Error::NotFound {
                path: at.to_string(),
                source: "hidden by the test".into(),
            }),
            Some(Some(bytes)) => {
                let mut answer = self.inner.get_opts(at, how).await?;
                answer.meta.size = bytes.len() as u64;
                answer.range = 0..bytes.len() as u64;
                let stream = futures::stream::once(async move { Ok(bytes) });
                answer.payload = GetResultPayload::Stream(Box::pin(stream));
                Ok(answer)
            }
        }
    }

    fn delete_stream(
        &self,
        at: BoxStream<'static, Result<Key>>,
    ) -> BoxStream<'static, Result<Key>> {
        self.inner.delete_stream(at)
    }

    fn list(&self, prefix: Option<&Key>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.lists.fetch_add(1, Ordering::SeqCst);
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Key>) -> Result<ListResult> {
        self.lists.fetch_add(1, Ordering::SeqCst);
        self.answer()?;
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Key, to: &Key, how: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, how).await
    }
}
