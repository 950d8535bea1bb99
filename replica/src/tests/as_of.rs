//! Repeatable reads: an answer's state, asked for again after more has come.

use serde_json::{Value, json};

use super::escapes::Locked;
use super::escapes::bucket::filled;
use super::kit::{Bucket, Replica, event};

const COUNT: &str = "select count(*), max(_seq) from events";

/// The answer of `body`, with where it stood, its snapshot and its tag.
async fn asked(replica: &Replica, body: &Value) -> (Value, [String; 3]) {
    let answer = replica.post(body).await;
    assert_eq!(answer.status(), 200, "{body}");
    let told = ["sealcast-as-of", "sealcast-snapshot", "etag"]
        .map(|name| answer.headers()[name].to_str().unwrap().to_owned());
    let document: Value = answer.json().await.unwrap();
    (document["rows"].clone(), told)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_given_again_after_more_has_come() {
    let mut bucket = Bucket::filled(2, 30).await;
    let replica = bucket.replica().await;
    let (rows, then) = asked(&replica, &json!({ "sql": COUNT })).await;
    assert_eq!(rows, json!([[60, 59]]));
    let first = bucket.token();
    for from in [60, 90] {
        bucket.ship(0, (from..from + 30).map(|seq| event(0, seq)).collect()).await;
    }
    bucket.ship(7, (0..5).map(|seq| event(7, seq)).collect()).await;
    replica.wait(&bucket.token()).await;
    let (rows, now) = asked(&replica, &json!({ "sql": COUNT })).await;
    assert_eq!(rows, json!([[125, 119]]));
    assert!(now.iter().zip(&then).all(|(now, then)| now != then));
    // The same bytes, so the same snapshot and the same tag; also by header, and by a token.
    let (rows, again) = asked(&replica, &json!({ "sql": COUNT, "as_of": then[0] })).await;
    assert_eq!((&rows, &again), (&json!([[60, 59]]), &then));
    let url = replica.url(&format!("/v1/sql?q={COUNT}"));
    let request = replica.client.get(url).header("sealcast-as-of", &then[0]);
    let answer = request.header("if-none-match", &then[2]).send().await.unwrap();
    assert_eq!(answer.status(), 304);
    let (rows, by_token) = asked(&replica, &json!({ "sql": COUNT, "as_of": first })).await;
    assert_eq!(rows, json!([[60, 59]]));
    assert_ne!(by_token[1], then[1], "a token tells sizes, not what was committed");
    // Other tables show the same state, and its rows are proved by the newest checkpoint.
    let body = json!({ "sql": "select count(*) from sealcast.segments", "as_of": then[0] });
    assert_eq!(replica.answer(&body).await["rows"], json!([[2]]));
    let body = json!({ "sql": "select sealcast_proof(_shard, _seq) from events where _seq = 9", "as_of": then[0] });
    let proof = replica.answer(&body).await["rows"][0][0].as_str().unwrap().to_owned();
    assert!(proof.contains("\n120\n"), "{proof}");
    replica.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn states_that_never_were_are_refused_and_later_ones_awaited() {
    let mut bucket = Bucket::filled(1, 30).await;
    let replica = bucket.replica().await;
    let of = |shard: u16, size: u64| {
        let vector = [(shard, size)].into_iter().collect();
        sealcast_common::wire::Token(vector).to_text()
    };
    let ask = |as_of: String| json!({ "sql": COUNT, "as_of": as_of, "wait_ms": 20 });
    for (as_of, status, code) in [
        (of(0, 29), 400, "as_of_invalid"),
        (of(0, 31), 412, "not_yet_replicated"),
        (of(3, 1), 412, "not_yet_replicated"),
        ("a1.AAAA".to_owned(), 400, "as_of_invalid"),
        ("nonsense".to_owned(), 400, "as_of_invalid"),
    ] {
        let (found, problem) = replica.refusal(&ask(as_of)).await;
        assert_eq!((found, &problem["code"]), (status, &json!(code)), "{problem}");
    }
    let (_, problem) = replica.refusal(&ask(of(0, 29))).await;
    let told = problem["detail"].as_str().unwrap();
    assert!(told.contains("no segment of shard 0 ends at 29"), "{told}");
    assert_eq!(asked(&replica, &ask(of(0, 30))).await.0, json!([[30, 29]]));
    let body = json!({ "sql": COUNT, "as_of": of(0, 60), "wait_ms": 20_000 });
    let (answer, ()) = tokio::join!(replica.answer(&body), async {
        bucket.ship(0, (30..60).map(|seq| event(0, seq)).collect()).await;
    });
    assert_eq!(answer["rows"], json!([[60, 59]]));
    replica.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limited_token_repeats_its_reads_and_names_no_sizes() {
    let locked = Locked::start(filled(true).await).await;
    let (url, token) = (locked.replica.url("/v1/sql"), locked.acme.reveal());
    let ask = async |body: Value| {
        let request = locked.replica.client.post(&url).json(&body).bearer_auth(token);
        request.send().await.unwrap()
    };
    let answer = ask(json!({ "sql": COUNT })).await;
    let as_of = answer.headers()["sealcast-as-of"].to_str().unwrap().to_owned();
    let rows = answer.json::<Value>().await.unwrap()["rows"].clone();
    let again = ask(json!({ "sql": COUNT, "as_of": as_of })).await;
    assert_eq!(again.json::<Value>().await.unwrap()["rows"], rows);
    let sizes = ask(json!({ "sql": COUNT, "as_of": locked.bucket.token() })).await;
    assert_eq!(sizes.status(), 400);
    locked.replica.stop().await;
}
