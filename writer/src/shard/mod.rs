//! The single writer of one shard: queue → group → append → sync → answer.
//!
//! An async task owns the tail. Files are touched on blocking threads, to which the tail is lent;
//! so no two of its steps ever overlap, and sealing, which owns its tail, overlaps with appends.
//! `seals` decides when to seal and makes failed seals again; `reopen` brings a shard back after a
//! disk failed.

mod reopen;
mod seals;

use std::mem;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use sealcast_common::clock::Micros;
use sealcast_common::limits::TAIL_BYTES_MAX;
use sealcast_common::serve::Health;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinError, JoinHandle, spawn_blocking};
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::context::ShardContext;
use crate::fault::Fault;
use crate::handle::{Answer, AppendError, Command, FlushAnswer, Pending, ShardView};
use crate::stage::{Appended, Group, Refused};
use crate::tail::{ActiveTail, AppendFailed};
use crate::window::Window;

use reopen::Repair;
use seals::{SealJob, StalledSeal};

/// When to group and when to seal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    seal_bytes: u64,
    seal_age: Duration,
    group_bytes: usize,
    group_wait: Duration,
    /// A shard without service leaves the writer ready.
    ready_degraded: bool,
}

impl Pace {
    pub(crate) fn of(config: &Config) -> Self {
        Pace {
            seal_bytes: config.seal_bytes,
            seal_age: Duration::from_millis(config.seal_age_ms),
            group_bytes: config.group_bytes,
            group_wait: Duration::from_millis(config.group_wait_ms),
            ready_degraded: config.ready_degraded,
        }
    }
}

/// How a shard begins.
#[derive(Debug)]
pub(crate) enum Opening {
    /// Recovered: the tail, and how many leaves are sealed.
    Ready(ActiveTail, u64),
    /// Not now, or not at all.
    Faulty(Fault),
}

/// Somebody waits until `target` leaves are sealed.
#[derive(Debug)]
struct Waiter {
    target: u64,
    /// Seals done when the wait began.
    seals_before: usize,
    answer: oneshot::Sender<FlushAnswer>,
}

/// The actor.
#[derive(Debug)]
pub(crate) struct Shard {
    ctx: Arc<ShardContext>,
    pace: Pace,
    health: Health,
    window: Arc<RwLock<Window>>,
    view: watch::Sender<ShardView>,
    /// `None` while lent to a thread, and while there is a fault.
    tail: Option<ActiveTail>,
    fault: Option<Fault>,
    /// How and when the fault may end by itself.
    repair: Option<Repair>,
    sealing: Option<SealJob>,
    stalled: Option<StalledSeal>,
    waiters: Vec<Waiter>,
    sealed: u64,
    seals: usize,
}

impl Shard {
    pub(crate) fn new(
        ctx: Arc<ShardContext>,
        pace: Pace,
        health: Health,
        window: Arc<RwLock<Window>>,
        view: watch::Sender<ShardView>,
    ) -> Self {
        Shard {
            ctx,
            pace,
            health,
            window,
            view,
            tail: None,
            fault: None,
            repair: None,
            sealing: None,
            stalled: None,
            waiters: Vec::new(),
            sealed: 0,
            seals: 0,
        }
    }

    /// Takes its state from the start, before anybody can ask for it.
    pub(crate) fn open(&mut self, opening: Opening) {
        match opening {
            Opening::Ready(tail, sealed) => {
                (self.tail, self.sealed) = (Some(tail), sealed);
                self.publish();
            }
            Opening::Faulty(fault) => {
                let repair = fault.passes().then(|| self.repair_by_recovery());
                self.give_up(fault, repair);
            }
        }
    }

