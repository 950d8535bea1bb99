//! Keys change while a log lives, and everybody who follows it goes on.

use std::path::Path;
use std::sync::Arc;

use sealcast_common::durable::{Durable as _, RealFiles, replace_secret};
use sealcast_common::integrity::{
    CompactRange, Growth, KeyFiles, KeyHistory, LogSigner as _, Note, leaf_hash,
};
use sealcast_common::seams::Seams;
use sealcast_faults::{FaultyFiles, FileFault, When};
use sealcast_tests::{
    Cluster, Process, REPLICA, Roles, SHIPPER, WRITER, copy_dir, files_under, said, sealcast, until,
};

const ORIGIN: &str = "dev/0000";

/// Rows that stand in an epoch which the replica trusts.
async fn anchored(cluster: &Cluster, rows: usize) {
    let event = |n: usize| format!("{{\"tenant\":\"t{n}\",\"action\":\"a\"}}\n");
    let answer = cluster.post((0..rows).map(event).collect()).await;
    assert!(answer.status().is_success(), "{}", cluster.logs());
    cluster.flush().await;
    let gauge = async |role: usize, name: &str| {
        let text = reqwest::get(format!("{}/metrics", cluster.url(role))).await.ok()?;
        let text = text.text().await.ok()?;
        let line = text.lines().find(|line| line.split(' ').next() == Some(name))?;
        line.rsplit(' ').next()?.parse::<f64>().ok()
    };
    until("the replica trusts the newest epoch", || async {
        let told = gauge(SHIPPER, "sealcast_shipper_cluster_epoch").await?;
        let trusted = gauge(REPLICA, "sealcast_replica_trust_epoch").await?;
        let waits = gauge(REPLICA, "sealcast_replica_trust_unanchored_seconds").await?;
        (told >= 1.0 && trusted >= told && waits == 0.0).then_some(())
    })
    .await;
}

async fn cluster(env: &[(&str, &str)]) -> Cluster {
    let fast =
        [("SEALCAST_SHIPPER_CLUSTER_EVERY_MS", "50"), ("SEALCAST_REPLICA_POLL_MAX_MS", "50")];
    Cluster::start_with(Roles::Apart, &[&fast, env].concat()).await
}

/// The origin of a log of the cluster.
fn origin(cluster: &Cluster, log: &str) -> String {
    let node = std::fs::read(cluster.path("writer/node.json")).unwrap();
    let node: serde_json::Value = serde_json::from_slice(&node).unwrap();
    format!("{}/{log}", node["cluster"].as_str().unwrap())
}

async fn ok(args: &[&str]) -> String {
    let (code, text) = said(args).await;
    assert_eq!(code, Some(0), "{args:?}: {text}");
    text
}

async fn fails(args: &[&str], code: i32, why: &str) {
    let (found, text) = said(args).await;
    assert!(found == Some(code) && text.contains(why), "{args:?}: {found:?} {text}");
}

