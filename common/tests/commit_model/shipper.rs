//! A shipper: reads the log, claims the stream with a fence, commits its segments in order.

use crate::explore::{Actor, Step};
use crate::store::{Ack, Kind, Object, Record, SEGMENTS, State};
use crate::variant::{Trim, Variant};

/// How often one shipper may claim the stream: bounds the model.
const CLAIMS_MAX: u8 = 2;

/// Which record a shipper is trying to create.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Aim {
    Claim,
    Commit,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Phase {
    /// Reads forward to the end of the log.
    Scanning,
    /// Sends the create of record `tail + 1`.
    Creating(Aim),
    /// The create was refused or unanswered: reads the record to learn whose it is.
    Resolving(Aim),
    /// The create succeeded: reads the boundary before it believes so.
    CheckingBoundary(Aim),
    /// The create counts; what remains is to say so.
    Created(Aim),
    Done,
    Fenced,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Shipper {
    phase: Phase,
    /// The last record that it knows of.
    tail: u8,
    /// The highest epoch up to there.
    epoch_max: u8,
    /// The epoch that it claimed.
    epoch: u8,
    /// Segments in the log up to there: the next one to commit.
    segments: u8,
    nonce: u8,
    claims: u8,
}

/// One shipper's view while its next steps are collected.
struct Turn<'a> {
    id: u8,
    state: &'a State,
    successors: &'a mut Vec<(Step, State)>,
}

impl Turn<'_> {
    fn push(&mut self, what: &'static str, seq: u8, after: Shipper) {
        self.push_from(what, seq, after, *self.state);
    }

    fn push_from(&mut self, what: &'static str, seq: u8, after: Shipper, mut state: State) {
        state.shippers[usize::from(self.id)] = after;
        self.successors.push((Step::new(Actor::Shipper(self.id), what, seq), state));
    }
}

impl Shipper {
    pub(crate) const INITIAL: Shipper = Shipper {
        phase: Phase::Scanning,
        tail: 0,
        epoch_max: 0,
        epoch: 0,
        segments: 0,
        nonce: 0,
        claims: 0,
    };

    /// Adds every state that one more request of shipper `id` can lead to.
    pub(crate) fn push_steps(
        id: u8,
        state: &State,
        variant: &Variant,
        successors: &mut Vec<(Step, State)>,
    ) {
        let shipper = state.shippers[usize::from(id)];
        let mut turn = Turn { id, state, successors };
        match shipper.phase {
            Phase::Scanning => shipper.scan(variant, &mut turn),
            Phase::Creating(aim) => shipper.create(aim, variant, &mut turn),
            Phase::Resolving(aim) => shipper.resolve(aim, variant, &mut turn),
            Phase::CheckingBoundary(aim) => shipper.check_boundary(aim, &mut turn),
            Phase::Created(Aim::Claim) => {
                let after = shipper.advance_own(shipper.segments);
                turn.push("owns the stream", shipper.tail + 1, after);
            }
            Phase::Created(Aim::Commit) => shipper.acknowledge(&mut turn),
            Phase::Done | Phase::Fenced => {}
        }
    }

    fn in_phase(self, phase: Phase) -> Shipper {
        Shipper { phase, ..self }
    }

    /// Folds a record that was read at `tail + 1`.
    fn fold(self, record: &Record) -> Shipper {
        Shipper {
            tail: self.tail + 1,
            epoch_max: self.epoch_max.max(record.epoch),
            segments: self.segments + record.adds(),
            ..self
        }
    }

    /// Steps over its own record; the next create has a new nonce.
    fn advance_own(self, segments: u8) -> Shipper {
        Shipper {
            phase: if segments < SEGMENTS { Phase::Creating(Aim::Commit) } else { Phase::Done },
            tail: self.tail + 1,
            epoch_max: self.epoch_max.max(self.epoch),
            segments,
            nonce: self.nonce + 1,
            ..self
        }
    }

    fn jump_to_snapshot(self, state: &State) -> Shipper {
        let snapshot = state.store.snapshot();
        Shipper {
            tail: snapshot.seq,
            epoch_max: snapshot.epoch_max,
            segments: snapshot.segments,
            ..self
        }
    }

