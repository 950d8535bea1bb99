//! The cluster log: rollback, forks, keys, witnesses, damage, and what the file keeps.

use super::*;
use crate::catalog::names::{CLUSTER_HEAD_KEY, cluster_checkpoint_key, cluster_record_key};

/// A store whose first epoch is trusted and saved.
async fn begun() -> (World, Keeper, Trust, Catalog) {
    let (world, mut keeper, catalog) = (World::new(), Keeper::new(1), two_shards());
    keeper.epoch(&world, &catalog).await;
    let mut trust = world.trust();
    assert!(matches!(world.looks(&mut trust).await.unwrap(), Look::News(_)));
    conclude(&mut trust, &catalog).unwrap();
    (world, keeper, trust, catalog)
}

fn conclude(trust: &mut Trust, catalog: &Catalog) -> Result<(), TrustError> {
    trust.conclude(&[(catalog.stream.clone(), catalog.clone())].into(), |_, _| None)
}

fn store(world: &World) -> Store {
    Store::open(world.dir.path().join("store").to_str().unwrap()).unwrap()
}

#[tokio::test]
async fn trust_begins_with_a_policy_or_with_a_word() {
    let (world, mut keeper) = (World::new(), Keeper::new(1));
    let refused = Trust::open(&world.file(), Arc::new(RealFiles), None, false);
    assert!(matches!(refused, Err(TrustError::Begin { .. })), "{refused:?}");
    assert_eq!(world.looks(&mut world.trust()).await.unwrap(), Look::Absent);
    keeper.epoch(&world, &two_shards()).await;
    let mut named = world.under(&keeper.policy("none"));
    assert!(matches!(world.looks(&mut named).await.unwrap(), Look::News(_)));
    assert_eq!(world.looks(&mut named).await.unwrap(), Look::Same);
    let mut other = world.under(&Keeper::new(2).policy("none"));
    assert_eq!(world.refuses(&mut other).await, "cluster_key");
    let mut unwitnessed = world.under(&keeper.policy("w"));
    assert_eq!(world.refuses(&mut unwitnessed).await, "cluster_quorum");
    assert!(!world.file().exists(), "nothing was held yet");
    // Cosignatures that come later make it good, at the same size.
    keeper.cosigned = Some(1_000);
    let text = keeper.note().to_text();
    store(&world).put(CLUSTER_HEAD_KEY, text.into()).await.unwrap();
    assert!(matches!(world.looks(&mut unwitnessed).await.unwrap(), Look::News(_)));
    assert!(matches!(world.looks(&mut named).await.unwrap(), Look::News(_)));
    assert_eq!(named.state().cluster.size(), 4);
}

#[tokio::test]
async fn what_is_trusted_survives_and_grows() {
    let (world, mut keeper, trust, catalog) = begun().await;
    let mut again = world.trust();
    assert_eq!(again.state(), trust.state());
    assert_eq!(world.looks(&mut again).await.unwrap(), Look::Same);
    let mut strict = world.under(&Keeper::new(2).policy("none"));
    assert_eq!(world.refuses(&mut strict).await, "cluster_key", "a policy that came later");
    let mut witnessed = world.under(&keeper.policy("w"));
    assert_eq!(world.refuses(&mut witnessed).await, "cluster_quorum");
    let mut grown = catalog;
    for rows in 1..300 {
        grown = add(&grown, (1, rows), 1, 7);
        keeper.epoch(&world, &grown).await;
    }
    // Beyond a bundle of leaves, from a state in the middle of one.
    assert!(matches!(world.looks(&mut again).await.unwrap(), Look::News(_)));
    conclude(&mut again, &grown).unwrap();
    assert_eq!(world.trust().state(), again.state());
    assert_eq!(again.state().cluster.size(), 303);
    assert_eq!(again.state().shards[&1].checkpoint.size, grown.shards[&1].size());
    assert_eq!(world.evidence(), 0);
}

#[tokio::test]
async fn a_bucket_from_an_old_backup_is_a_rollback() {
    let (old, mut keeper, _, catalog) = begun().await;
    let (now, mut ahead) = (World::new(), keeper.clone());
    // The same history, one epoch further on, is what was trusted.
    ahead.state = ClusterState::default();
    (ahead.edge, ahead.open) = (Edge::default(), Vec::new());
    ahead.epoch(&now, &catalog).await;
    ahead.epoch(&now, &add(&catalog, (0, 1), 1, 7)).await;
    let mut trust = now.trust();
    now.looks(&mut trust).await.unwrap();
    assert_eq!(old.refuses(&mut trust).await, "cluster_rollback");
    assert_eq!(now.evidence(), 1, "both notes are kept beside the state");
    // An old head alone is a hint that lags, and so is one that is gone or broken.
    store(&now).put(CLUSTER_HEAD_KEY, keeper.note().to_text().into()).await.unwrap();
    assert_eq!(now.looks(&mut trust).await.unwrap(), Look::Behind);
    store(&now).put(CLUSTER_HEAD_KEY, "nothing".into()).await.unwrap();
    assert_eq!(now.looks(&mut trust).await.unwrap(), Look::Behind);
    assert_eq!(World::new().refuses(&mut trust).await, "cluster_rollback");
    // It heals: the store is looked at again.
    keeper.epoch(&old, &add(&catalog, (0, 1), 1, 7)).await;
    assert_eq!(old.looks(&mut trust).await.unwrap(), Look::Same);
}

