//! Which rows a walk is about: what rules out segments, batches and runs, and what decides of a row.

use std::collections::BTreeSet;

use arrow::array::{Array as _, AsArray as _, FixedSizeBinaryArray, ListArray, RecordBatch};
use arrow::datatypes::{TimestampMicrosecondType, UInt64Type};
use sealcast_common::catalog::Descriptor;
use sealcast_common::fault::Corruption;
use sealcast_common::integrity::keyed_digest;
use sealcast_common::segment::BatchZone;
use sealcast_common::segment::columns::TextColumn;
use sealcast_common::serve::access::Grant;
use sealcast_vault::Bounds;
use serde::Serialize;

/// The columns in which a text is looked for.
pub(super) const SEARCHED: [&str; 6] =
    ["message", "attributes", "action", "actor_id", "actor_name", "target_id"];
/// Bytes that are looked at of a row, beside its texts.
const ROW_BYTES: u64 = 48;

/// What rows must have. Times are microseconds, both ends included.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Filter {
    pub(super) tenant: Option<String>,
    pub(super) from: Option<i64>,
    pub(super) to: Option<i64>,
    pub(super) actor: Option<String>,
    pub(super) action: Option<String>,
    pub(super) target: Option<String>,
    pub(super) outcome: Option<String>,
    pub(super) text: Option<String>,
    pub(super) event_id: Option<[u8; 16]>,
}

impl Filter {
    /// Names what is asked; `descending` is a part of it.
    pub(super) fn digest(&self, descending: bool) -> [u8; 16] {
        let said = serde_json::json!([self, descending]).to_string();
        let digest = keyed_digest("page parameters", said.as_bytes());
        let mut short = [0; 16];
        short.copy_from_slice(&digest[..16]);
        short
    }

    /// Times that rows may have.
    pub(super) fn time(&self) -> (i64, i64) {
        (self.from.unwrap_or(i64::MIN), self.to.unwrap_or(i64::MAX))
    }

    /// False only if no row of the batch matches.
    pub(super) fn may_hold(&self, zone: &BatchZone) -> bool {
        let within = |value: &Option<String>, bounds: Option<&(String, String)>| {
            value.as_ref().is_none_or(|value| {
                bounds.is_some_and(|(least, greatest)| least <= value && value <= greatest)
            })
        };
        let (from, to) = self.time();
        from <= zone.time.1.0
            && zone.time.0.0 <= to
            && within(&self.action, Some(&zone.action))
            && within(&self.outcome, zone.outcome.0.as_ref())
    }
}

/// Whose rows a caller gets.
#[derive(Debug)]
pub(super) struct Wanted {
    /// `None`: everybody's.
    pub(super) names: Option<BTreeSet<String>>,
    digests: Vec<u64>,
}

impl Wanted {
    /// What is asked for, as far as it is the caller's to see.
    pub(super) fn new(filter: &Filter, grant: &Grant) -> Self {
        let names = match (&filter.tenant, grant.tenants.limited()) {
            (Some(tenant), _) => {
                let own = grant.allows(tenant).then(|| tenant.clone());
                Some(own.into_iter().collect())
            }
            (None, limited) => limited.cloned(),
        };
        let digests =
            names.iter().flatten().map(|name: &String| Descriptor::tenant_digest(name)).collect();
        Wanted { names, digests }
    }

    pub(super) fn holds(&self, tenant: &str) -> bool {
        self.names.as_ref().is_none_or(|names| names.contains(tenant))
    }

    /// False only if none of the rows is wanted.
    pub(super) fn may_hold(&self, bounds: &impl Bounds) -> bool {
        match (&self.names, bounds.tenants()) {
            (None, _) => true,
            (Some(names), None) => !names.is_empty(),
            (Some(_), Some(listed)) => {
                self.digests.iter().any(|digest| listed.binary_search(digest).is_ok())
            }
        }
    }
}

