//! When a tail is sealed, and what happens to it when that fails.

use std::io;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use sealcast_common::limits::SEGMENT_ROWS_MAX;
use tokio::task::{JoinError, JoinHandle, spawn_blocking};

use super::{Shard, finished};
use crate::context::ShardContext;
use crate::fault::{Backoff, Fault, FaultKind};
use crate::sealer::{SealError, SealedFile};
use crate::tail::ClosedTail;

/// A tail this many times over its size waits for the seal before it, and the queue with it; if
/// that seal has failed, requests are refused.
pub(super) const TAIL_OVERGROWN: u64 = 2;

/// A seal's end. The closed tail comes back with a failure, to be sealed again.
#[derive(Debug)]
pub(super) enum SealEnd {
    /// The rows come back, too: to forget a hundred thousand takes longer than anybody should wait.
    Done(SealedFile, Duration, Arc<ClosedTail>),
    Failed(Arc<ClosedTail>, SealError),
}

pub(super) type SealJob = JoinHandle<SealEnd>;

/// A seal that failed because of the disk.
#[derive(Debug)]
pub(super) struct StalledSeal {
    tail: Arc<ClosedTail>,
    backoff: Backoff,
    hurried: bool,
}

impl StalledSeal {
    /// Somebody waits: the next try comes now.
    pub(super) fn hurry(&mut self) {
        self.hurried = true;
    }
}

fn start_seal(tail: Arc<ClosedTail>, ctx: &Arc<ShardContext>) -> SealJob {
    let ctx = Arc::clone(ctx);
    spawn_blocking(move || {
        let before = ctx.clock.monotonic();
        match tail.seal(&ctx) {
            Ok(sealed) => {
                let took = ctx.clock.monotonic().saturating_sub(before);
                SealEnd::Done(sealed, took, tail)
            }
            Err(error) => SealEnd::Failed(tail, error),
        }
    })
}

impl Shard {
    /// The level that every trigger leads to: size, rows, age, or somebody waiting. A seal that
    /// failed comes first.
    pub(super) async fn seal_if_due(&mut self) {
        if self.sealing.is_some() {
            return;
        }
        if let Some(stalled) = &self.stalled {
            if stalled.hurried || stalled.backoff.is_due(self.ctx.clock.monotonic()) {
                self.sealing = Some(start_seal(Arc::clone(&stalled.tail), &self.ctx));
            } else if self.fault.is_none() && self.is_overgrown() {
                let cause = "the tail has reached its bound, and the seal before it fails";
                self.state_fault(Fault::new(FaultKind::Overdue, cause));
            }
            return;
        }
        let Some(tail) = &self.tail else { return };
        let Some(oldest) = tail.oldest_row() else { return };
        let age = self.ctx.clock.monotonic().saturating_sub(oldest);
        // The cut falls between requests: a log frame is one request, and a request whose rows lay
        // in two segments would have its key in two seals. So sizes are not rounded to 256 rows.
        let due = self.tail_bytes_over(1)
            || tail.rows().len() >= SEGMENT_ROWS_MAX / 4
            || age >= self.pace.seal_age
            || !self.waiters.is_empty();
        if due {
            self.rotate().await;
        }
    }

    /// Opens the next tail, then seals the old one on a thread of its own.
    async fn rotate(&mut self) {
        let Some(mut old) = self.tail.take() else { return };
        let ctx = Arc::clone(&self.ctx);
        let rotated = spawn_blocking(move || {
            let next = old.sync().and_then(|()| old.next(&ctx));
            (old, next)
        });
        match rotated.await {
            Ok((old, Ok(next))) => {
                self.tail = Some(next);
                self.sealing = Some(start_seal(Arc::new(old.close(&self.ctx)), &self.ctx));
                self.publish();
            }
            // Whether a next log is there now, nobody knows: it is looked at before the old one
            // takes another row.
            Ok((old, Err(error))) => self.not_rotated(old.acknowledged(true), &error),
            Err(error) => self.give_up(Fault::of_panic("next log", &error), None),
        }
    }

    fn not_rotated(&mut self, known: crate::tail::Acknowledged, error: &io::Error) {
        let repair = self.repair_by_reopening(known);
        self.give_up(Fault::of_io("next log", error), Some(repair));
    }

    pub(super) fn seal_done(&mut self, done: Result<SealEnd, JoinError>) {
        self.sealing = None;
        match done {
            Ok(SealEnd::Done(file, took, rows)) => {
                self.seal_succeeded(&file, took);
                drop(spawn_blocking(move || drop(rows)));
            }
            Ok(SealEnd::Failed(tail, error)) => self.seal_failed(tail, &error),
            Err(error) => self.seal_given_up(Fault::of_panic("seal", &error)),
        }
    }

    /// What broke this seal would break the next one, too.
    fn seal_given_up(&mut self, fault: Fault) {
        self.stalled = None;
        self.give_up(fault, None);
    }

    fn seal_succeeded(&mut self, file: &SealedFile, took: Duration) {
        let name = file.name();
        self.sealed = name.end();
        self.seals += 1;
        crate::metrics::sealed(took, file.bytes());
        let (shard, seconds) = (self.ctx.shard, took.as_secs_f64());
        let (start, rows, bytes) = (name.start, name.rows, file.bytes());
        tracing::info!(shard, start, rows, bytes, seconds, "segment sealed");
        if self.stalled.take().is_some() {
            self.health.clear(&self.reason("seal"));
        }
        if self.fault.as_ref().is_some_and(|fault| fault.kind == FaultKind::Overdue) {
            self.clear_fault();
        }
        self.publish();
        self.answer_waiters();
    }

    /// The rows are safe in their log: appends go on, and the seal is made again.
    fn seal_failed(&mut self, tail: Arc<ClosedTail>, error: &SealError) {
        crate::metrics::seal_failed();
        let fault = Fault::of_seal(error);
        if !fault.passes() {
            return self.seal_given_up(fault);
        }
        let now = self.ctx.clock.monotonic();
        tracing::warn!(shard = self.ctx.shard, %error, "segment not sealed");
        let reason = format!("not sealed: {fault}; {}", fault.kind.hint());
        self.health.note(&self.reason("seal"), reason);
        let mut backoff =
            self.stalled.take().map_or_else(|| Backoff::new(now), |stalled| stalled.backoff);
        backoff.failed(now);
        self.stalled = Some(StalledSeal { tail, backoff, hurried: false });
        for waiter in mem::take(&mut self.waiters) {
            let _gone = waiter.answer.send(Err(fault.clone()));
        }
    }

    /// The end: whatever is still unsealed is sealed, one tail after the other. What cannot be is
    /// safe in its log, and the reason is the end's own.
    pub(super) async fn seal_everything(&mut self) {
        loop {
            if self.sealing.is_some() {
                let done = finished(&mut self.sealing).await;
                let tried_again = self.stalled.is_some();
                self.seal_done(done);
                if tried_again && self.stalled.is_some() {
                    let cause = "the tail is not sealed: see the log";
                    return self.state_fault(Fault::new(FaultKind::Overdue, cause));
                }
            }
            if let Some(stalled) = &self.stalled {
                self.sealing = Some(start_seal(Arc::clone(&stalled.tail), &self.ctx));
                continue;
            }
            if self.tail.as_ref().is_none_or(|tail| tail.rows().is_empty()) {
                return;
            }
            self.rotate().await;
        }
    }
}
