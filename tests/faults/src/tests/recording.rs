//! What a power loss leaves, prefix by prefix.

use std::path::Path;

use sealcast_common::durable::Durable as _;

use crate::{Loss, Recording, RecordingStore};

fn listed(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<String> = entries
        .flat_map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                let inside = listed(&path).into_iter().map(move |it| format!("{name}/{it}"));
                return inside.collect::<Vec<_>>();
            }
            vec![format!("{name}={}", String::from_utf8_lossy(&std::fs::read(path).unwrap()))]
        })
        .collect();
    found.sort();
    found
}

/// The replay of one prefix as `path=content`.
fn state(recording: &Recording, prefix: usize, loss: Loss) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    recording.replay(prefix, loss, dir.path()).unwrap();
    listed(dir.path())
}

#[test]
fn unsynced_bytes_and_unsynced_names_are_lost() {
    let dir = tempfile::tempdir().unwrap();
    let recording = Recording::of(dir.path());
    let files = recording.files();
    let path = |name: &str| dir.path().join(name);
    files.create_dir(&path("a")).unwrap();
    files.sync_dir(dir.path()).unwrap();
    let mut log = files.create_append(&path("a/log")).unwrap();
    log.append(b"12").unwrap();
    log.sync().unwrap();
    assert_eq!(state(&recording, 5, Loss::Everything), [""; 0], "the name was not synced");
    files.sync_dir(&path("a")).unwrap();
    log.append(b"3456").unwrap();
    let end = recording.len();
    assert_eq!(state(&recording, end, Loss::Everything), ["a/log=12"]);
    assert_eq!(state(&recording, end, Loss::Torn), ["a/log=1234"]);
    assert_eq!(state(&recording, end, Loss::Zeros), ["a/log=12\0\0\0\0"]);
    assert_eq!(state(&recording, end, Loss::Process), ["a/log=123456"]);
    assert_eq!(recording.describe(end), "append 4 to a/log");
    assert_eq!(listed(dir.path()), ["a/log=123456"]);
}

#[test]
fn replacing_is_all_or_nothing_and_removal_waits_for_the_folder() {
    let dir = tempfile::tempdir().unwrap();
    let recording = Recording::of(dir.path());
    let files = recording.files();
    let path = dir.path().join("file");
    files.replace(&path, b"old").unwrap();
    let old = recording.len();
    files.replace(&path, b"new").unwrap();
    let states: Vec<_> =
        (old..=recording.len()).map(|at| state(&recording, at, Loss::Everything)).collect();
    assert_eq!(states, [["file=old"], ["file=old"], ["file=old"], ["file=new"]]);
    files.remove(&path).unwrap();
    assert_eq!(state(&recording, recording.len(), Loss::Everything), ["file=new"]);
    assert_eq!(state(&recording, recording.len(), Loss::Process), [""; 0]);
    files.sync_dir(dir.path()).unwrap();
    assert_eq!(state(&recording, recording.len(), Loss::Everything), [""; 0]);
    files.write_new(Path::new("elsewhere"), b"").unwrap_err();
}

#[test]
fn a_refused_operation_is_not_recorded_and_cutting_is_durable() {
    let dir = tempfile::tempdir().unwrap();
    let recording = Recording::of(dir.path());
    let files = recording.files();
    let path = dir.path().join("log");
    files.write_new(&path, b"123456").unwrap();
    files.sync_dir(dir.path()).unwrap();
    files.create_append(&path).unwrap_err();
    files.open_append(&path, 2).unwrap();
    assert_eq!(recording.len(), 3);
    assert_eq!(state(&recording, 3, Loss::Everything), ["log=12"]);
}

#[tokio::test]
async fn objects_are_durable_when_they_are_answered() {
    let dir = tempfile::tempdir().unwrap();
    let recording = Recording::of(dir.path());
    let store = RecordingStore::open(&recording, "store");
    store.create("a/b", "1".into()).await.unwrap();
    store.create("a/b", "2".into()).await.unwrap();
    store.put("head", "3".into()).await.unwrap();
    store.put("head", "4".into()).await.unwrap();
    assert_eq!(recording.len(), 3);
    assert_eq!(state(&recording, 2, Loss::Everything), ["store/a/b=1", "store/head=3"]);
    assert_eq!(state(&recording, 3, Loss::Everything), ["store/a/b=1", "store/head=4"]);
}
