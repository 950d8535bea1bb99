//! `/log/<shard>/…`: each shard's log under the literal URLs of C2SP `tlog-tiles`, for tools that
//! others have written. The shard is four hex digits, as in the log's origin.
//!
//! Every tile is shown to lead to the checkpoint before it is given. Clients may fetch any partial
//! tile that the log has had at some size.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use sealcast_common::bucket::RowLogError;
use sealcast_common::fault::Kind;
use sealcast_common::integrity::{TILE_WIDTH, TileId, parse_index};
use sealcast_common::serve::Problem;
use sealcast_common::serve::access::{Caller, Role, only};
use sealcast_vault::{ProveError, VaultSnapshot};

use super::ask::{Wish, for_all_tenants, prove};
use super::error::proving;
use super::run::Node;

/// Nothing under such a name ever changes. A shared cache keeps what was shown to a token only if
/// it is told `public`, which it is not.
const FOR_EVER: &str = "max-age=31536000, immutable";
const SECONDS: &str = "max-age=2";

/// The routes.
pub(super) fn routes() -> Router<Arc<Node>> {
    const WHO: &[Role] = &[Role::Query];
    Router::new()
        .route("/log/{shard}/checkpoint", only(WHO, get(checkpoint)))
        .route("/log/{shard}/tile/{*path}", only(WHO, get(tile)))
}

async fn checkpoint(
    State(node): State<Arc<Node>>,
    Caller(grant): Caller,
    Path(shard): Path<String>,
) -> Result<Response, Problem> {
    for_all_tenants(&grant)?;
    let shard = shard_of(&shard).ok_or_else(unknown)?;
    // A checkpoint is what the log is now: one that may be old is none.
    prove(&node, &grant, Wish::default(), async move |snapshot| {
        let log = snapshot.log(shard).map_err(unproved)?;
        let note = log.checkpoint().note.clone().into_bytes();
        Ok(plain(note, "text/plain; charset=utf-8", SECONDS))
    })
    .await
}

/// What a tile's path names.
#[derive(Clone, Copy)]
enum Named {
    Hashes(TileId, u64),
    /// Index and width.
    Entries(u64, u64),
}

impl Named {
    fn parse(path: &str) -> Option<Self> {
        match path.strip_prefix("entries/") {
            Some(rest) => parse_index(rest).map(|(index, width)| Named::Entries(index, width)),
            None => TileId::parse(path).map(|(id, width)| Named::Hashes(id, width)),
        }
    }
}

async fn tile(
    State(node): State<Arc<Node>>,
    Caller(grant): Caller,
    Path((shard, path)): Path<(String, String)>,
) -> Result<Response, Problem> {
    for_all_tenants(&grant)?;
    let shard = shard_of(&shard).ok_or_else(unknown)?;
    let named = Named::parse(&path).ok_or_else(unknown)?;
    prove(&node, &grant, Wish::any(), async move |snapshot| {
        let bytes = match named {
            Named::Hashes(id, width) => hashes(&snapshot, shard, id, width).await?,
            Named::Entries(index, width) => entries(&snapshot, shard, index, width).await?,
        };
        Ok(plain(bytes, "application/octet-stream", FOR_EVER))
    })
    .await
}

async fn hashes(
    snapshot: &VaultSnapshot,
    shard: u16,
    id: TileId,
    width: u64,
) -> Result<Vec<u8>, Problem> {
    let log = snapshot.log(shard).map_err(unproved)?;
    let tile = log.tile(id, width).await.map_err(unproved)?;
    Ok(tile.ok_or_else(unknown)?.to_vec())
}

/// The leaves below a tile of level 0, each behind its length in two bytes, big endian. They are of
/// rows that were verified, and are shown to lead to the checkpoint like every range.
async fn entries(
    snapshot: &VaultSnapshot,
    shard: u16,
    index: u64,
    width: u64,
) -> Result<Vec<u8>, Problem> {
    let size = snapshot.log(shard).map_err(unproved)?.size();
    if (TileId { level: 0, index }).width(size) < width {
        return Err(unknown());
    }
    let first = index * TILE_WIDTH;
    let proof = snapshot.prove_range(shard, first..first + width, usize::MAX).await;
    let proof = proof.map_err(|error| proving(&error))?;
    let mut bundle = Vec::new();
    for leaf in proof.leaves {
        // A leaf is at most 65,535 bytes (`limits::LEAF_BYTES_MAX`).
        let len = u16::try_from(leaf.bytes.len()).unwrap_or(u16::MAX);
        bundle.extend(len.to_be_bytes());
        bundle.extend(leaf.bytes);
    }
    Ok(bundle)
}

fn plain(bytes: Vec<u8>, kind: &'static str, caching: &'static str) -> Response {
    let mut response = bytes.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(caching));
    headers.insert(header::VARY, HeaderValue::from_static("authorization"));
    response
}

/// Four lower-case hex digits.
fn shard_of(text: &str) -> Option<u16> {
    let is_digit = |c: char| c.is_ascii_digit() || matches!(c, 'a'..='f');
    let shard = (text.len() == 4 && text.chars().all(is_digit)).then_some(text)?;
    u16::from_str_radix(shard, 16).ok()
}

fn unknown() -> Problem {
    Problem::new(Kind::Invalid, "unknown_tile", "log has no such checkpoint or tile")
        .status(StatusCode::NOT_FOUND)
        .hint("/log/<shard, four hex digits>/checkpoint, tile/<L>/<N>[.p/<W>], tile/entries/<N>[.p/<W>]")
}

fn unproved(error: RowLogError) -> Problem {
    match error {
        RowLogError::Beyond { .. } => unknown(),
        error => proving(&ProveError::Log(error)),
    }
}
