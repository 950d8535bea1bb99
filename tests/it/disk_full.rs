//! A disk that is full: the writer says so and goes on reading, the replica goes on answering, and
//! both go on by themselves when space returns.

use sealcast_tests::{
    Checker, Cluster, Disk, Mount, REPLICA, Roles, SHIPPER, WRITER, deliver, until,
};
use serde_json::Value;

const DISK_MIB: u32 = 32;
/// Needs the rows themselves: what is only known of a segment cannot answer it.
const SQL: &str = "select count(distinct message) from events where message like 'event%'";

/// A cluster whose `role` has a small disk of its own.
async fn on_small_disk(test: &str, role: &str, disk: Disk) -> Option<(Cluster, Mount)> {
    let dir = tempfile::tempdir().unwrap();
    let mount = Mount::new(test, &dir.path().join(role), disk, DISK_MIB)?;
    let store = dir.path().join("store").display().to_string();
    let env = vec![("SEALCAST_WRITER_SEAL_AGE_MS".to_owned(), "500".to_owned())];
    Some((Cluster::start_on(Roles::Apart, dir, store, env).await, mount))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_on_a_full_tmpfs_refuses_with_507_and_is_back_when_space_is() {
    let test = "a_writer_on_a_full_tmpfs_refuses_with_507_and_is_back_when_space_is";
    full_writer(test, Disk::Tmpfs).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_on_a_full_disk_refuses_with_507_and_is_back_when_space_is() {
    let test = "a_writer_on_a_full_disk_refuses_with_507_and_is_back_when_space_is";
    full_writer(test, Disk::Loop).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_on_a_full_tmpfs_answers_and_catches_up_when_space_returns() {
    let test = "a_replica_on_a_full_tmpfs_answers_and_catches_up_when_space_returns";
    full_replica(test, Disk::Tmpfs).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_on_a_full_disk_answers_and_catches_up_when_space_returns() {
    let test = "a_replica_on_a_full_disk_answers_and_catches_up_when_space_returns";
    full_replica(test, Disk::Loop).await;
}

async fn full_writer(test: &str, disk: Disk) {
    let Some((mut cluster, mount)) = on_small_disk(test, "writer", disk).await else { return };
    let (http, mut checker) = (reqwest::Client::new(), Checker::default());
    let before = checker.batch(1, 200);
    checker.acknowledged(&deliver(&http, &cluster.url(WRITER), &before).await);
    let token = cluster.flush().await;
    assert_eq!(cluster.count(Some(&token)).await, 200);
    // A seal that ends meanwhile gives space back: what is acknowledged in it counts, and the disk
    // is filled again.
    let refused = loop {
        mount.fill();
        let batch = checker.batch(2, 2_000);
        let answer = cluster.post(batch.clone()).await;
        let (status, document) = (answer.status().as_u16(), answer.json::<Value>().await.unwrap());
        if status == 200 {
            checker.acknowledged(&serde_json::from_value(document).unwrap());
            continue;
        }
        assert_eq!((status, &document["code"]), (507, &"disk_full".into()), "{document}");
        break batch;
    };
    assert!(cluster.process(WRITER).is_running());
    let shards = cluster.get(WRITER, "/v1/shards").await;
    let sizes = shards["shards"].as_array().unwrap().iter().map(|shard| shard["size"].as_u64());
    let durable: Option<u64> = sizes.sum();
    assert_eq!(durable, Some(checker.count() as u64), "nothing of what was refused: {shards}");
    mount.free();
    checker.acknowledged(&deliver(&http, &cluster.url(WRITER), &refused).await);
    cluster.ready_role(WRITER).await;
    let acknowledged = checker.count();
    let checked = checker.check(&cluster).await;
    assert_eq!((checked.acknowledged, checked.unacknowledged), (acknowledged, 0));
    cluster.kill();
    drop(mount);
}

async fn full_replica(test: &str, disk: Disk) {
    let Some((mut cluster, mount)) = on_small_disk(test, "replica", disk).await else { return };
    let (http, mut checker) = (reqwest::Client::new(), Checker::default());
    let before = checker.batch(1, 200);
    checker.acknowledged(&deliver(&http, &cluster.url(WRITER), &before).await);
    let token = cluster.flush().await;
    assert_eq!(cluster.rows(SQL, Some(&token)).await[0][0], 200);
    mount.fill();
    let more = checker.batch(2, 5_000);
    checker.acknowledged(&deliver(&http, &cluster.url(WRITER), &more).await);
    cluster.flush().await;
    assert_eq!(cluster.get(SHIPPER, "/v1/status").await["lag_rows"], 0);
    // It answers what it has, or says that it cannot: never less than it has answered.
    until("the replica is told of its disk", || async {
        let (status, answer) = cluster.sql_at(SQL, None).await;
        match status {
            200 => assert_eq!(answer["rows"][0][0], 200, "{answer}"),
            _ => assert_eq!(answer["code"], "segment_unavailable", "{status}: {answer}"),
        }
        cluster.output(REPLICA).contains("No space left").then_some(())
    })
    .await;
    assert!(cluster.process(REPLICA).is_running());
    mount.free();
    let checked = checker.check(&cluster).await;
    assert_eq!(checked.acknowledged, 5_200);
    cluster.kill();
    drop(mount);
}
