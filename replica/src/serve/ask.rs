//! What every request for proofs has in common: which state it is about, and its turn.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use axum::http::{HeaderMap, StatusCode};
use sealcast_common::fault::Kind;
use sealcast_common::limits::WAIT_MS_MAX;
use sealcast_common::serve::Problem;
use sealcast_common::serve::access::Grant;
use sealcast_common::wire::Token;
use sealcast_vault::VaultSnapshot;
use serde::Deserialize;
use tokio::task::JoinSet;

use super::error::{concealed, not_begun, problem, stale};
use super::params::token;
use super::pin::pin;
use super::run::Node;
use crate::metrics::{self, outcome};
use crate::sql::QueryError;

/// What a URL may say.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Asked {
    pub(super) shard: Option<u16>,
    pub(super) from: Option<u64>,
    pub(super) to: Option<u64>,
    pub(super) min: Option<String>,
    pub(super) wait_ms: Option<u64>,
    pub(super) allow_stale: Option<bool>,
}

/// Which state a proof is to be about.
#[derive(Debug, Default)]
pub(super) struct Wish {
    min: Option<Token>,
    wait_ms: Option<u64>,
    allow_stale: bool,
}

impl Wish {
    /// Whatever is here, however old.
    pub(super) fn any() -> Self {
        Wish { allow_stale: true, ..Wish::default() }
    }
}

fn invalid(detail: String) -> Problem {
    Problem::new(Kind::Invalid, "request_invalid", detail)
}

impl Asked {
    pub(super) fn of(url: Result<Query<Asked>, QueryRejection>) -> Result<Self, Problem> {
        let Query(asked) = url.map_err(|rejection| {
            invalid(format!("url asks for no proof: {}", rejection.body_text()))
                .hint("parameters: shard, from, to (decimal), min, wait_ms, allow_stale")
        })?;
        Ok(asked)
    }

    pub(super) fn shard(&self) -> Result<u16, Problem> {
        self.shard.ok_or_else(|| missing("shard"))
    }

    pub(super) fn from(&self) -> Result<u64, Problem> {
        self.from.ok_or_else(|| missing("from"))
    }

    pub(super) fn wish(self, headers: &HeaderMap) -> Result<Wish, Problem> {
        let header = headers.get("sealcast-min").and_then(|value| value.to_str().ok());
        let min = self.min.as_deref().or(header).map(token).transpose()?;
        if let Some(wait_ms) = self.wait_ms.filter(|wait_ms| *wait_ms > WAIT_MS_MAX) {
            let detail = format!("wait_ms is {wait_ms}; expected at most {WAIT_MS_MAX}");
            return Err(invalid(detail).with("field", "wait_ms"));
        }
        let allow_stale = self.allow_stale.unwrap_or(false);
        Ok(Wish { min, wait_ms: self.wait_ms, allow_stale })
    }
}

fn missing(field: &str) -> Problem {
    invalid(format!("{field} is missing in the url")).with("field", field)
}

/// Whole logs tell of everybody's rows: they are for those who may see all.
pub(super) fn for_all_tenants(grant: &Grant) -> Result<(), Problem> {
    if !grant.is_limited() {
        return Ok(());
    }
    let detail = "token is limited to some tenants; this tells of all rows of the shard";
    Err(Problem::new(Kind::Invalid, "tenant_denied", detail)
        .status(StatusCode::FORBIDDEN)
        .hint("GET /v1/proofs/{shard}/{seq} proves a row of your own"))
}

/// Does `work` on the state that is wished for, where queries run, in a turn of the caller's, for
/// as long as a query may take. Who leaves stops it.
pub(super) async fn prove<T: Send + 'static, F>(
    node: &Arc<Node>,
    grant: &Arc<Grant>,
    wish: Wish,
    work: impl FnOnce(Arc<VaultSnapshot>) -> F + Send + 'static,
) -> Result<T, Problem>
where
    F: Future<Output = Result<T, Problem>> + Send + 'static,
{
    let began = node.clock.monotonic();
    let answer = in_turn(node, grant, wish, work).await;
    let took = node.clock.monotonic().saturating_sub(began);
    metrics::proofs(1, answer.as_ref().map_or_else(|problem| outcome(problem.kind), |_| "given"));
    metrics::proofs_took(took);
    answer.map_err(|problem| if grant.is_limited() { concealed(problem) } else { problem })
}

async fn in_turn<T: Send + 'static, F>(
    node: &Arc<Node>,
    grant: &Arc<Grant>,
    wish: Wish,
    work: impl FnOnce(Arc<VaultSnapshot>) -> F + Send + 'static,
) -> Result<T, Problem>
where
    F: Future<Output = Result<T, Problem>> + Send + 'static,
{
    let place = node.gate.place(&grant.id)?;
    let snapshot = pin(node, (wish.min.as_ref(), wish.wait_ms), None, grant).await?;
    if !snapshot.has_begun() {
        return Err(not_begun());
    }
    if let Some(old) = node.stale().filter(|_| !wish.allow_stale) {
        return Err(stale(old));
    }
    let turn = node.gate.turn(place).await?;
    let mut working = JoinSet::new();
    let work = async move {
        let _turn = turn;
        work(snapshot).await
    };
    working.spawn_on(work, &node.threads);
    let timeout_ms = node.config.timeout_ms;
    tokio::select! {
        Some(ended) = working.join_next() => ended.unwrap_or_else(|error| {
            Err(problem(&QueryError::Panicked(error.to_string())))
        }),
        () = tokio::time::sleep(Duration::from_millis(timeout_ms)) => {
            Err(problem(&QueryError::Timeout { timeout_ms }))
        }
    }
}
