//! Keeps a cluster log as a shipper would, honest or not.

use sealcast_common::bucket::{Addition, ClusterLog, Store};
use sealcast_common::catalog::Catalog;
use sealcast_common::clock::Micros;
use sealcast_common::cluster::{
    ClusterRecord, ClusterState, Epoch, ShardPoint, StreamPoint, cluster_origin,
};
use sealcast_common::integrity::{
    Checkpoint, CosignerKey, Edge, LocalSigner, Note, Signer as _, VerifyKey,
};

use crate::testkit::CLUSTER;

/// See the module. Logs here have fewer leaves than fill a tile.
#[derive(Clone)]
pub(super) struct Keeper {
    seed: u8,
    state: ClusterState,
    leaves: Vec<Vec<u8>>,
    /// Seconds since 1970 at which the witness cosigns.
    pub(super) cosigned: Option<u64>,
}

impl Keeper {
    pub(super) fn new(seed: u8) -> Keeper {
        Keeper { seed, state: ClusterState::default(), leaves: Vec::new(), cosigned: None }
    }

    fn signer(&self) -> LocalSigner {
        LocalSigner::from_seed(cluster_origin(CLUSTER), &[self.seed; 32])
    }

    fn witness() -> LocalSigner {
        LocalSigner::from_seed("w.example", &[99; 32])
    }

    fn key(&self) -> VerifyKey {
        VerifyKey { name: cluster_origin(CLUSTER), public_key: self.signer().public_key() }
    }

    /// A policy that asks for the witness.
    pub(super) fn policy(&self) -> String {
        let public_key = Keeper::witness().public_key();
        let witness = CosignerKey { name: "w.example".into(), public_key }.to_text();
        format!("log {}\nwitness w {witness}\nquorum w\n", self.key().to_text())
    }

    /// An epoch that says what this catalog does; the whole log is put into `store`.
    pub(super) async fn epoch(&mut self, store: &Store, catalog: &Catalog) {
        let mut records = Vec::new();
        if self.leaves.is_empty() {
            records.push(ClusterRecord::Genesis {
                cluster: CLUSTER.into(),
                store_id: catalog.store_id,
                key: self.key().to_text(),
                time: Micros(1),
            });
        }
        let mut shards = Vec::new();
        for (shard, rows) in &catalog.shards {
            let entry = rows.checkpoint.clone().unwrap();
            if !self.state.shards.contains_key(shard) {
                let (key, stream) = (entry.key, catalog.stream.clone());
                records.push(ClusterRecord::ShardAdded { shard: *shard, key, stream });
            }
            shards.push(ShardPoint { shard: *shard, size: entry.size, root: entry.root });
        }
        let (stream, seq, hash) = (catalog.stream.clone(), catalog.seq, catalog.hash);
        records.push(ClusterRecord::Epoch(Epoch {
            number: self.state.epoch.map_or(1, |(number, _)| number + 1),
            previous: self.state.epoch.map(|(_, leaf)| leaf),
            time: Micros(2),
            shards,
            streams: vec![StreamPoint { stream, seq, hash }],
        }));
        for record in records {
            let leaf = record.to_leaf().unwrap();
            self.state.apply(&leaf).unwrap();
            self.leaves.push(leaf);
        }
        self.publish(store).await;
    }

    /// The whole log, as it is, into this store.
    pub(super) async fn publish(&self, store: &Store) {
        let (note, keys) = (self.note(), self.key().into());
        let addition = Addition {
            first: 0,
            leaves: &self.leaves,
            before: &[],
            edge: Edge::default(),
            note: &note,
            keys: &keys,
        };
        ClusterLog::new(store.clone()).publish(addition).await.unwrap();
    }

    pub(super) fn note(&self) -> Note {
        let (size, root) = (self.state.size(), self.state.tree.root().unwrap());
        let text = Checkpoint { origin: cluster_origin(CLUSTER), size, root }.to_text();
        let mut note = Note::sign(text, &self.signer()).unwrap();
        if let Some(time) = self.cosigned {
            note.cosign(&Keeper::witness(), time).unwrap();
        }
        note
    }
}
