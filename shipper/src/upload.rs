//! One shard's next segments into the store: judge, compress, put; nothing is visible yet.

use std::sync::Arc;

use bytes::Bytes;
use sealcast_common::bucket::{Created, Store, StoreError, put_checkpoint, put_leaves};
use sealcast_common::catalog::{CheckpointEntry, Descriptor, ShardCatalog};
use sealcast_common::fault::Corruption;
use sealcast_common::integrity::{Edge, Hash, KeyHistory, check_keys, file_hash, shard_origin};
use sealcast_common::limits::SINGLE_PUT_BYTES_MAX;
use sealcast_common::segment::{SegmentName, decompress};

use crate::error::ShipError;
use crate::fault::{Fault, FaultKind};
use crate::judge::{Candidate, Judged};
use crate::place::{Place, blocking};
use crate::scan::segment_file;
use crate::tiles::edge_at;

/// Contiguous segments of one shard that are not committed yet.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) shard: u16,
    pub(crate) names: Vec<SegmentName>,
    /// Root of the shard's tree before the first.
    pub(crate) root_before: Hash,
    /// The key under which the shard was committed before.
    pub(crate) known_key: Option<String>,
    /// What is committed of it.
    pub(crate) shipped: Option<Arc<ShardCatalog>>,
    /// The edge of its tiles, as the last upload left it.
    pub(crate) edge: Option<Edge>,
    /// What the last attempt found.
    pub(crate) fault: Option<Fault>,
}

/// What of it lies in the store now.
#[derive(Debug)]
pub(crate) struct Uploaded {
    pub(crate) shard: u16,
    pub(crate) adds: Vec<Descriptor>,
    pub(crate) checkpoint: Option<CheckpointEntry>,
    /// The edge of the shard's tiles after them.
    pub(crate) edge: Option<Edge>,
    /// Why the rest does not.
    pub(crate) fault: Option<Fault>,
}

/// S4 for one shard, in order, up to the first segment that fails.
pub(crate) async fn upload(place: Arc<Place>, work: Work) -> Result<Uploaded, ShipError> {
    let mut done =
        Uploaded { shard: work.shard, adds: Vec::new(), checkpoint: None, edge: None, fault: None };
    let keys = match shard_keys(&place, &work).await {
        Ok(key) => key,
        Err(fault) => return Ok(Uploaded { fault: Some(fault), ..done }),
    };
    let mut root_before = work.root_before;
    let mut edge = edge_at(&place, work.shard, work.shipped.as_deref(), work.edge).await?;
    let mut fault = None;
    for name in work.names {
        let candidate = Candidate {
            shard: work.shard,
            file: segment_file(&place.dir, work.shard, &name),
            name,
            cluster: place.node.cluster.clone(),
            root_before,
            keys: keys.clone(),
        };
        let judged = match &work.fault {
            Some(fault) if fault.grounds.as_deref() == Some(&candidate.grounds()) => {
                Err(fault.clone())
            }
            _ => judge(candidate).await,
        };
        let mut judged = match judged {
            Ok(judged) => judged,
            Err(found) => {
                fault = Some(found);
                break;
            }
        };
        root_before = judged.descriptor.root_after;
        done.checkpoint = Some(judged.checkpoint.clone());
        let segment = judged.descriptor.clone();
        let leaves = std::mem::take(&mut judged.leaves);
        // One after the other: a store that refuses the segment is asked for no more.
        let descriptor = put(&place.store, judged).await?;
        put_leaves(&place.store, &segment, &leaves, &mut edge).await?;
        crate::metrics::uploaded(descriptor.object_bytes);
        done.adds.push(descriptor);
        if place.stop.is_cancelled() {
            break;
        }
    }
    // Before the commit that names it: every committed size has its tiles.
    if let Some(checkpoint) = &done.checkpoint {
        put_checkpoint(&place.store, work.shard, checkpoint.clone(), &edge).await?;
    }
    Ok(Uploaded { edge: Some(edge), fault, ..done })
}

/// Bytes that break the judge are as bad as those that fail it: the other shards go on.
async fn judge(candidate: Candidate) -> Result<Judged, Fault> {
    let (file, grounds) = (candidate.file.clone(), Box::new(candidate.grounds()));
    blocking(move || candidate.judge()).await.unwrap_or_else(|broken| {
        let finding =
            Corruption::new("read", None, "a file that can be judged", broken.to_string());
        let fault = Fault::new(FaultKind::Corrupt, &file, finding);
        Err(Fault { grounds: Some(grounds), ..fault })
    })
}

/// The shard's keys: beside the writer's data, else from the writer by HTTP.
async fn shard_keys(place: &Place, work: &Work) -> Result<KeyHistory, Fault> {
    let path = place.dir.public_key_file(work.shard);
    let faulty = |expected: &str, found: String| {
        let finding = Corruption::new("shard_key", None, expected, found);
        Fault::new(FaultKind::Key, &path, finding)
    };
    let text = match (std::fs::read_to_string(&path), &place.writer) {
        (Ok(text), _) => text,
        (Err(error), None) => {
            let expected = "the shard's public key; or set `writer` to ask for it";
            return Err(faulty(expected, error.to_string()));
        }
        (Err(_), Some(writer)) => match writer.public_key(work.shard).await {
            Ok(Some(key)) => key,
            Ok(None) => return Err(faulty("a key from the writer", "no such shard".into())),
            Err(error) => return Err(faulty("a key from the writer", error.to_string())),
        },
    };
    let keys = KeyHistory::parse(&text)
        .map_err(|error| faulty("a key in C2SP text form", error.to_string()))?;
    let origin = shard_origin(&place.node.cluster, work.shard);
    if keys.origin() != origin {
        return Err(faulty(&format!("a key of {origin}"), keys.origin().to_owned()));
    }
    if let Some(known) = &work.known_key {
        check_keys("shard_key", known, &keys.to_text())
            .map_err(|found| faulty(&found.expected, found.found))?;
    }
    Ok(keys)
}

/// Puts the object. One key has one content for ever: an object that an earlier attempt left
/// behind is taken over as it is, if it holds the same file, even when compressed otherwise.
async fn put(store: &Store, judged: Judged) -> Result<Descriptor, StoreError> {
    let Judged { mut descriptor, object, .. } = judged;
    let key = descriptor.key();
    let is_small = object.len() <= SINGLE_PUT_BYTES_MAX;
    if is_small && store.create(&key, object.clone()).await? == Created::New {
        return Ok(descriptor);
    }
    match store.get(&key).await? {
        Some(found) if found == object => {}
        Some(found) if holds(&found, &descriptor) => {
            descriptor.object_bytes = found.len() as u64;
            descriptor.object_hash = file_hash(&found);
        }
        // None, or damaged or vanished: nobody can have committed it.
        _ => store.put(&key, object).await?,
    }
    Ok(descriptor)
}

fn holds(object: &Bytes, descriptor: &Descriptor) -> bool {
    decompress(object, descriptor.bytes).is_ok_and(|file| file_hash(&file) == descriptor.id.hash)
}
