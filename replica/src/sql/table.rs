//! The table `events`: which segments a query needs, and what is known of them without reading.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::TreeNode as _;
use datafusion::common::{DFSchema, Statistics};
use datafusion::datasource::TableType;
use datafusion::error::Result;
use datafusion::logical_expr::expr_rewriter::unnormalize_col;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_plan::ExecutionPlan;
use futures::StreamExt as _;
use sealcast_common::segment::schema::logical_schema;
use sealcast_common::serve::access::Grant;
use sealcast_vault::{SegmentEntry, SegmentState};

use super::error::NotBegun;
use super::prune::{Prune, kept};
use super::read::Shape;
use super::scan::SegmentScan;
use super::search::searching;
use super::session::{Missing, QueryScope};
use super::statistics::table_statistics;
use super::tenants::{self, TenantFilter};

/// The engine's own size of batches, rows.
const BATCH_ROWS_USUAL: usize = 8_192;
/// Segments opened at the same time to find out which are missing.
const OPEN_PARALLEL: usize = 4;

/// `events` of one query: pinned to its snapshot.
#[derive(Debug)]
pub(super) struct EventsTable {
    scope: Arc<QueryScope>,
}

impl EventsTable {
    pub(super) fn new(scope: Arc<QueryScope>) -> Self {
        EventsTable { scope }
    }

    /// With `allow_partial`: what can be opened. The rest is listed as missing, before the first
    /// row is given out.
    async fn available(&self, entries: Vec<Arc<SegmentEntry>>) -> Vec<Arc<SegmentEntry>> {
        let snapshot = &self.scope.snapshot;
        let opened = futures::stream::iter(entries)
            .map(|entry| async move {
                // What is open was judged already, and stays open as long as the snapshot's cache
                // does not need its place.
                if entry.state() == SegmentState::Mapped {
                    return (Ok(()), entry);
                }
                (snapshot.open(&entry).await.map(drop), entry)
            })
            .buffered(OPEN_PARALLEL);
        let opened: Vec<_> = opened.collect().await;
        let mut available = Vec::with_capacity(opened.len());
        for (opened, entry) in opened {
            match opened {
                Ok(()) => available.push(entry),
                Err(error) => {
                    let descriptor = &entry.descriptor;
                    self.scope.note_missing(Missing {
                        shard: descriptor.id.shard,
                        start: descriptor.id.start,
                        end: descriptor.end(),
                        reason: error.to_string(),
                    });
                }
            }
        }
        available
    }
}

/// Columns to read, and the filter over them.
fn shape(
    session: &dyn Session,
    grant: &Grant,
    projection: &[usize],
    filters: &[Expr],
) -> Result<Shape> {
    let table = logical_schema();
    let mut predicate: Option<Arc<dyn PhysicalExpr>> = None;
    if let Some(filter) = conjunction(filters.iter().cloned()) {
        // Pushed filters may name their table; here there is only one.
        let filter = unnormalize_col(filter);
        let schema = DFSchema::try_from(Arc::clone(&table))?;
        predicate = Some(session.create_physical_expr(filter, &schema)?);
    }
    let mut columns = projection.to_vec();
    if let Some(predicate) = &predicate {
        let mut filtered: Vec<usize> =
            collect_columns(predicate).iter().map(|column| column.index()).collect();
        filtered.sort_unstable();
        filtered.retain(|column| !columns.contains(column));
        columns.extend(filtered);
    }
    let own = grant.tenants.limited();
    let tenant = table.index_of(tenants::COLUMN)?;
    if own.is_some() && !columns.contains(&tenant) {
        columns.push(tenant);
    }
    let schema: SchemaRef = Arc::new(table.project(&columns)?);
    let predicate = predicate.map(|predicate| reassign_expr_columns(predicate, &schema));
    let predicate = predicate.transpose()?;
    let prune = predicate.as_ref().map(|predicate| Prune::new(predicate, &schema));
    let predicate = predicate.map(|predicate| searching(predicate, &schema));
    // Ordinary batches are given as the segments have them.
    let wanted = session.config().batch_size();
    let rows_max = if wanted < BATCH_ROWS_USUAL { wanted } else { usize::MAX };
    let output = (0..projection.len()).collect();
    let tenants = own.map(|names| TenantFilter::new(session, names, &schema)).transpose()?;
    Ok(Shape { columns, schema, output, predicate, prune, rows_max, tenants })
}

#[async_trait]
impl TableProvider for EventsTable {
    fn schema(&self) -> SchemaRef {
        logical_schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    /// Every filter that needs nothing but a row is applied to every row here.
    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        filters
            .iter()
            .map(|filter| {
                let needs_more = filter.exists(|expr| {
                    Ok(matches!(
                        expr,
                        Expr::ScalarSubquery(_)
                            | Expr::InSubquery(_)
                            | Expr::Exists(_)
                            | Expr::SetComparison(_)
                            | Expr::OuterReferenceColumn(..)
                            | Expr::Placeholder(_)
                    ))
                })?;
                Ok(if needs_more || filter.is_volatile() {
                    TableProviderFilterPushDown::Unsupported
                } else {
                    TableProviderFilterPushDown::Exact
                })
            })
            .collect()
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if !self.scope.snapshot.has_begun() {
            return Err(NotBegun.into());
        }
        if let Some(stale) = self.scope.stale {
            return Err(stale.into());
        }
        let all: Vec<usize> = (0..logical_schema().fields().len()).collect();
        let projection = projection.unwrap_or(&all);
        let shape = shape(session, &self.scope.grant, projection, filters)?;
        let own = shape.tenants.iter().map(|tenants| &tenants.prune);
        let prunes: Vec<&Prune> = shape.prune.iter().chain(own).collect();
        let mut entries = kept(&self.scope.snapshot.segments, &prunes);
        if let (Some(limit), None, None) = (limit, &shape.predicate, &shape.tenants) {
            entries.truncate(enough(&entries, limit));
        }
        if self.scope.allow_partial {
            entries = self.available(entries).await;
        }
        let filtered = shape.predicate.is_some() || limit.is_some();
        let statistics: Statistics = match shape.tenants {
            None => table_statistics(&entries, projection, filtered),
            // Every number there counts the rows of others.
            Some(_) => Statistics::new_unknown(&logical_schema().project(projection)?),
        };
        let partitions = session.config().target_partitions();
        let scope = Arc::clone(&self.scope);
        let scan = SegmentScan::new(scope, shape, entries, statistics, partitions)?;
        Ok(Arc::new(scan.with_limit(limit)))
    }
}

/// How many of `entries` hold `limit` rows.
fn enough(entries: &[Arc<SegmentEntry>], limit: usize) -> usize {
    let mut rows = 0;
    let before = entries.iter().take_while(|entry| {
        let wanted = rows < limit;
        rows += entry.descriptor.id.rows as usize;
        wanted
    });
    before.count()
}
