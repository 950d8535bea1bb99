//! The writer's HTTP surface: routes, and what every answer carries.
//!
//! Reading order: `ingest` (`POST /v1/events`), `body` (bytes → text), `split` (text → events),
//! `admin` (flush, shards), `query` (parameters), `problems` (errors → HTTP).

mod admin;
mod body;
mod ingest;
mod openapi;
mod problems;
mod query;
mod split;

pub(crate) use body::Bodies;
pub use openapi::openapi;

use std::path::PathBuf;
use std::sync::Arc;

use axum::Router as Routes;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, Uri};
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::routing::{get, post};
use sealcast_common::clock::{Clock, Random};
use sealcast_common::fault::Kind;
use sealcast_common::routing::FIRST_ROUTING_VERSION;
use sealcast_common::serve::access::{Role, only};
use sealcast_common::serve::{Health, Problem, probe_routes};
use tokio_util::sync::CancellationToken;

use crate::config::Fsync;
use crate::router::Router;

/// The header by which a client says, and an answer tells, under which routing it works.
const ROUTING_HEADER: &str = "sealcast-routing-version";
const ROUTES: &str = "POST /v1/events, POST /v1/admin/flush, GET /v1/shards, GET /livez, GET /readyz, \
                      GET /metrics, GET /openapi.json, /docs";

/// What the handlers share.
#[derive(Debug)]
pub(crate) struct Api {
    pub(crate) cluster: String,
    pub(crate) node: String,
    pub(crate) fsync: Fsync,
    pub(crate) router: Router,
    pub(crate) shipped_file: PathBuf,
    pub(crate) future_micros: i64,
    /// What bodies may take of memory and time.
    pub(crate) bodies: Bodies,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) random: Arc<dyn Random>,
    pub(crate) stop: CancellationToken,
}

impl Api {
    /// A client that was routed by another version is sent back to look again.
    fn check_route(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let Some(value) = headers.get(ROUTING_HEADER) else { return Ok(()) };
        let stated = value.to_str().unwrap_or("?");
        if stated.parse() == Ok(FIRST_ROUTING_VERSION) {
            return Ok(());
        }
        let detail = format!(
            "request was routed by version {stated:?}, this writer works by version \
             {FIRST_ROUTING_VERSION}; nothing was stored"
        );
        Err(Problem::new(Kind::Conflict, "stale_route", detail)
            .with("routing_version", FIRST_ROUTING_VERSION)
            .with("owner", self.node.clone())
            .hint("read the routing again, then send the request to the owner"))
    }
}

/// All routes of the writer.
pub(crate) fn routes(api: Arc<Api>, health: Health) -> Routes {
    let v1 = Routes::new()
        .route("/v1/events", only(&[Role::Ingest], post(ingest::post_events)))
        .route("/v1/admin/flush", only(&[Role::Admin], post(admin::flush)))
        .route("/v1/shards", only(&[Role::Admin], get(admin::shards)))
        .with_state(api);
    v1.merge(probe_routes(health))
        .merge(openapi().routes())
        .fallback(|method: Method, uri: Uri| async move {
            Problem::unknown_route(&method, uri.path(), ROUTES)
        })
        .method_not_allowed_fallback(|method: Method, uri: Uri| async move {
            Problem::wrong_method(&method, uri.path(), ROUTES)
        })
        .layer(from_fn(state_routing))
}

async fn state_routing(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    response.headers_mut().insert(ROUTING_HEADER, HeaderValue::from(FIRST_ROUTING_VERSION));
    response
}
