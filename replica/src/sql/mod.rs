//! SQL over a vault's snapshot: the table, its scan, and a session that can do nothing else.
//!
//! Reading order: `statement` and `bounds` (what may be asked), `session` (one per query, pinned to a
//! snapshot), `table` (which segments survive), `prune` and `spans` (which rows of them), `scan`
//! and `read` (the plan's leaf), `rewrite` (ids as people write them), `bind` (parameters),
//! `catalog` and `system` (the other tables).

mod bind;
mod bounds;
mod catalog;
mod error;
mod prune;
mod read;
mod rewrite;
mod scan;
mod session;
mod spans;
mod statement;
mod statistics;
mod system;
mod table;

pub use bind::Params;
pub use error::{NotBegun, Position, QueryError, SegmentUnavailable};
pub use session::{Engine, EngineError, Limits, Missing, Prepared, QueryScope};
pub use system::{ReplicaInfo, SystemSource};
