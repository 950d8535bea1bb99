//! The routes: `/v1/sql`, `/v1/queries`, `/v1/status`, probes.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{DefaultBodyLimit, Path, Query, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, Version, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use bytes::Bytes;
use sealcast_common::fault::Kind;
use sealcast_common::limits::SQL_BYTES_MAX;
use sealcast_common::serve::access::{Caller, Role, only};
use sealcast_common::serve::{Problem, probe_routes};
use sealcast_common::wire::Token;
use serde_json::{Value, json};
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{NotForContentType, Predicate as _, SizeAbove};
use uuid::Uuid;

use super::body::{AnswerBody, COMPLETE, ROWS};
use super::format::Format;
use super::params::{QueryRequest, Stated, from_body, unknown_key};
use super::run::{Head, Node, snapshot_id, start};

const ROUTES: &str = "GET and POST /v1/sql, /api/v3/query_sql, GET /v1/events, /v1/events/{event_id}, GET /v1/queries, GET and DELETE /v1/queries/{id}, \
    POST /v1/proofs, GET /v1/proofs/{shard}/{seq}, /v1/proofs/consistency, /v1/proofs/range, \
    GET /log/{shard}/checkpoint, /log/{shard}/tile/…, GET /v1/status, /livez, /readyz, /metrics, /openapi.json, /docs";
/// A body: the statement, its parameters, and what JSON adds to them.
const BODY_BYTES_MAX: usize = 4 * SQL_BYTES_MAX;

/// Who may look at queries: at one's own, or, with the role `admin`, at all.
const WATCH: &[Role] = &[Role::Query, Role::Admin];

/// All routes of a replica.
pub(crate) fn router(node: Arc<Node>) -> Router {
    let health = node.health.clone();
    Router::new()
        .route("/v1/sql", only(&[Role::Query], get(get_sql).merge(post(post_sql))))
        .route("/v1/queries", only(WATCH, get(list_queries)))
        .route("/v1/queries/{id}", only(WATCH, get(show_query).delete(cancel_query)))
        .route("/v1/status", only(&[Role::Admin], get(status)))
        .merge(super::influx::routes())
        .merge(crate::pages::routes())
        .merge(super::proofs::routes())
        .merge(super::logs::routes())
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(compression())
        .with_state(Arc::clone(&node))
        .merge(crate::flight::routes(&node))
        .merge(probe_routes(health))
        .merge(super::openapi().routes())
        .fallback(async |method: Method, uri: Uri| {
            Problem::unknown_route(&method, uri.path(), ROUTES)
        })
        .method_not_allowed_fallback(async |method: Method, uri: Uri| {
            Problem::wrong_method(&method, uri.path(), ROUTES)
        })
}

type Url = Result<Query<Stated>, QueryRejection>;

fn stated(url: Url) -> Result<Stated, Problem> {
    url.map(|Query(stated)| stated).map_err(|rejection| unknown_key("url", &rejection.body_text()))
}

async fn get_sql(
    State(node): State<Arc<Node>>,
    caller: Caller,
    version: Version,
    headers: HeaderMap,
    url: Url,
) -> Result<Response, Problem> {
    answer(&node, stated(url)?, (version, &headers), caller).await
}

async fn post_sql(
    State(node): State<Arc<Node>>,
    caller: Caller,
    version: Version,
    headers: HeaderMap,
    url: Url,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    let body = body.map_err(|rejection| body_invalid(&rejection))?;
    let said = from_body(&headers, &body)?.or(stated(url)?);
    answer(&node, said, (version, &headers), caller).await
}

pub(super) fn body_invalid(rejection: &BytesRejection) -> Problem {
    let problem = Problem::new(Kind::Invalid, "body_invalid", rejection.body_text());
    problem.status(rejection.status()).hint(format!("at most {BODY_BYTES_MAX} bytes"))
}

async fn answer(
    node: &Arc<Node>,
    said: Stated,
    (version, headers): (Version, &HeaderMap),
    Caller(grant): Caller,
) -> Result<Response, Problem> {
    give(node, said.validate(headers, grant)?, version).await
}

