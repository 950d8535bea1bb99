//! Restarts, damage, full disks: what was cosigned is never forgotten.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sealcast_common::durable::{Durable as _, RealFiles};
use sealcast_common::integrity::{CosignerKey, Note, origin_hash};
use sealcast_faults::{FaultyFiles, FileFault, FileOp, When};

use super::{Log, ORIGIN, Running, config, running};
use crate::{Config, Seams, StartError};

fn state(folder: &Path) -> PathBuf {
    folder.join("logs").join(format!("{}.note", origin_hash(ORIGIN)))
}

async fn refused(config: Config) -> StartError {
    match Running::start(config, Seams::default()).await {
        Err(error) => error,
        Ok(_) => panic!("it started"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_keeps_key_name_and_memory() {
    let (folder, log) = (tempfile::tempdir().unwrap(), Log::new());
    let witness = running(folder.path(), &[&log]).await;
    assert_eq!(witness.status(&log.request(0, 5)).await, 200);
    let key = witness.handle.key.clone();
    let locked = refused(config(folder.path(), &[&log])).await;
    assert!(matches!(locked, StartError::Locked { .. }), "{locked}");
    witness.stop().await;
    let mode = |name: &str| {
        std::fs::metadata(folder.path().join(name)).unwrap().permissions().mode() & 0o777
    };
    assert_eq!(mode("witness.key"), 0o600);
    let text = std::fs::read_to_string(folder.path().join("witness.pub")).unwrap();
    assert_eq!(CosignerKey::parse(&text), Ok(key.clone()));
    // The name is the folder's: not stated again, it holds; another one is refused.
    let unnamed = Config { name: None, ..config(folder.path(), &[&log]) };
    let witness = Running::start(unnamed, Seams::default()).await.unwrap();
    assert_eq!(witness.handle.key, key);
    assert_eq!(witness.status(&log.request(0, 9)).await, 409);
    assert_eq!(witness.status(&log.request(5, 9)).await, 200);
    witness.stop().await;
    let renamed = Config { name: Some("other".into()), ..config(folder.path(), &[&log]) };
    assert!(matches!(refused(renamed).await, StartError::Identity { .. }));
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_memory_never_begins_anew() {
    let (folder, log) = (tempfile::tempdir().unwrap(), Log::new());
    let witness = running(folder.path(), &[&log]).await;
    assert_eq!(witness.status(&log.request(0, 5)).await, 200);
    witness.stop().await;
    let good = std::fs::read(state(folder.path())).unwrap();
    let put = |bytes: &[u8]| RealFiles.replace(&state(folder.path()), bytes).unwrap();
    let flipped = |at: usize| {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        bytes
    };
    let size_at = ORIGIN.len() + 1;
    let log_signature_at = good.len() - 150;
    let unsigned = log.note(5).to_text().into_bytes();
    let damaged = [
        vec![],
        good[..good.len() - 9].to_vec(),
        flipped(0),
        flipped(size_at),
        flipped(log_signature_at),
        flipped(good.len() - 9),
        unsigned,
    ];
    for bytes in damaged {
        put(&bytes);
        let error = refused(config(folder.path(), &[&log])).await;
        let text = String::from_utf8_lossy(&bytes);
        assert!(matches!(error, StartError::Memory(_)), "{error} for {text}");
        assert!(error.to_string().contains("witness_state"), "{error}");
    }
    // The memory of one log under the name of another.
    put(&good);
    let other = folder.path().join("logs").join(format!("{}.note", origin_hash("example.com/x")));
    RealFiles.replace(&other, &good).unwrap();
    let error = refused(config(folder.path(), &[&log])).await;
    assert!(matches!(error, StartError::Memory(_)), "{error}");
    RealFiles.remove(&other).unwrap();
    let witness = running(folder.path(), &[&log]).await;
    assert_eq!(witness.status(&log.request(5, 6)).await, 200);
    witness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_remembered_is_not_cosigned() {
    let (folder, log) = (tempfile::tempdir().unwrap(), Log::new());
    let files = Arc::new(FaultyFiles::over(Arc::new(RealFiles)));
    let seams = Seams { files: files.clone(), ..Seams::default() };
    let witness = Running::start(config(folder.path(), &[&log]), seams).await.unwrap();
    assert_eq!(witness.status(&log.request(0, 5)).await, 200);
    let path = format!("{}/checkpoint", origin_hash(ORIGIN));
    let after = FileFault::Error(5, When::After);
    let faults = [
        (FileOp::Write, FileFault::FULL),
        (FileOp::Rename, FileFault::BROKEN),
        // The file may be the new one then: its cosignature was still given to nobody.
        (FileOp::Rename, after),
    ];
    for (op, fault) in faults {
        files.fail_always(fault, move |call| call.op == op);
        assert_eq!(witness.status(&log.request(5, 9)).await, 503);
        let (_, shown) = witness.get(&path).await;
        assert_eq!(Note::parse(&shown).unwrap().text, log.checkpoint(5).to_text());
    }
    files.heal();
    assert_eq!(witness.status(&log.request(5, 9)).await, 200);
    witness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn key_and_settings_are_looked_at_before_anything_is_served() {
    let (folder, log) = (tempfile::tempdir().unwrap(), Log::new());
    let fresh = config(folder.path(), &[&log]);
    let unnamed = refused(Config { name: None, ..fresh.clone() }).await;
    assert!(unnamed.to_string().contains("--name"), "{unnamed}");
    assert!(!folder.path().join("witness.key").exists());
    for name in ["", "a b", "a+b", "a\n"] {
        let error = refused(Config { name: Some(name.into()), ..fresh.clone() }).await;
        assert!(error.to_string().contains("witness.example/w1"), "{error}");
    }
    let nobody = refused(Config { known_log: vec![], ..fresh.clone() }).await;
    assert!(nobody.to_string().contains("no log is known"), "{nobody}");
    let nonsense = refused(Config { known_log: vec!["x".into()], ..fresh.clone() }).await;
    assert!(nonsense.to_string().contains("known_log"), "{nonsense}");
    // A policy file names logs too; it is a policy, so it says what quorum it wants.
    let policy = folder.path().join("logs.policy");
    let by_policy = Config { known_log: vec![], policy: Some(policy.clone()), ..fresh.clone() };
    RealFiles.replace(&policy, format!("log {}\n", log.key().to_text()).as_bytes()).unwrap();
    let error = refused(by_policy.clone()).await;
    assert!(error.to_string().contains("quorum none"), "{error}");
    let text = format!("log {}\nquorum none\n", log.key().to_text());
    RealFiles.replace(&policy, text.as_bytes()).unwrap();
    let witness = Running::start(by_policy, Seams::default()).await.unwrap();
    assert_eq!(witness.status(&log.request(0, 5)).await, 200);
    witness.stop().await;
    // The key is lost: not a new one under the old name.
    let key = folder.path().join("witness.key");
    RealFiles.replace(&key, b"nonsense").unwrap();
    assert!(matches!(refused(fresh.clone()).await, StartError::Identity { .. }));
    RealFiles.replace(&key, "00".repeat(32).as_bytes()).unwrap();
    assert!(matches!(refused(fresh.clone()).await, StartError::Identity { .. }));
    RealFiles.remove(&key).unwrap();
    let error = refused(fresh).await;
    assert!(error.to_string().contains("missing beside witness.pub"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_is_not_cosigned_any_more_is_still_shown() {
    let (folder, log) = (tempfile::tempdir().unwrap(), Log::new());
    let witness = running(folder.path(), &[&log]).await;
    assert_eq!(witness.status(&log.request(0, 5)).await, 200);
    witness.stop().await;
    let other = Log { origin: "example.com/other".into(), ..Log::new() };
    let witness = running(folder.path(), &[&other]).await;
    assert_eq!(witness.status(&log.request(5, 6)).await, 404);
    assert_eq!(witness.get(&format!("{}/checkpoint", origin_hash(ORIGIN))).await.0, 200);
    witness.stop().await;
}
