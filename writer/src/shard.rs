//! The single writer of one shard: queue → group → append → sync → answer, and when to seal.
//!
//! An async task owns the tail. Files are touched on blocking threads, to which the tail is lent;
//! so no two of its steps ever overlap, and sealing, which owns its tail, overlaps with appends.

use std::io;
use std::mem;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use sealcast_common::clock::Micros;
use sealcast_common::limits::SEGMENT_ROWS_MAX;
use sealcast_common::serve::Health;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinError, JoinHandle, spawn_blocking};
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::context::ShardContext;
use crate::handle::{Answer, AppendError, Command, FlushAnswer, Pending, Poison, ShardView};
use crate::sealer::{SealError, SealedFile};
use crate::stage::{Appended, Group, Refused};
use crate::tail::ActiveTail;
use crate::window::Window;

/// A tail this many times over its size waits for the seal before it, and the queue with it.
const TAIL_OVERGROWN: u64 = 2;

/// When to group and when to seal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    seal_bytes: u64,
    seal_age: Duration,
    group_bytes: usize,
    group_wait: Duration,
}

impl Pace {
    pub(crate) fn of(config: &Config) -> Self {
        Pace {
            seal_bytes: config.seal_bytes,
            seal_age: Duration::from_millis(config.seal_age_ms),
            group_bytes: config.group_bytes,
            group_wait: Duration::from_millis(config.group_wait_ms),
        }
    }
}

/// Somebody waits until `target` leaves are sealed.
#[derive(Debug)]
struct Waiter {
    target: u64,
    /// Seals done when the wait began.
    seals_before: usize,
    answer: oneshot::Sender<FlushAnswer>,
}

type SealJob = JoinHandle<Result<(SealedFile, Duration), SealError>>;

