//! A folder that is another copy than the one that was signed does not start; a signer that is
//! away delays seals and nothing else; one that refuses stops its shard.

use std::io;
use std::path::Path;

use sealcast_common::integrity::{
    Checkpoint, CompactRange, Keyring, Note, RunningSigner, SignedFile, SignedState, SignerServer,
    leaf_hash, own_uid,
};
use tempfile::TempDir;

use super::support::{
    PlannedFiles, Writer, config, copy_dir, event, files_under, refused_start, refused_start_with,
    sealed_rows, write,
};
use crate::disk::files_in;
use crate::{Config, Discord, Seams, SignerAt};

const BEHIND: (&str, Discord) = ("signed_size", Discord::Behind);

fn copy(dir: &Path) -> TempDir {
    let copied = tempfile::tempdir().unwrap();
    copy_dir(dir, copied.path());
    copied
}

/// Runs a writer for one sealed event.
async fn seal_one(config: Config, action: &str) {
    let writer = Writer::start_with(config, Seams::default()).await.unwrap();
    writer.post_json(&event("acme", action)).await.json();
    writer.flush("").await.json();
    writer.stop().await.unwrap();
}

/// What the signers of a folder remember.
fn memories(dir: &Path) -> Vec<std::path::PathBuf> {
    let all = files_in(&dir.join("keys")).unwrap().into_iter();
    all.filter(|(name, _)| name.ends_with(".signed")).map(|(_, path)| path).collect()
}

/// A folder of one shard with one sealed event, a copy of it, and one more in the first.
async fn gone_on() -> (TempDir, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    seal_one(config(dir.path()), "one").await;
    let old = copy(dir.path());
    seal_one(config(dir.path()), "two").await;
    (dir, old)
}

