//! An object store: every stream's log followed from its first record, every segment judged.

use arrow_buffer::Buffer;
use sealcast_common::bucket::{Store, StoreError, StreamIndex};
use sealcast_common::catalog::Descriptor;
use sealcast_common::catalog::names::{
    STORE_FORMAT, STORE_KEY, STREAM_INDEX_PREFIX, STREAMS_PREFIX, commit_key,
};
use sealcast_common::checked;
use sealcast_common::fault::{Corruption, hex, unhex};
use sealcast_common::integrity::{CompactRange, Hash, file_hash, range_digest};
use sealcast_common::segment::{Expectation, decompress, verify_segment_leaves};
use sealcast_common::wire::StoreFile;

use super::cluster::{self, ClusterLog};
use super::files::Unread;
use super::stream::{self, Followed};
use super::tiles::TileCheck;
use super::trusting::Trusting;
use super::{OnProgress, Report};

/// What is known of a store, to be compared with a writer's folder.
#[derive(Debug)]
pub(super) struct FollowedStore {
    pub(super) streams: Vec<Followed>,
    pub(super) cluster: ClusterLog,
}

/// Verifies everything, under a policy if there is one; answers too what was followed.
pub(super) async fn verify(
    store: &Store,
    trusting: &mut Trusting,
    progress: OnProgress<'_>,
) -> (Report, FollowedStore) {
    let mut report = Report::default();
    let mut followed = FollowedStore { streams: Vec::new(), cluster: ClusterLog::Broken };
    let found = match find(store).await {
        Ok(Ok(found)) => found,
        Ok(Err(why)) => {
            report.book(Err(why));
            return (report, followed);
        }
        Err(error) => return (Report::cannot(error.to_string()), followed),
    };
    let (store_id, streams) = found;
    match index(store).await {
        Ok(findings) => report.findings.extend(findings),
        Err(error) => report.unchecked.push(error.to_string()),
    }
    trusting.look(store, &mut report).await;
    followed.cluster = cluster::follow(store, store_id, &mut report).await;
    for name in streams {
        let stream = stream::verify(store, store_id, &name, &mut report).await;
        let catalog = &stream.catalog;
        let (before, total) = (report.segments, catalog.segments().count() as u64);
        for (number, shard) in &catalog.shards {
            let (cluster, size) = (&catalog.cluster, shard.size());
            let mut tiles = TileCheck::new(store, cluster, *number, size, &mut report).await;
            let mut tree = Some(CompactRange::empty(0));
            for descriptor in &shard.segments {
                let judged = segment(store, cluster, descriptor, tree, &mut report).await;
                let leaves = judged.as_ref().map(|(_, leaves)| leaves.as_slice());
                tiles.segment(descriptor, leaves, &mut report).await;
                tree = judged.map(|(tree, _)| tree);
                progress(report.segments - before, total, "segments");
            }
        }
        followed.streams.push(stream);
    }
    if let ClusterLog::Whole(log) = &followed.cluster {
        cluster::compare(log, &followed.streams, &mut report);
    }
    if let Some(policy) = &trusting.policy {
        cluster::judge(policy, &followed.cluster, &followed.streams, &mut report);
    }
    trusting.conclude(&followed.streams, &mut report);
    (report, followed)
}

type Found = ([u8; 16], Vec<String>);

/// The store's id and its streams. Segments that no log tells of, or logs in a store without its
/// identity, are what is left when somebody has removed the rest.
async fn find(store: &Store) -> Result<Result<Found, Unread>, StoreError> {
    let bytes = store.get(STORE_KEY).await?;
    let streams = store.list_folders(STREAMS_PREFIX).await?;
    let bad = |found: String| {
        let found = Corruption::new("store_file", None, "format and store id", found);
        Ok(Err(found.in_object(STORE_KEY).into()))
    };
    if streams.is_empty() && !store.list_folders("sh").await?.is_empty() {
        let found = Corruption::new("commit_missing", None, "the log of the segments", "no stream");
        return Ok(Err(found.in_object(STREAMS_PREFIX).into()));
    }
    let Some(bytes) = bytes else {
        if streams.is_empty() {
            let why = format!("{}: no {STORE_KEY}: not a store of Sealcast", store.name());
            return Ok(Err(Unread::Cannot(why)));
        }
        return bad("no such object".into());
    };
    let file: StoreFile = match checked::parse("store_file", &bytes) {
        Ok(file) => file,
        Err(found) => return Ok(Err(found.in_object(STORE_KEY).into())),
    };
    if file.format != STORE_FORMAT {
        let why = format!("format {}, expected {STORE_FORMAT}; use another sealcast", file.format);
        return Ok(Err(Unread::Cannot(format!("{}: {why}", store.name()))));
    }
    match unhex(&file.store_id) {
        None => bad(format!("store id {:?}", file.store_id)),
        Some(_) if streams.is_empty() => {
            let why = format!("{}: no shipper has written to it yet", store.name());
            Ok(Err(Unread::Cannot(why)))
        }
        Some(id) => Ok(Ok((id, streams))),
    }
}

/// Every entry of the index names a stream that has a log: it is written after the first record.
async fn index(store: &Store) -> Result<Vec<Corruption>, StoreError> {
    let mut findings = Vec::new();
    for (key, _) in store.list_all(STREAM_INDEX_PREFIX).await? {
        let entry = store.get(&key).await?.unwrap_or_default();
        let found = match StreamIndex::stream_of(&entry) {
            Some(name) if store.get(&commit_key(&name, 1)).await?.is_some() => continue,
            Some(name) => name,
            None => "no name".into(),
        };
        let found = Corruption::new("stream_index", None, "the name of a stream", found);
        findings.push(found.in_object(key));
    }
    Ok(findings)
}

/// The tree after a segment, as its own seal tells, and its leaves.
type Judged = (CompactRange, Vec<Hash>);

/// One object in full; `None` where it is not sound.
async fn segment(
    store: &Store,
    cluster: &str,
    descriptor: &Descriptor,
    tree: Option<CompactRange>,
    report: &mut Report,
) -> Option<Judged> {
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
        Ok(judged) => {
            report.segments += 1;
            report.rows += u64::from(descriptor.id.rows);
            Some(judged)
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
) -> Result<Judged, Corruption> {
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
    let (view, leaves) = verify_segment_leaves(Buffer::from(raw), &expect)?;
    let seal = view.seal();
    let digest = range_digest(&seal.range_nodes);
    let facts = (descriptor.time, descriptor.ingested_at);
    if digest != descriptor.range_digest || facts != (seal.facts.time, seal.facts.ingested_at) {
        return Err(Corruption::new("descriptor", None, "the seal's figures", "others"));
    }
    let mut tree = CompactRange::from_nodes(0, seal.start, seal.frontier_before.clone())?;
    tree.merge(&CompactRange::from_nodes(seal.start, seal.end, seal.range_nodes.clone())?)?;
    Ok((tree, leaves))
}
