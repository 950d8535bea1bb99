//! A reader (a replica): applies records in order and may claim that it is fresh.

use crate::explore::{Actor, Step};
use crate::store::{Object, Record, Records, SEQ_MAX, State, Violation};
use crate::variant::{Freshness, Trim, Variant};

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Phase {
    Following,
    /// Holds the record after `seq` and has yet to read the boundary.
    Fetched(Record),
    /// Found no record after `seq`; this had been acknowledged when it looked.
    FoundEnd {
        acked: u8,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Reader {
    phase: Phase,
    /// The last record that was applied.
    pub(crate) seq: u8,
    pub(crate) applied: Records,
}

impl Reader {
    pub(crate) const INITIAL: Reader =
        Reader { phase: Phase::Following, seq: 0, applied: [None; SEQ_MAX] };

    /// Adds every state that the reader's next request can lead to, or says what its claim breaks.
    pub(crate) fn push_steps(
        state: &State,
        variant: &Variant,
        successors: &mut Vec<(Step, State)>,
    ) -> Option<Violation> {
        let reader = state.reader;
        let mut push = |what, seq, after| {
            successors
                .push((Step::new(Actor::Reader, what, seq), State { reader: after, ..*state }));
        };
        let (next, boundary) = (reader.seq + 1, state.store.boundary);
        match reader.phase {
            Phase::Following => match state.store.get(next) {
                Object::Tombstone => push(
                    "read a tombstone, took the snapshot",
                    boundary,
                    Reader::at_snapshot(state),
                ),
                Object::Record(record) if variant.reader_checks_boundary => {
                    push("read the record", next, reader.in_phase(Phase::Fetched(record)));
                }
                Object::Record(record) => push("applied the record", next, reader.applying(record)),
                Object::Absent if variant.freshness != Freshness::NotClaimed => {
                    let acked = state.acked_seq_max();
                    push("found no record", next, reader.in_phase(Phase::FoundEnd { acked }));
                }
                Object::Absent if variant.trim != Trim::Never && boundary > reader.seq => {
                    push(
                        "found no record, took the snapshot",
                        boundary,
                        Reader::at_snapshot(state),
                    );
                }
                Object::Absent => {}
            },
            Phase::Fetched(_) if boundary >= next => {
                push(
                    "found the boundary ahead, took the snapshot",
                    boundary,
                    Reader::at_snapshot(state),
                );
            }
            Phase::Fetched(record) => push("applied the record", next, reader.applying(record)),
            Phase::FoundEnd { .. }
                if variant.freshness == Freshness::AbsenceThenBoundary && boundary > reader.seq =>
            {
                push(
                    "found the boundary ahead, took the snapshot",
                    boundary,
                    Reader::at_snapshot(state),
                );
            }
            Phase::FoundEnd { acked } if acked > reader.seq => {
                return Some(Violation::FreshnessOverstated);
            }
            Phase::FoundEnd { .. } => {
                push("claims to be fresh", reader.seq, reader.in_phase(Phase::Following))
            }
        }
        None
    }

    fn in_phase(self, phase: Phase) -> Reader {
        Reader { phase, ..self }
    }

    fn applying(mut self, record: Record) -> Reader {
        self.applied[usize::from(self.seq)] = Some(record);
        self.seq += 1;
        self.in_phase(Phase::Following)
    }

    fn at_snapshot(state: &State) -> Reader {
        let snapshot = state.store.snapshot();
        Reader { phase: Phase::Following, seq: snapshot.seq, applied: snapshot.records }
    }
}
