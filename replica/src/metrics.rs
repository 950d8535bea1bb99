//! What the replica counts. Names are stable: dashboards rest on them.

use std::time::Duration;

use crate::queries::QueryState;

/// A query began to run or to wait.
pub(crate) fn query_started() {
    metrics::gauge!("sealcast_replica_queries_running").increment(1.0);
}

/// A query ended, one way or another.
pub(crate) fn query_ended(state: QueryState, took: Duration, rows: u64) {
    metrics::gauge!("sealcast_replica_queries_running").decrement(1.0);
    metrics::counter!("sealcast_replica_queries_total", "state" => state.as_str()).increment(1);
    metrics::counter!("sealcast_replica_query_rows_total").increment(rows);
    metrics::histogram!("sealcast_replica_query_seconds").record(took.as_secs_f64());
}
