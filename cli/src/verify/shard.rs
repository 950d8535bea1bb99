//! One shard of a writer's folder: sealed segments chained from leaf 0, their notes, and the tail.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use arrow_buffer::Buffer;
use sealcast_common::event::{decode_full, encode_leaf};
use sealcast_common::fault::{Corruption, hex};
use sealcast_common::integrity::{
    Checkpoint, CompactRange, Hash, KeyHistory, Note, SignedFile, SignedState, SignerError,
    check_hand_over, leaf_hash, log_id, shard_origin,
};
use sealcast_common::layout::{DataDir, parse_wal_name};
use sealcast_common::limits::SEGMENT_BYTES_MAX;
use sealcast_common::segment::{Expectation, SegmentName, verify_segment};
use sealcast_common::wal;

use super::Report;
use super::data_dir::public_key;
use super::files::{Unread, list, read, read_text};

/// A log may be sealed between being listed and being read; then all of them are listed again.
const LOOKS_MAX: usize = 100;

/// Verifies one shard.
pub(super) fn verify(dir: &DataDir, cluster: &str, shard: u16, done: &dyn Fn(u64)) -> Report {
    signed_tree(dir, cluster, shard, done).0
}

/// The same; with it the tree at the last size that the shard's notes say was signed.
pub(crate) fn signed_tree(
    dir: &DataDir,
    cluster: &str,
    shard: u16,
    done: &dyn Fn(u64),
) -> (Report, CompactRange) {
    let (mut report, tree) = (Report::default(), CompactRange::empty(0));
    let origin = shard_origin(cluster, shard);
    // Before everything else: whatever it tells of was in a log or a segment when it was written.
    let memory = SignedFile::read(&dir.signed_file(shard), &origin);
    let listed = memory.map_err(Unread::from).and_then(|m| Ok((m, Files::list(dir, shard)?)));
    let (memory, files) = match listed {
        Ok(listed) => listed,
        Err(why) => {
            report.book(Err(why));
            return (report, tree);
        }
    };
    let (signed, waiting) = (tree.clone(), BTreeMap::new());
    let files = &files;
    let mut check =
        ShardCheck { dir, shard, cluster, origin, memory, files, tree, signed, waiting };
    let checked = check.run(&mut report, done);
    report.book(checked);
    (report, check.signed)
}

impl From<SignerError> for Unread {
    fn from(error: SignerError) -> Self {
        match error {
            SignerError::Memory(found) => Unread::Tampered(*found),
            other => Unread::Cannot(other.to_string()),
        }
    }
}

/// What the shard's folders hold, so that a writer that seals meanwhile is not taken for a thief.
#[derive(Debug, Default)]
struct Files {
    /// Listed last: whatever left the logs before they were read is among them.
    segments: BTreeMap<SegmentName, PathBuf>,
    /// Notes that stood without their segment before the logs were read: the rows of each are in a
    /// log or a segment.
    notes: Vec<PathBuf>,
    /// Read as a whole.
    logs: BTreeMap<u64, (PathBuf, Vec<u8>)>,
    /// Rows that were sealed before the logs were read: one of them begins here or later.
    sealed: u64,
}

impl Files {
    fn list(dir: &DataDir, shard: u16) -> Result<Self, Unread> {
        let folder = dir.sealed_dir(shard);
        let before = list(&folder)?;
        let mut files = Files { logs: read_logs(&dir.wal_dir(shard))?, ..Files::default() };
        for (name, path) in list(&folder)? {
            files.segments.extend(SegmentName::parse(&name).map(|name| (name, path)));
        }
        for (name, path) in before {
            let of_note = name.strip_suffix(".note").map(|stem| format!("{stem}.seg"));
            if let Some(name) = SegmentName::parse(&name) {
                files.sealed = files.sealed.max(name.end());
            } else if let Some(name) = of_note.and_then(|name| SegmentName::parse(&name))
                && !files.segments.contains_key(&name)
            {
                files.notes.push(path);
            }
        }
        Ok(files)
    }
}

