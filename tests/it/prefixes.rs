//! Power fails after any prefix of the durable operations of all roles: what was acknowledged is
//! there, every file verifies, and the path from HTTP to the vault completes.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sealcast_common::bucket::Store;
use sealcast_common::durable::Durable as _;
use sealcast_common::seams::Seams;
use sealcast_common::wire::{FlushResponse, Token};
use sealcast_faults::{Loss, Recording, RecordingStore};
use sealcast_tests::{Checker, deliver, files_under, number, sealed_rows};
use sealcast_vault::{Vault, VaultConfig};
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Replays at the same time: most of each is waiting for the disk.
const PARALLEL: usize = 6;

/// What was recorded, and from which length on each event was promised.
struct Recorded {
    _dir: TempDir,
    recording: Recording,
    promised: Vec<(usize, String)>,
}

/// In memory where there is such a folder: hundreds of replays, each with its syncs.
fn scratch() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap()
}

fn writer_config(root: &Path) -> sealcast_writer::Config {
    sealcast_writer::Config {
        dir: root.join("writer"),
        http: "127.0.0.1:0".into(),
        cluster: Some("prefixes".into()),
        seal_age_ms: 3_600_000,
        ..Default::default()
    }
}

fn shipper_config(root: &Path) -> sealcast_shipper::Config {
    sealcast_shipper::Config {
        dir: root.join("writer"),
        http: "127.0.0.1:0".into(),
        snapshot_every: 2,
        ..Default::default()
    }
}

async fn vault(root: &Path, store: &Store, seams: Seams) -> Vault {
    let config = VaultConfig { dir: root.join("replica"), poll_min_ms: 10, ..Default::default() };
    Vault::open(config, store.clone(), seams).await.unwrap()
}

async fn flush(writer: &str) -> FlushResponse {
    let url = format!("{writer}/v1/admin/flush?wait=sealed");
    reqwest::Client::new().post(url).send().await.unwrap().json().await.unwrap()
}

async fn arrives(vault: &Vault, token: &str, what: &str) {
    let token = Token::parse(token).unwrap();
    let waited = vault.wait_for(&token, Duration::from_secs(30)).await;
    assert!(waited.is_ok(), "{what}: the vault holds {:?}", vault.status());
}

/// Three rounds of events through writer, shipper and vault, then an unsealed tail.
async fn recorded() -> Recorded {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let recording = Recording::of(root);
    let files = recording.files();
    let seams = Seams { files: Arc::new(files.clone()), ..Seams::default() };
    for folder in ["writer", "replica"] {
        files.create_dir(&root.join(folder)).unwrap();
    }
    files.sync_dir(root).unwrap();
    let store = RecordingStore::open(&recording, "store");
    let stop = CancellationToken::new();
    let writer = sealcast_writer::start(writer_config(root), seams.clone(), stop.clone());
    let writer = writer.await.unwrap();
    let url = format!("http://{}", writer.http);
    let shipper = sealcast_shipper::start_with_store(
        shipper_config(root),
        seams.clone(),
        store.clone(),
        stop.clone(),
    );
    let shipper = shipper.await.unwrap();
    let vault = vault(root, &store, seams).await;
    let running = tokio::spawn({
        let (vault, stop) = (vault.clone(), stop.clone());
        async move { vault.run(stop).await }
    });
    let (http, mut checker, mut promised) =
        (reqwest::Client::new(), Checker::default(), Vec::new());
    for round in 0..4 {
        for _ in 0..2 {
            let batch = checker.batch(7, 5);
            let answer = deliver(&http, &url, &batch).await;
            let ids = answer.events.iter().map(|event| (recording.len(), event.event_id.clone()));
            promised.extend(ids);
        }
        if round < 3 {
            arrives(&vault, &flush(&url).await.token, "recording").await;
        }
    }
    // What follows is an orderly shutdown, which seals: it belongs to the recording as well.
    stop.cancel();
    writer.join().await.unwrap();
    shipper.join().await.unwrap();
    running.await.unwrap().unwrap();
    Recorded { _dir: dir, recording, promised }
}

/// Starts everything again on what power loss after `prefix` operations has left.
async fn judge(recorded: &Recorded, prefix: usize, loss: Loss) {
    let last = recorded.recording.describe(prefix);
    let what = format!("{loss:?} after {prefix} operations, the last: {last}");
    let dir = scratch();
    let root = dir.path();
    recorded.recording.replay(prefix, loss, root).unwrap();
    let stop = CancellationToken::new();
    let started = sealcast_writer::start(writer_config(root), Seams::default(), stop.clone()).await;
    let writer = started.unwrap_or_else(|error| panic!("{what}: the writer: {error}"));
    let flushed = flush(&format!("http://{}", writer.http)).await;
    let store = Store::open(root.join("store").to_str().unwrap()).unwrap();
    let config = sealcast_shipper::Config { once: true, ..shipper_config(root) };
    let shipper = sealcast_shipper::start_with_store(
        config,
        Seams::default(),
        store.clone(),
        CancellationToken::new(),
    );
    let shipped = shipper.await.unwrap().join().await;
    let shipped = shipped.unwrap_or_else(|error| panic!("{what}: the shipper: {error}"));
    assert_eq!(shipped.exit_code(), 0, "{what}: {shipped:?}");
    let vault = vault(root, &store, Seams::default()).await;
    let running = tokio::spawn({
        let (vault, stop) = (vault.clone(), stop.clone());
        async move { vault.run(stop).await }
    });
    arrives(&vault, &flushed.token, &what).await;
    stop.cancel();
    writer.join().await.unwrap();
    running.await.unwrap().unwrap();

    let mut there = BTreeSet::new();
    for path in files_under(&root.join("writer/sealed"), ".seg") {
        for row in sealed_rows(&path) {
            assert!(there.insert(row.event_id.clone()), "{what}: {} is doubled", row.event_id);
        }
    }
    for (_, id) in recorded.promised.iter().filter(|(length, _)| *length <= prefix) {
        assert!(there.contains(id), "{what}: {id} was acknowledged and is lost");
    }
    let report = sealcast_cli::verify::verify(root.to_str().unwrap(), &|_, _, _| {}).await;
    // Before the first seal there may be nothing in the store, hence nothing to judge.
    let nothing_yet = there.is_empty() && report.findings.is_empty();
    assert!(report.verdict() == "ok" || nothing_yet, "{what}: {report:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_prefix_of_the_durable_operations_replays_to_a_consistent_state() {
    let recorded = Arc::new(recorded().await);
    let length = recorded.recording.len();
    // All of them by hand with SEALCAST_PREFIX_STEP=1; in the gate each loss starts elsewhere.
    let step = usize::try_from(number("SEALCAST_PREFIX_STEP", 24)).unwrap();
    let losses = [Loss::Everything, Loss::Torn, Loss::Zeros, Loss::Process];
    let firsts = (0..losses.len()).map(|loss| loss * step / losses.len());
    let replays = firsts
        .zip(losses)
        .flat_map(|(first, loss)| (first..=length).step_by(step).map(move |prefix| (prefix, loss)));
    let (mut running, mut judged) = (JoinSet::new(), 0);
    for (prefix, loss) in replays.chain([(length, Loss::Everything)]) {
        if running.len() == PARALLEL {
            running.join_next().await.unwrap().unwrap();
        }
        let recorded = Arc::clone(&recorded);
        running.spawn(async move { judge(&recorded, prefix, loss).await });
        judged += 1;
    }
    while let Some(ended) = running.join_next().await {
        ended.unwrap();
    }
    println!("{judged} replays of {length} operations");
    assert!(length > 60, "{length} operations are no whole path");
}
