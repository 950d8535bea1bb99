//! Single proofs, bundles, growth, ranges, and the same in SQL.

use sealcast_common::integrity::{
    CompactRange, leaf_hash, verify_growth, verify_inclusion, verify_range,
};
use serde_json::{Value, json};

use super::super::kit::{Bucket, Replica};
use super::{check_proof, filled, grow, hash, hashes, judged, root};
use crate::tests::proofs::bytes;

/// All rows of a shard, a bundle at a time.
async fn check_bundles(bucket: &Bucket, replica: &Replica, shard: u16) {
    let places: Vec<_> = (0..bucket.size(shard)).map(|seq| (shard, seq)).collect();
    for places in places.chunks(700) {
        check_bundle(bucket, replica, places).await;
    }
}

/// Rows of one shard.
async fn check_bundle(bucket: &Bucket, replica: &Replica, places: &[(u16, u64)]) {
    let shard = places[0].0;
    let (status, answer) = replica.bundle(places).await;
    assert_eq!(status, 200, "{answer}");
    let told = &answer["checkpoints"][shard.to_string()];
    let (note, key) = (told["note"].as_str().unwrap(), told["key"].as_str().unwrap());
    let checkpoint = judged(bucket, shard, note, key);
    let nodes = hashes(&answer["nodes"]);
    let mut once = nodes.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), nodes.len(), "each node once");
    assert_eq!(answer["rows"].as_array().unwrap().len(), places.len());
    for (row, (_, seq)) in answer["rows"].as_array().unwrap().iter().zip(places) {
        assert_eq!((&row["shard"], &row["seq"]), (&json!(shard), &json!(seq)));
        let leaf = bytes(&row["leaf"]);
        assert_eq!(leaf, bucket.leaves[&shard][usize::try_from(*seq).unwrap()]);
        let path = row["path"].as_array().unwrap().iter();
        let path: Vec<_> = path.map(|at| nodes[at.as_u64().unwrap() as usize]).collect();
        let tree = (checkpoint.size, &checkpoint.root);
        verify_inclusion(&leaf_hash(&leaf), *seq, tree.0, &path, tree.1).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_row_of_every_shard_is_proved_also_after_more_rows() {
    let mut bucket = filled().await;
    let replica = bucket.replica().await;
    for round in 0..2 {
        for shard in 0..3 {
            check_bundles(&bucket, &replica, shard).await;
        }
        let (status, mixed) = replica.bundle(&[(2, 0), (0, 3), (1, 2), (0, 3)]).await;
        assert_eq!((status, mixed["checkpoints"].as_object().unwrap().len()), (200, 3));
        for place in [(0, 0), (0, 255), (0, 256), (0, 812), (1, 254), (1, 255), (2, 6)] {
            let path = format!("/v1/proofs/{}/{}", place.0, place.1);
            let told = replica.json(&path).await;
            assert_eq!((&told["shard"], &told["seq"]), (&json!(place.0), &json!(place.1)));
            assert_eq!(told["tenant"], ["acme", "globex", "initech"][(place.1 % 3) as usize]);
            let (proof, key) = (told["proof"].as_str().unwrap(), told["key"].as_str().unwrap());
            check_proof(&bucket, place, proof, &bytes(&told["leaf"]), key);
            let get = |media| replica.client.get(replica.url(&path)).header("accept", media).send();
            let text = get("text/plain").await.unwrap();
            assert_eq!(text.headers()["content-type"], "text/plain; charset=utf-8");
            assert_eq!(text.text().await.unwrap(), proof);
            let leaf = get("application/cbor").await.unwrap();
            assert_eq!(leaf.headers()["content-type"], "application/cbor");
            assert_eq!(leaf.bytes().await.unwrap(), bytes(&told["leaf"]));
        }
        if round == 0 {
            for (shard, rows) in [(0, 211), (1, 3), (2, 1), (2, 248)] {
                grow(&mut bucket, shard, rows).await;
            }
            replica.wait(&bucket.token()).await;
        }
    }
    replica.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn growth_is_proved_between_any_two_sizes() {
    let bucket = filled().await;
    let replica = bucket.replica().await;
    let sizes = [0, 1, 2, 3, 255, 256, 257, 300, 511, 512, 513, 700, 812, 813];
    for from in sizes {
        for to in sizes.into_iter().filter(|to| from <= *to) {
            let path = format!("/v1/proofs/consistency?shard=0&from={from}&to={to}");
            let told = replica.json(&path).await;
            let (old, new) = (root(&bucket, 0, from), root(&bucket, 0, to));
            assert_eq!((hash(&told["root_from"]), hash(&told["root_to"])), (old, new), "{path}");
            verify_growth((from, &old), (to, &new), &hashes(&told["proof"])).unwrap();
            let (note, key) = (told["checkpoint"].as_str().unwrap(), told["key"].as_str().unwrap());
            let newest = judged(&bucket, 0, note, key);
            let rest = hashes(&told["proof_to_checkpoint"]);
            verify_growth((to, &new), (newest.size, &newest.root), &rest).unwrap();
        }
    }
    let newest = replica.json("/v1/proofs/consistency?shard=0&from=300").await;
    assert_eq!((&newest["to"], &newest["proof_to_checkpoint"]), (&json!(813), &json!([])));
    replica.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_range_is_all_of_its_rows() {
    let bucket = filled().await;
    let replica = bucket.replica().await;
    let cuts = [(0, 813), (0, 1), (1, 3), (2, 300), (255, 257), (256, 512), (812, 813), (5, 5)];
    for (from, to) in cuts {
        let path = format!("/v1/proofs/range?shard=0&from={from}&to={to}");
        let told = replica.json(&path).await;
        let leaves: Vec<_> = told["leaves"].as_array().unwrap().iter().map(bytes).collect();
        assert_eq!(leaves, bucket.leaves[&0][from as usize..to as usize], "{path}");
        let (note, key) = (told["checkpoint"].as_str().unwrap(), told["key"].as_str().unwrap());
        let newest = judged(&bucket, 0, note, key);
        let (left, right) = (hashes(&told["left"]), hashes(&told["right"]));
        let tree = (newest.size, &newest.root);
        let range = |skipped: Option<usize>| {
            let mut range = CompactRange::empty(from);
            let kept = leaves.iter().enumerate().filter(|(at, _)| Some(*at) != skipped);
            kept.for_each(|(_, leaf)| range.append(leaf_hash(leaf)));
            range
        };
        verify_range(&range(None), &left, &right, tree).unwrap();
        // One row fewer is told.
        if !leaves.is_empty() {
            assert!(verify_range(&range(Some(leaves.len() / 2)), &left, &right, tree).is_err());
        }
    }
    let rest = replica.json("/v1/proofs/range?shard=1&from=290").await;
    assert_eq!((&rest["to"], rest["leaves"].as_array().unwrap().len()), (&json!(296), 6));
    replica.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sql_gives_the_same_proofs() {
    let bucket = filled().await;
    let replica = bucket.replica().await;
    let key = |shard| format!("/v1/proofs/{shard}/0");
    let keys = [replica.json(&key(0)).await, replica.json(&key(1)).await];
    let sql = "select _shard, _seq, sealcast_proof(_shard, _seq) from events where _shard < 2";
    let rows = replica.rows(sql).await;
    assert_eq!(rows.as_array().unwrap().len(), 813 + 296);
    for row in rows.as_array().unwrap() {
        let (shard, seq) = (row[0].as_u64().unwrap() as u16, row[1].as_u64().unwrap());
        let leaf = bucket.leaves[&shard][seq as usize].clone();
        let key = keys[usize::from(shard)]["key"].as_str().unwrap();
        check_proof(&bucket, (shard, seq), row[2].as_str().unwrap(), &leaf, key);
    }
    let one = replica.json("/v1/proofs/1/40").await["proof"].take();
    for (sql, expected) in [
        ("select sealcast_proof(1, 40)", json!([[one]])),
        (
            "select sealcast_proof(_shard, _seq) from events where _shard = 1 and _seq = 40",
            json!([[one]]),
        ),
        (
            "select sealcast_proof(1, 40) from events where _seq < 2 and _shard = 0",
            json!([[one], [one]]),
        ),
        (
            "select sealcast_proof(1, 296), sealcast_proof(9, 0), sealcast_proof(70000, 0)",
            json!([[null, null, null]]),
        ),
        ("select sealcast_proof(null, 0), sealcast_proof(0, null)", json!([[null, null]])),
        (
            "select count(*) from events where sealcast_proof(_shard, _seq) is not null",
            json!([[1116]]),
        ),
        ("select count(sealcast_proof(_shard, _seq)) from events", json!([[1116]])),
        ("select max(length(sealcast_proof(_shard, _seq))) > 200 from events", json!([[true]])),
        (
            "select p from (select _seq as s, sealcast_proof(_shard, _seq) as p from events where _shard = 1) where s = 40 limit 1",
            json!([[one]]),
        ),
        (
            "select sealcast_proof(_shard, _seq) from events where _shard = 1 and _seq between 39 and 40 order by _seq desc limit 1",
            json!([[one]]),
        ),
    ] {
        assert_eq!(replica.rows(sql).await, expected, "{sql}");
    }
    let with = json!({ "sql": "select sealcast_proof($1, $2)", "params": [1, 40] });
    assert_eq!(replica.answer(&with).await["rows"], json!([[one]]));
    for sql in ["select sealcast_proof('x', 0)", "select sealcast_proof(1)"] {
        let (status, told) = replica.refusal(&json!({ "sql": sql })).await;
        assert_eq!((status, &told["code"]), (400, &Value::from("plan_error")), "{sql}: {told}");
    }
    replica.stop().await;
}
