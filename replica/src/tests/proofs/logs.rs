//! The URLs of C2SP: what a client of somebody else's would do with them.

use sealcast_common::integrity::{
    Hash, Question, TILE_WIDTH, TileId, Tiles, leaf_hash, node_hash, verify_inclusion,
};
use serde_json::json;

use super::super::kit::{Bucket, Replica};
use super::{filled, grow, judged};

/// RFC 6962 §2.1, over leaf hashes, as it is written there.
fn tree(leaves: &[Hash]) -> Hash {
    if let [leaf] = leaves {
        return *leaf;
    }
    let split = leaves.len().next_power_of_two() / 2;
    node_hash(&tree(&leaves[..split]), &tree(&leaves[split..]))
}

async fn object(replica: &Replica, path: &str) -> Vec<u8> {
    let response = replica.get(path).await;
    assert_eq!(response.status(), 200, "{path}");
    assert_eq!(response.headers()["content-type"], "application/octet-stream", "{path}");
    let caching = response.headers()["cache-control"].to_str().unwrap();
    assert!(caching.contains("immutable"), "{path}: {caching}");
    response.bytes().await.unwrap().to_vec()
}

/// Everything that a log of `size` rows has: the tiles together, and each level alone.
async fn check_log(bucket: &Bucket, replica: &Replica, shard: u16) {
    let response = replica.get(&format!("/log/{shard:04x}/checkpoint")).await;
    assert_eq!(response.headers()["content-type"], "text/plain; charset=utf-8");
    assert_eq!(response.headers()["cache-control"], "max-age=2");
    let note = response.text().await.unwrap();
    let key = replica.json(&format!("/v1/proofs/{shard}/0")).await["key"].take();
    let checkpoint = judged(bucket, shard, &note, key.as_str().unwrap());
    let (mut tiles, mut leaves, mut entries) = (Tiles::default(), Vec::new(), Vec::new());
    for level in 0..8 {
        for index in 0.. {
            let id = TileId { level, index };
            let width = id.width(checkpoint.size);
            if width == 0 {
                break;
            }
            let bytes = object(replica, &format!("/log/{shard:04x}/tile/{}", id.path(width))).await;
            assert_eq!(bytes.len() as u64, width * 32);
            if level == 0 {
                leaves.extend(bytes.as_chunks::<32>().0);
                let path = id.path(width);
                let path = path.strip_prefix("0/").unwrap();
                let path = format!("/log/{shard:04x}/tile/entries/{path}");
                entries.extend(split(&object(replica, &path).await));
            }
            tiles.insert(id, bytes);
        }
    }
    assert_eq!(tree(&leaves), checkpoint.root);
    assert_eq!(entries, bucket.leaves[&shard]);
    let hashed: Vec<Hash> = entries.iter().map(|entry| leaf_hash(entry)).collect();
    assert_eq!(hashed, leaves);
    for index in (0..checkpoint.size).step_by(61) {
        let proof = tiles.answer(Question::Inclusion(index), checkpoint.size).unwrap();
        let (leaf, size) = (leaves[index as usize], checkpoint.size);
        verify_inclusion(&leaf, index, size, &proof, &checkpoint.root).unwrap();
    }
}

/// Entries behind their lengths.
fn split(mut bundle: &[u8]) -> Vec<Vec<u8>> {
    let mut entries = Vec::new();
    while let Some((len, rest)) = bundle.split_first_chunk::<2>() {
        let (entry, rest) = rest.split_at(u16::from_be_bytes(*len).into());
        entries.push(entry.to_vec());
        bundle = rest;
    }
    entries
}

#[tokio::test(flavor = "multi_thread")]
async fn tiles_and_entries_add_up_to_the_checkpoint_also_of_earlier_sizes() {
    let mut bucket = filled().await;
    let replica = bucket.replica().await;
    for shard in 0..3 {
        check_log(&bucket, &replica, shard).await;
    }
    grow(&mut bucket, 0, 411).await;
    replica.wait(&bucket.token()).await;
    check_log(&bucket, &replica, 0).await;
    // Partial tiles of every size that was published, and narrower ones, begin the larger.
    let whole = object(&replica, "/log/0000/tile/0/003").await;
    for width in [1, 45, 255] {
        let part = object(&replica, &format!("/log/0000/tile/0/003.p/{width}")).await;
        assert_eq!(part, whole[..width * 32]);
    }
    for width in [1, 2, 3] {
        let level = object(&replica, &format!("/log/0000/tile/1/000.p/{width}")).await;
        assert_eq!(level.len(), width * 32);
    }
    replica.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_is_not_found() {
    let bucket = filled().await;
    let replica = bucket.replica().await;
    for path in [
        "/log/0003/checkpoint",
        "/log/0/checkpoint",
        "/log/00000/checkpoint",
        "/log/000A/checkpoint",
        "/log/+001/checkpoint",
        // Shard 0 has 813 rows: three full tiles and 45 hashes.
        "/log/0000/tile/0/003",
        "/log/0000/tile/0/003.p/46",
        "/log/0000/tile/0/004",
        "/log/0000/tile/1/000",
        "/log/0000/tile/1/000.p/4",
        "/log/0000/tile/2/000.p/1",
        "/log/0000/tile/63/000",
        "/log/0000/tile/64/000",
        "/log/0000/tile/8/000.p/1",
        // Names that are no tile's.
        "/log/0000/tile/0/000.p/0",
        "/log/0000/tile/0/000.p/256",
        "/log/0000/tile/0/000.p/01",
        "/log/0000/tile/00/000",
        "/log/0000/tile/0/0",
        "/log/0000/tile/0/x000/000",
        "/log/0000/tile/0/x999/x999/x999/x999/x999/x999/999",
        "/log/0000/tile/0/x001/000/",
        "/log/0000/tile/entries/003",
        "/log/0000/tile/entries/003.p/46",
        "/log/0000/tile/entries/entries/000",
        "/log/0000/tile/-1/000",
        "/log/0009/tile/0/000",
    ] {
        let (status, told) = replica.refused(path).await;
        assert_eq!(status, 404, "{path}: {told}");
    }
    for (path, code) in [("/log/0000/tile/0/009", "unknown_tile"), ("/log/0000", "unknown_route")] {
        assert_eq!(replica.refused(path).await.1["code"], json!(code));
    }
    assert_eq!(TILE_WIDTH, 256);
    replica.stop().await;
}
