//! The sixteen queries, with parameters that follow from rows and seed.

use sealcast_common::clock::Micros;
use serde_json::{Value, json};

use super::data::DataSet;
use super::events::{EPOCH, Generator, STEP};
use super::words::NEEDLE;

/// The tenant that is neither hot nor cold.
const MIDDLING: usize = 40;
/// The tenant whose busiest actor is looked for.
const LOOKED_FOR: usize = 10;
/// Rows that q14 exports, at most.
const EXPORT_ROWS: u64 = 1_000_000;
/// A page of events, as a person sees it.
const PAGE: &str = "event_id, time, action, actor_id, outcome, target_id, source_ip, message";

/// One of the sixteen.
#[derive(Clone, Debug)]
pub(super) struct Query {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    pub(super) sql: String,
}

/// What the queries ask about.
#[derive(Clone, Debug)]
pub(super) struct Parameters {
    event_id: String,
    hot: String,
    middling: String,
    actor_tenant: String,
    actor: String,
    /// The middle third of the time span.
    window: (Micros, Micros),
    /// 24 hours in the middle, less if there is less.
    day: (Micros, Micros),
    export: (Micros, Micros),
}

impl Parameters {
    pub(super) fn new(set: &DataSet, events: &Generator) -> Self {
        let rows = set.rows as i64;
        let at = |row: i64| Micros(EPOCH + row * STEP);
        let middle = |width: i64| (at((rows - width) / 2), at((rows + width) / 2));
        let day = (24 * 3_600 * 1_000_000 / STEP).min(rows / 3);
        let export = EXPORT_ROWS.min(set.rows / 2) as i64;
        let event = events.event(set.rows * 5 / 8);
        Parameters {
            event_id: uuid::Uuid::from_bytes(event.event_id).to_string(),
            hot: events.tenant(0).to_owned(),
            middling: events.tenant(MIDDLING).to_owned(),
            actor_tenant: events.tenant(LOOKED_FOR).to_owned(),
            actor: events.busiest_actor(LOOKED_FOR),
            window: middle(rows / 3),
            day: middle(day),
            export: middle(export),
        }
    }

    /// For the other databases' dialects.
    pub(super) fn to_json(&self) -> Value {
        let span = |span: (Micros, Micros)| json!([span.0.to_rfc3339(), span.1.to_rfc3339()]);
        json!({
            "event_id": self.event_id,
            "hot": self.hot,
            "middling": self.middling,
            "actor_tenant": self.actor_tenant,
            "actor": self.actor,
            "window": span(self.window),
            "day": span(self.day),
            "export": span(self.export),
            "needle": NEEDLE,
            "page": PAGE,
        })
    }
}

fn within(column: &str, span: (Micros, Micros)) -> String {
    format!("{column} >= '{}' and {column} < '{}'", span.0, span.1)
}

/// All of them, in our dialect.
pub(super) fn queries(p: &Parameters) -> Vec<Query> {
    let query = |name, what, sql| Query { name, what, sql };
    let window = within("time", p.window);
    let newest = |tenant: &str, rest: &str, rows: u32| {
        format!(
            "select {PAGE} from events where tenant = '{tenant}' and {rest} \
             order by time desc limit {rows}"
        )
    };
    let by_action = |tenant: &str| {
        format!(
            "select action, count(*) as n from events where tenant = '{tenant}' and {window} \
             group by action"
        )
    };
    let actor = format!("actor_id = '{}'", p.actor);
    vec![
        query("q01", "row by event id", format!("select * from events where event_id = '{}'", p.event_id)),
        query("q02", "newest 50 of a tenant's actor", newest(&p.actor_tenant, &actor, 50)),
        query("q03a", "newest 100 in a window, hot tenant", newest(&p.hot, &window, 100)),
        query("q03b", "the same, middling tenant", newest(&p.middling, &window, 100)),
        query("q04a", "count by action in a window, hot tenant", by_action(&p.hot)),
        query("q04b", "the same, middling tenant", by_action(&p.middling)),
        query("q05", "top 10 tenants", "select tenant, count(*) as n from events group by tenant order by n desc limit 10".into()),
        query("q06", "distinct actors per hour", "select date_trunc('hour', time) as hour, count(distinct actor_id) as n from events group by 1".into()),
        query("q07", "p99 of arrival's delay per action", "select action, approx_percentile_cont(0.99) within group (order by cast(ingested_at as bigint) - cast(time as bigint)) as p99 from events group by action".into()),
        query("q08", "substring in two text columns", format!("select count(*) as n from events where message like '%{NEEDLE}%' or attributes like '%{NEEDLE}%'")),
        query("q09", "filter on a JSON key", "select count(*) as n from events where attributes ->> 'region' = 'ap-south-1'".into()),
        query("q10", "count", "select count(*) as n from events".into()),
        query("q11", "first and last time", "select min(time) as first, max(time) as last from events".into()),
        query("q12", "count by hour and outcome", "select date_trunc('hour', time) as hour, outcome, count(*) as n from events group by 1, 2".into()),
        query("q13", "denied, then success within 5 minutes", denied_then_success(p)),
        query("q14", "export a million rows, all columns", format!("select * from events where {}", within("time", p.export))),
    ]
}

/// A self-join over a day.
fn denied_then_success(p: &Parameters) -> String {
    format!(
        "select count(*) as n from events a join events b \
         on a.tenant = b.tenant and a.actor_id = b.actor_id \
         and b.time > a.time and b.time <= a.time + interval '5 minutes' \
         where a.outcome = 'denied' and b.outcome = 'success' and {} and {}",
        within("a.time", p.day),
        within("b.time", p.day)
    )
}
