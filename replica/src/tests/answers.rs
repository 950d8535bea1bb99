//! What comes back: formats, parameters, ids, JSON, system tables, headers.

use arrow::array::{Array as _, AsArray as _};
use arrow::datatypes::DataType;
use arrow::ipc::reader::StreamReader;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use sealcast_common::wire::Token;
use serde_json::{Value, json};

use super::kit::{Bucket, event_id};

#[tokio::test]
async fn every_format_carries_the_same_rows() {
    let bucket = Bucket::filled(2, 300).await;
    let replica = bucket.replica().await;
    let sql = "select event_id, tenant, time, severity, outcome, targets, attributes, _seq \
        from events order by _seq";
    let get = async |format: &str| {
        let response = replica.post(&json!({ "sql": sql, "format": format })).await;
        assert_eq!(response.status(), 200);
        response.bytes().await.unwrap()
    };
    let document: Value = serde_json::from_slice(&get("json").await).unwrap();
    assert_eq!(document["complete"], true);
    assert_eq!(document["row_count"], 600);
    assert_eq!(document["columns"][0], json!({ "name": "event_id", "type": "uuid" }));
    assert_eq!(document["columns"][2], json!({ "name": "time", "type": "timestamptz" }));
    let row = &document["rows"][1];
    assert_eq!(row[0], event_id(0, 1).to_string());
    assert_eq!(row[2], "2023-11-14T22:13:21.000123Z");
    assert_eq!(row[3], 2);
    assert_eq!(row[4], Value::Null);
    assert_eq!(row[5], json!([{ "type": "file", "id": "f1", "name": null }]));
    assert_eq!(row[7], 1);

    let ndjson = String::from_utf8(get("ndjson").await.to_vec()).unwrap();
    let lines: Vec<Value> =
        ndjson.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 600);
    assert_eq!(lines[1]["event_id"], event_id(0, 1).to_string());
    assert_eq!(lines[1]["outcome"], Value::Null);

    let csv = String::from_utf8(get("csv").await.to_vec()).unwrap();
    let mut lines = csv.lines();
    let header = "event_id,tenant,time,severity,outcome,targets,attributes,_seq";
    assert_eq!(lines.next(), Some(header));
    let second = lines.nth(1).unwrap();
    let start = format!("{},globex,2023-11-14T22:13:21.000123Z,2,,", event_id(0, 1));
    assert!(second.starts_with(&start), "{second}");
    assert_eq!(csv.lines().count(), 601);

    let stream = StreamReader::try_new(std::io::Cursor::new(get("arrow").await), None).unwrap();
    let field = stream.schema().field(0).clone();
    assert_eq!(field.data_type(), &DataType::FixedSizeBinary(16));
    assert_eq!(field.metadata()["ARROW:extension:name"], "arrow.uuid");
    assert_eq!(stream.schema().field(1).data_type(), &DataType::Utf8);
    let batches: Vec<_> = stream.map(Result::unwrap).collect();
    assert_eq!(batches.iter().map(|batch| batch.num_rows()).sum::<usize>(), 600);
    let ids = batches[0].column(0).as_fixed_size_binary();
    assert_eq!(ids.value(1), event_id(0, 1).as_bytes());

    let parquet = ParquetRecordBatchReaderBuilder::try_new(get("parquet").await).unwrap();
    let batches: Vec<_> = parquet.build().unwrap().map(Result::unwrap).collect();
    assert_eq!(batches.iter().map(|batch| batch.num_rows()).sum::<usize>(), 600);
    assert_eq!(batches[0].column(5).as_list::<i32>().value(1).len(), 1);
    replica.stop().await;
}

