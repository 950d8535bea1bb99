//! The shipper's judgement of one sealed segment: nothing is uploaded that does not pass it.
//!
//! Bytes, blocks, rows, leaves and tree are judged by `common::segment`; here they are tied to the
//! file's name, to what is committed before it, and to the shard's signed checkpoint.

use std::fs::File;
use std::io::{Read as _, Take};
use std::path::{Path, PathBuf};

use arrow_buffer::{Buffer, MutableBuffer};
use bytes::Bytes;
use sealcast_common::catalog::{CheckpointEntry, Descriptor};
use sealcast_common::fault::{Corruption, hex};
use sealcast_common::integrity::{
    Checkpoint, CompactRange, Hash, KeyHistory, Note, file_hash, shard_origin,
};
use sealcast_common::limits::SEGMENT_BYTES_MAX;
use sealcast_common::segment::{Expectation, Seal, SegmentName, compress, verify_segment_leaves};

use crate::fault::{Fault, FaultKind};
use crate::scan::Stamp;

/// A checkpoint with a few signatures is far smaller.
const NOTE_BYTES_MAX: u64 = 64 * 1024;

/// A sealed file, and what it must agree with.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) shard: u16,
    pub(crate) name: SegmentName,
    pub(crate) file: PathBuf,
    pub(crate) cluster: String,
    /// Root of the shard's tree up to `name.start`, as committed.
    pub(crate) root_before: Hash,
    /// The shard's keys.
    pub(crate) keys: KeyHistory,
}

/// A verdict holds as long as this stays the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grounds {
    files: [Option<Stamp>; 2],
    root_before: Hash,
    key: String,
}

/// A segment that passed, in the store's form.
#[derive(Debug)]
pub(crate) struct Judged {
    pub(crate) descriptor: Descriptor,
    pub(crate) object: Bytes,
    /// Hashes of its leaves, in the order of their seqs.
    pub(crate) leaves: Vec<Hash>,
    pub(crate) checkpoint: CheckpointEntry,
}

impl Candidate {
    fn note_file(&self) -> PathBuf {
        self.file.with_file_name(self.name.note_name())
    }

    /// The state of both files, and what they must agree with.
    pub(crate) fn grounds(&self) -> Grounds {
        let files = [Stamp::of(&self.file), Stamp::of(&self.note_file())];
        Grounds { files, root_before: self.root_before, key: self.keys.to_text() }
    }

    /// Judges file and note, and compresses. Blocking: seconds for a large segment.
    pub(crate) fn judge(&self) -> Result<Judged, Fault> {
        let grounds = self.grounds();
        let faulty = |fault: Fault| Fault { grounds: Some(Box::new(grounds.clone())), ..fault };
        let corrupt = |file: &Path, finding| faulty(Fault::new(FaultKind::Corrupt, file, finding));
        let buffer =
            read_aligned(&self.file).map_err(|error| self.unreadable(&self.file, &error))?;
        let (seal, leaves) =
            self.judge_bytes(buffer.clone()).map_err(|found| corrupt(&self.file, found))?;
        let note_file = self.note_file();
        let note = open_regular(&note_file, NOTE_BYTES_MAX)
            .and_then(std::io::read_to_string)
            .map_err(|error| self.unreadable(&note_file, &error))?;
        let keys = self.judge_note(&note, &seal).map_err(|found| corrupt(&note_file, found))?;
        let cuts = seal.blocks.iter().map(|block| block.offset);
        let object = compress(buffer.as_slice(), cuts)
            .map_err(|error| self.unreadable(&self.file, &error))?;
        let file = (&file_hash(buffer.as_slice()), buffer.len() as u64);
        let descriptor = Descriptor::new(&seal, file, (&file_hash(&object), object.len() as u64));
        let checkpoint =
            CheckpointEntry { size: seal.end, root: seal.root_after, note, key: keys.to_text() };
        Ok(Judged { descriptor, object: object.into(), leaves, checkpoint })
    }

    fn judge_bytes(&self, buffer: Buffer) -> Result<(Seal, Vec<Hash>), Corruption> {
        let expect = Expectation {
            file_hash: Some(self.name.hash.to_vec()),
            cluster: Some(self.cluster.clone()),
            shard: Some(self.shard),
            range: Some((self.name.start, self.name.end())),
            ..Expectation::default()
        };
        let (view, leaves) = verify_segment_leaves(buffer, &expect)?;
        let seal = view.seal();
        // A root of a given size stands for exactly one frontier: comparing roots is enough.
        let before =
            CompactRange::from_nodes(0, seal.start, seal.frontier_before.clone())?.root()?;
        if before != self.root_before {
            let (expected, found) = (hex(&self.root_before), hex(&before));
            return Err(Corruption::new("frontier", None, expected, found));
        }
        Ok((Seal::clone(seal), leaves))
    }

    /// Answers what was known of the shard's keys when the note was signed: a hand-over travels
    /// with the first checkpoint that needs it.
    fn judge_note(&self, text: &str, seal: &Seal) -> Result<KeyHistory, Corruption> {
        let bad = |error: &dyn ToString| {
            let expected = format!("a checkpoint signed by {}", self.keys.newest().to_text());
            Corruption::new("checkpoint_note", None, expected, error.to_string())
        };
        let note = Note::parse(text).map_err(|error| bad(&error))?;
        let found = self.keys.verify(&note).map_err(|error| bad(&error))?;
        let origin = shard_origin(&self.cluster, self.shard);
        let wanted = Checkpoint { origin, size: seal.end, root: seal.root_after };
        if found == wanted {
            return self.keys.as_of(&note).map_err(|error| bad(&error));
        }
        let show = |c: &Checkpoint| format!("{} size {} root {}", c.origin, c.size, hex(&c.root));
        Err(Corruption::new("checkpoint_note", None, show(&wanted), show(&found)))
    }

    /// Not stamped: the next scan tries again.
    fn unreadable(&self, file: &Path, error: &std::io::Error) -> Fault {
        let finding = Corruption::new("read", None, "a readable file", error.to_string());
        Fault::new(FaultKind::Unreadable, file, finding)
    }
}

/// The whole file in memory that Arrow can borrow from.
fn read_aligned(path: &Path) -> std::io::Result<Buffer> {
    let mut file = open_regular(path, SEGMENT_BYTES_MAX)?;
    let len = usize::try_from(file.limit()).unwrap_or(0);
    let mut bytes = MutableBuffer::from_len_zeroed(len);
    file.read_exact(bytes.as_slice_mut())?;
    Ok(bytes.into())
}

/// Opens a regular file up to its present end. A link, a pipe or a device in its place could name
/// anything, block for ever or never end.
fn open_regular(path: &Path, max: u64) -> std::io::Result<Take<File>> {
    let meta = std::fs::symlink_metadata(path)?;
    if !meta.is_file() || meta.len() > max {
        let found = format!("no regular file of at most {max} bytes");
        return Err(std::io::Error::other(found));
    }
    Ok(File::open(path)?.take(meta.len()))
}
