//! Every way to show another history than before, and the check that finds it.

mod catalogs;
mod histories;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::*;
use crate::bucket::{Addition, ClusterLog, Store};
use crate::catalog::{Catalog, CheckpointEntry, CommitKind, CommitRecord, Descriptor, SegmentId};
use crate::cluster::{ClusterRecord, Epoch, ShardPoint, StreamPoint, cluster_origin};
use crate::durable::{Durable as _, RealFiles};
use crate::integrity::{
    Checkpoint, CosignerKey, Edge, LocalSigner, Signer as _, TILE_WIDTH, VerifyKey, leaf_hash,
    shard_origin,
};

const CLUSTER: &str = "c";
const STREAM: &str = "n";

/// A store, and a place for the state beside it.
struct World {
    dir: tempfile::TempDir,
    log: ClusterLog,
}

impl World {
    fn new() -> World {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path().join("store").to_str().unwrap()).unwrap();
        World { dir, log: ClusterLog::new(store) }
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("trust.json")
    }

    fn trust(&self) -> Trust {
        Trust::open(&self.file(), Arc::new(RealFiles), None, true).unwrap()
    }

    fn under(&self, policy: &str) -> Trust {
        let policy = Policy::parse(policy).unwrap();
        Trust::open(&self.file(), Arc::new(RealFiles), Some(policy), false).unwrap()
    }

    /// A later life that sees this store.
    async fn looks(&self, trust: &mut Trust) -> Result<Look, TrustError> {
        let look = trust.look(&self.log).await?;
        if let Look::News(news) = &look {
            trust.adopt((**news).clone());
        }
        Ok(look)
    }

    /// The check that refuses what this store shows.
    async fn refuses(&self, trust: &mut Trust) -> &'static str {
        let before = trust.state().clone();
        let error = self.looks(trust).await.unwrap_err();
        assert_eq!(*trust.state(), before, "a refused look changed what is trusted");
        error.check().unwrap_or_else(|| panic!("{error}"))
    }

    /// Files of evidence.
    fn evidence(&self) -> usize {
        let files = std::fs::read_dir(self.dir.path()).unwrap();
        let named = files.filter(|file| {
            file.as_ref().unwrap().file_name().to_string_lossy().starts_with("fork-evidence-")
        });
        named.count()
    }
}

/// Keeps a cluster log, as honest as its catalogs.
#[derive(Clone)]
struct Keeper {
    seed: u8,
    state: ClusterState,
    edge: Edge,
    open: Vec<Vec<u8>>,
    cosigned: Option<u64>,
}

impl Keeper {
    fn new(seed: u8) -> Keeper {
        let (state, edge) = (ClusterState::default(), Edge::default());
        Keeper { seed, state, edge, open: Vec::new(), cosigned: None }
    }

    fn signer(&self) -> LocalSigner {
        LocalSigner::from_seed(cluster_origin(CLUSTER), &[self.seed; 32])
    }

    fn key(&self) -> VerifyKey {
        VerifyKey { name: cluster_origin(CLUSTER), public_key: self.signer().public_key() }
    }

    fn witness() -> LocalSigner {
        LocalSigner::from_seed("w.example", &[99; 32])
    }

    fn policy(&self, quorum: &str) -> String {
        let public_key = Keeper::witness().public_key();
        let witness = CosignerKey { name: "w.example".into(), public_key }.to_text();
        format!("log {}\nwitness w {witness}\nquorum {quorum}\n", self.key().to_text())
    }

