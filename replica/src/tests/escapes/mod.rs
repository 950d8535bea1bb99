//! A token of one tenant learns nothing of others, whatever it asks.
//!
//! The main proof is by comparison: one store holds the caller's events alone, the other one those
//! of two more tenants beside them, in the same segments. Every answer of the second, refusals
//! included, must be the answer of the first.

pub(super) mod bucket;
mod pages;
mod proofs;
pub(super) mod sql;
mod surface;

use reqwest::Response;
use reqwest::header::HeaderMap;
use sealcast_common::serve::access::{AccessConfig, Role, Tenants, TokenText, create_token};
use serde_json::{Value, json};

use super::kit::{Bucket, Replica};
use crate::Seams;
use bucket::{MARK, filled};

/// A replica with tokens.
pub(super) struct Locked {
    pub(super) bucket: Bucket,
    pub(super) replica: Replica,
    pub(super) acme: TokenText,
    /// Another token of the same tenant.
    pub(super) acme_too: TokenText,
    pub(super) others: TokenText,
    pub(super) all: TokenText,
    /// Operates, and may read one tenant.
    pub(super) operator: TokenText,
    pub(super) nobody: TokenText,
}

fn token(bucket: &Bucket, roles: &[Role], tenants: Option<&[&str]>) -> TokenText {
    let tenants = match tenants {
        None => Tenants::All,
        Some(names) => Tenants::Only(names.iter().map(|name| (*name).to_owned()).collect()),
    };
    let granted = ("client", roles.iter().copied().collect(), tenants);
    create_token(&bucket.dir.path().join("tokens.toml"), granted, None, &Seams::default()).unwrap()
}

impl Locked {
    pub(super) async fn start(bucket: Bucket) -> Self {
        let query = |tenants| token(&bucket, &[Role::Query], tenants);
        let (acme, acme_too) = (query(Some(&["acme"][..])), query(Some(&["acme"])));
        let (others, all) = (query(Some(&["aaa", "globex"])), query(None));
        let nobody = query(Some(&[]));
        let operator = token(&bucket, &[Role::Query, Role::Admin], Some(&["acme"]));
        let tokens = Some(bucket.dir.path().join("tokens.toml"));
        let access = AccessConfig { tokens, ..AccessConfig::default() };
        let replica = bucket.replica_with(|config| config.access = access).await;
        let locked = Locked { bucket, replica, acme, acme_too, others, all, operator, nobody };
        let wait = json!({ "sql": "select 1", "min": locked.bucket.token(), "wait_ms": 30_000 });
        assert_eq!(locked.ask(&locked.all, &wait).await.status(), 200);
        locked
    }

    async fn ask(&self, token: &TokenText, body: &Value) -> Response {
        let request = self.replica.client.post(self.replica.url("/v1/sql")).json(body);
        request.bearer_auth(token.reveal()).send().await.unwrap()
    }

    async fn get(&self, token: &TokenText, path: &str) -> Response {
        let request = self.replica.client.get(self.replica.url(path));
        request.bearer_auth(token.reveal()).send().await.unwrap()
    }

    async fn json(&self, token: &TokenText, sql: &str) -> Value {
        let answer = self.ask(token, &json!({ "sql": sql })).await;
        answer.json().await.unwrap()
    }

    /// Everything that a caller of acme gets to see of `body`'s answer, except what differs between
    /// any two: ids, the snapshot, times.
    async fn seen(&self, body: &Value) -> Value {
        let answer = self.ask(&self.acme, body).await;
        let (status, headers) = (answer.status().as_u16(), told(answer.headers()));
        // A bound that is hit after the first rows breaks the body off.
        let Ok(text) = answer.text().await else { return json!([status, headers, "broken"]) };
        // A plan and a refusal repeat what the caller itself has said.
        let said = body.to_string().contains(MARK);
        assert!(said || !text.contains(MARK), "{body}: {text}");
        let mut document: Value = serde_json::from_str(&text).unwrap();
        for name in ["query_id", "snapshot"] {
            document.as_object_mut().unwrap().remove(name);
        }
        if let Some(rows) = document["rows"].as_array_mut() {
            rows.iter_mut().flat_map(|row| row.as_array_mut().unwrap()).for_each(without_times);
            rows.sort_by_key(Value::to_string);
        }
        json!([status, headers, document])
    }
}