    /// Works until `closing`, then on until the queue is empty and the tail is sealed.
    pub(crate) async fn run(
        mut self,
        mut queue: mpsc::Receiver<Command>,
        closing: CancellationToken,
    ) {
        let period =
            (self.pace.seal_age / 4).clamp(Duration::from_millis(10), Duration::from_millis(500));
        let mut tick = tokio::time::interval(period);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let behind = self.sealing.is_some() && self.is_overgrown() && self.fault.is_none();
            tokio::select! {
                biased;
                done = finished(&mut self.sealing) => self.seal_done(done),
                command = queue.recv(), if !behind => match command {
                    Some(command) => self.take(command, &mut queue).await,
                    None => break,
                },
                () = closing.cancelled(), if !queue.is_closed() => queue.close(),
                _ = tick.tick() => {}
            }
            self.repair_if_due().await;
            self.seal_if_due().await;
        }
        self.seal_everything().await;
    }

    /// Everything that has queued up meanwhile shares one append and one sync.
    async fn take(&mut self, first: Command, queue: &mut mpsc::Receiver<Command>) {
        let (mut group, mut flushes, mut bytes) = (Vec::new(), Vec::new(), 0);
        let patience = tokio::time::sleep(self.pace.group_wait);
        tokio::pin!(patience);
        let mut next = Some(first);
        while let Some(command) = next {
            match command {
                Command::Append(pending) => {
                    bytes += pending.bytes();
                    group.push(pending);
                }
                Command::Flush(answer) => flushes.push(answer),
            }
            if bytes >= self.pace.group_bytes {
                break;
            }
            next = match queue.try_recv() {
                Ok(command) => Some(command),
                Err(_) if self.pace.group_wait.is_zero() || !flushes.is_empty() => None,
                Err(_) => tokio::select! {
                    biased;
                    command = queue.recv() => command,
                    () = &mut patience => None,
                },
            };
        }
        if !group.is_empty() {
            self.commit(group, bytes).await;
        }
        for answer in flushes {
            self.flush(answer);
        }
    }

    async fn commit(&mut self, group: Vec<Pending>, bytes: usize) {
        if let Some(fault) = &self.fault {
            for pending in group {
                pending.answer(Err(AppendError::Faulty(fault.clone())));
            }
            return;
        }
        let Some(mut tail) = self.tail.take() else { return };
        let (ctx, window) = (Arc::clone(&self.ctx), Arc::clone(&self.window));
        let rows_before = tail.rows().len();
        let requests = group.len();
        let work = spawn_blocking(move || {
            let (answers, senders) = stage_and_append(&mut tail, group, &ctx, &window);
            (tail, answers, senders)
        });
        match work.await {
            Ok((tail, Ok(answers), senders)) => {
                crate::metrics::grouped(requests, tail.rows().len() - rows_before, bytes);
                self.tail = Some(tail);
                self.publish();
                for (sender, answer) in senders.into_iter().zip(answers) {
                    sender.send(answer.map_err(AppendError::Refused));
                }
            }
            Ok((tail, Err(failed), senders)) => {
                let fault = Fault::of_io(failed.step, &failed.error);
                let repair = self.repair_by_reopening(tail.acknowledged(failed.rewrite));
                self.give_up(fault.clone(), Some(repair));
                for sender in senders {
                    sender.send(Err(AppendError::Faulty(fault.clone())));
                }
            }
            // The senders are gone with the thread: the waiting requests see a closed channel.
            Err(error) => self.give_up(Fault::of_panic("append", &error), None),
        }
    }

    fn flush(&mut self, answer: oneshot::Sender<FlushAnswer>) {
        let target = self.tail.as_ref().map_or(u64::MAX, ActiveTail::end);
        self.waiters.push(Waiter { target, seals_before: self.seals, answer });
        if let Some(stalled) = &mut self.stalled {
            stalled.hurry();
        }
        self.answer_waiters();
    }

    fn answer_waiters(&mut self) {
        for waiter in mem::take(&mut self.waiters) {
            if self.sealed >= waiter.target {
                let segments = self.seals - waiter.seals_before;
                // A receiver that is gone has timed out: nobody waits.
                let _gone = waiter.answer.send(Ok((segments, self.sealed)));
            } else if self.tail.is_none()
                && let Some(fault) = &self.fault
            {
                let _gone = waiter.answer.send(Err(fault.clone()));
            } else {
                self.waiters.push(waiter);
            }
        }
    }

    fn is_overgrown(&self) -> bool {
        self.tail_bytes_over(seals::TAIL_OVERGROWN)
    }

    fn tail_bytes_over(&self, times: u64) -> bool {
        self.tail.as_ref().is_some_and(|tail| tail.bytes() >= times * self.pace.seal_bytes)
    }

    /// No further event is accepted until the fault is over, if it can be.
    fn give_up(&mut self, fault: Fault, repair: Option<Repair>) {
        let (shard, state) = (self.ctx.shard, fault.kind.word());
        tracing::error!(shard, state, cause = fault.cause, "shard stopped taking events");
        self.tail = None;
        self.repair = repair;
        self.state_fault(fault);
    }

    fn state_fault(&mut self, fault: Fault) {
        crate::metrics::faulty(self.ctx.shard, true);
        self.say("shard", &format!("{}: {fault}; {}", fault.kind.word(), fault.kind.hint()));
        self.view.send_modify(|view| view.fault = Some(fault.clone()));
        self.fault = Some(fault);
        self.answer_waiters();
    }

    fn clear_fault(&mut self) {
        (self.fault, self.repair) = (None, None);
        crate::metrics::faulty(self.ctx.shard, false);
        self.health.clear(&self.reason("shard"));
        tracing::info!(shard = self.ctx.shard, "shard takes events again");
        self.publish();
    }

    /// One shard out of service makes the writer unready, unless it was told otherwise.
    fn say(&self, what: &str, reason: &str) {
        if self.pace.ready_degraded {
            self.health.note(&self.reason(what), reason);
        } else {
            self.health.not_ready(&self.reason(what), reason);
        }
    }

    fn reason(&self, what: &str) -> String {
        format!("{what}-{:04x}", self.ctx.shard)
    }

    fn publish(&self) {
        let Some(tail) = &self.tail else {
            self.view.send_modify(|view| view.sealed = self.sealed);
            return;
        };
        crate::metrics::tail(self.ctx.shard, tail.rows().len(), tail.bytes());
        let (size, root) = (tail.end(), tail.root());
        let fault = self.fault.clone();
        self.view.send_replace(ShardView { size, sealed: self.sealed, root, fault });
    }
}

