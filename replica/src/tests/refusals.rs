//! What is refused, with which code, and what the refusal says.

use serde_json::{Value, json};

use super::kit::{Bucket, file_of};

#[tokio::test]
async fn nothing_but_reading_is_allowed() {
    let bucket = Bucket::filled(1, 30).await;
    let replica = bucket.replica().await;
    let file = file_of(&bucket, "out.csv");
    let file = file.display();
    let statements = [
        "drop table events".to_owned(),
        "drop view if exists events".into(),
        "insert into events values (1)".into(),
        "insert into events select * from events".into(),
        "update events set tenant = 'x'".into(),
        "delete from events".into(),
        "truncate table events".into(),
        "merge into events using events e on true when matched then delete".into(),
        format!("copy events to '{file}'"),
        format!("copy (select * from events) to '{file}' stored as csv"),
        "copy events from '/etc/passwd'".into(),
        "set datafusion.execution.batch_size = 1".into(),
        "set time zone 'UTC'".into(),
        "reset all".into(),
        "create table t as select 1".into(),
        "create table t (a int)".into(),
        "create view v as select 1".into(),
        "create schema s".into(),
        "create database d".into(),
        "create external table t stored as csv location '/etc/passwd'".into(),
        "create function f() returns int return 1".into(),
        "create index i on events (tenant)".into(),
        "alter table events add column x int".into(),
        "prepare p as select 1".into(),
        "execute p".into(),
        "deallocate p".into(),
        "begin".into(),
        "commit".into(),
        "start transaction".into(),
        "use sealcast".into(),
        "grant select on events to public".into(),
        "explain drop table events".into(),
        "explain analyze insert into events select * from events".into(),
        "select 1; select 2".into(),
        "select 1; drop table events".into(),
        "show all".into(),
        "show datafusion.execution.batch_size".into(),
        "with x as (insert into events values (1) returning *) select * from x".into(),
        "select * into t from events".into(),
        "vacuum".into(),
        "call f()".into(),
        "load data inpath '/etc/passwd' into table events".into(),
    ];
    for sql in statements {
        let (status, problem) = replica.refusal(&json!({ "sql": sql })).await;
        let code = problem["code"].as_str().unwrap();
        let refused = [
            "statement_not_allowed",
            "not_supported",
            "syntax_error",
            "plan_error",
            "unknown_function",
            "unknown_table",
        ];
        assert!((400..500).contains(&status) && refused.contains(&code), "{sql}: {problem}");
    }
    assert!(!file_of(&bucket, "out.csv").exists());
    assert_eq!(replica.rows("select count(*) from events").await, json!([[30]]));
    replica.stop().await;
}

#[tokio::test]
async fn files_and_urls_are_no_tables() {
    let bucket = Bucket::filled(1, 3).await;
    let replica = bucket.replica().await;
    let statements = [
        "select * from '/etc/passwd'",
        "select * from \"/etc/passwd\"",
        "select * from 'x.parquet'",
        "select * from \"file:///etc/passwd\"",
        "select * from \"http://127.0.0.1:1/x.csv\"",
        "select * from \"s3://bucket/x.parquet\"",
        "select * from read_csv('/etc/passwd')",
        "select * from read_parquet('/etc/passwd')",
        "select * from parquet_metadata('/etc/passwd')",
        "select * from glob('/etc/*')",
        "select pg_read_file('/etc/passwd')",
    ];
    for sql in statements {
        let (status, problem) = replica.refusal(&json!({ "sql": sql })).await;
        let code = problem["code"].as_str().unwrap();
        assert_eq!(status, 400, "{sql}: {problem}");
        assert!(
            ["plan_error", "unknown_table", "unknown_function", "syntax_error", "not_supported"]
                .contains(&code),
            "{sql}: {problem}"
        );
        assert!(!problem.to_string().contains("root:"), "{sql}");
    }
    replica.stop().await;
}

#[tokio::test]
async fn mistakes_come_with_place_and_hint() {
    let bucket = Bucket::filled(1, 3).await;
    let replica = bucket.replica().await;
    let (status, problem) = replica.refusal(&json!({ "sql": "select tennant\nfrom events" })).await;
    assert_eq!((status, problem["code"].as_str()), (400, Some("unknown_column")));
    assert_eq!(problem["hint"], "did you mean tenant?");
    assert_eq!(problem["position"], json!({ "line": 1, "column": 8 }));
    assert_eq!(problem["columns"].as_array().unwrap().len(), 25);
    assert!(problem["query_id"].is_string());
    let (status, problem) = replica.refusal(&json!({ "sql": "select *\nfrm events" })).await;
    assert_eq!((status, problem["code"].as_str()), (400, Some("syntax_error")), "{problem}");
    assert_eq!(problem["position"]["line"], 2, "{problem}");
    let (_, problem) = replica.refusal(&json!({ "sql": "select * from event" })).await;
    assert_eq!(
        (&problem["code"], &problem["hint"]),
        (&json!("unknown_table"), &json!("did you mean events?"))
    );
    let (_, problem) = replica.refusal(&json!({ "sql": "select 1 from sealcast.segmnts" })).await;
    assert_eq!(problem["hint"], "did you mean sealcast.segments?");
    let (_, problem) = replica.refusal(&json!({ "sql": "select 1 from nothing_like_it" })).await;
    assert_eq!(problem["tables"].as_array().unwrap().len(), 9, "{problem}");
    let (_, problem) = replica.refusal(&json!({ "sql": "  drop table events" })).await;
    assert_eq!(problem["position"], json!({ "line": 1, "column": 3 }));
    let (_, problem) = replica.refusal(&json!({ "sql": "select * from read_csv('x')" })).await;
    assert_eq!(problem["code"], "unknown_function", "{problem}");
    let (_, problem) = replica.refusal(&json!({ "sql": "select date_trnc(1)" })).await;
    assert_eq!(problem["code"], "unknown_function");
    assert!(problem["detail"].as_str().unwrap().contains("'date_trunc'"), "{problem}");
    let (status, problem) = replica.refusal(&json!({ "sql": "select 1 / 0" })).await;
    assert_eq!((status, problem["code"].as_str()), (422, Some("query_failed")), "{problem}");
    let (_, problem) = replica.refusal(&json!({ "sql": "  " })).await;
    assert_eq!(problem["code"], "request_invalid");
    let unknown = replica.get("/v1/nothing").await;
    assert_eq!(unknown.status(), 404);
    let wrong = replica.client.delete(replica.url("/v1/sql")).send().await.unwrap();
    assert_eq!(wrong.status(), 405);
    replica.stop().await;
}

