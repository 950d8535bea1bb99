//! What can go wrong around a role, on order and counted: disk, store, clock, network, power.
//!
//! Every layer wraps a seam of `common` (or a TCP port), does what the real thing does, and departs
//! from it only where a plan says so. A plan is a closure: it sees each call and may answer a fault.

mod clock;
mod files;
mod ledger;
mod proxy;
mod recording;
mod store;

#[cfg(test)]
mod tests;

pub use clock::SkewedClock;
pub use files::{FaultyFiles, FileCall, FileFault, FileOp};
pub use ledger::When;
pub use proxy::{Network, Proxy};
pub use recording::{Loss, Recording, RecordingFiles, RecordingStore};
pub use store::{FaultyStore, StoreCall, StoreFault, StoreOp};
