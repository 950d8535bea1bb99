//! The attacks, in the order of what the attacker has.

use futures::future::BoxFuture;

use super::hands;
use super::insider::Stolen;
use super::scene::Scene;
use crate::output::Failure;

/// What is done to a scene.
pub(super) type Perform = for<'s> fn(&'s Scene, Stolen) -> BoxFuture<'s, Result<(), Failure>>;

/// One attack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attack {
    /// Its name, unique together with what was stolen.
    pub(crate) name: &'static str,
    /// In a sentence.
    pub(crate) what: &'static str,
    /// The keys that the attacker has, besides the bucket.
    pub(crate) stolen: Stolen,
    /// What is judged afterwards: `store`, `writer`, or both.
    pub(crate) target: &'static str,
    /// Any of these checks is meant to find it.
    pub(crate) checks: &'static [&'static str],
    pub(super) perform: Perform,
}

impl Attack {
    /// Performs it on `scene`.
    pub(crate) async fn perform(&self, scene: &Scene) -> Result<(), Failure> {
        (self.perform)(scene, self.stolen).await
    }
}

/// Changes of rows: each is tried with every set of stolen keys.
const CHANGES: [(&str, &str, Perform); 12] = [
    ("action-edited", "one row's action is another", |s, k| Box::pin(hands::action(s, k))),
    ("event-time-edited", "one row's time is an hour earlier", |s, k| Box::pin(hands::time(s, k))),
    ("ingest-time-edited", "one row's ingest time is later", |s, k| Box::pin(hands::ingest(s, k))),
    ("actor-edited", "one row names another actor", |s, k| Box::pin(hands::actor(s, k))),
    ("outcome-edited", "a refusal became a success", |s, k| Box::pin(hands::outcome(s, k))),
    ("attributes-edited", "one row's attributes are gone", |s, k| {
        Box::pin(hands::attributes(s, k))
    }),
    ("re-attributed", "one row belongs to another tenant", |s, k| Box::pin(hands::tenant(s, k))),
    ("swapped-within", "two rows of a shard changed places", |s, k| Box::pin(hands::within(s, k))),
    ("swapped-between", "rows of two shards changed places", |s, k| Box::pin(hands::between(s, k))),
    ("row-dropped", "one row is gone", |s, k| Box::pin(hands::dropped(s, k))),
    ("row-inserted", "a row that never was", |s, k| Box::pin(hands::inserted(s, k))),
    ("facts-edited", "the footer's facts lie, so that queries skip the segment", |s, k| {
        Box::pin(hands::facts(s, k))
    }),
];

/// What finds a change that only the keys up to `stolen` hide.
fn found_by(stolen: Stolen) -> &'static [&'static str] {
    match stolen {
        Stolen::Nothing => &["object_blake3"],
        Stolen::Shipper => &["checkpoint", "checkpoint_note", "commit_missing", "contiguity"],
        Stolen::Shards => &["cluster_root", "cluster_stream"],
        Stolen::Everything => &["cluster_fork"],
    }
}

/// All attacks.
pub(crate) fn attacks() -> Vec<Attack> {
    let mut all = Vec::new();
    let keys = [Stolen::Nothing, Stolen::Shipper, Stolen::Shards, Stolen::Everything];
    for stolen in keys {
        all.extend(OTHERS.iter().filter(|attack| attack.stolen == stolen));
        all.extend(CHANGES.iter().map(|(name, what, perform)| Attack {
            name,
            what,
            stolen,
            target: "store",
            // Whoever has all keys can hide a row, but not make facts true.
            checks: match (*name, stolen >= Stolen::Shards) {
                ("facts-edited", true) => &["facts"],
                _ => found_by(stolen),
            },
            perform: *perform,
        }));
    }
    all
}

const fn on_store(
    name: &'static str,
    what: &'static str,
    checks: &'static [&'static str],
    perform: Perform,
) -> Attack {
    Attack { name, what, stolen: Stolen::Nothing, target: "store", checks, perform }
}

const fn with(attack: Attack, stolen: Stolen) -> Attack {
    Attack { stolen, ..attack }
}

const fn at(attack: Attack, target: &'static str) -> Attack {
    Attack { target, ..attack }
}

