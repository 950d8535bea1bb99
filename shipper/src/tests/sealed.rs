//! A writer's directory without a writer: real sealed files, notes and keys.

use std::path::{Path, PathBuf};

use sealcast_common::checked;
use sealcast_common::clock::Micros;
use sealcast_common::durable::{Durable as _, RealFiles};
use sealcast_common::event::{Event, Position, encode_leaf};
use sealcast_common::integrity::{
    Checkpoint, CompactRange, LocalSigner, Note, Signer as _, VerifyKey, file_hash, leaf_hash,
    log_id, shard_origin,
};
use sealcast_common::layout::{DATA_FORMAT, DataDir};
use sealcast_common::segment::{Row, SealRequest, SegmentName, encode_segment};
use sealcast_common::wire::{NodeFile, ShippedFile};
use tempfile::TempDir;

use super::stores::fast_temp;

pub(super) const CLUSTER: &str = "test";

/// Seals what it is told to.
pub(super) struct SealedDir {
    temp: TempDir,
    pub(super) dir: DataDir,
    trees: Vec<CompactRange>,
    signers: Vec<LocalSigner>,
}

impl SealedDir {
    pub(super) fn new(shards: u16) -> Self {
        let temp = fast_temp();
        let dir = DataDir::new(temp.path());
        let node = NodeFile {
            format: DATA_FORMAT,
            cluster: CLUSTER.into(),
            node: "node-a".into(),
            shard_first: 0,
            shards,
        };
        RealFiles.replace(&dir.node_file(), &serde_json::to_vec(&node).unwrap()).unwrap();
        let signers: Vec<_> = (0..shards)
            .map(|shard| LocalSigner::from_seed(shard_origin(CLUSTER, shard), &[shard as u8; 32]))
            .collect();
        let sealed =
            SealedDir { temp, dir, trees: vec![CompactRange::empty(0); shards.into()], signers };
        for shard in 0..shards {
            RealFiles.create_dir(&sealed.dir.sealed_dir(shard)).unwrap();
            sealed.write_key(shard);
        }
        sealed
    }

    pub(super) fn root(&self) -> &Path {
        self.temp.path()
    }

    pub(super) fn write_key(&self, shard: u16) {
        let signer = &self.signers[usize::from(shard)];
        let key = VerifyKey { name: signer.name().into(), public_key: signer.public_key() };
        let file = self.dir.public_key_file(shard);
        RealFiles.create_dir(file.parent().unwrap()).unwrap();
        RealFiles.replace(&file, key.to_text().as_bytes()).unwrap();
    }

    /// `{shard → size}` of what is sealed.
    pub(super) fn vector(&self) -> Vec<(u16, u64)> {
        let sizes = self.trees.iter().enumerate();
        sizes.filter(|(_, t)| t.end() > 0).map(|(i, tree)| (i as u16, tree.end())).collect()
    }

    /// Seals `rows` more events of a shard; answers the file.
    pub(super) fn seal(&mut self, shard: u16, rows: u64) -> PathBuf {
        self.seal_with(shard, rows, "user.login")
    }

    pub(super) fn seal_with(&mut self, shard: u16, rows: u64, action: &str) -> PathBuf {
        let tree = &mut self.trees[usize::from(shard)];
        let origin = shard_origin(CLUSTER, shard);
        let mut range = CompactRange::empty(tree.end());
        let mut sealed = Vec::new();
        for seq in tree.end()..tree.end() + rows {
            let mut event_id = [shard as u8; 16];
            event_id[8..].copy_from_slice(&seq.to_be_bytes());
            let event = Event {
                event_id,
                tenant: format!("tenant-{}", seq % 3),
                time: Micros(1_700_000_000_000_000 + seq as i64),
                action: action.into(),
                ..Event::default()
            };
            let ingested_at = Micros(1_700_000_001_000_000 + seq as i64);
            let position = Position { log_id: log_id(&origin), seq, ingested_at };
            range.append(leaf_hash(&encode_leaf(&event.as_ref(), &position).unwrap()));
            sealed.push(Row { event, seq, ingested_at });
        }
        let request = SealRequest {
            origin: origin.clone(),
            shard,
            frontier: tree.clone(),
            range: range.clone(),
            routing_version: 1,
            sealed_at: Micros(1_700_000_002_000_000),
            requests: Vec::new(),
        };
        let start = tree.end();
        let bytes = encode_segment(sealed, &request).unwrap();
        tree.merge(&range).unwrap();
        let checkpoint = Checkpoint { origin, size: tree.end(), root: tree.root().unwrap() };
        let note = Note::sign(checkpoint.to_text(), &self.signers[usize::from(shard)]).unwrap();
        let name = SegmentName::new(start, rows as u32, &file_hash(&bytes));
        let folder = self.dir.sealed_dir(shard);
        RealFiles.replace(&folder.join(name.note_name()), note.to_text().as_bytes()).unwrap();
        let file = folder.join(name.file_name());
        RealFiles.replace(&file, &bytes).unwrap();
        file
    }

    /// The same directory on another machine: everything but the shipper's own files.
    pub(super) fn copy(&self) -> SealedDir {
        let temp = fast_temp();
        copy_tree(self.root(), temp.path());
        let names = (0..self.signers.len() as u16).map(|shard| shard_origin(CLUSTER, shard));
        SealedDir {
            dir: DataDir::new(temp.path()),
            temp,
            trees: self.trees.clone(),
            signers: names
                .enumerate()
                .map(|(i, name)| LocalSigner::from_seed(name, &[i as u8; 32]))
                .collect(),
        }
    }

    pub(super) fn shipped(&self) -> ShippedFile {
        let text = std::fs::read(self.dir.shipped_file()).unwrap();
        checked::parse("shipped_file", &text).unwrap()
    }
}

pub(super) fn copy_tree(from: &Path, to: &Path) {
    RealFiles.create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_tree(&entry.path(), &target);
        } else if !entry.file_name().to_str().unwrap().starts_with("ship") {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Flips one bit in the middle of a file, in place.
pub(super) fn flip(file: &Path) {
    let mut bytes = std::fs::read(file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    RealFiles.write_new(file, &bytes).unwrap();
}
