//! Every call numbered and kept, and the plan that decides what becomes of it.

use std::fmt;

use parking_lot::Mutex;

/// Whether a failing call has its effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// The error comes instead of the effect.
    Before,
    /// The effect is there and its answer is lost.
    After,
}

/// Sees a call and may answer what goes wrong with it.
type Plan<C, F> = Box<dyn FnMut(&C) -> Option<F> + Send>;

struct State<C, F> {
    calls: Vec<C>,
    plan: Option<Plan<C, F>>,
    dead: bool,
}

/// The calls of one layer and its plan.
pub(crate) struct Ledger<C, F> {
    state: Mutex<State<C, F>>,
}

/// What becomes of a call.
pub(crate) enum Verdict<F> {
    /// It is done as usual.
    Done,
    /// The process is gone as far as this layer can tell: nothing is done.
    Dead,
    /// The plan has spoken.
    Fault(F),
}

impl<C: Clone, F> Default for Ledger<C, F> {
    fn default() -> Self {
        Ledger { state: Mutex::new(State { calls: Vec::new(), plan: None, dead: false }) }
    }
}

impl<C, F> fmt::Debug for Ledger<C, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ledger({} calls)", self.state.lock().calls.len())
    }
}

impl<C: Clone, F> Ledger<C, F> {
    /// Numbers a call (from 0), keeps it and asks the plan.
    pub(crate) fn enter(&self, call: impl FnOnce(usize) -> C) -> Verdict<F> {
        let mut state = self.state.lock();
        let call = call(state.calls.len());
        state.calls.push(call.clone());
        if state.dead {
            return Verdict::Dead;
        }
        let planned = state.plan.as_mut().and_then(|plan| plan(&call));
        planned.map_or(Verdict::Done, Verdict::Fault)
    }

    pub(crate) fn plan(&self, plan: impl FnMut(&C) -> Option<F> + Send + 'static) {
        self.state.lock().plan = Some(Box::new(plan));
    }

    pub(crate) fn die(&self) {
        self.state.lock().dead = true;
    }

    pub(crate) fn heal(&self) {
        let mut state = self.state.lock();
        (state.plan, state.dead) = (None, false);
    }

    pub(crate) fn calls(&self) -> Vec<C> {
        self.state.lock().calls.clone()
    }

    pub(crate) fn count(&self, of: impl Fn(&C) -> bool) -> usize {
        self.state.lock().calls.iter().filter(|call| of(call)).count()
    }
}
