//! How the rest of the writer talks to a shard's actor: a bounded queue in, a published view out.

use std::sync::{Arc, RwLock};

use sealcast_common::integrity::Hash;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};

use crate::fault::Fault;
use crate::stage::{Append, Appended, Refused};
use crate::window::Window;

/// What a shard's queue holds.
#[derive(Debug)]
pub(crate) enum Command {
    /// Store events.
    Append(Pending),
    /// Seal what there is; answers once it is sealed.
    Flush(oneshot::Sender<FlushAnswer>),
}

/// (segments sealed meanwhile, sealed leaves).
pub(crate) type FlushAnswer = Result<(usize, u64), Fault>;

/// A queued request with its share of the queue's bytes.
#[derive(Debug)]
pub(crate) struct Pending {
    append: Append,
    answer: Answer,
}

/// The way back to one waiting request. Its share of the queue ends with it.
#[derive(Debug)]
pub(crate) struct Answer {
    sender: oneshot::Sender<Result<Appended, AppendError>>,
    _share: OwnedSemaphorePermit,
}

impl Answer {
    /// A client that went away misses its answer; its retry gets it again.
    pub(crate) fn send(self, answer: Result<Appended, AppendError>) {
        let _gone = self.sender.send(answer);
    }
}

impl Pending {
    /// Its part of a frame of the log, at most.
    pub(crate) fn bytes(&self) -> usize {
        self.append.events.iter().map(|arrival| arrival.prepared.bytes_max()).sum()
    }

    pub(crate) fn answer(self, answer: Result<Appended, AppendError>) {
        self.answer.send(answer);
    }

    pub(crate) fn split(self) -> (Append, Answer) {
        (self.append, self.answer)
    }
}

/// Why one shard did not store its part of a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AppendError {
    #[error(transparent)]
    Refused(Refused),
    #[error("shard takes no events: {0}")]
    Faulty(Fault),
    #[error("shard has stopped")]
    Stopped,
}

/// What a shard says of itself after every step.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShardView {
    /// Durable leaves.
    pub(crate) size: u64,
    /// Leaves in sealed segments.
    pub(crate) sealed: u64,
    /// Root at `size`.
    pub(crate) root: Hash,
    /// Why it takes no events now.
    pub(crate) fault: Option<Fault>,
}

/// A shard as the router sees it.
#[derive(Debug)]
pub(crate) struct ShardHandle {
    pub(crate) shard: u16,
    /// `<cluster>/<shard>`.
    pub(crate) origin: String,
    /// The public key, C2SP text form.
    pub(crate) key: String,
    pub(crate) window: Arc<RwLock<Window>>,
    pub(crate) view: watch::Receiver<ShardView>,
    queue: mpsc::Sender<Command>,
    bytes: Arc<Semaphore>,
    bounds: QueueBounds,
}

/// A place in a shard's queue, taken before anything is written anywhere.
#[derive(Debug)]
pub(crate) struct Reserved {
    place: mpsc::OwnedPermit<Command>,
    share: OwnedSemaphorePermit,
}

/// Why a shard has no place for a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Busy {
    #[error("queue of shard {0} is full: {1} requests wait")]
    Requests(u16, usize),
    #[error("queue of shard {0} is full: {1} bytes of events wait")]
    Bytes(u16, usize),
    #[error("shard {0} takes no events: {1}")]
    Faulty(u16, Fault),
    #[error("shard {0} has stopped")]
    Stopped(u16),
}

/// The bounds of a shard's queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueBounds {
    pub(crate) requests: usize,
    pub(crate) bytes: usize,
}

impl ShardHandle {
    pub(crate) fn new(
        (shard, origin, key): (u16, String, String),
        window: Arc<RwLock<Window>>,
        view: watch::Receiver<ShardView>,
        queue: mpsc::Sender<Command>,
        bounds: QueueBounds,
    ) -> Self {
        let bytes = Arc::new(Semaphore::new(bounds.bytes));
        ShardHandle { shard, origin, key, window, view, queue, bytes, bounds }
    }

    /// A place for events that take `memory` bytes. One request always fits an empty queue.
    pub(crate) fn reserve(&self, memory: usize) -> Result<Reserved, Busy> {
        if let Some(fault) = self.view.borrow().fault.clone() {
            return Err(Busy::Faulty(self.shard, fault));
        }
        let share = u32::try_from(memory.min(self.bounds.bytes)).unwrap_or(u32::MAX);
        let share = Arc::clone(&self.bytes)
            .try_acquire_many_owned(share)
            .map_err(|_| Busy::Bytes(self.shard, self.bounds.bytes))?;
        match self.queue.clone().try_reserve_owned() {
            Ok(place) => Ok(Reserved { place, share }),
            Err(mpsc::error::TrySendError::Full(_)) => {
                Err(Busy::Requests(self.shard, self.bounds.requests))
            }
            Err(mpsc::error::TrySendError::Closed(_)) => Err(Busy::Stopped(self.shard)),
        }
    }

    /// Waits until everything that is in the tail now is sealed; `None` if the shard has stopped.
    pub(crate) async fn flush(&self) -> Option<FlushAnswer> {
        let (sender, answer) = oneshot::channel();
        self.queue.send(Command::Flush(sender)).await.ok()?;
        answer.await.ok()
    }
}

impl Reserved {
    /// Queues the request; the receiver gets the answer after the sync.
    pub(crate) fn send(self, append: Append) -> oneshot::Receiver<Result<Appended, AppendError>> {
        let (sender, receiver) = oneshot::channel();
        let answer = Answer { sender, _share: self.share };
        self.place.send(Command::Append(Pending { append, answer }));
        receiver
    }
}