#[tokio::test]
async fn monstrous_statements_are_bounded() {
    let bucket = Bucket::filled(1, 3).await;
    let replica = bucket.replica().await;
    let deep = format!("select {}1{}", "(".repeat(5_000), ")".repeat(5_000));
    let (status, problem) = replica.refusal(&json!({ "sql": deep })).await;
    assert_eq!((status, problem["code"].as_str()), (400, Some("syntax_error")));
    let chain = format!("select count(*) from events where {}", vec!["_seq = 1"; 500].join(" or "));
    assert_eq!(replica.rows(&chain).await, json!([[1]]));
    let chain = format!("select {}", vec!["1"; 50_000].join("+"));
    let (status, problem) = replica.refusal(&json!({ "sql": chain })).await;
    assert_eq!((status, problem["code"].as_str()), (413, Some("sql_too_large")));
    let list: Vec<String> = (0..20_000).map(|n| n.to_string()).collect();
    let list = format!("select count(*) from events where _seq in ({})", list.join(","));
    assert_eq!(replica.rows(&list).await, json!([[3]]));
    let long = format!("select '{}'", "x".repeat(300 * 1024));
    let (status, _) = replica.refusal(&json!({ "sql": long })).await;
    assert_eq!(status, 413);
    let bomb = json!({ "sql": "select sum(length(repeat('x', 1000000000))) from events" });
    let response = replica.post(&bomb).await;
    assert_ne!(response.status(), 500, "{}", response.text().await.unwrap());
    assert_eq!(replica.rows("select 1").await, json!([[1]]));
    replica.stop().await;
}

#[tokio::test]
async fn row_limits_and_memory_are_enforced() {
    let bucket = Bucket::filled(1, 300).await;
    let replica = bucket.replica_with(|config| config.memory_bytes = 16 * 1024 * 1024).await;
    replica.wait(&bucket.token()).await;
    let (status, problem) =
        replica.refusal(&json!({ "sql": "select _seq from events", "max_rows": 10 })).await;
    assert_eq!((status, &problem["code"]), (413, &json!("too_many_rows")));
    let within =
        replica.answer(&json!({ "sql": "select _seq from events", "max_rows": 300 })).await;
    assert_eq!(within["row_count"], 300);
    let greedy = "select cardinality(array_agg(value)) from generate_series(1, 100000000)";
    let (status, problem) = replica.refusal(&json!({ "sql": greedy })).await;
    assert_eq!((status, &problem["code"]), (503, &json!("memory_exhausted")), "{problem}");
    let rows: Value = replica.rows("select count(*) from events").await;
    assert_eq!(rows, json!([[300]]));
    replica.stop().await;
}

/// Each of these took exponential or cubic time to plan, or a thread's whole stack.
#[tokio::test]
async fn statements_that_cannot_be_planned_in_time_are_refused() {
    let bucket = Bucket::filled(1, 3).await;
    let replica = bucket.replica().await;
    let calls =
        |n: usize| format!("select {}tenant{} from events", "upper(".repeat(n), ")".repeat(n));
    let path = |n: usize| format!("select attributes{} from events", "->'a'".repeat(n));
    let chain = |n: usize| {
        let links = (1..n).map(|i| format!(", a{i} as (select upper(x) as x from a{})", i - 1));
        let links: String = links.collect();
        format!("with a0 as (select tenant as x from events){links} select x from a{}", n - 1)
    };
    let subqueries = |n: usize| {
        let open = "(select _seq from events where _seq in ".repeat(n);
        format!("select _seq from events where _seq in {open}(select 1){}", ")".repeat(n))
    };
    let tables = |n: usize| {
        let more: String = (1..n).map(|i| format!(", (select 1) t{i}")).collect();
        format!("select 1 from (select 1) t0{more}")
    };
    let sums = |n: usize| format!("select {} from events", vec!["_seq"; n].join("+"));
    let texts = |n: usize| format!("select {} from events", vec!["tenant"; n].join("||"));
    let unions = |n: usize| vec!["select 1"; n].join(" union all ");
    type Shape<'s> = &'s dyn Fn(usize) -> String;
    let shapes: [(Shape<'_>, usize, usize); 8] = [
        (&calls, 12, 13),
        (&path, 12, 30),
        (&chain, 12, 40),
        (&subqueries, 8, 15),
        (&tables, 60, 65),
        (&sums, 1_000, 1_002),
        (&texts, 1_000, 1_002),
        (&unions, 500, 1_002),
    ];
    for (statement, fits, too_large) in shapes {
        let response = replica.post(&json!({ "sql": statement(fits) })).await;
        assert_eq!(response.status(), 200, "{}", response.text().await.unwrap());
        let (status, problem) = replica.refusal(&json!({ "sql": statement(too_large) })).await;
        assert_eq!((status, &problem["code"]), (413, &json!("sql_too_large")), "{problem}");
    }
    replica.stop().await;
}
