//! One flipped byte in every kind of file and object: found by a named check, never served.

use std::path::{Path, PathBuf};

use sealcast_common::durable::{Durable as _, RealFiles};
use sealcast_tests::{Cluster, Roles, files_under, run, said, sealcast, until};
use serde_json::Value;

fn flip(path: &Path, at: impl Fn(usize) -> usize) -> usize {
    let mut bytes = std::fs::read(path).unwrap();
    let at = at(bytes.len());
    bytes[at] ^= 0x20;
    let mut permissions = std::fs::metadata(path).unwrap().permissions();
    #[expect(clippy::permissions_set_readonly_false, reason = "a test's own temporary file")]
    permissions.set_readonly(false);
    std::fs::set_permissions(path, permissions).unwrap();
    #[expect(clippy::disallowed_methods, reason = "damage needs no durability")]
    std::fs::write(path, bytes).unwrap();
    at
}

/// The verdict; of every damaged file the evidence is kept as it is.
async fn verify(target: &Path) -> (Option<i32>, Value) {
    let (dir, target) = (tempfile::tempdir().unwrap(), target.display().to_string());
    let folder = dir.path().join("evidence");
    let args = ["verify", &target, "--json", "--evidence", &folder.display().to_string()];
    let verified = run(&sealcast("sealcast"), &args).await;
    let report: Value = serde_json::from_slice(&verified.stdout).unwrap();
    assert_eq!(folder.join("report.json").exists(), report["verdict"] == "tampered");
    for found in report["findings"].as_array().unwrap() {
        let object = found["object"].as_str().unwrap();
        let name = object.strip_prefix(&format!("{target}/")).unwrap_or(object);
        let original = Path::new(&target).join(name);
        if original.is_file() {
            let kept = std::fs::read(folder.join("objects").join(name)).unwrap();
            assert_eq!(kept, std::fs::read(original).unwrap(), "{object}");
        }
    }
    (verified.status.code(), report)
}

/// The only finding: check, object, offset.
fn finding(report: &Value) -> (String, String, Option<u64>) {
    let findings = report["findings"].as_array().unwrap();
    assert_eq!(findings.len(), 1, "{report}");
    let text = |name: &str| findings[0][name].as_str().unwrap().to_owned();
    (text("check"), text("object"), findings[0]["offset"].as_u64())
}