    fn scan(self, variant: &Variant, turn: &mut Turn<'_>) {
        let (next, boundary) = (self.tail + 1, turn.state.store.boundary);
        match turn.state.store.get(next) {
            Object::Record(record) => turn.push("read the record", next, self.fold(&record)),
            Object::Tombstone => {
                turn.push(
                    "read a tombstone, took the snapshot",
                    boundary,
                    self.jump_to_snapshot(turn.state),
                );
            }
            Object::Absent if variant.trim != Trim::Never && boundary > self.tail => {
                turn.push(
                    "found no record, took the snapshot",
                    boundary,
                    self.jump_to_snapshot(turn.state),
                );
            }
            Object::Absent if self.claims < CLAIMS_MAX => {
                let after = Shipper {
                    phase: Phase::Creating(Aim::Claim),
                    epoch: self.epoch_max + 1,
                    nonce: self.nonce + 1,
                    claims: self.claims + 1,
                    ..self
                };
                turn.push("found no record, claims the stream", next, after);
            }
            Object::Absent => {}
        }
    }

    fn create(self, aim: Aim, variant: &Variant, turn: &mut Turn<'_>) {
        let next = self.tail + 1;
        let record = Record {
            epoch: self.epoch,
            author: turn.id,
            nonce: self.nonce,
            kind: match aim {
                Aim::Claim => Kind::Fence,
                Aim::Commit => Kind::Add { segment: self.segments },
            },
        };
        let unsure = self.in_phase(Phase::Resolving(aim));
        let mut state = *turn.state;
        if !state.store.create(next, record, variant) {
            turn.push("was refused, the record exists", next, unsure);
            return;
        }
        let (created, lost) = match aim {
            Aim::Claim => ("created a fence", "created a fence, answer lost"),
            Aim::Commit => {
                ("created a segment's record", "created a segment's record, answer lost")
            }
        };
        turn.push_from(created, next, self.in_phase(trusted(aim, variant)), state);
        turn.push_from(lost, next, unsure, state);
    }

    fn resolve(self, aim: Aim, variant: &Variant, turn: &mut Turn<'_>) {
        let next = self.tail + 1;
        let record = match turn.state.store.get(next) {
            Object::Record(record) => record,
            Object::Tombstone => {
                return turn.push("read a tombstone, stops", next, self.in_phase(Phase::Fenced));
            }
            Object::Absent if variant.trim != Trim::Never && turn.state.store.boundary >= next => {
                return turn.push(
                    "found its number trimmed, stops",
                    next,
                    self.in_phase(Phase::Fenced),
                );
            }
            Object::Absent => {
                return turn.push(
                    "found no record, tries again",
                    next,
                    self.in_phase(Phase::Creating(aim)),
                );
            }
        };
        let mine = (record.author, record.nonce) == (turn.id, self.nonce);
        if variant.compares_nonce && mine {
            turn.push("found its own record", next, self.in_phase(trusted(aim, variant)));
        } else if record.epoch > self.epoch {
            turn.push("was fenced by a higher epoch", next, self.in_phase(Phase::Fenced));
        } else if aim == Aim::Claim {
            turn.push("lost the claim", next, self.fold(&record).in_phase(Phase::Scanning));
        } else if variant.compares_nonce {
            turn.push("found another's record, stops", next, self.in_phase(Phase::Fenced));
        } else {
            let after = Shipper {
                phase: Phase::Creating(Aim::Commit),
                tail: next,
                epoch_max: self.epoch_max.max(record.epoch),
                nonce: self.nonce + 1,
                ..self
            };
            turn.push("takes the record for a conflict, tries the next number", next, after);
        }
    }

    fn check_boundary(self, aim: Aim, turn: &mut Turn<'_>) {
        let next = self.tail + 1;
        if turn.state.store.boundary >= next {
            turn.push(
                "found the boundary ahead, its record is void",
                next,
                self.in_phase(Phase::Fenced),
            );
        } else {
            turn.push("found the boundary behind", next, self.in_phase(Phase::Created(aim)));
        }
    }

    fn acknowledge(self, turn: &mut Turn<'_>) {
        let ack =
            Ack { seq: self.tail + 1, segment: self.segments, author: turn.id, nonce: self.nonce };
        let mut state = *turn.state;
        let promised = state.acks.iter().flatten().count();
        state.acks[promised] = Some(ack);
        turn.push_from(
            "acknowledged the segment",
            ack.seq,
            self.advance_own(self.segments + 1),
            state,
        );
    }
}

/// Where a shipper goes when it believes that its create took place.
fn trusted(aim: Aim, variant: &Variant) -> Phase {
    if variant.shipper_checks_boundary { Phase::CheckingBoundary(aim) } else { Phase::Created(aim) }
}