fn read_logs(folder: &Path) -> Result<BTreeMap<u64, (PathBuf, Vec<u8>)>, Unread> {
    let mut look = 1;
    'looks: loop {
        let mut logs = BTreeMap::new();
        for (name, path) in list(folder)? {
            let Some(start) = parse_wal_name(&name) else { continue };
            match read(&path, SEGMENT_BYTES_MAX, "a log") {
                Ok(bytes) => logs.insert(start, (path, bytes)),
                Err(_) if look < LOOKS_MAX && std::fs::symlink_metadata(&path).is_err() => {
                    look += 1;
                    continue 'looks;
                }
                Err(why) => return Err(why),
            };
        }
        return Ok(logs);
    }
}

struct ShardCheck<'a> {
    dir: &'a DataDir,
    shard: u16,
    cluster: &'a str,
    origin: String,
    /// What the signer in the folder remembers; another one keeps that to itself.
    memory: Option<SignedState>,
    files: &'a Files,
    tree: CompactRange,
    /// The tree at the greatest size with a note.
    signed: CompactRange,
    /// Roots that were signed without a segment beside them: a crash may leave such a note, but
    /// then the log still has its rows. By size.
    waiting: BTreeMap<u64, (Hash, PathBuf)>,
}

impl ShardCheck<'_> {
    fn run(&mut self, report: &mut Report, done: &dyn Fn(u64)) -> Result<(), Unread> {
        let key = self.key();
        let key = key.map_err(|why| report.book(Err(why))).ok();
        if !self.sealed(key.as_ref(), report, done)? {
            return Ok(());
        }
        self.signed = self.tree.clone();
        if let Some(key) = &key {
            self.unpublished(key)?;
        }
        self.remembered()?;
        self.tail(report)?;
        if let Some((size, (_, path))) = self.waiting.pop_last() {
            let expected = format!("rows up to {size}, which is signed");
            let found = format!("rows up to {}", self.tree.end());
            let found = Corruption::new("signed_size", None, expected, found);
            return Err(found.in_object(path.display().to_string()).into());
        }
        Ok(())
    }

    fn key(&self) -> Result<KeyHistory, Unread> {
        let path = self.dir.public_key_file(self.shard);
        public_key(&path, &self.origin, "shard_key")
    }

    /// What the hand-overs say of the tree at the end of this segment.
    fn handed_over(&self, keys: &KeyHistory) -> Result<(), Unread> {
        let (size, root) = (self.tree.end(), self.tree.root()?);
        let here = keys.hand_overs().iter().filter(|next| next.at.size == size);
        for next in here {
            let path = self.dir.public_key_file(self.shard);
            check_hand_over("shard_key", next, Some(root))
                .map_err(|found| found.in_object(path.display().to_string()))?;
        }
        Ok(())
    }

    /// Every sealed file in full, each continuing the one before. A damaged file is reported and
    /// the check goes on behind it with what its successor says about the tree. False: the tree
    /// after the last one is not known.
    fn sealed(
        &mut self,
        key: Option<&KeyHistory>,
        report: &mut Report,
        done: &dyn Fn(u64),
    ) -> Result<bool, Unread> {
        let mut after_damage = false;
        for (name, path) in &self.files.segments {
            let place = path.display().to_string();
            let bytes = read(path, SEGMENT_BYTES_MAX, "a segment")?;
            let expect = Expectation {
                file_hash: Some(name.hash.to_vec()),
                cluster: Some(self.cluster.to_owned()),
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
                    let note = path.with_file_name(name.note_name());
                    report.book(key.map_or(Ok(()), |key| self.note(&note, key)));
                    report.book(key.map_or(Ok(()), |key| self.handed_over(key)));
                }
                Err(found) => {
                    after_damage = true;
                    report.findings.push(found.in_object(&place));
                }
            }
            done(report.segments);
        }
        Ok(!after_damage)
    }

    fn signed(&self, path: &Path, keys: &KeyHistory) -> Result<Checkpoint, Unread> {
        let bad = |found: String| {
            let expected = format!("a checkpoint signed by {}", self.origin);
            let found = Corruption::new("checkpoint_note", None, expected, found);
            found.in_object(path.display().to_string())
        };
        let note = Note::parse(&read_text(path, "a signed checkpoint")?);
        let note = note.map_err(|error| bad(error.to_string()))?;
        Ok(keys.verify(&note).map_err(|error| bad(error.to_string()))?)
    }

    /// The note beside a segment: signed by the shard's key over exactly this size and root.
    fn note(&self, path: &Path, key: &KeyHistory) -> Result<(), Unread> {
        let found = self.signed(path, key)?;
        self.same_root(&found.root, found.size, path)
    }

    fn same_root(&self, root: &Hash, size: u64, path: &Path) -> Result<(), Unread> {
        let ours = self.tree.root()?;
        if (size, *root) == (self.tree.end(), ours) {
            return Ok(());
        }
        let expected = format!("a checkpoint of size {} and root {}", self.tree.end(), hex(&ours));
        let found = format!("size {size} and root {}", hex(root));
        let found = Corruption::new("checkpoint_note", None, expected, found);
        Err(found.in_object(path.display().to_string()).into())
    }

    /// Notes without a segment. The tail must bear them out.
    fn unpublished(&mut self, key: &KeyHistory) -> Result<(), Unread> {
        for path in &self.files.notes {
            let found = self.signed(path, key)?;
            self.waiting.insert(found.size, (found.root, path.clone()));
        }
        // An older one would have been found as a gap between segments.
        self.waiting.retain(|size, _| *size > self.tree.end());
        Ok(())
    }

    /// What the signer remembers is what the folder holds, or its tail must bear it out.
    fn remembered(&mut self) -> Result<(), Unread> {
        let Some(state) = &self.memory else { return Ok(()) };
        let (size, root, path) = (state.size(), *state.root(), self.dir.signed_file(self.shard));
        let ours = match size.cmp(&self.tree.end()) {
            // Sealed since it was read.
            Ordering::Less => root,
            Ordering::Equal => self.tree.root()?,
            Ordering::Greater => self.waiting.entry(size).or_insert((root, path.clone())).0,
        };
        if ours == root {
            return Ok(());
        }
        let expected = format!("root {} at size {size}", hex(&ours));
        let found = Corruption::new("signed_state", None, expected, hex(&root));
        Err(found.in_object(path.display().to_string()).into())
    }

    /// The logs after the last segment: one is always there, and its events continue the tree.
    fn tail(&mut self, report: &mut Report) -> Result<(), Unread> {
        let log_id = log_id(&self.origin);
        for (start, (path, bytes)) in &self.files.logs {
            let place = path.display().to_string();
            report.bytes += bytes.len() as u64;
            let scan = wal::scan(bytes).map_err(|found| found.in_object(&place))?;
            let header = &scan.header;
            if (header.shard, header.start, header.log_id) != (self.shard, *start, log_id) {
                let expected = format!("{} from seq {start}", self.origin);
                let found = Corruption::new("wal_header", 0, expected, wal::describe(&scan));
                return Err(found.in_object(&place).into());
            }
            if *start > self.tree.end() {
                let expected = format!("rows from {}", self.tree.end());
                let found = Corruption::new("contiguity", 0, expected, format!("from {start}"));
                return Err(found.in_object(&place).into());
            }
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
                        return Err(at(Corruption::new("contiguity", None, expected, found)).into());
                    }
                    let leaf = encode_leaf(&event.as_ref(), &position).map_err(|error| {
                        at(Corruption::new("leaves", None, "attributes", error.to_string()))
                    })?;
                    self.tree.append(leaf_hash(&leaf));
                    report.tail_events += 1;
                    if let Some((root, path)) = self.waiting.remove(&self.tree.end()) {
                        self.same_root(&root, self.tree.end(), &path)?;
                        self.signed = self.tree.clone();
                    }
                }
            }
        }
        let sealed = self.files.sealed;
        if self.files.logs.last_key_value().is_some_and(|(start, _)| *start >= sealed) {
            return Ok(());
        }
        let expected = format!("a log that begins at seq {sealed} or later");
        let found = Corruption::new("wal_missing", None, expected, "no such file");
        Err(found.in_object(self.dir.wal_dir(self.shard).display().to_string()).into())
    }
}
