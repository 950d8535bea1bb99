//! What is handed to people who trust nobody: proofs of rows, and whole logs as files.

use std::path::{Path, PathBuf};

use sealcast_tests::{Cluster, Roles, python, run, said, skip};

const EVENT: &str = "0195fa2c-7d1e-7000-8000-5d0e3b1f9a77";

/// A cluster of `dev` with two seals, the second with [`EVENT`]; shard and seq of that one.
async fn two_seals() -> (Cluster, u16, u64) {
    let cluster = Cluster::start(Roles::Dev).await;
    let line = |i: usize| format!("{{\"tenant\":\"a\",\"action\":\"x\",\"message\":\"{i}\"}}\n");
    assert!(cluster.post((0..300).map(line).collect()).await.status().is_success());
    cluster.flush().await;
    let marked = format!("{{\"tenant\":\"a\",\"action\":\"marked\",\"event_id\":\"{EVENT}\"}}\n");
    assert!(cluster.post(marked + &line(300)).await.status().is_success());
    let token = cluster.flush().await;
    let sql = "select _shard, _seq from events where action = 'marked'";
    let row = cluster.rows(sql, Some(&token)).await.remove(0);
    let number = |at: usize| row[at].as_u64().unwrap();
    (cluster, u16::try_from(number(0)).unwrap(), number(1))
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

fn read(path: impl AsRef<Path>) -> Vec<u8> {
    std::fs::read(path).unwrap()
}

fn put(path: &Path, bytes: &[u8]) {
    #[expect(clippy::disallowed_methods, reason = "a test's own file needs no durability")]
    std::fs::write(path, bytes).unwrap();
}

fn flipped(bytes: &[u8], at: usize) -> Vec<u8> {
    let mut changed = bytes.to_vec();
    changed[at] ^= 1;
    changed
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_is_proved_by_replica_store_and_folder_alike() {
    let (cluster, shard, seq) = two_seals().await;
    let dir = tempfile::tempdir().unwrap();
    let out = |name: &str| text(&dir.path().join(name));
    let (store, writer) = (text(&cluster.path("store")), text(&cluster.path("writer")));
    let (replica, place) = (cluster.url(2), format!("{shard}/{seq}"));
    let sources = [
        ("replica", EVENT, ["--replica", replica.as_str()]),
        ("store", EVENT, ["--store", store.as_str()]),
        ("folder", EVENT, ["--dir", writer.as_str()]),
        ("again", place.as_str(), ["--dir", writer.as_str()]),
    ];
    for (name, row, [flag, value]) in sources {
        let (code, said) = said(&["prove", row, flag, value, "--out", &out(name)]).await;
        assert_eq!(code, Some(0), "{name}: {said}");
        for kind in ["tlog-proof", "leaf.cbor"] {
            let first = read(out(&format!("replica.{kind}")));
            assert_eq!(read(out(&format!("{name}.{kind}"))), first, "{name}.{kind}");
        }
    }
    let (code, words) = said(&["prove", EVENT, "--store", &store, "--out", &out("store")]).await;
    assert_eq!(code, Some(2), "{words}");
    assert!(words.contains("exists already"), "{words}");
    let nobody = EVENT.replace("77", "78");
    for [flag, value] in [["--store", store.as_str()], ["--replica", replica.as_str()]] {
        let (code, words) = said(&["prove", &nobody, flag, value]).await;
        assert_eq!(code, Some(2), "{words}");
        assert!(words.contains("no row has event id"), "{words}");
    }
    let beyond = format!("{shard}/{}", seq + 1_000);
    let (code, words) = said(&["prove", &beyond, "--dir", &writer]).await;
    assert_eq!(code, Some(2), "{words}");
    assert!(words.contains("signed rows"), "{words}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exported_log_is_complete_and_its_proof_holds_nowhere_else() {
    let (cluster, shard, _) = two_seals().await;
    let dir = tempfile::tempdir().unwrap();
    let (shard, log) = (shard.to_string(), dir.path().join("log"));
    let (store, out) = (text(&cluster.path("store")), text(&log));
    let export = ["export-log", "--store", &store, "--shard", &shard, &out, "--json"];
    let (code, words) = said(&export).await;
    assert_eq!(code, Some(0), "{words}");
    assert!(words.contains("\"old_size\":300") && words.contains("\"size\":302"), "{words}");
    let names = "checkpoint checkpoint.old vkey tile/0/000 tile/0/001.p/44 tile/0/001.p/46 \
                 tile/1/000.p/1 tile/entries/000 tile/entries/001.p/44 tile/entries/001.p/46";
    for name in names.split_whitespace() {
        assert!(log.join(name).is_file(), "{name}");
    }
    let (code, words) = said(&export).await;
    assert_eq!(code, Some(2), "{words}");
    assert!(words.contains("is not empty"), "{words}");
    let other = text(&dir.path().join("other"));
    let unsigned =
        ["export-log", "--store", &store, "--shard", &shard, "--old-size", "301", &other];
    let (code, words) = said(&unsigned).await;
    assert_eq!(code, Some(2), "{words}");
    assert!(words.contains("newest first: 300"), "{words}");

    let key = String::from_utf8(read(log.join("vkey"))).unwrap();
    let (proof, leaf) = (text(&log.join("row.tlog-proof")), text(&log.join("row.leaf.cbor")));
    let verify = ["verify", &proof, "--leaf", &leaf, "--no-evidence"];
    let (code, words) = said(&verify).await;
    assert_eq!(code, Some(2), "whose key it is, nobody said: {words}");
    let verify = [verify.as_slice(), &["--vkey", key.trim()]].concat();
    let (code, words) = said(&verify).await;
    assert_eq!(code, Some(0), "{words}");
    let good = read(&leaf);
    put(Path::new(&leaf), &flipped(&good, good.len() - 1));
    let (code, words) = said(&verify).await;
    assert_eq!(code, Some(1), "{words}");
    assert!(words.contains("proof_inclusion"), "{words}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_does_not_verify_is_exported() {
    let (mut cluster, shard, _) = two_seals().await;
    cluster.terminate().await;
    let dir = tempfile::tempdir().unwrap();
    let (shard, log) = (shard.to_string(), dir.path().join("log"));
    let sources = [("--store", "store", ".seg.zst"), ("--dir", "writer", ".seg")];
    for (flag, name, suffix) in sources {
        let folder = if name == "store" { "store/sh" } else { "writer/sealed" };
        let segment = cluster.files(folder, suffix).remove(0);
        let bytes = read(&segment);
        put(&segment, &flipped(&bytes, bytes.len() / 3));
        let (source, out) = (text(&cluster.path(name)), text(&log.with_extension(name)));
        let (code, words) = said(&["export-log", flag, &source, "--shard", &shard, &out]).await;
        assert_eq!(code, Some(1), "{words}");
        assert!(words.contains("(check "), "{words}");
        assert!(!Path::new(&out).join("checkpoint").exists(), "{name}");
    }
}

/// The script of the documentation, with nothing of ours.
#[tokio::test(flavor = "multi_thread")]
async fn a_few_lines_of_python_verify_a_proof() {
    let test = "a_few_lines_of_python_verify_a_proof";
    let Some(python) = python(test) else { return };
    if !run(&python, &["-c", "import cryptography"]).await.status.success() {
        return skip(test, "no Python package cryptography; scripts/setup installs it");
    }
    let (cluster, shard, seq) = two_seals().await;
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("row");
    let (store, place) = (text(&cluster.path("store")), format!("{shard}/{seq}"));
    let (code, words) = said(&["prove", &place, "--store", &store, "--out", &text(&out)]).await;
    assert_eq!(code, Some(0), "{words}");
    let key = words.lines().find_map(|line| line.strip_prefix("vkey ")).unwrap().to_owned();
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/verify_proof.py");
    let files = [out.with_extension("tlog-proof"), out.with_extension("leaf.cbor")];
    let [proof, leaf] = files.map(|path| (read(&path), path));
    let check = async || {
        let shown = run(&python, &[&text(&script), &text(&proof.1), &text(&leaf.1), &key]).await;
        let both = [shown.stdout, shown.stderr].concat();
        (shown.status.code(), String::from_utf8_lossy(&both).into_owned())
    };
    let (code, words) = check().await;
    assert_eq!(code, Some(0), "{words}");
    let whole = String::from_utf8(proof.0.clone()).unwrap();
    let (path, checkpoint) = (whole.find("index").unwrap() + 20, whole.find("\n\n").unwrap() + 4);
    let changes = [(&leaf, 30), (&proof, path), (&proof, checkpoint), (&proof, whole.len() - 9)];
    for ((bytes, path), at) in changes {
        put(path, &flipped(bytes, at));
        let (code, words) = check().await;
        assert_eq!(code, Some(1), "byte {at} of {}: {words}", path.display());
        assert!(words.starts_with("refused: "), "{words}");
        put(path, bytes);
    }
}
