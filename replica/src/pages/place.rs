//! The one order of all rows: by time, then event id; a shard and an index in it decide between equals.

/// Which end comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// The oldest first.
    Ascending,
    /// The newest first.
    Descending,
}

impl Order {
    /// A time as part of a [`Rank`].
    fn time(self, time: i64) -> i64 {
        match self {
            Order::Ascending => time,
            Order::Descending => !time,
        }
    }

    /// The rank of a row.
    pub(super) fn rank(self, place: Place) -> Rank {
        let Place { time, event_id, shard, seq } = place;
        match self {
            Order::Ascending => Rank { time, event_id, shard, seq },
            Order::Descending => {
                let event_id = event_id.map(|byte| !byte);
                Rank { time: !time, event_id, shard: !shard, seq: !seq }
            }
        }
    }

    /// No row of this time comes before it.
    pub(super) fn first_at(self, time: i64) -> Rank {
        Rank { time: self.time(time), event_id: [0; 16], shard: 0, seq: 0 }
    }

    /// No row within these times comes before it.
    pub(super) fn first_within(self, (least, greatest): (i64, i64)) -> Rank {
        self.first_at(if self == Order::Ascending { least } else { greatest })
    }
}

/// Where a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) time: i64,
    pub(super) event_id: [u8; 16],
    pub(super) shard: u16,
    pub(super) seq: u64,
}

/// A place in a chosen order: the least comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    time: i64,
    event_id: [u8; 16],
    shard: u16,
    seq: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_order_is_the_other_one_turned_round() {
        let place = |time, id, shard, seq| Place { time, event_id: [id; 16], shard, seq };
        let places = [
            place(i64::MIN, 9, 9, 9),
            place(-1, 0, 0, 0),
            place(0, 0, 0, 0),
            place(0, 0, 0, 1),
            place(0, 0, 1, 0),
            place(0, 1, 0, 0),
            place(i64::MAX, 255, u16::MAX, u64::MAX),
        ];
        for pair in places.windows(2) {
            let [up, down] = [Order::Ascending, Order::Descending]
                .map(|order| (order.rank(pair[0]), order.rank(pair[1])));
            assert!(up.0 < up.1 && down.0 > down.1, "{pair:?}");
            assert!(Order::Ascending.first_at(pair[1].time) <= up.1);
            assert!(Order::Descending.first_at(pair[1].time) <= down.1);
        }
    }
}
