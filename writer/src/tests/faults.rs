//! Disks that fail at one step: nothing is acknowledged that is not durable, nothing signed that
//! is not verified, and the next start goes on.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, RwLock};

use tokio::sync::{mpsc, watch};

use super::support::{
    PlannedFiles, Writer, config, copy_dir, event, files_under, logs, refused_start, sealed_rows,
};
use crate::handle::{Busy, QueueBounds, ShardHandle, ShardView};
use crate::window::Window;
use crate::{Discord, RecoveryError, RunError, StartError};

/// Fails `operation` on files whose names end so, once armed.
fn armed(
    operation: &'static str,
    ending: &'static str,
    kind: io::ErrorKind,
) -> (PlannedFiles, Arc<AtomicBool>) {
    let arm = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&arm);
    let files = PlannedFiles::new(move |asked: &str, path: &Path| {
        let hit = asked == operation && path.to_string_lossy().ends_with(ending);
        (hit && seen.load(Ordering::SeqCst)).then(|| io::Error::new(kind, "planned"))
    });
    (files, arm)
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_failed_sync_the_log_is_read_again_and_writes_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let (files, arm) = armed("sync", ".wal", io::ErrorKind::Other);
    let writer = Writer::start_with(config(dir.path()), files.seams()).await.unwrap();
    let first = writer.post_json(&event("acme", "before")).await.json();
    arm.store(true, Ordering::SeqCst);
    let failed = writer.post_json(&event("acme", "during")).await;
    assert_eq!(failed.code(), (503, "shard_suspended".into()));
    assert!(failed.json()["cause"].as_str().unwrap().contains("planned"));
    let ready = writer.get("/readyz").await;
    assert!(ready.status == 503 && ready.text.contains("suspended"), "{}", ready.text);
    let shard = first["events"][0]["shard"].as_u64().unwrap() as usize;
    let status = writer.get("/v1/shards").await.json()["shards"][shard].clone();
    assert_eq!((status["state"].as_str(), status["size"].as_u64()), (Some("suspended"), Some(1)));
    assert_eq!(writer.flush("").await.code(), (503, "shard_suspended".into()));
    arm.store(false, Ordering::SeqCst);
    let after = writer.post_until_stored(&event("acme", "after")).await.json();
    assert_eq!(after["events"][0]["seq"], 1);
    assert_eq!(writer.get("/readyz").await.status, 200);
    writer.stop().await.unwrap();
    // Who was told that nothing is acknowledged may send it again: it is not there.
    let mut actions: Vec<String> =
        sealed_rows(dir.path()).into_iter().map(|row| row.action).collect();
    actions.sort();
    assert_eq!(actions, ["after", "before"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_lost_acknowledged_events_is_not_opened_again() {
    let dir = tempfile::tempdir().unwrap();
    let (files, arm) = armed("append", ".wal", io::ErrorKind::Other);
    let writer = Writer::start_with(config(dir.path()), files.seams()).await.unwrap();
    writer.post_json(&event("acme", "one")).await.json();
    writer.post_json(&event("acme", "two")).await.json();
    let [log] = logs(dir.path()).try_into().unwrap();
    let good = std::fs::read(&log).unwrap();
    super::support::write(&log, &good[..good.len() - 1]);
    arm.store(true, Ordering::SeqCst);
    assert_eq!(writer.post_json(&event("acme", "three")).await.status, 503);
    arm.store(false, Ordering::SeqCst);
    let poisoned = async {
        while writer.post_json(&event("acme", "four")).await.code().1 != "shard_poisoned" {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), poisoned).await.unwrap();
    let problem = writer.post_json(&event("acme", "four")).await.json();
    assert_eq!(problem["check"], "length");
    assert_eq!(problem["offset"].as_u64(), Some(good.len() as u64 - 1));
    assert!(matches!(writer.stop().await, Err(RunError::Faulty { .. })));
    assert_eq!(std::fs::read(&log).unwrap(), good[..good.len() - 1], "nothing was cut");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_says_so_and_writes_come_back_by_themselves() {
    let dir = tempfile::tempdir().unwrap();
    let full = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&full);
    // Only the shard that is written to first runs out of space, and then whatever it tries.
    let files = PlannedFiles::new(move |asked: &str, path: &Path| {
        let hit = ["append", "write"].contains(&asked) && seen.load(Ordering::SeqCst);
        let own = path.parent().is_some_and(|dir| dir.ends_with(ACME_SHARD));
        (hit && own).then(|| io::Error::new(io::ErrorKind::StorageFull, "planned"))
    });
    let writer = Writer::start_with(config(dir.path()), files.seams()).await.unwrap();
    let first = writer.post_json(&event("acme", "a")).await.json();
    assert_eq!(format!("{:04x}", first["events"][0]["shard"].as_u64().unwrap()), ACME_SHARD);
    full.store(true, Ordering::SeqCst);
    let refused = writer.post_json(&event("acme", "b")).await;
    assert_eq!(refused.code(), (507, "disk_full".into()));
    assert!(refused.json()["hint"].as_str().unwrap().contains("free space"));
    assert!(!refused.header("retry-after").is_empty());
    let mut statuses = Vec::new();
    for tenant in ["globex", "initech", "umbrella", "hooli", "stark"] {
        statuses.push(writer.post_json(&event(tenant, "b")).await.status);
    }
    assert!(statuses.contains(&200) && statuses.contains(&507), "{statuses:?}");
    assert_eq!(writer.get("/v1/shards").await.status, 200);
    assert_eq!(writer.flush("").await.code(), (507, "disk_full".into()));
    full.store(false, Ordering::SeqCst);
    writer.post_until_stored(&event("acme", "c")).await;
    writer.flush("").await.json();
    writer.stop().await.unwrap();
    let stored = statuses.iter().filter(|status| **status == 200).count();
    assert_eq!(sealed_rows(dir.path()).len(), 2 + stored);
}

/// The shard of tenant `acme` in the cluster `test`.
const ACME_SHARD: &str = "0001";

#[tokio::test(flavor = "multi_thread")]
async fn a_start_on_a_full_disk_waits_for_space() {
    let dir = tempfile::tempdir().unwrap();
    let writer = Writer::start(dir.path()).await;
    writer.post_json(&event("acme", "a")).await.json();
    let crashed = tempfile::tempdir().unwrap();
    copy_dir(dir.path(), crashed.path());
    writer.stop().await.unwrap();
    let (files, full) = armed("write", ".tmp", io::ErrorKind::StorageFull);
    full.store(true, Ordering::SeqCst);
    let writer = Writer::start_with(config(crashed.path()), files.seams()).await.unwrap();
    assert_eq!(writer.post_json(&event("acme", "b")).await.code(), (507, "disk_full".into()));
    full.store(false, Ordering::SeqCst);
    writer.post_until_stored(&event("acme", "c")).await;
    writer.stop().await.unwrap();
    assert_eq!(sealed_rows(crashed.path()).len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_seal_that_breaks_at_any_step_is_made_again_while_events_come() {
    let steps = [
        ("write", ".seg.tmp", false),
        ("write", ".note.tmp", false),
        ("rename", ".note", false),
        // Signed, not published: the note must agree with what is sealed later.
        ("rename", ".seg", true),
    ];
    for (operation, ending, signed) in steps {
        let dir = tempfile::tempdir().unwrap();
        let (files, arm) = armed(operation, ending, io::ErrorKind::Other);
        let writer = Writer::start_with(config(dir.path()), files.seams()).await.unwrap();
        let first = writer.post_json(&event("acme", "a")).await.json();
        arm.store(true, Ordering::SeqCst);
        assert_eq!(writer.flush("").await.status, 503, "{operation} {ending}");
        let ready = writer.get("/readyz").await;
        assert!(ready.status == 200 && ready.text.contains("not sealed"), "{}", ready.text);
        assert_eq!(writer.post_json(&event("acme", "b")).await.status, 200);
        let killed = tempfile::tempdir().unwrap();
        copy_dir(dir.path(), killed.path());
        assert_eq!(logs(dir.path()).len(), 2, "{operation} {ending}: the log is kept");
        let notes = files_under(&dir.path().join("sealed"), ".note");
        assert_eq!(notes.len(), usize::from(signed), "{operation} {ending}");
        arm.store(false, Ordering::SeqCst);
        assert_eq!(writer.flush("").await.status, 200, "{operation} {ending}");
        writer.stop().await.unwrap();
        Writer::start(killed.path()).await.stop().await.unwrap();
        for dir in [dir.path(), killed.path()] {
            let mut rows = sealed_rows(dir);
            rows.sort_by_key(|row| row.seq);
            assert_eq!(rows.len(), 2, "{operation} {ending}");
            assert_eq!(rows[0].event_id, first["events"][0]["event_id"].as_str().unwrap());
            assert!(logs(dir).is_empty());
            let files = files_under(&dir.join("sealed"), "");
            assert_eq!(files.len(), 4, "two segments, two notes: {files:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tail_that_cannot_be_sealed_ends_at_its_bound() {
    let dir = tempfile::tempdir().unwrap();
    let (files, arm) = armed("write", ".seg.tmp", io::ErrorKind::Other);
    let config = crate::Config { seal_bytes: 4 * 1024, ..config(dir.path()) };
    let writer = Writer::start_with(config, files.seams()).await.unwrap();
    arm.store(true, Ordering::SeqCst);
    let mut stored = 0;
    let overdue = async {
        loop {
            let answer = writer.post_json(&event("acme", "a")).await;
            match answer.status {
                200 => stored += 1,
                _ => return answer,
            }
        }
    };
    let overdue = tokio::time::timeout(std::time::Duration::from_secs(60), overdue).await.unwrap();
    assert_eq!(overdue.code(), (503, "seal_overdue".into()));
    assert!(!overdue.header("retry-after").is_empty());
    assert_eq!(writer.get("/readyz").await.status, 503);
    arm.store(false, Ordering::SeqCst);
    writer.post_until_stored(&event("acme", "b")).await;
    assert_eq!(writer.get("/readyz").await.status, 200);
    writer.stop().await.unwrap();
    assert_eq!(sealed_rows(dir.path()).len(), stored + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_seal_that_panics_is_not_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let tries = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&tries);
    let files = PlannedFiles::new(move |asked: &str, path: &Path| {
        let hit = asked == "write" && path.to_string_lossy().ends_with(".note.tmp");
        match hit.then(|| seen.fetch_add(1, Ordering::SeqCst)) {
            None => None,
            Some(0) => Some(io::Error::other("planned")),
            Some(_) => panic!("planned"),
        }
    });
    let writer = Writer::start_with(config(dir.path()), files.seams()).await.unwrap();
    writer.post_json(&event("acme", "a")).await.json();
    assert_eq!(writer.flush("").await.code(), (503, "shard_suspended".into()));
    for _ in 0..3 {
        assert_eq!(writer.flush("").await.code(), (503, "shard_poisoned".into()));
    }
    assert!(matches!(writer.stop().await, Err(RunError::Faulty { .. })));
    assert_eq!(tries.load(Ordering::SeqCst), 2);
    Writer::start(dir.path()).await.stop().await.unwrap();
    assert_eq!(sealed_rows(dir.path()).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_outlived_its_seal_is_compared_and_removed() {
    let dir = tempfile::tempdir().unwrap();
    let (files, arm) = armed("remove", ".wal", io::ErrorKind::Other);
    let writer = Writer::start_with(config(dir.path()), files.seams()).await.unwrap();
    writer.post_json(&event("acme", "a")).await.json();
    arm.store(true, Ordering::SeqCst);
    assert_eq!(writer.flush("").await.status, 200);
    writer.stop().await.unwrap();
    assert_eq!(logs(dir.path()).len(), 1);
    Writer::start(dir.path()).await.stop().await.unwrap();
    assert!(logs(dir.path()).is_empty());
    assert_eq!(sealed_rows(dir.path()).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_changes_under_the_sealer_is_never_signed() {
    let dir = tempfile::tempdir().unwrap();
    // The note is written after the file was judged: damage it between write and judgement by
    // cutting the temporary file as soon as it exists.
    let files = PlannedFiles::new(|_, _| None);
    let damaging = super::support::DamagedSeals(files);
    let seams = crate::Seams { files: Arc::new(damaging), ..crate::Seams::default() };
    let writer = Writer::start_with(config(dir.path()), seams).await.unwrap();
    writer.post_json(&event("acme", "a")).await.json();
    let refused = writer.flush("").await;
    assert_eq!(refused.code(), (503, "shard_poisoned".into()));
    let _poisoned = writer.stop().await;
    assert!(files_under(&dir.path().join("sealed"), ".note").is_empty());
    assert!(files_under(&dir.path().join("sealed"), ".seg").is_empty());
    Writer::start(dir.path()).await.stop().await.unwrap();
    assert_eq!(sealed_rows(dir.path()).len(), 1);
}

#[tokio::test]
async fn a_full_queue_refuses_before_anything_is_written() {
    let (sender, _queue) = mpsc::channel(2);
    let (_view, watched) = watch::channel(ShardView::default());
    let window = Arc::new(RwLock::new(Window::default()));
    let names = (3, "c/0003".to_owned(), "key".to_owned());
    let bounds = QueueBounds { requests: 2, bytes: 100 };
    let handle = ShardHandle::new(names, window, watched, sender, bounds);
    let first = handle.reserve(90).unwrap();
    assert_eq!(handle.reserve(11).unwrap_err(), Busy::Bytes(3, 100));
    let second = handle.reserve(10).unwrap();
    assert_eq!(handle.reserve(0).unwrap_err(), Busy::Requests(3, 2));
    drop((first, second));
    // What is larger than the bound goes alone: it would wait for ever.
    let large = handle.reserve(1_000).unwrap();
    assert_eq!(handle.reserve(1).unwrap_err(), Busy::Bytes(3, 100));
    drop(large);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_writer_left_unsynced_is_made_durable_before_it_counts() {
    let dir = tempfile::tempdir().unwrap();
    let writer = Writer::start(dir.path()).await;
    writer.post_json(&event("acme", "a")).await.json();
    let crashed = tempfile::tempdir().unwrap();
    copy_dir(dir.path(), crashed.path());
    writer.stop().await.unwrap();
    // Without the new copy of the log there is no start: a retry would be answered from it.
    let (files, arm) = armed("write", ".wal.tmp", io::ErrorKind::Other);
    arm.store(true, Ordering::SeqCst);
    let refused = Writer::start_with(config(crashed.path()), files.seams()).await;
    assert!(matches!(refused, Err(StartError::Shard { source: RecoveryError::Io { .. }, .. })));
    let before = std::fs::read(&logs(crashed.path())[0]).unwrap();
    let writer = Writer::start(crashed.path()).await;
    assert_eq!(std::fs::read(&logs(crashed.path())[0]).unwrap(), before);
    writer.stop().await.unwrap();
    assert_eq!(sealed_rows(crashed.path()).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_signed_by_a_start_that_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let writer = Writer::start(dir.path()).await;
    writer.post_json(&event("acme", "a")).await.json();
    let behind = tempfile::tempdir().unwrap();
    copy_dir(dir.path(), behind.path());
    writer.post_json(&event("acme", "b")).await.json();
    writer.flush("").await.json();
    writer.stop().await.unwrap();
    // The copy has a log that is to be sealed again.
    let (files, arm) = armed("write", ".seg.tmp", io::ErrorKind::Other);
    let writer = Writer::start_with(config(behind.path()), files.seams()).await.unwrap();
    arm.store(true, Ordering::SeqCst);
    assert_eq!(writer.flush("").await.status, 503);
    let _poisoned = writer.stop().await;
    // Of what was signed after the copy, one note is left: size 2, data for 1.
    let note = &files_under(&dir.path().join("sealed"), ".note")[0];
    let copy = behind.path().join(note.strip_prefix(dir.path()).unwrap());
    super::support::write(&copy, &std::fs::read(note).unwrap());
    assert_eq!(refused_start(behind.path()).await, ("signed_state", Discord::Missing));
    copy_dir(&dir.path().join("keys"), &behind.path().join("keys"));
    assert_eq!(refused_start(behind.path()).await, ("signed_size", Discord::Behind));
    assert_eq!(files_under(&behind.path().join("sealed"), ""), [copy]);
    assert_eq!(logs(behind.path()).len(), 1, "the log with the row is untouched");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_start_that_breaks_at_its_last_step_can_be_repeated() {
    let dir = tempfile::tempdir().unwrap();
    // The names are invented anew by each first start.
    let unnamed = || crate::Config { cluster: None, ..config(dir.path()) };
    let (files, arm) = armed("write", "node.json.tmp", io::ErrorKind::StorageFull);
    arm.store(true, Ordering::SeqCst);
    assert!(Writer::start_with(unnamed(), files.seams()).await.is_err());
    let writer = Writer::start_with(unnamed(), crate::Seams::default()).await.unwrap();
    writer.post_json(&event("acme", "a")).await.json();
    writer.stop().await.unwrap();
    Writer::start_with(unnamed(), crate::Seams::default()).await.unwrap().stop().await.unwrap();
}
