//! What a follower knows after a restart: the farthest commit it has seen, and the catalog.
//!
//! ```text
//! position-<stream>.json     (seq, hash) of the last commit applied: the log must still agree
//! position-<stream>.commit   that commit's object, evidence if it ever does not
//! catalog-<stream>.bin       the catalog some commits ago, so that boot needs no snapshot
//! evidence/                  objects that contradict the lineage
//! ```

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use sealcast_common::catalog::{Catalog, SnapshotRoot, decode_leaf, encode_leaves};
use sealcast_common::cbor::{Reader, Writer};
use sealcast_common::checked;
use sealcast_common::durable::Durable;
use sealcast_common::fault::{Corruption, hex, unhex};
use sealcast_common::integrity::file_hash;
use serde::{Deserialize, Serialize};

use crate::admit::keep_evidence;
use crate::error::VaultError;

/// The farthest commit seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) seq: u64,
    pub(crate) hash: [u8; 32],
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PositionFile {
    stream: String,
    seq: u64,
    hash: String,
}

/// The files of one stream.
#[derive(Clone, Debug)]
pub(crate) struct StreamFiles {
    dir: PathBuf,
    stream: String,
    files: Arc<dyn Durable>,
}

impl StreamFiles {
    pub(crate) fn new(dir: PathBuf, stream: &str, files: Arc<dyn Durable>) -> Self {
        StreamFiles { dir, stream: stream.to_owned(), files }
    }

    /// The stream of a file in the vault's folder, if it is a position.
    pub(crate) fn stream_of(file_name: &str) -> Option<&str> {
        file_name.strip_prefix("position-")?.strip_suffix(".json")
    }

    fn path(&self, kind: &str, extension: &str) -> PathBuf {
        self.dir.join(format!("{kind}-{}.{extension}", self.stream))
    }

    /// `None` before the first commit. A damaged file is an error: without it a rollback could not
    /// be told.
    pub(crate) fn load_position(&self) -> Result<Option<Position>, VaultError> {
        let path = self.path("position", "json");
        let read = || {
            let bytes = match std::fs::read(&path) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error),
            };
            let parsed: PositionFile =
                checked::parse("position_file", &bytes).map_err(io::Error::other)?;
            let hash = unhex(&parsed.hash).ok_or_else(|| io::Error::other("no hash in it"))?;
            Ok(Some(Position { seq: parsed.seq, hash }))
        };
        read().map_err(VaultError::folder(&path))
    }

    /// Remembers the catalog's last commit, whose object is `object`.
    pub(crate) fn save_position(&self, catalog: &Catalog, object: &[u8]) -> io::Result<()> {
        let position = PositionFile {
            stream: self.stream.clone(),
            seq: catalog.seq,
            hash: hex(&catalog.hash),
        };
        self.files.replace(&self.path("position", "commit"), object)?;
        self.files.replace(&self.path("position", "json"), &checked::to_text(&position))
    }

    /// The catalog as last saved; damage is a finding, and the store has it all again.
    pub(crate) fn load_catalog(&self) -> Result<Option<Catalog>, Corruption> {
        let path = self.path("catalog", "bin");
        let name = path.display().to_string();
        match std::fs::read(&path) {
            Ok(bytes) => decode(&bytes).map(Some).map_err(|finding| finding.in_object(name)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => {
                let finding = Corruption::new("catalog_cache", None, "a file", error.to_string());
                Err(finding.in_object(name))
            }
        }
    }

    /// Saves the whole catalog: at the end of boot, every so many commits, and when stopping.
    pub(crate) fn save_catalog(&self, catalog: &Catalog) -> io::Result<()> {
        self.files.replace(&self.path("catalog", "bin"), &encode(catalog))
    }

    /// Keeps an object that contradicts the lineage, beside our own last commit.
    pub(crate) fn keep_contradiction(&self, seq: u64, object: Option<&[u8]>) {
        let folder = self.dir.join("evidence");
        if let Err(error) = self.files.create_dir(&folder) {
            tracing::warn!(%error, "evidence not kept");
            return;
        }
        let keep = |whose: &str, bytes: &[u8]| {
            let short = hex(&file_hash(bytes)[..8]);
            let name = format!("{}-{seq:020}-{whose}-{short}.commit", self.stream);
            keep_evidence(&*self.files, &folder.join(name), bytes);
        };
        if let Some(object) = object {
            keep("store", object);
        }
        if let Ok(ours) = std::fs::read(self.path("position", "commit")) {
            keep("ours", &ours);
        }
    }
}

/// CBOR of root and leaves, then BLAKE3 of it. Unsigned: it never leaves the machine.
fn encode(catalog: &Catalog) -> Vec<u8> {
    let leaves = encode_leaves(catalog);
    let root = SnapshotRoot::new(catalog, &leaves);
    let mut out = Writer::new();
    out.array(leaves.len() + 1).bytes(&root.to_payload());
    for (_, leaf) in &leaves {
        out.bytes(leaf);
    }
    let mut bytes = out.finish();
    bytes.extend(file_hash(&bytes));
    bytes
}

fn decode(bytes: &[u8]) -> Result<Catalog, Corruption> {
    let bad = |found: &str| Corruption::new("catalog_cache", None, "a catalog", found);
    let (bytes, digest) = bytes.split_last_chunk::<32>().ok_or_else(|| bad("too few bytes"))?;
    if file_hash(bytes) != *digest {
        return Err(bad("other bytes than were written"));
    }
    let mut reader = Reader::new(bytes, "catalog_cache");
    let leaves = reader.array()?.checked_sub(1).ok_or_else(|| bad("no root"))?;
    let root = SnapshotRoot::from_payload(reader.bytes()?)?;
    if root.leaves.len() != leaves {
        return Err(bad("another number of leaves"));
    }
    let mut descriptors = Vec::new();
    for hash in &root.leaves {
        descriptors.extend(decode_leaf(reader.bytes()?, hash)?);
    }
    reader.end()?;
    root.into_catalog(descriptors)
}
