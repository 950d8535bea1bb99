//! The signer as a process of its own, and folders that are another copy than the one it signed.

use std::path::Path;

use sealcast_tests::{
    Cluster, Process, Roles, WRITER, copy_dir, files_under, said, sealcast, until,
};

const EVENT: &str = r#"{"tenant":"acme","action":"a"}"#;

pub(crate) async fn signer(dir: &Path) -> Process {
    let path = |name: &str| dir.join(name).display().to_string();
    let (keys, socket) = (path("signer"), path("socket"));
    let args = ["signer", "--new-keys", "--dir", &keys, "--socket", &socket];
    let process = Process::start(&sealcast("sealcast"), &args, &dir.join("signer.log"), &[]);
    let answers = || async { std::os::unix::net::UnixStream::connect(dir.join("socket")).ok() };
    until("signer listens", answers).await;
    process
}

/// The writer must end by itself; what it said.
async fn refused(cluster: &mut Cluster) -> String {
    let before = cluster.output(WRITER).len();
    cluster.start_role(WRITER);
    let status = cluster.process(WRITER).ended().await;
    assert!(!status.success(), "{status}");
    cluster.output(WRITER).split_off(before)
}

async fn one_more(cluster: &Cluster) {
    let answer = cluster.post(EVENT.to_owned()).await;
    assert!(answer.status().is_success(), "{}", cluster.logs());
    cluster.flush().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_folder_is_refused_by_a_signer_that_has_gone_on() {
    let (dir, signers) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let running = signer(signers.path()).await;
    let store = dir.path().join("store").display().to_string();
    let socket = format!("unix:{}", signers.path().join("socket").display());
    let env = vec![("SEALCAST_WRITER_SIGNER".to_owned(), socket)];
    let mut cluster = Cluster::start_on(Roles::Apart, dir, store, env).await;
    one_more(&cluster).await;
    cluster.kill_role(WRITER);
    let old = tempfile::tempdir().unwrap();
    copy_dir(&cluster.path("writer"), old.path());
    cluster.start_role(WRITER);
    cluster.ready_role(WRITER).await;
    // A signer that is killed and comes back remembers.
    running.kill();
    let running = signer(signers.path()).await;
    one_more(&cluster).await;
    assert!(cluster.files("writer/keys", ".key").is_empty(), "no secret beside the data");
    cluster.kill_role(WRITER);
    let newest = cluster.path("newest");
    copy_dir(&cluster.path("writer"), &newest);
    for place in ["wal", "sealed"] {
        std::fs::remove_dir_all(cluster.path("writer").join(place)).unwrap();
        copy_dir(&old.path().join(place), &cluster.path("writer").join(place));
    }
    let said = refused(&mut cluster).await;
    assert!(said.contains("signed_size") && said.contains("older than what was signed"), "{said}");
    std::fs::remove_dir_all(cluster.path("writer")).unwrap();
    copy_dir(&newest, &cluster.path("writer"));
    cluster.start_role(WRITER);
    cluster.ready_role(WRITER).await;
    one_more(&cluster).await;
    cluster.terminate().await;
    assert!(running.terminate().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_or_lost_memory_is_refused_until_it_is_adopted() {
    let mut cluster = Cluster::start(Roles::Apart).await;
    one_more(&cluster).await;
    cluster.kill_role(WRITER);
    let [memory] = cluster.files("writer/keys", ".signed").try_into().unwrap();
    let old = std::fs::read(&memory).unwrap();
    cluster.start_role(WRITER);
    cluster.ready_role(WRITER).await;
    one_more(&cluster).await;
    cluster.kill_role(WRITER);
    #[expect(clippy::disallowed_methods, reason = "a backup is restored as anybody would")]
    std::fs::write(&memory, old).unwrap();
    let text = refused(&mut cluster).await;
    assert!(text.contains("signed_state") && text.contains("old copy"), "{text}");
    std::fs::remove_file(&memory).unwrap();
    let text = refused(&mut cluster).await;
    assert!(text.contains("signed_state") && text.contains("sealcast keys adopt"), "{text}");
    let dir = cluster.path("writer").display().to_string();
    let (code, text) = said(&["keys", "adopt", &dir, "--dry-run"]).await;
    assert!(code == Some(0) && text.contains("size 2") && !memory.exists(), "{text}");
    let (code, text) = said(&["keys", "adopt", &dir]).await;
    assert!(code == Some(0) && memory.exists(), "{text}");
    let shard = u16::from_str_radix(memory.file_stem().unwrap().to_str().unwrap(), 16).unwrap();
    let again = said(&["keys", "adopt", &dir, "--shard", &shard.to_string()]).await;
    assert!(again.0 == Some(1) && again.1.contains("exists already"), "{again:?}");
    let (code, text) = said(&["keys", "show", &dir]).await;
    assert!(code == Some(0) && text.contains("signed size"), "{text}");
    cluster.start_role(WRITER);
    cluster.ready_role(WRITER).await;
    let busy = said(&["keys", "adopt", &dir]).await;
    assert!(busy.0 == Some(1) && busy.1.contains("in use by a writer"), "{busy:?}");
    one_more(&cluster).await;
    cluster.terminate().await;
    let (code, report) = cluster.verify(&dir).await;
    assert_eq!(code, Some(0), "{report}");
    assert_eq!(files_under(&cluster.path("writer/sealed"), ".seg").len(), 3);
    let out = cluster.path("made.key").display().to_string();
    let (code, key) = said(&["keys", "generate", "prod/0000", "--out", &out]).await;
    assert!(code == Some(0) && key.starts_with("prod/0000+"), "{key}");
    assert_eq!(said(&["keys", "generate", "prod/0000", "--out", &out]).await.0, Some(1));
}
