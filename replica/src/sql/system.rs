//! The tables of the schema `sealcast`: what a node knows of itself, as rows.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
    UInt16Array, UInt32Array, UInt64Array,
};
use datafusion::catalog::{MemTable, TableProvider};
use datafusion::error::Result;
use sealcast_common::clock::Micros;
use sealcast_common::fault::hex;
use sealcast_common::serve::access::Grant;
use sealcast_vault::{Lag, SegmentEntry, VaultStatus};

use super::columns::columns;
use super::session::QueryScope;
use crate::queries::QueryInfo;

/// Their names.
pub(super) const TABLES: [&str; 6] =
    ["columns", "queries", "replicas", "segments", "shards", "streams"];

/// A replica node.
#[derive(Clone, Debug)]
pub struct ReplicaInfo {
    /// Its name.
    pub id: String,
    /// Version of the program.
    pub version: String,
    /// When it started.
    pub started_at: Micros,
    /// Whether it takes queries.
    pub ready: bool,
}

/// Where the rows come from.
pub trait SystemSource: Send + Sync + fmt::Debug {
    /// The vault now.
    fn status(&self) -> VaultStatus;
    /// This node.
    fn replica(&self) -> ReplicaInfo;
    /// Running and recent queries that `viewer` may see.
    fn queries(&self, viewer: &Grant) -> Vec<QueryInfo>;
}

/// One table's rows, at this moment (and `segments` and `shards` of the query's snapshot).
pub(super) fn table(name: &str, scope: &Arc<QueryScope>) -> Result<Option<Arc<dyn TableProvider>>> {
    let columns = match name {
        "columns" => columns(),
        "queries" => queries(scope),
        "replicas" => replicas(scope),
        "segments" => segments(scope),
        "shards" => shards(scope),
        "streams" => streams(scope),
        _ => return Ok(None),
    };
    let batch = RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, array)| (name, array, true)),
    )?;
    Ok(Some(Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]])?)))
}

