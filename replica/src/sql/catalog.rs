//! The names that a query can see: `events` and its views, the schema `sealcast`, nothing else.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, CatalogProviderList, SchemaProvider, TableProvider};
use datafusion::error::Result;

use super::postgres::{PG_SCHEMA, PgSchema};
use super::session::{Dialect, QueryScope};
use super::system;
use super::table::EventsTable;
use super::views::{VIEWS, view};

/// The catalog, which clients call the database.
pub const CATALOG: &str = "sealcast";
/// The schema of `events`, which nobody has to write.
pub const EVENTS_SCHEMA: &str = "public";
/// The schema of the system tables.
pub const SYSTEM_SCHEMA: &str = "sealcast";

/// Every table, as people write its name.
pub(crate) fn tables() -> impl Iterator<Item = String> {
    let system = system::TABLES.iter().map(|name| format!("{SYSTEM_SCHEMA}.{name}"));
    ["events"].into_iter().chain(VIEWS).map(str::to_owned).chain(system)
}

/// Catalog list, catalog: one object, made for one query.
#[derive(Clone, Debug)]
pub(super) struct QueryCatalog {
    pub(super) scope: Arc<QueryScope>,
}

impl CatalogProviderList for QueryCatalog {
    fn register_catalog(
        &self,
        _: String,
        _: Arc<dyn CatalogProvider>,
    ) -> Option<Arc<dyn CatalogProvider>> {
        None
    }

    fn catalog_names(&self) -> Vec<String> {
        vec![CATALOG.to_owned()]
    }

    fn catalog(&self, name: &str) -> Option<Arc<dyn CatalogProvider>> {
        (name == CATALOG).then(|| Arc::new(self.clone()) as Arc<dyn CatalogProvider>)
    }
}

impl CatalogProvider for QueryCatalog {
    /// Without [`PG_SCHEMA`]: it is there to be asked, not to be listed.
    fn schema_names(&self) -> Vec<String> {
        vec![EVENTS_SCHEMA.to_owned(), SYSTEM_SCHEMA.to_owned()]
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        let scope = Arc::clone(&self.scope);
        match name {
            EVENTS_SCHEMA => Some(Arc::new(EventsSchema { scope })),
            SYSTEM_SCHEMA => Some(Arc::new(SystemSchema { scope })),
            PG_SCHEMA if scope.dialect == Dialect::Postgres => Some(Arc::new(PgSchema { scope })),
            _ => None,
        }
    }
}

#[derive(Debug)]
struct EventsSchema {
    scope: Arc<QueryScope>,
}

#[async_trait]
impl SchemaProvider for EventsSchema {
    fn table_names(&self) -> Vec<String> {
        ["events"].into_iter().chain(VIEWS).map(str::to_owned).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        match name {
            "events" => Ok(Some(Arc::new(EventsTable::new(Arc::clone(&self.scope))))),
            _ => view(name, &self.scope),
        }
    }

    fn table_exist(&self, name: &str) -> bool {
        name == "events" || VIEWS.contains(&name)
    }
}

#[derive(Debug)]
struct SystemSchema {
    scope: Arc<QueryScope>,
}

#[async_trait]
impl SchemaProvider for SystemSchema {
    fn table_names(&self) -> Vec<String> {
        system::TABLES.map(str::to_owned).to_vec()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        system::table(name, &self.scope)
    }

    fn table_exist(&self, name: &str) -> bool {
        system::TABLES.contains(&name)
    }
}
