//! Somebody who has the store and some of the keys, and knows the formats as well as we do: takes
//! the rows out, changes history, and makes everything anew that the keys allow.

use std::collections::BTreeMap;
use std::path::Path;

use arrow_buffer::Buffer;
use sealcast_common::bucket::{
    Addition, ClusterLog, CreateOnlyLog, Store, put_checkpoint, put_leaves,
};
use sealcast_common::catalog::names::{STORE_KEY, commit_key};
use sealcast_common::catalog::{
    Catalog, CheckpointEntry, CommitKind, CommitRecord, Descriptor, ShardCatalog,
};
use sealcast_common::checked;
use sealcast_common::clock::Micros;
use sealcast_common::cluster::{
    ClusterRecord, ClusterState, Epoch, ShardPoint, StreamPoint, cluster_origin,
};
use sealcast_common::event::{Position, decode_full, encode_full, encode_leaf};
use sealcast_common::fault::{Corruption, unhex};
use sealcast_common::integrity::{
    Checkpoint, CompactRange, Edge, Hash, LocalSigner, Note, Signer as _, VerifyKey, file_hash,
    leaf_hash, load_seed, log_id, shard_origin,
};
use sealcast_common::layout::DataDir;
use sealcast_common::segment::columns::EventColumns;
use sealcast_common::segment::{
    Expectation, Row, SealRequest, SegmentView, compress, decompress, encode_segment,
    verify_segment,
};
use sealcast_common::wire::StoreFile;

use crate::output::{Failure, failed};

/// How much was stolen, each with all before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stolen {
    /// Only access to the bucket.
    Nothing,
    /// The shipper's key: commit records can be signed.
    Shipper,
    /// The shards' keys: checkpoints can be signed.
    Shards,
    /// The cluster log's key.
    Everything,
}

/// What is done to the bytes of each segment file before they are hashed.
pub(super) type Lie = fn(Vec<u8>) -> Result<Vec<u8>, Corruption>;

/// Rows of every shard in one commit.
pub(super) type Commit = BTreeMap<u16, Vec<Row>>;

/// See the module.
pub(super) struct Insider {
    store: Store,
    folder: std::path::PathBuf,
    store_id: [u8; 16],
    catalog: Catalog,
    seeds: BTreeMap<u16, [u8; 32]>,
    shipper: LocalSigner,
    pub(super) log: [u8; 32],
    /// The genuine cluster log.
    leaves: Vec<Vec<u8>>,
    /// The genuine checkpoints, by shard.
    genuine: BTreeMap<u16, std::sync::Arc<ShardCatalog>>,
    pub(super) commits: Vec<Commit>,
    pub(super) lie: Lie,
    /// Leaves of the cluster log beyond as many as the genuine one has.
    pub(super) epochs_more: usize,
}

impl Insider {
    /// Steals everything and reads all rows.
    pub(super) async fn of(root: &Path) -> Result<Insider, Failure> {
        let (dir, folder) = (DataDir::new(root.join("writer")), root.join("store"));
        let store = Store::open(&folder.display().to_string()).map_err(failed)?;
        let file = store.get(STORE_KEY).await.map_err(failed)?.unwrap_or_default();
        let file: StoreFile = checked::parse("store_file", &file).map_err(failed)?;
        let store_id = unhex(&file.store_id).unwrap_or_default();
        let node = std::fs::read(dir.node_file()).map_err(failed)?;
        let node: sealcast_common::wire::NodeFile =
            checked::parse("node_file", &node).map_err(failed)?;
        let log = CreateOnlyLog::new(store.clone(), &node.node, commit_key);
        let (mut catalog, mut commits) = (Catalog::empty(store_id, &node.node), Vec::new());
        while let Some(object) = log.read(catalog.seq + 1).await.map_err(failed)? {
            let (record, hash) = CommitRecord::from_object(&object).map_err(failed)?;
            catalog = catalog.apply(&record, hash).map_err(failed)?;
            let mut commit = Commit::new();
            for add in &record.adds {
                let object = store.get(&add.key()).await.map_err(failed)?.unwrap_or_default();
                let rows = rows_of(&object, add).map_err(failed)?;
                commit.entry(add.id.shard).or_default().extend(rows);
            }
            if record.kind == CommitKind::Add {
                commits.push(commit);
            }
        }
        let seed = |path: &Path| load_seed(path).map_err(failed);
        let mut seeds = BTreeMap::new();
        for shard in catalog.shards.keys() {
            seeds.insert(*shard, seed(&dir.key_file(*shard))?);
        }
        let head = ClusterLog::new(store.clone());
        let size = head.largest().await.map_err(failed)?.unwrap_or(0);
        Ok(Insider {
            leaves: head.leaves(size).await.map_err(failed)?,
            shipper: LocalSigner::from_seed("shipper", &seed(&dir.ship_key_file())?),
            log: seed(&dir.cluster_key_file())?,
            genuine: catalog.shards.clone(),
            store,
            folder,
            store_id,
            catalog,
            seeds,
            commits,
            lie: Ok,
            epochs_more: 0,
        })
    }

