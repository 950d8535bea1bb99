//! Every way to take something away from a writer's folder or a store is noticed, by a named check.

use std::path::{Path, PathBuf};

use sealcast_common::catalog::names::STORE_KEY;
use sealcast_common::segment::SegmentName;
use sealcast_common::wal::{WalHeader, scan};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{Report, verify};

/// A folder with `writer` and `store`, made by the roles themselves: several segments of two
/// shards, all shipped.
async fn shipped() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let (stop_writer, stop_shipper) = (CancellationToken::new(), CancellationToken::new());
    let config = sealcast_writer::Config {
        dir: dir.path().join("writer"),
        http: "127.0.0.1:0".into(),
        ..sealcast_writer::Config::default()
    };
    let writer = sealcast_writer::start(config, Default::default(), stop_writer.clone());
    let writer = writer.await.unwrap();
    let config = sealcast_shipper::Config {
        dir: dir.path().join("writer"),
        store: dir.path().join("store").display().to_string(),
        http: "127.0.0.1:0".into(),
        snapshot_every: 3,
        cluster_every_ms: 1,
        ..sealcast_shipper::Config::default()
    };
    let shipper = sealcast_shipper::start(config, Default::default(), stop_shipper.clone());
    let shipper = shipper.await.unwrap();
    let url = format!("http://{}/v1", writer.http);
    let client = reqwest::Client::new();
    for _ in 0..4 {
        let events: Vec<_> =
            (0..40).map(|i| json!({"tenant": format!("t{}", i % 9), "action": "read"})).collect();
        let posted = client.post(format!("{url}/events")).json(&events).send().await.unwrap();
        assert_eq!(posted.status(), 200);
        let flush = client.post(format!("{url}/admin/flush?wait=shipped")).send().await.unwrap();
        assert_eq!(flush.json::<Value>().await.unwrap()["shipped"], true);
    }
    stop_writer.cancel();
    writer.join().await.unwrap();
    let store = dir.path().join("store").display().to_string();
    while verify(&store, &|_, _, _| {}).await.anchored_rows < 160 {
        tokio::task::yield_now().await;
    }
    stop_shipper.cancel();
    shipper.join().await.unwrap();
    dir
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Files below `folder` with this text in their path, in order.
fn files(folder: &Path, text: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_string_lossy().contains(text) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn remove_last(root: &Path, text: &str) {
    std::fs::remove_file(files(root, text).last().unwrap()).unwrap();
}

fn write(path: &Path, text: &str) {
    #[expect(clippy::disallowed_methods, reason = "damage needs no durability")]
    std::fs::write(path, text).unwrap();
}

/// Another value, by somebody who knows that there is a checksum.
fn edit(path: &Path, name: &str, value: Value) {
    let mut document: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    document.as_object_mut().unwrap().remove("crc32");
    document[name] = value;
    write(path, &document.to_string());
}

fn remove_folder(from: &Path) {
    std::fs::remove_dir_all(from).unwrap();
}

/// A copy of `base` after `damage`, verified at `target`.
async fn judged(base: &Path, target: &str, damage: impl FnOnce(&Path)) -> Report {
    let dir = tempfile::tempdir().unwrap();
    copy(base, dir.path());
    damage(dir.path());
    verify(&dir.path().join(target).display().to_string(), &|_, _, _| {}).await
}

type Damage = fn(&Path);

async fn found_each(base: &Path, cases: &[(&str, &str, Damage)]) {
    for (i, (target, check, damage)) in cases.iter().enumerate() {
        let report = judged(base, target, damage).await;
        let named = report.findings.iter().any(|found| found.check == *check);
        assert!(named && report.exit_code() == 1, "case {i}, {check} of {target:?}: {report:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_whole_is_ok_and_harmless_leftovers_stay_so() {
    let base = shipped().await;
    let untouched: Damage = |_| {};
    let leftovers: Damage = |root| {
        write(&files(root, "/sealed/0000/")[0].with_file_name("seg.tmp"), "x");
        write(&root.join("store/st/lost+found"), "x");
        std::fs::remove_file(root.join("writer/shipped.json")).unwrap();
        files(root, "/head").iter().for_each(|head| std::fs::remove_file(head).unwrap());
    };
    for (target, damage) in
        [("", untouched), ("writer", untouched), ("store", untouched), ("", leftovers)]
    {
        let report = judged(base.path(), target, damage).await;
        assert_eq!(report.exit_code(), 0, "{target:?}: {report:?}");
        assert!(report.segments >= 8, "{report:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_lost_something_is_tampered_with() {
    let base = shipped().await;
    let cases: &[(&str, &str, Damage)] = &[
        ("store", "object", |root| remove_last(root, ".seg.zst")),
        ("store", "head", |root| remove_last(root, "/log/")),
        ("store", "commit_missing", |root| {
            remove_last(root, "/log/");
            remove_last(root, "/head");
        }),
        ("store", "commit_missing", |root| {
            std::fs::remove_file(&files(&root.join("store/st"), "/log/")[2]).unwrap()
        }),
        ("store", "commit_missing", |root| {
            files(root, "/store/st/").iter().for_each(|file| std::fs::remove_file(file).unwrap());
        }),
        ("store", "commit_missing", |root| remove_folder(&root.join("store/st"))),
        ("", "commit_missing", |root| remove_folder(&root.join("store/st"))),
        ("store", "store_file", |root| {
            std::fs::remove_file(root.join("store").join(STORE_KEY)).unwrap()
        }),
        ("store", "store_file", |root| write(&root.join("store").join(STORE_KEY), "{")),
        ("store", "head", |root| {
            edit(&files(&root.join("store/st"), "/head")[0], "seq", 99.into())
        }),
        ("store", "head", |root| {
            edit(&files(&root.join("store/st"), "/head")[0], "hash", "00".into())
        }),
        ("store", "head", |root| remove_last(root, "/snap/")),
        ("store", "object", |root| remove_last(root, "/leaf/")),
        ("store", "object", |root| remove_last(root, ".pack")),
        ("store", "object", |root| remove_last(root, "/0001/ckpt/")),
        ("store", "cluster_missing", |root| remove_last(root, "/cluster/log/")),
        ("store", "cluster_missing", |root| {
            std::fs::remove_file(&files(root, "/cluster/log/")[0]).unwrap()
        }),
        ("store", "object", |root| remove_last(root, "/cluster/ckpt/")),
        ("", "cluster_missing", |root| remove_folder(&root.join("store/cluster"))),
        ("", "cluster_missing", |root| {
            // One alone may be what a crash kept back: its keeper publishes it at its next start.
            remove_last(root, "/cluster/ckpt/");
            remove_last(root, "/cluster/ckpt/");
            std::fs::remove_file(root.join("store/cluster/head")).unwrap();
        }),
        // A whole shard, or the end of one, with the end of the stream that tells of it.
        ("store", "cluster_stream", |root| {
            let stream = root.join("store/st");
            remove_last(&stream, "/log/");
            files(&stream, "/head").iter().for_each(|head| std::fs::remove_file(head).unwrap());
        }),
    ];
    found_each(base.path(), cases).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writers_folder_that_lost_something_is_tampered_with() {
    let base = shipped().await;
    let cases: &[(&str, &str, Damage)] = &[
        ("writer", "contiguity", |root| {
            std::fs::remove_file(&files(&root.join("writer"), ".seg")[1]).unwrap()
        }),
        ("writer", "contiguity", |root| remove_last(&root.join("writer"), ".seg")),
        ("writer", "signed_size", |root| {
            remove_last(&root.join("writer"), ".seg");
            let log = files(root, "/wal/0001/").remove(0);
            let header = scan(&std::fs::read(&log).unwrap()).unwrap().header;
            let left = files(&root.join("writer/sealed/0001"), ".seg");
            let name = left.last().unwrap().file_name().unwrap().to_str().unwrap();
            let start = SegmentName::parse(name).unwrap().end();
            let forged = log.with_file_name(format!("{start:016x}.wal"));
            std::fs::remove_file(log).unwrap();
            #[expect(clippy::disallowed_methods, reason = "damage needs no durability")]
            std::fs::write(forged, WalHeader { start, ..header }.to_bytes()).unwrap();
        }),
        ("writer", "sealed_missing", |root| remove_folder(&root.join("writer/sealed/0001"))),
        ("", "sealed_missing", |root| {
            remove_folder(&root.join("writer/sealed/0001"));
            std::fs::remove_file(root.join("writer/shipped.json")).unwrap();
        }),
        ("writer", "wal_missing", |root| remove_folder(&root.join("writer/wal"))),
        ("writer", "readable", |root| remove_last(root, ".note")),
        ("writer", "shard_key", |root| {
            let keys = files(root, ".pub");
            std::fs::copy(&keys[0], &keys[1]).unwrap();
        }),
        ("writer", "node_file", |root| edit(&root.join("writer/node.json"), "shards", 1.into())),
        ("writer", "node_file", |root| edit(&root.join("writer/node.json"), "shards", 0.into())),
        ("writer", "node_file", |root| write(&root.join("writer/node.json"), "{")),
        ("writer", "readable", |root| std::fs::remove_file(root.join("writer/node.json")).unwrap()),
        ("writer", "shipped_file", |root| edit(&root.join("writer/node.json"), "node", "x".into())),
        ("writer", "shipped_file", |root| write(&root.join("writer/shipped.json"), "no")),
        ("", "commit_missing", |root| edit(&root.join("writer/shipped.json"), "seq", 99.into())),
    ];
    found_each(base.path(), cases).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_a_pipe_and_an_endless_file_are_not_followed() {
    let base = shipped().await;
    let name = format!("{:016x}.{:08x}.{}.seg", 1u64 << 40, 1, "0".repeat(32));
    for kind in ["link", "endless"] {
        let report = judged(base.path(), "writer", |root| {
            let path = root.join("writer/sealed/0000").join(&name);
            if kind == "link" {
                std::os::unix::fs::symlink("/dev/zero", path).unwrap();
            } else {
                #[expect(clippy::disallowed_methods, reason = "a test's own file")]
                std::fs::File::create(path).unwrap().set_len(1 << 42).unwrap();
            }
        })
        .await;
        assert_eq!(report.findings[0].check, "readable", "{kind}: {report:?}");
    }
}
