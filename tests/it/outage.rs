//! The store goes away under load and comes back: nothing is lost, nobody lies, nobody storms.

use std::time::Duration;

use sealcast_faults::{Network, Proxy};
use sealcast_tests::{
    Checker, Cluster, Load, REPLICA, Roles, SHIPPER, Seaweed, number, rclone, run_with, sealcast,
    until, weed,
};

/// Attempts a second that both clients of the store may make together while it is away.
const ATTEMPTS_A_SECOND: u64 = 4;
/// What they may make at once when it goes away: connections that were open, a burst of retries.
const ATTEMPTS_AT_ONCE: u64 = 40;

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_cut_off_or_silent_costs_nothing_but_time() {
    let test = "a_store_that_is_cut_off_or_silent_costs_nothing_but_time";
    let Some(weed) = weed(test) else { return };
    let server = Seaweed::start(&weed).await;
    let proxy = Proxy::start(server.address()).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut env = server.env_at(proxy.address());
    env.push(("SEALCAST_WRITER_SEAL_AGE_MS".to_owned(), "300".to_owned()));
    let cluster = Cluster::start_on(Roles::Apart, dir, server.url(), env).await;
    let outage = number("SEALCAST_OUTAGE_SECONDS", 4);
    let mut checker = Checker::default();
    for (round, network) in [Network::Cut, Network::Silent].into_iter().enumerate() {
        let load = Load::start(&cluster, checker, 1, round as u64);
        until("clients get on", || async { (load.count().await > 50).then_some(()) }).await;
        load.keep_checkpoints(&cluster).await;
        proxy.set(network);
        let (before, acknowledged) = (proxy.connections(), load.count().await);
        let mut lags = Vec::new();
        for _ in 0..outage {
            tokio::time::sleep(Duration::from_secs(1)).await;
            lags.push(cluster.get(SHIPPER, "/v1/status").await["lag_ms"].as_u64());
        }
        let attempts = proxy.connections() - before;
        println!("{network:?} for {outage} s: {attempts} connections, shipper's lag {lags:?}");
        assert!(attempts <= ATTEMPTS_AT_ONCE + ATTEMPTS_A_SECOND * outage, "{attempts}");
        assert!(load.count().await > acknowledged, "the writer needs no store");
        // What is sealed since waits for as long as the store is away, but for the first seal.
        let lag = lags.last().copied().flatten();
        assert!(lag.is_some_and(|lag| lag >= outage.saturating_sub(2) * 1_000), "{lags:?}");
        assert_replica_is_honest(&cluster, outage).await;
        proxy.set(Network::Good);
        checker = load.stop().await;
        until("the shipper recovers by itself", || async {
            let status = cluster.get(SHIPPER, "/v1/status").await;
            (status["lag_rows"] == 0).then_some(())
        })
        .await;
        checker.check(&cluster).await;
    }
}

/// Its answers are complete for what it has, and say that it has not been told of anything newer;
/// after `max_staleness_ms` only to those who accept that.
async fn assert_replica_is_honest(cluster: &Cluster, outage: u64) {
    let sql = "select%20count(*)%20from%20events";
    let url = format!("{}/v1/sql?q={sql}&allow_stale=true", cluster.url(REPLICA));
    let answer = reqwest::get(url).await.unwrap();
    assert_eq!(answer.status(), 200);
    let lag = answer.headers()["sealcast-lag-ms"].to_str().unwrap();
    let honest =
        lag == "unknown" || lag.parse::<u64>().unwrap() >= outage.saturating_sub(2) * 1_000;
    assert!(honest, "lag {lag} after {outage} s");
}

#[tokio::test(flavor = "multi_thread")]
async fn rclone_which_ignores_conditions_is_refused_with_the_reason() {
    let test = "rclone_which_ignores_conditions_is_refused_with_the_reason";
    let Some(rclone) = rclone(test) else { return };
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("s3/bucket")).unwrap();
    let address = format!("127.0.0.1:{}", sealcast_tests::free_port());
    let served = dir.path().join("s3").display().to_string();
    let args = ["serve", "s3", "--addr", &address, "--auth-key", "key,secret", &served];
    let log = dir.path().join("rclone.log");
    let _server = sealcast_tests::Process::start(&rclone, &args, &log, &[]);
    until("rclone listens", || async { tokio::net::TcpStream::connect(&address).await.ok() }).await;
    let endpoint = format!("http://{address}");
    let env = [
        ("AWS_ACCESS_KEY_ID", "key"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("AWS_REGION", "us-east-1"),
        ("AWS_ENDPOINT", endpoint.as_str()),
        ("AWS_ALLOW_HTTP", "true"),
    ];
    let cluster = Cluster::start(Roles::Apart).await;
    let mut cluster = cluster;
    cluster.kill_role(SHIPPER);
    let writer = format!("--dir={}", cluster.path("writer").display());
    let args = [writer.as_str(), "--store=s3://bucket/cluster", "--http=127.0.0.1:0", "--once"];
    let refused = run_with(&sealcast("sealcast-shipper"), &args, &env).await;
    let said = [refused.stdout, refused.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(!refused.status.success(), "{said}");
    assert!(said.contains("fencing") && said.contains("external"), "{said}");
}
