//! One bad shard stops alone, says where and why, and goes on once it is repaired.

use sealcast_common::durable::{Durable as _, RealFiles};
use sealcast_common::integrity::{Checkpoint, LocalSigner, Note, Signer as _};

use super::sealed::{CLUSTER, SealedDir, flip};
use super::stores::folder;
use super::{config, folded, once, started, until};
use crate::{Ended, FaultKind, ShardFault};

async fn fault_of_once(sealed: &SealedDir, store: &sealcast_common::bucket::Store) -> String {
    let ended = once(sealed, store).await.unwrap();
    assert_eq!(ended.exit_code(), 1, "not everything was shipped");
    let Ended::Done(shipped) = ended else { panic!("{ended:?}") };
    shipped.blocked.into_values().next().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_byte_stops_its_shard_only_until_it_is_repaired() {
    let (_folder, store) = folder();
    let mut sealed = SealedDir::new(2);
    sealed.seal(0, 5);
    let bad = sealed.seal(0, 50);
    let good = std::fs::read(&bad).unwrap();
    sealed.seal(0, 5);
    sealed.seal(1, 5);
    flip(&bad);
    let (handle, stop) = started(config(&sealed), &store).await;
    until("a reason", || handle.health.reasons().contains_key("shard_0000")).await;
    until("the other shard", || handle.status().shards[1].shipped == 5).await;
    let shard = handle.status().shards[0].clone();
    assert_eq!((shard.shipped, shard.lag_rows), (5, 55));
    let ShardFault { kind, check, object, offset, .. } = shard.fault.unwrap();
    assert_eq!((kind, check.as_str()), (FaultKind::Corrupt, "crc32"));
    assert!(object.ends_with(bad.file_name().unwrap().to_str().unwrap()), "{object}");
    assert!(offset.is_some());
    assert!(handle.status().lag_ms.is_some_and(|lag| lag > 0));
    RealFiles.replace(&bad, &good).unwrap();
    until("repaired", || handle.status().lag_rows == Some(0)).await;
    until("ready", || handle.health.reasons().is_empty()).await;
    assert_eq!(handle.status().shards[0].fault, None);
    stop.cancel();
    handle.join().await.unwrap();
    let catalog = folded(&store).await;
    assert_eq!(catalog.vector().into_iter().collect::<Vec<_>>(), sealed.vector());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_history_that_differs_from_the_committed_one_is_a_fork() {
    let (_folder, store) = folder();
    let mut sealed = SealedDir::new(2);
    let mut restored = sealed.copy();
    sealed.seal(0, 5);
    sealed.seal(1, 5);
    once(&sealed, &store).await.unwrap();
    restored.seal_with(0, 5, "another.story");
    restored.seal_with(0, 5, "another.story");
    restored.seal(1, 5);
    restored.seal(1, 3);
    let reason = fault_of_once(&restored, &store).await;
    assert!(reason.contains("check fork") && reason.contains("as committed"), "{reason}");
    assert_eq!(folded(&store).await.vector().into_iter().collect::<Vec<_>>(), [(0, 5), (1, 8)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_files_for_one_range_are_not_chosen_from() {
    let (_folder, store) = folder();
    let mut sealed = SealedDir::new(1);
    let mut other = sealed.copy();
    sealed.seal(0, 5);
    let twin = other.seal_with(0, 5, "another.story");
    let target = sealed.dir.sealed_dir(0).join(twin.file_name().unwrap());
    RealFiles.write_new(&target, &std::fs::read(twin).unwrap()).unwrap();
    let reason = fault_of_once(&sealed, &store).await;
    assert!(reason.contains("two that overlap"), "{reason}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_file_in_the_middle_is_named() {
    let (_folder, store) = folder();
    let mut sealed = SealedDir::new(1);
    sealed.seal(0, 5);
    let lost = sealed.seal(0, 6);
    sealed.seal(0, 7);
    RealFiles.remove(&lost).unwrap();
    let reason = fault_of_once(&sealed, &store).await;
    assert!(reason.contains("check contiguity") && reason.contains("begins at 5"), "{reason}");
    assert_eq!(folded(&store).await.vector()[&0], 5, "what comes before the gap is shipped");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_note_by_another_key_or_about_another_tree_is_refused() {
    let (_folder, store) = folder();
    let mut sealed = SealedDir::new(1);
    let note_file = sealed.seal(0, 5).with_extension("note");
    let honest = std::fs::read_to_string(&note_file).unwrap();
    let text = Note::parse(&honest).unwrap().text;
    let mut checkpoint = Checkpoint::parse(&text).unwrap();
    checkpoint.root[0] ^= 1;
    let origin = format!("{CLUSTER}/0000");
    let stranger = LocalSigner::from_seed(origin.clone(), &[9; 32]);
    let owner = LocalSigner::from_seed(origin, &[0; 32]);
    for note in [Note::sign(text, &stranger), Note::sign(checkpoint.to_text(), &owner)] {
        RealFiles.replace(&note_file, note.unwrap().to_text().as_bytes()).unwrap();
        let reason = fault_of_once(&sealed, &store).await;
        assert!(reason.contains("check checkpoint_note"), "{reason}");
    }
    RealFiles.remove(&note_file).unwrap();
    let reason = fault_of_once(&sealed, &store).await;
    assert!(reason.contains(".note is corrupt (check read)"), "{reason}");
    RealFiles.replace(&note_file, honest.as_bytes()).unwrap();
    once(&sealed, &store).await.unwrap();
    assert_eq!(folded(&store).await.vector()[&0], 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_public_key_is_asked_for_and_a_changed_one_refused() {
    let (_folder, store) = folder();
    let mut sealed = SealedDir::new(1);
    sealed.seal(0, 5);
    RealFiles.remove(&sealed.dir.public_key_file(0)).unwrap();
    let reason = fault_of_once(&sealed, &store).await;
    assert!(reason.contains("0000.pub") && reason.contains("check shard_key"), "{reason}");
    sealed.write_key(0);
    once(&sealed, &store).await.unwrap();
    let key = sealcast_common::integrity::VerifyKey {
        name: format!("{CLUSTER}/0000"),
        public_key: [7; 32],
    };
    RealFiles.replace(&sealed.dir.public_key_file(0), key.to_text().as_bytes()).unwrap();
    sealed.seal(0, 5);
    let reason = fault_of_once(&sealed, &store).await;
    assert!(reason.contains("check shard_key"), "{reason}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repaired_key_lets_a_refused_segment_go_on() {
    let (_folder, store) = folder();
    let mut sealed = SealedDir::new(1);
    sealed.seal(0, 5);
    let key = sealcast_common::integrity::VerifyKey {
        name: format!("{CLUSTER}/0000"),
        public_key: LocalSigner::from_seed("x", &[7; 32]).public_key(),
    };
    RealFiles.replace(&sealed.dir.public_key_file(0), key.to_text().as_bytes()).unwrap();
    let (handle, stop) = started(crate::Config { scan_ms: 20, ..config(&sealed) }, &store).await;
    until("a reason", || handle.health.reasons().contains_key("shard_0000")).await;
    sealed.write_key(0);
    until("shipped", || handle.status().lag_rows == Some(0)).await;
    stop.cancel();
    handle.join().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_in_the_sealed_directory_is_not_followed() {
    let (_folder, store) = folder();
    let mut sealed = SealedDir::new(2);
    let file = sealed.seal(0, 5);
    sealed.seal(1, 5);
    let aside = sealed.root().join("aside");
    RealFiles.rename(&file, &aside).unwrap();
    std::os::unix::fs::symlink(&aside, &file).unwrap();
    let reason = fault_of_once(&sealed, &store).await;
    assert!(reason.contains("check read") && reason.contains("no regular file"), "{reason}");
    assert_eq!(folded(&store).await.vector().into_iter().collect::<Vec<_>>(), [(1, 5)]);
}
