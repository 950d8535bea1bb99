//! Spreads events over the 24 hours before an end, busier by day than by night.

use jiff::Timestamp;

const HOUR_MICROS: i64 = 3_600_000_000;
const DAY_MICROS: i64 = 24 * HOUR_MICROS;
const SLOTS_PER_HOUR: i64 = 12;
const SLOT_MICROS: i64 = HOUR_MICROS / SLOTS_PER_HOUR;
const SLOTS: usize = (DAY_MICROS / SLOT_MICROS) as usize;
/// Traffic by hour of the day in UTC: quiet at night, two humps around lunch.
const HOURLY: [i64; 24] =
    [14, 11, 10, 9, 10, 14, 24, 42, 66, 84, 92, 88, 76, 82, 94, 96, 90, 78, 60, 48, 40, 32, 24, 18];

/// Gives ascending times: the `index`-th of `events` lies in the `index`-th of equal shares of traffic.
pub(super) struct DayClock {
    start_micros: i64,
    /// Traffic per microsecond in each slot.
    weights: [u64; SLOTS],
    total: u64,
    /// The slot of the last time, and the traffic before it.
    slot: usize,
    before: u64,
}

impl DayClock {
    pub(super) fn new(end_micros: i64) -> DayClock {
        let earliest = Timestamp::MIN.as_microsecond() + DAY_MICROS;
        let end = end_micros.clamp(earliest, Timestamp::MAX.as_microsecond());
        let start_micros = end - DAY_MICROS;
        let mut weights = [0; SLOTS];
        let mut micros = start_micros;
        for weight in &mut weights {
            *weight = traffic(micros);
            micros += SLOT_MICROS;
        }
        let total = weights.iter().map(|weight| weight * SLOT_MICROS as u64).sum();
        DayClock { start_micros, weights, total, slot: 0, before: 0 }
    }

    /// The time of an event; indices must not descend. `jitter` places it within its share.
    pub(super) fn time(&mut self, index: usize, events: usize, jitter: u32) -> Timestamp {
        let share = (index as u128) << 32 | u128::from(jitter);
        let position = (share * u128::from(self.total) / ((events as u128) << 32)) as u64;
        while position >= self.before + self.slot_traffic() && self.slot + 1 < SLOTS {
            self.before += self.slot_traffic();
            self.slot += 1;
        }
        let offset = (position - self.before) / self.weights[self.slot];
        let micros = self.start_micros + self.slot as i64 * SLOT_MICROS + offset as i64;
        // In range because the start and the end are.
        Timestamp::from_microsecond(micros).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    fn slot_traffic(&self) -> u64 {
        self.weights[self.slot] * SLOT_MICROS as u64
    }
}

/// Traffic at a time, between the values of the hours around it.
fn traffic(micros: i64) -> u64 {
    let of_day = micros.rem_euclid(DAY_MICROS);
    let hour = (of_day / HOUR_MICROS) as usize;
    let minutes = of_day % HOUR_MICROS / 60_000_000;
    let (this, next) = (HOURLY[hour], HOURLY[(hour + 1) % 24]);
    (this * (60 - minutes) + next * minutes) as u64
}