/// The actor.
#[derive(Debug)]
pub(crate) struct Shard {
    ctx: Arc<ShardContext>,
    pace: Pace,
    health: Health,
    window: Arc<RwLock<Window>>,
    view: watch::Sender<ShardView>,
    /// `None` while lent to a thread, and for ever once poisoned.
    tail: Option<ActiveTail>,
    poison: Option<Poison>,
    sealing: Option<SealJob>,
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
            poison: None,
            sealing: None,
            waiters: Vec::new(),
            sealed: 0,
            seals: 0,
        }
    }

    /// Works until `closing`, then on until the queue is empty and the tail is sealed.
    pub(crate) async fn run(
        mut self,
        tail: ActiveTail,
        sealed: u64,
        mut queue: mpsc::Receiver<Command>,
        closing: CancellationToken,
    ) {
        (self.tail, self.sealed) = (Some(tail), sealed);
        self.publish();
        let period =
            (self.pace.seal_age / 4).clamp(Duration::from_millis(10), Duration::from_secs(1));
        let mut tick = tokio::time::interval(period);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let overgrown = self.sealing.is_some() && self.tail_bytes_over(TAIL_OVERGROWN);
            tokio::select! {
                biased;
                done = finished(&mut self.sealing) => self.seal_done(done),
                command = queue.recv(), if !overgrown => match command {
                    Some(command) => self.take(command, &mut queue).await,
                    None => break,
                },
                () = closing.cancelled(), if !queue.is_closed() => queue.close(),
                _ = tick.tick() => {}
            }
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
                    bytes += pending.bytes;
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
        let Some(mut tail) = self.tail.take() else {
            let poison = self.poison.clone().unwrap_or_default();
            for pending in group {
                pending.answer(Err(AppendError::Poisoned(poison.clone())));
            }
            return;
        };
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
            Ok((_, Err(error), senders)) => {
                self.poison(Poison::of_io("append", &error));
                let poison = self.poison.clone().unwrap_or_default();
                for sender in senders {
                    sender.send(Err(AppendError::Poisoned(poison.clone())));
                }
            }
            // The senders are gone with the thread: the waiting requests see a closed channel.
            Err(error) => self.poison(Poison::of_panic("append", &error)),
        }
    }

    fn flush(&mut self, answer: oneshot::Sender<FlushAnswer>) {
        let target = self.tail.as_ref().map_or(u64::MAX, ActiveTail::end);
        self.waiters.push(Waiter { target, seals_before: self.seals, answer });
        self.answer_waiters();
    }

    fn answer_waiters(&mut self) {
        for waiter in mem::take(&mut self.waiters) {
            if self.sealed >= waiter.target {
                let segments = self.seals - waiter.seals_before;
                // A receiver that is gone has timed out: nobody waits.
                let _gone = waiter.answer.send(Ok((segments, self.sealed)));
            } else if let Some(poison) = &self.poison {
                let _gone = waiter.answer.send(Err(poison.clone()));
            } else {
                self.waiters.push(waiter);
            }
        }
    }

    /// The level that every trigger leads to: size, rows, age, or somebody waiting.
    async fn seal_if_due(&mut self) {
        let Some(tail) = &self.tail else { return };
        let Some(oldest) = tail.oldest_row() else { return };
        let age = self.ctx.clock.monotonic().saturating_sub(oldest);
        // The cut falls between requests: a log frame is one request, and a request whose rows lay
        // in two segments would have its key in two seals. So sizes are not rounded to 256 rows.
        let due = self.tail_bytes_over(1)
            || tail.rows().len() >= SEGMENT_ROWS_MAX / 4
            || age >= self.pace.seal_age
            || !self.waiters.is_empty();
        if due && self.sealing.is_none() {
            self.rotate().await;
        }
    }

    fn tail_bytes_over(&self, times: u64) -> bool {
        self.tail.as_ref().is_some_and(|tail| tail.bytes() >= times * self.pace.seal_bytes)
    }

    /// Opens the next tail, then seals the old one on a thread of its own.
    async fn rotate(&mut self) {
        let Some(mut old) = self.tail.take() else { return };
        let ctx = Arc::clone(&self.ctx);
        let rotated = spawn_blocking(move || {
            old.sync()?;
            let next = old.next(&ctx)?;
            Ok::<_, io::Error>((old, next))
        });
        match rotated.await {
            Ok(Ok((old, next))) => {
                self.tail = Some(next);
                let ctx = Arc::clone(&self.ctx);
                self.sealing = Some(spawn_blocking(move || {
                    let before = ctx.clock.monotonic();
                    let sealed = old.seal(&ctx)?;
                    Ok((sealed, ctx.clock.monotonic().saturating_sub(before)))
                }));
                self.publish();
            }
            Ok(Err(error)) => self.poison(Poison::of_io("next log", &error)),
            Err(error) => self.poison(Poison::of_panic("next log", &error)),
        }
    }

    fn seal_done(&mut self, done: Result<Result<(SealedFile, Duration), SealError>, JoinError>) {
        self.sealing = None;
        match done {
            Ok(Ok((file, took))) => {
                let name = file.name();
                self.sealed = name.end();
                self.seals += 1;
                crate::metrics::sealed(took, file.bytes());
                let (shard, seconds) = (self.ctx.shard, took.as_secs_f64());
                let (start, rows, bytes) = (name.start, name.rows, file.bytes());
                tracing::info!(shard, start, rows, bytes, seconds, "segment sealed");
                self.publish();
                self.answer_waiters();
            }
            Ok(Err(error)) => self.poison(Poison::of_seal(&error)),
            Err(error) => self.poison(Poison::of_panic("seal", &error)),
        }
    }

    /// The end: whatever is still unsealed is sealed, one tail after the other.
    async fn seal_everything(&mut self) {
        loop {
            if self.sealing.is_some() {
                let done = finished(&mut self.sealing).await;
                self.seal_done(done);
            }
            if self.tail.as_ref().is_none_or(|tail| tail.rows().is_empty()) {
                return;
            }
            self.rotate().await;
        }
    }

    /// No further event is accepted: what is on disk is known only after a restart has read it.
    fn poison(&mut self, poison: Poison) {
        self.tail = None;
        tracing::error!(shard = self.ctx.shard, cause = poison.cause, "shard poisoned");
        crate::metrics::poisoned();
        let reason = format!("poisoned: {}; {}", poison.cause, poison.hint());
        self.health.not_ready(&format!("shard-{:04x}", self.ctx.shard), reason);
        self.view.send_modify(|view| view.poison = Some(poison.clone()));
        self.poison.get_or_insert(poison);
        self.answer_waiters();
    }

    fn publish(&self) {
        let Some(tail) = &self.tail else {
            self.view.send_modify(|view| view.sealed = self.sealed);
            return;
        };
        crate::metrics::tail(self.ctx.shard, tail.rows().len(), tail.bytes());
        let (size, root) = (tail.end(), tail.root());
        self.view.send_replace(ShardView { size, sealed: self.sealed, root, poison: None });
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
) -> (io::Result<Staged>, Vec<Answer>) {
    let now = ctx.clock.now();
    let at = Micros(now.0.max(tail.latest_ingest().0));
    write(window).evict(now);
    let (mut answers, mut senders) = (Vec::new(), Vec::new());
    let mut batch = {
        let window = read(window);
        let mut staged = Group::new(&window, ctx.log_id, tail.end(), at);
        for pending in group {
            let (append, sender) = pending.split();
            answers.push(staged.add(append));
            senders.push(sender);
        }
        staged.finish()
    };
    if batch.rows.is_empty() {
        return (Ok(answers), senders);
    }
    let (ids, requests) = (mem::take(&mut batch.ids), batch.requests.clone());
    if let Err(error) = tail.append(batch, ctx) {
        return (Err(error), senders);
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
