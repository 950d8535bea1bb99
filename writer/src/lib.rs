//! The writer: takes events by HTTP, makes them durable, seals them into segments.
//!
//! The path of an event: `api::ingest` → `router` → `shard` (through `handle`) → `stage` → `tail`
//! → `sealer`. Beside it: `window` (retries store nothing twice), `recovery`, `sealed` and `signed` (what
//! a start makes of the disk), `node` and `keys` (the data directory). The writer never uploads,
//! never queries, and lets nobody read its tail.

mod api;
mod config;
mod context;
mod disk;
mod fault;
mod handle;
mod ids;
mod keys;
mod metrics;
mod node;
mod recovery;
mod router;
mod sealed;
mod sealer;
mod shard;
mod signed;
mod stage;
mod start;
mod tail;
mod window;

#[cfg(test)]
mod tests;

pub use api::openapi;
pub use config::{Args, Config, Fsync, SettingError, SignerAt};
pub use keys::KeyError;
pub use node::NodeError;
pub use recovery::RecoveryError;
pub use sealcast_common::seams::Seams;
pub use sealer::SealError;
pub use signed::Discord;
pub use start::{Ended, Handle, RunError, StartError, start};
