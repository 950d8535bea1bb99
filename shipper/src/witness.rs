//! Whether the store still has what was committed.
//!
//! A share that is not mounted, a bucket that was made anew and a backup that was put back all
//! answer "no such record" as a healthy store does. A commit put there would be acknowledged, and
//! nobody could ever read up to it.

use std::sync::Arc;
use std::time::Duration;

use sealcast_common::checked;
use sealcast_common::fault::{Corruption, hex};
use sealcast_common::integrity::file_hash;
use sealcast_common::wire::ShippedFile;

use crate::error::ShipError;
use crate::place::blocking;
use crate::ship::Shipper;

/// How often the last commit is looked at while nothing is shipped.
const CONFIRM_EVERY: Duration = Duration::from_secs(60);
/// What we have just put or seen there still is: a backlog costs no second request a commit.
const FRESH: Duration = Duration::from_secs(1);

impl Shipper {
    /// Reads our last commit again: before another is put after it, and now and then.
    pub(crate) async fn confirm(&mut self, before_commit: bool) -> Result<(), ShipError> {
        let now = self.place.seams.clock.monotonic();
        let most = if before_commit { FRESH } else { CONFIRM_EVERY };
        let recent = self.confirmed_at.is_some_and(|at| now.saturating_sub(at) < most);
        let (seq, hash) = (self.catalog.seq, self.catalog.hash);
        if seq == 0 || recent {
            return Ok(());
        }
        let found = self.place.log.read(seq).await?.map(|object| file_hash(&object));
        if found == Some(hash) {
            self.seen();
            return Ok(());
        }
        let expected = format!("commit {} as it was committed; restore the store", hex(&hash));
        let found = found.map_or("no such commit".to_owned(), |found| hex(&found));
        let finding = Corruption::new("log_rollback", None, expected, found);
        Err(ShipError::Log(finding.in_object(self.place.log.key(seq))))
    }

    /// After a restart only `shipped.json` remembers how far the log went.
    pub(crate) async fn remember(&self, seq: u64) -> Result<(), ShipError> {
        let place = Arc::clone(&self.place);
        let text = blocking(move || std::fs::read(place.dir.shipped_file())).await?;
        // Missing or damaged, it is made again: it is no more than a mark.
        let told = text.ok().and_then(|text| {
            let told = checked::parse::<ShippedFile>("shipped_file", &text);
            told.inspect_err(|found| tracing::warn!(%found, "shipped.json is written anew")).ok()
        });
        match told.filter(|told| told.stream == self.place.node.node && told.seq > seq) {
            None => Ok(()),
            Some(told) => {
                let expected = format!(
                    "a log up to {}, as shipped.json remembers; restore the store, or remove \
                     shipped.json to ship everything to another one",
                    told.seq
                );
                let finding =
                    Corruption::new("log_rollback", None, expected, format!("up to {seq}"));
                Err(ShipError::Log(finding.in_object(self.place.log.key(seq + 1))))
            }
        }
    }
}