/// Completes with the seal's end; never, if none is running.
async fn finished<T>(job: &mut Option<JoinHandle<T>>) -> Result<T, JoinError> {
    match job {
        Some(job) => job.await,
        None => std::future::pending().await,
    }
}

type Staged = Vec<Result<Appended, Refused>>;

/// On a blocking thread: judge and encode the group, append it, sync, and only then remember it.
fn stage_and_append(
    tail: &mut ActiveTail,
    group: Vec<Pending>,
    ctx: &ShardContext,
    window: &RwLock<Window>,
) -> (Result<Staged, AppendFailed>, Vec<Answer>) {
    let now = ctx.clock.now();
    let at = Micros(now.0.max(tail.latest_ingest().0));
    write(window).evict(now);
    let (mut answers, mut senders) = (Vec::new(), Vec::new());
    let mut batch = {
        let window = read(window);
        // A log without rows is never sealed: keys alone must not make it grow for ever.
        let keys_of_repeats = tail.bytes() < TAIL_BYTES_MAX;
        let mut staged = Group::new(&window, ctx.log_id, tail.end(), at, keys_of_repeats);
        for pending in group {
            let (append, sender) = pending.split();
            answers.push(staged.add(append));
            senders.push(sender);
        }
        staged.finish()
    };
    if batch.frame.is_empty() {
        return (Ok(answers), senders);
    }
    let (ids, requests) = (mem::take(&mut batch.ids), batch.requests.clone());
    if let Err(failed) = tail.append(batch, ctx) {
        return (Err(failed), senders);
    }
    let mut window = write(window);
    ids.into_iter().for_each(|(key, remembered)| window.insert_id(key, remembered));
    requests.into_iter().for_each(|request| window.insert_request(request));
    (Ok(answers), senders)
}

/// A panic while the lock was held has poisoned the shard already: its content is only read.
pub(crate) fn read(window: &RwLock<Window>) -> std::sync::RwLockReadGuard<'_, Window> {
    window.read().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn write(window: &RwLock<Window>) -> std::sync::RwLockWriteGuard<'_, Window> {
    window.write().unwrap_or_else(std::sync::PoisonError::into_inner)
}
