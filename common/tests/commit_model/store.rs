//! The object store, the state of the whole model, and the invariants that every state must keep.

use std::fmt;

use crate::explore::{Actor, Step};
use crate::reader::Reader;
use crate::shipper::Shipper;
use crate::variant::{Trim, Variant};

/// Sealed segments that both shippers have on disk.
pub(crate) const SEGMENTS: u8 = 2;
/// No variant writes beyond this number: four fences and two segments, and one record that violates.
pub(crate) const SEQ_MAX: usize = 8;
/// Steps of the trimmer: twice a boundary and a trim.
const TRIM_STEPS: u8 = 4;

/// What a commit record is for.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Fence,
    Add { segment: u8 },
}

/// One commit record.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Record {
    pub(crate) epoch: u8,
    pub(crate) author: u8,
    pub(crate) nonce: u8,
    pub(crate) kind: Kind,
}

impl Record {
    pub(crate) fn adds(&self) -> u8 {
        u8::from(self.kind != Kind::Fence)
    }
}

/// What the store holds under one number of the log.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Object {
    Absent,
    Record(Record),
    Tombstone,
}

/// Records by number; numbers start at 1.
pub(crate) type Records = [Option<Record>; SEQ_MAX];

/// The store and, beside it, what no process can see: the lineage, the first record ever made per number.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Store {
    log: [Object; SEQ_MAX],
    pub(crate) lineage: Records,
    /// Records up to here are in a snapshot and may be trimmed; 0 before the first.
    pub(crate) boundary: u8,
    trim_steps: u8,
}

/// What a reader or shipper learns from a snapshot instead of the records in front of it.
pub(crate) struct Snapshot {
    pub(crate) seq: u8,
    pub(crate) records: Records,
    pub(crate) epoch_max: u8,
    pub(crate) segments: u8,
}

impl Store {
    const EMPTY: Store = Store {
        log: [Object::Absent; SEQ_MAX],
        lineage: [None; SEQ_MAX],
        boundary: 0,
        trim_steps: 0,
    };

    pub(crate) fn get(&self, seq: u8) -> Object {
        self.log[usize::from(seq) - 1]
    }

    /// Puts a record; false if the store refused because the number is taken.
    pub(crate) fn create(&mut self, seq: u8, record: Record, variant: &Variant) -> bool {
        let index = usize::from(seq) - 1;
        if variant.create_only && self.log[index] != Object::Absent {
            return false;
        }
        self.log[index] = Object::Record(record);
        self.lineage[index].get_or_insert(record);
        true
    }

    /// The snapshot at the boundary: always of the lineage, since it was made before anything was trimmed.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let mut snapshot =
            Snapshot { seq: self.boundary, records: [None; SEQ_MAX], epoch_max: 0, segments: 0 };
        for index in 0..usize::from(self.boundary) {
            snapshot.records[index] = self.lineage[index];
            if let Some(record) = self.lineage[index] {
                snapshot.epoch_max = snapshot.epoch_max.max(record.epoch);
                snapshot.segments += record.adds();
            }
        }
        snapshot
    }

    /// The last number but one that is untrimmed and untouched by any zombie.
    fn next_boundary(&self) -> Option<u8> {
        let genuine = (1..=SEQ_MAX as u8).filter(|&seq| match self.get(seq) {
            Object::Record(record) => self.lineage[usize::from(seq) - 1] == Some(record),
            Object::Absent | Object::Tombstone => false,
        });
        genuine.rev().nth(1)
    }

    /// What the trimmer may do next: publish a boundary, then trim up to it, by turns.
    fn trimmed(&self, trim: Trim) -> Option<(Step, Store)> {
        if trim == Trim::Never || self.trim_steps >= TRIM_STEPS {
            return None;
        }
        let mut store = *self;
        store.trim_steps += 1;
        if self.trim_steps.is_multiple_of(2) {
            store.boundary = self.next_boundary().filter(|&seq| seq > self.boundary)?;
            let step =
                Step::new(Actor::Trimmer, "published a snapshot and boundary", store.boundary);
            return Some((step, store));
        }
        for object in &mut store.log[..usize::from(self.boundary)] {
            *object = if trim == Trim::Tombstone { Object::Tombstone } else { Object::Absent };
        }
        Some((Step::new(Actor::Trimmer, "trimmed the records up to", self.boundary), store))
    }
}