fn swap_memory(from: &Path, to: &Path) {
    let [memory] = memories(from).try_into().unwrap();
    write(&to.join(memory.strip_prefix(from).unwrap()), &std::fs::read(&memory).unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn another_copy_than_the_one_that_was_signed_is_refused() {
    let (new, old) = gone_on().await;
    let newest = copy(new.path());
    let [memory] = memories(new.path()).try_into().unwrap();
    let good = std::fs::read(&memory).unwrap();
    // Old data, new memory; new data, old memory.
    swap_memory(old.path(), newest.path());
    assert_eq!(refused_start(newest.path()).await, ("signed_state", Discord::Ahead));
    swap_memory(new.path(), old.path());
    assert_eq!(refused_start(old.path()).await, BEHIND);
    // No memory at all.
    std::fs::remove_file(&memory).unwrap();
    assert_eq!(refused_start(new.path()).await, ("signed_state", Discord::Missing));
    // One flipped bit of it is no reason to guess.
    let mut damaged = good.clone();
    damaged[30] ^= 1;
    write(&memory, &damaged);
    let writer = Writer::start(new.path()).await;
    assert_eq!(writer.corrupt_shard().await.check, "signed_state");
    assert!(writer.stop().await.is_err());
    write(&memory, &good);
    Writer::start(new.path()).await.stop().await.unwrap();
    assert_eq!(sealed_rows(new.path()).len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_histories_of_one_size_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    Writer::start(dir.path()).await.stop().await.unwrap();
    let clone = copy(dir.path());
    seal_one(config(dir.path()), "one").await;
    seal_one(config(clone.path()), "another").await;
    swap_memory(clone.path(), dir.path());
    assert_eq!(refused_start(dir.path()).await, ("signed_state", Discord::OtherRoot));
    // The same where the rows are in the log only.
    let tail = tempfile::tempdir().unwrap();
    let writer = Writer::start(tail.path()).await;
    writer.post_json(&event("acme", "tail")).await.json();
    let crashed = copy(tail.path());
    writer.stop().await.unwrap();
    let [memory] = memories(tail.path()).try_into().unwrap();
    let origin = format!("test/{}", memory.file_stem().unwrap().to_str().unwrap());
    let mut range = CompactRange::empty(0);
    range.append(leaf_hash(b"other"));
    let foreign = SignedFile::new(&origin, &SignedState::of(&range).unwrap());
    let place = crashed.path().join(memory.strip_prefix(tail.path()).unwrap());
    write(&place, &sealcast_common::checked::to_text(&foreign));
    assert_eq!(refused_start(crashed.path()).await, ("signed_state", Discord::OtherRoot));
}

/// A signer of its own in `dir`, and a writer's settings that use it.
fn apart(dir: &Path) -> RunningSigner {
    let keyring = Keyring::open(&dir.join("signer"), true, Seams::default()).unwrap();
    let server = SignerServer::bind(keyring, &dir.join("socket"), vec![own_uid()]);
    server.unwrap().start().unwrap()
}

fn with_signer(data: &Path, dir: &Path) -> Config {
    Config { signer: SignerAt::Unix(dir.join("socket")), ..config(data) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_between_signing_and_publishing_signs_the_same_again() {
    let signers = tempfile::tempdir().unwrap();
    let _signer = apart(signers.path());
    for local in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let settings =
            || if local { config(dir.path()) } else { with_signer(dir.path(), signers.path()) };
        let files = PlannedFiles::new(|operation: &str, path: &Path| {
            let publishes = operation == "rename" && path.to_string_lossy().ends_with(".seg");
            publishes.then(|| io::Error::other("killed"))
        });
        let writer = Writer::start_with(settings(), files.seams()).await.unwrap();
        writer.post_json(&event("acme", "one")).await.json();
        assert_eq!(writer.flush("").await.status, 503);
        assert!(writer.stop().await.is_err());
        let [signed] = files_under(&dir.path().join("sealed"), ".note").try_into().unwrap();
        let signed = Note::parse(&std::fs::read_to_string(signed).unwrap()).unwrap();
        let writer = Writer::start_with(settings(), Seams::default()).await.unwrap();
        writer.post_json(&event("acme", "two")).await.json();
        writer.stop().await.unwrap();
        let notes = files_under(&dir.path().join("sealed"), ".note");
        let again = Note::parse(&std::fs::read_to_string(&notes[0]).unwrap()).unwrap();
        assert_eq!(again, signed, "one size, one root, one signature");
        assert_eq!(Checkpoint::parse(&again.text).unwrap().size, 1);
        assert_eq!(sealed_rows(dir.path()).len(), 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signer_that_is_away_delays_seals_and_nothing_else() {
    let (dir, signers) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let signer = apart(signers.path());
    let settings = || with_signer(dir.path(), signers.path());
    let writer = Writer::start_with(settings(), Seams::default()).await.unwrap();
    writer.post_json(&event("acme", "one")).await.json();
    drop(signer);
    assert_eq!(writer.flush("").await.code(), (503, "seal_overdue".into()));
    let ready = writer.get("/readyz").await;
    assert!(ready.status == 200 && ready.text.contains("signer is unavailable"), "{}", ready.text);
    assert_eq!(writer.post_json(&event("acme", "two")).await.status, 200);
    assert!(files_under(&dir.path().join("sealed"), ".note").is_empty());
    let signer = apart(signers.path());
    writer.flush_until_sealed().await;
    assert!(!writer.get("/readyz").await.text.contains("signer"));
    // A backup of the data under a signer that has gone on.
    let old = copy(dir.path());
    writer.post_json(&event("acme", "three")).await.json();
    writer.stop().await.unwrap();
    assert_eq!(sealed_rows(dir.path()).len(), 3);
    assert!(memories(dir.path()).is_empty() && !dir.path().join("keys/0000.key").exists());
    let restored = with_signer(old.path(), signers.path());
    assert_eq!(refused_start_with(restored).await, BEHIND);
    // Nobody to ask: the writer does not start.
    drop(signer);
    let refused = Writer::start_with(settings(), Seams::default()).await;
    assert!(refused.is_err_and(|error| error.hint().is_some_and(|hint| hint.contains("signer"))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signer_that_refuses_stops_its_shard() {
    let (dir, signers) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let _signer = apart(signers.path());
    let first = Writer::start_with(with_signer(dir.path(), signers.path()), Seams::default());
    first.await.unwrap().stop().await.unwrap();
    let clone = copy(dir.path());
    let writer = Writer::start_with(with_signer(dir.path(), signers.path()), Seams::default());
    let writer = writer.await.unwrap();
    writer.post_json(&event("acme", "one")).await.json();
    // Meanwhile the clone has other rows signed.
    seal_one(with_signer(clone.path(), signers.path()), "another").await;
    let refused = writer.flush("").await;
    assert_eq!(refused.code(), (503, "shard_poisoned".into()), "{}", refused.text);
    let ready = writer.get("/readyz").await;
    assert!(ready.status == 503 && ready.text.contains("two histories"), "{}", ready.text);
    assert!(files_under(&dir.path().join("sealed"), ".note").is_empty(), "nothing was signed");
    assert!(writer.stop().await.is_err());
    let again = with_signer(dir.path(), signers.path());
    assert_eq!(refused_start_with(again).await, ("signed_state", Discord::OtherRoot));
}