async fn cluster_with(tenants: u64, rows: u64) -> Cluster {
    let cluster = Cluster::start(Roles::Apart).await;
    let line = |i| format!(r#"{{"tenant":"t{}","action":"read","message":"m{i}"}}"#, i % tenants);
    let ndjson = (0..rows).map(line).collect::<Vec<_>>().join("\n");
    assert_eq!(cluster.post(ndjson).await.status(), 200);
    cluster
}

fn only(files: Vec<PathBuf>) -> PathBuf {
    assert!(!files.is_empty());
    files.into_iter().max_by_key(|file| std::fs::metadata(file).unwrap().len()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_byte_in_the_log_stops_the_writer_and_cuts_nothing() {
    let mut cluster = cluster_with(20, 400).await;
    cluster.kill();
    let log = only(cluster.files("writer/wal", ".wal"));
    let before = std::fs::metadata(&log).unwrap().len();
    flip(&log, |len| len / 2);
    let (code, report) = verify(&cluster.path("writer")).await;
    assert_eq!(code, Some(1));
    let (check, object, offset) = finding(&report);
    assert_eq!(check, "wal_frame");
    assert!(object.ends_with(".wal") && offset.is_some(), "{report}");
    // One bad log stops one shard; with all of them bad there is nothing to serve.
    for other in cluster.files("writer/wal", ".wal").into_iter().filter(|other| *other != log) {
        flip(&other, |len| len / 2);
    }
    let dir = cluster.path("writer").display().to_string();
    let started =
        run(&sealcast("sealcast-writer"), &["--dir", &dir, "--http", "127.0.0.1:0"]).await;
    assert!(!started.status.success());
    let said = String::from_utf8_lossy(&started.stderr);
    assert!(said.contains("wal_frame") && said.contains(".wal"), "{said}");
    assert_eq!(std::fs::metadata(&log).unwrap().len(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_byte_in_a_sealed_file_is_not_shipped() {
    let mut cluster = cluster_with(20, 400).await;
    cluster.terminate().await;
    let segment = only(cluster.files("writer/sealed", ".seg"));
    flip(&segment, |len| len / 2);
    let (code, report) = verify(&cluster.path("writer")).await;
    assert_eq!(code, Some(1));
    let (check, object, offset) = finding(&report);
    assert_eq!(check, "crc32");
    assert!(object.ends_with(".seg") && offset.is_some(), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_byte_in_an_object_is_never_served_and_the_rest_goes_on() {
    let mut cluster = cluster_with(20, 400).await;
    let token = cluster.flush().await;
    let by_shard = "select _shard, count(*) from events group by 1 order by 1";
    let shards = cluster.rows(by_shard, Some(&token));
    let shards = shards.await;
    assert_eq!(shards.len(), 2, "20 tenants on 2 shards");
    cluster.terminate().await;
    let object = only(cluster.files("store/sh/0000", ".seg.zst"));
    flip(&object, |len| len / 3);
    // A replica without any copy of its own.
    std::fs::remove_dir_all(cluster.path("replica")).unwrap();
    cluster.start_processes();
    let (code, report) = verify(&cluster.path("store")).await;
    assert_eq!(code, Some(1));
    let (_, place, _) = finding(&report);
    assert!(place.ends_with(".seg.zst"), "{report}");
    let url = format!(
        "{}/v1/sql?q=select%20count(*)%20from%20events%20where%20_shard%3D1",
        cluster.url(2)
    );
    let healthy = until("the healthy shard is served", || async {
        let answer = reqwest::get(&url).await.ok()?;
        if answer.status() != 200 {
            return None;
        }
        let document: Value = answer.json().await.ok()?;
        let count = document["rows"][0][0].as_u64()?;
        (count > 0).then_some(count)
    })
    .await;
    assert_eq!(healthy, shards[1][1].as_u64().unwrap());
    let (status, problem) =
        cluster.sql_at("select message from events where _shard = 0", None).await;
    assert_eq!(status, 503, "{problem}");
    assert_eq!(problem["code"], "segment_unavailable", "{problem}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_byte_in_a_commit_record_is_named_and_nothing_after_it_is_taken() {
    let mut cluster = cluster_with(20, 400).await;
    cluster.flush().await;
    cluster.terminate().await;
    let records = cluster.files("store/st", "");
    let record = records.iter().find(|path| {
        path.to_string_lossy().contains("/log/0000000000000000000")
            && path.to_string_lossy().ends_with('2')
    });
    flip(record.unwrap(), |len| len / 2);
    let (code, report) = verify(&cluster.path("store")).await;
    assert_eq!(code, Some(1));
    let (check, object, _) = finding(&report);
    assert!(check.starts_with("commit") && object.contains("/log/"), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tiles_that_were_lost_or_damaged_are_made_again_from_the_rows() {
    let mut cluster = Cluster::start(Roles::Apart).await;
    let event = |n: usize| format!("{{\"tenant\":\"t{n}\",\"action\":\"a\"}}\n");
    assert_eq!(cluster.post((0..600).map(event).collect()).await.status(), 200);
    cluster.flush().await;
    cluster.terminate().await;
    let store = cluster.path("store").display().to_string();
    let [pack, cut, ..] = &cluster.files("store", ".pack")[..] else { panic!("two packs") };
    let checkpoint = files_under(&cluster.path("store/sh"), "")
        .into_iter()
        .find(|p| p.parent().unwrap().ends_with("ckpt"));
    let checkpoint = checkpoint.unwrap();
    let good = [pack, cut, &checkpoint].map(|path| std::fs::read(path).unwrap());
    std::fs::remove_file(pack).unwrap();
    RealFiles.replace(cut, &good[1][..good[1].len() / 2]).unwrap();
    RealFiles.replace(&checkpoint, b"no object").unwrap();
    assert_eq!(cluster.verify(&store).await.0, Some(1));
    let (code, text) = said(&["store", "mend", &store, "--dry-run"]).await;
    assert!(code == Some(1) && text.contains("3 differ") && !pack.exists(), "{text}");
    let (code, text) = said(&["store", "mend", &store]).await;
    assert!(code == Some(0) && text.contains("3 made again"), "{text}");
    assert!(text.contains("missing  ") && text.contains("damaged  "), "{text}");
    assert_eq!([pack, cut, &checkpoint].map(|path| std::fs::read(path).unwrap()), good);
    let (code, report) = cluster.verify(&store).await;
    assert_eq!(code, Some(0), "{report}");
    let (code, text) = said(&["store", "mend", &store]).await;
    assert!(code == Some(0) && text.contains("every one is what the rows give"), "{text}");
}
