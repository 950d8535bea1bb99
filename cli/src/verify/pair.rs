//! A writer's folder against the store that it ships to: each shows what the other has lost.

use sealcast_common::catalog::names::{CLUSTER_HEAD_KEY, commit_key};
use sealcast_common::catalog::{Catalog, Descriptor};
use sealcast_common::fault::{Corruption, hex};
use sealcast_common::integrity::check_keys;
use sealcast_common::segment::SegmentName;

use super::Report;
use super::cluster::ClusterLog;
use super::data_dir::{Folder, Keeper, sealed};
use super::files::{Unread, read_text};
use super::store::FollowedStore;

/// The folder was verified first, so the store has everything that `shipped.json` told of; the
/// sealed files are listed again, as the store may be ahead of what was seen then.
pub(super) fn compare(folder: &Folder, store: &FollowedStore, report: &mut Report) {
    let streams = &store.streams;
    if let Some(keeper) = &folder.keeper {
        report.book(signed(keeper, &store.cluster));
    }
    let stream = &folder.node.node;
    let told = folder.shipped.as_ref().map_or(0, |file| file.seq);
    let Some(followed) = streams.iter().find(|found| found.catalog.stream == *stream) else {
        if told > 0 {
            let expected = format!("a log up to {told}, as shipped.json says");
            let found = Corruption::new("commit_missing", None, expected, "no such stream");
            report.findings.push(found.in_object(commit_key(stream, 1)));
        }
        return;
    };
    let catalog = &followed.catalog;
    if followed.whole
        && let Err(found) = followed.reaches(told, "shipped.json says so")
    {
        report.findings.push(found);
    }
    if !catalog.cluster.is_empty() && catalog.cluster != folder.node.cluster {
        let (expected, found) = (catalog.cluster.as_str(), folder.node.cluster.as_str());
        let found = Corruption::new("cluster", None, expected, found);
        report.findings.push(found.in_object(folder.dir.node_file().display().to_string()));
        return;
    }
    for shard in catalog.shards.keys() {
        report.book(segments(folder, *shard, catalog));
        report.book(key(folder, *shard, catalog));
    }
}

/// The store has what the keeper signed, with the same roots: all of it, or all but what it was
/// still to publish when it stopped.
fn signed(keeper: &Keeper, cluster: &ClusterLog) -> Result<(), Unread> {
    let size = keeper.signed.size();
    let due = if keeper.pending.end() == size { keeper.pending.first } else { size };
    let bad = |check, expected: String, found: String| {
        let found = Corruption::new(check, None, expected, found);
        Err(found.in_object(CLUSTER_HEAD_KEY).into())
    };
    let log = match cluster {
        ClusterLog::Broken => return Ok(()),
        ClusterLog::Absent if due == 0 => return Ok(()),
        ClusterLog::Absent => {
            let expected = format!("a cluster log of {due} leaves, as its keeper has signed");
            return bad("cluster_missing", expected, "no such object".into());
        }
        ClusterLog::Whole(log) if log.state.key != keeper.key && size == 0 => return Ok(()),
        ClusterLog::Whole(log) => log,
    };
    // A hand-over that was not published yet lies in the folder alone.
    check_keys("cluster_key", &log.state.key, &keeper.key)
        .map_err(|found| found.in_object(CLUSTER_HEAD_KEY))?;
    if log.state.size() < due {
        let expected = format!("{due} leaves, as its keeper has signed");
        return bad("cluster_missing", expected, format!("{} leaves", log.state.size()));
    }
    let root = usize::try_from(size).ok().and_then(|at| log.roots.get(at));
    match root.filter(|root| *root != keeper.signed.root()) {
        Some(root) => {
            let expected = format!("root {} at {size}, as signed", hex(keeper.signed.root()));
            bad("cluster_root", expected, hex(root))
        }
        None => Ok(()),
    }
}

/// Every committed segment lies in the folder, under the same range and hash.
fn segments(folder: &Folder, shard: u16, catalog: &Catalog) -> Result<(), Unread> {
    let local = sealed(&folder.dir, shard)?;
    let place = folder.dir.sealed_dir(shard).display().to_string();
    for committed in catalog.shards.get(&shard).into_iter().flat_map(|shard| &shard.segments) {
        let wanted = name(committed);
        if local.binary_search(&wanted).is_ok() {
            continue;
        }
        let same_place = local.iter().find(|local| local.start == wanted.start);
        let check = if same_place.is_some() { "fork" } else { "sealed_missing" };
        let found = same_place.map_or("no such file".into(), SegmentName::file_name);
        let expected = format!("{} as committed", wanted.file_name());
        return Err(Corruption::new(check, None, expected, found).in_object(place).into());
    }
    Ok(())
}

fn name(descriptor: &Descriptor) -> SegmentName {
    let id = &descriptor.id;
    SegmentName::new(id.start, id.rows, &id.hash)
}

/// The shard was committed under the key that lies in the folder.
fn key(folder: &Folder, shard: u16, catalog: &Catalog) -> Result<(), Unread> {
    let committed = catalog.shards.get(&shard).and_then(|shard| shard.checkpoint.as_ref());
    let Some(committed) = committed else { return Ok(()) };
    let path = folder.dir.public_key_file(shard);
    let ours = read_text(&path, "the shard's public key")?;
    check_keys("shard_key", &committed.key, ours.trim())
        .map_err(|found| found.in_object(path.display().to_string()))?;
    Ok(())
}
