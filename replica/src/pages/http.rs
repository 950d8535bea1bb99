//! The routes, and one page's way: its place among the queries, its state of the log, its turn.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use axum::routing::get;
use sealcast_common::fault::{Kind, hex};
use sealcast_common::integrity::keyed_digest;
use sealcast_common::serve::Problem;
use sealcast_common::serve::access::{Caller, Grant, Role, only};
use sealcast_common::wire::Token;
use sealcast_vault::VaultSnapshot;
use tokio::task::JoinSet;
use uuid::Uuid;

use super::asked::{Asked, Stated};
use super::cursor::Cursor;
use super::page::{Bounds, Page, beginning, page};
use crate::metrics;
use crate::queries::{QueryState, RunningQuery};
use crate::serve::{Head, Node, concealed, etag_matches, head_of, not_begun, pin, problem, stale};
use crate::sql::{QueryError, QueryLimits, QueryScope, SystemSource};

/// Counts up when pages of the same rows get other bytes.
const PAGES_VERSION: u32 = 1;

/// The routes of pages.
pub(crate) fn routes() -> Router<Arc<Node>> {
    Router::new()
        .route("/v1/events", only(&[Role::Query], get(get_page)))
        .route("/v1/events/{event_id}", only(&[Role::Query], get(get_event)))
}

type Url = Result<Query<Stated>, QueryRejection>;

async fn get_page(
    State(node): State<Arc<Node>>,
    Caller(grant): Caller,
    headers: HeaderMap,
    uri: Uri,
    url: Url,
) -> Result<Response, Problem> {
    let asked = Stated::of(url)?.validate(&headers, &grant, None)?;
    let (head, page) = answer(&node, &grant, asked, &uri).await?;
    Ok(respond(&head, page))
}

async fn get_event(
    State(node): State<Arc<Node>>,
    Caller(grant): Caller,
    Path(event_id): Path<String>,
    headers: HeaderMap,
    uri: Uri,
    url: Url,
) -> Result<Response, Problem> {
    let id = Uuid::try_parse(&event_id).map_err(|_| {
        Problem::new(Kind::Invalid, "request_invalid", "event id in the path is not a uuid")
            .with("field", "event_id")
    })?;
    let asked = Stated::of(url)?.validate(&headers, &grant, Some(id.into_bytes()))?;
    let (head, page) = answer(&node, &grant, asked, &uri).await?;
    if page.as_ref().is_some_and(|page| page.rows == 0 && page.missing.is_empty()) {
        let detail = format!("event {id} is not known here");
        return Err(Problem::new(Kind::Invalid, "unknown_event", detail)
            .status(StatusCode::NOT_FOUND)
            .hint("was it shipped? pass min to wait for it"));
    }
    Ok(respond(&head, page))
}

/// `None`: the client has the page already.
fn respond(head: &Head, page: Option<Page>) -> Response {
    let mut response = Response::new(Body::empty());
    match page {
        Some(page) => {
            *response.body_mut() = page.body.into();
            let json = axum::http::HeaderValue::from_static("application/json");
            response.headers_mut().insert(axum::http::header::CONTENT_TYPE, json);
        }
        None => *response.status_mut() = StatusCode::NOT_MODIFIED,
    }
    head_of(head, response.headers_mut());
    response
}

/// Ends a query as cancelled if nobody waits for it any more.
struct Attended(RunningQuery);

impl Drop for Attended {
    fn drop(&mut self) {
        self.0.end(QueryState::Cancelled);
    }
}

async fn answer(
    node: &Arc<Node>,
    grant: &Arc<Grant>,
    asked: Asked,
    uri: &Uri,
) -> Result<(Head, Option<Page>), Problem> {
    let query = node.queries.start(asked.query_id, &title(uri), grant);
    let query = query.map_err(|taken| {
        Problem::new(Kind::Conflict, "query_id_taken", taken.to_string())
            .hint("query ids are for one query; leave the header out to get a fresh one")
    })?;
    let query = Attended(query);
    let id = query.0.id().to_string();
    match attend(node, grant, asked, &query.0).await {
        Ok(answer) => {
            query.0.end(QueryState::Finished);
            Ok(answer)
        }
        Err(problem) => {
            let stopped = matches!(problem.code, "query_cancelled" | "query_timeout");
            query.0.end(if stopped { QueryState::Cancelled } else { QueryState::Failed });
            metrics::query_refused(problem.code);
            let problem = if grant.is_limited() { concealed(problem) } else { problem };
            Err(problem.with("query_id", id))
        }
    }
}

/// What lists of queries show.
fn title(uri: &Uri) -> String {
    let mut title = format!("GET {}", uri.path());
    let parts = uri.query().into_iter().flat_map(|query| query.split('&'));
    let told = parts.filter(|part| !part.starts_with("cursor="));
    for (at, part) in told.enumerate() {
        let _infallible = write!(title, "{}{part}", if at == 0 { '?' } else { '&' });
    }
    title
}

