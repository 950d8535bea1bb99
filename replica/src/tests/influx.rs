//! `/api/v3/query_sql`: what clients of InfluxDB 3 send, and what they get.

use serde_json::{Value, json};

use super::kit::Bucket;

const SQL: &str = "select tenant, count(*) as n from events where tenant = $tenant group by 1";

#[tokio::test]
async fn statements_are_answered_in_every_form() {
    let bucket = Bucket::filled(1, 30).await;
    let replica = bucket.replica().await;
    let url = replica.url("/api/v3/query_sql");
    let params = r#"{"tenant":"acme"}"#;
    for (format, expected) in [
        ("json", "[\n{\"tenant\":\"acme\",\"n\":10}\n]\n"),
        ("jsonl", "{\"tenant\":\"acme\",\"n\":10}\n"),
        ("csv", "tenant,n\nacme,10\n"),
        (
            "pretty",
            "+--------+----+\n| tenant | n  |\n+--------+----+\n| acme   | 10 |\n+--------+----+\n",
        ),
    ] {
        let query = [("db", "any"), ("q", SQL), ("format", format), ("params", params)];
        let by_url = replica.client.get(&url).query(&query).send().await.unwrap();
        assert_eq!(by_url.status(), 200, "{format}");
        assert_eq!(by_url.text().await.unwrap(), expected);
        let body =
            json!({ "db": "any", "q": SQL, "format": format, "params": { "tenant": "acme" } });
        let by_body = replica.client.post(&url).json(&body).send().await.unwrap();
        assert_eq!(by_body.text().await.unwrap(), expected);
    }
    let none = json!({ "q": "select _seq from events where false" });
    let answer = replica.client.post(&url).json(&none).send().await.unwrap();
    assert_eq!(answer.text().await.unwrap(), "[\n]\n");
    let times =
        json!({ "q": "select time, targets, event_id from events limit 1", "format": "pretty" });
    let answer = replica.client.post(&url).json(&times).send().await.unwrap().text().await.unwrap();
    assert!(answer.contains("2023-11-14T22:13:20.000123Z") && answer.contains("f0"), "{answer}");
    let parquet = json!({ "q": "select 1", "format": "parquet" });
    let answer = replica.client.post(&url).json(&parquet).send().await.unwrap();
    assert!(answer.bytes().await.unwrap().starts_with(b"PAR1"));
    replica.stop().await;
}

#[tokio::test]
async fn malformed_ones_are_refused_by_name() {
    let bucket = Bucket::filled(1, 30).await;
    let replica = bucket.replica().await;
    for query in ["", "db=x", "q=select%201&query=2", "q=select%201&params=%5B", "q=", "q=%20"] {
        let response = replica.get(&format!("/api/v3/query_sql?{query}")).await;
        assert_eq!(response.status(), 400, "{query}");
        let problem: Value = response.json().await.unwrap();
        assert_eq!(problem["code"], "request_invalid", "{query}: {problem}");
    }
    for (body, status, code) in [
        ("{}", 400, "request_invalid"),
        ("select 1", 400, "request_invalid"),
        (r#"{"q":"select 1","format":"xml"}"#, 400, "format_unknown"),
        (r#"{"q":"drop table events"}"#, 400, "statement_not_allowed"),
        (r#"{"q":"select $a","params":{"b":1}}"#, 422, "parameter_invalid"),
    ] {
        let request = replica.client.post(replica.url("/api/v3/query_sql")).body(body);
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), status, "{body}");
        assert_eq!(response.json::<Value>().await.unwrap()["code"], code, "{body}");
    }
    replica.stop().await;
}
