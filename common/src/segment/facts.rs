//! What pruning knows without reading rows: facts of a segment, zone maps of its batches.
//!
//! Computed by one function from the encoded columns, by the sealer and again by every verifier.

use arrow_array::cast::AsArray as _;
use arrow_array::types::{TimestampMicrosecondType, UInt8Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use std::collections::BTreeMap;

use super::columns::TextColumn;
use crate::cbor::{Reader, Writer};
use crate::clock::Micros;
use crate::fault::Corruption;
use crate::limits::FACTS_MAX;

/// Bounds of one record batch. Absent text bounds mean that every row is null there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchZone {
    /// Rows.
    pub rows: u32,
    /// Least and greatest `time`.
    pub time: (Micros, Micros),
    /// Least and greatest `ingested_at`.
    pub ingested_at: (Micros, Micros),
    /// Least and greatest `_seq`.
    pub seq: (u64, u64),
    /// Least and greatest `tenant`.
    pub tenant: (String, String),
    /// Least and greatest `action`.
    pub action: (String, String),
    /// Least and greatest `outcome`, and how many rows have none.
    pub outcome: (Option<(String, String)>, u32),
    /// Least and greatest `severity`, and how many rows have none.
    pub severity: (Option<(u8, u8)>, u32),
}

/// The consecutive rows of one tenant in a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantRun {
    /// The tenant.
    pub tenant: String,
    /// First row in the file.
    pub first_row: u32,
    /// Rows.
    pub rows: u32,
    /// Least and greatest `time` of them.
    pub time: (Micros, Micros),
}

/// Facts of a whole segment. A list that would exceed [`FACTS_MAX`] is absent, never cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Rows.
    pub rows: u32,
    /// Least and greatest `time`.
    pub time: (Micros, Micros),
    /// Least and greatest `ingested_at`.
    pub ingested_at: (Micros, Micros),
    /// Directory: rows are clustered by tenant.
    pub tenants: Option<Vec<TenantRun>>,
    /// Rows by action.
    pub actions: Option<Vec<(String, u32)>>,
    /// Rows by outcome; `None` counts the rows without one.
    pub outcomes: Option<Vec<(Option<String>, u32)>>,
}

fn wrong(what: &str) -> Corruption {
    Corruption::new("schema", None, what, "another type or no rows")
}

fn text<'a>(batch: &'a RecordBatch, name: &str) -> Result<TextColumn<'a>, Corruption> {
    batch.column_by_name(name).and_then(TextColumn::new).ok_or_else(|| wrong(name))
}

fn times<'a>(batch: &'a RecordBatch, name: &str) -> Result<&'a [i64], Corruption> {
    let column = batch.column_by_name(name).ok_or_else(|| wrong(name))?;
    let column = column.as_primitive_opt::<TimestampMicrosecondType>();
    Ok(column.ok_or_else(|| wrong(name))?.values())
}

/// Least and greatest. Two passes, which the compiler turns into a few wide ones.
fn bounds<T: Ord + Copy>(values: &[T]) -> Option<(T, T)> {
    Some((*values.iter().min()?, *values.iter().max()?))
}

fn span(values: &[i64], name: &str) -> Result<(Micros, Micros), Corruption> {
    let (least, greatest) = bounds(values).ok_or_else(|| wrong(name))?;
    Ok((Micros(least), Micros(greatest)))
}

/// The values of a text column with their rows, each value once, and the rows without one.
struct Tally<'a> {
    values: Vec<(&'a str, u32)>,
    nulls: u32,
}

impl<'a> Tally<'a> {
    /// A dictionary's values are counted by their codes.
    fn of(batch: &'a RecordBatch, name: &str) -> Result<Self, Corruption> {
        let (column, rows) = (text(batch, name)?, batch.num_rows());
        let mut tally = Tally { values: Vec::new(), nulls: 0 };
        if let TextColumn::Dictionary(keys, values) = column {
            let mut counts = vec![0; values.len()];
            for key in keys {
                match key.and_then(|key| counts.get_mut(usize::try_from(key).ok()?)) {
                    Some(count) => *count += 1,
                    None => tally.nulls += 1,
                }
            }
            let used = counts.into_iter().enumerate().filter(|(_, count)| *count > 0);
            tally.values = used.map(|(code, count)| (values.value(code), count)).collect();
            return Ok(tally);
        }
        let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
        for row in 0..rows {
            match column.get(row) {
                Some(value) => *counts.entry(value).or_default() += 1,
                None => tally.nulls += 1,
            }
        }
        tally.values = counts.into_iter().collect();
        Ok(tally)
    }

