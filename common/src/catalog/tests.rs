//! The lineage's invariants, each broken once and found by its name.

use std::collections::BTreeMap;

use super::*;
use crate::clock::Micros;
use crate::integrity::{Checkpoint, LocalSigner, Note, Signer, VerifyKey, empty_root};
use crate::limits::EPOCH_STEP_MAX;

fn descriptor(shard: u16, start: u64, rows: u32) -> Descriptor {
    Descriptor {
        id: SegmentId { shard, start, rows, hash: [start as u8; 32] },
        bytes: 100,
        object_bytes: 50,
        object_hash: [1; 32],
        range_digest: [2; 32],
        root_after: [(start + u64::from(rows)) as u8; 32],
        time: (Micros(0), Micros(9)),
        ingested_at: (Micros(0), Micros(9)),
        sealed_at: Micros(10),
        schema_version: 1,
        tenants: Some(vec![Descriptor::tenant_digest("t")]),
    }
}

fn author() -> LocalSigner {
    LocalSigner::from_seed("ship", &[9; 32])
}

fn checkpoint(shard: u16, size: u64, root: [u8; 32]) -> CheckpointEntry {
    let origin = crate::integrity::shard_origin("c", shard);
    let signer = LocalSigner::from_seed(&origin, &[shard as u8; 32]);
    let key = VerifyKey { name: origin.clone(), public_key: signer.public_key() };
    let note = Note::sign(Checkpoint { origin, size, root }.to_text(), &signer).unwrap();
    CheckpointEntry { size, root, note: note.to_text(), key: key.to_text() }
}

fn record(catalog: &Catalog, kind: CommitKind, adds: Vec<Descriptor>) -> CommitRecord {
    let checkpoints = adds
        .iter()
        .map(|add| (add.id.shard, checkpoint(add.id.shard, add.end(), add.root_after)))
        .collect::<BTreeMap<_, _>>();
    CommitRecord {
        store_id: [4; 16],
        cluster: "c".into(),
        stream: "n".into(),
        seq: catalog.seq + 1,
        epoch: if kind == CommitKind::Fence { catalog.epoch + 1 } else { catalog.epoch },
        author: author().public_key(),
        nonce: [5; 16],
        previous: catalog.hash,
        kind,
        adds,
        removes: Vec::new(),
        checkpoints,
        committed_at: Micros(11),
    }
}

fn fold(catalog: &Catalog, record: &CommitRecord) -> Catalog {
    let object = record.to_object(&author()).unwrap();
    let (parsed, hash) = CommitRecord::from_object(&object).unwrap();
    assert_eq!(&parsed, record);
    catalog.apply(&parsed, hash).unwrap()
}

fn two_commits() -> Catalog {
    let catalog = Catalog::empty([4; 16], "n");
    let catalog = fold(&catalog, &record(&catalog, CommitKind::Fence, vec![]));
    let adds = vec![descriptor(0, 0, 10), descriptor(0, 10, 5), descriptor(1, 0, 3)];
    fold(&catalog, &record(&catalog, CommitKind::Add, adds))
}

#[test]
fn commits_fold_into_sizes() {
    assert_eq!(two_commits().vector(), BTreeMap::from([(0, 15), (1, 3)]));
}

#[test]
fn each_broken_invariant_has_its_name() {
    let catalog = two_commits();
    type Break = fn(&mut CommitRecord);
    let breaks: [(&str, Break); 11] = [
        ("commit_seq", |r| r.seq += 1),
        ("commit_chain", |r| r.previous[0] ^= 1),
        ("store_id", |r| r.store_id[0] ^= 1),
        ("stream", |r| r.stream.push('x')),
        ("epoch", |r| r.epoch += 1),
        ("author", |r| r.author[0] ^= 1),
        ("cluster", |r| r.cluster.push('x')),
        ("contiguity", |r| r.adds[0].id.start += 1),
        ("checkpoint", |r| r.checkpoints.clear()),
        ("checkpoint_note", |r| r.checkpoints.get_mut(&0).unwrap().note.replace_range(0..1, "d")),
        ("shard_key", |r| {
            let key = VerifyKey { name: "c/0000".into(), public_key: [1; 32] };
            r.checkpoints.get_mut(&0).unwrap().key = key.to_text();
        }),
    ];
    for (name, broken) in breaks {
        let mut record = record(&catalog, CommitKind::Add, vec![descriptor(0, 15, 5)]);
        catalog.apply(&record, [0; 32]).unwrap();
        broken(&mut record);
        assert_eq!(catalog.apply(&record, [0; 32]).unwrap_err().check, name);
    }
}

#[test]
fn every_flipped_byte_of_a_record_is_found() {
    let catalog = two_commits();
    let record = record(&catalog, CommitKind::Add, vec![descriptor(1, 3, 5)]);
    let object = record.to_object(&author()).unwrap();
    for at in 0..object.len() {
        let mut bad = object.clone();
        bad[at] ^= 4;
        let found = CommitRecord::from_object(&bad).unwrap_err();
        assert!(found.check.starts_with("commit"), "byte {at}: {found}");
    }
}