#[tokio::test]
async fn accept_chooses_the_format_and_the_parameter_wins() {
    let bucket = Bucket::filled(1, 3).await;
    let replica = bucket.replica().await;
    let ask = async |accept: &str, more: &str| {
        let url = replica.url(&format!("/v1/sql?q=select%201%20as%20x{more}"));
        let response = replica.client.get(url).header("accept", accept).send().await.unwrap();
        let kind = response.headers()["content-type"].to_str().unwrap().to_owned();
        (response.status().as_u16(), kind, response.text().await.unwrap_or_default())
    };
    assert_eq!(ask("*/*", "").await.1, "application/json");
    assert_eq!(ask("text/csv", "").await.2, "x\n1\n");
    assert_eq!(ask("text/html, application/x-ndjson;q=0.5", "").await.2, "{\"x\":1}\n");
    assert_eq!(ask("text/csv", "&format=json").await.1, "application/json");
    assert_eq!(ask("image/png", "").await.0, 406);
    assert_eq!(ask("*/*", "&format=cvs").await.0, 400);
    let body = json!({ "sql": "select tenant from events where false", "format": "csv" });
    let empty = replica.post(&body).await;
    assert_eq!(empty.text().await.unwrap(), "tenant\n");
    let empty = replica.answer(&json!({ "sql": "select tenant from events limit 0" })).await;
    assert_eq!(empty["rows"], json!([]));
    assert_eq!(empty["complete"], true);
    replica.stop().await;
}

#[tokio::test]
async fn statements_come_as_json_as_text_and_by_url() {
    let bucket = Bucket::filled(1, 9).await;
    let replica = bucket.replica().await;
    let sql = "select count(*) as n from events";
    let post = |kind: &'static str, body: String| {
        replica.client.post(replica.url("/v1/sql")).header("content-type", kind).body(body).send()
    };
    for kind in
        ["text/plain", "application/sql; charset=utf-8", "application/x-www-form-urlencoded"]
    {
        let document: Value = post(kind, sql.into()).await.unwrap().json().await.unwrap();
        assert_eq!(document["rows"], json!([[9]]), "{kind}");
    }
    let document: Value = replica
        .client
        .get(replica.url("/v1/sql"))
        .query(&[("q", sql), ("wait_ms", "5")])
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert_eq!(document["rows"], json!([[9]]));
    assert_eq!(post("application/xml", sql.into()).await.unwrap().status(), 415);
    assert_eq!(post("application/json", "{".into()).await.unwrap().status(), 400);
    let typo =
        post("application/json", r#"{"sql":"select 1","fromat":"csv"}"#.into()).await.unwrap();
    let problem: Value = typo.json().await.unwrap();
    assert_eq!(problem["hint"], "did you mean \"format\"?");
    let huge = post("text/plain", " ".repeat(2 * 1024 * 1024)).await.unwrap();
    assert_eq!(huge.status(), 413);
    replica.stop().await;
}

#[tokio::test]
async fn parameters_are_typed_by_their_place() {
    let bucket = Bucket::filled(2, 60).await;
    let replica = bucket.replica().await;
    let id = event_id(0, 7).to_string();
    let cases = [
        (
            json!({ "sql": "select count(*) from events where tenant = $1", "params": ["acme"] }),
            json!(40),
        ),
        (
            json!({ "sql": "select count(*) from events where tenant = ? and severity >= ?", "params": ["acme", 20] }),
            json!(5),
        ),
        (
            json!({ "sql": "select count(*) from events where tenant = $t", "params": { "t": "acme" } }),
            json!(40),
        ),
        (json!({ "sql": "select _seq from events where event_id = $1", "params": [id] }), json!(7)),
        (
            json!({ "sql": "select _seq from events where event_id in ($1, $2)", "params": [id, id] }),
            json!(7),
        ),
        (
            json!({ "sql": "select count(*) from events where time < $1", "params": ["2023-11-14T22:13:25Z"] }),
            json!(5),
        ),
        (
            json!({ "sql": "select count(*) from (select 1 from events limit $1)", "params": [4] }),
            json!(4),
        ),
        (
            json!({ "sql": "select count(*) from events where tenant = $1", "params": ["'; drop table events; --"] }),
            json!(0),
        ),
        (
            json!({ "sql": "select count(*) from events where outcome = $1", "params": [null] }),
            json!(0),
        ),
    ];
    for (body, expected) in cases {
        let answer = replica.answer(&body).await;
        assert_eq!(answer["rows"][0][0], expected, "{body}");
    }
    let misfits = [
        json!({ "sql": "select 1 from events where severity = $1", "params": ["x"] }),
        json!({ "sql": "select 1 from events where severity = $1", "params": [1.5] }),
        json!({ "sql": "select 1 from events where severity = $1", "params": [300] }),
        json!({ "sql": "select 1 from events where tenant = $1", "params": [7] }),
        json!({ "sql": "select 1 from events where tenant = $1", "params": [["a"]] }),
        json!({ "sql": "select 1 from events where tenant = $1", "params": [] }),
        json!({ "sql": "select 1 from events where tenant = $1" }),
        json!({ "sql": "select 1 from events where tenant = $1", "params": ["a", "b"] }),
        json!({ "sql": "select 1 from events where tenant = $t", "params": { "u": "a" } }),
        json!({ "sql": "select 1 from events where event_id = $1", "params": ["no uuid"] }),
        json!({ "sql": "select 1 from events where time > $1", "params": ["yesterday"] }),
    ];
    for body in misfits {
        let (status, problem) = replica.refusal(&body).await;
        assert_eq!((status, &problem["code"]), (422, &json!("parameter_invalid")), "{body}");
    }
    replica.stop().await;
}

