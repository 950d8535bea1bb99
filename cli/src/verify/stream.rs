//! A stream's log: followed from its first record, and held against everything that bears witness
//! to its length: later records, snapshots, and the head.
//!
//! What has been listed before the log was followed must be in it, as logs only grow.

use std::collections::BTreeMap;

use sealcast_common::bucket::{CreateOnlyLog, Store, StoreError};
use sealcast_common::catalog::names::{STREAMS_PREFIX, commit_key, head_key, snapshot_leaf_key};
use sealcast_common::catalog::{Catalog, CommitRecord, SnapshotRoot, decode_leaf};
use sealcast_common::checked;
use sealcast_common::fault::{Corruption, hex};
use sealcast_common::wire::HeadFile;

use super::Report;

/// A stream as far as its log can be followed.
#[derive(Debug)]
pub(super) struct Followed {
    pub(super) catalog: Catalog,
    /// Every record was read up to the log's end.
    pub(super) whole: bool,
    commits: BTreeMap<u64, Commit>,
}

/// What a snapshot of a commit must say.
#[derive(Debug, PartialEq, Eq)]
struct Commit {
    hash: [u8; 32],
    epoch: u64,
    author: [u8; 32],
    segments: usize,
}

/// What the store has besides the segments.
struct Witnesses {
    last_record: u64,
    snapshots: Vec<String>,
    head: Option<bytes::Bytes>,
}

/// Follows `stream` and compares its witnesses.
pub(super) async fn verify(
    store: &Store,
    store_id: [u8; 16],
    stream: &str,
    report: &mut Report,
) -> Followed {
    let witnesses = match witnesses(store, stream).await {
        Ok(witnesses) => Some(witnesses),
        Err(error) => {
            report.unchecked.push(error.to_string());
            None
        }
    };
    let followed = follow(store, store_id, stream, report).await;
    let Some(witnesses) = witnesses else { return followed };
    if followed.whole {
        // A stream begins with its first record.
        let (least, witness) =
            (witnesses.last_record.max(1), "the stream or a later record stands");
        if let Err(found) = followed.reaches(least, witness) {
            report.findings.push(found);
        }
        if let Some(bytes) = &witnesses.head
            && let Err(found) = followed.head(bytes, &witnesses.snapshots)
        {
            report.findings.push(found.in_object(head_key(stream)));
        }
    }
    for key in witnesses.snapshots {
        match snapshot(store, &key, &followed).await {
            Ok(Ok(())) => {}
            Ok(Err(found)) => report.findings.push(found.in_object(key)),
            Err(error) => report.unchecked.push(error.to_string()),
        }
    }
    followed
}

/// The head first: what it names was there before it.
async fn witnesses(store: &Store, stream: &str) -> Result<Witnesses, StoreError> {
    let head = store.get(&head_key(stream)).await?;
    let names = store.list_all(&format!("{STREAMS_PREFIX}/{stream}/log")).await?;
    let seqs = names.iter().filter_map(|(key, _)| key.rsplit('/').next()?.parse().ok());
    let snapshots = store.list_all(&format!("{STREAMS_PREFIX}/{stream}/snap")).await?;
    Ok(Witnesses {
        last_record: seqs.max().unwrap_or(0),
        snapshots: snapshots.into_iter().map(|(key, _)| key).collect(),
        head,
    })
}

/// Folds the log until it ends or breaks.
async fn follow(store: &Store, store_id: [u8; 16], stream: &str, report: &mut Report) -> Followed {
    let log = CreateOnlyLog::new(store.clone(), stream, commit_key);
    let catalog = Catalog::empty(store_id, stream);
    let mut followed = Followed { catalog, whole: false, commits: BTreeMap::new() };
    let mut segments = 0;
    loop {
        let catalog = &followed.catalog;
        let key = log.key(catalog.seq + 1);
        let object = match log.read(catalog.seq + 1).await {
            Ok(Some(object)) => object,
            Ok(None) => {
                followed.whole = true;
                return followed;
            }
            Err(error) => {
                report.unchecked.push(error.to_string());
                return followed;
            }
        };
        report.bytes += object.len() as u64;
        let next = CommitRecord::from_object(&object).and_then(|(record, hash)| {
            segments += record.adds.len();
            catalog.apply(&record, hash)
        });
        match next {
            Ok(next) => {
                let (hash, epoch, author) = (next.hash, next.epoch, next.author);
                followed.commits.insert(next.seq, Commit { hash, epoch, author, segments });
                followed.catalog = next;
                report.commits += 1;
            }
            Err(found) => {
                report.findings.push(found.in_object(key));
                return followed;
            }
        }
    }
}

