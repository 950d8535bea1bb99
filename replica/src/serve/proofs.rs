//! `/v1/proofs`: rows, growth and ranges of shards' logs, proved at the checkpoint of the snapshot.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use sealcast_common::bucket::RowLogError;
use sealcast_common::fault::Kind;
use sealcast_common::integrity::Hash;
use sealcast_common::serve::Problem;
use sealcast_common::serve::access::{Caller, Role, only};
use sealcast_vault::{ProveError, VaultSnapshot};
use serde::Deserialize;
use serde_json::{Value, json};

use super::ask::{Asked, for_all_tenants, prove};
use super::error::{proving, unknown_row};
use super::format::negotiate;
use super::http::body_invalid;
use super::run::{Node, snapshot_id};

/// Rows of one bundle.
pub(super) const BUNDLE_ROWS_MAX: usize = 1_000;
/// Rows of one range.
pub(super) const RANGE_ROWS_MAX: u64 = 10_000;
/// Leaves of one answer, bytes before base64.
pub(super) const LEAVES_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The routes.
pub(super) fn routes() -> Router<Arc<Node>> {
    const WHO: &[Role] = &[Role::Query];
    Router::new()
        .route("/v1/proofs", only(WHO, post(bundle)))
        .route("/v1/proofs/{shard}/{seq}", only(WHO, get(row)))
        .route("/v1/proofs/consistency", only(WHO, get(consistency)))
        .route("/v1/proofs/range", only(WHO, get(range)))
}

type Url = Result<Query<Asked>, QueryRejection>;

/// What the proof of a row is given as.
#[derive(Clone, Copy)]
enum Form {
    /// Everything.
    Json,
    /// The `.tlog-proof` file.
    Text,
    /// The leaf's bytes.
    Cbor,
}

impl Form {
    fn of(headers: &HeaderMap) -> Result<Self, Problem> {
        let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
        let known = |media: &str| match media {
            "*/*" | "application/*" | "application/json" => Some(Form::Json),
            "text/plain" | "text/*" => Some(Form::Text),
            "application/cbor" => Some(Form::Cbor),
            _ => None,
        };
        negotiate(accept, Form::Json, known).ok_or_else(|| {
            let detail = "no media type in accept can be given";
            Problem::new(Kind::Invalid, "not_acceptable", detail)
                .status(axum::http::StatusCode::NOT_ACCEPTABLE)
                .hint(
                    "known: application/json, text/plain (the proof), application/cbor (the leaf)",
                )
        })
    }
}

async fn row(
    State(node): State<Arc<Node>>,
    Caller(grant): Caller,
    Path((shard, seq)): Path<(String, String)>,
    headers: HeaderMap,
    url: Url,
) -> Result<Response, Problem> {
    let (shard, seq) = (number(&shard, "shard")?, number(&seq, "seq")?);
    let form = Form::of(&headers)?;
    let wish = Asked::of(url)?.wish(&headers)?;
    let viewer = Arc::clone(&grant);
    prove(&node, &grant, wish, async move |snapshot| {
        let tenants = viewer.tenants.limited();
        let proven = snapshot.prove(&[(shard, seq)], tenants, LEAVES_BYTES_MAX).await;
        let proven = proven.map_err(|error| proving(&error))?.pop().flatten();
        let (leaf, proof) = proven.ok_or_else(|| unknown_row(shard, seq))?;
        let (kind, body) = match form {
            Form::Text => ("text/plain; charset=utf-8", proof.to_text().into_bytes()),
            Form::Cbor => ("application/cbor", leaf.bytes),
            Form::Json => {
                let document = json!({
                    "shard": shard,
                    "seq": seq,
                    "tenant": leaf.tenant,
                    "leaf": BASE64.encode(&leaf.bytes),
                    "proof": proof.to_text(),
                    "key": key(&snapshot, shard)?,
                });
                ("application/json", document.to_string().into_bytes())
            }
        };
        let mut response = body.into_response();
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        Ok(described(response, &snapshot))
    })
    .await
}

/// Rows that are to be proved together.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Bundle {
    rows: Vec<BundleRow>,
    min: Option<String>,
    wait_ms: Option<u64>,
    allow_stale: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct BundleRow {
    shard: u16,
    seq: u64,
}

async fn bundle(
    State(node): State<Arc<Node>>,
    Caller(grant): Caller,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    let body = body.map_err(|rejection| body_invalid(&rejection))?;
    let Bundle { rows, min, wait_ms, allow_stale } =
        serde_json::from_slice(&body).map_err(|error| {
            invalid(format!("body names no rows: {error}"))
                .hint("POST {\"rows\": [{\"shard\": 0, \"seq\": 41}]}")
        })?;
    if rows.is_empty() || rows.len() > BUNDLE_ROWS_MAX {
        let found = rows.len();
        return Err(match found {
            0 => invalid("rows is empty; expected at least one").with("field", "rows"),
            _ => too_many(found as u64, BUNDLE_ROWS_MAX as u64),
        });
    }
    let wish = Asked { min, wait_ms, allow_stale, ..Asked::default() }.wish(&headers)?;
    let viewer = Arc::clone(&grant);
    prove(&node, &grant, wish, async move |snapshot| {
        let places: Vec<_> = rows.iter().map(|row| (row.shard, row.seq)).collect();
        let tenants = viewer.tenants.limited();
        let proven = snapshot.prove(&places, tenants, LEAVES_BYTES_MAX).await;
        let proven = proven.map_err(|error| proving(&error))?;
        let (mut nodes, mut known) = (Vec::new(), HashMap::<Hash, usize>::new());
        let (mut checkpoints, mut told) = (BTreeMap::new(), Vec::new());
        for (at, ((shard, seq), proven)) in places.into_iter().zip(proven).enumerate() {
            let (leaf, proof) =
                proven.ok_or_else(|| unknown_row(shard, seq).with("index", at as u64))?;
            let path = proof.hashes.iter().map(|hash| {
                *known.entry(*hash).or_insert_with(|| {
                    nodes.push(BASE64.encode(hash));
                    nodes.len() - 1
                })
            });
            let path: Vec<usize> = path.collect();
            let leaf = BASE64.encode(&leaf.bytes);
            told.push(json!({ "shard": shard, "seq": seq, "leaf": leaf, "path": path }));
            if let Entry::Vacant(vacant) = checkpoints.entry(shard) {
                let key = key(&snapshot, shard)?;
                vacant.insert(json!({ "note": proof.checkpoint, "key": key }));
            }
        }
        let answer = json!({ "checkpoints": checkpoints, "nodes": nodes, "rows": told });
        Ok(described(Json(answer).into_response(), &snapshot))
    })
    .await
}