#[tokio::test]
async fn ids_times_and_attributes_compare_as_people_write_them() {
    let bucket = Bucket::filled(2, 60).await;
    let replica = bucket.replica().await;
    let (a, b) = (event_id(0, 3), event_id(0, 99));
    let cases = [
        (format!("select _seq from events where event_id = '{a}'"), json!([[3]])),
        (format!("select _seq from events where '{a}' = event_id"), json!([[3]])),
        (
            format!("select _seq from events where event_id in ('{a}', '{b}') order by 1"),
            json!([[3], [99]]),
        ),
        (format!("select count(*) from events where event_id <> '{a}'"), json!([[119]])),
        (format!("select event_id = '{a}' from events where _seq = 3"), json!([[true]])),
        (
            format!("select event_id::text from events where event_id::text = '{b}'"),
            json!([[b.to_string()]]),
        ),
        (
            format!("select count(*) from events where event_id like '{}%'", &a.to_string()[..8]),
            json!([[120]]),
        ),
        ("select count(*) from events where time > '2023-11-14T22:14:20Z'".into(), json!([[60]])),
        (
            "select count(*) from events where time >= timestamp '2023-11-14 22:14:20'".into(),
            json!([[60]]),
        ),
        ("select attributes->>'n' from events where _seq = 5".into(), json!([["5"]])),
        ("select attributes->'nested'->>'k' from events where _seq = 5".into(), json!([["v5"]])),
        ("select attributes->'nested' from events where _seq = 5".into(), json!([[{ "k": "v5" }]])),
        (
            "select attributes->'n', attributes->'ok', attributes->'no' from events where _seq = 5"
                .into(),
            json!([[5, true, null]]),
        ),
        ("select _seq from events where attributes->>'n' = '17'".into(), json!([[17]])),
        (
            "select json_get_int(attributes, 'n') + 1 from events where _seq = 5".into(),
            json!([[6]]),
        ),
        ("select count(*) from events where attributes ? 'ok'".into(), json!([[120]])),
        (
            "select t.id from (select unnest(targets) as t from events where _seq = 8)".into(),
            json!([["f8"]]),
        ),
    ];
    for (sql, expected) in cases {
        assert_eq!(replica.rows(&sql).await, expected, "{sql}");
    }
    let (status, problem) =
        replica.refusal(&json!({ "sql": "select 1 from events where event_id = 'x'" })).await;
    assert_eq!((status, &problem["code"]), (400, &json!("plan_error")));
    assert!(problem["detail"].as_str().unwrap().contains("not a uuid"), "{problem}");
    replica.stop().await;
}