#[tokio::test]
async fn two_histories_are_a_fork_however_long() {
    let (world, _, mut trust, _) = begun().await;
    let mut forged = add(&add(&empty(), (0, 15), 2, 7), (1, 3), 2, 7);
    // Who begins anew has no say: only the one with a state sees it.
    for (epochs, evidence) in [(1, 1), (2, 2), (5, 3)] {
        let (other, mut thief) = (World::new(), Keeper::new(1));
        for _ in 0..epochs {
            thief.epoch(&other, &forged).await;
            forged = add(&forged, (0, 1), 2, 7);
        }
        assert_eq!(other.refuses(&mut trust).await, "cluster_fork", "{epochs} epochs");
        assert!(matches!(other.looks(&mut other.trust()).await.unwrap(), Look::News(_)));
        assert_eq!(world.evidence(), evidence);
    }
    let error = {
        let (other, mut thief) = (World::new(), Keeper::new(1));
        thief.epoch(&other, &add(&add(&empty(), (0, 16), 3, 7), (1, 3), 3, 7)).await;
        trust.look(&other.log).await.unwrap_err()
    };
    let TrustError::Contradiction { evidence: Some(path), .. } = error else { panic!("{error}") };
    let kept: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let key = VerifyKey::parse(kept["key"].as_str().unwrap()).unwrap();
    let notes = ["trusted", "shown"].map(|name| {
        let note = Note::parse(kept[name].as_str().unwrap()).unwrap();
        note.verify(&key).unwrap();
        Checkpoint::parse(&note.text).unwrap()
    });
    assert_eq!(notes[0].size, notes[1].size);
    assert_ne!(notes[0].root, notes[1].root);
}

#[tokio::test]
async fn another_key_is_refused_and_damage_is_no_fork() {
    let (world, mut keeper, mut trust, catalog) = begun().await;
    let (other, mut thief) = (World::new(), Keeper::new(3));
    for _ in 0..3 {
        thief.epoch(&other, &catalog).await;
    }
    assert_eq!(other.refuses(&mut trust).await, "cluster_key");
    let (next, before) = (add(&catalog, (0, 1), 1, 7), world.evidence());
    keeper.epoch(&world, &next).await;
    let key = cluster_record_key(4);
    let leaf = store(&world).get(&key).await.unwrap().unwrap();
    let mut flipped = leaf.to_vec();
    *flipped.last_mut().unwrap() ^= 1;
    store(&world).put(&key, flipped.into()).await.unwrap();
    let check = world.refuses(&mut trust).await;
    assert!(["cluster_note", "cluster_stream", "cluster_record"].contains(&check), "{check}");
    std::fs::remove_file(world.dir.path().join("store").join(&key)).unwrap();
    assert_eq!(world.refuses(&mut trust).await, "cluster_missing");
    assert_eq!(world.evidence(), before + 1, "the note that its leaves do not give");
    store(&world).put(&key, leaf).await.unwrap();
    assert!(matches!(world.looks(&mut trust).await.unwrap(), Look::News(_)));
    // What stood at the trusted size is another checkpoint now, and the head is gone.
    std::fs::remove_file(world.dir.path().join("store").join(CLUSTER_HEAD_KEY)).unwrap();
    store(&world).put(&cluster_checkpoint_key(5), "rot".into()).await.unwrap();
    assert_eq!(world.refuses(&mut trust).await, "cluster_rollback");
}

#[tokio::test]
async fn an_old_view_is_stale_by_its_witnesses() {
    let (world, mut keeper) = (World::new(), Keeper::new(1));
    keeper.cosigned = Some(1_000);
    keeper.epoch(&world, &two_shards()).await;
    let mut trust = world.under(&keeper.policy("w"));
    world.looks(&mut trust).await.unwrap();
    assert_eq!(trust.cosigned_at(), Some(Micros(1_000_000_000)));
    trust.check_fresh(Micros(1_060_000_000), 60_000).unwrap();
    let stale = trust.check_fresh(Micros(1_060_001_000), 60_000).unwrap_err();
    assert_eq!(stale.check(), Some("cluster_stale"));
    assert_eq!(world.trust().cosigned_at(), None, "nobody is named");
}

#[tokio::test]
async fn a_damaged_state_is_an_error_and_never_begun_anew() {
    let (world, _, trust, _) = begun().await;
    let text = std::fs::read(world.file()).unwrap();
    let damaged = |bytes: &[u8]| {
        RealFiles.write_new(&world.file(), bytes).unwrap();
        let error = Trust::open(&world.file(), Arc::new(RealFiles), None, true).unwrap_err();
        assert_eq!(error.check(), Some("trust_state"), "{error}");
    };
    for at in 0..text.len() - 1 {
        let mut flipped = text.clone();
        flipped[at] ^= 1 << (at % 8);
        damaged(&flipped);
    }
    for end in [0, 1, text.len() / 2, text.len() - 3] {
        damaged(&text[..end]);
    }
    let shown = String::from_utf8(text.clone()).unwrap();
    let (bare, _) = shown.rsplit_once(",\n  \"crc32\"").unwrap();
    damaged(format!("{bare}\n}}\n").as_bytes());
    // With a fresh checksum: the note has signed another tree.
    let mut state = trust.state().clone();
    state.cluster.tree.append([1; 32]);
    damaged(&state.to_text());
    RealFiles.write_new(&world.file(), &text).unwrap();
    assert_eq!(world.trust().state(), trust.state());
}