/// A segment that a shipper has reported as shipped.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Ack {
    pub(crate) seq: u8,
    pub(crate) segment: u8,
    pub(crate) author: u8,
    pub(crate) nonce: u8,
}

/// Everything: the store, the processes, and what was promised.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) store: Store,
    pub(crate) shippers: [Shipper; 2],
    pub(crate) reader: Reader,
    /// In the order of the promises.
    pub(crate) acks: [Option<Ack>; 4],
}

/// The promise that a state breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Violation {
    AckedSegmentNotInLineage,
    AckedRecordOverwritten,
    SegmentsNotInOrder,
    EpochWentBack,
    ReaderDiverged,
    FreshnessOverstated,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Violation::AckedSegmentNotInLineage => "an acknowledged segment is not in the lineage",
            Violation::AckedRecordOverwritten => {
                "the record of an acknowledged segment was overwritten or lost"
            }
            Violation::SegmentsNotInOrder => "segments of the lineage are not 0, 1, … once each",
            Violation::EpochWentBack => "epochs of the lineage went back",
            Violation::ReaderDiverged => "the reader has applied something else than the lineage",
            Violation::FreshnessOverstated => {
                "the reader claims to be fresh without an acknowledged record"
            }
        })
    }
}

impl State {
    pub(crate) const INITIAL: State = State {
        store: Store::EMPTY,
        shippers: [Shipper::INITIAL; 2],
        reader: Reader::INITIAL,
        acks: [None; 4],
    };

    pub(crate) fn acked_seq_max(&self) -> u8 {
        self.acks.iter().flatten().map(|ack| ack.seq).max().unwrap_or(0)
    }

    pub(crate) fn push_trimmer(&self, variant: &Variant, successors: &mut Vec<(Step, State)>) {
        if let Some((step, store)) = self.store.trimmed(variant.trim) {
            successors.push((step, State { store, ..*self }));
        }
    }

    /// The first invariant that this state breaks.
    pub(crate) fn violation(&self) -> Option<Violation> {
        self.broken_ack().or_else(|| self.broken_lineage()).or_else(|| self.diverged_reader())
    }

    fn broken_ack(&self) -> Option<Violation> {
        self.acks.iter().flatten().find_map(|ack| {
            let promised = |record: &Record| {
                record.kind == (Kind::Add { segment: ack.segment })
                    && (record.author, record.nonce) == (ack.author, ack.nonce)
            };
            let Some(record) = self.store.lineage[usize::from(ack.seq) - 1].filter(promised) else {
                return Some(Violation::AckedSegmentNotInLineage);
            };
            let lost =
                ack.seq > self.store.boundary && self.store.get(ack.seq) != Object::Record(record);
            lost.then_some(Violation::AckedRecordOverwritten)
        })
    }

    fn broken_lineage(&self) -> Option<Violation> {
        let (mut segments, mut epoch) = (0, 0);
        let mut epoch_went_back = false;
        for record in self.store.lineage.iter().flatten() {
            if let Kind::Add { segment } = record.kind {
                if segment != segments {
                    return Some(Violation::SegmentsNotInOrder);
                }
                segments += 1;
            }
            epoch_went_back |= record.epoch < epoch;
            epoch = record.epoch;
        }
        epoch_went_back.then_some(Violation::EpochWentBack)
    }

    fn diverged_reader(&self) -> Option<Violation> {
        let read = usize::from(self.reader.seq);
        let same = self.reader.applied[..read] == self.store.lineage[..read];
        (!same).then_some(Violation::ReaderDiverged)
    }
}