    /// Every row, to be changed.
    pub(super) fn rows(&mut self) -> impl Iterator<Item = (u16, &mut Row)> {
        let shards = self.commits.iter_mut().flat_map(|commit| commit.iter_mut());
        shards.flat_map(|(shard, rows)| rows.iter_mut().map(|row| (*shard, row)))
    }

    /// Makes the store anew with what `stolen` allows; what needs other keys stays as it was.
    pub(super) async fn publish(mut self, stolen: Stolen) -> Result<(), Failure> {
        let (cluster, stream) = (self.catalog.cluster.clone(), self.catalog.stream.clone());
        if stolen == Stolen::Nothing {
            return self.overwrite().await;
        }
        remove(&self.folder.join("sh"))?;
        remove(&self.folder.join("st"))?;
        let mut catalog = Catalog::empty(self.store_id, &stream);
        catalog.cluster.clone_from(&cluster);
        let (mut trees, mut edges) = (BTreeMap::new(), BTreeMap::new());
        let mut vectors = Vec::new();
        catalog = self.commit(catalog, CommitKind::Fence, Vec::new(), BTreeMap::new()).await?;
        for commit in std::mem::take(&mut self.commits) {
            let (mut adds, mut checkpoints) = (Vec::new(), BTreeMap::new());
            for (shard, rows) in commit.into_iter().filter(|(_, rows)| !rows.is_empty()) {
                let tree = trees.entry(shard).or_insert_with(|| CompactRange::empty(0));
                let made = self.segment(shard, rows, tree).map_err(failed)?;
                let (descriptor, object, leaves) = made;
                let edge: &mut Edge = edges.entry(shard).or_default();
                put_leaves(&self.store, &descriptor, &leaves, edge).await.map_err(failed)?;
                let entry = self.checkpoint(&descriptor, stolen)?;
                put_checkpoint(&self.store, shard, entry.clone(), edge).await.map_err(failed)?;
                self.store.put(&descriptor.key(), object.into()).await.map_err(failed)?;
                checkpoints.insert(shard, entry);
                adds.push(descriptor);
            }
            let old = catalog.clone();
            catalog = match self.commit(catalog, CommitKind::Add, adds, checkpoints).await {
                Ok(catalog) => catalog,
                // Signed by the shipper, and refused by everybody: that is what was to be shown.
                Err(_) if stolen == Stolen::Shipper => old,
                Err(error) => return Err(error),
            };
            vectors.push(catalog.clone());
        }
        if stolen == Stolen::Everything {
            self.cluster(&vectors).await?;
        }
        Ok(())
    }

    /// Other bytes under the old names.
    async fn overwrite(mut self) -> Result<(), Failure> {
        let mut trees = BTreeMap::new();
        let genuine: Vec<_> = self.catalog.segments().cloned().collect();
        for commit in std::mem::take(&mut self.commits) {
            for (shard, rows) in commit {
                let tree = trees.entry(shard).or_insert_with(|| CompactRange::empty(0));
                let (made, object, _) = self.segment(shard, rows, tree).map_err(failed)?;
                let same = genuine
                    .iter()
                    .find(|old| (old.id.shard, old.id.start) == (shard, made.id.start));
                if let Some(old) = same {
                    self.store.put(&old.key(), object.into()).await.map_err(failed)?;
                }
            }
        }
        Ok(())
    }

