//! Catalogs: what an attacker with every key can make of a stream, and what finds it.

use super::*;

/// Trusts two shards: up to here by the epoch, and shard 0 up to 16 rows by a catalog alone.
async fn begun() -> (World, Trust, Catalog) {
    let (world, mut keeper, anchored) = (World::new(), Keeper::new(1), two_shards());
    keeper.epoch(&world, &anchored).await;
    let mut trust = world.trust();
    world.looks(&mut trust).await.unwrap();
    let grown = add(&anchored, (0, 1), 1, 7);
    trust.hold(&grown, true, |_| None).unwrap();
    trust.accept(&grown);
    trust.save().unwrap();
    (world, trust, grown)
}

fn refused(trust: &Trust, catalog: &Catalog, complete: bool) -> Option<&'static str> {
    trust.hold(catalog, complete, |_| None).err().and_then(|error| error.check())
}

/// A history from nothing, of these segments in this order.
fn history(history: u8, seed: u8, segments: &[(u16, u32)]) -> Catalog {
    segments.iter().fold(empty(), |catalog, segment| add(&catalog, *segment, history, seed))
}

#[tokio::test]
async fn each_attack_on_a_shard_has_its_check() {
    let (world, trust, grown) = begun().await;
    let attacks = [
        ("the stream cut", "cluster_shard", history(1, 7, &[(0, 10)])),
        ("one shard back", "cluster_shard", history(1, 7, &[(0, 10), (1, 3), (1, 1)])),
        ("one shard gone", "cluster_shard", history(1, 7, &[(0, 10), (0, 5), (0, 1)])),
        ("rewritten", "cluster_root", history(2, 7, &[(0, 10), (1, 3), (0, 5)])),
        ("rewritten and grown", "cluster_root", history(2, 7, &[(0, 10), (1, 3), (0, 5), (0, 9)])),
        ("sealed otherwise", "cluster_root", history(1, 7, &[(0, 8), (1, 3), (0, 9), (0, 9)])),
        ("by another key", "shard_key", history(1, 8, &[(0, 10), (1, 3), (0, 5), (0, 1)])),
        ("back to the epoch", "shard_rollback", two_shards()),
        ("rewritten since", "shard_rewritten", add(&two_shards(), (0, 1), 2, 7)),
        ("rewritten since, grown", "shard_rewritten", add(&two_shards(), (0, 9), 1, 7)),
    ];
    let later = world.trust();
    for (attack, check, catalog) in attacks {
        for trust in [&trust, &later] {
            assert_eq!(refused(trust, &catalog, true), Some(check), "{attack}");
        }
    }
    let whole = add(&grown, (1, 2), 1, 7);
    assert_eq!(refused(&trust, &whole, true), None);
    // Whoever knows the commit's hash sees that, too.
    let error = trust.hold(&whole, true, |_| Some([0; 32])).unwrap_err();
    assert_eq!(error.check(), Some("cluster_stream"));
}

#[tokio::test]
async fn a_catalog_on_its_way_is_held_only_as_far_as_it_got() {
    let (_world, trust, _) = begun().await;
    let mut way = empty();
    assert_eq!(refused(&trust, &way, false), None);
    for segment in [(0, 10), (1, 3), (0, 5), (0, 1)] {
        way = add(&way, segment, 1, 7);
        assert_eq!(refused(&trust, &way, false), None, "{segment:?}");
    }
    let mut forged = add(&empty(), (0, 10), 2, 7);
    assert_eq!(refused(&trust, &forged, false), None, "nothing is known of 10 rows");
    forged = add(&forged, (0, 5), 2, 7);
    assert_eq!(refused(&trust, &forged, false), Some("cluster_root"), "before its end");
    assert_eq!(refused(&trust, &add(&empty(), (1, 1), 1, 8), false), Some("shard_key"));
}

#[tokio::test]
async fn streams_and_shards_belong_together() {
    let (world, mut trust, grown) = begun().await;
    let mut renamed = grown.clone();
    renamed.stream = "m".into();
    assert_eq!(refused(&trust, &renamed, true), Some("shard_owner"));
    let mut moved = grown.clone();
    moved.store_id[0] ^= 1;
    assert_eq!(refused(&trust, &moved, true), Some("store_id"));
    let saved = std::fs::read(world.file()).unwrap();
    let gone = trust.conclude(&BTreeMap::new(), |_, _| None).unwrap_err();
    assert_eq!(gone.check(), Some("cluster_stream"));
    // A shard that no epoch names yet: only what was held knows of it.
    let third = add(&grown, (2, 4), 1, 7);
    let both = |catalog: &Catalog| BTreeMap::from([(STREAM.to_owned(), catalog.clone())]);
    trust.conclude(&both(&third), |_, _| None).unwrap();
    assert_ne!(std::fs::read(world.file()).unwrap(), saved);
    let saved = std::fs::read(world.file()).unwrap();
    let hidden = trust.conclude(&both(&add(&grown, (1, 4), 1, 7)), |_, _| None).unwrap_err();
    assert_eq!(hidden.check(), Some("shard_missing"));
    assert_eq!(std::fs::read(world.file()).unwrap(), saved, "nothing is saved unless all held");
}

#[tokio::test]
async fn a_policy_may_name_shards_too() {
    let (world, mut keeper, catalog) = (World::new(), Keeper::new(1), two_shards());
    keeper.epoch(&world, &catalog).await;
    let named = |seed| checkpoint(0, seed, 1, [0; 32]).key;
    for (seed, check) in [(7, None), (8, Some("shard_key"))] {
        let mut trust = world.under(&format!("log {}\n{}", named(seed), keeper.policy("none")));
        world.looks(&mut trust).await.unwrap();
        assert_eq!(refused(&trust, &catalog, true), check);
    }
}
