//! Starting and refusing to start: locks, settings, a writer that is late.

use std::os::unix::fs::PermissionsExt as _;

use sealcast_common::durable::{Durable as _, RealFiles};
use tokio_util::sync::CancellationToken;

use super::sealed::SealedDir;
use super::stores::folder;
use super::{config, once, started, until};
use crate::{Config, Ended, Seams, StartError, start, start_with_store};

#[tokio::test(flavor = "multi_thread")]
async fn one_shipper_works_on_a_directory() {
    let (_folder, store) = folder();
    let sealed = SealedDir::new(1);
    let (handle, stop) = started(config(&sealed), &store).await;
    let second = start_with_store(
        config(&sealed),
        Seams::default(),
        store.clone(),
        CancellationToken::new(),
    );
    assert!(matches!(second.await.unwrap_err(), StartError::Locked { .. }));
    stop.cancel();
    assert_eq!(handle.join().await.unwrap(), Ended::Stopped);
    started(config(&sealed), &store).await.1.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn it_waits_for_a_writer_and_its_key_is_private() {
    let (_folder, store) = folder();
    let mut sealed = SealedDir::new(1);
    let node = std::fs::read(sealed.dir.node_file()).unwrap();
    RealFiles.remove(&sealed.dir.node_file()).unwrap();
    let missing = once(&sealed, &store).await.unwrap_err().to_string();
    assert!(missing.contains("node.json") && missing.contains("start a writer"), "{missing}");
    let (handle, stop) = started(config(&sealed), &store).await;
    until("waiting", || handle.health.reasons().contains_key("writer")).await;
    RealFiles.replace(&sealed.dir.node_file(), &node).unwrap();
    sealed.seal(0, 5);
    until("shipped", || handle.status().shards.first().is_some_and(|s| s.shipped == 5)).await;
    let key = std::fs::metadata(sealed.dir.ship_key_file()).unwrap();
    assert_eq!(key.permissions().mode() & 0o777, 0o600);
    stop.cancel();
    handle.join().await.unwrap();
}

#[tokio::test]
async fn settings_out_of_range_are_refused() {
    let sealed = SealedDir::new(1);
    let store = sealed.root().join("store").display().to_string();
    let base = Config { store, ..config(&sealed) };
    for (wrong, word) in [
        (Config { commit_adds: 0, ..base.clone() }, "commit_adds"),
        (Config { scan_ms: 1, ..base.clone() }, "scan_ms"),
        (Config { flush_every_ms: Some(1_000), ..base.clone() }, "writer"),
        (Config { writer: Some("localhost".into()), ..base.clone() }, "http://"),
        (Config { store: "ftp://x".into(), ..base.clone() }, "s3://"),
    ] {
        let error = start(wrong, Seams::default(), CancellationToken::new()).await.unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
    }
}