#[test]
fn a_forged_record_with_a_new_checksum_lacks_the_signature() {
    let catalog = two_commits();
    let record = record(&catalog, CommitKind::Add, vec![descriptor(1, 3, 5)]);
    let thief = LocalSigner::from_seed("thief", &[8; 32]);
    let object = record.to_object(&thief).unwrap();
    assert_eq!(CommitRecord::from_object(&object).unwrap_err().check, "commit_signature");
}

#[test]
fn a_snapshot_boots_to_the_same_catalog() {
    let catalog = two_commits();
    let leaves = encode_leaves(&catalog);
    let object = SnapshotRoot::new(&catalog, &leaves).to_object(&author()).unwrap();
    let root = SnapshotRoot::from_object(&object).unwrap();
    let descriptors = leaves
        .iter()
        .zip(&root.leaves)
        .flat_map(|((_, bytes), hash)| decode_leaf(bytes, hash).unwrap())
        .collect();
    let booted = root.into_catalog(descriptors).unwrap();
    assert_eq!(booted.vector(), catalog.vector());
    assert_eq!((booted.seq, booted.hash, booted.epoch), (catalog.seq, catalog.hash, catalog.epoch));
    assert_eq!(booted.shards[&0].checkpoint, catalog.shards[&0].checkpoint);
    let next = record(&catalog, CommitKind::Add, vec![descriptor(0, 15, 5)]);
    fold(&booted, &next);
    for at in 0..object.len() {
        let mut bad = object.clone();
        bad[at] ^= 4;
        assert!(SnapshotRoot::from_object(&bad).is_err(), "byte {at}");
    }
    assert_eq!(decode_leaf(b"other", &leaves[0].0).unwrap_err().check, "snapshot_leaf");
}

#[test]
fn an_empty_shard_may_be_checkpointed() {
    let catalog = two_commits();
    let mut record = record(&catalog, CommitKind::Add, vec![]);
    record.checkpoints.insert(7, checkpoint(7, 0, empty_root()));
    assert_eq!(catalog.apply(&record, [0; 32]).unwrap().vector()[&7], 0);
}

#[test]
fn what_one_shard_adds_moves_no_leaf_of_another() {
    let catalog = fold(
        &Catalog::empty([4; 16], "n"),
        &record(&Catalog::empty([4; 16], "n"), CommitKind::Fence, vec![]),
    );
    let both = vec![descriptor(0, 0, 3), descriptor(1, 0, 2)];
    let catalog = fold(&catalog, &record(&catalog, CommitKind::Add, both));
    let before = encode_leaves(&catalog);
    let catalog = fold(&catalog, &record(&catalog, CommitKind::Add, vec![descriptor(0, 3, 4)]));
    let after = encode_leaves(&catalog);
    assert_eq!((before.len(), after.len()), (2, 2));
    assert_ne!(before[0], after[0]);
    assert_eq!(before[1], after[1]);
}

#[test]
fn a_snapshot_needs_the_writers_signature_for_every_shard() {
    let catalog = two_commits();
    let leaves = encode_leaves(&catalog);
    let descriptors: Vec<Descriptor> =
        leaves.iter().flat_map(|(hash, bytes)| decode_leaf(bytes, hash).unwrap()).collect();
    let mut root = SnapshotRoot::new(&catalog, &leaves);
    root.checkpoints.remove(&1);
    assert_eq!(root.into_catalog(descriptors).unwrap_err().check, "checkpoint");
}

#[test]
fn a_claim_cannot_use_up_the_epochs() {
    let catalog = two_commits();
    for (step, holds) in [(1, true), (EPOCH_STEP_MAX, true), (EPOCH_STEP_MAX + 1, false)] {
        let mut claim = record(&catalog, CommitKind::Fence, vec![]);
        claim.epoch = catalog.epoch + step;
        assert_eq!(catalog.apply(&claim, [0; 32]).is_ok(), holds, "{step}");
    }
    let mut last = record(&catalog, CommitKind::Fence, vec![]);
    last.epoch = u64::MAX;
    assert_eq!(catalog.apply(&last, [0; 32]).unwrap_err().check, "epoch");
}

#[test]
fn copies_of_a_long_list_share_it_and_behave_like_a_vector() {
    let mut segments = Segments::default();
    let mut plain = Vec::new();
    let mut before = segments.clone();
    for start in 0..1_000u64 {
        before = segments.clone();
        segments.push(std::sync::Arc::new(descriptor(0, start * 10, 10)));
        plain.push(start * 10);
        assert_eq!((segments.len(), before.len()), (plain.len(), plain.len() - 1));
        assert_eq!(segments.last().unwrap().id.start, start * 10);
    }
    assert!(segments.shares_chunks_with(&before), "a commit copies a few hundred entries at most");
    let starts = |list: &Segments| list.iter().map(|s| s.id.start).collect::<Vec<_>>();
    assert_eq!(starts(&segments), plain);
    for (index, start) in plain.iter().enumerate() {
        assert_eq!(segments.get(index).unwrap().id.start, *start);
        assert_eq!(segments.at(*start).unwrap().id.start, *start);
        assert!(segments.at(start + 1).is_none());
        assert_eq!(segments.iter().nth(index).unwrap().id.start, *start);
        assert_eq!(segments.iter().skip(index).len(), plain.len() - index);
    }
    assert!(segments.get(1_000).is_none() && segments.iter().nth(1_000).is_none());
    assert!(segments.starts_with(&before) && !before.starts_with(&segments));
}
