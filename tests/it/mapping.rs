//! Somebody shortens a file under a running replica: the process lives, no wrong row is served.

use sealcast_tests::{Checker, Cluster, REPLICA, Roles, WRITER, deliver, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_truncated_file_fails_its_query_by_name_and_is_fetched_again() {
    let mut cluster = Cluster::start(Roles::Apart).await;
    let mut checker = Checker::default();
    let batch = checker.batch(1, 10_000);
    let http = reqwest::Client::new();
    checker.acknowledged(&deliver(&http, &cluster.url(WRITER), &batch).await);
    let token = cluster.flush().await;
    let sql = "select count(distinct message) from events where message like 'event%'";
    assert_eq!(cluster.rows(sql, Some(&token)).await[0][0], 10_000);
    let segments = cluster.files("replica", ".seg");
    assert_eq!(segments.len(), 2, "{segments:?}");
    for segment in &segments {
        let mut permissions = std::fs::metadata(segment).unwrap().permissions();
        #[expect(clippy::permissions_set_readonly_false, reason = "a test's own temporary file")]
        permissions.set_readonly(false);
        std::fs::set_permissions(segment, permissions).unwrap();
        std::fs::File::options().write(true).open(segment).unwrap().set_len(4_096).unwrap();
    }
    until("the answer is right again", || async {
        let (status, answer) = cluster.sql_at(sql, None).await;
        if status == 200 {
            assert_eq!(answer["rows"][0][0], 10_000, "a wrong answer: {answer}");
            return Some(());
        }
        let code = answer["code"].as_str().unwrap_or_default();
        assert!(["segment_unavailable", "segment_corrupt"].contains(&code), "{status}: {answer}");
        assert!(answer["segment"].is_string() || answer["shard"].is_number(), "{answer}");
        None
    })
    .await;
    assert!(cluster.process(REPLICA).is_running());
    checker.check(&cluster).await;
}
