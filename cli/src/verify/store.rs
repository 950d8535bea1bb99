//! An object store: every stream's log followed from its first record, every segment judged.

use arrow_buffer::Buffer;
use sealcast_common::bucket::{CreateOnlyLog, Store, StoreError};
use sealcast_common::catalog::names::{STORE_KEY, STREAMS_PREFIX, commit_key, snapshot_leaf_key};
use sealcast_common::catalog::{Catalog, CommitRecord, Descriptor, SnapshotRoot, decode_leaf};
use sealcast_common::fault::{Corruption, hex, unhex};
use sealcast_common::integrity::{CompactRange, file_hash, range_digest};
use sealcast_common::segment::{Expectation, decompress, verify_segment};
use sealcast_common::wire::StoreFile;

use super::{OnProgress, Report};

pub(super) async fn verify(store: &Store, progress: OnProgress<'_>) -> Report {
    let store_id = match store_id(store).await {
        Ok(store_id) => store_id,
        Err(why) => return Report::cannot(format!("{}: {why}", store.name())),
    };
    let streams = match store.list_folders(STREAMS_PREFIX).await {
        Ok(streams) => streams,
        Err(error) => return Report::cannot(error.to_string()),
    };
    let mut report = Report::default();
    for stream in streams {
        let (catalog, hashes) = follow(store, store_id, &stream, &mut report).await;
        snapshots(store, &stream, &hashes, &mut report).await;
        let total = catalog.segments().count() as u64;
        for shard in catalog.shards.values() {
            let mut tree = Some(CompactRange::empty(0));
            for descriptor in &shard.segments {
                tree = segment(store, &catalog.cluster, descriptor, tree, &mut report).await;
                progress(report.segments, total, "segments");
            }
        }
    }
    report
}

async fn store_id(store: &Store) -> Result<[u8; 16], String> {
    let found = store.get(STORE_KEY).await.map_err(|error| error.to_string())?;
    let bytes = found.ok_or("no SEALCAST.json: not a store of Sealcast")?;
    let file: StoreFile = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
    unhex(&file.store_id).ok_or_else(|| format!("store id {:?} is no 32 hex digits", file.store_id))
}

/// Folds the log until it ends or breaks; answers the catalog and the hash of every record.
async fn follow(
    store: &Store,
    store_id: [u8; 16],
    stream: &str,
    report: &mut Report,
) -> (Catalog, Vec<[u8; 32]>) {
    let log = CreateOnlyLog::new(store.clone(), stream, commit_key);
    let mut catalog = Catalog::empty(store_id, stream);
    let mut hashes = vec![catalog.hash];
    loop {
        let key = log.key(catalog.seq + 1);
        let object = match log.read(catalog.seq + 1).await {
            Ok(Some(object)) => object,
            Ok(None) => return (catalog, hashes),
            Err(error) => {
                report.unchecked.push(error.to_string());
                return (catalog, hashes);
            }
        };
        report.bytes += object.len() as u64;
        let next = CommitRecord::from_object(&object)
            .and_then(|(record, hash)| catalog.apply(&record, hash));
        match next {
            Ok(next) => {
                catalog = next;
                hashes.push(catalog.hash);
                report.commits += 1;
            }
            Err(found) => {
                report.findings.push(found.in_object(key));
                return (catalog, hashes);
            }
        }
    }
}

/// Every snapshot: signed, its leaves whole, and of the lineage that was followed.
async fn snapshots(store: &Store, stream: &str, hashes: &[[u8; 32]], report: &mut Report) {
    let roots = match store.list_all(&format!("{STREAMS_PREFIX}/{stream}/snap")).await {
        Ok(roots) => roots,
        Err(error) => {
            report.unchecked.push(error.to_string());
            return;
        }
    };
    for (key, _) in roots {
        match snapshot(store, stream, &key, hashes).await {
            Ok(Ok(())) => {}
            Ok(Err(found)) => report.findings.push(found.in_object(key)),
            Err(error) => report.unchecked.push(error.to_string()),
        }
    }
}

