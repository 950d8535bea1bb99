//! Generated rows as sealed segments, by the writer's own encoder, judge and signature.

use std::ops::Range;
use std::path::Path;

use arrow_buffer::Buffer;
use sealcast_common::clock::{Clock as _, WallClock};
use sealcast_common::durable::{Durable as _, RealFiles};
use sealcast_common::event::{Position, encode_leaf};
use sealcast_common::fault::unhex;
use sealcast_common::integrity::{
    Checkpoint, CompactRange, LocalSigner, Note, file_hash, leaf_hash, log_id, shard_origin,
};
use sealcast_common::layout::DataDir;
use sealcast_common::segment::{
    Expectation, Row, SealRequest, SegmentName, SegmentView, encode_segment, verify_segment,
};

use super::events::Generator;
use crate::output::{Failure, failed};

/// The cluster of everything that benchmarks make; its only shard is 0.
pub(super) const CLUSTER: &str = "bench";

/// Rows with the hashes of their leaves.
pub(super) struct Rows {
    pub(super) rows: Vec<Row>,
    pub(super) range: CompactRange,
}

/// Generates `range` on two threads.
pub(super) fn generate(events: &Generator, range: Range<u64>) -> Result<Rows, Failure> {
    let middle = range.start + (range.end - range.start) / 2;
    let (first, second) = std::thread::scope(|scope| {
        let first = scope.spawn(|| generate_part(events, range.start..middle));
        let second = generate_part(events, middle..range.end);
        (first.join(), second)
    });
    let mut all = first.map_err(|_| Failure::new("the generator broke"))??;
    let second = second?;
    all.rows.extend(second.rows);
    all.range.merge(&second.range).map_err(failed)?;
    Ok(all)
}

fn generate_part(events: &Generator, range: Range<u64>) -> Result<Rows, Failure> {
    let log_id = log_id(&shard_origin(CLUSTER, 0));
    let mut tree = CompactRange::empty(range.start);
    let mut rows = Vec::with_capacity((range.end - range.start) as usize);
    for seq in range {
        let (event, ingested_at) = (events.event(seq), Generator::arrival(seq));
        let leaf = encode_leaf(&event.as_ref(), &Position { log_id, seq, ingested_at });
        tree.append(leaf_hash(&leaf.map_err(failed)?));
        rows.push(Row { event, seq, ingested_at });
    }
    Ok(Rows { rows, range: tree })
}

/// Encodes `rows` as the segment that follows `frontier`.
pub(super) fn encode(rows: Rows, frontier: &CompactRange) -> Result<Vec<u8>, Failure> {
    let request = SealRequest {
        origin: shard_origin(CLUSTER, 0),
        shard: 0,
        frontier: frontier.clone(),
        range: rows.range,
        routing_version: 1,
        sealed_at: WallClock::default().now(),
        requests: Vec::new(),
    };
    encode_segment(rows.rows, &request).map_err(failed)
}

/// A signer and the tree that it has signed so far.
pub(super) struct Sealer {
    dir: DataDir,
    signer: LocalSigner,
    frontier: CompactRange,
}

impl Sealer {
    /// Goes on in a writer's new folder, with the key that the writer has made.
    pub(super) fn new(dir: &Path) -> Result<Self, Failure> {
        let dir = DataDir::new(dir);
        let text = std::fs::read_to_string(dir.key_file(0)).map_err(failed)?;
        let seed = unhex::<32>(text.trim()).ok_or(Failure::new("the writer's key is no key"))?;
        let signer = LocalSigner::from_seed(shard_origin(CLUSTER, 0), &seed);
        Ok(Sealer { dir, signer, frontier: CompactRange::empty(0) })
    }

    /// Seals `rows` as a writer does: encode, judge, sign, publish. Gives the judged segment back.
    pub(super) fn seal(&mut self, rows: Rows) -> Result<SegmentView, Failure> {
        let range = rows.range.clone();
        let bytes = encode(rows, &self.frontier)?;
        let hash = file_hash(&bytes);
        let (view, _batches) =
            verify_segment(Buffer::from_vec(bytes), &Expectation::default()).map_err(failed)?;
        self.frontier.merge(&range).map_err(failed)?;
        let root = self.frontier.root().map_err(failed)?;
        let size = self.frontier.end();
        let checkpoint = Checkpoint { origin: shard_origin(CLUSTER, 0), size, root };
        let note = Note::sign(checkpoint.to_text(), &self.signer).map_err(failed)?;
        let count = u32::try_from(range.end() - range.begin()).map_err(failed)?;
        let name = SegmentName::new(range.begin(), count, &hash);
        let sealed = self.dir.sealed_dir(0);
        RealFiles.create_dir(&sealed).map_err(failed)?;
        let note_file = sealed.join(name.note_name());
        RealFiles.replace(&note_file, note.to_text().as_bytes()).map_err(failed)?;
        RealFiles.replace(&sealed.join(name.file_name()), view.bytes()).map_err(failed)?;
        Ok(view)
    }
}
