//! A grammar of statements over `events`, rolled by dice.

use sealcast_common::clock::Micros;

use super::world::{Dice, World};

/// A statement, and whether its rows come in a total order.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) sql: String,
    pub(super) ordered: bool,
}

const COLUMNS: [&str; 12] = [
    "event_id",
    "tenant",
    "time",
    "ingested_at",
    "action",
    "actor_id",
    "outcome",
    "severity",
    "target_id",
    "attributes",
    "_shard",
    "_seq",
];
const KEYS: [&str; 7] =
    ["tenant", "action", "outcome", "severity", "_shard", "actor_id", "date_trunc('minute', time)"];
const TENANTS: [&str; 6] = ["tenant-0", "tenant-1", "tenant-2", "tenant-5", "nobody", ""];
const OPERATORS: [&str; 7] = ["=", "<>", "<", "<=", ">", ">=", "is distinct from"];

fn time(dice: &mut Dice, world: &World) -> String {
    let known = world.times.get(dice.below(world.times.len() as u64) as usize);
    let micros = known.copied().unwrap_or(crate::tests::kit::EPOCH);
    Micros(micros + dice.below(3) as i64 - 1).to_rfc3339()
}

fn list(items: impl Iterator<Item = String>) -> String {
    items.map(|item| format!("'{item}'")).collect::<Vec<_>>().join(", ")
}

fn texts(dice: &mut Dice, of: &[&str]) -> String {
    let count = 1 + dice.below(3);
    let mut items = list((0..count).map(|_| dice.pick(of).to_owned()));
    if dice.chance(10) {
        items.push_str(", null");
    }
    items
}

fn not(dice: &mut Dice) -> &'static str {
    dice.pick(&["", "", "not "])
}

fn text_term(dice: &mut Dice, column: &str, values: &[&str]) -> String {
    let (op, value) = (dice.pick(&OPERATORS), dice.pick(values));
    match dice.below(9) {
        0 => format!("{column} {}in ({})", not(dice), texts(dice, values)),
        1 => format!("{column} is {}null", not(dice)),
        2 => format!("{column} {}like '{}%'", not(dice), &value[..value.len().min(6)]),
        3 => format!("{column} {}between '{value}' and '{}'", not(dice), dice.pick(values)),
        4 => format!("coalesce({column}, 'none') {op} '{value}'"),
        5 => format!("'{value}' {op} {column}"),
        6 => format!("{column} {}like '%{}%'", not(dice), &value[value.len() / 2..]),
        _ => format!("{column} {op} '{value}'"),
    }
}

fn number_term(dice: &mut Dice, column: &str, bound: u64) -> String {
    let (op, value) = (dice.pick(&OPERATORS), dice.below(bound));
    match dice.below(6) {
        0 => format!("{column} {}in ({value}, {})", not(dice), dice.below(bound)),
        1 => format!("{column} is {}null", not(dice)),
        2 => format!("{column} {}between {value} and {}", not(dice), value + dice.below(bound)),
        3 => format!("{column} % 3 {op} {}", dice.below(3)),
        _ => format!("{column} {op} {value}"),
    }
}

fn time_term(dice: &mut Dice, world: &World, column: &str) -> String {
    let (op, value, other) = (dice.pick(&OPERATORS), time(dice, world), time(dice, world));
    match dice.below(7) {
        0 => format!("{column} {}between '{value}' and '{other}'", not(dice)),
        1 => format!("{column} {}in ('{value}', '{other}')", not(dice)),
        2 => {
            format!("date_trunc('minute', {column}) {op} date_trunc('minute', timestamp '{value}')")
        }
        3 => format!("'{value}' {op} {column}"),
        4 => format!("{column} + interval '1 second' {op} '{value}'"),
        5 => format!("({column} {op} '{value}') or {column} is null"),
        _ => format!("{column} {op} '{value}'"),
    }
}

