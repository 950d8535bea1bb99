//! `ETag` and `304`: for the same statement, snapshot, format and rights, and nothing else.

use serde_json::{Value, json};

use super::kit::{Bucket, Replica, event};

async fn tag(replica: &Replica, body: &Value) -> Option<String> {
    let response = replica.post(body).await;
    assert_eq!(response.status(), 200, "{body}: {}", response.text().await.unwrap());
    assert_eq!(response.headers()["cache-control"], "private, no-cache");
    assert!(response.headers()["vary"].to_str().unwrap().contains("accept"));
    response.headers().get("etag").map(|tag| tag.to_str().unwrap().to_owned())
}

#[tokio::test]
async fn what_the_client_has_is_not_sent_again() {
    let mut bucket = Bucket::filled(1, 30).await;
    let replica = bucket.replica().await;
    let body = json!({ "sql": "select count(*) from events" });
    let first = tag(&replica, &body).await.unwrap();
    let ask = async |held: &str, body: &Value| {
        let request = replica.client.post(replica.url("/v1/sql")).header("if-none-match", held);
        request.json(body).send().await.unwrap()
    };
    for held in [first.clone(), format!("\"other\", {first}"), "*".into()] {
        let response = ask(&held, &body).await;
        assert_eq!(
            (response.status().as_u16(), response.headers()["etag"].to_str().unwrap()),
            (304, &*first)
        );
        assert!(response.headers().contains_key("sealcast-snapshot"));
        assert!(response.bytes().await.unwrap().is_empty());
    }
    // The way of writing it does not matter; the URL is as good as a body.
    let spaced = json!({ "sql": "SELECT  count(*) /* all */\nFROM events" });
    assert_eq!(ask(&first, &spaced).await.status(), 304);
    let request = replica.client.get(replica.url("/v1/sql")).header("if-none-match", &first);
    let got = request.query(&[("q", "select count(*) from events")]).send().await.unwrap();
    assert_eq!(got.status(), 304);
    let others = [
        json!({ "sql": "select count(*) from events where true" }),
        json!({ "sql": "select count(*) from events", "format": "csv" }),
        json!({ "sql": "select count(*) from events", "format": "ndjson" }),
        json!({ "sql": "select count(*) from events", "allow_partial": true }),
    ];
    for other in others {
        assert_eq!(ask(&first, &other).await.status(), 200, "{other}");
    }
    let by = |tenant: &str| json!({ "sql": "select count(*) from events where tenant = $1", "params": [tenant] });
    assert_ne!(tag(&replica, &by("acme")).await, tag(&replica, &by("globex")).await);
    assert_eq!(tag(&replica, &by("acme")).await, tag(&replica, &by("acme")).await);
    // A refused statement is refused, whatever the client holds.
    assert_eq!(ask("*", &json!({ "sql": "drop table events" })).await.status(), 400);
    bucket.ship(0, (30..60).map(|seq| event(0, seq)).collect()).await;
    replica.wait(&bucket.token()).await;
    let after = ask(&first, &body).await;
    assert_eq!(after.status(), 200);
    assert_ne!(after.headers()["etag"].to_str().unwrap(), first);
    replica.stop().await;
}

#[tokio::test]
async fn what_changes_by_itself_has_no_tag() {
    let bucket = Bucket::filled(1, 3).await;
    let replica = bucket.replica().await;
    let statements = [
        "select now()",
        "select count(*) from events where time < now()",
        "select count(*) from events where time > current_date",
        "select random()",
        "select _seq from events order by random()",
        "select uuid()",
        "select * from sealcast.queries",
        "select count(*) from sealcast.segments, events",
        "select _seq from events where _seq in (select rows from sealcast.segments)",
        "select table_name from information_schema.tables",
        "show tables",
        "describe events",
        "explain select 1",
        "explain analyze select count(*) from events",
        "with x as (select random() as r) select r from x",
    ];
    for sql in statements {
        assert_eq!(tag(&replica, &json!({ "sql": sql })).await, None, "{sql}");
    }
    for sql in [
        "select 1",
        "select max(time) from events",
        "with e as (select * from events) select count(*) from e",
    ] {
        assert!(tag(&replica, &json!({ "sql": sql })).await.is_some(), "{sql}");
    }
    replica.stop().await;
}