/// The columns of one batch that decide.
#[derive(Debug)]
pub(super) struct Columns<'a> {
    filter: &'a Filter,
    times: &'a [i64],
    ids: &'a FixedSizeBinaryArray,
    seqs: &'a [u64],
    action: TextColumn<'a>,
    actor: TextColumn<'a>,
    outcome: TextColumn<'a>,
    target: TextColumn<'a>,
    targets: &'a ListArray,
    searched: Vec<TextColumn<'a>>,
}

fn wrong(name: &str) -> Corruption {
    Corruption::new("schema", None, format!("column {name} of its type"), "another one or none")
}

impl<'a> Columns<'a> {
    pub(super) fn new(batch: &'a RecordBatch, filter: &'a Filter) -> Result<Self, Corruption> {
        let column = |name: &str| batch.column_by_name(name).ok_or_else(|| wrong(name));
        let text = |name: &str| TextColumn::new(column(name)?).ok_or_else(|| wrong(name));
        let time = column("time")?.as_primitive_opt::<TimestampMicrosecondType>();
        let seq = column("_seq")?.as_primitive_opt::<UInt64Type>();
        let searched = filter.text.iter().flat_map(|_| SEARCHED);
        Ok(Columns {
            filter,
            times: time.ok_or_else(|| wrong("time"))?.values(),
            ids: column("event_id")?.as_fixed_size_binary_opt().ok_or_else(|| wrong("event_id"))?,
            seqs: seq.ok_or_else(|| wrong("_seq"))?.values(),
            action: text("action")?,
            actor: text("actor_id")?,
            outcome: text("outcome")?,
            target: text("target_id")?,
            targets: column("targets")?.as_list_opt().ok_or_else(|| wrong("targets"))?,
            searched: searched.map(text).collect::<Result<_, _>>()?,
        })
    }

    pub(super) fn time(&self, row: usize) -> i64 {
        self.times.get(row).copied().unwrap_or_default()
    }

    pub(super) fn event_id(&self, row: usize) -> [u8; 16] {
        self.ids.value(row).try_into().unwrap_or_default()
    }

    pub(super) fn seq(&self, row: usize) -> u64 {
        self.seqs.get(row).copied().unwrap_or_default()
    }

    /// Whether the row is one of those asked for; `read` counts the bytes that were looked at.
    pub(super) fn matches(&self, row: usize, read: &mut u64) -> bool {
        let filter = self.filter;
        let is = |wanted: &Option<String>, column: &TextColumn<'_>| {
            wanted.as_ref().is_none_or(|wanted| column.get(row) == Some(wanted))
        };
        *read += ROW_BYTES;
        filter.event_id.is_none_or(|wanted| self.event_id(row) == wanted)
            && is(&filter.action, &self.action)
            && is(&filter.outcome, &self.outcome)
            && is(&filter.actor, &self.actor)
            && filter.target.as_ref().is_none_or(|wanted| self.concerns(row, wanted))
            && filter.text.as_ref().is_none_or(|wanted| self.says(row, wanted, read))
    }

    /// Whether one of the targets has this id.
    fn concerns(&self, row: usize, wanted: &str) -> bool {
        if self.target.get(row) == Some(wanted) {
            return true;
        }
        let ids = self.targets.values().as_struct_opt().and_then(|all| all.column_by_name("id"));
        let Some(ids) = ids.and_then(|ids| ids.as_string_opt::<i32>()) else { return false };
        let offsets = self.targets.value_offsets();
        let [from, to] =
            [row, row + 1].map(|at| offsets.get(at).map_or(0, |at| (*at).max(0) as usize));
        self.targets.is_valid(row)
            && (from..to.min(ids.len())).any(|at| ids.is_valid(at) && ids.value(at) == wanted)
    }

    fn says(&self, row: usize, wanted: &str, read: &mut u64) -> bool {
        self.searched.iter().filter_map(|column| column.get(row)).any(|text| {
            *read += text.len() as u64;
            text.contains(wanted)
        })
    }
}
