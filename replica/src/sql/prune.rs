//! What can be ruled out without reading rows: segments by descriptor, batches by zone map, rows
//! by the tenant directory and the id indexes.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, IsNullExpr, Literal};
use datafusion::physical_expr::utils::split_disjunction;
use datafusion::physical_expr::utils::{Guarantee, LiteralGuarantee};
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};
use datafusion::physical_optimizer::pruning::{PruningPredicate, PruningPredicateBuilder};
use datafusion::scalar::ScalarValue;
use sealcast_common::catalog::Descriptor;
use sealcast_common::clock::Micros;
use sealcast_common::segment::{BatchZone, TenantRun};
use sealcast_vault::{Block, Bounds, SegmentEntry, Segments};

use super::statistics::{BoundsStatistics, ZoneStatistics};

/// Longest `IN` list that is turned into bounds, values.
const IN_LIST_MAX: usize = 64;
/// Longest list of ids that is looked up in an index.
const LOOKUPS_MAX: usize = 4_096;

/// The values of `time` that a row must have, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimeBounds {
    /// Least.
    pub(super) from: i64,
    /// Greatest.
    pub(super) to: i64,
}

impl TimeBounds {
    pub(super) const ALL: TimeBounds = TimeBounds { from: i64::MIN, to: i64::MAX };

    pub(super) fn and(self, other: TimeBounds) -> TimeBounds {
        TimeBounds { from: self.from.max(other.from), to: self.to.min(other.to) }
    }

    pub(super) fn overlaps(self, (least, greatest): (Micros, Micros)) -> bool {
        self.from <= greatest.0 && least.0 <= self.to
    }

    /// What the conjuncts of `predicate` say about `time` in so many words.
    fn of(predicate: &Arc<dyn PhysicalExpr>) -> TimeBounds {
        split_conjunction(predicate)
            .into_iter()
            .fold(TimeBounds::ALL, |bounds, term| bounds.and(Self::of_term(term)))
    }

    /// Whether bounds of `time` are all that `predicate` says.
    fn are(predicate: &Arc<dyn PhysicalExpr>) -> bool {
        split_conjunction(predicate)
            .into_iter()
            .all(|term| is_true(term) || Self::of_term(term) != TimeBounds::ALL)
    }

    fn of_term(term: &Arc<dyn PhysicalExpr>) -> TimeBounds {
        let Some(binary) = term.downcast_ref::<BinaryExpr>() else { return TimeBounds::ALL };
        if *binary.op() == Operator::Or {
            // `time IS NULL OR time > x` is how a descending top-k asks; `time` is never null.
            let mut terms = split_disjunction(term).into_iter().filter(|term| !is_null_time(term));
            return match (terms.next(), terms.next()) {
                (Some(only), None) => Self::of_term(only),
                _ => TimeBounds::ALL,
            };
        }
        let (op, value) = match (is_time(binary.left()), literal(binary.right())) {
            (true, Some(value)) => (Some(*binary.op()), value),
            _ => match (literal(binary.left()), is_time(binary.right())) {
                (Some(value), true) => (binary.op().swap(), value),
                _ => return TimeBounds::ALL,
            },
        };
        let all = TimeBounds::ALL;
        match op {
            Some(Operator::Gt) => TimeBounds { from: value.saturating_add(1), ..all },
            Some(Operator::GtEq) => TimeBounds { from: value, ..all },
            Some(Operator::Lt) => TimeBounds { to: value.saturating_sub(1), ..all },
            Some(Operator::LtEq) => TimeBounds { to: value, ..all },
            Some(Operator::Eq) => TimeBounds { from: value, to: value },
            _ => all,
        }
    }
}

fn is_time(expr: &Arc<dyn PhysicalExpr>) -> bool {
    expr.downcast_ref::<Column>().is_some_and(|column| column.name() == "time")
}

fn is_null_time(expr: &Arc<dyn PhysicalExpr>) -> bool {
    expr.downcast_ref::<IsNullExpr>().is_some_and(|is_null| is_time(is_null.arg()))
}

fn is_true(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let value = expr.downcast_ref::<Literal>().map(Literal::value);
    matches!(value, Some(ScalarValue::Boolean(Some(true))))
}

fn literal(expr: &Arc<dyn PhysicalExpr>) -> Option<i64> {
    match expr.downcast_ref::<Literal>()?.value() {
        ScalarValue::TimestampMicrosecond(value, _) => *value,
        _ => None,
    }
}

/// Tenants that a row must be of, with their digests, computed once.
#[derive(Debug)]
pub(super) struct Tenants {
    pub(super) names: BTreeSet<String>,
    digests: Vec<u64>,
}

/// What one predicate rules out. It never rules out a row that satisfies the predicate.
#[derive(Debug)]
pub(super) struct Prune {
    predicate: Option<Arc<PruningPredicate>>,
    pub(super) time: TimeBounds,
    pub(super) tenants: Option<Tenants>,
    pub(super) event_ids: Option<Vec<[u8; 16]>>,
    pub(super) actor_ids: Option<Vec<String>>,
}

