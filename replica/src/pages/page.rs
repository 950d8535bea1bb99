//! One page: as many rows as asked for, and a cursor for those after them.

use std::collections::BTreeMap;

use datafusion::error::DataFusionError;
use sealcast_common::fault::Corruption;

use super::asked::Asked;
use super::cursor::{Cursor, CursorKey, ShardCursor};
use super::render;
use super::walk::{Picked, Walk};
use crate::sql::{Bound, Missing, OverBound, QueryError, QueryScope};

/// A page ends before it is larger, bytes: what one request may hold in memory.
const PAGE_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// A page, and what is known of it.
#[derive(Debug)]
pub(super) struct Page {
    /// The answer's body.
    pub(super) body: Vec<u8>,
    pub(super) rows: usize,
    pub(super) missing: Vec<Missing>,
}

/// The bounds of a page beside its rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Bytes that an answer may have, if that is bounded.
    pub(super) result_bytes: Option<u64>,
}

/// Where a walk begins on `scope`'s snapshot.
pub(super) fn beginning(asked: &Asked, scope: &QueryScope) -> Cursor {
    Cursor {
        parameters: asked.digest(),
        tenants: asked.tenants,
        shards: Walk::shards_of(scope, &asked.filter).into_iter().collect(),
    }
}

/// The page of `asked` that comes after `cursor`.
pub(super) async fn page(
    asked: &Asked,
    cursor: &Cursor,
    scope: &QueryScope,
    key: &CursorKey,
    bounds: Bounds,
) -> Result<Page, QueryError> {
    let mut walk = Walk::new(scope, (&asked.filter, asked.order), cursor);
    let mut picked = Vec::new();
    // One more than wanted: then it is known whether there is another page.
    while picked.len() <= asked.limit {
        match walk.next().await? {
            Some(row) => picked.push(row),
            None => break,
        }
    }
    let written = write(&picked, asked.limit, bounds)?;
    // Whatever was made of pages that were lost meanwhile is not believed.
    scope.check_opened().map_err(DataFusionError::from)?;
    scope.charge_scan(written.events.len() as u64)?;
    let mut shards: BTreeMap<u16, ShardCursor> = BTreeMap::new();
    if written.rows < picked.len() {
        let later = picked.iter().skip(written.rows).map(|row| row.open.shard());
        for shard in walk.left().into_iter().chain(later) {
            if let Some(at) = cursor.shards.get(&shard) {
                shards.insert(shard, *at);
            }
        }
        for (shard, at) in &mut shards {
            at.after = written.places.get(shard).copied().or(at.after);
        }
    }
    let next = Cursor { shards, ..*cursor };
    let next = (!next.shards.is_empty()).then(|| key.wrap(&next));
    let missing = scope.missing();
    let body = document(written.events, next, &missing);
    Ok(Page { body, rows: written.rows, missing })
}

/// What was written of a page.
struct Written {
    events: Vec<u8>,
    rows: usize,
    /// The last row of each shard.
    places: BTreeMap<u16, super::place::Place>,
}

fn write(picked: &[Picked], limit: usize, bounds: Bounds) -> Result<Written, QueryError> {
    let max = bounds.result_bytes.unwrap_or(u64::MAX).min(PAGE_BYTES_MAX) as usize;
    let (mut known, mut events) = (Vec::new(), Vec::new());
    let mut written = Written { events: Vec::new(), rows: 0, places: BTreeMap::new() };
    for row in picked.iter().take(limit) {
        let before = events.len();
        if before > 0 {
            events.extend_from_slice(b",\n");
        }
        let place = render::event(row, &mut known, &mut events).map_err(corrupt)?;
        if events.len() > max {
            if before == 0 {
                let max = max as u64;
                return Err(OverBound { bound: Bound::ResultBytes, max }.into());
            }
            events.truncate(before);
            break;
        }
        written.rows += 1;
        written.places.insert(place.shard, place);
    }
    written.events = events;
    Ok(written)
}

fn corrupt(corruption: Corruption) -> QueryError {
    DataFusionError::External(Box::new(corruption)).into()
}

fn document(events: Vec<u8>, next: Option<String>, missing: &[Missing]) -> Vec<u8> {
    let mut body = Vec::with_capacity(events.len() + 256);
    body.extend_from_slice(b"{\"events\":[\n");
    body.extend(events);
    let mut end = format!("\n],\"next_cursor\":{},", serde_json::json!(next));
    if !missing.is_empty() {
        let missing: Vec<String> = missing.iter().map(Missing::to_text).collect();
        end += &format!("\"missing\":{},", serde_json::json!(missing));
    }
    end += &format!("\"complete\":{}}}\n", missing.is_empty());
    body.extend_from_slice(end.as_bytes());
    body
}
