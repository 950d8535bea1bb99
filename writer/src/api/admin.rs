//! `POST /v1/admin/flush` and `GET /v1/shards`: what is sealed, what is shipped.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use sealcast_common::checked;
use sealcast_common::fault::{Kind, hex};
use sealcast_common::limits::WAIT_MS_MAX;
use sealcast_common::routing::FIRST_ROUTING_VERSION;
use sealcast_common::serve::Problem;
use sealcast_common::wire::{
    FlushResponse, ShardStatus, ShardsResponse, ShippedFile, Token, Vector,
};

use super::query::{bad, parameters};
use super::{Api, problems};

/// How long a flush waits unless told otherwise, milliseconds.
const FLUSH_WAIT_MS: u64 = 30_000;
/// How often the shipper's mark is read while somebody waits for it.
const SHIPPED_POLL: Duration = Duration::from_millis(100);

/// What a flush waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    Sealed,
    Shipped,
}

fn asked(uri: &Uri) -> Result<(Wait, u64), Problem> {
    let (mut wait, mut timeout_ms) = (Wait::Sealed, FLUSH_WAIT_MS);
    for (name, value) in parameters(uri, &["wait", "timeout_ms"])? {
        match (name.as_str(), value.as_str()) {
            ("wait", "sealed") => wait = Wait::Sealed,
            ("wait", "shipped") => wait = Wait::Shipped,
            ("wait", _) => return Err(bad(&name, &value, "sealed or shipped")),
            _ => match value.parse() {
                Ok(ms) if ms <= WAIT_MS_MAX => timeout_ms = ms,
                _ => return Err(bad(&name, &value, &format!("0 to {WAIT_MS_MAX}"))),
            },
        }
    }
    Ok((wait, timeout_ms))
}

/// The handler of `POST /v1/admin/flush`.
pub(super) async fn flush(
    State(api): State<Arc<Api>>,
    uri: Uri,
) -> Result<Json<FlushResponse>, Problem> {
    let (wait, timeout_ms) = asked(&uri)?;
    let deadline = tokio::time::sleep(Duration::from_millis(timeout_ms));
    tokio::pin!(deadline);
    let answers = tokio::select! {
        biased;
        answers = api.router.flush() => answers,
        () = &mut deadline => {
            let hint = "ask again; a seal that fails is a note of /readyz, with its cause";
            let late = late("not_sealed_in_time", "sealed", timeout_ms, &api.router.sealed());
            return Err(late.hint(hint));
        }
    };
    let (mut segments, mut vector) = (0, Vector::new());
    for (shard, answer) in answers {
        match answer {
            Some(Ok((sealed, size))) => {
                segments += sealed;
                vector.insert(shard, size);
            }
            Some(Err(fault)) => {
                return Err(problems::faulty(shard, &fault, "its tail is not sealed"));
            }
            None => return Err(problems::draining()),
        }
    }
    let token = Token(vector);
    while wait == Wait::Shipped && !token.is_held_by(&shipped(&api).await) {
        tokio::select! {
            biased;
            () = &mut deadline => {
                let hint = "is the shipper running? ask again, or wait for the token with min= at \
                            a replica";
                let late = late("not_shipped_in_time", "shipped", timeout_ms, &token.0);
                return Err(late.hint(hint));
            }
            () = tokio::time::sleep(SHIPPED_POLL) => {}
        }
    }
    Ok(Json(FlushResponse {
        segments,
        token: token.to_text(),
        vector: token.0,
        shipped: wait == Wait::Shipped,
    }))
}

fn late(code: &'static str, what: &str, timeout_ms: u64, vector: &Vector) -> Problem {
    Problem::new(Kind::Unavailable, code, format!("tails are not {what} within {timeout_ms} ms"))
        .status(StatusCode::GATEWAY_TIMEOUT)
        .with("vector", serde_json::to_value(vector).unwrap_or_default())
        .with("token", Token(vector.clone()).to_text())
}

/// What the shipper says is committed. Its file is replaced as a whole; none, a damaged one, or
/// another stream's says nothing.
async fn shipped(api: &Api) -> Vector {
    let Ok(text) = tokio::fs::read(&api.shipped_file).await else { return Vector::new() };
    match checked::parse::<ShippedFile>("shipped_file", &text) {
        Ok(file) if file.stream == api.node => file.vector,
        _ => Vector::new(),
    }
}

/// The handler of `GET /v1/shards`.
pub(super) async fn shards(
    State(api): State<Arc<Api>>,
    uri: Uri,
) -> Result<Json<ShardsResponse>, Problem> {
    parameters(&uri, &[])?;
    let shipped = shipped(&api).await;
    let shards = api.router.shards().map(|handle| {
        let view = handle.view.borrow().clone();
        ShardStatus {
            shard: handle.shard,
            origin: handle.origin.clone(),
            state: view.fault.as_ref().map_or("active", |fault| fault.kind.word()).to_owned(),
            size: view.size,
            sealed: view.sealed,
            shipped: shipped.get(&handle.shard).copied().unwrap_or(0),
            root: hex(&view.root),
            key: handle.key.clone(),
            cause: view.fault.map(|fault| fault.cause),
        }
    });
    Ok(Json(ShardsResponse {
        cluster: api.cluster.clone(),
        node: api.node.clone(),
        routing_version: FIRST_ROUTING_VERSION,
        fsync: api.fsync.word().to_owned(),
        shards: shards.collect(),
    }))
}
