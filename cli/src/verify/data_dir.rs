//! A writer's folder: its identity, every shard of it and no other, and what has been shipped.

use std::path::Path;

use sealcast_common::checked;
use sealcast_common::cluster::{Pending, cluster_origin};
use sealcast_common::fault::Corruption;
use sealcast_common::integrity::{KeyHistory, SignedFile, SignedState};
use sealcast_common::layout::{DATA_FORMAT, DataDir};
use sealcast_common::limits::SEGMENT_BYTES_MAX;
use sealcast_common::segment::SegmentName;
use sealcast_common::wire::{NodeFile, ShippedFile};

use super::files::{Unread, list, read, read_text};
use super::{OnProgress, Report, shard};

/// What a folder says of itself, to be compared with the store.
#[derive(Debug)]
pub(super) struct Folder {
    pub(super) dir: DataDir,
    pub(super) node: NodeFile,
    pub(super) shipped: Option<ShippedFile>,
    pub(super) keeper: Option<Keeper>,
}

/// What the keeper of the cluster log has signed, if this folder's shipper is it.
#[derive(Debug)]
pub(super) struct Keeper {
    pub(super) key: String,
    pub(super) signed: SignedState,
    pub(super) pending: Pending,
}

impl Folder {
    /// The node's shards.
    pub(super) fn shards(&self) -> impl Iterator<Item = u16> + use<> {
        let first = self.node.shard_first;
        (0..self.node.shards).filter_map(move |i| first.checked_add(i))
    }
}

/// Whether `path` looks like a writer's folder, also when its identity has been removed.
pub(super) fn is_one(path: &Path) -> bool {
    let dir = DataDir::new(path);
    dir.node_file().exists() || (dir.sealed_root().is_dir() && path.join("keys").is_dir())
}

pub(super) fn verify(dir: DataDir, progress: OnProgress<'_>) -> (Report, Option<Folder>) {
    let mut report = Report::default();
    // Read before the segments: what it tells of was sealed before it was written.
    let opened = identity(&dir).and_then(|node| {
        let shipped = shipped(&dir, &node)?;
        let keeper = keeper(&dir, &node)?;
        Ok(Folder { dir, node, shipped, keeper })
    });
    let folder = match opened {
        Ok(folder) => folder,
        Err(why) => {
            report.book(Err(why));
            return (report, None);
        }
    };
    report.book(strangers(&folder));
    let total = folder.shards().map(|shard| sealed(&folder.dir, shard).map_or(0, |s| s.len()));
    let total = total.sum::<usize>() as u64;
    for shard in folder.shards() {
        let before = report.segments;
        let checked = shard::verify(&folder.dir, &folder.node.cluster, shard, &|done| {
            progress(before + done, total, "segments");
        });
        report.add(checked);
        report.book(reaches(&folder, shard));
    }
    (report, Some(folder))
}

fn damaged(path: &Path, expected: impl Into<String>, found: impl Into<String>) -> Unread {
    Corruption::new("node_file", None, expected, found).in_object(path.display().to_string()).into()
}

fn identity(dir: &DataDir) -> Result<NodeFile, Unread> {
    let path = dir.node_file();
    if !path.exists() && !holds_segments(dir)? {
        let why = "no node.json and no segment: the writer's first start did not finish";
        return Err(Unread::Cannot(format!("{}: {why}", dir.root().display())));
    }
    let text = read_text(&path, "the writer's identity")?;
    let node: NodeFile = checked::parse("node_file", text.as_bytes())
        .map_err(|found| found.in_object(path.display().to_string()))?;
    if node.format != DATA_FORMAT {
        let why = format!("format {}, expected {DATA_FORMAT}; use another sealcast", node.format);
        return Err(Unread::Cannot(format!("{}: {why}", path.display())));
    }
    if node.shards == 0 || node.shard_first.checked_add(node.shards - 1).is_none() {
        let found = format!("{} from {}", node.shards, node.shard_first);
        return Err(damaged(&path, "at least one shard, numbered up to 65535", found));
    }
    Ok(node)
}

