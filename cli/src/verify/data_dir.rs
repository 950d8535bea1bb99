//! A writer's folder: sealed segments chained from leaf 0, their notes, and the tail after them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use arrow_buffer::Buffer;
use sealcast_common::event::{decode_full, encode_leaf};
use sealcast_common::fault::Corruption;
use sealcast_common::integrity::{
    Checkpoint, CompactRange, Note, VerifyKey, leaf_hash, log_id, shard_origin,
};
use sealcast_common::layout::{DataDir, parse_wal_name};
use sealcast_common::segment::{Expectation, SegmentName, verify_segment};
use sealcast_common::wal;
use sealcast_common::wire::NodeFile;

use super::{OnProgress, Report};

pub(super) fn verify(dir: &DataDir, progress: OnProgress<'_>) -> Report {
    let node = std::fs::read(dir.node_file()).map_err(|error| error.to_string());
    let node: NodeFile = match node
        .and_then(|bytes| serde_json::from_slice(&bytes).map_err(|error| error.to_string()))
    {
        Ok(node) => node,
        Err(error) => return Report::cannot(format!("{}: {error}", dir.node_file().display())),
    };
    let mut report = Report::default();
    let shards: Vec<u16> =
        (0..node.shards).filter_map(|i| node.shard_first.checked_add(i)).collect();
    let total = shards.iter().map(|shard| segments(&dir.sealed_dir(*shard)).len() as u64).sum();
    for shard in shards {
        let origin = shard_origin(&node.cluster, shard);
        let mut check = ShardCheck { dir, shard, origin, tree: CompactRange::empty(0) };
        let checked = check.sealed(&mut report, &|done| progress(done, total, "segments"));
        if let Err(found) = checked.and_then(|()| check.tail(&mut report)) {
            report.findings.push(found);
        }
    }
    report
}

/// Sealed files of a folder, in order of their starts.
fn segments(folder: &Path) -> BTreeMap<SegmentName, PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let named = entries
        .filter_map(|entry| Some((SegmentName::parse(entry.file_name().to_str()?)?, entry.path())));
    named.collect()
}

struct ShardCheck<'a> {
    dir: &'a DataDir,
    shard: u16,
    origin: String,
    tree: CompactRange,
}

impl ShardCheck<'_> {
    /// Every sealed file in full, each continuing the one before. A damaged file is reported and
    /// the check goes on behind it with what its successor says about the tree.
    fn sealed(&mut self, report: &mut Report, done: &dyn Fn(u64)) -> Result<(), Corruption> {
        let mut after_damage = false;
        for (name, path) in segments(&self.dir.sealed_dir(self.shard)) {
            let place = path.display().to_string();
            let bytes =
                std::fs::read(&path).map_err(|error| unreadable(&place, "a segment", &error))?;
            let expect = Expectation {
                file_hash: Some(name.hash.to_vec()),
                cluster: self.origin.rsplit_once('/').map(|(cluster, _)| cluster.to_owned()),
                shard: Some(self.shard),
                range: Some((name.start, name.end())),
                frontier: (!after_damage).then(|| self.tree.clone()),
                ..Expectation::default()
            };
            if !after_damage && name.start != self.tree.end() {
                let expected = format!("a segment that starts at {}", self.tree.end());
                let found = Corruption::new("contiguity", None, expected, name.start.to_string());
                report.findings.push(found.in_object(&place));
            }
            report.bytes += bytes.len() as u64;
            match verify_segment(Buffer::from(bytes), &expect) {
                Ok((view, _)) => {
                    let seal = view.seal();
                    let mut tree =
                        CompactRange::from_nodes(0, seal.start, seal.frontier_before.clone())?;
                    let nodes = seal.range_nodes.clone();
                    tree.merge(&CompactRange::from_nodes(seal.start, seal.end, nodes)?)?;
                    self.tree = tree;
                    after_damage = false;
                    report.segments += 1;
                    report.rows += seal.rows();
                    if let Err(found) = self.note(&path.with_file_name(name.note_name())) {
                        report.findings.push(found);
                    }
                }
                Err(found) => {
                    after_damage = true;
                    report.findings.push(found.in_object(&place));
                }
            }
            done(report.segments);
        }
        Ok(())
    }

    /// The note beside a segment: signed by the shard's key over exactly this size and root.
    fn note(&self, path: &Path) -> Result<(), Corruption> {
        let place = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|error| unreadable(&place, "a signed checkpoint", &error))?;
        let key_file = self.dir.public_key_file(self.shard);
        let key = std::fs::read_to_string(&key_file)
            .map_err(|error| unreadable(&key_file.display().to_string(), "a key", &error))?;
        let bad = |found: String| {
            let expected = format!("a checkpoint of {} at {}", self.origin, self.tree.end());
            Corruption::new("checkpoint_note", None, expected, found).in_object(&place)
        };
        let key = VerifyKey::parse(&key).map_err(|error| bad(error.to_string()))?;
        let note = Note::parse(&text).map_err(|error| bad(error.to_string()))?;
        note.verify(&key).map_err(|error| bad(error.to_string()))?;
        let found = Checkpoint::parse(&note.text).map_err(|error| bad(error.to_string()))?;
        let wanted = Checkpoint {
            origin: self.origin.clone(),
            size: self.tree.end(),
            root: self.tree.root()?,
        };
        if found == wanted { Ok(()) } else { Err(bad(format!("{found:?}"))) }
    }

    /// The logs after the last segment: frames, and that their events continue the tree.
    fn tail(&mut self, report: &mut Report) -> Result<(), Corruption> {
        let folder = self.dir.wal_dir(self.shard);
        let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        let logs: BTreeMap<u64, PathBuf> = entries
            .filter_map(|entry| Some((parse_wal_name(entry.file_name().to_str()?)?, entry.path())))
            .collect();
        let log_id = log_id(&self.origin);
        for path in logs.values() {
            let place = path.display().to_string();
            let bytes = std::fs::read(path).map_err(|error| unreadable(&place, "a log", &error))?;
            report.bytes += bytes.len() as u64;
            let scan = wal::scan(&bytes).map_err(|found| found.in_object(&place))?;
            for (offset, batch) in &scan.batches {
                for event in &batch.events {
                    let at = |found: Corruption| {
                        Corruption { offset: Some(*offset), ..found }.in_object(&place)
                    };
                    let (event, position) = decode_full(event, "wal_event").map_err(at)?;
                    if position.seq < self.tree.end() {
                        continue;
                    }
                    if position.seq != self.tree.end() || position.log_id != log_id {
                        let expected = format!("seq {} of {}", self.tree.end(), self.origin);
                        let found = format!("seq {}", position.seq);
                        return Err(at(Corruption::new("contiguity", None, expected, found)));
                    }
                    let leaf = encode_leaf(&event.as_ref(), &position).map_err(|error| {
                        at(Corruption::new("leaves", None, "attributes", error.to_string()))
                    })?;
                    self.tree.append(leaf_hash(&leaf));
                    report.tail_events += 1;
                }
            }
        }
        Ok(())
    }
}

fn unreadable(place: &str, expected: &str, error: &std::io::Error) -> Corruption {
    Corruption::new("readable", None, expected, error.to_string()).in_object(place)
}
