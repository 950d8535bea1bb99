//! What the replica counts. Names are stable: dashboards rest on them (docs/operating.md).

use std::time::Duration;

use sealcast_common::fault::Kind;

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

/// A query got a problem document instead of an answer; `code` is one of those in docs/http.md.
pub(crate) fn query_refused(code: &'static str) {
    metrics::counter!("sealcast_replica_query_refusals_total", "code" => code).increment(1);
}

/// A call of Flight was answered; `code` is `ok` or as in [`query_refused`].
pub(crate) fn flight_call(call: &'static str, code: &str) {
    let code = code.to_owned();
    metrics::counter!("sealcast_replica_flight_calls_total", "call" => call, "code" => code)
        .increment(1);
}

/// A statement of PostgreSQL's protocol was answered; `code` is as in [`flight_call`], or `refused`
/// by the protocol itself.
pub(crate) fn postgres_statement(code: &'static str) {
    metrics::counter!("sealcast_replica_postgres_statements_total", "code" => code).increment(1);
}

/// A client of PostgreSQL's protocol has logged in, or not: `code` is `ok` or an SQLSTATE.
pub(crate) fn postgres_login(code: &'static str) {
    metrics::counter!("sealcast_replica_postgres_logins_total", "code" => code).increment(1);
}

/// A connection of PostgreSQL's protocol that has logged in, as long as this lives.
#[derive(Debug)]
pub(crate) struct PostgresConnection(());

impl PostgresConnection {
    pub(crate) fn new() -> Self {
        metrics::gauge!("sealcast_replica_postgres_connections").increment(1.0);
        PostgresConnection(())
    }
}

impl Drop for PostgresConnection {
    fn drop(&mut self) {
        metrics::gauge!("sealcast_replica_postgres_connections").decrement(1.0);
    }
}

/// Proofs were asked for; `outcome` is `given`, `refused`, `unavailable`, `corrupt` or `failed`.
pub(crate) fn proofs(count: u64, outcome: &'static str) {
    metrics::counter!("sealcast_replica_proofs_total", "outcome" => outcome).increment(count);
}

/// How a refusal of this kind is counted.
pub(crate) fn outcome(kind: Kind) -> &'static str {
    match kind {
        Kind::Invalid | Kind::Conflict => "refused",
        Kind::Unavailable | Kind::Overloaded => "unavailable",
        Kind::Corrupt => "corrupt",
        Kind::Internal => "failed",
    }
}

/// A request for proofs was answered, one way or another.
pub(crate) fn proofs_took(took: Duration) {
    metrics::histogram!("sealcast_replica_proof_seconds").record(took.as_secs_f64());
}

/// The client has the answer already.
pub(crate) fn answer_not_modified() {
    metrics::counter!("sealcast_replica_not_modified_total").increment(1);
}

/// A query has read so many bytes of columns.
pub(crate) fn query_scanned(bytes: u64) {
    metrics::counter!("sealcast_replica_query_scanned_bytes_total").increment(bytes);
}

/// A chunk of an answer, before compression.
pub(crate) fn query_answered(bytes: u64) {
    metrics::counter!("sealcast_replica_query_result_bytes_total").increment(bytes);
}

/// What queries hold at this moment.
pub(crate) fn queries_hold(memory_bytes: usize, spilled_bytes: u64, tasks: usize) {
    metrics::gauge!("sealcast_replica_query_memory_bytes").set(memory_bytes as f64);
    metrics::gauge!("sealcast_replica_query_spilled_bytes").set(spilled_bytes as f64);
    metrics::gauge!("sealcast_replica_query_tasks").set(tasks as f64);
}

/// A query that waits for its turn, as long as this lives.
#[derive(Debug)]
pub(crate) struct Queued(());

impl Queued {
    pub(crate) fn new() -> Self {
        metrics::gauge!("sealcast_replica_queries_queued").increment(1.0);
        Queued(())
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        metrics::gauge!("sealcast_replica_queries_queued").decrement(1.0);
    }
}