    fn bounds(&self) -> Option<(String, String)> {
        let values = || self.values.iter().map(|(value, _)| *value);
        Some((values().min()?.to_owned(), values().max()?.to_owned()))
    }
}

/// Zone maps and facts of all batches of a segment, in file order; each must have rows.
pub(super) fn summarize(batches: &[RecordBatch]) -> Result<(Vec<BatchZone>, Facts), Corruption> {
    let mut zones = Vec::with_capacity(batches.len());
    let mut actions: BTreeMap<&str, u32> = BTreeMap::new();
    let mut outcomes: BTreeMap<Option<&str>, u32> = BTreeMap::new();
    for batch in batches {
        let (action, outcome) = (Tally::of(batch, "action")?, Tally::of(batch, "outcome")?);
        zones.push(BatchZone::compute(batch, &action, &outcome)?);
        for (value, rows) in action.values {
            *actions.entry(value).or_default() += rows;
        }
        for (value, rows) in outcome.values {
            *outcomes.entry(Some(value)).or_default() += rows;
        }
        if outcome.nulls > 0 {
            *outcomes.entry(None).or_default() += outcome.nulls;
        }
    }
    let span = |pick: fn(&BatchZone) -> (Micros, Micros)| {
        let least = zones.iter().map(|zone| pick(zone).0).min();
        let greatest = zones.iter().map(|zone| pick(zone).1).max();
        least.zip(greatest).ok_or_else(|| wrong("rows"))
    };
    let actions: Vec<_> = actions.into_iter().map(|(a, n)| (a.to_owned(), n)).collect();
    let outcomes: Vec<_> = outcomes.into_iter().map(|(o, n)| (o.map(str::to_owned), n)).collect();
    let facts = Facts {
        rows: zones.iter().map(|zone| zone.rows).sum(),
        time: span(|zone| zone.time)?,
        ingested_at: span(|zone| zone.ingested_at)?,
        tenants: Some(tenant_runs(batches)?).filter(|list| list.len() <= FACTS_MAX),
        actions: Some(actions).filter(|list| list.len() <= FACTS_MAX),
        outcomes: Some(outcomes).filter(|list| list.len() <= FACTS_MAX),
    };
    Ok((zones, facts))
}

impl BatchZone {
    fn compute(
        batch: &RecordBatch,
        action: &Tally<'_>,
        outcome: &Tally<'_>,
    ) -> Result<Self, Corruption> {
        let seq = batch.column_by_name("_seq").and_then(|c| c.as_primitive_opt::<UInt64Type>());
        let severity =
            batch.column_by_name("severity").and_then(|c| c.as_primitive_opt::<UInt8Type>());
        let severity = severity.ok_or_else(|| wrong("severity"))?;
        let severities: Vec<u8> = severity.iter().flatten().collect();
        Ok(BatchZone {
            rows: batch.num_rows() as u32,
            time: span(times(batch, "time")?, "time")?,
            ingested_at: span(times(batch, "ingested_at")?, "ingested_at")?,
            seq: seq.and_then(|seq| bounds(seq.values())).ok_or_else(|| wrong("_seq"))?,
            tenant: Tally::of(batch, "tenant")?.bounds().ok_or_else(|| wrong("tenant"))?,
            action: action.bounds().ok_or_else(|| wrong("action"))?,
            outcome: (outcome.bounds(), outcome.nulls),
            severity: (bounds(&severities), severity.null_count() as u32),
        })
    }