/// Answers `request` over HTTP of this version.
pub(super) async fn give(
    node: &Arc<Node>,
    request: QueryRequest,
    version: Version,
) -> Result<Response, Problem> {
    let format = request.format;
    // There a body ends where the connection does, and so would one that breaks.
    if version < Version::HTTP_11 && !(format.ends_itself() || request.end_marker) {
        let detail = "HTTP/1.0 cannot tell whether an answer in this format is whole";
        return Err(Problem::new(Kind::Invalid, "http_version_unsupported", detail)
            .status(StatusCode::HTTP_VERSION_NOT_SUPPORTED)
            .hint("use HTTP/1.1 (nginx: proxy_http_version 1.1), or say end_marker=true"));
    }
    let (head, parts) = start(node, request).await?;
    Ok(respond(&head, format, AnswerBody::new(parts)))
}

fn respond(head: &Head, format: Format, body: AnswerBody) -> Response {
    let mut response = match head.not_modified {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => Body::new(body).into_response(),
    };
    head_of(head, response.headers_mut());
    if !head.not_modified {
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(format.media_type()));
        let trailers = format!("{COMPLETE}, {ROWS}");
        headers.insert(
            header::TRAILER,
            HeaderValue::from_str(&trailers).unwrap_or_else(|_| HeaderValue::from_static("")),
        );
    }
    response
}

/// What is told of an answer before its body.
pub(crate) fn head_of(head: &Head, headers: &mut HeaderMap) {
    let etag = head.etag.iter().map(|etag| ("etag", etag.clone()));
    for (name, value) in head.told().into_iter().chain(etag) {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
    // Never from a cache without asking: what is newest changes, and rights do too.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    headers.insert(header::VARY, HeaderValue::from_static("accept, authorization, sealcast-min"));
}

/// Gzip for those who accept it, except what is compressed in itself. A broken body stays one.
fn compression() -> CompressionLayer<impl tower_http::compression::Predicate> {
    let worth = SizeAbove::new(256).and(NotForContentType::new(Format::Parquet.media_type()));
    CompressionLayer::new().compress_when(worth)
}

async fn list_queries(State(node): State<Arc<Node>>, Caller(grant): Caller) -> Json<Value> {
    Json(json!({ "queries": node.queries.list(&grant) }))
}

fn unknown_query(id: &str) -> Problem {
    let shown: String = id.chars().take(64).collect();
    Problem::new(Kind::Invalid, "unknown_query", format!("query {shown} is not known here"))
        .status(StatusCode::NOT_FOUND)
        .hint("a node knows its running queries and the last 256 that ended")
}

async fn show_query(
    State(node): State<Arc<Node>>,
    Caller(grant): Caller,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let known = Uuid::try_parse(&id).ok().and_then(|uuid| node.queries.get(uuid, &grant));
    known.map(|info| Json(info).into_response()).ok_or_else(|| unknown_query(&id))
}

async fn cancel_query(
    State(node): State<Arc<Node>>,
    Caller(grant): Caller,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let uuid = Uuid::try_parse(&id).map_err(|_| unknown_query(&id))?;
    if let Some(info) = node.queries.cancel(uuid, &grant) {
        return Ok((StatusCode::ACCEPTED, Json(info)).into_response());
    }
    // It has ended already: nothing to cancel, and no error either.
    node.queries
        .get(uuid, &grant)
        .map(|info| Json(info).into_response())
        .ok_or_else(|| unknown_query(&id))
}

async fn status(State(node): State<Arc<Node>>) -> Json<Value> {
    let snapshot = node.vault.snapshot();
    let rows: u64 = snapshot.segments.iter().map(|e| u64::from(e.descriptor.id.rows)).sum();
    Json(json!({
        "replica": node.id,
        "version": env!("CARGO_PKG_VERSION"),
        "started_at": node.started_at.to_rfc3339(),
        "ready": node.health.reasons().is_empty(),
        "reasons": node.health.reasons(),
        "snapshot": snapshot_id(&snapshot),
        "vector": snapshot.vector,
        "token": Token(snapshot.vector.clone()).to_text(),
        "rows": rows,
        "vault": node.vault.status(),
    }))
}