fn id_term(dice: &mut Dice, world: &World) -> String {
    let (id, other) = (world.id(dice), world.id(dice));
    match dice.below(5) {
        0 => format!("event_id {}in ('{id}', '{other}')", not(dice)),
        1 => format!("event_id {} '{id}'", dice.pick(&OPERATORS)),
        2 => format!("event_id::text {}like '%{}'", not(dice), dice.below(10)),
        _ => format!("event_id = '{id}'"),
    }
}

fn nested_term(dice: &mut Dice, world: &World) -> String {
    let inner = filter(dice, world, 0);
    match dice.below(5) {
        0 => format!("_seq {}in (select _seq from events where {inner})", not(dice)),
        1 => format!("actor_id {}in (select actor_id from events where {inner})", not(dice)),
        2 => format!("time = (select max(time) from events where {inner})"),
        3 => format!(
            "{}exists (select 1 from events inner_events where inner_events._seq = events._seq and inner_events._shard <> events._shard)",
            not(dice)
        ),
        _ => format!("_seq < (select count(*) from events where {inner})"),
    }
}

fn leaf(dice: &mut Dice, world: &World) -> String {
    let actors = ["actor-0", "actor-3", "actor-6", "actor-9", ""];
    match dice.below(20) {
        0..3 => text_term(dice, "tenant", &TENANTS),
        3 => text_term(dice, "action", &["file.read", "user.login", "z", "none"]),
        4 | 5 => text_term(dice, "actor_id", &actors),
        6 => text_term(dice, "outcome", &["success", "denied", "none"]),
        7 => number_term(dice, "severity", 26),
        8 => number_term(dice, "_seq", 120),
        9 => number_term(dice, "_shard", 4),
        10..13 => time_term(dice, world, "time"),
        13 => time_term(dice, world, "ingested_at"),
        14 => id_term(dice, world),
        15 => format!("(attributes->>'n') {} '{}'", dice.pick(&OPERATORS), dice.below(60)),
        16 => format!(
            "json_get_int(attributes, 'n') {} {}",
            dice.pick(&OPERATORS[..6]),
            dice.below(60)
        ),
        17 => dice
            .pick(&[
                "true",
                "false",
                "null",
                "time < ingested_at",
                "tenant < action",
                "user_agent is null",
                "message = 'x'",
            ])
            .to_owned(),
        18 => format!("attributes {}like '%:{}%'", not(dice), dice.below(60)),
        _ => number_term(dice, "_seq", 40_000),
    }
}

fn filter(dice: &mut Dice, world: &World, depth: u64) -> String {
    if depth == 0 || dice.chance(30) {
        return format!("({})", leaf(dice, world));
    }
    if dice.chance(8) {
        return nested_term(dice, world);
    }
    let (left, right) = (filter(dice, world, depth - 1), filter(dice, world, depth - 1));
    match dice.below(8) {
        0 => format!("not ({left})"),
        1..4 => format!("({left} or {right})"),
        _ => format!("({left} and {right})"),
    }
}

fn condition(dice: &mut Dice, world: &World) -> String {
    match dice.below(5) {
        0 => String::new(),
        _ => format!(" where {}", filter(dice, world, 3)),
    }
}

fn direction(dice: &mut Dice) -> &'static str {
    dice.pick(&["", " desc", " asc", " desc nulls last", " nulls first", " desc nulls first"])
}

fn limit(dice: &mut Dice) -> String {
    match dice.below(4) {
        0 => String::new(),
        1 => format!(" limit {} offset {}", dice.below(50), dice.below(40)),
        _ => format!(" limit {}", dice.below(70)),
    }
}

fn columns(dice: &mut Dice) -> String {
    let count = 1 + dice.below(4);
    (0..count).map(|i| format!("{} as c{i}", dice.pick(&COLUMNS))).collect::<Vec<_>>().join(", ")
}

/// A total order: place in the log is unique.
fn order(dice: &mut Dice) -> String {
    let mut keys = String::new();
    for _ in 0..dice.below(3) {
        let key =
            dice.pick(&["time", "time", "time", "severity", "tenant", "actor_id", "ingested_at"]);
        keys.push_str(&format!("{key}{}, ", direction(dice)));
    }
    format!(" order by {keys}_shard{}, _seq{}", direction(dice), direction(dice))
}

