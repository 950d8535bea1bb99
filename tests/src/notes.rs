//! Everything that was ever signed, as far as anybody could see it: one log, one size, one root.

use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;
use sealcast_common::catalog::{CheckpointObject, CommitRecord};
use sealcast_common::fault::hex;
use sealcast_common::integrity::{Checkpoint, Note};
use serde_json::Value;

use crate::files_under;

/// Origin and size → root, and where it was seen first.
#[derive(Debug, Default)]
pub struct Notes {
    roots: BTreeMap<(String, u64), (String, String)>,
}

impl Notes {
    /// Distinct checkpoints.
    pub fn count(&self) -> usize {
        self.roots.len()
    }

    fn keep(&mut self, origin: &str, size: u64, root: String, place: &str) {
        let at = (origin.to_owned(), size);
        let (known, first) = self.roots.entry(at).or_insert((root.clone(), place.to_owned()));
        assert_eq!(*known, root, "{origin} at size {size} was signed twice: {first}, {place}");
    }

    /// A signed note.
    pub fn keep_note(&mut self, text: &str, place: &str) {
        let note = Note::parse(text).unwrap_or_else(|error| panic!("{place}: {error}: {text}"));
        let found = Checkpoint::parse(&note.text).expect("a checkpoint");
        self.keep(&found.origin, found.size, hex(&found.root), place);
    }

    /// The notes of segments, published or not, and the memories of signers under `folder`.
    pub fn keep_folder(&mut self, folder: &Path) {
        for path in files_under(folder, ".note") {
            let text = std::fs::read_to_string(&path).expect("note");
            self.keep_note(&text, &path.display().to_string());
        }
        for path in files_under(folder, ".signed") {
            let text = std::fs::read(&path).expect("memory");
            let memory: Value = serde_json::from_slice(&text).expect("json");
            let (origin, root) = (memory["origin"].as_str(), memory["root"].as_str());
            let (origin, root) = (origin.expect("origin"), root.expect("root").to_owned());
            let size = memory["size"].as_u64().expect("size");
            self.keep(origin, size, root, &path.display().to_string());
        }
    }

    /// Checkpoints of shards and of the cluster log, its head, and what commits name.
    pub fn keep_objects(&mut self, objects: &BTreeMap<String, (Bytes, usize)>) {
        for (key, (bytes, _)) in objects {
            if key.contains("/ckpt/") {
                let object = CheckpointObject::from_object(bytes, None).expect("a checkpoint");
                self.keep_note(&object.entry.note, key);
            } else if key == "cluster/head" {
                self.keep_note(std::str::from_utf8(bytes).expect("text"), key);
            } else if key.starts_with("st/") && key.contains("/log/") {
                let (record, _) = CommitRecord::from_object(bytes).expect("a commit");
                record.checkpoints.values().for_each(|entry| self.keep_note(&entry.note, key));
            }
        }
    }
}
