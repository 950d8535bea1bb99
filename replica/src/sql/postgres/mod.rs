//! What clients of PostgreSQL ask beside their queries: `pg_catalog`, its functions, its ways to
//! write things. Only sessions of that protocol see it (docs/decisions/0012-postgres.md).
//!
//! Reading order: `rewrite` (statements that the engine cannot plan as they stand) with `empty`
//! (those that have no rows for certain), `tables` and `rows` (the catalog: the same for every
//! caller, because it tells of columns, never of rows), `functions`, `types`.

mod empty;
mod functions;
mod rewrite;
mod rows;
mod tables;
mod types;

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::error::Result;

use super::session::QueryScope;

pub(super) use functions::register;
pub(super) use rewrite::rewrite;
pub use rows::SETTINGS;
pub use types::{Oid, PgType, pg_type};

/// The schema of PostgreSQL's own tables.
pub(super) const PG_SCHEMA: &str = "pg_catalog";
/// The one role that clients are told of: who may see what is the token's matter.
pub const ROLE: &str = "sealcast";
/// The version whose catalog this is.
pub const SERVER_VERSION: &str = concat!("15.0 (Sealcast ", env!("CARGO_PKG_VERSION"), ")");

/// See the module.
#[derive(Debug)]
pub(super) struct PgSchema {
    pub(super) scope: Arc<QueryScope>,
}

#[async_trait]
impl SchemaProvider for PgSchema {
    fn table_names(&self) -> Vec<String> {
        tables::names().map(str::to_owned).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        rows::table(name, &self.scope)
    }

    fn table_exist(&self, name: &str) -> bool {
        tables::columns(name).is_some()
    }
}