fn write(path: &Path, text: &str) {
    RealFiles.replace(path, text.as_bytes()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn all_keys_of_a_node_change_and_whoever_followed_it_goes_on() {
    let mut cluster = cluster(&[]).await;
    let text = |name: &str| cluster.path(name).display().to_string();
    let (dir, store, policy) = (text("writer"), text("store"), text("policy"));
    let (state, stolen) = (text("trust.json"), cluster.path("stolen"));
    anchored(&cluster, 50).await;
    fails(&["keys", "rotate", &dir, "--all"], 1, "in use by a writer").await;
    let old_policy = ok(&["keys", "show", &dir, "--policy"]).await;
    write(&cluster.path("policy"), &old_policy);
    let judged = ["verify", &store, "--policy", &policy, "--trust-state", &state];
    ok(&judged).await;
    for turn in 1..=2 {
        cluster.kill_role(WRITER);
        cluster.kill_role(SHIPPER);
        copy_dir(&cluster.path("writer/keys"), &stolen.join(turn.to_string()));
        fails(
            &["keys", "rotate", &dir, &origin(&cluster, "0abc")],
            1,
            "keys of these logs lie there",
        )
        .await;
        let planned = ok(&["keys", "rotate", &dir, "--all", "--dry-run"]).await;
        assert!(planned.contains("nothing was written"), "{planned}");
        let done = ok(&["keys", "rotate", &dir, "--all"]).await;
        let logs = ["0000", "0001", "cluster"].map(|log| origin(&cluster, log));
        assert!(logs.iter().all(|log| done.contains(log)), "{done}");
        cluster.start_role(WRITER);
        cluster.start_role(SHIPPER);
        cluster.ready_role(WRITER).await;
        anchored(&cluster, 30).await;
        // The replica has been there all the time; the auditor knows the first keys only.
        cluster.ready_role(REPLICA).await;
        let evidence = files_under(&cluster.path(""), ".json").into_iter();
        let evidence = evidence.filter(|path| path.display().to_string().contains("evidence"));
        assert_eq!(evidence.count(), 0, "a hand-over is no fork");
        let verdict = ok(&judged).await;
        assert!(verdict.contains("verdict ok"), "{verdict}");
        ok(&["verify", &dir]).await;
        ok(&["verify", &cluster.path("").display().to_string()]).await;
    }
    let new_policy = ok(&["keys", "show", &dir, "--policy"]).await;
    assert_ne!(new_policy, old_policy);
    write(&cluster.path("policy"), &new_policy);
    ok(&["verify", &store, "--policy", &policy]).await;
    ok(&judged).await;
    proofs(&cluster, &old_policy, &dir, &store).await;
    thieves(&mut cluster, &stolen).await;
}

/// A row from before the hand-overs is proved by a checkpoint from after them.
async fn proofs(cluster: &Cluster, old_policy: &str, dir: &str, store: &str) {
    let out = cluster.path("row").display().to_string();
    let proof = format!("{out}.tlog-proof");
    let start = format!("log {}+", origin(cluster, "0000"));
    let key_of = |policy: &str| {
        let line = policy.lines().find(|line| line.starts_with(&start)).unwrap();
        line.trim_start_matches("log ").to_owned()
    };
    let old = key_of(old_policy);
    let new = key_of(&ok(&["keys", "show", dir, "--policy"]).await);
    for place in [["--store", store], ["--dir", dir]] {
        let proved = ok(&["prove", "0/0", place[0], place[1], "--out", &out]).await;
        assert!(proved.contains(&format!("vkey {new}")), "{proved}");
        ok(&["verify", &proof, "--vkey", &new]).await;
        fails(&["verify", &proof, "--vkey", &old, "--no-evidence"], 1, "proof_signature").await;
        let keys = cluster.path("writer/keys/0000.pub").display().to_string();
        ok(&["verify", &proof, "--vkey", &old, "--keys", &keys]).await;
        files_under(&cluster.path(""), "row.tlog-proof").iter().for_each(|path| {
            RealFiles.remove(path).unwrap();
            RealFiles.remove(&path.with_extension("leaf.cbor")).unwrap();
        });
    }
    let out = cluster.path("log").display().to_string();
    let exported = ok(&["export-log", "--store", store, "--shard", "0", &out]).await;
    assert!(exported.contains("all derived again"), "{exported}");
    let vkey = std::fs::read_to_string(cluster.path("log/vkey")).unwrap();
    assert_eq!(vkey.trim(), new);
}

/// Whoever took a key before it was rotated has nothing that anybody believes.
async fn thieves(cluster: &mut Cluster, stolen: &Path) {
    cluster.terminate().await;
    let keys = cluster.path("writer/keys");
    let (key, public) = (keys.join("0000.key"), keys.join("0000.pub"));
    let newest = std::fs::read(&key).unwrap();
    // With the old secret alone, with the old public half too, and with a hand-over to a new one.
    let history = std::fs::read_to_string(&public).unwrap();
    for turn in 1..=2 {
        let old = stolen.join(turn.to_string());
        let secret = std::fs::read(old.join("0000.key")).unwrap();
        replace_secret(&RealFiles, &key, &secret).unwrap();
        let before = cluster.output(WRITER).len();
        cluster.start_role(WRITER);
        assert!(!cluster.process(WRITER).ended().await.success());
        let said = cluster.output(WRITER).split_off(before);
        assert!(said.contains("does not belong to the shard's key"), "{said}");
        RealFiles.replace(&public, &std::fs::read(old.join("0000.pub")).unwrap()).unwrap();
        let (code, report) = cluster.verify(&cluster.path("").display().to_string()).await;
        assert_eq!(code, Some(1), "{report}");
        assert!(report.to_string().contains("checkpoint_note"), "{report}");
        write(&public, &history);
    }
    // With a hand-over of their own, made where the stolen key was in force.
    let old = stolen.join("1");
    let at = |name: &str| old.join(format!("0000.{name}"));
    let theirs = KeyFiles { secret: at("key"), public: at("pub"), signed: at("signed") };
    let (made, _) = theirs.rotate(&origin(cluster, "0000"), &Seams::default()).unwrap();
    write(&public, &format!("{}\n", made.to_text()));
    let (code, report) = cluster.verify(&cluster.path("").display().to_string()).await;
    assert!(code == Some(1) && report.to_string().contains("shard_key"), "{report}");
    write(&public, &history);
    replace_secret(&RealFiles, &key, &newest).unwrap();
    cluster.resume().await;
    anchored(cluster, 5).await;
    cluster.terminate().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signer_elsewhere_changes_its_key_and_the_writer_publishes_it() {
    let signers = tempfile::tempdir().unwrap();
    let path = |name: &str| signers.path().join(name).display().to_string();
    let (keys, socket) = (path("keys"), path("socket"));
    let start = async || {
        let args = ["signer", "--new-keys", "--dir", &keys, "--socket", &socket];
        let running =
            Process::start(&sealcast("sealcast"), &args, &signers.path().join("log"), &[]);
        let answers = || async { std::os::unix::net::UnixStream::connect(&socket).ok() };
        until("signer listens", answers).await;
        running
    };
    let running = start().await;
    let mut cluster = cluster(&[("SEALCAST_WRITER_SIGNER", &format!("unix:{socket}"))]).await;
    anchored(&cluster, 20).await;
    let public = cluster.path("writer/keys/0000.pub");
    let before = std::fs::read_to_string(&public).unwrap();
    let log = origin(&cluster, "0000");
    fails(&["keys", "rotate", &keys, &log], 1, "in use by another signer").await;
    cluster.kill_role(WRITER);
    assert!(running.terminate().await.success());
    let dir = cluster.path("writer").display().to_string();
    fails(&["keys", "rotate", &dir, &log], 1, "/cluster").await;
    ok(&["keys", "rotate", &keys, &log]).await;
    let running = start().await;
    cluster.start_role(WRITER);
    cluster.ready_role(WRITER).await;
    anchored(&cluster, 20).await;
    let after = std::fs::read_to_string(&public).unwrap();
    let parse = |text: &str| KeyHistory::parse(text).unwrap();
    assert!(parse(&after).continues(&parse(&before)) && after != before, "{after}");
    cluster.ready_role(REPLICA).await;
    ok(&["verify", &cluster.path("").display().to_string()]).await;
    cluster.terminate().await;
    assert!(running.terminate().await.success());
}

/// One row, signed; then rotated, dying at the `nth` file operation; then another row.
fn survives(nth: usize, when: When) -> bool {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let files = KeyFiles { secret: path("k.key"), public: path("k.pub"), signed: path("k.signed") };
    let mut tree = CompactRange::empty(0);
    let grow = |tree: &mut CompactRange| {
        let mut range = CompactRange::empty(tree.end());
        range.append(leaf_hash(b"row"));
        tree.append(leaf_hash(b"row"));
        Growth::new(&range, tree.root().unwrap())
    };
    let first = files.signer(ORIGIN, true, &Seams::default()).unwrap();
    let before = first.keys().clone();
    let (repeated, note) = {
        let growth = grow(&mut tree);
        (growth.clone(), first.sign_growth(&growth).unwrap())
    };
    let faulty = Arc::new(FaultyFiles::default());
    faulty.fail_nth(nth, FileFault::Crash(when));
    let seams = Seams { files: faulty, ..Seams::default() };
    let done = files.rotate(ORIGIN, &seams).is_ok();
    // Whatever happened: one key is in force, the secret and the history agree, both notes verify.
    let signer = files.signer(ORIGIN, false, &Seams::default()).unwrap();
    let keys = signer.keys().clone();
    assert!(keys.continues(&before), "operation {nth} {when:?}");
    let verifies = |note: &Note| keys.verify(note).unwrap().size;
    assert_eq!(verifies(&note), 1);
    assert_eq!(verifies(&signer.sign_growth(&repeated).unwrap()), 1);
    assert_eq!(verifies(&signer.sign_growth(&grow(&mut tree)).unwrap()), 2);
    assert!(!path("k.key.next").exists(), "operation {nth} {when:?}");
    if done {
        assert_eq!(keys.hand_overs().len(), 1);
    }
    done
}

#[test]
fn a_rotation_that_breaks_off_leaves_one_key_in_force() {
    for when in [When::Before, When::After] {
        let broken = (0..).take_while(|nth| !survives(*nth, when)).count();
        assert!(broken >= 5, "{broken} operations could be the last");
    }
}