    fn segment(
        &self,
        shard: u16,
        mut rows: Vec<Row>,
        tree: &mut CompactRange,
    ) -> Result<(Descriptor, Vec<u8>, Vec<Hash>), Corruption> {
        let origin = shard_origin(&self.catalog.cluster, shard);
        let frontier = tree.clone();
        let (mut range, mut leaves) = (CompactRange::empty(frontier.end()), Vec::new());
        // A segment's rows have consecutive seqs, whatever was taken out or put in.
        for (seq, row) in (frontier.end()..).zip(&mut rows) {
            row.seq = seq;
            let position = Position { log_id: log_id(&origin), seq, ingested_at: row.ingested_at };
            let leaf = encode_leaf(&row.event.as_ref(), &position)
                .map_err(|error| Corruption::new("leaves", None, "a leaf", error.to_string()))?;
            leaves.push(leaf_hash(&leaf));
            range.append(leaf_hash(&leaf));
        }
        let sealed_at = rows.iter().map(|row| row.ingested_at).max().unwrap_or(Micros(0));
        let request = SealRequest {
            origin,
            shard,
            frontier,
            range: range.clone(),
            routing_version: 1,
            sealed_at,
            requests: Vec::new(),
        };
        tree.merge(&range)?;
        let file = (self.lie)(encode_segment(rows, &request)?)?;
        let view = SegmentView::parse(Buffer::from(file.clone()))?;
        let cuts = view.seal().blocks.iter().map(|block| block.offset);
        let object = compress(&file, cuts)
            .map_err(|error| Corruption::new("zstd", None, "an object", error.to_string()))?;
        let (file_part, object_part) = (file_hash(&file), file_hash(&object));
        let sizes = (file.len() as u64, object.len() as u64);
        let descriptor =
            Descriptor::new(view.seal(), (&file_part, sizes.0), (&object_part, sizes.1));
        Ok((descriptor, object, leaves))
    }

    /// Signed with the shard's key, or the genuine one of that size for want of it.
    fn checkpoint(&self, add: &Descriptor, stolen: Stolen) -> Result<CheckpointEntry, Failure> {
        let shard = add.id.shard;
        let genuine = self.genuine.get(&shard).and_then(|shard| shard.checkpoint.clone());
        if let Some(genuine) = genuine.filter(|_| stolen < Stolen::Shards) {
            return Ok(CheckpointEntry { size: add.end(), root: add.root_after, ..genuine });
        }
        let origin = shard_origin(&self.catalog.cluster, shard);
        let seed = self.seeds.get(&shard).copied().unwrap_or_default();
        let signer = LocalSigner::from_seed(origin.clone(), &seed);
        let (size, root) = (add.end(), add.root_after);
        let text = Checkpoint { origin: origin.clone(), size, root }.to_text();
        let note = Note::sign(text, &signer).map_err(failed)?.to_text();
        let key = VerifyKey { name: origin, public_key: signer.public_key() }.to_text();
        Ok(CheckpointEntry { size, root, note, key })
    }

    async fn commit(
        &self,
        catalog: Catalog,
        kind: CommitKind,
        adds: Vec<Descriptor>,
        checkpoints: BTreeMap<u16, CheckpointEntry>,
    ) -> Result<Catalog, Failure> {
        let record = CommitRecord {
            store_id: self.store_id,
            cluster: self.catalog.cluster.clone(),
            stream: catalog.stream.clone(),
            seq: catalog.seq + 1,
            epoch: if kind == CommitKind::Fence { catalog.epoch + 1 } else { catalog.epoch },
            author: self.shipper.public_key(),
            nonce: [3; 16],
            previous: catalog.hash,
            kind,
            committed_at: adds.iter().map(|add| add.sealed_at).max().unwrap_or(Micros(0)),
            adds,
            removes: Vec::new(),
            checkpoints,
        };
        let object = record.to_object(&self.shipper).map_err(failed)?;
        let key = commit_key(&catalog.stream, record.seq);
        self.store.put(&key, object.clone().into()).await.map_err(failed)?;
        let (record, hash) = CommitRecord::from_object(&object).map_err(failed)?;
        catalog.apply(&record, hash).map_err(failed)
    }

