//! Where a shard's rows lie, in order, and what of them is signed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sealcast_common::bucket::Store;
use sealcast_common::catalog::{Catalog, CheckpointEntry, Descriptor, ShardCatalog};
use sealcast_common::checked;
use sealcast_common::fault::Corruption;
use sealcast_common::integrity::{Checkpoint, KeyHistory, Note, shard_origin};
use sealcast_common::layout::{DATA_FORMAT, DataDir};
use sealcast_common::segment::SegmentName;
use sealcast_common::wire::NodeFile;

use super::{SourceArgs, cannot, files, store};
use crate::output::{Failure, failed};

/// Notes, keys and small JSON, bytes.
const SMALL_BYTES_MAX: u64 = 64 * 1024;

/// One segment.
#[derive(Clone, Debug)]
pub(super) enum Part {
    /// As committed.
    Object(Arc<Descriptor>),
    /// As sealed.
    File(SegmentName, PathBuf),
}

impl Part {
    /// Rows `[start, end)`.
    pub(super) fn range(&self) -> (u64, u64) {
        match self {
            Part::Object(descriptor) => (descriptor.id.start, descriptor.end()),
            Part::File(name, _) => (name.start, name.end()),
        }
    }
}

/// A shard's log up to its newest signed checkpoint.
#[derive(Clone, Debug)]
pub(crate) struct ShardLog {
    /// `None`: the parts are files.
    pub(crate) store: Option<Store>,
    /// As committed; empty for files.
    pub(crate) catalog: Arc<ShardCatalog>,
    pub(crate) cluster: String,
    pub(crate) shard: u16,
    pub(crate) newest: CheckpointEntry,
    pub(super) signed: Signed,
    pub(super) parts: Vec<Part>,
}

impl ShardLog {
    /// `<cluster>/<shard>`.
    pub(crate) fn origin(&self) -> String {
        shard_origin(&self.cluster, self.shard)
    }

    /// The earlier checkpoint that was asked for, or the last but one if nobody asked.
    pub(super) fn older(&self, wanted: Option<u64>) -> Result<Option<&CheckpointEntry>, Failure> {
        match (wanted, &self.signed.older) {
            (None, older) => Ok(older.as_ref()),
            (Some(size), Some(older)) if older.size == size && size < self.newest.size => {
                Ok(Some(older))
            }
            (Some(size), _) => {
                let sizes = &self.signed.sizes;
                let near = sizes.iter().rev().filter(|signed| **signed < self.newest.size).take(8);
                let near: Vec<String> = near.map(u64::to_string).collect();
                let near = if near.is_empty() { "none".to_owned() } else { near.join(", ") };
                let why = format!("no checkpoint of {} at size {size} was signed", self.origin());
                Err(cannot(why).hint(format!("earlier ones, newest first: {near}")))
            }
        }
    }
}

/// What was signed on the way: sizes, and one checkpoint below the newest.
#[derive(Clone, Debug, Default)]
pub(super) struct Signed {
    wanted: Option<u64>,
    newest: Option<CheckpointEntry>,
    older: Option<CheckpointEntry>,
    sizes: Vec<u64>,
    /// All of them, where they are wanted.
    pub(super) all: Option<BTreeMap<u64, CheckpointEntry>>,
}

impl Signed {
    pub(super) fn keeping_all() -> Self {
        Signed { all: Some(BTreeMap::new()), ..Signed::default() }
    }

    /// In ascending order of sizes.
    fn see(&mut self, entry: &CheckpointEntry) {
        if self.sizes.last() == Some(&entry.size) {
            return;
        }
        self.sizes.push(entry.size);
        if let Some(all) = &mut self.all {
            all.insert(entry.size, entry.clone());
        }
        let before = self.newest.replace(entry.clone());
        match self.wanted {
            Some(wanted) if wanted == entry.size => self.older = Some(entry.clone()),
            Some(_) => {}
            None => self.older = before,
        }
    }
}

/// The logs of one shard, or of all. `old` is the size of an earlier checkpoint that is wanted.
pub(crate) async fn shard_logs(
    source: &SourceArgs,
    shard: Option<u16>,
    old: Option<u64>,
) -> Result<Vec<ShardLog>, Failure> {
    let logs = match (&source.store, &source.dir) {
        (Some(url), _) => {
            let first = Signed { wanted: old, ..Signed::default() };
            committed(&Store::open(url).map_err(cannot)?, shard, first).await?
        }
        (None, Some(dir)) => sealed(dir, shard, old)?,
        (None, None) => return Err(cannot("neither --store nor --dir is given")),
    };
    match (shard, logs.as_slice()) {
        (Some(shard), []) => Err(cannot(format!("shard {shard} has no signed rows there")).hint(
            "shards are decimal here, as in the column _shard; unsealed rows are not signed yet",
        )),
        _ => Ok(logs),
    }
}

