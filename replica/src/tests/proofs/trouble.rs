//! Requests that cannot be answered, and stores that have lost or changed what proofs are made of.

use std::path::Path;

use sealcast_common::catalog::names::{checkpoint_key, pack_key, tile_key};
use serde_json::{Value, json};

use super::super::kit::{Bucket, Replica, event};
use super::{check_proof, filled};
use crate::tests::proofs::bytes;

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_bounded_and_strict() {
    let bucket = filled().await;
    let replica = bucket.replica().await;
    for (path, status, code) in [
        ("/v1/proofs/0/813", 404, "unknown_row"),
        ("/v1/proofs/3/0", 404, "unknown_row"),
        ("/v1/proofs/0/18446744073709551615", 404, "unknown_row"),
        ("/v1/proofs/0/18446744073709551616", 400, "request_invalid"),
        ("/v1/proofs/65536/0", 400, "request_invalid"),
        ("/v1/proofs/0000/1", 400, "request_invalid"),
        ("/v1/proofs/0/01", 400, "request_invalid"),
        ("/v1/proofs/0/+1", 400, "request_invalid"),
        ("/v1/proofs/-1/1", 400, "request_invalid"),
        ("/v1/proofs/0/x", 400, "request_invalid"),
        ("/v1/proofs/0/1?from=2&x=3", 400, "request_invalid"),
        ("/v1/proofs/0/1?min=x", 400, "token_invalid"),
        ("/v1/proofs/0/1?wait_ms=99999999", 400, "request_invalid"),
        // A state that never comes.
        ("/v1/proofs/0/1?min=v1.oQAaAA9CQA&wait_ms=0", 412, "not_yet_replicated"),
        ("/v1/proofs/consistency?shard=0", 400, "request_invalid"),
        ("/v1/proofs/consistency?from=0", 400, "request_invalid"),
        ("/v1/proofs/consistency?shard=0&from=5&to=4", 400, "request_invalid"),
        ("/v1/proofs/consistency?shard=0&from=0&to=814", 404, "unknown_row"),
        ("/v1/proofs/consistency?shard=0&from=814", 400, "request_invalid"),
        ("/v1/proofs/consistency?shard=7&from=0", 404, "unknown_row"),
        ("/v1/proofs/range?shard=0&from=3&to=2", 400, "request_invalid"),
        ("/v1/proofs/range?shard=0&from=0&to=814", 404, "unknown_row"),
        ("/v1/proofs/range?shard=0&from=900", 400, "request_invalid"),
        ("/v1/proofs/range?shard=7&from=0", 404, "unknown_row"),
    ] {
        let (found, told) = replica.refused(path).await;
        assert_eq!((found, &told["code"]), (status, &json!(code)), "{path}: {told}");
    }
    let html = replica.client.get(replica.url("/v1/proofs/0/1")).header("accept", "text/html");
    assert_eq!(html.send().await.unwrap().status(), 406);
    let (status, told) = replica.bundle(&[(0, 1), (0, 813), (0, 2), (9, 9)]).await;
    assert_eq!((status, &told["code"], &told["index"]), (404, &json!("unknown_row"), &json!(1)));
    let (status, told) = replica.bundle(&vec![(0, 1); 1_001]).await;
    assert_eq!((status, &told["code"]), (413, &json!("too_many_rows")));
    assert_eq!(replica.bundle(&vec![(0, 1); 1_000]).await.0, 200);
    assert_eq!(replica.bundle(&[]).await.0, 400);
    for body in ["", "{}", "[]", "{\"rows\":[{\"shard\":0,\"seq\":-1}]}", "{\"rows\":1}"] {
        let request = replica.client.post(replica.url("/v1/proofs")).body(body);
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 400, "{body}");
    }
    replica.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_range_is_bounded_by_rows() {
    let bucket = Bucket::filled(2, 6_000).await;
    let replica = bucket.replica().await;
    let told = replica.json("/v1/proofs/range?shard=0&from=0").await;
    assert_eq!((&told["to"], told["leaves"].as_array().unwrap().len()), (&json!(10_000), 10_000));
    let (status, told) = replica.refused("/v1/proofs/range?shard=0&from=0&to=10001").await;
    assert_eq!((status, &told["code"]), (413, &json!("too_many_rows")));
    replica.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_bounded_by_bytes() {
    let mut bucket = Bucket::new().await;
    let large = |seq| {
        let texts = (0..4).map(|n| format!("\"k{n}\":\"{}\"", "x".repeat(6_000)));
        let attributes = format!("{{{}}}", texts.collect::<Vec<_>>().join(","));
        sealcast_common::event::Event { attributes: Some(attributes), ..event(0, seq) }
    };
    bucket.ship(0, (0..800).map(large).collect()).await;
    let replica = bucket.replica().await;
    let (status, told) = replica.refused("/v1/proofs/range?shard=0&from=0").await;
    assert_eq!((status, &told["code"]), (413, &json!("result_too_large")), "{told}");
    let all: Vec<_> = (0..800).map(|seq| (0, seq)).collect();
    assert_eq!(replica.bundle(&all).await.1["code"], "result_too_large");
    replica.json("/v1/proofs/range?shard=0&from=0&to=500").await;
    replica.stop().await;
}

/// One bit of a file.
fn flip(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    put(path, &bytes);
}

fn put(path: &Path, bytes: &[u8]) {
    #[expect(clippy::disallowed_methods, reason = "damage is not durable work")]
    std::fs::write(path, bytes).unwrap();
}

/// What each route says about row 300 of shard 0, or a tile beside it.
async fn told(replica: &Replica) -> Vec<(u16, Value)> {
    let mut found = Vec::new();
    for path in [
        "/v1/proofs/0/300",
        "/v1/proofs/consistency?shard=0&from=300",
        "/v1/proofs/range?shard=0&from=300&to=301",
        "/log/0000/tile/0/001",
    ] {
        found.push(replica.refused(path).await);
    }
    found.push(replica.bundle(&[(0, 300)]).await);
    let sql = json!({ "sql": "select sealcast_proof(0, 300)" });
    found.push(replica.refusal(&sql).await);
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_and_changed_tiles_give_no_proof_and_heal() {
    // 70,000 rows would be needed for a full tile of level 2; of level 1 there is none below 65,536:
    // what proofs rest on here are packs and the checkpoint's object.
    for key in [pack_key(0, 256, 256), checkpoint_key(0, 813)] {
        for lost in [true, false] {
            let bucket = filled().await;
            let object = bucket.object(&key);
            let good = std::fs::read(&object).unwrap();
            if lost {
                std::fs::remove_file(&object).unwrap();
            } else {
                flip(&object);
            }
            let replica = bucket.replica().await;
            for (status, told) in told(&replica).await {
                let (expected, code) = match lost {
                    true => (503, "tiles_unavailable"),
                    false => (500, "tiles_corrupt"),
                };
                assert_eq!((status, &told["code"]), (expected, &json!(code)), "{key}: {told}");
                assert!(told["hint"].is_string());
                match lost {
                    true => assert_eq!(told["object"], json!(key)),
                    false => assert!(told["check"].is_string(), "{told}"),
                }
            }
            // Rows are not concerned.
            assert_eq!(replica.rows("select count(*) from events").await, json!([[1116]]));
            put(&object, &good);
            let told = replica.json("/v1/proofs/0/300").await;
            let (proof, key) = (told["proof"].as_str().unwrap(), told["key"].as_str().unwrap());
            check_proof(&bucket, (0, 300), proof, &bytes(&told["leaf"]), key);
            replica.stop().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_pack_gives_no_proof() {
    let bucket = filled().await;
    let object = bucket.object(&pack_key(0, 256, 256));
    let good = std::fs::read(&object).unwrap();
    put(&object, &good[..good.len() - 32 * 100 - 1]);
    let replica = bucket.replica().await;
    for (status, told) in told(&replica).await {
        assert_eq!((status, &told["code"]), (500, &json!("tiles_corrupt")), "{told}");
    }
    assert!(!bucket.object(&tile_key(0, "1/000")).exists());
    replica.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_segment_is_named_and_its_neighbours_are_proved() {
    let mut bucket = filled().await;
    let events = (813..913).map(|seq| event(0, seq)).collect();
    let bad = bucket.ship(0, events).await;
    bucket.damage(&bad);
    let replica = bucket.replica_with(|_| {}).await;
    replica.wait_visible(1_216).await;
    let (status, told) = replica.refused("/v1/proofs/0/850").await;
    assert_eq!((status, &told["code"]), (503, &json!("segment_unavailable")), "{told}");
    assert_eq!(told["range"], json!([813, 913]));
    let fine = replica.json("/v1/proofs/0/812").await;
    let (proof, key) = (fine["proof"].as_str().unwrap(), fine["key"].as_str().unwrap());
    check_proof(&bucket, (0, 812), proof, &bytes(&fine["leaf"]), key);
    replica.stop().await;
}

#[tokio::test]
async fn a_replica_that_has_read_nothing_does_not_answer_no_such_row() {
    let bucket = Bucket::filled(1, 10).await;
    let empty = tempfile::tempdir().unwrap();
    let nowhere = empty.path().display().to_string();
    let replica = bucket.replica_with(|config| config.store = nowhere).await;
    for path in ["/v1/proofs/0/1", "/v1/proofs/range?shard=0&from=0", "/log/0000/checkpoint"] {
        let (status, told) = replica.refused(path).await;
        assert_eq!((status, &told["code"]), (503, &json!("replica_starting")), "{path}: {told}");
    }
    let (status, told) = replica.refusal(&json!({ "sql": "select sealcast_proof(0, 1)" })).await;
    assert_eq!((status, &told["code"]), (503, &json!("replica_starting")), "{told}");
    replica.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_local_is_fetched_and_proved() {
    let bucket = filled().await;
    // Room for one segment at most.
    let replica = bucket.replica_with(|config| config.cache_bytes = 1).await;
    replica.wait(&bucket.token()).await;
    for seq in [0, 1, 3, 256, 812] {
        let told = replica.json(&format!("/v1/proofs/0/{seq}")).await;
        let (proof, key) = (told["proof"].as_str().unwrap(), told["key"].as_str().unwrap());
        check_proof(&bucket, (0, seq), proof, &bytes(&told["leaf"]), key);
    }
    replica.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proof_out_of_place_is_refused_and_breaks_nothing() {
    let bucket = filled().await;
    let replica = bucket.replica().await;
    let call = "sealcast_proof(_shard, _seq)";
    for sql in [
        format!("select _seq from events where _shard = 2 order by {call}"),
        format!("select {call}, count(*) from events where _shard = 2 group by 1"),
        format!("select count(*) from events where _shard = 2 having min({call}) is not null"),
        format!("select rank() over (order by {call}) from events where _shard = 2"),
        format!("select count(*) from events where _shard = 2 and upper({call}) like 'C2SP%'"),
        format!("select case when _seq < 3 then {call} end from events where _shard = 2"),
        "select count(*) from events a join events b on sealcast_proof(a._shard, b._seq) is null \
         and a._shard = 2 and b._shard = 2"
            .to_owned(),
        format!("select (select max({call}) from events where _shard = 2) is null"),
        format!("select distinct {call} from events where _shard = 2"),
        format!("explain select {call} from events"),
        format!("explain analyze select {call} from events where _shard = 2"),
    ] {
        let response = replica.post(&json!({ "sql": sql })).await;
        let (status, told) = (response.status().as_u16(), response.text().await.unwrap());
        let refused = status == 400 && told.contains("\"not_supported\"");
        assert!(status == 200 || refused, "{sql}: {status} {told}");
    }
    replica.stop().await;
}