impl Prune {
    /// Reads what `predicate`, over the columns of `schema`, guarantees of its rows.
    pub(super) fn new(predicate: &Arc<dyn PhysicalExpr>, schema: &SchemaRef) -> Self {
        let mut prune = Prune {
            predicate: None,
            time: TimeBounds::of(predicate),
            tenants: None,
            event_ids: None,
            actor_ids: None,
        };
        // A top-k says nothing else, and says it again after every batch.
        if TimeBounds::are(predicate) {
            return prune;
        }
        prune.predicate = PruningPredicateBuilder::new()
            .with_file_schema(Arc::clone(schema))
            .with_max_in_list_size(IN_LIST_MAX)
            .build(Arc::clone(predicate));
        for guarantee in LiteralGuarantee::analyze(predicate) {
            if guarantee.guarantee != Guarantee::In || guarantee.literals.len() > LOOKUPS_MAX {
                continue;
            }
            let literals = guarantee.literals.iter();
            match guarantee.column.name.as_str() {
                "tenant" => prune.tenants = texts(literals).map(Tenants::new),
                "actor_id" => prune.actor_ids = texts(literals),
                "event_id" => prune.event_ids = literals.map(uuid).collect(),
                _ => {}
            }
        }
        prune
    }

    /// False only if no row within the bounds can satisfy the predicate. Cheap: it comes first.
    fn may_hold(&self, bounds: &impl Bounds) -> bool {
        self.time.overlaps(bounds.time())
            && self.tenants.as_ref().zip(bounds.tenants()).is_none_or(|(wanted, listed)| {
                wanted.digests.iter().any(|digest| listed.binary_search(digest).is_ok())
            })
    }

    /// Keeps those of `items` that may hold rows.
    fn retain<T, B: Bounds>(&self, items: &mut Vec<T>, bounds: fn(&T) -> &B) {
        items.retain(|item| self.may_hold(bounds(item)));
        let Some(predicate) = self.predicate.as_ref().filter(|_| !items.is_empty()) else { return };
        let all: Vec<&B> = items.iter().map(bounds).collect();
        if let Ok(mask) = predicate.prune(&BoundsStatistics(&all)) {
            let mut mask = mask.into_iter();
            items.retain(|_| mask.next().unwrap_or(true));
        }
    }

    /// Whether the one segment may hold rows.
    pub(super) fn segment(&self, entry: &Arc<SegmentEntry>) -> bool {
        let mut one = vec![entry];
        self.retain(&mut one, |entry| entry.descriptor.as_ref());
        !one.is_empty()
    }

    /// Per batch: whether it may hold rows.
    pub(super) fn batches(&self, zones: &[BatchZone]) -> Vec<bool> {
        let predicate = self.predicate.as_ref();
        predicate
            .and_then(|predicate| predicate.prune(&ZoneStatistics(zones)).ok())
            .unwrap_or_else(|| vec![true; zones.len()])
    }

    /// Whether the run of one tenant may hold rows.
    pub(super) fn run(&self, run: &TenantRun) -> bool {
        self.time.overlaps(run.time)
            && self.tenants.as_ref().is_none_or(|tenants| tenants.names.contains(&run.tenant))
    }
}

/// The segments that may hold rows by all of `prunes`: whole blocks of them first, so that planning
/// costs what is kept, not what there is.
pub(super) fn kept(segments: &Segments, prunes: &[&Prune]) -> Vec<Arc<SegmentEntry>> {
    let mut blocks: Vec<&Arc<Block>> = segments.blocks().iter().collect();
    for prune in prunes {
        prune.retain(&mut blocks, |block| block.as_ref());
    }
    let entries = blocks.into_iter().flat_map(|block| block.entries());
    let mut entries: Vec<_> = entries.map(Arc::clone).collect();
    for prune in prunes {
        prune.retain(&mut entries, |entry| entry.descriptor.as_ref());
    }
    entries
}

impl Tenants {
    fn new(names: Vec<String>) -> Self {
        let digests = names.iter().map(|name| Descriptor::tenant_digest(name)).collect();
        Tenants { names: names.into_iter().collect(), digests }
    }
}

/// The texts of all literals; `None` if one of them is something else. Null equals nothing.
fn texts<'a>(literals: impl Iterator<Item = &'a ScalarValue>) -> Option<Vec<String>> {
    let texts = literals.map(|literal| literal.try_as_str());
    texts.filter(|text| *text != Some(None)).map(|text| Some(text??.to_owned())).collect()
}

fn uuid(literal: &ScalarValue) -> Option<[u8; 16]> {
    match literal {
        ScalarValue::FixedSizeBinary(16, Some(bytes)) => bytes.as_slice().try_into().ok(),
        _ => None,
    }
}
