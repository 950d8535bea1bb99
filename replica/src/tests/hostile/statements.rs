//! The table of hostile statements.

type Case = (&'static str, String);

/// Bombs that cost while they run.
const BOMBS: &[(&str, &str)] = &[
    ("repeat", "select sum(length(repeat('x', 1000000000))) from events"),
    ("repeat of a column", "select repeat(attributes, 1000000) from events"),
    (
        "repeat by a column",
        "select max(length(repeat('xxxxxxxxxx', cast(_seq * 1000000 as bigint)))) from events",
    ),
    ("repeat in repeat", "select length(repeat(repeat(repeat('x', 10000), 10000), 10000))"),
    ("repeat filter", "select count(*) from events where repeat(attributes, 10000000) like '%z'"),
    ("lpad", "select length(lpad('x', 2000000000, 'y'))"),
    ("lpad of a column", "select count(lpad(attributes, 100000000)) from events"),
    ("rpad of a column", "select max(rpad(tenant, 1000000)) from events"),
    ("array_repeat", "select cardinality(array_repeat(array_repeat(1, 100000), 100000))"),
    ("array_repeat of a column", "select count(array_repeat(attributes, 10000000)) from events"),
    ("range", "select cardinality(range(0, 10000000000))"),
    ("range per row", "select sum(cardinality(range(0, 1000000))) from events"),
    ("series unnested", "select count(*) from (select unnest(generate_series(1, 1000000000)))"),
    (
        "series of times",
        "select range(timestamp '2000-01-01', timestamp '2030-01-01', interval '1 microsecond')",
    ),
    (
        "series of months",
        "select cardinality(range(date '0001-01-01', date '9999-01-01', interval '1 month')) from events",
    ),
    ("series table", "select sum(value) from generate_series(1, 1000000000000)"),
    ("array_resize", "select array_resize(make_array(1), 1000000000, 7)"),
    ("array_resize of rows", "select array_resize(make_array(attributes), 10000000) from events"),
    (
        "string_agg",
        "select length(string_agg(repeat('x', 10000), ',')) from generate_series(1, 1000000)",
    ),
    (
        "array_agg",
        "select cardinality(array_agg(attributes)) from events a, generate_series(1, 1000000)",
    ),
    ("array to string", "select length(array_to_string(range(0, 100000), repeat('x', 100000)))"),
    (
        "array_concat",
        "select cardinality(array_concat(range(0, 100000), range(0, 100000), range(0, 100000)))",
    ),
    ("replace", "select length(replace(repeat('a', 100000), 'a', repeat('b', 100000)))"),
    (
        "replace of a column",
        "select max(length(replace(attributes, '\"', repeat('b', 100000)))) from events",
    ),
    (
        "regexp_replace",
        "select length(regexp_replace(repeat('a', 100000), 'a', repeat('b', 100000), 'g'))",
    ),
    (
        "regexp_replace groups",
        "select length(regexp_replace(repeat('a', 900000), '(.*)', repeat('\\1', 30000)))",
    ),
    (
        "regex size",
        "select count(*) from events where regexp_like(attributes, '((a{1000}){1000}){1000}')",
    ),
    ("regex stars", "select count(*) from events where attributes ~ '(((a*)*)*)*b'"),
    ("regex on long text", "select repeat('a', 900000) ~ '(a?){500}a{500}$'"),
    ("like stars", "select repeat('a', 900000) like '%a%a%a%a%a%a%a%a%b'"),
    ("levenshtein", "select levenshtein(repeat('a', 900000), repeat('b', 900000))"),
    (
        "levenshtein of rows",
        "select sum(levenshtein(repeat(attributes, 100), repeat(attributes, 90))) from events",
    ),
    ("array_has_all", "select array_has_all(range(0, 100000), range(0, 100000))"),
    (
        "nested loop that finds nothing",
        "select count(*) from events a, events b, events c where a._seq + b._seq + c._seq = -1",
    ),
    (
        "hash join that finds nothing",
        "select count(*) from events a join events b on a.tenant = b.tenant \
         join events c on b.tenant = c.tenant where a._seq + b._seq + c._seq = -1",
    ),
    (
        "cross join that is filtered",
        "select count(*) from events a, events b, events c where random() > 2",
    ),
    (
        "cross join of series",
        "select count(*) from generate_series(1, 100000000) a cross join generate_series(1, 100000000) b",
    ),
    ("cross join sorted", "select * from events a, events b order by a.attributes || b.attributes"),
    (
        "cross join grouped",
        "select a.attributes || b.attributes, count(*) from events a, events b group by 1",
    ),
    (
        "join that explodes",
        "select count(*) from events a join events b on a.tenant = b.tenant join events c on b.tenant = c.tenant",
    ),
    ("full join on nothing", "select * from events a full join events b on a._seq < b._seq"),
    (
        "recursion",
        "with recursive t(n) as (select 1 union all select n + 1 from t) select count(*) from t",
    ),
    (
        "recursion of a constant",
        "with recursive t(n) as (select 1 union all select n from t, generate_series(1, 10)) select count(*) from t",
    ),
    (
        "recursion of a text",
        "with recursive t(x) as (select 'x' union all select x || x from t) select max(length(x)) from t",
    ),
    (
        "recursion of concat",
        "with recursive t(x) as (select 'x' union all select concat(x, x, x) from t) select max(length(x)) from t",
    ),
    (
        "recursion of arrays",
        "with recursive t(x) as (select [1] union all select array_concat(x, x) from t) select max(cardinality(x)) from t",
    ),
    (
        "joined arrays",
        "with a as (select range(0, 100000) as x) select cardinality(x || x || x || x || x || x) from a",
    ),
    (
        "window",
        "select sum(_seq) over (order by attributes rows between unbounded preceding and unbounded following) from events a, generate_series(1, 100000)",
    ),
    (
        "window ntile",
        "select max(ntile) from (select ntile(1000000) over (order by value) as ntile from generate_series(1, 100000000))",
    ),
    (
        "percentile",
        "select approx_percentile_cont(0.5) within group (order by value) from generate_series(1, 10000000000)",
    ),
    ("distinct", "select count(distinct value) from generate_series(1, 10000000000)"),
    ("sort", "select value from generate_series(1, 10000000000) order by -value"),
    (
        "power",
        "select power(9223372036854775807, 9223372036854775807), factorial(20), 9223372036854775807 + 1",
    ),
    (
        "overflow",
        "select cast('99999999999999999999999' as bigint), interval '99999999999999999 year'",
    ),
    ("time out of range", "select time + interval '999999999 years' from events"),
    ("date_bin", "select date_bin(interval '0 second', time) from events"),
    ("deep json", "select attributes->'a'->'b'->'c'->'d'->'e'->'f' from events"),
    ("to_char", "select to_char(time, repeat('%Y', 100000)) from events"),
    (
        "uuid of nothing",
        "select event_id::text || null, substr(event_id::text, -9223372036854775807, 9223372036854775807) from events",
    ),
    (
        "substr",
        "select substr('abc', 9223372036854775807, 9223372036854775807), left('abc', -9223372036854775808)",
    ),
    ("split_part", "select split_part('a,b', ',', -9223372036854775808), strpos('', '')"),
    ("limit", "select 1 from events limit 9223372036854775807 offset 9223372036854775807"),
    ("negative limit", "select 1 from events limit -1"),
    ("zero byte", "select 'a\0b', count(*) from events where tenant = 'a\0b'"),
    ("not characters", "select '\u{feff}\u{202e}\u{10ffff}' as \"\u{0}\", '\u{1f4a9}'"),
    ("open string", "select 'abc"),
    ("open comment", "select /* /* /* 1"),
    ("dollar quotes", "select $a$ $b$ $a$, $$"),
    ("only comments", "-- nothing\n/* at all */"),
    ("semicolons", ";;;;;;;;;;;;"),
];

/// `n` levels of `open`, `middle`, and as many of `close`.
fn nest(n: usize, open: &str, middle: &str, close: &str) -> String {
    format!("select {}{middle}{} from events", open.repeat(n), close.repeat(n))
}

fn chain(n: usize, first: &str, link: &str, last: &str) -> String {
    let links: String = (1..n)
        .map(|i| link.replace("$i", &i.to_string()).replace("$j", &(i - 1).to_string()))
        .collect();
    format!("with a0 as ({first}){links} {}", last.replace("$n", &(n - 1).to_string()))
}

/// Chains of operators, which make trees as deep as they are long.
fn chains() -> Vec<Case> {
    vec![
        (
            "case chain",
            format!("select case {} end from events", "when _seq = 1 then 2 ".repeat(5_000)),
        ),
        (
            "between chain",
            format!(
                "select 1 from events where {}",
                vec!["_seq between 1 and 2"; 900].join(" or ")
            ),
        ),
        (
            "and chain",
            format!("select 1 from events where {}", vec!["_seq <> 1"; 490].join(" and ")),
        ),
        (
            "or of ands",
            format!(
                "select 1 from events where {}",
                vec!["(_seq = 1 and _shard = 2)"; 240].join(" or ")
            ),
        ),
        (
            "and of ors",
            format!(
                "select 1 from events where {}",
                vec!["(_seq = 1 or _shard = 2)"; 240].join(" and ")
            ),
        ),
        ("not chain", format!("select {} true", "not ".repeat(900))),
        ("minus chain", format!("select {} 1", "- ".repeat(900))),
        ("is null chain", format!("select _seq {} from events", "is null ".repeat(400))),
        ("isnull chain", format!("select _seq {} from events", "isnull ".repeat(900))),
        ("notnull chain", format!("select _seq {} from events", "notnull ".repeat(450))),
        ("in chain", format!("select true {} from events", "in (true) ".repeat(400))),
        ("zone chain", format!("select time {} from events", "at time zone 'UTC' ".repeat(400))),
        ("similar chain", format!("select tenant {} from events", "similar to 'a' ".repeat(400))),
        ("cast chain", format!("select _seq{} from events", "::text::bigint".repeat(150))),
        ("union chain", vec!["select _seq from events"; 60].join(" union all ")),
        ("unions of nothing", vec!["select 1"; 150].join(" union ")),
        ("intersect chain", vec!["select _seq from events"; 60].join(" intersect ")),
        ("except chain", vec!["select _seq from events"; 30].join(" except ")),
    ]
}

/// Shapes that cost while they are planned, at the bounds and beyond.
pub(super) fn shapes() -> Vec<Case> {
    let mut shapes = chains();
    shapes.extend(trees());
    shapes
}

fn trees() -> Vec<Case> {
    let list = |n: usize, item: &str| vec![item; n].join(", ");
    let many = |n: usize, item: &str| -> String {
        (0..n).map(|i| item.replace("$i", &i.to_string())).collect::<Vec<_>>().join(", ")
    };
    let first = "select _seq as x, tenant as t from events";
    vec![
        ("case nested", nest(40, "case when _seq = 1 then 2 else ", "3", " end")),
        ("case in calls", nest(11, "upper(case when true then ", "tenant", " end)")),
        ("in list", format!("select 1 from events where _seq in ({})", many(5_000, "$i"))),
        ("in list of texts", format!("select 1 from events where tenant in ({})", many(4_000, "'t$i'"))),
        ("in list of columns", format!("select 1 from events where _seq in ({})", list(1_000, "_shard"))),
        ("nested casts", nest(45, "cast(", "_seq", " as text)")),
        ("json arrows", format!("select attributes{} from events", "->'a'".repeat(12))),
        ("json over ors", format!("select 1 from events where {}", vec!["attributes->'a'->>'b' = 'c'"; 200].join(" or "))),
        ("nested arrays", nest(45, "[", "_seq", "]")),
        ("wide array", format!("select [{}] from events", list(20_000, "_seq"))),
        ("subscripts", format!("select targets{} from events", "[1]".repeat(12))),
        ("struct fields", format!("select targets[1]{} from events", "['id']".repeat(10))),
        ("wide struct", format!("select named_struct({}) from events", many(800, "'k$i', _seq"))),
        ("nested structs", nest(12, "struct(", "_seq", ")")),
        ("wide call", format!("select concat({}) from events", list(1_000, "tenant"))),
        ("coalesce", format!("select coalesce({}) from events", list(1_000, "outcome"))),
        ("coalesce nested", nest(12, "coalesce(outcome, ", "tenant", ")")),
        ("greatest", format!("select greatest({}) from events", list(1_500, "_seq"))),
        ("joined texts", format!("select {} from events", vec!["tenant"; 250].join(" || "))),
        ("joined texts right", format!("select {}tenant{} from events", "tenant || (".repeat(45), ")".repeat(45))),
        ("texts doubled", chain(40, first, ", a$i as (select t || t as t from a$j)", "select t from a$n")),
        ("sums doubled", chain(40, first, ", a$i as (select x + x as x from a$j)", "select x from a$n where x > 1")),
        ("sums doubled and joined", chain(12, first, ", a$i as (select x + x as x from a$j)", "select a.x from a$n a join a$n b on a.x = b.x")),
        ("uses doubled", chain(20, first, ", a$i as (select a.x from a$j a, a$j b)", "select count(*) from a$n")),
        ("uses doubled by union", chain(30, first, ", a$i as (select x from a$j union all select x from a$j)", "select count(*) from a$n")),
        ("columns doubled", chain(30, "select * from events", ", a$i as (select * from a$j, a$j as b)", "select count(*) from a$n")),
        ("nested withs", format!("{}select 1 from x{}", "with x as (".repeat(10), ") select * from x, x y".repeat(10))),
        ("joins", format!("select 1 from events a0{}", (1..40).map(|i| format!(" join events a{i} on a{i}._seq = a{}._seq", i - 1)).collect::<String>())),
        ("cross joins", format!("select 1 from {}", many(40, "events a$i"))),
        ("using joins", format!("select 1 from events a0{}", (1..30).map(|i| format!(" join events a{i} using (_seq)")).collect::<String>())),
        ("correlated", format!("select 1 from events e0 where {}true{}", (1..9).map(|i| format!("exists (select 1 from events e{i} where e{i}._seq = e{}._seq and ", i - 1)).collect::<String>(), ")".repeat(8))),
        ("scalar subqueries", format!("select {} from events", many(30, "(select max(_seq) from events where _shard = $i)"))),
        ("windows", format!("select {} from events", many(60, "sum(_seq) over (partition by tenant order by time, _seq + $i)"))),
        ("aggregates", format!("select {} from events", many(1_500, "sum(_seq + $i)"))),
        ("columns", format!("select {} from events", many(1_000, "_seq as c$i"))),
        ("stars", format!("select {} from events", list(200, "*"))),
        ("group keys", format!("select count(*) from events group by {}", many(500, "_seq + $i"))),
        ("order keys", format!("select 1 from events order by {}", many(150, "_seq + $i"))),
        ("cube", format!("select count(*) from events group by cube({})", many(25, "_seq + $i"))),
        ("cubes", "select count(*) from events group by cube(_seq, _shard, tenant), cube(action, outcome, time), cube(severity, actor_id, service)".to_owned()),
        ("rollup", format!("select count(*) from events group by rollup({})", many(80, "_seq + $i"))),
        ("values", format!("select * from (values {})", many(3_000, "($i, 'x')"))),
        ("aliases", format!("select {} from events", many(2_000, "_seq + 1 as c$i"))),
        ("lambda", nest(6, "array_transform([1], x -> ", "1", ")")),
        ("long name", format!("select 1 as \"{}\"", "x".repeat(200_000))),
        ("long text", format!("select '{}' from events", "x".repeat(250_000))),
        ("long pattern", format!("select 1 from events where attributes ~ '{}'", "(a|b)*".repeat(900))),
        ("long like", format!("select 1 from events where attributes like '{}'", "%a_".repeat(50_000))),
        ("parentheses", format!("select {}1{}", "(".repeat(2_000), ")".repeat(2_000))),
        ("wide distinct on", format!("select distinct on ({}) _seq from events", many(300, "_seq + $i"))),
    ]
}

/// Texts that cost while they run.
pub(super) fn bombs() -> Vec<Case> {
    BOMBS.iter().map(|(name, sql)| (*name, (*sql).to_owned())).collect()
}
