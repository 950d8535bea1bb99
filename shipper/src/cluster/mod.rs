//! The keeper of the cluster log: what all streams have committed becomes signed epochs.
//!
//! One per cluster: whoever wrote the first leaf. Order: what is to be signed is written down,
//! signed, cosigned, published; after a crash the same is published again, and nothing else can
//! be. What contradicts an earlier epoch is never signed. The other shippers follow it (`follow`).

mod follow;
mod gather;
mod keep;
mod pending;

pub(crate) use keep::{KeepError, Keeper};