/// Everything that is no change of a row.
const OTHERS: [Attack; 27] = [
    on_store("bit-flipped", "one bit of a segment at rest", &["object_blake3", "zstd"], |s, _| {
        Box::pin(hands::bit(s, ".seg.zst"))
    }),
    on_store(
        "segment-deleted",
        "a segment is gone, as an unlogged purge would",
        &["object"],
        |s, _| Box::pin(hands::remove_last(s, "store/sh/0001/seg")),
    ),
    on_store(
        "segments-swapped",
        "segments of two shards changed places",
        &["length", "object_blake3"],
        |s, _| Box::pin(hands::swap_segments(s)),
    ),
    on_store("shard-deleted", "all objects of a shard are gone", &["object"], |s, _| {
        Box::pin(hands::remove(s, &["store/sh/0001"]))
    }),
    on_store(
        "commit-deleted",
        "a commit record in the middle is gone",
        &["commit_missing"],
        |s, _| Box::pin(hands::commit_deleted(s)),
    ),
    on_store(
        "tail-cut",
        "the newest commit and all hints to it are gone",
        &["cluster_stream"],
        |s, _| Box::pin(hands::tail_cut(s)),
    ),
    on_store("stream-deleted", "the whole commit log is gone", &["commit_missing"], |s, _| {
        Box::pin(hands::remove(s, &["store/st"]))
    }),
    on_store(
        "old-backup",
        "the bucket as it was before the last events",
        &["cluster_rollback"],
        |s, _| Box::pin(hands::restore(s, &["store"])),
    ),
    on_store(
        "frozen-log",
        "an old cluster log beside new commits",
        &["cluster_rollback"],
        |s, _| Box::pin(hands::restore(s, &["store/cluster"])),
    ),
    on_store("cluster-log-deleted", "no cluster log any more", &["cluster_missing"], |s, _| {
        Box::pin(hands::remove(s, &["store/cluster"]))
    }),
    on_store(
        "epoch-deleted",
        "one leaf of the cluster log is gone",
        &["cluster_missing"],
        |s, _| Box::pin(hands::remove_last(s, "store/cluster/log")),
    ),
    on_store(
        "epoch-edited",
        "one bit of a leaf of the cluster log",
        &["cluster_record"],
        |s, _| Box::pin(hands::bit(s, "store/cluster/log/")),
    ),
    on_store("proof-tile-edited", "a leaf's hash that proofs are made from", &["tile"], |s, _| {
        Box::pin(hands::bit(s, ".pack"))
    }),
    on_store(
        "checkpoint-edited",
        "one bit of a signed checkpoint",
        &["checkpoint_object"],
        |s, _| Box::pin(hands::bit(s, "store/sh/0000/ckpt/")),
    ),
    on_store(
        "stream-index-edited",
        "the list of streams names another",
        &["stream_index"],
        |s, _| Box::pin(hands::index(s)),
    ),
    on_store("store-id-edited", "the store says that it is another", &["store_file"], |s, _| {
        Box::pin(hands::bit(s, "SEALCAST.json"))
    }),
    at(
        on_store("sealed-deleted", "the writer's last segment is gone", &["contiguity"], |s, _| {
            Box::pin(hands::remove_ending(s, "writer/sealed/0001", ".seg"))
        }),
        "writer",
    ),
    at(
        on_store("key-replaced", "a shard has another public key", &["shard_key"], |s, _| {
            Box::pin(hands::public_key(s))
        }),
        "writer",
    ),
    at(
        on_store(
            "disk-rolled-back",
            "the writer's disk from an old backup",
            &["sealed_missing"],
            |s, _| Box::pin(hands::restore(s, &["writer"])),
        ),
        "",
    ),
    at(
        with(
            on_store("disk-cloned", "a clone of the disk went on by itself", &["fork"], |s, _| {
                Box::pin(hands::cloned(s))
            }),
            Stolen::Everything,
        ),
        "",
    ),
    with(
        on_store(
            "shard-rolled-back",
            "a shard without its last rows",
            &["cluster_shard"],
            |s, k| Box::pin(hands::rolled_back(s, k)),
        ),
        Stolen::Shards,
    ),
    with(
        on_store("shard-hidden", "a shard that no commit tells of", &["cluster_shard"], |s, k| {
            Box::pin(hands::hidden(s, k))
        }),
        Stolen::Shards,
    ),
    with(
        on_store(
            "shard-rolled-back",
            "a shard without its last rows",
            &["cluster_fork"],
            |s, k| Box::pin(hands::rolled_back(s, k)),
        ),
        Stolen::Everything,
    ),
    with(
        on_store("shard-hidden", "a shard that nothing tells of", &["cluster_fork"], |s, k| {
            Box::pin(hands::hidden(s, k))
        }),
        Stolen::Everything,
    ),
    with(
        on_store(
            "rewritten-and-grown",
            "another history, longer than ours",
            &["cluster_fork"],
            |s, k| Box::pin(hands::grown(s, k)),
        ),
        Stolen::Everything,
    ),
    with(
        on_store("index-edited", "the id index hides a row", &["index"], |s, k| {
            Box::pin(hands::id_index(s, k))
        }),
        Stolen::Everything,
    ),
    with(
        on_store("keys-swapped", "everything anew, under other keys", &["cluster_key"], |s, k| {
            Box::pin(hands::other_keys(s, k))
        }),
        Stolen::Everything,
    ),
];
