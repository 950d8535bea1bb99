//! Each role as its own process, meeting the others by files, objects and HTTP alone.

use sealcast_tests::{Cluster, Process, Roles, sealcast};

fn events(from: u64, count: u64) -> String {
    let line = |i| format!(r#"{{"tenant":"t{}","action":"read","message":"{i}"}}"#, i % 7);
    (from..from + count).map(line).collect::<Vec<_>>().join("\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn three_processes_carry_events_from_http_to_sql() {
    let cluster = Cluster::start(Roles::Apart).await;
    assert_eq!(cluster.post(events(0, 500)).await.status(), 200);
    let token = cluster.flush().await;
    assert_eq!(cluster.count(Some(&token)).await, 500);
    for role in 0..3 {
        for probe in ["livez", "readyz", "metrics"] {
            let answer = reqwest::get(format!("{}/{probe}", cluster.url(role))).await.unwrap();
            assert_eq!(answer.status(), 200, "{role} {probe}");
        }
        let unknown = reqwest::get(format!("{}/v1/nothing", cluster.url(role))).await.unwrap();
        assert_eq!(unknown.status(), 404);
        let kind = unknown.headers()["content-type"].to_str().unwrap();
        assert_eq!(kind, "application/problem+json");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_seals_what_was_acknowledged_and_a_restart_serves_it() {
    let mut cluster = Cluster::start(Roles::Apart).await;
    assert_eq!(cluster.post(events(0, 300)).await.status(), 200);
    cluster.terminate().await;
    assert!(!cluster.files("writer/sealed", ".seg").is_empty(), "nothing sealed at SIGTERM");
    cluster.resume().await;
    let token = cluster.flush().await;
    assert_eq!(cluster.count(Some(&token)).await, 300);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_writer_or_shipper_on_one_folder_is_refused() {
    let cluster = Cluster::start(Roles::Apart).await;
    let dir = cluster.path("writer").display().to_string();
    for (program, args) in [
        ("sealcast-writer", vec!["--dir", &dir, "--http", "127.0.0.1:0"]),
        (
            "sealcast-shipper",
            vec!["--dir", &dir, "--store", &cluster.store, "--http", "127.0.0.1:0"],
        ),
    ] {
        let log = cluster.path("second.log");
        let mut second = Process::start(&sealcast(program), &args, &log, &[]);
        let status = second.ended().await;
        assert!(!status.success(), "{program}");
        assert!(second.output().contains("writer"), "{}", second.output());
    }
}
