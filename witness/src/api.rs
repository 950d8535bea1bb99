//! The two routes of C2SP `tlog-witness`, and the probes that every role has.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures::StreamExt as _;
use sealcast_common::integrity::{Refusal, SIZE_MEDIA_TYPE, size_text};
use sealcast_common::serve::{Health, Problem, probe_routes};
use tokio::sync::Semaphore;

use crate::memory::{AddError, Memory};
use crate::metrics;

const ROUTES: &str =
    "POST /add-checkpoint, GET /{origin hash}/checkpoint, GET /livez, GET /readyz, GET /metrics";
/// 63 lines of proof and a note with some hundred signatures.
const BODY_BYTES_MAX: usize = 64 * 1024;
/// How long a body may take to arrive.
const BODY_TIME_MAX: Duration = Duration::from_secs(10);
/// Requests that are read or decided at one time; more are told to come again.
const REQUESTS_MAX: usize = 256;
const TEXT: &str = "text/plain; charset=utf-8";

#[derive(Clone, Debug)]
struct Api {
    memory: Arc<Memory>,
    places: Arc<Semaphore>,
}

/// All routes.
pub(crate) fn router(memory: Arc<Memory>, health: Health) -> Router {
    let api = Api { memory, places: Arc::new(Semaphore::new(REQUESTS_MAX)) };
    Router::new()
        .route("/add-checkpoint", post(add))
        .route("/{origin}/checkpoint", get(checkpoint))
        .with_state(api)
        .merge(probe_routes(health))
        .fallback(|method: Method, uri: Uri| async move {
            Problem::unknown_route(&method, uri.path(), ROUTES)
        })
        .method_not_allowed_fallback(|method: Method, uri: Uri| async move {
            Problem::wrong_method(&method, uri.path(), ROUTES)
        })
}

async fn add(State(api): State<Api>, body: Body) -> Response {
    let response = match api.places.try_acquire() {
        Ok(_place) => decided(&api, body).await,
        Err(_) => {
            let told = answer(StatusCode::TOO_MANY_REQUESTS, "too many requests at one time");
            ([(header::RETRY_AFTER, "1")], told).into_response()
        }
    };
    metrics::answered(response.status().as_u16());
    response
}

async fn decided(api: &Api, body: Body) -> Response {
    let body = match tokio::time::timeout(BODY_TIME_MAX, read(body)).await {
        Ok(Ok(body)) => body,
        Ok(Err(refused)) => return refused,
        Err(_) => return answer(StatusCode::REQUEST_TIMEOUT, "body did not arrive in 10 s"),
    };
    let memory = Arc::clone(&api.memory);
    let added = tokio::task::spawn_blocking(move || memory.add(&body)).await;
    match added {
        Ok(Ok(line)) => answer(StatusCode::OK, line),
        Ok(Err(AddError::Refused(Refusal::Conflict { size }))) => {
            let head = [(header::CONTENT_TYPE, SIZE_MEDIA_TYPE)];
            (StatusCode::CONFLICT, head, size_text(size)).into_response()
        }
        Ok(Err(AddError::Refused(refusal))) => {
            let status = StatusCode::from_u16(refusal.status());
            answer(status.unwrap_or(StatusCode::BAD_REQUEST), refusal.to_string())
        }
        Ok(Err(error)) => {
            tracing::error!(%error, "not cosigned");
            answer(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
        }
        Err(error) => {
            tracing::error!(%error, "not cosigned");
            answer(StatusCode::INTERNAL_SERVER_ERROR, "the witness is at fault; see its log")
        }
    }
}

/// The whole body as text, or why not.
async fn read(body: Body) -> Result<String, Response> {
    let (mut chunks, mut bytes) = (body.into_data_stream(), Vec::new());
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| answer(StatusCode::BAD_REQUEST, error.to_string()))?;
        if bytes.len() + chunk.len() > BODY_BYTES_MAX {
            let most = format!("body is larger than {BODY_BYTES_MAX} bytes");
            return Err(answer(StatusCode::PAYLOAD_TOO_LARGE, most));
        }
        bytes.extend(chunk);
    }
    String::from_utf8(bytes).map_err(|_| answer(StatusCode::BAD_REQUEST, "body is not UTF-8"))
}

async fn checkpoint(State(api): State<Api>, Path(hash): Path<String>) -> Response {
    // It may wait for a file that is being synced.
    let last = tokio::task::spawn_blocking(move || api.memory.last(&hash)).await;
    match last.unwrap_or_default() {
        Some(note) => answer(StatusCode::OK, note),
        None => answer(StatusCode::NOT_FOUND, "nothing of such a log was cosigned here"),
    }
}

fn answer(status: StatusCode, text: impl Into<String>) -> Response {
    let mut text = text.into();
    if !text.ends_with('\n') {
        text.push('\n');
    }
    (status, [(header::CONTENT_TYPE, TEXT)], text).into_response()
}
