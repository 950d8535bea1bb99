//! Queries of the process that runs the replica, without HTTP: what benchmarks compare with
//! databases that are libraries.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use futures::TryStreamExt as _;
use sealcast_common::serve::access::Grant;

use crate::Handle;
use crate::sql::{QueryError, QueryScope, SystemSource};

impl Handle {
    /// Runs `sql` on the newest snapshot, on the threads of queries, and collects the answer.
    pub async fn collect(&self, sql: &str) -> Result<Vec<RecordBatch>, QueryError> {
        let (node, sql) = (Arc::clone(&self.node), sql.to_owned());
        let work = async move {
            let system: Arc<dyn SystemSource> = Arc::<crate::serve::Node>::clone(&node);
            let grant = Arc::new(Grant::open());
            let scope = Arc::new(QueryScope::new(node.vault.snapshot(), false, system, grant));
            let prepared = node.engine.prepare(&sql, None, &scope).await?;
            Ok(prepared.execute()?.try_collect().await?)
        };
        let ended = self.node.threads.spawn(work).await;
        ended.unwrap_or_else(|error| Err(QueryError::Panicked(error.to_string())))
    }
}
