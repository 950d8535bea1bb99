//! The shipper's HTTP: status, the stream's events, and a request to ship now.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::{Method, Uri};
use axum::response::Sse;
use axum::response::sse::{Event, KeepAlive};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures::Stream;
use sealcast_common::clock::Clock;
use sealcast_common::fault::Kind;
use sealcast_common::limits::WAIT_MS_MAX;
use sealcast_common::serve::access::{Caller, Denied, Role, only};
use sealcast_common::serve::{Health, Problem, probe_routes};
use serde::Deserialize;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Sleep;
use tokio_util::sync::CancellationToken;

use crate::status::{Board, Shipped, Status};
use crate::writer::WriterClient;

const ROUTES: &str = "GET /v1/status, GET /v1/streams/{stream}/events, POST /v1/ship, \
                      GET /livez, GET /readyz, GET /metrics, GET /openapi.json, /docs";
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// After so long a listener shows its token again: it may have been revoked.
const FEED_LIFETIME: Duration = Duration::from_secs(3_600);

/// Somebody waits for what is sealed now to be committed.
pub(crate) type Order = oneshot::Sender<Result<Shipped, Problem>>;

/// What handlers share.
#[derive(Clone, Debug)]
pub(crate) struct Api {
    pub(crate) board: Board,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) orders: mpsc::Sender<Order>,
    pub(crate) writer: Option<WriterClient>,
    /// Cancelled when the server ends: streams of events must end first.
    pub(crate) closing: CancellationToken,
}

/// All routes.
pub(crate) fn router(api: Api, health: Health) -> Router {
    Router::new()
        .route("/v1/status", only(&[Role::Admin], get(status)))
        .route("/v1/streams/{stream}/events", only(&Role::ALL, get(events)))
        .route("/v1/ship", only(&[Role::Admin], post(ship)))
        .with_state(api)
        .merge(probe_routes(health))
        .merge(crate::openapi().routes())
        .fallback(|method: Method, uri: Uri| async move {
            Problem::unknown_route(&method, uri.path(), ROUTES)
        })
        .method_not_allowed_fallback(|method: Method, uri: Uri| async move {
            Problem::wrong_method(&method, uri.path(), ROUTES)
        })
}

async fn status(State(api): State<Api>) -> Json<Status> {
    Json(api.board.read(api.clock.now()))
}

/// Hints count rows of all tenants: whoever is limited to some gets none, except to operate.
async fn events(
    State(api): State<Api>,
    Caller(grant): Caller,
    Path(stream): Path<String>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    if !grant.sees_details() {
        return Err(Denied::RoleMissing(&[Role::Admin]).problem());
    }
    let ours = api.board.listen().borrow().stream.clone();
    if ours.is_empty() {
        let detail = "the stream is not known yet: the writer has not started";
        return Err(Problem::new(Kind::Unavailable, "starting", detail).retry_after(1));
    }
    if stream != ours {
        let detail = format!("stream is not shipped here: expected {ours}");
        let problem = Problem::new(Kind::Invalid, "unknown_stream", detail);
        return Err(problem.status(axum::http::StatusCode::NOT_FOUND));
    }
    let lifetime = Box::pin(tokio::time::sleep(FEED_LIFETIME));
    let (status, closing) = (api.board.listen(), api.closing);
    let feed = Feed { status, told: None, closing, lifetime, closed: false };
    let events = futures::stream::unfold(feed, Feed::next);
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}

/// One listener: the hint now, then one per commit; a slow one skips to the newest. At the end it
/// hears why.
struct Feed {
    status: watch::Receiver<Status>,
    told: Option<u64>,
    closing: CancellationToken,
    lifetime: Pin<Box<Sleep>>,
    closed: bool,
}

impl Feed {
    async fn next(mut self) -> Option<(Result<Event, Infallible>, Self)> {
        if self.closed {
            return None;
        }
        let told = self.told;
        let news = async {
            let news = self.status.wait_for(|status| told != Some(status.seq)).await;
            news.ok().map(|status| status.hint())
        };
        let news = tokio::select! {
            news = self.closing.run_until_cancelled(news) => news.flatten(),
            () = self.lifetime.as_mut() => None,
        };
        let Some(hint) = news else {
            self.closed = true;
            let state = self.status.borrow().state.clone();
            return Some((Ok(Event::default().event("closed").data(state)), self));
        };
        self.told = Some(hint.seq);
        let text = serde_json::to_string(&hint).unwrap_or_default();
        Some((Ok(Event::default().id(hint.seq.to_string()).data(text)), self))
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ShipQuery {
    flush: bool,
}

async fn ship(
    State(api): State<Api>,
    query: Result<Query<ShipQuery>, QueryRejection>,
) -> Result<Json<Shipped>, Problem> {
    let Query(query) = query.map_err(|rejection| {
        Problem::new(Kind::Invalid, "invalid_parameter", rejection.body_text())
            .hint("the only parameter is flush=true")
    })?;
    if query.flush {
        flush(&api).await?;
    }
    let (order, reply) = oneshot::channel();
    api.orders.try_send(order).map_err(|refused| match refused {
        mpsc::error::TrySendError::Full(_) => {
            Problem::new(Kind::Overloaded, "too_many_requests", "too many requests are waiting")
                .retry_after(1)
        }
        mpsc::error::TrySendError::Closed(_) => stopped(),
    })?;
    match tokio::time::timeout(Duration::from_millis(WAIT_MS_MAX), reply).await {
        Ok(Ok(answer)) => answer.map(Json),
        Ok(Err(_)) => Err(stopped()),
        Err(_) => {
            let detail = format!("not everything is committed after {WAIT_MS_MAX} ms; it goes on");
            Err(Problem::new(Kind::Unavailable, "ship_timeout", detail).retry_after(1))
        }
    }
}

async fn flush(api: &Api) -> Result<(), Problem> {
    let Some(writer) = &api.writer else {
        let detail = "the writer's address is not known here";
        let problem = Problem::new(Kind::Invalid, "writer_not_configured", detail);
        return Err(problem.hint("set writer = \"http://HOST:7070\", or flush at the writer"));
    };
    let flushed = writer.flush().await;
    let failed = |error: crate::writer::WriterError| {
        Problem::new(Kind::Unavailable, "writer_unavailable", error.to_string()).retry_after(1)
    };
    flushed.map(|_| ()).map_err(failed)
}

fn stopped() -> Problem {
    let detail = "the shipper is ending; see /readyz and its log";
    Problem::new(Kind::Unavailable, "stopping", detail)
}
