//! Two shippers, one stream: whoever is overtaken ends with 75, and the log stays one lineage.

use sealcast_common::durable::{Durable as _, RealFiles};
use sealcast_tests::{
    Checker, Cluster, Process, Roles, SHIPPER, Seaweed, WRITER, copy_dir, deliver, sealcast, until,
    weed,
};

/// `EX_TEMPFAIL`: a supervisor may start it again.
const FENCED: Option<i32> = Some(75);

/// What a shipper logs once the stream is its own.
const OWNED: &str = "stream claimed";

async fn send(cluster: &Cluster, checker: &mut Checker, events: u64) {
    let batch = checker.batch(1, events);
    let answer = deliver(&reqwest::Client::new(), &cluster.url(WRITER), &batch).await;
    checker.acknowledged(&answer);
}

/// Seals what was sent.
async fn seal(cluster: &Cluster) {
    let url = format!("{}/v1/admin/flush?wait=sealed", cluster.url(WRITER));
    let flushed = reqwest::Client::new().post(url).send().await.unwrap();
    assert!(flushed.status().is_success(), "{flushed:?}");
}

/// A shipper on a copy of the writer's folder: a cloned disk, past the folder's own lock.
fn other_shipper(cluster: &Cluster, name: &str) -> Process {
    let copy = cluster.path(name);
    copy_dir(&cluster.path("writer"), &copy);
    let (program, args) = cluster.command(SHIPPER);
    let args = args.into_iter().map(|arg| match arg.split_once('=') {
        Some(("--dir", _)) => format!("--dir={}", copy.display()),
        Some(("--http", _)) => "--http=127.0.0.1:0".to_owned(),
        _ => arg,
    });
    let args: Vec<String> = args.collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let log = cluster.path(&format!("{name}.log"));
    Process::start(&sealcast(program), &args, &log, &cluster.env())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shipper_that_was_stopped_and_overtaken_is_fenced() {
    // A stopped shipper's connection looks alive: only its own probe shows the replica more.
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("config.toml");
    RealFiles.replace(&config, b"[replica]\nhinted_poll_ms = 1000\n").unwrap();
    let env = vec![("SEALCAST_CONFIG".to_owned(), config.display().to_string())];
    let store = dir.path().join("store").display().to_string();
    let mut cluster = Cluster::start_on(Roles::Apart, dir, store, env).await;
    let mut checker = Checker::default();
    send(&cluster, &mut checker, 50).await;
    cluster.flush().await;
    let epoch = cluster.get(SHIPPER, "/v1/status").await["epoch"].as_u64().unwrap();
    cluster.process(SHIPPER).signal("STOP");
    send(&cluster, &mut checker, 50).await;
    seal(&cluster).await;
    let other = other_shipper(&cluster, "overtaker");
    let size = checker.count() as u64;
    until("the other shipper has shipped", || async {
        let shipped = other.output().contains("committed");
        let on_replica = cluster.count(None).await;
        (shipped || on_replica == size).then_some(())
    })
    .await;
    until("the replica has all of it", || async {
        (cluster.count(None).await == size).then_some(())
    })
    .await;
    // New work makes the stopped one commit as soon as it wakes up.
    send(&cluster, &mut checker, 50).await;
    seal(&cluster).await;
    cluster.process(SHIPPER).signal("CONT");
    let ended = cluster.process(SHIPPER).ended().await;
    assert_eq!(ended.code(), FENCED, "{}", cluster.logs());
    other.kill();
    cluster.start_role(SHIPPER);
    cluster.ready_role(SHIPPER).await;
    let checked = checker.check(&cluster).await;
    assert_eq!(checked.acknowledged, 150);
    let status = cluster.get(SHIPPER, "/v1/status").await;
    assert_eq!(status["epoch"].as_u64().unwrap(), epoch + 2, "{status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_shippers_racing_on_s3_make_one_lineage() {
    let test = "two_shippers_racing_on_s3_make_one_lineage";
    let Some(weed) = weed(test) else { return };
    let server = Seaweed::start(&weed).await;
    let dir = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::start_on(Roles::Apart, dir, server.url(), server.env()).await;
    let mut checker = Checker::default();
    for round in 0..3 {
        cluster.kill_role(SHIPPER);
        send(&cluster, &mut checker, 20).await;
        seal(&cluster).await;
        let names = ["left", "right"].map(|side| format!("{side}{round}"));
        let mut rivals = names.each_ref().map(|name| other_shipper(&cluster, name));
        for rival in &rivals {
            until("both have claimed", || async { rival.output().contains(OWNED).then_some(()) })
                .await;
        }
        // The later claim has fenced the earlier one, which learns of it when it next commits.
        send(&cluster, &mut checker, 20).await;
        seal(&cluster).await;
        for name in &names {
            copy_dir(&cluster.path("writer/sealed"), &cluster.path(name).join("sealed"));
        }
        let loser = until("one of two has lost", || {
            let ended = rivals.iter_mut().position(|rival| !rival.is_running());
            async move { ended }
        })
        .await;
        assert_eq!(rivals[loser].ended().await.code(), FENCED, "{}", rivals[loser].output());
        assert!(rivals[1 - loser].is_running(), "{}", rivals[1 - loser].output());
        drop(rivals);
        cluster.start_role(SHIPPER);
        cluster.ready_role(SHIPPER).await;
    }
    let checked = checker.check(&cluster).await;
    assert_eq!(checked.acknowledged, 120);
}
