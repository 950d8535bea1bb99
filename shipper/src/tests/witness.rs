//! A store that lost what was committed gets nothing more, and says so.

use std::path::Path;

use sealcast_common::durable::{Durable as _, RealFiles};

use super::sealed::SealedDir;
use super::stores::folder;
use super::{config, folded, once, started, until};

fn move_all(from: &Path, to: &Path) {
    RealFiles.create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        RealFiles.rename(&entry.path(), &to.join(entry.file_name())).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_committed_to_a_store_that_was_emptied() {
    let (folder, store) = folder();
    let mut sealed = SealedDir::new(1);
    sealed.seal(0, 5);
    let (handle, stop) = started(config(&sealed), &store).await;
    until("shipped", || handle.status().lag_rows == Some(0) && handle.status().seq == 2).await;
    super::cluster::anchored(&store).await;
    // As when a share is unmounted; what we have just put is not looked at for a second.
    let aside = tempfile::TempDir::new_in(folder.path().parent().unwrap()).unwrap();
    move_all(folder.path(), aside.path());
    tokio::time::sleep(std::time::Duration::from_millis(1_100)).await;
    sealed.seal(0, 6);
    until("a reason", || handle.health.reasons().contains_key("shipping")).await;
    let error = handle.status().last_error.unwrap();
    assert!(error.message.contains("check log_rollback"), "{error:?}");
    assert_eq!(handle.status().lag_rows, Some(6));
    assert_eq!(sealed.shipped().vector[&0], 5);
    let put = store.list_all("").await.unwrap();
    // The head of the commit before, which is put late, is no more than a hint.
    assert!(put.iter().all(|(key, _)| key.ends_with("/head")), "{put:?}");

    std::fs::remove_dir_all(folder.path()).unwrap();
    move_all(aside.path(), folder.path());
    until("mounted again", || handle.status().lag_rows == Some(0)).await;
    stop.cancel();
    handle.join().await.unwrap();
    assert_eq!(folded(&store).await.vector()[&0], 11);
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_restart_the_mark_remembers_how_far_the_log_went() {
    let (folder, store) = folder();
    let mut sealed = SealedDir::new(1);
    sealed.seal(0, 5);
    once(&sealed, &store).await.unwrap();
    let backup = tempfile::TempDir::new().unwrap();
    super::sealed::copy_tree(folder.path(), backup.path());
    sealed.seal(0, 6);
    once(&sealed, &store).await.unwrap();
    // The store's backup is put back: what it lacks was acknowledged.
    std::fs::remove_dir_all(folder.path()).unwrap();
    super::sealed::copy_tree(backup.path(), folder.path());
    sealed.seal(0, 7);
    let refused = once(&sealed, &store).await.unwrap_err().to_string();
    assert!(refused.contains("log_rollback") && refused.contains("shipped.json"), "{refused}");
    assert_eq!(folded(&store).await.vector()[&0], 5, "nothing was put");
    // The operator's word.
    RealFiles.remove(&sealed.dir.shipped_file()).unwrap();
    once(&sealed, &store).await.unwrap();
    assert_eq!(folded(&store).await.vector()[&0], 18);
}