async fn snapshot(
    store: &Store,
    stream: &str,
    key: &str,
    hashes: &[[u8; 32]],
) -> Result<Result<(), Corruption>, StoreError> {
    let gone = |what: &str| Corruption::new("object", None, what, "no such object");
    let Some(object) = store.get(key).await? else { return Ok(Err(gone("the snapshot"))) };
    let root = match SnapshotRoot::from_object(&object) {
        Ok(root) => root,
        Err(found) => return Ok(Err(found)),
    };
    for hash in &root.leaves {
        let leaf_key = snapshot_leaf_key(stream, hash);
        let Some(leaf) = store.get(&leaf_key).await? else {
            return Ok(Err(gone("the snapshot's leaf").in_object(leaf_key)));
        };
        if let Err(found) = decode_leaf(&leaf, hash) {
            return Ok(Err(found.in_object(leaf_key)));
        }
    }
    // A record that could not be followed to is reported already; its snapshot cannot be compared.
    let known = usize::try_from(root.seq).ok().and_then(|seq| hashes.get(seq));
    Ok(match known {
        Some(hash) if *hash != root.hash => {
            Err(Corruption::new("commit_chain", None, hex(hash), hex(&root.hash)))
        }
        _ => Ok(()),
    })
}

/// One object in full. Answers the tree after it, as its own seal tells when it is sound.
async fn segment(
    store: &Store,
    cluster: &str,
    descriptor: &Descriptor,
    tree: Option<CompactRange>,
    report: &mut Report,
) -> Option<CompactRange> {
    let key = descriptor.key();
    let object = match store.get(&key).await {
        Ok(Some(object)) => object,
        Ok(None) => {
            let found = Corruption::new("object", None, "the object", "no such object");
            report.findings.push(found.in_object(key));
            return None;
        }
        Err(error) => {
            report.unchecked.push(error.to_string());
            return None;
        }
    };
    report.bytes += object.len() as u64;
    match judge(&object, cluster, descriptor, tree) {
        Ok(tree) => {
            report.segments += 1;
            report.rows += u64::from(descriptor.id.rows);
            Some(tree)
        }
        Err(found) => {
            report.findings.push(found.in_object(key));
            None
        }
    }
}

fn judge(
    object: &[u8],
    cluster: &str,
    descriptor: &Descriptor,
    tree: Option<CompactRange>,
) -> Result<CompactRange, Corruption> {
    let found = file_hash(object);
    if found != descriptor.object_hash {
        // The frames may say where.
        decompress(object, descriptor.bytes)?;
        let expected = hex(&descriptor.object_hash);
        return Err(Corruption::new("object_blake3", None, expected, hex(&found)));
    }
    let raw = decompress(object, descriptor.bytes)?;
    let expect = Expectation {
        file_hash: Some(descriptor.id.hash.to_vec()),
        bytes: Some(descriptor.bytes),
        cluster: Some(cluster.to_owned()),
        shard: Some(descriptor.id.shard),
        range: Some((descriptor.id.start, descriptor.end())),
        frontier: tree,
        root_after: Some(descriptor.root_after),
    };
    let (view, _) = verify_segment(Buffer::from(raw), &expect)?;
    let seal = view.seal();
    let digest = range_digest(&seal.range_nodes);
    let facts = (descriptor.time, descriptor.ingested_at);
    if digest != descriptor.range_digest || facts != (seal.facts.time, seal.facts.ingested_at) {
        return Err(Corruption::new("descriptor", None, "the seal's figures", "others"));
    }
    let mut tree = CompactRange::from_nodes(0, seal.start, seal.frontier_before.clone())?;
    tree.merge(&CompactRange::from_nodes(seal.start, seal.end, seal.range_nodes.clone())?)?;
    Ok(tree)
}