#[tokio::test]
async fn groups_joins_and_windows_agree_with_the_events() {
    let mut bucket = Bucket::filled(2, 60).await;
    bucket.ship(1, (0..30).map(|seq| super::kit::event(1, seq)).collect()).await;
    let replica = bucket.replica().await;
    let rows = replica.rows("select tenant, count(*), min(_seq), max(_seq) from events where _shard = 0 group by tenant order by tenant").await;
    assert_eq!(
        rows,
        json!([["acme", 40, 0, 117], ["globex", 40, 1, 118], ["initech", 40, 2, 119]])
    );
    let rows =
        replica.rows("select outcome, count(*) from events group by 1 order by 1 nulls last").await;
    assert_eq!(rows, json!([["denied", 38], ["success", 74], [null, 38]]));
    let rows = replica
        .rows("select count(*) from events a join events b on a.event_id = b.event_id")
        .await;
    assert_eq!(rows, json!([[150]]));
    let rows = replica.rows("select date_trunc('minute', time) as m, count(distinct actor_id) from events where _shard = 1 group by 1").await;
    assert_eq!(rows, json!([["2023-11-14T22:13:00.000000Z", 30]]));
    let rows = replica.rows("with x as (select *, row_number() over (partition by tenant order by time desc) as r from events where _shard = 0) select tenant, _seq from x where r = 1 order by 1").await;
    assert_eq!(rows, json!([["acme", 117], ["globex", 118], ["initech", 119]]));
    let rows = replica.rows("select _seq from events where _seq = (select max(_seq) from events where _shard = 1) and _shard = 1").await;
    assert_eq!(rows, json!([[29]]));
    replica.stop().await;
}

#[tokio::test]
async fn system_tables_describe_the_node() {
    let mut bucket = Bucket::filled(2, 60).await;
    let last = bucket.ship(1, (0..30).map(|seq| super::kit::event(1, seq)).collect()).await;
    let replica = bucket.replica().await;
    let rows = replica
        .rows(
            "select shard, start, rows, stream, state, fault from sealcast.segments order by 1, 2",
        )
        .await;
    assert_eq!(rows.as_array().unwrap().len(), 3);
    assert_eq!((&rows[2][0], &rows[2][1], &rows[2][2]), (&json!(1), &json!(0), &json!(30)));
    let rows =
        replica.rows("select shard, size, segments, root from sealcast.shards order by 1").await;
    let root = sealcast_common::fault::hex(&last.root_after);
    assert_eq!((&rows[0][1], &rows[0][2]), (&json!(120), &json!(2)));
    assert_eq!(rows[1], json!([1, 30, 1, root]));
    let rows = replica.rows("select stream, seq, epoch from sealcast.streams").await;
    assert_eq!(rows, json!([["writer-1", 4, 1]]));
    let rows = replica
        .rows("select count(*), bool_and(replica like 'replica-%') from sealcast.replicas")
        .await;
    assert_eq!(rows, json!([[1, true]]));
    let rows =
        replica.rows("select state from sealcast.queries where sql like 'select state%'").await;
    assert_eq!(rows, json!([["running"]]));
    let rows = replica.rows("show tables").await;
    let names: Vec<&str> =
        rows.as_array().unwrap().iter().map(|row| row[2].as_str().unwrap()).collect();
    assert!(names.contains(&"events") && names.contains(&"segments"), "{names:?}");
    assert_eq!(replica.rows("describe events").await.as_array().unwrap().len(), 25);
    assert_eq!(replica.rows("show columns from events").await.as_array().unwrap().len(), 25);
    replica.stop().await;
}

#[tokio::test]
async fn headers_name_snapshot_vector_and_lag() {
    let mut bucket = Bucket::filled(1, 30).await;
    let replica = bucket.replica().await;
    let headers = async || replica.post(&json!({ "sql": "select 1" })).await.headers().clone();
    let before = headers().await;
    assert_eq!(before["sealcast-complete"], "true");
    assert_eq!(before["sealcast-snapshot"].len(), 16);
    assert_eq!(before["sealcast-vector"].to_str().unwrap(), bucket.token());
    assert!(before.contains_key("sealcast-lag-ms") && before.contains_key("sealcast-query-id"));
    assert_eq!(headers().await["sealcast-snapshot"], before["sealcast-snapshot"]);
    bucket.ship(0, (30..60).map(|seq| super::kit::event(0, seq)).collect()).await;
    replica.wait(&bucket.token()).await;
    let after = headers().await;
    assert_ne!(after["sealcast-snapshot"], before["sealcast-snapshot"]);
    let vector = Token::parse(after["sealcast-vector"].to_str().unwrap()).unwrap();
    assert_eq!(vector.0[&0], 60);
    let status: Value = replica.get("/v1/status").await.json().await.unwrap();
    assert_eq!(status["rows"], 60);
    assert_eq!(status["snapshot"], after["sealcast-snapshot"].to_str().unwrap());
    replica.stop().await;
}