fn aggregates(dice: &mut Dice) -> String {
    let known = [
        "count(*)",
        "count(outcome)",
        "min(time)",
        "max(time)",
        "min(ingested_at)",
        "max(ingested_at)",
        "min(_seq)",
        "max(_seq)",
        "min(_shard)",
        "max(_shard)",
        "sum(severity)",
        "avg(severity)",
        "min(tenant)",
        "max(tenant)",
        "max(actor_id)",
        "count(distinct actor_id)",
        "count(distinct tenant)",
        "bool_or(outcome is null)",
        "count(1)",
        "sum(case when outcome = 'denied' then 1 else 0 end)",
        "count(*) filter (where severity > 5)",
        "min(severity)",
    ];
    let count = 1 + dice.below(3);
    (0..count).map(|i| format!("{} as a{i}", dice.pick(&known))).collect::<Vec<_>>().join(", ")
}

fn grouped(dice: &mut Dice, world: &World) -> Question {
    let keys: Vec<&str> = (0..1 + dice.below(2)).map(|_| dice.pick(&KEYS)).collect();
    let named: Vec<String> =
        keys.iter().enumerate().map(|(i, key)| format!("{key} as k{i}")).collect();
    let places: Vec<String> = (1..=keys.len()).map(|i| i.to_string()).collect();
    let having = if dice.chance(20) { " having count(*) > 2" } else { "" };
    let sql = format!(
        "select {}, {} from events{} group by {}{having} order by {}{}",
        named.join(", "),
        aggregates(dice),
        condition(dice, world),
        places.join(", "),
        places.join(", "),
        limit(dice),
    );
    Question { sql, ordered: true }
}

fn composed(dice: &mut Dice, world: &World) -> Question {
    let (a, b) = (condition(dice, world), condition(dice, world));
    let (k, d) = (dice.below(40), direction(dice));
    let sql = match dice.below(8) {
        // Which rows a limit without an order gives is open; how many is not.
        0 => format!("select count(*) from (select tenant from events{a} limit {k})"),
        1 => format!(
            "select count(*), min(time), max(time) from (select time from events{a} order by time{d} limit {k})"
        ),
        2 => format!(
            "select tenant, _seq from events{a} union all select action, _seq from events{b}"
        ),
        3 => format!("select distinct tenant, outcome from events{a}"),
        4 => format!(
            "select l._shard, l._seq, r.tenant from (select * from events{a}) l {} join (select * from events{b}) r \
             on l._seq = r._seq and l._shard = r._shard",
            dice.pick(&["inner", "left", "right", "full"])
        ),
        5 => format!(
            "select _shard, _seq, row_number() over (partition by tenant order by time{d}, _shard, _seq) as r from events{a}"
        ),
        6 => format!(
            "with x as (select *, time as t from events{a}) select tenant, max(t) from x as events{b} group by tenant"
        ),
        _ => format!(
            "select tenant, _seq from events{a} {} select tenant, _seq from events{b}",
            dice.pick(&["except", "intersect"])
        ),
    };
    Question { sql, ordered: false }
}

/// One statement.
pub(super) fn question(dice: &mut Dice, world: &World) -> Question {
    let filter = condition(dice, world);
    match dice.below(10) {
        0..3 => Question {
            sql: format!(
                "select {} from events{filter}{}{}",
                columns(dice),
                order(dice),
                limit(dice)
            ),
            ordered: true,
        },
        // Ties at the end of a top-k have the same key, so that the keys alone are exact.
        3 => Question {
            sql: format!(
                "select time from events{filter} order by time{} limit {}",
                direction(dice),
                dice.below(40)
            ),
            ordered: true,
        },
        4 => Question {
            sql: format!("select {} from events{filter}", columns(dice)),
            ordered: false,
        },
        5 => Question {
            sql: format!("select {} from events{filter}", aggregates(dice)),
            ordered: true,
        },
        6 | 7 => grouped(dice, world),
        _ => composed(dice, world),
    }
}