/// The logs of a store. `first` is what of each is signed before its first commit.
pub(super) async fn committed(
    bucket: &Store,
    shard: Option<u16>,
    first: Signed,
) -> Result<Vec<ShardLog>, Failure> {
    let mut seen: BTreeMap<u16, Signed> = BTreeMap::new();
    let catalogs = store::catalogs(bucket, |record| {
        let wanted = |found: &u16| shard.is_none_or(|shard| shard == *found);
        for (found, entry) in record.checkpoints.iter().filter(|(found, _)| wanted(found)) {
            seen.entry(*found).or_insert_with(|| first.clone()).see(entry);
        }
    });
    let mut logs: Vec<ShardLog> = Vec::new();
    for catalog in catalogs.await? {
        for (number, rows) in &catalog.shards {
            let Some(signed) = seen.get(number) else { continue };
            if logs.iter().any(|log| log.shard == *number) {
                let found = format!("another, {}", catalog.stream);
                let found = Corruption::new("shard_owner", None, "one stream", found);
                return Err(failed(found.in_object(format!("shard {number:04x}"))));
            }
            logs.extend(of_catalog(bucket, &catalog, *number, rows, signed));
        }
    }
    Ok(logs)
}

fn of_catalog(
    bucket: &Store,
    catalog: &Catalog,
    shard: u16,
    rows: &Arc<ShardCatalog>,
    signed: &Signed,
) -> Option<ShardLog> {
    Some(ShardLog {
        store: Some(bucket.clone()),
        catalog: Arc::clone(rows),
        cluster: catalog.cluster.clone(),
        shard,
        newest: rows.checkpoint.clone()?,
        signed: signed.clone(),
        parts: rows.segments.iter().map(|found| Part::Object(Arc::clone(found))).collect(),
    })
}

/// A writer's folder, or one that holds it as `demo` and `dev` make it.
fn sealed(root: &Path, shard: Option<u16>, old: Option<u64>) -> Result<Vec<ShardLog>, Failure> {
    let mut dir = DataDir::new(root);
    let within = DataDir::new(root.join("writer"));
    if !dir.node_file().exists() && within.node_file().exists() {
        dir = within;
    }
    let path = dir.node_file();
    let text = files::read(&path, SMALL_BYTES_MAX)
        .map_err(|failure| failure.hint("expected a writer's data directory"))?;
    let node: NodeFile = checked::parse("node_file", &text)
        .map_err(|found| failed(found.in_object(path.display().to_string())))?;
    if node.format != DATA_FORMAT {
        let found = format!("{}: format {}", path.display(), node.format);
        return Err(cannot(format!("{found}, expected {DATA_FORMAT}; use another sealcast")));
    }
    let all = (0..node.shards).filter_map(|i| node.shard_first.checked_add(i));
    let mut logs = Vec::new();
    for found in all.filter(|found| shard.is_none_or(|shard| shard == *found)) {
        logs.extend(of_folder(&dir, &node.cluster, found, old)?);
    }
    Ok(logs)
}

fn of_folder(
    dir: &DataDir,
    cluster: &str,
    shard: u16,
    old: Option<u64>,
) -> Result<Option<ShardLog>, Failure> {
    let folder = dir.sealed_dir(shard);
    let entries = std::fs::read_dir(&folder);
    let entries = entries.map_err(|error| cannot(format!("{}: {error}", folder.display())))?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<_> = names.filter_map(|name| SegmentName::parse(&name)).collect();
    names.sort_unstable();
    if names.is_empty() {
        return Ok(None);
    }
    let (key_path, origin) = (dir.public_key_file(shard), shard_origin(cluster, shard));
    let key = String::from_utf8_lossy(&files::read(&key_path, SMALL_BYTES_MAX)?).trim().to_owned();
    let mut signed = Signed { wanted: old, ..Signed::default() };
    let mut parts = Vec::new();
    for name in names {
        let path = folder.join(name.note_name());
        let note = String::from_utf8_lossy(&files::read(&path, SMALL_BYTES_MAX)?).into_owned();
        let entry = entry_of(note, &key, &origin, name.end());
        signed.see(&entry.map_err(|found| failed(found.in_object(path.display().to_string())))?);
        parts.push(Part::File(name.clone(), folder.join(name.file_name())));
    }
    let catalog = Arc::default();
    Ok(signed.newest.clone().map(|newest| ShardLog {
        store: None,
        catalog,
        cluster: cluster.to_owned(),
        shard,
        newest,
        signed,
        parts,
    }))
}

/// A note beside a segment: of this log, by one of its keys, of this size.
fn entry_of(
    note: String,
    key: &str,
    origin: &str,
    size: u64,
) -> Result<CheckpointEntry, Corruption> {
    let bad = |found: String| {
        let expected = format!("a checkpoint of {size} rows signed by {origin}");
        Corruption::new("checkpoint_note", None, expected, found)
    };
    let read = KeyHistory::parse(key).and_then(|keys| {
        let note = Note::parse(&note)?;
        Ok((keys.as_of(&note)?, Checkpoint::parse(&note.text)?))
    });
    let (keys, read) = read.map_err(|error| bad(error.to_string()))?;
    if read.origin != origin || read.size != size {
        return Err(bad(format!("{} rows of {}", read.size, read.origin)));
    }
    Ok(CheckpointEntry { size, root: read.root, note, key: keys.to_text() })
}
