//! Proofs of others' rows, and what tells of them: not there.

use sealcast_common::integrity::TlogProof;
use sealcast_common::serve::access::TokenText;
use serde_json::{Value, json};

use super::bucket::{MARK, OWN_ROWS, event, filled};
use super::{Locked, told};

/// A refusal with its headers, as far as they do not differ between any two.
async fn refused(locked: &Locked, token: &TokenText, path: &str) -> Value {
    let response = locked.get(token, path).await;
    let (status, headers) = (response.status().as_u16(), told(response.headers()));
    json!([status, headers, response.json::<Value>().await.unwrap()])
}

async fn bundle(locked: &Locked, token: &TokenText, rows: &[(u16, u64)]) -> (u16, Value) {
    let rows: Vec<Value> =
        rows.iter().map(|(shard, seq)| json!({ "shard": shard, "seq": seq })).collect();
    let request = locked.replica.client.post(locked.replica.url("/v1/proofs"));
    let request = request.bearer_auth(token.reveal()).json(&json!({ "rows": rows }));
    let response = request.send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

/// A text with the numbers of the place taken out.
fn without(document: &Value, seq: u64) -> String {
    document.to_string().replace(&seq.to_string(), "N")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_of_others_is_as_one_that_does_not_exist() {
    let locked = Locked::start(filled(true).await).await;
    let nowhere = 987_654;
    for token in [&locked.acme, &locked.operator, &locked.nobody] {
        let absent = refused(&locked, token, &format!("/v1/proofs/0/{nowhere}")).await;
        assert_eq!(absent[0], 404, "{absent}");
        let (_, absent_bundle) = bundle(&locked, token, &[(0, nowhere)]).await;
        // Beside acme's rows, and in a segment without any.
        for seq in [OWN_ROWS, 100, 259, 260, 309] {
            let found = refused(&locked, token, &format!("/v1/proofs/0/{seq}")).await;
            assert_eq!(without(&found, seq), without(&absent, nowhere));
            let (status, found) = bundle(&locked, token, &[(0, seq)]).await;
            assert_eq!(status, 404);
            assert_eq!(without(&found, seq), without(&absent_bundle, nowhere));
            for media in ["text/plain", "application/cbor"] {
                let url = locked.replica.url(&format!("/v1/proofs/0/{seq}"));
                let request = locked.replica.client.get(url).bearer_auth(token.reveal());
                let response = request.header("accept", media).send().await.unwrap();
                assert_eq!(response.status(), 404);
            }
        }
    }
    // One of them in a bundle of one's own: nothing is given.
    let (status, told) = bundle(&locked, &locked.acme, &[(0, 0), (0, OWN_ROWS), (0, 1)]).await;
    assert_eq!((status, &told["index"]), (404, &json!(1)), "{told}");
    assert!(!told.to_string().contains("leaf"));
    // Their own tokens, and one for all, have both.
    for (token, seq) in [(&locked.others, OWN_ROWS), (&locked.acme, 0), (&locked.all, OWN_ROWS)] {
        let response = locked.get(token, &format!("/v1/proofs/0/{seq}")).await;
        let told: Value = response.json().await.unwrap();
        let proof = TlogProof::parse(told["proof"].as_str().unwrap()).unwrap();
        assert_eq!(proof.index, seq);
    }
    let shown = locked.get(&locked.acme, "/v1/proofs/0/0").await.text().await.unwrap();
    assert!(!shown.contains(MARK));
    let (status, own) = bundle(&locked, &locked.acme, &[(0, 0), (1, 59)]).await;
    assert_eq!((status, own["rows"].as_array().unwrap().len()), (200, 2));
    locked.replica.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whole_logs_are_for_those_who_may_see_all() {
    let locked = Locked::start(filled(true).await).await;
    for path in [
        "/v1/proofs/consistency?shard=0&from=1",
        "/v1/proofs/consistency?shard=9&from=1",
        "/v1/proofs/range?shard=0&from=0&to=10",
        "/v1/proofs/range?shard=0&from=0&to=999999",
        "/log/0000/checkpoint",
        "/log/0009/checkpoint",
        "/log/0000/tile/0/000",
        "/log/0000/tile/0/009",
        "/log/0000/tile/entries/000",
        "/log/0000/tile/entries/000.p/60",
    ] {
        for token in [&locked.acme, &locked.others, &locked.operator, &locked.nobody] {
            let found = refused(&locked, token, path).await;
            assert_eq!((&found[0], &found[2]["code"]), (&json!(403), &json!("tenant_denied")));
            assert!(found[2].get("size").is_none(), "{found}");
        }
        assert_ne!(locked.get(&locked.all, path).await.status(), 403, "{path}");
        let nobody = locked.replica.client.get(locked.replica.url(path)).send().await.unwrap();
        assert_eq!(nobody.status(), 401, "{path}");
    }
    locked.replica.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sql_proves_no_row_of_others() {
    let locked = Locked::start(filled(true).await).await;
    let body = "select count(*), count(sealcast_proof(_shard, _seq)) from events";
    let own = json!([[2 * OWN_ROWS, 2 * OWN_ROWS]]);
    assert_eq!(locked.json(&locked.acme, body).await["rows"], own);
    for sql in [
        "select sealcast_proof(0, 60), sealcast_proof(0, 300), sealcast_proof(0, 987654)",
        "select max(sealcast_proof(s, q)), max(sealcast_proof(1, q)), min(sealcast_proof(0, q)) from \
         (select 0 as s, value as q from generate_series(60, 400))",
        "with p as (select sealcast_proof(0, 61) as t) select t, t as u, t as v from p",
    ] {
        assert_eq!(
            locked.json(&locked.acme, sql).await["rows"],
            json!([[null, null, null]]),
            "{sql}"
        );
    }
    let all = locked.json(&locked.all, "select sealcast_proof(0, 60) is not null").await;
    assert_eq!(all["rows"], json!([[true]]));
    // A plan says what was asked, and nothing of what there is.
    for sql in
        ["explain select sealcast_proof(0, 60)", "explain analyze select sealcast_proof(0, 60)"]
    {
        let plan = locked.json(&locked.acme, sql).await.to_string();
        assert!(!plan.contains("tlog-proof") && !plan.contains("origin"), "{plan}");
        assert!(plan.contains("sealcast_proof"), "{plan}");
    }
    locked.replica.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn trouble_tells_no_place_and_size() {
    let mut bucket = filled(true).await;
    let own = (0..10).map(|seq| event(2, seq, "acme"));
    let others = (10..90).map(|seq| event(2, seq, "globex"));
    let shared = bucket.ship(2, own.chain(others).collect()).await;
    let others = (90..120).map(|seq| event(2, seq, "globex"));
    let foreign = bucket.ship(2, others.collect()).await;
    bucket.damage(&shared);
    bucket.damage(&foreign);
    let tile = bucket.object("sh/0000/l0");
    std::fs::remove_dir_all(&tile).unwrap();
    let locked = Locked::start(bucket).await;
    let shape = ["code", "detail", "hint", "kind", "status", "title", "type"];
    for (path, code) in
        [("/v1/proofs/2/5", "segment_unavailable"), ("/v1/proofs/0/5", "tiles_unavailable")]
    {
        let found = refused(&locked, &locked.acme, path).await;
        assert_eq!((&found[0], &found[2]["code"]), (&json!(503), &json!(code)), "{found}");
        let names: Vec<&String> = found[2].as_object().unwrap().keys().collect();
        assert_eq!(names, shape, "{found}");
        let full = refused(&locked, &locked.all, path).await;
        assert!(full[2].as_object().unwrap().len() > shape.len(), "{full}");
        let place: Vec<&str> = path.rsplit('/').collect();
        let sql = format!("select sealcast_proof({}, {})", place[1], place[0]);
        let told = locked.json(&locked.acme, &sql).await;
        assert_eq!(told["code"], code, "{told}");
        assert!(told.get("object").is_none() && told.get("segment").is_none(), "{told}");
    }
    // A segment of others alone is not even opened: no trouble, no row.
    assert_eq!(refused(&locked, &locked.acme, "/v1/proofs/2/100").await[0], 404);
    assert_eq!(refused(&locked, &locked.all, "/v1/proofs/2/100").await[0], 503);
    locked.replica.stop().await;
}
