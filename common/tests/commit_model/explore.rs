//! Breadth-first search over all states of one variant, with the shortest trace to a violation.

use std::collections::HashSet;
use std::fmt;

use crate::reader::Reader;
use crate::shipper::Shipper;
use crate::store::{State, Violation};
use crate::variant::Variant;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Actor {
    Shipper(u8),
    Reader,
    Trimmer,
}

/// One request and what came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    actor: Actor,
    what: &'static str,
    seq: u8,
}

impl Step {
    pub(crate) fn new(actor: Actor, what: &'static str, seq: u8) -> Step {
        Step { actor, what, seq }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Safe { states: usize },
    Violated { violation: Violation, trace: Vec<Step> },
}

impl Outcome {
    pub(crate) fn violation(&self) -> Option<(Violation, &[Step])> {
        match self {
            Outcome::Safe { .. } => None,
            Outcome::Violated { violation, trace } => Some((*violation, trace)),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((violation, trace)) = self.violation() else {
            return write!(f, "{self:?}");
        };
        writeln!(f, "violated after {} steps: {violation}", trace.len())?;
        for (index, Step { actor, what, seq }) in trace.iter().enumerate() {
            let number = index + 1;
            match actor {
                Actor::Shipper(id) => writeln!(f, " {number:>2}. shipper {id}: {what}, at {seq}")?,
                Actor::Reader => writeln!(f, " {number:>2}. reader: {what}, at {seq}")?,
                Actor::Trimmer => writeln!(f, " {number:>2}. trimmer: {what}, at {seq}")?,
            }
        }
        Ok(())
    }
}

/// A state that was reached, by which step and from where.
struct Visit {
    state: State,
    from: Option<(usize, Step)>,
}

/// Visits every state in the order of its distance from the start, until one breaks an invariant.
pub(crate) fn explore(variant: &Variant) -> Outcome {
    let mut visits = vec![Visit { state: State::INITIAL, from: None }];
    let mut seen = HashSet::from([State::INITIAL]);
    let mut successors = Vec::new();
    let mut index = 0;
    // The list of visits is the queue as well: what lies behind `index` is still to be expanded.
    while index < visits.len() {
        if let Some(violation) = expand(&visits[index].state, variant, &mut successors) {
            return violated(violation, &visits, index);
        }
        for (step, state) in successors.drain(..) {
            if !seen.insert(state) {
                continue;
            }
            visits.push(Visit { state, from: Some((index, step)) });
            if let Some(violation) = state.violation() {
                return violated(violation, &visits, visits.len() - 1);
            }
        }
        index += 1;
    }
    Outcome::Safe { states: seen.len() }
}

fn expand(
    state: &State,
    variant: &Variant,
    successors: &mut Vec<(Step, State)>,
) -> Option<Violation> {
    for id in [0, 1] {
        Shipper::push_steps(id, state, variant, successors);
    }
    state.push_trimmer(variant, successors);
    if !variant.has_reader {
        return None;
    }
    Reader::push_steps(state, variant, successors)
}

fn violated(violation: Violation, visits: &[Visit], last: usize) -> Outcome {
    let mut trace = Vec::new();
    let mut from = visits[last].from;
    while let Some((index, step)) = from {
        trace.push(step);
        from = visits[index].from;
    }
    trace.reverse();
    Outcome::Violated { violation, trace }
}
