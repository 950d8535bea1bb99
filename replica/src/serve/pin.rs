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

/// The snapshot of a query: the newest one that holds what `min` asks for, within `wait_ms`.
pub(crate) async fn pin(
    node: &Node,
    (min, wait_ms): (Option<&Token>, Option<u64>),
    grant: &Grant,
) -> Result<Arc<VaultSnapshot>, Problem> {
    let Some(token) = min else { return Ok(node.vault.snapshot()) };
    let wait_ms = wait_ms.unwrap_or(node.config.wait_ms);
    let held = node.vault.wait_for(token, Duration::from_millis(wait_ms)).await;
    held.map_err(|held| {
        let detail = format!("replica does not hold what min names within {wait_ms} ms");
        let problem = Problem::new(Kind::Conflict, "not_yet_replicated", detail)
            .status(StatusCode::PRECONDITION_FAILED);
        // Sizes of shards count the rows of others.
        if grant.is_limited() {
            return problem.retry_after(1).hint("retry with the same min");
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
