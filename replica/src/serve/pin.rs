//! Which snapshot a query is pinned to, and when there is none fresh enough.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use sealcast_common::fault::Kind;
use sealcast_common::serve::Problem;
use sealcast_common::serve::access::Grant;
use sealcast_common::wire::Token;
use sealcast_vault::VaultSnapshot;

use super::run::Node;

/// The snapshot of a query: the newest one that holds what `min` asks for, within `wait_ms`; the one
/// that was there at `as_of`, if that is asked for.
pub(crate) async fn pin(
    node: &Node,
    (min, wait_ms): (Option<&Token>, Option<u64>),
    as_of: Option<&str>,
    grant: &Grant,
) -> Result<Arc<VaultSnapshot>, Problem> {
    let as_of = as_of.map(|text| node.as_of_key.open(text, grant)).transpose()?;
    let Some(then) = as_of else { return newest(node, (min, wait_ms), grant).await };
    // A replica that is behind waits, as for a page's cursor.
    let wanted = then.token.clone().and(min);
    let now = newest(node, (Some(&wanted), wait_ms), grant).await?;
    then.of(&now).map(Arc::new)
}

async fn newest(
    node: &Node,
    (min, wait_ms): (Option<&Token>, Option<u64>),
    grant: &Grant,
) -> Result<Arc<VaultSnapshot>, Problem> {
    let Some(token) = min else { return Ok(node.vault.snapshot()) };
    let wait_ms = wait_ms.unwrap_or(node.config.wait_ms);
    let held = node.vault.wait_for(token, Duration::from_millis(wait_ms)).await;
    held.map_err(|held| {
        let detail = format!("replica does not hold what min or as_of names within {wait_ms} ms");
        let problem = Problem::new(Kind::Conflict, "not_yet_replicated", detail)
            .status(StatusCode::PRECONDITION_FAILED);
        // Sizes of shards count the rows of others.
        if grant.is_limited() {
            return problem.retry_after(1).hint("retry as it was");
        }
        problem
            .with("vector", serde_json::json!(held.vector))
            .with("wanted", serde_json::json!(token.0))
            .with("token", Token(held.vector.clone()).to_text())
            .with("lag_ms", serde_json::json!(held.lag()))
            .retry_after(1)
            .hint(
                "retry with the same min; is the shipper running, and does it follow this writer?",
            )
    })
}