type Columns = Vec<(&'static str, ArrayRef)>;

fn text<T: Into<String>>(values: impl Iterator<Item = Option<T>>) -> ArrayRef {
    Arc::new(values.map(|value| value.map(Into::into)).collect::<StringArray>())
}

fn time(values: impl Iterator<Item = Micros>) -> ArrayRef {
    let values = values.map(|micros| micros.0);
    Arc::new(TimestampMicrosecondArray::from_iter_values(values).with_timezone("UTC"))
}

fn number(values: impl Iterator<Item = Option<u64>>) -> ArrayRef {
    Arc::new(values.collect::<UInt64Array>())
}

fn millis(lag: Lag) -> Option<u64> {
    match lag {
        Lag::Millis(millis) => Some(millis),
        Lag::Unknown => None,
    }
}

/// A segment's rows, bytes, times and hash count or cover the rows of all its tenants: a limited
/// caller is shown none, and so neither shards nor streams, which add them up.
fn visible_segments(scope: &QueryScope) -> Vec<&Arc<SegmentEntry>> {
    if scope.grant.is_limited() { Vec::new() } else { scope.snapshot.segments.iter().collect() }
}

fn segments(scope: &QueryScope) -> Columns {
    let status = scope.system.status();
    let faults: BTreeMap<&str, &_> =
        status.quarantine.iter().map(|q| (q.segment.as_str(), &q.corruption)).collect();
    let entries = visible_segments(scope);
    let names: Vec<String> = entries.iter().map(|entry| entry.name()).collect();
    let all = || entries.iter().map(|entry| entry.descriptor.as_ref());
    let fault = |name: &String| faults.get(name.as_str()).copied();
    let state = |entry: &SegmentEntry| {
        serde_json::to_value(entry.state()).ok().and_then(|s| s.as_str().map(str::to_owned))
    };
    vec![
        ("shard", Arc::new(UInt16Array::from_iter_values(all().map(|d| d.id.shard)))),
        ("start", number(all().map(|d| Some(d.id.start)))),
        ("rows", Arc::new(UInt32Array::from_iter_values(all().map(|d| d.id.rows)))),
        ("bytes", number(all().map(|d| Some(d.bytes)))),
        ("object_bytes", number(all().map(|d| Some(d.object_bytes)))),
        ("hash", text(all().map(|d| Some(hex(&d.id.hash))))),
        ("time_min", time(all().map(|d| d.time.0))),
        ("time_max", time(all().map(|d| d.time.1))),
        ("ingested_min", time(all().map(|d| d.ingested_at.0))),
        ("ingested_max", time(all().map(|d| d.ingested_at.1))),
        ("sealed_at", time(all().map(|d| d.sealed_at))),
        ("state", text(entries.iter().map(|entry| state(entry)))),
        ("stream", text(entries.iter().map(|entry| Some(entry.stream.clone())))),
        ("name", text(names.iter().map(|name| Some(name.clone())))),
        ("fault_check", text(names.iter().map(|name| fault(name).map(|fault| fault.check)))),
        ("fault", text(names.iter().map(|name| fault(name).map(ToString::to_string)))),
    ]
}

fn shards(scope: &QueryScope) -> Columns {
    let mut last = BTreeMap::new();
    let mut counts: BTreeMap<u16, u64> = BTreeMap::new();
    for entry in visible_segments(scope) {
        last.insert(entry.descriptor.id.shard, entry);
        *counts.entry(entry.descriptor.id.shard).or_default() += 1;
    }
    let all = || last.values();
    vec![
        ("shard", Arc::new(UInt16Array::from_iter_values(last.keys().copied()))),
        ("cluster", text(all().map(|entry| Some(entry.cluster.clone())))),
        ("stream", text(all().map(|entry| Some(entry.stream.clone())))),
        ("size", number(all().map(|entry| Some(entry.descriptor.end())))),
        ("root", text(all().map(|entry| Some(hex(&entry.descriptor.root_after))))),
        ("segments", number(counts.values().map(|count| Some(*count)))),
    ]
}

fn streams(scope: &QueryScope) -> Columns {
    let streams = match scope.grant.is_limited() {
        false => scope.system.status().streams,
        true => Vec::new(),
    };
    let all = || streams.iter();
    vec![
        ("stream", text(all().map(|s| Some(s.stream.clone())))),
        ("cluster", text(all().map(|s| Some(s.cluster.clone())))),
        ("seq", number(all().map(|s| Some(s.seq)))),
        ("published_seq", number(all().map(|s| Some(s.published_seq)))),
        ("epoch", number(all().map(|s| Some(s.epoch)))),
        ("hash", text(all().map(|s| Some(s.hash.clone())))),
        ("last_probe_age_ms", number(all().map(|s| s.last_probe_age_ms))),
        ("lag_ms", number(all().map(|s| millis(s.lag)))),
        ("unshipped_rows", number(all().map(|s| s.unshipped_rows))),
        ("fault", text(all().map(|s| s.fault.as_ref().map(ToString::to_string)))),
        ("error", text(all().map(|s| s.error.clone()))),
    ]
}

fn replicas(scope: &QueryScope) -> Columns {
    let (status, replica) = (scope.system.status(), scope.system.replica());
    let told = !scope.grant.is_limited();
    let one = |value: u64| number(std::iter::once(told.then_some(value)));
    vec![
        ("replica", text(std::iter::once(Some(replica.id)))),
        ("version", text(std::iter::once(Some(replica.version)))),
        ("started_at", time(std::iter::once(replica.started_at))),
        ("ready", Arc::new(BooleanArray::from(vec![replica.ready]))),
        ("segments", one(status.segments as u64)),
        ("segments_local", one(status.segments_local as u64)),
        ("cache_bytes", one(status.cache_bytes)),
        ("cache_bytes_max", one(status.cache_bytes_max)),
        ("lag_ms", number(std::iter::once(millis(status.lag)))),
        ("quarantined", one(status.quarantine.len() as u64)),
    ]
}

fn queries(scope: &QueryScope) -> Columns {
    let queries = scope.system.queries(&scope.grant);
    let all = || queries.iter();
    let elapsed = all().map(|q| i64::try_from(q.elapsed_ms).unwrap_or(i64::MAX));
    vec![
        ("query_id", text(all().map(|q| Some(q.query_id.clone())))),
        ("state", text(all().map(|q| Some(q.state.as_str())))),
        ("sql", text(all().map(|q| Some(q.sql.clone())))),
        ("started_at", time(all().map(|q| q.started_at))),
        ("elapsed_ms", Arc::new(Int64Array::from_iter_values(elapsed))),
        ("rows", number(all().map(|q| Some(q.rows)))),
    ]
}
