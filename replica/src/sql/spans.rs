//! Which rows of one open segment a scan has to look at.

use std::ops::Range;

use sealcast_common::clock::Micros;
use sealcast_common::fault::Corruption;
use sealcast_common::segment::{BlockKind, Seal, actor_hash, event_hash};
use sealcast_vault::VerifiedSegment;

use super::prune::Prune;

/// Rows of one batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Rows {
    /// Consecutive ones.
    Range(Range<usize>),
    /// Single ones, ascending, as an index gave them.
    Picked(Vec<u32>),
}

impl Rows {
    pub(super) fn len(&self) -> usize {
        match self {
            Rows::Range(range) => range.len(),
            Rows::Picked(rows) => rows.len(),
        }
    }

    /// The `i`-th row.
    pub(super) fn at(&self, i: usize) -> usize {
        match self {
            Rows::Range(range) => range.start + i,
            Rows::Picked(rows) => rows.get(i).map_or(0, |row| *row as usize),
        }
    }

    /// Keeps the `keep` part of them.
    pub(super) fn narrow(&self, keep: Range<usize>) -> Rows {
        match self {
            Rows::Range(range) => Rows::Range(range.start + keep.start..range.start + keep.end),
            Rows::Picked(rows) => Rows::Picked(rows.get(keep).unwrap_or_default().to_vec()),
        }
    }
}

/// Rows of one batch, with what is known of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// The batch.
    pub(super) batch: usize,
    /// Which of its rows.
    pub(super) rows: Rows,
    /// Bounds of their times.
    pub(super) time: (Micros, Micros),
    /// Whether they are of one tenant, hence ascending by time.
    pub(super) sorted: bool,
}

impl Span {
    /// Whether the span belongs to this part of its segment. Decided by the batch alone: parts are
    /// planned at different moments, when a running top-k has ruled out different spans, and any
    /// count over what is left would give a span to two parts or to none.
    pub(super) fn is_of(&self, part: usize, parts: usize) -> bool {
        self.batch % parts.max(1) == part
    }
}

/// Consecutive rows of a segment.
struct Stretch {
    rows: Range<usize>,
    time: (Micros, Micros),
    sorted: bool,
}

/// The spans that survive all of `prunes`, in file order. `by_tenant` asks for one span per tenant
/// and batch, where time is ascending.
pub(super) fn spans(
    segment: &VerifiedSegment,
    prunes: &[&Prune],
    by_tenant: bool,
) -> Result<Vec<Span>, Corruption> {
    let seal = segment.seal();
    let stretches = stretches(seal, prunes, by_tenant);
    if stretches.is_empty() {
        return Ok(Vec::new());
    }
    let mut kept = vec![true; seal.zones.len()];
    for prune in prunes {
        for (kept, may_hold) in kept.iter_mut().zip(prune.batches(&seal.zones)) {
            *kept &= may_hold;
        }
    }
    let picked = candidates(segment, prunes)?;
    let batch_rows = (seal.batch_rows as usize).max(1);
    let mut spans = Vec::new();
    for stretch in stretches {
        let mut at = stretch.rows.start;
        while at < stretch.rows.end {
            let batch = at / batch_rows;
            let first = batch * batch_rows;
            let end = stretch.rows.end.min(first + batch_rows);
            let rows = match &picked {
                None => Rows::Range(at - first..end - first),
                Some(picked) => pick(picked, at..end, first),
            };
            if rows.len() > 0
                && kept.get(batch).copied().unwrap_or(false)
                && let Some(zone) = seal.zones.get(batch)
            {
                let time = (stretch.time.0.max(zone.time.0), stretch.time.1.min(zone.time.1));
                spans.push(Span { batch, rows, time, sorted: stretch.sorted });
            }
            at = end;
        }
    }
    Ok(spans)
}

fn stretches(seal: &Seal, prunes: &[&Prune], by_tenant: bool) -> Vec<Stretch> {
    let wanted = prunes.iter().find_map(|prune| prune.tenants.as_ref());
    let whole = || {
        let rows = 0..seal.facts.rows as usize;
        vec![Stretch { rows, time: seal.facts.time, sorted: false }]
    };
    let Some(directory) = &seal.facts.tenants else { return whole() };
    let runs: Vec<_> = match wanted {
        // Tenants are in order, in the list as in the directory.
        Some(tenants) => tenants
            .names
            .iter()
            .filter_map(|name| {
                let found = directory.binary_search_by(|run| run.tenant.as_str().cmp(name));
                found.ok().and_then(|i| directory.get(i))
            })
            .collect(),
        None if by_tenant => directory.iter().collect(),
        None => return whole(),
    };
    runs.into_iter()
        .filter(|run| prunes.iter().all(|prune| prune.run(run)))
        .map(|run| {
            let first = run.first_row as usize;
            Stretch { rows: first..first + run.rows as usize, time: run.time, sorted: true }
        })
        .collect()
}

/// Rows that an id index names, ascending; `None` when no index helps.
fn candidates(
    segment: &VerifiedSegment,
    prunes: &[&Prune],
) -> Result<Option<Vec<u32>>, Corruption> {
    let (kind, hashes) = if let Some(ids) = prunes.iter().find_map(|p| p.event_ids.as_ref()) {
        (BlockKind::EventIndex, ids.iter().map(event_hash).collect::<Vec<_>>())
    } else if let Some(ids) = prunes.iter().find_map(|p| p.actor_ids.as_ref()) {
        (BlockKind::ActorIndex, ids.iter().map(|id| actor_hash(id)).collect())
    } else {
        return Ok(None);
    };
    let index = segment.view().index(kind)?;
    let mut rows: Vec<u32> = hashes.into_iter().flat_map(|hash| index.candidates(hash)).collect();
    rows.sort_unstable();
    rows.dedup();
    // An id that a large part of the rows has is read faster in a row than one by one.
    let many = segment.seal().facts.rows as usize / 8;
    let helps = kind == BlockKind::EventIndex || rows.len() <= many.max(64);
    Ok(helps.then_some(rows))
}

/// The picked rows within `rows`, counted from `first`.
fn pick(picked: &[u32], rows: Range<usize>, first: usize) -> Rows {
    let from = picked.partition_point(|row| (*row as usize) < rows.start);
    let to = picked.partition_point(|row| (*row as usize) < rows.end);
    let found = picked.get(from..to).unwrap_or_default();
    Rows::Picked(found.iter().map(|row| row - first as u32).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_span_is_of_one_part() {
        let span = |batch, first| Span {
            batch,
            rows: Rows::Range(first..first + 10),
            time: (Micros(0), Micros(1)),
            sorted: true,
        };
        let all: Vec<Span> = (0..7).flat_map(|b| (0..3).map(move |i| span(b, i * 10))).collect();
        for parts in 1..5 {
            for span in &all {
                assert_eq!((0..parts).filter(|part| span.is_of(*part, parts)).count(), 1);
            }
        }
    }
}
