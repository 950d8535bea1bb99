//! A segment's rows as leaves, in the order of the log: from bytes that were judged in full.

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use sealcast_common::event::{Position, encode_leaf};
use sealcast_common::fault::{Corruption, hex};
use sealcast_common::integrity::{CompactRange, file_hash, log_id};
use sealcast_common::limits::SEGMENT_BYTES_MAX;
use sealcast_common::segment::columns::EventColumns;
use sealcast_common::segment::{
    BlockKind, Expectation, SegmentView, decompress, event_hash, verify_segment_at_once,
};

use super::log::{Part, ShardLog};
use super::{cannot, files};
use crate::output::{Failure, failed};

/// The rows of one segment.
pub(super) struct Rows {
    start: u64,
    log_id: [u8; 16],
    batches: Vec<RecordBatch>,
    /// (batch, row) by seq.
    order: Vec<(u32, u32)>,
}

impl ShardLog {
    /// A segment in full, continuing `frontier` if that is known.
    pub(super) async fn rows(
        &self,
        part: &Part,
        frontier: Option<CompactRange>,
    ) -> Result<Rows, Failure> {
        let (place, raw) = self.raw(part).await?;
        let mut expect = Expectation {
            cluster: Some(self.cluster.clone()),
            shard: Some(self.shard),
            range: Some(part.range()),
            frontier,
            ..Expectation::default()
        };
        match part {
            Part::Object(descriptor) => {
                expect.file_hash = Some(descriptor.id.hash.to_vec());
                expect.bytes = Some(descriptor.bytes);
                expect.root_after = Some(descriptor.root_after);
            }
            Part::File(name, _) => expect.file_hash = Some(name.hash.to_vec()),
        }
        let judged = verify_segment_at_once(Buffer::from(raw), &expect);
        let rows = judged.and_then(|(view, batches)| Rows::new(&view, batches));
        rows.map_err(|found| failed(found.in_object(place)))
    }

    /// Seqs of the rows with this event id, as the segment's index says; nothing else is judged.
    pub(super) async fn seqs_of(
        &self,
        part: &Part,
        event_id: &[u8; 16],
    ) -> Result<Vec<u64>, Failure> {
        let (place, raw) = self.raw(part).await?;
        let found = SegmentView::parse(Buffer::from(raw)).and_then(|view| {
            let candidates = view.index(BlockKind::EventIndex)?.candidates(event_hash(event_id));
            let per_batch = view.seal().batch_rows.max(1);
            let batches = if candidates.is_empty() { Vec::new() } else { view.decode()? };
            let mut seqs = Vec::new();
            for row in candidates {
                let Some(batch) = batches.get((row / per_batch) as usize) else { continue };
                let (columns, row) = (EventColumns::new(batch)?, (row % per_batch) as usize);
                if row < columns.rows() && columns.event_id(row) == *event_id {
                    seqs.push(columns.seq(row));
                }
            }
            Ok(seqs)
        });
        found.map_err(|found| failed(found.in_object(place)))
    }

    /// The name and the uncompressed bytes of a segment.
    async fn raw(&self, part: &Part) -> Result<(String, Vec<u8>), Failure> {
        match (part, &self.store) {
            (Part::Object(descriptor), Some(store)) => {
                let key = descriptor.key();
                let object = store.get(&key).await.map_err(cannot)?;
                let gone = || Corruption::new("object", None, "the object", "no such object");
                let object = object.ok_or_else(|| failed(gone().in_object(&key)))?;
                let found = file_hash(&object);
                let raw = if found == descriptor.object_hash {
                    decompress(&object, descriptor.bytes)
                } else {
                    let expected = hex(&descriptor.object_hash);
                    Err(Corruption::new("object_blake3", None, expected, hex(&found)))
                };
                Ok((key.clone(), raw.map_err(|found| failed(found.in_object(key)))?))
            }
            (Part::File(_, path), _) => {
                Ok((path.display().to_string(), files::read(path, SEGMENT_BYTES_MAX)?))
            }
            (Part::Object(descriptor), None) => {
                Err(cannot(format!("no store for {}", descriptor.key())))
            }
        }
    }
}

impl Rows {
    fn new(view: &SegmentView, batches: Vec<RecordBatch>) -> Result<Self, Corruption> {
        let seal = view.seal();
        let mut order = vec![(u32::MAX, 0); usize::try_from(seal.rows()).unwrap_or(0)];
        for (number, batch) in batches.iter().enumerate() {
            let columns = EventColumns::new(batch)?;
            for row in 0..columns.rows() {
                // Judged before: each seq of the range stands once.
                let place = columns.seq(row).checked_sub(seal.start);
                let place = place.and_then(|at| order.get_mut(usize::try_from(at).ok()?));
                if let Some(place) = place {
                    *place = (number as u32, row as u32);
                }
            }
        }
        Ok(Rows { start: seal.start, log_id: log_id(&seal.origin), batches, order })
    }

    /// The leaves by seq. Stops at the first error.
    pub(super) fn each(
        &self,
        mut each: impl FnMut(u64, &[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let columns = self.batches.iter().map(EventColumns::new).collect::<Result<Vec<_>, _>>();
        let columns = columns.map_err(failed)?;
        for (seq, (batch, row)) in (self.start..).zip(&self.order) {
            let missing =
                || failed(Corruption::new("contiguity", None, format!("seq {seq}"), "no such row"));
            let columns = columns.get(*batch as usize).ok_or_else(missing)?;
            each(seq, &self.leaf_at(seq, columns, *row as usize).map_err(failed)?)?;
        }
        Ok(())
    }

    /// One of them.
    pub(super) fn leaf(&self, seq: u64) -> Result<Vec<u8>, Failure> {
        let missing = || cannot(format!("the segment from {} has no seq {seq}", self.start));
        let place = seq.checked_sub(self.start).and_then(|at| usize::try_from(at).ok());
        let (batch, row) = place.and_then(|at| self.order.get(at)).ok_or_else(missing)?;
        let batch = self.batches.get(*batch as usize).ok_or_else(missing)?;
        let columns = EventColumns::new(batch).map_err(failed)?;
        self.leaf_at(seq, &columns, *row as usize).map_err(failed)
    }

    fn leaf_at(
        &self,
        seq: u64,
        columns: &EventColumns<'_>,
        row: usize,
    ) -> Result<Vec<u8>, Corruption> {
        let position = Position { log_id: self.log_id, seq, ingested_at: columns.ingested_at(row) };
        encode_leaf(&columns.event(row), &position).map_err(|error| {
            let expected = format!("canonical attributes in row with seq {seq}");
            Corruption::new("leaves", None, expected, error.to_string())
        })
    }
}