fn holds_segments(dir: &DataDir) -> Result<bool, Unread> {
    for (_, shard) in list(&dir.sealed_root())? {
        if shard.is_dir() && !list(&shard)?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

fn shipped(dir: &DataDir, node: &NodeFile) -> Result<Option<ShippedFile>, Unread> {
    let path = dir.shipped_file();
    if !path.exists() {
        return Ok(None);
    }
    let bad = |found: String| {
        let expected = format!("what is committed of stream {}", node.node);
        Corruption::new("shipped_file", None, expected, found).in_object(path.display().to_string())
    };
    let text = read_text(&path, "what is committed")?;
    let file: ShippedFile = checked::parse("shipped_file", text.as_bytes())
        .map_err(|found| found.in_object(path.display().to_string()))?;
    if file.stream != node.node {
        return Err(bad(format!("stream {}", file.stream)).into());
    }
    Ok(Some(file))
}

/// The keeper's files: each in itself, and what was signed last is what was written down for it.
fn keeper(dir: &DataDir, node: &NodeFile) -> Result<Option<Keeper>, Unread> {
    let path = dir.cluster_public_key_file();
    if !path.exists() {
        return Ok(None);
    }
    let origin = cluster_origin(&node.cluster);
    let key = public_key(&path, &origin, "cluster_key")?.to_text();
    // Before what was signed: it is written down first.
    let at = dir.cluster_pending_file();
    let pending = if at.exists() {
        let bytes = read(&at, SEGMENT_BYTES_MAX, "leaves that were to be signed")?;
        Pending::parse(&bytes).map_err(|found| found.in_object(at.display().to_string()))?
    } else {
        Pending::default()
    };
    let signed = SignedFile::read(&dir.cluster_signed_file(), &origin)?.unwrap_or_default();
    Ok(Some(Keeper { key, signed, pending }))
}

/// A file that holds a log's public keys, with the hand-overs between them, and nothing else.
pub(super) fn public_key(
    path: &Path,
    origin: &str,
    check: &'static str,
) -> Result<KeyHistory, Unread> {
    let expected = format!("the public key of {origin}");
    let text = read_text(path, &expected)?;
    let bad = |found: String| {
        let found = Corruption::new(check, None, expected.as_str(), found);
        found.in_object(path.display().to_string())
    };
    let keys = KeyHistory::parse(&text).map_err(|error| bad(error.to_string()))?;
    if keys.origin() != origin {
        return Err(bad(keys.origin().to_owned()).into());
    }
    if text != format!("{}\n", keys.to_text()) {
        return Err(bad("other bytes around it".into()).into());
    }
    Ok(keys)
}

/// Every shard that has a folder or a key is one of the node's.
fn strangers(folder: &Folder) -> Result<(), Unread> {
    let root = folder.dir.root();
    for place in ["sealed", "wal", "keys"] {
        for (name, _) in list(&root.join(place))? {
            let digits = name.split('.').next().filter(|digits| digits.len() == 4);
            let shard = digits.and_then(|digits| u16::from_str_radix(digits, 16).ok());
            if shard.is_some_and(|shard| !folder.shards().any(|ours| ours == shard)) {
                let node = &folder.node;
                let expected = format!("{} shards from {}", node.shards, node.shard_first);
                let found = format!("{place}/{name}");
                return Err(damaged(&folder.dir.node_file(), expected, found));
            }
        }
    }
    Ok(())
}

/// Names of a shard's sealed files, in order.
pub(super) fn sealed(dir: &DataDir, shard: u16) -> Result<Vec<SegmentName>, Unread> {
    let mut names: Vec<_> = list(&dir.sealed_dir(shard))?
        .iter()
        .filter_map(|(name, _)| SegmentName::parse(name))
        .collect();
    names.sort_unstable();
    Ok(names)
}

/// What is committed is sealed here.
fn reaches(folder: &Folder, shard: u16) -> Result<(), Unread> {
    let committed = folder.shipped.as_ref().and_then(|file| file.vector.get(&shard));
    let end = sealed(&folder.dir, shard)?.last().map_or(0, SegmentName::end);
    match committed {
        Some(committed) if *committed > end => {
            let expected = format!("sealed files up to {committed}, as shipped.json says");
            let found = Corruption::new("sealed_missing", None, expected, format!("up to {end}"));
            Err(found.in_object(folder.dir.sealed_dir(shard).display().to_string()).into())
        }
        _ => Ok(()),
    }
}