    /// An epoch that says what this catalog does.
    async fn epoch(&mut self, world: &World, catalog: &Catalog) {
        let (mut records, first) = (Vec::new(), self.state.size());
        if first == 0 {
            records.push(ClusterRecord::Genesis {
                cluster: CLUSTER.into(),
                store_id: catalog.store_id,
                key: self.key().to_text(),
                time: Micros(1),
            });
        }
        let mut shards = Vec::new();
        for (shard, rows) in &catalog.shards {
            let CheckpointEntry { size, root, key, .. } = rows.checkpoint.clone().unwrap();
            if !self.state.shards.contains_key(shard) {
                let stream = catalog.stream.clone();
                records.push(ClusterRecord::ShardAdded { shard: *shard, key, stream });
            }
            shards.push(ShardPoint { shard: *shard, size, root });
        }
        let (stream, seq, hash) = (catalog.stream.clone(), catalog.seq, catalog.hash);
        records.push(ClusterRecord::Epoch(Epoch {
            number: self.state.epoch.map_or(1, |(number, _)| number + 1),
            previous: self.state.epoch.map(|(_, leaf)| leaf),
            time: Micros(2),
            shards,
            streams: vec![StreamPoint { stream, seq, hash }],
        }));
        let leaves: Vec<Vec<u8>> = records.iter().map(|r| r.to_leaf().unwrap()).collect();
        leaves.iter().for_each(|leaf| drop(self.state.apply(leaf).unwrap()));
        let note = self.note();
        let (before, keys) = (self.open.clone(), self.key().into());
        let edge = self.edge.clone();
        let addition =
            Addition { first, leaves: &leaves, before: &before, edge, note: &note, keys: &keys };
        self.edge = world.log.publish(addition).await.unwrap();
        for leaf in leaves {
            self.open.push(leaf);
            if self.open.len() as u64 == TILE_WIDTH {
                self.open.clear();
            }
        }
    }

    /// The signed checkpoint of what there is.
    fn note(&self) -> Note {
        let (size, root) = (self.state.size(), self.state.tree.root().unwrap());
        let text = Checkpoint { origin: cluster_origin(CLUSTER), size, root }.to_text();
        let mut note = Note::sign(text, &self.signer()).unwrap();
        if let Some(time) = self.cosigned {
            note.cosign(&Keeper::witness(), time).unwrap();
        }
        note
    }
}

fn checkpoint(shard: u16, seed: u8, size: u64, root: [u8; 32]) -> CheckpointEntry {
    let origin = shard_origin(CLUSTER, shard);
    let signer = LocalSigner::from_seed(&origin, &[seed; 32]);
    let key = VerifyKey { name: origin.clone(), public_key: signer.public_key() };
    let note = Note::sign(Checkpoint { origin, size, root }.to_text(), &signer).unwrap();
    CheckpointEntry { size, root, note: note.to_text(), key: key.to_text() }
}

/// `catalog` after a commit that adds one segment, of `history` and signed by the key `seed`.
fn add(catalog: &Catalog, (shard, rows): (u16, u32), history: u8, seed: u8) -> Catalog {
    let author = LocalSigner::from_seed("ship", &[9; 32]);
    let start = catalog.shards.get(&shard).map_or(0, |rows| rows.size());
    let mut root_after = leaf_hash(&[history]);
    root_after[..8].copy_from_slice(&(start + u64::from(rows)).to_be_bytes());
    let add = Descriptor {
        id: SegmentId { shard, start, rows, hash: [history; 32] },
        bytes: 100,
        object_bytes: 50,
        object_hash: [1; 32],
        range_digest: [2; 32],
        root_after,
        time: (Micros(0), Micros(9)),
        ingested_at: (Micros(0), Micros(9)),
        sealed_at: Micros(10),
        schema_version: 1,
        tenants: None,
    };
    let mut record = CommitRecord {
        store_id: [4; 16],
        cluster: CLUSTER.into(),
        stream: STREAM.into(),
        seq: catalog.seq + 1,
        epoch: catalog.epoch.max(1),
        author: author.public_key(),
        nonce: [5; 16],
        previous: catalog.hash,
        kind: CommitKind::Fence,
        adds: Vec::new(),
        removes: Vec::new(),
        checkpoints: BTreeMap::new(),
        committed_at: Micros(11),
    };
    if catalog.seq == 0 {
        let fenced = catalog.apply(&record, [history; 32]).unwrap();
        return self::add(&fenced, (shard, rows), history, seed);
    }
    let signed = checkpoint(shard, seed, add.end(), root_after);
    (record.kind, record.checkpoints) = (CommitKind::Add, [(shard, signed)].into());
    record.adds = vec![add];
    let hash = leaf_hash(&[history, catalog.seq as u8]);
    catalog.apply(&record, hash).unwrap()
}

fn empty() -> Catalog {
    Catalog::empty([4; 16], STREAM)
}

/// Shard 0 with 10 and 5 rows, shard 1 with 3.
fn two_shards() -> Catalog {
    let catalog = add(&add(&empty(), (0, 10), 1, 7), (1, 3), 1, 7);
    add(&catalog, (0, 5), 1, 7)
}
