//! Around the rows: raw bytes of every format, tags, headers, other callers' queries, refusals.

use serde_json::{Value, json};

use super::bucket::OWN_ROWS;
use super::*;

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[tokio::test(flavor = "multi_thread")]
async fn no_format_carries_bytes_of_others() {
    let locked = Locked::start(filled(true).await).await;
    // What keeps a dictionary, a list or a slice of the file's own buffers on its way out.
    let statements = [
        "select * from events",
        "select tenant, action, actor_id, message, attributes, targets from events limit 7",
        "select action from events where severity = 3",
        "select distinct action, category from events",
        "select action, count(*) from events group by action",
        "select * from events order by time desc limit 3",
        "select a.action, b.service from events a join events b on a.event_id = b.event_id",
        "select max(action), min(message), array_agg(actor_type) from events",
        "select case when severity > 3 then action else service end from events",
        "select action, lag(action) over (order by _seq) from events",
        "select tenant from events where tenant = 'globex'",
        "select tenant from events union all select service from events",
    ];
    for sql in statements {
        for format in ["json", "ndjson", "csv", "arrow", "parquet"] {
            let body = json!({ "sql": sql, "format": format });
            let answer = locked.ask(&locked.acme, &body).await;
            assert_eq!(answer.status(), 200, "{body}");
            let bytes = answer.bytes().await.unwrap();
            assert!(!holds(&bytes, MARK) && !holds(&bytes, "203.0.113.99"), "{format}: {sql}");
            assert!(sql.contains("globex") || !holds(&bytes, "globex"), "{format}: {sql}");
        }
    }
    // The proof that the search finds what is there: a caller who may see it does.
    for format in ["json", "ndjson", "csv", "arrow"] {
        let body = json!({ "sql": "select action from events", "format": format });
        for (token, sees) in [(&locked.others, true), (&locked.all, true), (&locked.nobody, false)]
        {
            let bytes = locked.ask(token, &body).await.bytes().await.unwrap();
            assert_eq!(holds(&bytes, MARK), sees, "{format}");
        }
    }
    let count = |document: Value| document["rows"][0][0].as_u64().unwrap();
    let sql = "select count(*) from events";
    assert_eq!(count(locked.json(&locked.acme, sql).await), 2 * OWN_ROWS);
    assert_eq!(count(locked.json(&locked.others, sql).await), 450);
    assert_eq!(count(locked.json(&locked.all, sql).await), 2 * OWN_ROWS + 450);
    assert_eq!(count(locked.json(&locked.nobody, sql).await), 0);
    locked.replica.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tags_and_headers_are_of_those_who_see_the_same() {
    let locked = Locked::start(filled(true).await).await;
    let body = json!({ "sql": "select count(*) from events" });
    let tag = async |token: &TokenText| {
        let answer = locked.ask(token, &body).await;
        let told = answer.headers().contains_key("sealcast-vector");
        (answer.headers()["etag"].to_str().unwrap().to_owned(), told)
    };
    let (acme, told) = tag(&locked.acme).await;
    assert!(!told, "sizes of shards count the rows of others");
    assert_eq!(tag(&locked.acme_too).await.0, acme);
    for token in [&locked.others, &locked.all, &locked.nobody] {
        let (other, told) = tag(token).await;
        assert_ne!(other, acme);
        assert_eq!(told, token.id() == locked.all.id());
        // Somebody else's tag is never taken for an answer that one has.
        let url = locked.replica.url("/v1/sql");
        let request = locked.replica.client.post(url).json(&body).header("if-none-match", other);
        let answer = request.bearer_auth(locked.acme.reveal()).send().await.unwrap();
        assert_eq!(answer.status(), 200);
    }
    for path in ["/v1/status", "/metrics"] {
        assert_eq!(locked.get(&locked.acme, path).await.status(), 403, "{path}");
        assert_eq!(locked.get(&locked.all, path).await.status(), 403, "{path}");
        assert_eq!(locked.get(&locked.operator, path).await.status(), 200, "{path}");
    }
    // Readiness is sampled: answers may come before it says so. It never says why to a tenant.
    let ready = async || locked.get(&locked.acme, "/readyz").await.text().await.unwrap();
    let mut said = ready().await;
    for _ in 0..1_000 {
        if said != "{\"ready\":false}" {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        said = ready().await;
    }
    assert_eq!(said, "{\"ready\":true}");
    locked.replica.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_of_others_are_not_there() {
    let locked = Locked::start(filled(true).await).await;
    let sql = format!("select count(*) from events where message = '{MARK}'");
    let answer = locked.ask(&locked.others, &json!({ "sql": sql })).await;
    let id = answer.headers()["sealcast-query-id"].to_str().unwrap().to_owned();
    answer.bytes().await.unwrap();
    let table = "select query_id, sql from sealcast.queries";
    for token in [&locked.acme, &locked.acme_too, &locked.all] {
        let listed = locked.get(token, "/v1/queries").await.text().await.unwrap();
        assert!(!listed.contains(&id) && !listed.contains(MARK), "{listed}");
        let rows = locked.json(token, table).await.to_string();
        assert!(!rows.contains(&id) && !rows.contains(MARK), "{rows}");
        // As if it had never been: the same words as for an id of nobody.
        let nobody = "00000000-0000-4000-8000-000000000000";
        let delete = |id: &str| {
            let url = locked.replica.url(&format!("/v1/queries/{id}"));
            locked.replica.client.delete(url).bearer_auth(token.reveal()).send()
        };
        for (found, expected) in [
            (locked.get(token, &format!("/v1/queries/{id}")).await, &id),
            (locked.get(token, &format!("/v1/queries/{nobody}")).await, &nobody.to_owned()),
            (delete(&id).await.unwrap(), &id),
            (delete(nobody).await.unwrap(), &nobody.to_owned()),
        ] {
            assert_eq!(found.status(), 404);
            let told: Value = found.json().await.unwrap();
            assert_eq!(told["code"], "unknown_query");
            assert_eq!(told["detail"], format!("query {expected} is not known here"));
        }
    }
    // Its own caller and an operator see it; who operates for acme only, not what was asked.
    let own = locked.get(&locked.others, "/v1/queries").await.text().await.unwrap();
    assert!(own.contains(&id) && own.contains(MARK), "{own}");
    let seen = locked.get(&locked.operator, "/v1/queries").await.text().await.unwrap();
    assert!(seen.contains(&id) && !seen.contains(MARK), "{seen}");
    let rows = locked.json(&locked.operator, table).await.to_string();
    assert!(rows.contains(&id) && !rows.contains(MARK), "{rows}");
    locked.replica.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_query_of_others_cannot_be_cancelled() {
    let locked = Locked::start(filled(true).await).await;
    let id = "11111111-1111-4111-8111-111111111111";
    // It waits for a state that never comes.
    let body = json!({ "sql": "select 1", "min": "v1.oQAaAA9CQA", "wait_ms": 20_000 });
    let request = locked.replica.client.post(locked.replica.url("/v1/sql")).json(&body);
    let request = request.bearer_auth(locked.others.reveal()).header("sealcast-query-id", id);
    let running = tokio::spawn(request.send());
    let path = format!("/v1/queries/{id}");
    while locked.get(&locked.others, &path).await.status() != 200 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let cancel = async |token: &TokenText| {
        let request = locked.replica.client.delete(locked.replica.url(&path));
        request.bearer_auth(token.reveal()).send().await.unwrap().status().as_u16()
    };
    for token in [&locked.acme, &locked.acme_too, &locked.nobody, &locked.all] {
        assert_eq!(cancel(token).await, 404);
        assert_eq!(locked.get(token, &path).await.status(), 404);
    }
    let state: Value = locked.get(&locked.others, &path).await.json().await.unwrap();
    assert_eq!(state["state"], "running");
    assert_eq!(cancel(&locked.others).await, 202);
    let told: Value = running.await.unwrap().unwrap().json().await.unwrap();
    assert_eq!(told["code"], "query_cancelled");
    locked.replica.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_segments_are_told_without_place_and_size() {
    let mut bucket = filled(true).await;
    let own = (0..10).map(|seq| bucket::event(2, seq, "acme"));
    let others = (10..90).map(|seq| bucket::event(2, seq, "globex"));
    let descriptor = bucket.ship(2, own.chain(others).collect()).await;
    bucket.damage(&descriptor);
    let locked = Locked::start(bucket).await;
    let body = json!({ "sql": "select sum(_seq) from events" });
    let told: Value = locked.ask(&locked.acme, &body).await.json().await.unwrap();
    assert_eq!(told["code"], "segment_unavailable", "{told}");
    let names: Vec<&String> = told.as_object().unwrap().keys().collect();
    let shape = ["code", "detail", "hint", "kind", "query_id", "status", "title", "type"];
    assert_eq!(names, shape, "{told}");
    assert_eq!(told["detail"], "rows that the query needs are not available");
    let full: Value = locked.ask(&locked.all, &body).await.json().await.unwrap();
    assert_eq!(full["range"], json!([0, 90]));
    let partial = json!({ "sql": "select count(*) from events", "allow_partial": true });
    let answer = locked.ask(&locked.acme, &partial).await;
    assert_eq!(answer.headers()["sealcast-complete"], "false");
    let shown = format!("{:?} {}", answer.headers().clone(), answer.text().await.unwrap());
    for word in ["90", "0002", "[2", "2:"] {
        let told = shown.split("sealcast-missing\": ").nth(1).unwrap();
        let told = told.split(", \"").next().unwrap();
        assert!(!told.contains(word), "{word}: {shown}");
    }
    // A segment of others alone is nothing that acme needs.
    let within = json!({ "sql": "select 1 from events where _shard < 2" });
    assert_eq!(locked.ask(&locked.acme, &within).await.status(), 200);
    locked.replica.stop().await;
}
