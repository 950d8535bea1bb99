//! segment → pack → checkpoint → commit → `shipped.json` → snapshot → head; and the keeper:
//! `pending.json` → leaf claimed → `log.signed` → leaf → checkpoint → head.

use std::collections::BTreeMap;

use bytes::Bytes;
use sealcast_faults::{StoreCall, StoreOp, When};
use sealcast_tests::{Bucket, ReadPipe, SHIPPER, WritePipe, until};

use super::{Stage, member};

type Picks = fn(&StoreCall) -> bool;

/// Puts, in the order of a turn. That one has had its effect and its answer is lost is, to whoever
/// comes next, the same as that the next one has not: only of the last both are tried.
const SHIPPING: [(&str, Picks); 7] = [
    ("segment", |call| call.key.contains("/seg/")),
    ("pack of tiles", |call| call.key.contains("/l0/")),
    ("checkpoint", |call| call.key.starts_with("sh/") && call.key.contains("/ckpt/")),
    ("commit", |call| call.key.starts_with("st/") && call.key.contains("/log/")),
    ("snapshot's leaf", |call| call.key.contains("/leaf/")),
    ("snapshot", |call| call.key.contains("/snap/")),
    ("head", |call| call.key.starts_with("st/") && call.key.ends_with("/head")),
];

const KEEPING: [(&str, Picks); 4] = [
    ("claim of a leaf", |call| call.op == StoreOp::Create && call.key.starts_with("cluster/log/")),
    // By now it is signed.
    ("leaf", |call| call.op == StoreOp::Put && call.key.starts_with("cluster/log/")),
    ("cluster's checkpoint", |call| call.key.starts_with("cluster/ckpt/")),
    ("cluster's head", |call| call.key == "cluster/head"),
];

fn deaths(puts: &[(&'static str, Picks)]) -> Vec<(&'static str, Picks, When)> {
    let before = puts.iter().map(|(name, picks)| (*name, *picks, When::Before));
    let after = puts.last().map(|(name, picks)| (*name, *picks, When::After));
    before.chain(after).collect()
}

impl Stage {
    fn picked(&self, picks: Picks) -> BTreeMap<String, (Bytes, usize)> {
        let call = |key: &str, op| StoreCall { number: 0, op, key: key.to_owned() };
        let mut objects = self.bucket.objects("");
        // What is picked as a put alone was there before, with the same content.
        objects.retain(|key, _| picks(&call(key, StoreOp::Create)));
        objects
    }

    /// The shipper is gone; whoever comes next does what is left.
    async fn shipper_goes_on(&mut self, what: &str) {
        self.look();
        self.restart(SHIPPER).await;
        self.whole(what).await;
    }

    async fn kill_at_put(&mut self, name: &str, picks: Picks, when: When) {
        let what = format!("{when:?} the put of the {name}");
        self.bucket.hold(when, picks);
        let before = self.picked(picks);
        self.begin().await;
        self.bucket.reached(&what).await;
        self.cluster.kill_role(SHIPPER);
        self.bucket.release();
        assert_eq!(self.picked(picks) != before, when == When::After, "{what}");
        self.signed = member(&self.cluster.path("writer/cluster/log.signed"), "size");
        self.shipper_goes_on(&what).await;
    }

    fn commits(&self) -> usize {
        let of_stream = |key: &&String| key.contains("/log/");
        self.bucket.objects("st/").keys().filter(of_stream).count()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shipper_killed_at_any_step_of_a_commit_ships_once() {
    let mut stage = Stage::start(Bucket::start().await, &[]).await;
    stage.whole("at first").await;
    for (name, picks, when) in deaths(&SHIPPING) {
        stage.kill_at_put(name, picks, when).await;
    }
    let mark = stage.cluster.path("writer/shipped.json");
    let (told, commits) = (member(&mark, "seq"), stage.commits());
    let pipe = WritePipe::before(&mark);
    stage.begin().await;
    until("committed", || async { (stage.commits() > commits).then_some(()) }).await;
    stage.cluster.kill_role(SHIPPER);
    pipe.end();
    assert_eq!(member(&mark, "seq"), told, "committed, not marked");
    stage.shipper_goes_on("shipped.json").await;
    stage.cluster.terminate().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_keeper_killed_at_any_step_of_an_epoch_signs_no_fork() {
    let bucket = Bucket::start().await;
    // The first leaf of all: who makes it keeps the log.
    bucket.hold(When::After, |call| call.key.starts_with("cluster/log/"));
    let mut stage = Stage::start(bucket, &[]).await;
    stage.bucket.reached("the first leaf").await;
    stage.cluster.kill_role(SHIPPER);
    stage.bucket.release();
    stage.shipper_goes_on("the first leaf").await;
    let memory = stage.cluster.path("writer/cluster/log.signed");
    for (name, picks, when) in deaths(&KEEPING) {
        let size = member(&memory, "size");
        stage.kill_at_put(name, picks, when).await;
        let signed = stage.signed.take() != size;
        assert_eq!(signed, name != KEEPING[0].0, "{when:?} the put of the {name}");
    }
    killed_at_files(&mut stage).await;
    stage.cluster.terminate().await;
}

/// Before `pending.json` is written, and between claim and signature.
async fn killed_at_files(stage: &mut Stage) {
    let folder = stage.cluster.path("writer");
    let (pending, mark) = (folder.join("cluster/pending.json"), folder.join("shipped.json"));
    let (first, told) = (member(&pending, "first"), member(&mark, "seq"));
    let pipe = WritePipe::before(&pending);
    stage.begin().await;
    until("marked", || async { (member(&mark, "seq") != told).then_some(()) }).await;
    stage.cluster.kill_role(SHIPPER);
    pipe.end();
    assert_eq!(member(&pending, "first"), first, "shipped, not written down");
    stage.shipper_goes_on("pending.json").await;
    let memory = folder.join("cluster/log.signed");
    let (size, leaves) = (member(&memory, "size"), stage.bucket.objects("cluster/log/").len());
    let mut pipe = ReadPipe::instead_of(&memory, &stage.cluster.path("aside"));
    stage.begin().await;
    pipe.reached("the keeper reads its memory").await;
    stage.cluster.kill_role(SHIPPER);
    pipe.end();
    assert_eq!(member(&memory, "size"), size, "claimed, not signed");
    assert!(stage.bucket.objects("cluster/log/").len() > leaves, "claimed, not signed");
    stage.shipper_goes_on("log.signed").await;
}
