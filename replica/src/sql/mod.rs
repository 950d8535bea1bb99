//! SQL over a vault's snapshot: the table, its scan, and a session that can do nothing else.
//!
//! Reading order: `statement` and `bounds` (what may be asked), `session` (one per query, pinned to a
//! snapshot) with `states`, `table` (which segments survive), `prune` and `spans` (which rows of them), `scan`
//! and `read` (the plan's leaf), with `search` and `needle` (text), `keep` (what a filter leaves),
//! `group` (labels by code) and `utc` (hours), `rewrite` (ids as people write them), `prove` (rows to proofs), `bind` (parameters), `bounded`
//! with `growth` and `memory` (what a query may take), `functions` with `cidr`, `catalog` with `views`,
//! `columns` and `system` (the other tables), `postgres` (what its clients ask).

mod bind;
mod bounded;
mod bounds;
mod catalog;
mod checked;
mod cidr;
mod columns;
mod error;
mod expansion;
mod functions;
mod group;
mod growth;
mod join_text;
mod keep;
mod memory;
mod needle;
mod postgres;
mod prove;
mod prune;
mod read;
mod repeatable;
mod rewrite;
mod scan;
mod search;
mod session;
mod spans;
mod statement;
mod states;
mod statistics;
mod stop;
mod system;
mod table;
mod tenants;
mod utc;
mod views;

pub use bind::Params;
pub(crate) use catalog::tables;
pub use catalog::{CATALOG, EVENTS_SCHEMA, SYSTEM_SCHEMA};
pub(crate) use columns::comment;
pub use error::{Bound, NotBegun, OverBound, Position, QueryError, SegmentUnavailable, Stale};
pub use postgres::{Oid, PgType, ROLE, SERVER_VERSION, SETTINGS, pg_type};
pub(crate) use read::unavailable;
pub use session::{
    Dialect, Engine, EngineError, Limits, Missing, Outline, Planned, Prepared, QueryLimits,
    QueryScope,
};
pub use system::{ReplicaInfo, SystemSource};
pub(crate) use views::VIEWS;
