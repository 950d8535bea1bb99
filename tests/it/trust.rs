//! A replica that has trusted a store is shown another one in its place.

use std::path::Path;

use sealcast_common::durable::{Durable as _, RealFiles};
use sealcast_tests::{Cluster, REPLICA, Roles, SHIPPER, copy_dir, run, sealcast, until};
use serde_json::Value;

fn events(from: u64, count: u64) -> String {
    let event =
        |n: u64| format!("{{\"tenant\":\"t{}\",\"action\":\"a\",\"actor_id\":\"{n}\"}}\n", n % 3);
    (from..from + count).map(event).collect()
}

/// A gauge without labels.
async fn gauge(cluster: &Cluster, role: usize, name: &str) -> Option<f64> {
    let text =
        reqwest::get(format!("{}/metrics", cluster.url(role))).await.ok()?.text().await.ok()?;
    let line = text.lines().find(|line| line.split(' ').next() == Some(name))?;
    line.rsplit(' ').next()?.parse().ok()
}

/// Events that the replica has read in full, in an epoch that it trusts.
async fn anchored(cluster: &Cluster, from: u64, count: u64) {
    assert_eq!(cluster.post(events(from, count)).await.status(), 200);
    let token = cluster.flush().await;
    let read = cluster.rows("select count(distinct actor_id) from events", Some(&token)).await;
    assert_eq!(read[0][0], from + count);
    until("the replica trusts the newest epoch", || async {
        let told = gauge(cluster, SHIPPER, "sealcast_shipper_cluster_epoch").await?;
        let trusted = gauge(cluster, REPLICA, "sealcast_replica_trust_epoch").await?;
        let waits = gauge(cluster, REPLICA, "sealcast_replica_trust_unanchored_seconds").await?;
        (told >= 1.0 && trusted >= told && waits == 0.0).then_some(())
    })
    .await;
}

async fn cluster() -> Cluster {
    let dir = tempfile::tempdir().unwrap();
    let (config, store) = (dir.path().join("sealcast.toml"), dir.path().join("store"));
    let text = "[replica]\npoll_min_ms = 10\npoll_max_ms = 50\n";
    RealFiles.write_new(&config, text.as_bytes()).unwrap();
    let env = vec![
        ("SEALCAST_CONFIG".to_owned(), config.display().to_string()),
        ("SEALCAST_SHIPPER_CLUSTER_EVERY_MS".to_owned(), "50".to_owned()),
    ];
    Cluster::start_on(Roles::Apart, dir, store.display().to_string(), env).await
}

/// Puts another store in the place of the cluster's, and keeps that one.
fn swap(cluster: &Cluster, other: &Path, kept: &Path) {
    RealFiles.rename(&cluster.path("store"), kept).unwrap();
    RealFiles.rename(other, &cluster.path("store")).unwrap();
}

/// The replica alone, until it says what is wrong.
async fn refuses(cluster: &mut Cluster, check: &str) {
    cluster.start_role(REPLICA);
    let url = format!("{}/readyz", cluster.url(REPLICA));
    let reason = until(check, || async {
        let answer: Value = reqwest::get(&url).await.ok()?.json().await.ok()?;
        Some(answer["reasons"]["trust_broken"].as_str()?.to_owned())
    });
    let reason = reason.await;
    assert!(reason.contains(check), "{reason}");
    assert_eq!(gauge(cluster, REPLICA, "sealcast_replica_trust_broken").await, Some(1.0));
    let lines = cluster.output(REPLICA);
    assert!(lines.contains("trust broken") && lines.contains(check), "{lines}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_copy_of_the_bucket_is_refused_and_what_was_trusted_is_served() {
    let mut cluster = cluster().await;
    anchored(&cluster, 0, 40).await;
    let notes = cluster.get(REPLICA, "/readyz").await["notes"].clone();
    assert!(notes["trust"].as_str().unwrap().contains("first use"), "{notes}");
    let (old, newest) = (cluster.path("old"), cluster.path("newest"));
    copy_dir(&cluster.path("store"), &old);
    anchored(&cluster, 40, 30).await;
    cluster.terminate().await;
    swap(&cluster, &old, &newest);
    for _life in 0..2 {
        refuses(&mut cluster, "cluster_rollback").await;
        let read = cluster.rows("select count(distinct actor_id) from events", None).await;
        assert_eq!(read[0][0], 70, "what was trusted is served");
        cluster.kill_role(REPLICA);
    }
    // The right one is back.
    swap(&cluster, &newest, &old);
    cluster.resume().await;
    anchored(&cluster, 70, 10).await;
    assert_eq!(gauge(&cluster, REPLICA, "sealcast_replica_trust_broken").await, Some(0.0));
    cluster.terminate().await;
    // A damaged memory is no reason to trust whatever is there.
    let file = cluster.path("replica/vault/trust.json");
    let mut text = std::fs::read(&file).unwrap();
    let middle = text.len() / 2;
    text[middle] ^= 1;
    RealFiles.write_new(&file, &text).unwrap();
    let (program, args) = cluster.command(REPLICA);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let ended = run(&sealcast(program), &args).await;
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(ended.status.code() == Some(1) && said.contains("trust_state"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_cluster_in_the_same_place_has_another_key() {
    let (mut ours, mut theirs) = (cluster().await, cluster().await);
    anchored(&ours, 0, 20).await;
    // Longer, made anew with keys of its own.
    let size = async |cluster| gauge(cluster, SHIPPER, "sealcast_shipper_cluster_size").await;
    let (mut rows, length) = (0, size(&ours).await);
    while size(&theirs).await <= length {
        anchored(&theirs, rows, 20).await;
        rows += 20;
    }
    ours.terminate().await;
    theirs.terminate().await;
    let kept = ours.path("kept");
    swap(&ours, &theirs.path("store"), &kept);
    refuses(&mut ours, "cluster_key").await;
    assert_eq!(ours.count(None).await, 20);
    let evidence = ours.files("replica/vault", ".json");
    let named = |path: &std::path::PathBuf| path.to_string_lossy().contains("fork-evidence-");
    assert!(evidence.iter().any(named), "{evidence:?}");
    ours.terminate().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn beyond_loopback_somebody_must_have_decided_whom_to_trust() {
    let dir = tempfile::tempdir().unwrap();
    let place = |name: &str| dir.path().join(name).display().to_string();
    let (folder, store) =
        (format!("--dir={}", place("node")), format!("--store={}", place("store")));
    let args = [folder.as_str(), store.as_str(), "--http=0.0.0.0:0"];
    let ended = run(&sealcast("sealcast-replica"), &args).await;
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("trust_on_first_use = true"), "{said}");
    let policy = format!("--policy={}", place("none.txt"));
    let ended = run(
        &sealcast("sealcast-replica"),
        &[folder.as_str(), store.as_str(), "--http=127.0.0.1:0", policy.as_str()],
    )
    .await;
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(ended.status.code() == Some(1) && said.contains("none.txt"), "{said}");
}
