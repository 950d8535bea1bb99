//! The whole path on a real S3 server.

use sealcast_tests::{Cluster, Process, Roles, Seaweed, sealcast, weed};

#[tokio::test(flavor = "multi_thread")]
async fn events_reach_sql_through_s3_and_the_bucket_verifies() {
    let Some(weed) = weed("events_reach_sql_through_s3_and_the_bucket_verifies") else { return };
    let server = Seaweed::start(&weed).await;
    let dir = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::start_on(Roles::Apart, dir, server.url(), server.env()).await;
    for batch in 0..5 {
        let line = |i| format!(r#"{{"tenant":"t{}","action":"write","message":"{batch}"}}"#, i % 3);
        let ndjson = (0..200).map(line).collect::<Vec<_>>().join("\n");
        assert_eq!(cluster.post(ndjson).await.status(), 200);
        let token = cluster.flush().await;
        assert_eq!(cluster.count(Some(&token)).await, (batch + 1) * 200);
    }
    let env = server.env();
    let env: Vec<(&str, &str)> = env.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    let log = cluster.path("verify.log");
    let mut verify = Process::start(&sealcast("sealcast"), &["verify", &server.url()], &log, &env);
    let status = verify.ended().await;
    assert!(status.success(), "{}", verify.output());
    assert!(verify.output().contains("1000 rows"), "{}", verify.output());
    cluster.terminate().await;
}
