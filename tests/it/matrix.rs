//! The corruption matrix: one flipped bit in every class of byte of every file and object.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use arrow::buffer::Buffer;
use sealcast_cli::verify::{Report, verify};
use sealcast_common::clock::SeededRandom;
use sealcast_common::segment::SegmentView;
use sealcast_tests::{
    Checker, Cluster, Roles, SHIPPER, WRITER, below, deliver, files_under, number, random,
};
use tokio::task::JoinSet;

/// Damaged clusters that run at the same time: most of each is waiting.
const PARALLEL: usize = 4;

/// Files that no check of `sealcast verify` covers, and why that is right.
fn is_exempt(class: &str) -> bool {
    // Empty lock files, and secret keys, which an auditor must not have to read.
    matches!(class, "lock" | "ship.lock" | "key" | "ship.key" | "log.key")
}

/// Derived from the log, which is verified: its owner says that it is damaged, and may write it
/// anew. Of everything else the damage must still be there to be seen.
fn is_derived(class: &str) -> bool {
    matches!(class, "head" | "shipped.json" | "leaf" | "ckpt" | "log.pub")
}

/// The class of a file: what comes after its number, hash or range; else the folder that numbers
/// its objects; else the name.
fn class_of(path: &Path) -> String {
    let name = name(path);
    if let Some((_, ending)) = name.split_once(".seg") {
        return format!("seg{ending}");
    }
    let numbered = name.len() > 2 && name.starts_with(|first: char| first.is_ascii_hexdigit());
    match path.extension() {
        Some(extension) if numbered => extension.to_string_lossy().into_owned(),
        None if name.len() >= 16 => path.parent().map(self::name).unwrap_or_default(),
        _ => name,
    }
}

/// Writer, store and replica with sealed, shipped, snapshotted, fetched and unsealed events.
async fn killed_cluster() -> (Cluster, Checker) {
    let env =
        [("SEALCAST_SHIPPER_SNAPSHOT_EVERY", "2"), ("SEALCAST_WRITER_SEAL_AGE_MS", "3600000")];
    let mut cluster = Cluster::start_with(Roles::Apart, &env).await;
    let (http, mut checker) = (reqwest::Client::new(), Checker::default());
    for _ in 0..3 {
        let batch = checker.batch(3, 30);
        checker.acknowledged(&deliver(&http, &cluster.url(WRITER), &batch).await);
        let token = cluster.flush().await;
        cluster.count(Some(&token)).await;
    }
    let tail = checker.batch(3, 30);
    checker.acknowledged(&deliver(&http, &cluster.url(WRITER), &tail).await);
    cluster.kill();
    (cluster, checker)
}

/// Bytes to flip in a file: of a segment the ends of every block and what lies between blocks; of
/// everything both ends and `more` places anywhere.
fn places(path: &Path, bytes: &[u8], more: u64, random: &SeededRandom) -> BTreeSet<usize> {
    let last = bytes.len() - 1;
    let mut places = BTreeSet::from([0, last, last.saturating_sub(8), last / 2]);
    if path.extension().is_some_and(|extension| extension == "seg") {
        let view = SegmentView::parse(Buffer::from(bytes.to_vec())).unwrap();
        for block in &view.seal().blocks {
            let (start, end) = (block.offset as usize, (block.offset + block.len) as usize);
            places.extend([start, end - 1, end.min(last), start.saturating_sub(1)]);
        }
    }
    places.extend((0..more).map(|_| below(random, bytes.len() as u64) as usize));
    places
}

/// Flips one bit; the files of a killed cluster have nobody else.
fn flip(path: &Path, bytes: &[u8], at: usize, bit: u8) {
    let mut changed = bytes.to_vec();
    changed[at] ^= 1 << bit;
    put(path, &changed);
}

#[expect(clippy::permissions_set_readonly_false, reason = "a test's own temporary file")]
fn put(path: &Path, bytes: &[u8]) {
    let mut permissions = std::fs::metadata(path).unwrap().permissions();
    permissions.set_readonly(false);
    std::fs::set_permissions(path, permissions).unwrap();
    #[expect(clippy::disallowed_methods, reason = "damage needs no durability")]
    std::fs::write(path, bytes).unwrap();
}

async fn judged(root: &Path) -> Report {
    verify(root.to_str().unwrap(), &|_, _, _| {}).await
}

