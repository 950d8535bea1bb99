//! When turns happen: at once, after a nudge, after the scan pause, on request, after a failure.

use std::sync::Arc;
use std::time::Duration;

use sealcast_common::fault::Kind;
use sealcast_common::integrity::Policy;
use sealcast_common::serve::Problem;
use tokio::sync::mpsc;

use crate::Ended;
use crate::api::Order;
use crate::claim::pause_after;
use crate::error::{RunError, ShipError};
use crate::nudge::Nudge;
use crate::place::Place;
use crate::ship::Shipper;
use crate::status::{Board, Shipped};
use crate::wait::Backoff;

/// The reason that stands in `/readyz` until a turn succeeds.
const REASON: &str = "shipping";

/// The loop and what wakes it.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) place: Arc<Place>,
    pub(crate) board: Board,
    pub(crate) orders: mpsc::Receiver<Order>,
    pub(crate) nudge: Nudge,
    /// Who must cosign the cluster log.
    pub(crate) policy: Option<Policy>,
}

/// How a turn that failed is followed.
enum After {
    End(ShipError),
    Wait(Duration),
}

impl Run {
    /// Turns until stopped, fenced, or (with `once`) done.
    pub(crate) async fn run(mut self) -> Result<Ended, RunError> {
        let mut shipper =
            Shipper::new(Arc::clone(&self.place), self.board.clone(), self.policy.take());
        let mut backoff = Backoff::default();
        let mut claims_lost = 0;
        let mut waiting: Vec<Order> = Vec::new();
        loop {
            self.nudge.watch();
            self.measure();
            while let Ok(order) = self.orders.try_recv() {
                waiting.push(order);
            }
            match shipper.turn().await {
                Ok(shipped) => {
                    backoff.reset();
                    claims_lost = 0;
                    self.succeeded(&shipped, &mut waiting);
                    shipper.keep(false).await;
                    if !self.place.config.once && !self.place.stop.is_cancelled() {
                        self.idle(&mut shipper, &mut waiting).await;
                    }
                    if self.place.config.once || self.place.stop.is_cancelled() {
                        return self.finish(shipper, shipped).await;
                    }
                }
                Err(error) => {
                    claims_lost += u32::from(matches!(error, ShipError::ClaimLost { .. }));
                    match self.failed(error, &mut waiting, claims_lost, &mut backoff) {
                        After::End(ShipError::Fenced { .. }) => return Ok(Ended::Fenced),
                        After::End(error) => return Err(error.into()),
                        After::Wait(pause) => {
                            shipper.look().await;
                            self.pause(pause, &mut waiting).await;
                        }
                    }
                }
            }
            if self.place.stop.is_cancelled() {
                return Ok(Ended::Stopped);
            }
        }
    }

    fn measure(&self) {
        let status = self.board.read(self.place.seams.clock.now());
        if let Some(lag_ms) = status.lag_ms {
            crate::metrics::lag(lag_ms);
        }
        if let Some(age_ms) = status.store_age_ms {
            crate::metrics::store_age(age_ms);
        }
    }

    fn succeeded(&self, shipped: &Shipped, waiting: &mut Vec<Order>) {
        self.place.health.clear(REASON);
        self.place.health.clear("starting");
        self.board.state("shipping");
        for order in waiting.drain(..) {
            // A client that went away needs no answer.
            let _gone = order.send(Ok(shipped.clone()));
        }
    }

    fn failed(
        &self,
        error: ShipError,
        waiting: &mut Vec<Order>,
        claims_lost: u32,
        backoff: &mut Backoff,
    ) -> After {
        let (word, message) = (error.word(), error.to_string());
        tracing::warn!(kind = word, %error, "turn failed");
        crate::metrics::failed(word);
        self.board.error(self.place.seams.clock.now(), word, message.clone());
        self.board.state("waiting");
        self.place.health.not_ready(REASON, message.clone());
        let problem = Problem::new(Kind::Unavailable, word, message);
        let problem = match error.is_final() {
            true => problem.hint("another shipper owns the stream: ask that one"),
            false => problem.retry_after(1),
        };
        for order in waiting.drain(..) {
            let _gone = order.send(Err(problem.clone()));
        }
        let random = &*self.place.seams.random;
        match error {
            error if error.is_final() => After::End(error),
            ShipError::ClaimLost { .. } => After::Wait(pause_after(claims_lost, random)),
            error if self.place.config.once => After::End(error),
            _ => After::Wait(backoff.next(random)),
        }
    }

    /// Before trying again: file events do not shorten it, somebody who asks does.
    async fn pause(&mut self, pause: Duration, waiting: &mut Vec<Order>) {
        tokio::select! {
            () = self.place.stop.cancelled() => {}
            () = tokio::time::sleep(pause) => {}
            Some(order) = self.orders.recv() => waiting.push(order),
        }
    }

    /// S8. Head is put late rather than often.
    async fn idle(&mut self, shipper: &mut Shipper, waiting: &mut Vec<Order>) {
        let scan = tokio::time::sleep(Duration::from_millis(self.place.config.scan_ms));
        tokio::pin!(scan);
        loop {
            let head_due = shipper.publisher.head_due(shipper.catalog.seq);
            let epoch_due = shipper.keeper.due();
            let epoch = async {
                match epoch_due {
                    Some(pause) => tokio::time::sleep(pause).await,
                    None => std::future::pending().await,
                }
            };
            let head = async {
                match head_due {
                    Some(pause) => tokio::time::sleep(pause).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.place.stop.cancelled() => return,
                Some(order) = self.orders.recv() => {
                    waiting.push(order);
                    return;
                }
                () = self.nudge.nudged() => return,
                () = &mut scan => return,
                () = epoch => shipper.keep(false).await,
                () = head => shipper.publisher.put_head(&shipper.catalog, false).await,
            }
        }
    }

    /// A clean end leaves a snapshot behind, so that nobody needs to replay the log.
    async fn finish(&self, mut shipper: Shipper, shipped: Shipped) -> Result<Ended, RunError> {
        shipper.keep(true).await;
        if shipper.owned {
            shipper.publisher.snapshot(&shipper.catalog, 1).await;
            shipper.publisher.put_head(&shipper.catalog, true).await;
        }
        if self.place.stop.is_cancelled() { Ok(Ended::Stopped) } else { Ok(Ended::Done(shipped)) }
    }
}
