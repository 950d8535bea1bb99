//! The sealed directory as it is now, and what of it is to be shipped: level-triggered.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use sealcast_common::catalog::ShardCatalog;
use sealcast_common::clock::Micros;
use sealcast_common::fault::{Corruption, hex};
use sealcast_common::layout::DataDir;
use sealcast_common::segment::SegmentName;

use crate::fault::{Fault, FaultKind};

/// Tells one state of a file from another, also when a restored copy carries the old times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    inode: u64,
    bytes: u64,
    changed: (i64, i64),
    /// When its bytes were written: the time of sealing.
    pub(crate) written: Micros,
}

impl Stamp {
    /// The stamp of `path`; `None` if it cannot be looked at.
    pub(crate) fn of(path: &Path) -> Option<Stamp> {
        let meta = std::fs::metadata(path).ok()?;
        Some(Stamp {
            inode: meta.ino(),
            bytes: meta.len(),
            changed: (meta.ctime(), meta.ctime_nsec()),
            written: Micros(meta.mtime().saturating_mul(1_000_000) + meta.mtime_nsec() / 1_000),
        })
    }
}

/// The sealed segments of one shard, ascending by start. Unfinished files are not among them.
pub(crate) fn scan_shard(dir: &DataDir, shard: u16) -> io::Result<Vec<SegmentName>> {
    let entries = match std::fs::read_dir(dir.sealed_dir(shard)) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut names = Vec::new();
    for entry in entries {
        let file_name = entry?.file_name();
        names.extend(file_name.to_str().and_then(SegmentName::parse));
    }
    names.sort_unstable();
    Ok(names)
}

/// What one shard has and needs.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// One past the last leaf that is sealed here or committed.
    pub(crate) sealed: u64,
    /// Contiguous with what is committed, in order.
    pub(crate) ready: Vec<SegmentName>,
    /// Why nothing can follow after `ready`.
    pub(crate) fault: Option<Fault>,
}

/// Compares local files with the catalog by range and hash. A committed range whose local file is
/// another is a fork: the shard stops, because one of the two histories is false.
pub(crate) fn reconcile(
    dir: &DataDir,
    shard: u16,
    local: &[SegmentName],
    shipped: &ShardCatalog,
) -> Plan {
    let size = shipped.size();
    let mut plan = Plan { sealed: size, ..Plan::default() };
    let mut next = size;
    for name in local {
        let end = name.start.saturating_add(name.rows.into());
        plan.sealed = plan.sealed.max(end);
        let file = segment_file(dir, shard, name);
        if name.start < size {
            if let Some(finding) = differs(name, shipped) {
                plan.ready.clear();
                plan.fault = Some(Fault::new(FaultKind::Fork, &file, finding));
                return plan;
            }
        } else if name.start < next {
            plan.ready.retain(|ready| ready.end() <= name.start);
            let expected = format!("one sealed file at {}", name.start);
            let finding = Corruption::new("fork", None, expected, "two that overlap");
            plan.fault = Some(Fault::new(FaultKind::Fork, &file, finding));
            return plan;
        } else if name.start > next {
            let expected = format!("a sealed file that begins at {next}");
            let found = format!("none before {}", name.start);
            let finding = Corruption::new("contiguity", None, expected, found);
            plan.fault = Some(Fault::new(FaultKind::Gap, &file, finding));
            plan.sealed = next.max(local.last().map_or(next, SegmentName::end));
            return plan;
        } else {
            plan.ready.push(name.clone());
            next = end;
        }
    }
    plan
}

/// How a local file of a committed range differs from what is committed.
fn differs(name: &SegmentName, shipped: &ShardCatalog) -> Option<Corruption> {
    let found = format!("{:08x} rows {}", name.rows, hex(&name.hash));
    let Some(committed) = shipped.segments.at(name.start) else {
        let expected = format!("no committed segment begins at {}", name.start);
        return Some(Corruption::new("fork", None, expected, found));
    };
    let id = &committed.id;
    let same = id.rows == name.rows && id.hash.starts_with(&name.hash);
    let expected = || format!("{:08x} rows {} as committed", id.rows, hex(&id.hash[..16]));
    (!same).then(|| Corruption::new("fork", None, expected(), found))
}

/// Where a sealed segment lies.
pub(crate) fn segment_file(dir: &DataDir, shard: u16, name: &SegmentName) -> PathBuf {
    dir.sealed_dir(shard).join(name.file_name())
}