fn told(headers: &HeaderMap) -> Value {
    let differs = |name: &str| {
        matches!(name, "date" | "etag" | "content-length" | "sealcast-query-id" | "sealcast-lag-ms")
            || name == "sealcast-snapshot"
    };
    let kept = headers.iter().filter(|(name, _)| !differs(name.as_str()));
    kept.map(|(name, value)| match name.as_str() {
        // Of a position nothing can be read but its length.
        "sealcast-as-of" => format!("{name}: {} characters", value.len()),
        _ => format!("{name}: {}", value.to_str().unwrap()),
    })
    .collect()
}

/// Of an analysed plan: rows and names, not the times and sizes of this run.
fn without_times(value: &mut Value) {
    let Some(plan) = value.as_str().filter(|text| text.contains("metrics=[")) else { return };
    let lines = plan.lines().map(|line| {
        let (operator, metrics) = line.split_once("metrics=[").unwrap_or((line, ""));
        let counted: Vec<&str> = metrics
            .split([',', ']'])
            .map(str::trim)
            .filter(|metric| {
                let name = metric.split('=').next().unwrap_or_default();
                name.contains("rows") || name.contains("segments") || name.contains("batches_read")
            })
            .collect();
        format!("{operator} {counted:?}")
    });
    *value = lines.collect::<Vec<_>>().join("\n").into();
}

#[tokio::test(flavor = "multi_thread")]
async fn other_tenants_change_no_answer() {
    let (alone, crowded) = (Locked::start(filled(false).await).await, filled(true).await);
    let crowded = Locked::start(crowded).await;
    let mut failed = Vec::new();
    for body in sql::bodies() {
        let (expected, found) = (alone.seen(&body).await, crowded.seen(&body).await);
        if expected != found {
            failed.push(format!("{body}\n alone   {expected}\n crowded {found}"));
        }
    }
    assert!(failed.is_empty(), "{} differ:\n{}", failed.len(), failed.join("\n"));
    assert_eq!(alone.replica.rows_of(&alone).await, crowded.replica.rows_of(&crowded).await);
    alone.replica.stop().await;
    crowded.replica.stop().await;
}

impl Replica {
    /// What acme has, for a last look: the comparison compared something.
    async fn rows_of(&self, locked: &Locked) -> Value {
        let rows = locked.json(&locked.acme, "select count(*) from events").await["rows"].take();
        assert_eq!(rows, json!([[2 * bucket::OWN_ROWS]]));
        rows
    }
}

/// Whoever shows a tag that another one's answer had gets an answer, and no "you have it already".
#[tokio::test]
async fn tags_of_answers_are_for_those_who_see_the_same() {
    let locked = Locked::start(filled(true).await).await;
    let body = json!({ "sql": "select count(*) from events" });
    let ask = async |token: &TokenText, held: &str| {
        let request = locked.replica.client.post(locked.replica.url("/v1/sql"));
        let request = request.bearer_auth(token.reveal()).header("if-none-match", held);
        let response = request.json(&body).send().await.unwrap();
        (response.status().as_u16(), response.headers()["etag"].to_str().unwrap().to_owned())
    };
    let (_, acme) = ask(&locked.acme, "none").await;
    assert_eq!(ask(&locked.acme_too, &acme).await, (304, acme.clone()), "the same rows");
    for other in [&locked.others, &locked.all, &locked.operator, &locked.nobody] {
        let (status, tag) = ask(other, &acme).await;
        assert_eq!(status, 200);
        assert_ne!(tag, acme);
    }
    locked.replica.stop().await;
}