async fn attend(
    node: &Arc<Node>,
    grant: &Arc<Grant>,
    asked: Asked,
    query: &RunningQuery,
) -> Result<(Head, Option<Page>), Problem> {
    let cancelled = query.cancelled();
    let cursor = asked.cursor.as_deref().map(|text| opened(node, &asked, text)).transpose()?;
    let waiting = async {
        let place = node.gate.place(&grant.id)?;
        let min = wished(asked.min.as_ref(), cursor.as_ref());
        let snapshot = pin(node, (min.as_ref(), asked.wait_ms), None, grant).await?;
        if !snapshot.has_begun() {
            return Err(not_begun());
        }
        // How old the newest state is does not matter to a walk that is pinned.
        if let Some(old) = node.stale().filter(|_| !asked.allow_stale && cursor.is_none()) {
            return Err(stale(old));
        }
        Ok((snapshot, node.gate.turn(place).await?))
    };
    let (snapshot, turn) = tokio::select! {
        biased;
        () = cancelled.cancelled() => return Err(problem(&QueryError::Cancelled)),
        waited = waiting => waited?,
    };
    let tag = tag(node, &asked, &snapshot);
    let mut head = Head {
        query_id: query.id().to_string(),
        lag: snapshot.lag(),
        missing: Vec::new(),
        as_of: String::new(),
        etag: (!asked.allow_partial).then(|| tag.clone()),
        not_modified: false,
        outline: None,
        limited: grant.is_limited(),
        snapshot: Arc::clone(&snapshot),
    };
    let held = asked.if_none_match.as_deref().filter(|_| head.etag.is_some());
    if held.is_some_and(|held| etag_matches(held, &tag)) {
        metrics::answer_not_modified();
        head.not_modified = true;
        return Ok((head, None));
    }
    let timeout_ms = asked.timeout_ms.unwrap_or(u64::MAX).min(node.config.timeout_ms);
    let scope = scope(node, grant, &asked, snapshot);
    let work = {
        let node = Arc::clone(node);
        async move {
            let _turn = turn;
            let cursor = cursor.unwrap_or_else(|| beginning(&asked, &scope));
            let bounds = Bounds { result_bytes: node.config.max_result_bytes };
            let page = page(&asked, &cursor, &scope, &node.cursor_key, bounds).await;
            metrics::query_scanned(scope.scanned_bytes());
            page
        }
    };
    // Dropping the set stops its task at its next step.
    let mut working = JoinSet::new();
    working.spawn_on(work, &node.threads);
    let page = tokio::select! {
        biased;
        () = cancelled.cancelled() => Err(QueryError::Cancelled),
        Some(ended) = working.join_next() => ended.unwrap_or_else(|error| {
            Err(QueryError::Panicked(error.to_string()))
        }),
        () = tokio::time::sleep(Duration::from_millis(timeout_ms)) => {
            Err(QueryError::Timeout { timeout_ms })
        }
    };
    let page = page.map_err(|error| problem(&error))?;
    query.add_rows(page.rows);
    metrics::query_answered(page.body.len() as u64);
    head.missing.clone_from(&page.missing);
    Ok((head, Some(page)))
}

fn scope(
    node: &Arc<Node>,
    grant: &Arc<Grant>,
    asked: &Asked,
    snapshot: Arc<VaultSnapshot>,
) -> QueryScope {
    let system: Arc<dyn SystemSource> = Arc::<Node>::clone(node);
    let limits = QueryLimits {
        memory_bytes: node.config.query_memory_bytes,
        scan_bytes: node.config.max_scan_bytes,
    };
    QueryScope::new(snapshot, asked.allow_partial, system, Arc::clone(grant)).with_limits(limits)
}

/// The cursor in `text`, if it is one of ours, for this caller and these parameters.
fn opened(node: &Node, asked: &Asked, text: &str) -> Result<Cursor, Problem> {
    let refuse =
        |code, detail: &str| Problem::new(Kind::Invalid, code, detail).with("field", "cursor");
    let Some(cursor) = node.cursor_key.open(text) else {
        let hint = match node.cursor_key.shared {
            true => "pass next_cursor as it came; every replica needs the same opaque_key_file",
            false => {
                "pass next_cursor as it came; without opaque_key_file cursors end with the \
                 replica's process and are no other replica's"
            }
        };
        return Err(refuse("cursor_invalid", "cursor was not made by this replica").hint(hint));
    };
    if cursor.tenants != asked.tenants {
        return Err(refuse("cursor_mismatch", "cursor was made for a token of other tenants")
            .hint("begin again without a cursor"));
    }
    if cursor.parameters != asked.digest() {
        return Err(refuse("cursor_mismatch", "cursor was made with other parameters").hint(
            "repeat tenant, from, to, actor, action, target, outcome, q and order as they were; \
             limit may change",
        ));
    }
    Ok(cursor)
}

/// Everything that the walk is pinned to, and what the request asks for.
fn wished(min: Option<&Token>, cursor: Option<&Cursor>) -> Option<Token> {
    let Some(cursor) = cursor else { return min.cloned() };
    Some(cursor.token().and(min))
}

/// The tag of a complete page: rows after a cursor never change, the first ones do with the log.
fn tag(node: &Node, asked: &Asked, snapshot: &VaultSnapshot) -> String {
    let begins = asked.cursor.clone().unwrap_or_else(|| hex(&snapshot.digest));
    let said = serde_json::json!([
        PAGES_VERSION,
        env!("CARGO_PKG_VERSION"),
        hex(&node.cursor_key.id()),
        begins,
        hex(&asked.digest()),
        asked.limit,
        hex(&asked.tenants),
    ]);
    let digest = keyed_digest("replica page", said.to_string().as_bytes());
    format!("W/\"{}\"", hex(&digest[..16]))
}
