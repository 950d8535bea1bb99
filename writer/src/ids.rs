//! Event ids that the writer makes: UUIDv7 from its clock and random bytes.

use sealcast_common::clock::{Micros, Random};

/// Random bytes of one id.
const TAIL_BYTES: usize = 10;
/// Ids whose random bytes are drawn at once: a call to the system costs more than an id.
const DRAWN: usize = 64;

/// Ids of one moment.
#[derive(Debug)]
pub(crate) struct Ids<'r> {
    millis: u64,
    random: &'r dyn Random,
    drawn: [u8; TAIL_BYTES * DRAWN],
    used: usize,
}

impl<'r> Ids<'r> {
    pub(crate) fn new(now: Micros, random: &'r dyn Random) -> Self {
        let millis = u64::try_from(now.0 / 1_000).unwrap_or(0);
        Ids { millis, random, drawn: [0; TAIL_BYTES * DRAWN], used: DRAWN }
    }

    /// A fresh id.
    pub(crate) fn next(&mut self) -> [u8; 16] {
        if self.used == DRAWN {
            self.random.fill(&mut self.drawn);
            self.used = 0;
        }
        let at = self.used * TAIL_BYTES;
        self.used += 1;
        let mut tail = [0; TAIL_BYTES];
        tail.copy_from_slice(&self.drawn[at..at + TAIL_BYTES]);
        uuid::Builder::from_unix_timestamp_millis(self.millis, &tail).into_uuid().into_bytes()
    }
}