    /// A cluster log that tells the new history in at least as many leaves as the genuine one has.
    async fn cluster(&self, vectors: &[Catalog]) -> Result<(), Failure> {
        remove(&self.folder.join("cluster"))?;
        let origin = cluster_origin(&self.catalog.cluster);
        let signer = LocalSigner::from_seed(origin.clone(), &self.log);
        let key = VerifyKey { name: origin.clone(), public_key: signer.public_key() };
        let (mut state, mut leaves) = (ClusterState::default(), Vec::new());
        let genesis = ClusterRecord::from_leaf(&self.leaves[0]).map_err(failed)?;
        let genesis = match genesis {
            ClusterRecord::Genesis { cluster, store_id, time, .. } => {
                ClusterRecord::Genesis { cluster, store_id, key: key.to_text(), time }
            }
            other => other,
        };
        let mut records = vec![genesis];
        let last = vectors.last();
        for (shard, rows) in last.into_iter().flat_map(|catalog| &catalog.shards) {
            let key = rows.checkpoint.as_ref().map_or(String::new(), |entry| entry.key.clone());
            let stream = self.catalog.stream.clone();
            records.push(ClusterRecord::ShardAdded { shard: *shard, key, stream });
        }
        for record in records {
            append(&mut state, &mut leaves, &record)?;
        }
        let wanted = self.leaves.len() + self.epochs_more;
        let padding = wanted.saturating_sub(leaves.len() + vectors.len());
        let told = vectors.iter().chain(last.into_iter().cycle().take(padding));
        for catalog in told {
            let record = ClusterRecord::Epoch(epoch(&state, catalog));
            append(&mut state, &mut leaves, &record)?;
        }
        let (size, root) = (state.size(), state.tree.root().map_err(failed)?);
        let text = Checkpoint { origin, size, root }.to_text();
        let note = Note::sign(text, &signer).map_err(failed)?;
        let addition = Addition {
            first: 0,
            leaves: &leaves,
            before: &[],
            edge: Edge::default(),
            note: &note,
            keys: &key.into(),
        };
        let published = ClusterLog::new(self.store.clone()).publish(addition).await;
        published.map(drop).map_err(failed)
    }
}

fn append(
    state: &mut ClusterState,
    leaves: &mut Vec<Vec<u8>>,
    record: &ClusterRecord,
) -> Result<(), Failure> {
    let leaf = record.to_leaf().map_err(failed)?;
    state.apply(&leaf).map_err(failed)?;
    leaves.push(leaf);
    Ok(())
}

fn epoch(state: &ClusterState, catalog: &Catalog) -> Epoch {
    let point = |(shard, known): (&u16, &sealcast_common::cluster::KnownShard)| {
        let entry = catalog.shards.get(shard).and_then(|rows| rows.checkpoint.as_ref());
        let (size, root) = entry.map_or((known.size, known.root), |entry| (entry.size, entry.root));
        ShardPoint { shard: *shard, size, root }
    };
    Epoch {
        number: state.epoch.map_or(1, |(number, _)| number + 1),
        previous: state.epoch.map(|(_, leaf)| leaf),
        time: state.time,
        shards: state.shards.iter().map(point).collect(),
        streams: vec![StreamPoint {
            stream: catalog.stream.clone(),
            seq: catalog.seq,
            hash: catalog.hash,
        }],
    }
}

fn rows_of(object: &[u8], add: &Descriptor) -> Result<Vec<Row>, Corruption> {
    let file = decompress(object, add.bytes)?;
    let (_, batches) = verify_segment(Buffer::from(file), &Expectation::default())?;
    let mut rows = Vec::new();
    for batch in &batches {
        let columns = EventColumns::new(batch)?;
        for at in 0..columns.rows() {
            let (seq, ingested_at) = (columns.seq(at), columns.ingested_at(at));
            let position = Position { log_id: [0; 16], seq, ingested_at };
            let full = encode_full(&columns.event(at), &position)
                .map_err(|error| Corruption::new("leaves", None, "an event", error.to_string()))?;
            let (event, _) = decode_full(&full, "leaves")?;
            rows.push(Row { event, seq, ingested_at });
        }
    }
    rows.sort_by_key(|row| row.seq);
    Ok(rows)
}

pub(super) fn remove(folder: &Path) -> Result<(), Failure> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(failed(error)),
        _ => Ok(()),
    }
}