async fn consistency(
    State(node): State<Arc<Node>>,
    Caller(grant): Caller,
    headers: HeaderMap,
    url: Url,
) -> Result<Response, Problem> {
    for_all_tenants(&grant)?;
    let asked = Asked::of(url)?;
    let (shard, from) = (asked.shard()?, asked.from()?);
    let (to, wish) = (asked.to, asked.wish(&headers)?);
    prove(&node, &grant, wish, async move |snapshot| {
        let log = snapshot.log(shard).map_err(unproved)?;
        let to = to.unwrap_or_else(|| log.size());
        ascending(from, to)?;
        let growth = log.growth(from, to).await.map_err(unproved)?;
        let answer = json!({
            "shard": shard,
            "from": from,
            "to": to,
            "root_from": BASE64.encode(growth.old_root),
            "root_to": BASE64.encode(growth.new_root),
            "proof": texts(&growth.proof),
            "proof_to_checkpoint": texts(&growth.rest),
            "checkpoint": log.checkpoint().note,
            "key": log.checkpoint().vkey(),
        });
        Ok(described(Json(answer).into_response(), &snapshot))
    })
    .await
}

async fn range(
    State(node): State<Arc<Node>>,
    Caller(grant): Caller,
    headers: HeaderMap,
    url: Url,
) -> Result<Response, Problem> {
    for_all_tenants(&grant)?;
    let asked = Asked::of(url)?;
    let (shard, from) = (asked.shard()?, asked.from()?);
    let (to, wish) = (asked.to, asked.wish(&headers)?);
    prove(&node, &grant, wish, async move |snapshot| {
        let log = snapshot.log(shard).map_err(unproved)?;
        let most = from.saturating_add(RANGE_ROWS_MAX);
        let to = to.unwrap_or_else(|| most.min(log.size()));
        ascending(from, to)?;
        if to > log.size() {
            return Err(unproved(RowLogError::Beyond { shard, size: log.size(), asked: to }));
        }
        if to > most {
            return Err(too_many(to - from, RANGE_ROWS_MAX));
        }
        let proof = snapshot.prove_range(shard, from..to, LEAVES_BYTES_MAX).await;
        let proof = proof.map_err(|error| proving(&error))?;
        let leaves = proof.leaves.iter().map(|leaf| BASE64.encode(&leaf.bytes));
        let answer = json!({
            "shard": shard,
            "from": from,
            "to": to,
            "leaves": leaves.collect::<Vec<_>>(),
            "left": texts(&proof.left),
            "right": texts(&proof.right),
            "checkpoint": log.checkpoint().note,
            "key": log.checkpoint().vkey(),
        });
        Ok(described(Json(answer).into_response(), &snapshot))
    })
    .await
}

/// The key that signs the shard's checkpoints.
fn key(snapshot: &VaultSnapshot, shard: u16) -> Result<String, Problem> {
    Ok(snapshot.log(shard).map_err(unproved)?.checkpoint().vkey())
}

fn unproved(error: RowLogError) -> Problem {
    proving(&ProveError::Log(error))
}

fn texts(hashes: &[Hash]) -> Vec<String> {
    hashes.iter().map(|hash| BASE64.encode(hash)).collect()
}

/// Never from a cache without asking: what is newest changes, and rights do too.
fn described(mut response: Response, snapshot: &VaultSnapshot) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    headers.insert(header::VARY, HeaderValue::from_static("accept, authorization, sealcast-min"));
    if let Ok(id) = HeaderValue::from_str(&snapshot_id(snapshot)) {
        headers.insert("sealcast-snapshot", id);
    }
    response
}

fn invalid(detail: impl Into<String>) -> Problem {
    Problem::new(Kind::Invalid, "request_invalid", detail)
}

fn ascending(from: u64, to: u64) -> Result<(), Problem> {
    if from <= to {
        return Ok(());
    }
    Err(invalid(format!("from is {from}; expected at most to, {to}")).with("field", "from"))
}

fn too_many(found: u64, max: u64) -> Problem {
    let detail = format!("{found} rows are asked for; expected at most {max}");
    Problem::new(Kind::Invalid, "too_many_rows", detail)
        .status(axum::http::StatusCode::PAYLOAD_TOO_LARGE)
        .with("limit", max)
        .hint("ask in several requests")
}

/// A decimal number with one way to write it.
fn number<T: std::str::FromStr>(text: &str, name: &str) -> Result<T, Problem> {
    let canonical = text == "0" || text.starts_with(|c: char| matches!(c, '1'..='9'));
    text.parse().ok().filter(|_| canonical).ok_or_else(|| {
        let shown: String = text.chars().take(64).collect();
        invalid(format!("{name} is {shown:?}; expected a decimal number"))
            .with("field", name)
            .with("found", Value::from(shown))
    })
}