impl Followed {
    /// The hash of commit `seq`.
    pub(super) fn hash_at(&self, seq: u64) -> Option<[u8; 32]> {
        self.commits.get(&seq).map(|commit| commit.hash)
    }

    /// The log has commit `seq`, as `witness` says.
    pub(super) fn reaches(&self, seq: u64, witness: &str) -> Result<(), Corruption> {
        if seq <= self.catalog.seq {
            return Ok(());
        }
        let key = commit_key(&self.catalog.stream, self.catalog.seq + 1);
        let expected = format!("a log up to {seq}: {witness}");
        Err(Corruption::new("commit_missing", None, expected, "no such record").in_object(key))
    }

    /// The head is a hint that nobody trusts, but no shipper ever wrote one that is ahead.
    fn head(&self, bytes: &[u8], snapshots: &[String]) -> Result<(), Corruption> {
        let bad = |expected: String, found: String| Corruption::new("head", None, expected, found);
        let head: HeadFile = checked::parse("head", bytes)?;
        if let Some(key) = head.snapshot.filter(|key| !snapshots.contains(key)) {
            return Err(bad("a snapshot that stands".into(), key));
        }
        match self.commits.get(&head.seq) {
            Some(commit) if hex(&commit.hash) == head.hash => Ok(()),
            Some(commit) => Err(bad(hex(&commit.hash), head.hash)),
            None => {
                let expected = format!("a commit of the log, which ends at {}", self.catalog.seq);
                Err(bad(expected, format!("commit {}", head.seq)))
            }
        }
    }

    /// The snapshot says what the log says.
    fn matches(&self, root: SnapshotRoot, segments: &Catalog) -> Result<(), Corruption> {
        let Some(commit) = self.commits.get(&root.seq) else {
            // Behind a record that cannot be followed nothing can be compared.
            let witness = "a snapshot of it stands";
            return if self.whole { self.reaches(root.seq, witness) } else { Ok(()) };
        };
        if commit.hash != root.hash {
            return Err(Corruption::new("commit_chain", None, hex(&commit.hash), hex(&root.hash)));
        }
        let same = segments.shards.iter().all(|(shard, snapped)| {
            let logged = self.catalog.shards.get(shard);
            logged.is_some_and(|logged| logged.segments.starts_with(&snapped.segments))
        });
        let found = Commit {
            hash: root.hash,
            epoch: root.epoch,
            author: root.author,
            segments: segments.segments().count(),
        };
        if same && found == *commit {
            return Ok(());
        }
        let show = |c: &Commit| {
            format!("{} segments by {} in epoch {}", c.segments, hex(&c.author), c.epoch)
        };
        Err(Corruption::new("snapshot_anchor", None, show(commit), show(&found)))
    }
}

/// A snapshot: signed, its leaves whole, and of the lineage that was followed.
async fn snapshot(
    store: &Store,
    key: &str,
    followed: &Followed,
) -> Result<Result<(), Corruption>, StoreError> {
    let gone = |what: &str| Corruption::new("object", None, what, "no such object");
    let Some(object) = store.get(key).await? else { return Ok(Err(gone("the snapshot"))) };
    let root = match SnapshotRoot::from_object(&object) {
        Ok(root) => root,
        Err(found) => return Ok(Err(found)),
    };
    let mut descriptors = Vec::new();
    for hash in &root.leaves {
        let leaf_key = snapshot_leaf_key(&followed.catalog.stream, hash);
        let Some(leaf) = store.get(&leaf_key).await? else {
            return Ok(Err(gone("the snapshot's leaf").in_object(leaf_key)));
        };
        match decode_leaf(&leaf, hash) {
            Ok(leaf) => descriptors.extend(leaf),
            Err(found) => return Ok(Err(found.in_object(leaf_key))),
        }
    }
    let catalog = root.clone().into_catalog(descriptors);
    Ok(catalog.and_then(|catalog| followed.matches(root, &catalog)))
}
