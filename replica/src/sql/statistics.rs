//! Descriptors and zone maps as the engine's statistics: for pruning and for answers without rows.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{
    Array as _, ArrayRef, BooleanArray, StringArray, TimestampMicrosecondArray, UInt8Array,
    UInt16Array, UInt64Array,
};
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::stats::Precision;
use datafusion::common::{Column, ColumnStatistics, ScalarValue, Statistics};
use sealcast_common::catalog::Descriptor;
use sealcast_common::clock::Micros;
use sealcast_common::segment::BatchZone;
use sealcast_common::segment::schema::logical_schema;
use sealcast_vault::{Bounds, SegmentEntry, SegmentState};

/// Which end of a pair of bounds.
type End<T> = fn(&(T, T)) -> T;

fn times(values: impl Iterator<Item = Micros>) -> ArrayRef {
    let values = values.map(|micros| micros.0);
    Arc::new(TimestampMicrosecondArray::from_iter_values(values).with_timezone("UTC"))
}

fn is_required(column: &Column) -> bool {
    logical_schema().field_with_name(&column.name).is_ok_and(|field| !field.is_nullable())
}

/// Bounds of whole segments, or of blocks of them.
pub(super) struct BoundsStatistics<'a, B>(pub(super) &'a [&'a B]);

impl<B: Bounds> BoundsStatistics<'_, B> {
    fn bounds(&self, column: &Column, time: End<Micros>, seq: End<u64>) -> Option<ArrayRef> {
        let all = self.0.iter();
        Some(match column.name.as_str() {
            "time" => times(all.map(|bounds| time(&bounds.time()))),
            "ingested_at" => times(all.map(|bounds| time(&bounds.ingested_at()))),
            "_seq" => Arc::new(UInt64Array::from_iter_values(all.map(|b| seq(&b.seq())))),
            "_shard" => Arc::new(UInt16Array::from_iter_values(all.map(|b| b.shard()))),
            _ => return None,
        })
    }
}

impl<B: Bounds> PruningStatistics for BoundsStatistics<'_, B> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds(column, |bounds| bounds.0, |bounds| bounds.0)
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds(column, |bounds| bounds.1, |bounds| bounds.1)
    }

    fn num_containers(&self) -> usize {
        self.0.len()
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        is_required(column).then(|| Arc::new(UInt64Array::from(vec![0; self.0.len()])) as ArrayRef)
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        let rows = self.0.iter().map(|bounds| bounds.rows());
        Some(Arc::new(UInt64Array::from_iter_values(rows)))
    }

    fn contained(&self, _: &Column, _: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}

/// Bounds of the batches of one segment.
pub(super) struct ZoneStatistics<'a>(pub(super) &'a [BatchZone]);

impl ZoneStatistics<'_> {
    fn bounds(
        &self,
        column: &Column,
        (time, seq, level): (End<Micros>, End<u64>, End<u8>),
        text: for<'p> fn(&'p (String, String)) -> &'p str,
    ) -> Option<ArrayRef> {
        let all = self.0.iter();
        Some(match column.name.as_str() {
            "time" => times(all.map(|zone| time(&zone.time))),
            "ingested_at" => times(all.map(|zone| time(&zone.ingested_at))),
            "_seq" => Arc::new(UInt64Array::from_iter_values(all.map(|zone| seq(&zone.seq)))),
            "tenant" => Arc::new(all.map(|zone| Some(text(&zone.tenant))).collect::<StringArray>()),
            "action" => Arc::new(all.map(|zone| Some(text(&zone.action))).collect::<StringArray>()),
            "outcome" => {
                let values = all.map(|zone| zone.outcome.0.as_ref().map(text));
                Arc::new(values.collect::<StringArray>())
            }
            "severity" => {
                let values = all.map(|zone| zone.severity.0.as_ref().map(level));
                Arc::new(values.collect::<UInt8Array>())
            }
            _ => return None,
        })
    }
}

impl PruningStatistics for ZoneStatistics<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds(column, (|pair| pair.0, |pair| pair.0, |pair| pair.0), |pair| &pair.0)
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds(column, (|pair| pair.1, |pair| pair.1, |pair| pair.1), |pair| &pair.1)
    }

    fn num_containers(&self) -> usize {
        self.0.len()
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        let count = |zone: &BatchZone| match column.name.as_str() {
            "outcome" => Some(u64::from(zone.outcome.1)),
            "severity" => Some(u64::from(zone.severity.1)),
            _ => is_required(column).then_some(0),
        };
        let counts: UInt64Array = self.0.iter().map(count).collect();
        (counts.null_count() == 0).then(|| Arc::new(counts) as ArrayRef)
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        let rows = self.0.iter().map(|zone| u64::from(zone.rows));
        Some(Arc::new(UInt64Array::from_iter_values(rows)))
    }

    fn contained(&self, _: &Column, _: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}

/// Statistics of `entries` for the columns of `projection`. They are exact when every row is
/// wanted and no segment is known to be bad. Then `count(*)` reads no row: a shard's own key signs
/// how many leaves there are. `max(time)` reads none where every segment has been judged here: the
/// bounds of the others are the shipper's word.
pub(super) fn table_statistics(
    entries: &[Arc<SegmentEntry>],
    projection: &[usize],
    filtered: bool,
) -> Statistics {
    let states: Vec<SegmentState> = entries.iter().map(|entry| entry.state()).collect();
    let exact = !filtered && states.iter().all(|state| *state != SegmentState::Quarantined);
    let is_judged =
        |state: &SegmentState| matches!(state, SegmentState::Local | SegmentState::Mapped);
    let judged = states.iter().all(is_judged);
    let rows: usize = entries.iter().map(|entry| entry.descriptor.id.rows as usize).sum();
    let bytes: u64 = entries.iter().map(|entry| entry.descriptor.bytes).sum();
    let descriptors: Vec<&Descriptor> = entries.iter().map(|e| e.descriptor.as_ref()).collect();
    let schema = logical_schema();
    let columns = projection.iter().map(|column| {
        let field = schema.field(*column);
        let mut column = bounds(field.name(), &descriptors);
        if !judged {
            column = column.to_inexact();
        }
        if !field.is_nullable() {
            column.null_count = Precision::Exact(0);
        }
        column
    });
    let statistics = Statistics {
        num_rows: Precision::Exact(rows),
        total_byte_size: Precision::Inexact(usize::try_from(bytes).unwrap_or(usize::MAX)),
        column_statistics: columns.collect(),
    };
    if exact { statistics } else { statistics.to_inexact() }
}

fn bounds(name: &str, descriptors: &[&Descriptor]) -> ColumnStatistics {
    let time = |micros: Option<Micros>| {
        let value = micros.map(|micros| micros.0);
        ScalarValue::TimestampMicrosecond(value, Some("UTC".into()))
    };
    let all = || descriptors.iter();
    let (least, greatest) = match name {
        "time" => (time(all().map(|d| d.time.0).min()), time(all().map(|d| d.time.1).max())),
        "ingested_at" => {
            (time(all().map(|d| d.ingested_at.0).min()), time(all().map(|d| d.ingested_at.1).max()))
        }
        "_shard" => (
            ScalarValue::UInt16(all().map(|d| d.id.shard).min()),
            ScalarValue::UInt16(all().map(|d| d.id.shard).max()),
        ),
        _ => return ColumnStatistics::new_unknown(),
    };
    let mut column = ColumnStatistics::new_unknown();
    if !least.is_null() && !greatest.is_null() {
        column.min_value = Precision::Exact(least);
        column.max_value = Precision::Exact(greatest);
    }
    column
}