#[tokio::test(flavor = "multi_thread")]
async fn one_flipped_bit_anywhere_is_found_by_a_named_check() {
    let random = random("one_flipped_bit_anywhere_is_found_by_a_named_check");
    // By hand SEALCAST_FLIPS=50 SEALCAST_FLIP_FILES=1000 does all files.
    let (more, most) = (number("SEALCAST_FLIPS", 2), number("SEALCAST_FLIP_FILES", 2));
    let (cluster, _) = killed_cluster().await;
    let mut flips = BTreeMap::<String, (u64, BTreeSet<String>)>::new();
    let (mut missed, mut files) = (Vec::new(), BTreeMap::<String, u64>::new());
    for folder in ["writer", "store"] {
        let root = cluster.path(folder);
        assert_eq!(judged(&root).await.verdict(), "ok", "{folder}");
        for path in files_under(&root, "") {
            let (class, bytes) = (class_of(&path), std::fs::read(&path).unwrap());
            let seen = files.entry(class.clone()).or_default();
            if bytes.is_empty() || is_exempt(&class) || *seen == most {
                continue;
            }
            *seen += 1;
            for at in places(&path, &bytes, more, &random) {
                let bit = below(&random, 8) as u8;
                flip(&path, &bytes, at, bit);
                let report = judged(&root).await;
                put(&path, &bytes);
                match found_in(&report, &root, &path) {
                    Some(check) => {
                        let entry = flips.entry(class.clone()).or_default();
                        entry.0 += 1;
                        entry.1.insert(check);
                    }
                    None => {
                        missed.push(format!("{class} {} at {at}.{bit}: {report:?}", name(&path)))
                    }
                }
            }
        }
        assert_eq!(judged(&root).await.verdict(), "ok", "{folder} as it was");
    }
    for (class, (count, checks)) in &flips {
        println!("{class}: {count} flips, found by {checks:?}");
    }
    assert!(missed.is_empty(), "{} missed:\n{}", missed.len(), missed.join("\n"));
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The check that names this file, or that says that it cannot be read at all.
fn found_in(report: &Report, root: &Path, path: &Path) -> Option<String> {
    let key = path.strip_prefix(root).unwrap_or(path).display().to_string();
    let names = |text: &str| text.contains(&key) || text.contains(&name(path));
    let finding = report.findings.iter().find(|found| names(&found.object));
    let finding = finding.map(|found| found.check.to_owned());
    let unread = report.unchecked.iter().find(|why| names(why));
    finding.or_else(|| unread.map(|_| "cannot check".to_owned()))
}

/// One file of every class, with a bit flipped in its middle: what a start, more events, another
/// seal and another commit make of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_bit_is_never_served_repaired_or_made_authentic_by_going_on() {
    let (cluster, checker) = killed_cluster().await;
    let mut classes: BTreeMap<(String, String), PathBuf> = BTreeMap::new();
    for folder in ["writer", "store", "replica"] {
        for path in files_under(&cluster.path(folder), "") {
            if std::fs::metadata(&path).unwrap().len() > 0 {
                classes.insert((folder.to_owned(), class_of(&path)), path);
            }
        }
    }
    let (mut running, total, mut served) = (JoinSet::new(), classes.len(), 0);
    for ((folder, class), path) in classes {
        if running.len() == PARALLEL {
            served += usize::from(running.join_next().await.unwrap().unwrap() > 0);
        }
        let copy = tempfile::tempdir().unwrap();
        for part in ["writer", "store", "replica"] {
            sealcast_tests::copy_dir(&cluster.path(part), &copy.path().join(part));
        }
        let path = copy.path().join(path.strip_prefix(cluster.dir.path()).unwrap());
        let bytes = std::fs::read(&path).unwrap();
        flip(&path, &bytes, bytes.len() / 2, 3);
        let what = format!("{folder} {class} {}", name(&path));
        let (parked, checker) = (cluster.parked_at(copy), checker.clone());
        running.spawn(async move { go_on(parked, &checker, &class, &what).await });
    }
    while let Some(ended) = running.join_next().await {
        served += usize::from(ended.unwrap() > 0);
    }
    println!("{served} of {total} damaged clusters served rows");
    assert!(served * 2 > total, "{served} of {total}: nothing served is nothing tested");
}

/// Starts everything, sends, seals and ships what can be; every answer of SQL is right or refused.
/// How many rows there were to judge.
async fn go_on(mut cluster: Cluster, checker: &Checker, class: &str, what: &str) -> usize {
    let before = judged(cluster.dir.path()).await;
    cluster.start_processes();
    let http = reqwest::Client::builder().timeout(Duration::from_secs(3)).build().unwrap();
    let mut book = checker.clone();
    let batch = book.batch(3, 10);
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let url = format!("{}/v1/events", cluster.url(WRITER));
        let sent = http.post(url).header("content-type", "application/x-ndjson");
        if let Ok(answer) = sent.body(batch.clone()).send().await
            && answer.status() == 200
        {
            book.acknowledged(&answer.json().await.unwrap());
            break;
        }
    }
    let url = format!("{}/v1/admin/flush?wait=shipped&timeout_ms=1500", cluster.url(WRITER));
    // Whether it can be shipped is not the question; whether what is served is true is.
    let _flushed = http.post(url).send().await;
    let rows = book.judge_rows(&cluster, what).await;
    let told = cluster.output(SHIPPER);
    cluster.kill();
    let after = judged(cluster.dir.path()).await;
    let Some(found) = before.findings.first() else { return rows };
    if after.verdict() == "ok" {
        assert!(is_derived(class), "{what}: repaired: {before:?}");
        assert!(told.contains(found.check), "{what}: repaired in silence: {told}");
    }
    rows
}
