//! A disk that is full: the writer says so and goes on reading, the replica goes on answering, and
//! both go on by themselves when space returns.

use sealcast_tests::{Checker, Cluster, Mount, REPLICA, Roles, SHIPPER, WRITER, deliver, until};

/// Room for the harness's own files, the filler and a few segments.
const DISK_MIB: u32 = 16;

/// A cluster whose `role` has a small disk of its own.
async fn on_small_disk(test: &str, role: &str) -> Option<(Cluster, Mount)> {
    let dir = tempfile::tempdir().unwrap();
    let mount = Mount::new(test, &dir.path().join(role), DISK_MIB)?;
    let store = dir.path().join("store").display().to_string();
    let env = vec![("SEALCAST_WRITER_SEAL_AGE_MS".to_owned(), "500".to_owned())];
    Some((Cluster::start_on(Roles::Apart, dir, store, env).await, mount))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_on_a_full_disk_refuses_with_507_and_is_back_when_space_is() {
    let test = "a_writer_on_a_full_disk_refuses_with_507_and_is_back_when_space_is";
    let Some((mut cluster, mount)) = on_small_disk(test, "writer").await else { return };
    let (http, mut checker) = (reqwest::Client::new(), Checker::default());
    let before = checker.batch(1, 200);
    checker.acknowledged(&deliver(&http, &cluster.url(WRITER), &before).await);
    mount.fill(0);
    let refused = checker.batch(2, 2_000);
    let status = until("507", || async {
        let answer = cluster.post(refused.clone()).await;
        let (status, text) = (answer.status().as_u16(), answer.text().await.unwrap());
        assert!(status == 200 || text.contains("disk_full"), "{status}: {text}");
        (status != 200).then_some(status)
    })
    .await;
    assert_eq!(status, 507);
    assert!(cluster.process(WRITER).is_running());
    let shards = cluster.get(WRITER, "/v1/shards").await;
    assert_eq!(shards["shards"].as_array().unwrap().len(), 2, "reads go on: {shards}");
    assert!(cluster.count(None).await <= 200, "what was refused is not there");
    mount.free();
    checker.acknowledged(&deliver(&http, &cluster.url(WRITER), &refused).await);
    cluster.ready_role(WRITER).await;
    let checked = checker.check(&cluster).await;
    assert_eq!(checked.acknowledged, 2_200);
    cluster.kill();
    drop(mount);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_on_a_full_disk_answers_and_catches_up_when_space_returns() {
    let test = "a_replica_on_a_full_disk_answers_and_catches_up_when_space_returns";
    let Some((mut cluster, mount)) = on_small_disk(test, "replica").await else { return };
    let (http, mut checker) = (reqwest::Client::new(), Checker::default());
    let before = checker.batch(1, 200);
    checker.acknowledged(&deliver(&http, &cluster.url(WRITER), &before).await);
    let token = cluster.flush().await;
    assert_eq!(cluster.count(Some(&token)).await, 200);
    mount.fill(0);
    let more = checker.batch(2, 5_000);
    checker.acknowledged(&deliver(&http, &cluster.url(WRITER), &more).await);
    cluster.flush().await;
    assert_eq!(cluster.get(SHIPPER, "/v1/status").await["lag_rows"], 0);
    until("the replica says that it cannot", || async {
        cluster.count(None).await;
        let log = cluster.output(REPLICA);
        (log.contains("No space left") || log.contains("space")).then_some(())
    })
    .await;
    let (status, answer) = cluster.sql_at("select count(*) from events", None).await;
    assert!(status == 200 || answer["code"] == "segment_unavailable", "{status}: {answer}");
    mount.free();
    let checked = checker.check(&cluster).await;
    assert_eq!(checked.acknowledged, 5_200);
    cluster.kill();
    drop(mount);
}
