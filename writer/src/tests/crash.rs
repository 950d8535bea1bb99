//! Power fails after any durable operation, or any one of them fails once: every acknowledged
//! event is there exactly once, and the next start verifies.

use std::collections::{BTreeMap, HashSet};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sealcast_common::durable::Durable;
use sealcast_faults::{FaultyFiles, FileFault, FileOp, Loss, Recording, When};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinSet;

use super::support::{Writer, config, files_under, sealed_rows};
use crate::{Config, Seams};

/// In memory where there is such a folder: hundreds of starts, each with its syncs.
fn scratch() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap()
}

fn one_shard(dir: &Path) -> Config {
    Config { shards: Some(1), node: Some("n".into()), ..config(dir) }
}

async fn started(dir: &Path, files: Arc<dyn Durable>) -> Writer {
    let seams = || Seams { files: Arc::clone(&files), ..Seams::default() };
    // One operation fails once: the second start is the supervisor's.
    match Writer::start_with(one_shard(dir), seams()).await {
        Ok(writer) => writer,
        Err(_) => Writer::start_with(one_shard(dir), seams()).await.unwrap(),
    }
}

fn named(id: u32) -> Value {
    let id = uuid::Uuid::from_u128(u128::from(id)).to_string();
    json!({ "tenant": "acme", "action": "a", "event_id": id })
}

/// What was acknowledged, with how much had been done on disk by then.
type Acked = Vec<(String, usize)>;

/// Appends alone and together, a key whose events are all repeats, two seals, a restart.
async fn play(dir: &Path, files: Arc<dyn Durable>, done: impl Fn() -> usize) -> Acked {
    let mut acked = Acked::new();
    let mut take = |answer: super::support::Answer| {
        let events = answer.json()["events"].as_array().unwrap().clone();
        acked.extend(events.iter().map(|e| (e["event_id"].as_str().unwrap().to_owned(), done())));
    };
    let writer = started(dir, Arc::clone(&files)).await;
    take(writer.post_until_stored(&named(1)).await);
    take(writer.post_until_stored(&json!([named(2), named(3)])).await);
    writer.flush_until_sealed().await;
    take(writer.keyed_until_stored("k", &json!([named(4), named(5)])).await);
    take(writer.keyed_until_stored("repeats", &json!([named(1), named(4)])).await);
    take(writer.post_until_stored(&named(6)).await);
    let _whatever = writer.stop().await;
    let writer = started(dir, files).await;
    take(writer.post_until_stored(&named(7)).await);
    let _whatever = writer.stop().await;
    acked
}

/// Starts on what is left, seals it, and compares it with what was acknowledged.
async fn check(dir: &Path, acked: Vec<String>, what: &str) {
    for key in files_under_keys(dir) {
        std::fs::set_permissions(key, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    let writer = Writer::start_with(one_shard(dir), Seams::default()).await;
    let writer = writer.unwrap_or_else(|error| panic!("{what}: {error}"));
    writer.stop().await.unwrap_or_else(|error| panic!("{what}: {error}"));
    let mut stored: BTreeMap<String, usize> = BTreeMap::new();
    for row in sealed_rows(dir) {
        *stored.entry(row.event_id).or_default() += 1;
    }
    assert!(stored.values().all(|count| *count == 1), "{what}: doubled: {stored:?}");
    for id in acked {
        assert!(stored.contains_key(&id), "{what}: {id} is lost: {stored:?}");
    }
    assert!(files_under(&dir.join("sealed"), ".tmp").is_empty(), "{what}: leftovers");
}

fn files_under_keys(dir: &Path) -> Vec<PathBuf> {
    let Ok(keys) = std::fs::read_dir(dir.join("keys")) else { return Vec::new() };
    keys.map(|key| key.unwrap().path())
        .filter(|key| key.extension() == Some("key".as_ref()))
        .collect()
}

/// Everything below a folder.
fn state(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = PathBuf::from(path.file_name().unwrap());
        if path.is_dir() {
            found.insert(name.clone(), Vec::new());
            found.extend(state(&path).into_iter().map(|(below, bytes)| (name.join(below), bytes)));
        } else {
            found.insert(name, std::fs::read(&path).unwrap());
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn every_prefix_of_what_was_done_recovers() {
    let dir = scratch();
    let recording = Recording::of(dir.path());
    let seen = recording.clone();
    let acked = play(dir.path(), Arc::new(recording.files()), move || seen.len()).await;
    assert_eq!(acked.len(), 9);
    let mut checks = JoinSet::new();
    let mut seen = HashSet::new();
    for prefix in 0..=recording.len() {
        let promised: Vec<String> =
            acked.iter().filter(|(_, done)| *done <= prefix).map(|(id, _)| id.clone()).collect();
        for loss in [Loss::Process, Loss::Everything, Loss::Torn, Loss::Zeros] {
            let left = scratch();
            recording.replay(prefix, loss, left.path()).unwrap();
            // Most losses leave the same: each state is judged once for each promise.
            if !seen.insert((state(left.path()), promised.len())) {
                continue;
            }
            if checks.len() >= 16 {
                checks.join_next().await.unwrap().unwrap();
            }
            let what = format!("{loss:?} after {prefix} ({})", recording.describe(prefix));
            let promised = promised.clone();
            checks.spawn(async move { check(left.path(), promised, &what).await });
        }
    }
    while let Some(check) = checks.join_next().await {
        check.unwrap();
    }
}

/// What can go wrong with an operation, beyond the plain refusal.
fn faults(op: FileOp) -> Vec<FileFault> {
    let lost_answer = FileFault::Error(5, When::After);
    match op {
        FileOp::Append | FileOp::Write => vec![FileFault::BROKEN, lost_answer, FileFault::FULL],
        FileOp::Sync | FileOp::Rename => vec![FileFault::BROKEN, lost_answer],
        _ => vec![FileFault::BROKEN],
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn any_operation_may_fail_once() {
    let dir = scratch();
    let files = FaultyFiles::default();
    play(dir.path(), Arc::new(files.clone()), || 0).await;
    let calls = files.calls();
    assert!(calls.len() > 30, "{} operations", calls.len());
    let mut runs = JoinSet::new();
    for (number, call) in calls.into_iter().enumerate() {
        for fault in faults(call.op) {
            if runs.len() >= 32 {
                runs.join_next().await.unwrap().unwrap();
            }
            runs.spawn(async move {
                let (dir, files) = (scratch(), FaultyFiles::default());
                files.fail_nth(number, fault);
                let acked = play(dir.path(), Arc::new(files.clone()), || 0).await;
                let call = files.calls().into_iter().nth(number);
                let what = format!("{fault:?} at {call:?}");
                assert!(call.is_some(), "{what}: no operation {number}");
                check(dir.path(), acked.into_iter().map(|(id, _)| id).collect(), &what).await;
            });
        }
    }
    while let Some(run) = runs.join_next().await {
        run.unwrap();
    }
}
