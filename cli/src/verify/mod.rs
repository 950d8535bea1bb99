//! Offline verification: what is there is read, judged, and counted; nobody is trusted.
//!
//! Reading order: [`Report`] (the verdict), `data_dir` and `shard` (a writer's folder), `store` and
//! `stream` (an object store), `tiles` and `cluster` (the logs beside its rows), `pair` (one against the other), `file` (one file), `files` (reading
//! what somebody else may have prepared), `trusting` (whom to
//! believe, and what was seen before), `evidence` (what is kept of a verdict).

mod args;
mod cluster;
mod data_dir;
pub(crate) mod evidence;
mod file;
mod files;
mod pair;
mod proof;
mod shard;
mod store;
mod stream;
mod tiles;
mod trusting;

#[cfg(test)]
mod tests;

pub(crate) use args::VerifyArgs;
pub(crate) use shard::signed_tree;
pub(crate) use trusting::Trusting;

use std::path::Path;

use sealcast_common::bucket::Store;
use sealcast_common::catalog::names::{STORE_KEY, STREAMS_PREFIX};
use sealcast_common::fault::Corruption;
use sealcast_common::layout::DataDir;
use serde::Serialize;

/// Where a long verification stands: (done, total, what).
pub type OnProgress<'a> = &'a (dyn Fn(u64, u64, &str) + Sync);

/// What was checked and what was found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// Segments read and judged in full.
    pub segments: u64,
    /// Rows whose leaves were derived again.
    pub rows: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Commit records followed.
    pub commits: u64,
    /// Events in logs that are not sealed yet.
    pub tail_events: u64,
    /// Leaves of the cluster log.
    pub cluster_leaves: u64,
    /// Rows that the newest epoch of the cluster log covers.
    pub anchored_rows: u64,
    /// Shards that are not in the cluster log.
    pub unanchored: Vec<u16>,
    /// What is wrong.
    pub findings: Vec<Corruption>,
    /// What could not be checked, and why.
    pub unchecked: Vec<String>,
}

impl Report {
    /// `ok`, `tampered` or `cannot check`.
    pub fn verdict(&self) -> &'static str {
        match (self.findings.is_empty(), self.unchecked.is_empty()) {
            (false, _) => "tampered",
            (true, false) => "cannot check",
            (true, true) => "ok",
        }
    }

    /// 0, 1 or 2.
    pub fn exit_code(&self) -> u8 {
        match self.verdict() {
            "ok" => 0,
            "tampered" => 1,
            _ => 2,
        }
    }

    fn add(&mut self, other: Report) {
        self.segments += other.segments;
        self.rows += other.rows;
        self.bytes += other.bytes;
        self.commits += other.commits;
        self.tail_events += other.tail_events;
        self.cluster_leaves += other.cluster_leaves;
        self.anchored_rows += other.anchored_rows;
        self.unanchored.extend(other.unanchored);
        self.findings.extend(other.findings);
        self.unchecked.extend(other.unchecked);
    }

    fn cannot(why: impl Into<String>) -> Self {
        Report { unchecked: vec![why.into()], ..Report::default() }
    }
}

/// Verifies whatever `target` is: a URL, a store's folder, a writer's folder, a folder that holds
/// both (as `demo` and `dev` make it), or one file.
pub async fn verify(target: &str, progress: OnProgress<'_>) -> Report {
    verify_by(target, Trusting::default(), progress).await
}

/// The same; a store must be what `trusting` says.
pub(crate) async fn verify_by(
    target: &str,
    mut trusting: Trusting,
    progress: OnProgress<'_>,
) -> Report {
    if target.contains("://") && !target.starts_with("file://") {
        return match Store::open(target) {
            Ok(opened) => store::verify(&opened, &mut trusting, progress).await.0,
            Err(error) => Report::cannot(error.to_string()),
        };
    }
    let path = Path::new(target.strip_prefix("file://").unwrap_or(target));
    if path.is_file() {
        if path.extension().is_some_and(|extension| extension == "tlog-proof") {
            let whom = (trusting.policy.as_ref(), trusting.keys.as_ref());
            return proof::verify(path, trusting.leaf.as_deref(), whom);
        }
        return file::verify(path);
    }
    if !path.is_dir() {
        return Report::cannot(format!("{target}: no such file or folder"));
    }
    let mut report = Report::default();
    let (mut folders, mut stores) = (Vec::new(), Vec::new());
    let mut seen = false;
    for candidate in [path.to_owned(), path.join("writer"), path.join("store")] {
        if data_dir::is_one(&candidate) {
            seen = true;
            let (checked, folder) = data_dir::verify(DataDir::new(&candidate), progress);
            report.add(checked);
            folders.extend(folder);
        }
        if candidate.join(STORE_KEY).exists() || candidate.join(STREAMS_PREFIX).is_dir() {
            seen = true;
            match candidate.to_str().map(Store::open) {
                Some(Ok(opened)) => {
                    let (checked, followed) = store::verify(&opened, &mut trusting, progress).await;
                    report.add(checked);
                    stores.push(followed);
                }
                Some(Err(error)) => report.unchecked.push(error.to_string()),
                None => report.unchecked.push("a folder name that is not UTF-8".into()),
            }
        }
    }
    if !seen {
        let expected = "expected node.json (a writer's folder) or SEALCAST.json (a store)";
        return Report::cannot(format!("{target} holds nothing of Sealcast: {expected}"));
    }
    for (folder, store) in folders.iter().flat_map(|folder| stores.iter().map(move |s| (folder, s)))
    {
        pair::compare(folder, store, &mut report);
    }
    report
}