    pub(super) fn write(&self, out: &mut Writer) {
        out.array(11).uint(self.rows.into());
        for time in [self.time.0, self.time.1, self.ingested_at.0, self.ingested_at.1] {
            out.int(time.0);
        }
        out.uint(self.seq.0).uint(self.seq.1);
        write_pair(Some(&self.tenant), out);
        write_pair(Some(&self.action), out);
        out.array(2);
        write_pair(self.outcome.0.as_ref(), out);
        out.uint(self.outcome.1.into());
        out.array(2);
        match self.severity.0 {
            Some((least, greatest)) => {
                out.array(2).uint(least.into()).uint(greatest.into());
            }
            None => {
                out.null();
            }
        }
        out.uint(self.severity.1.into());
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Corruption> {
        reader.array_exact(11)?;
        let rows = reader.narrow()?;
        let time = (Micros(reader.int()?), Micros(reader.int()?));
        let ingested_at = (Micros(reader.int()?), Micros(reader.int()?));
        let seq = (reader.uint()?, reader.uint()?);
        let missing = Corruption::new(reader.check(), None, "text bounds", "null");
        let tenant = read_pair(reader)?.ok_or_else(|| missing.clone())?;
        let action = read_pair(reader)?.ok_or(missing)?;
        reader.array_exact(2)?;
        let outcome = (read_pair(reader)?, reader.narrow()?);
        reader.array_exact(2)?;
        let bounds = if reader.null()? {
            None
        } else {
            reader.array_exact(2)?;
            Some((reader.narrow()?, reader.narrow()?))
        };
        let severity = (bounds, reader.narrow()?);
        Ok(BatchZone { rows, time, ingested_at, seq, tenant, action, outcome, severity })
    }
}

fn write_pair(pair: Option<&(String, String)>, out: &mut Writer) {
    match pair {
        Some((least, greatest)) => out.array(2).text(least).text(greatest),
        None => out.null(),
    };
}

fn read_pair(reader: &mut Reader<'_>) -> Result<Option<(String, String)>, Corruption> {
    if reader.null()? {
        return Ok(None);
    }
    reader.array_exact(2)?;
    Ok(Some((reader.text()?.to_owned(), reader.text()?.to_owned())))
}

impl Facts {
    pub(super) fn write(&self, out: &mut Writer) {
        out.array(8).uint(self.rows.into());
        for time in [self.time.0, self.time.1, self.ingested_at.0, self.ingested_at.1] {
            out.int(time.0);
        }
        write_list(self.tenants.as_deref(), out, |run, out| {
            out.array(5).text(&run.tenant).uint(run.first_row.into()).uint(run.rows.into());
            out.int(run.time.0.0).int(run.time.1.0);
        });
        write_list(self.actions.as_deref(), out, |(action, rows), out| {
            out.array(2).text(action).uint((*rows).into());
        });
        write_list(self.outcomes.as_deref(), out, |(outcome, rows), out| {
            out.array(2);
            match outcome {
                Some(outcome) => out.text(outcome),
                None => out.null(),
            };
            out.uint((*rows).into());
        });
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Corruption> {
        reader.array_exact(8)?;
        Ok(Facts {
            rows: reader.narrow()?,
            time: (Micros(reader.int()?), Micros(reader.int()?)),
            ingested_at: (Micros(reader.int()?), Micros(reader.int()?)),
            tenants: read_list(reader, |reader| {
                reader.array_exact(5)?;
                Ok(TenantRun {
                    tenant: reader.text()?.to_owned(),
                    first_row: reader.narrow()?,
                    rows: reader.narrow()?,
                    time: (Micros(reader.int()?), Micros(reader.int()?)),
                })
            })?,
            actions: read_list(reader, |reader| {
                reader.array_exact(2)?;
                Ok((reader.text()?.to_owned(), reader.narrow()?))
            })?,
            outcomes: read_list(reader, |reader| {
                reader.array_exact(2)?;
                let outcome = if reader.null()? { None } else { Some(reader.text()?.to_owned()) };
                Ok((outcome, reader.narrow()?))
            })?,
        })
    }
}

fn write_list<T>(list: Option<&[T]>, out: &mut Writer, write: impl Fn(&T, &mut Writer)) {
    let Some(list) = list else {
        out.null();
        return;
    };
    out.array(list.len());
    for item in list {
        write(item, out);
    }
}

fn read_list<'a, T>(
    reader: &mut Reader<'a>,
    read: impl Fn(&mut Reader<'a>) -> Result<T, Corruption>,
) -> Result<Option<Vec<T>>, Corruption> {
    if reader.null()? {
        return Ok(None);
    }
    let length = reader.array()?;
    (0..length).map(|_| read(reader)).collect::<Result<_, _>>().map(Some)
}

/// The runs of equal tenants over all batches.
fn tenant_runs(batches: &[RecordBatch]) -> Result<Vec<TenantRun>, Corruption> {
    let mut runs: Vec<TenantRun> = Vec::new();
    let mut rows_before = 0;
    for batch in batches {
        let (tenants, times) = (text(batch, "tenant")?, times(batch, "time")?);
        let mut start = 0;
        while start < batch.num_rows() {
            let end = tenants.run_end(start);
            let tenant = tenants.get(start).unwrap_or_default();
            let (first_row, rows) = ((rows_before + start) as u32, (end - start) as u32);
            let time = span(times.get(start..end).unwrap_or_default(), "time")?;
            match runs.last_mut() {
                Some(run) if run.tenant == tenant => {
                    run.rows += rows;
                    run.time = (run.time.0.min(time.0), run.time.1.max(time.1));
                }
                _ => runs.push(TenantRun { tenant: tenant.to_owned(), first_row, rows, time }),
            }
            start = end;
        }
        rows_before += batch.num_rows();
    }
    Ok(runs)
}
