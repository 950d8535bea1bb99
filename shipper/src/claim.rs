//! Taking the stream: a fence record with the next epoch, after which every older owner is out.

use std::time::Duration;

use sealcast_common::clock::Random;

use crate::commit::Offer;
use crate::error::ShipError;
use crate::position;
use crate::ship::Shipper;
use crate::wait::jitter;

/// After one lost claim a shipper tries again soon; after a second it leaves the field to the
/// other for a minute. Only a supervisor's restart may be quicker.
const AFTER_SECOND_LOSS: Duration = Duration::from_secs(60);

/// The pause after the `losses`-th lost claim in a row.
pub(crate) fn pause_after(losses: u32, random: &dyn Random) -> Duration {
    if losses % 2 == 1 { jitter(random, Duration::from_secs(1)) } else { AFTER_SECOND_LOSS }
}

impl Shipper {
    /// S1: reads the log up to its end.
    pub(crate) async fn tail(&mut self) -> Result<(), ShipError> {
        if !self.booted {
            let place = &self.place;
            let (catalog, snapshot) =
                position::boot(&place.store, &place.log, place.empty_catalog()).await?;
            self.catalog = catalog;
            self.publisher.found(snapshot);
            self.booted = true;
        }
        let catalog = position::tail(&self.place.log, self.catalog.clone()).await?;
        self.remember(catalog.seq).await?;
        tracing::info!(
            stream = catalog.stream,
            seq = catalog.seq,
            epoch = catalog.epoch,
            segments = catalog.segments().count(),
            "stream log read"
        );
        self.board.committed(&catalog);
        self.board.store_seen(self.place.seams.clock.now());
        self.catalog = catalog;
        self.tailed = true;
        Ok(())
    }

    /// S2: offers a fence. When another record stands in its place, the log must be read again.
    pub(crate) async fn claim(&mut self) -> Result<(), ShipError> {
        if self.offer.is_none() {
            self.offer = Some(Offer::fence(&self.place, &self.catalog)?);
        }
        self.settle().await
    }
}
