//! Proofs at the HTTP boundary: each is judged as a stranger would, with nothing but the answer and
//! the shard's key, against the leaves that the test has made itself.

mod logs;
mod routes;
mod trouble;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use sealcast_common::integrity::{
    Checkpoint, CompactRange, Hash, Note, TlogProof, TlogProofError, VerifyKey, leaf_hash,
};
use serde_json::{Value, json};

use super::kit::{Bucket, Replica, event};

/// Rows per segment: odd ones, ends of tiles, more than one tile.
const SIZES: &[&[u64]] = &[&[1, 2, 253, 256, 1, 300], &[255, 1, 40], &[7]];

/// Three shards, of 813, 296 and 7 rows.
async fn filled() -> Bucket {
    let mut bucket = Bucket::new().await;
    for (shard, sizes) in (0u16..).zip(SIZES) {
        for rows in *sizes {
            grow(&mut bucket, shard, *rows).await;
        }
    }
    bucket
}

async fn grow(bucket: &mut Bucket, shard: u16, rows: u64) {
    let first = bucket.size(shard);
    let events = (first..first + rows).map(|seq| event(shard, seq));
    bucket.ship(shard, events.collect()).await;
}

fn bytes(value: &Value) -> Vec<u8> {
    BASE64.decode(value.as_str().unwrap()).unwrap()
}

fn hash(value: &Value) -> Hash {
    bytes(value).try_into().unwrap()
}

fn hashes(value: &Value) -> Vec<Hash> {
    value.as_array().unwrap().iter().map(hash).collect()
}

/// The root of the first `size` leaves of a shard, from the leaves alone.
fn root(bucket: &Bucket, shard: u16, size: u64) -> Hash {
    let mut tree = CompactRange::empty(0);
    let leaves = bucket.leaves[&shard].iter().take(size.try_into().unwrap());
    leaves.for_each(|leaf| tree.append(leaf_hash(leaf)));
    tree.root().unwrap()
}

/// A checkpoint that the shard's key has signed, of all rows shipped so far.
fn judged(bucket: &Bucket, shard: u16, note: &str, key: &str) -> Checkpoint {
    let note = Note::parse(note).unwrap();
    note.verify(&VerifyKey::parse(key).unwrap()).unwrap();
    let checkpoint = Checkpoint::parse(&note.text).unwrap();
    assert_eq!(checkpoint.origin, format!("test/{shard:04x}"));
    assert_eq!(checkpoint.size, bucket.size(shard));
    assert_eq!(checkpoint.root, root(bucket, shard, checkpoint.size));
    checkpoint
}

/// The proof file shows the leaf, which is the one that the test has made.
fn check_proof(bucket: &Bucket, (shard, seq): (u16, u64), text: &str, leaf: &[u8], key: &str) {
    let proof = TlogProof::parse(text).unwrap();
    assert_eq!(proof.index, seq);
    assert_eq!(leaf, bucket.leaves[&shard][usize::try_from(seq).unwrap()], "{shard} {seq}");
    let key = VerifyKey::parse(key).unwrap();
    let judge = |note: &Note, _: &Checkpoint| note.verify(&key).map_err(TlogProofError::from);
    proof.verify(leaf, judge).unwrap();
    judged(bucket, shard, &proof.checkpoint, &key.to_text());
}

impl Replica {
    async fn json(&self, path: &str) -> Value {
        let response = self.get(path).await;
        let status = response.status();
        let text = response.text().await.unwrap();
        assert_eq!(status, 200, "{path}: {text}");
        serde_json::from_str(&text).unwrap()
    }

    /// A refusal: status and problem document.
    async fn refused(&self, path: &str) -> (u16, Value) {
        let response = self.get(path).await;
        let status = response.status().as_u16();
        assert_eq!(response.headers()["content-type"], "application/problem+json", "{path}");
        (status, response.json().await.unwrap())
    }

    async fn bundle(&self, rows: &[(u16, u64)]) -> (u16, Value) {
        let rows: Vec<Value> =
            rows.iter().map(|(shard, seq)| json!({ "shard": shard, "seq": seq })).collect();
        let request = self.client.post(self.url("/v1/proofs")).json(&json!({ "rows": rows }));
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.json().await.unwrap())
    }
}
