//! What the cluster log accepts, and which rule each lie breaks.

use super::*;
use crate::clock::Micros;
use crate::integrity::{LocalSigner, Signer as _, VerifyKey};

fn key(name: &str) -> String {
    let signer = LocalSigner::from_seed(name, &[7; 32]);
    VerifyKey { name: name.to_owned(), public_key: signer.public_key() }.to_text()
}

fn genesis() -> ClusterRecord {
    let (cluster, key) = ("c".to_owned(), key("c/cluster"));
    ClusterRecord::Genesis { cluster, store_id: [1; 16], key, time: Micros(10) }
}

fn added(shard: u16) -> ClusterRecord {
    let key = key(&format!("c/{shard:04x}"));
    ClusterRecord::ShardAdded { shard, key, stream: "s".into() }
}

fn epoch(number: u64, previous: Option<u64>, sizes: &[(u16, u64, u8)], seq: u64) -> Epoch {
    let point =
        |&(shard, size, root): &(u16, u64, u8)| ShardPoint { shard, size, root: [root; 32] };
    Epoch {
        number,
        previous,
        time: Micros(10 + number as i64),
        shards: sizes.iter().map(point).collect(),
        streams: vec![StreamPoint { stream: "s".into(), seq, hash: [seq as u8; 32] }],
    }
}

fn apply(state: &mut ClusterState, record: &ClusterRecord) -> Result<(), &'static str> {
    let leaf = record.to_leaf().unwrap();
    assert_eq!(&ClusterRecord::from_leaf(&leaf).unwrap(), record);
    let before = state.clone();
    state.apply(&leaf).map(|_| ()).map_err(|finding| {
        assert_eq!(*state, before, "a refused record changed the state");
        finding.check
    })
}

/// Genesis, shard 0 and 1, one epoch with 5 and 7 rows at commit 3.
fn begun() -> ClusterState {
    let mut state = ClusterState::default();
    apply(&mut state, &genesis()).unwrap();
    apply(&mut state, &added(0)).unwrap();
    apply(&mut state, &added(1)).unwrap();
    let first = epoch(1, None, &[(0, 5, 5), (1, 7, 7)], 3);
    apply(&mut state, &ClusterRecord::Epoch(first)).unwrap();
    state
}

#[test]
fn epochs_grow() {
    let mut state = begun();
    assert_eq!((state.size(), state.epoch), (4, Some((1, 3))));
    let next = epoch(2, Some(3), &[(0, 5, 5), (1, 9, 9)], 4);
    apply(&mut state, &ClusterRecord::Epoch(next)).unwrap();
    assert_eq!(state.shards[&1].size, 9);
}

#[test]
fn every_lie_breaks_a_named_rule() {
    let lies = [
        ("cluster_shard", epoch(2, Some(3), &[(0, 5, 5)], 4)),
        ("cluster_shard", epoch(2, Some(3), &[(0, 5, 5), (1, 7, 7), (2, 1, 1)], 4)),
        ("cluster_shard", epoch(2, Some(3), &[(1, 7, 7), (0, 5, 5)], 4)),
        ("cluster_shard", epoch(2, Some(3), &[(0, 4, 4), (1, 7, 7)], 4)),
        ("cluster_root", epoch(2, Some(3), &[(0, 5, 6), (1, 7, 7)], 4)),
        ("cluster_stream", epoch(2, Some(3), &[(0, 5, 5), (1, 7, 7)], 2)),
        ("cluster_epoch", epoch(3, Some(3), &[(0, 5, 5), (1, 7, 7)], 4)),
        ("cluster_epoch", epoch(2, Some(2), &[(0, 5, 5), (1, 7, 7)], 4)),
        (
            "cluster_epoch",
            Epoch { time: Micros(0), ..epoch(2, Some(3), &[(0, 5, 5), (1, 7, 7)], 4) },
        ),
    ];
    for (check, lie) in lies {
        let shown = format!("{lie:?}");
        let refused = apply(&mut begun(), &ClusterRecord::Epoch(lie));
        assert_eq!(refused, Err(check), "{shown}");
    }
    let other = Epoch {
        streams: vec![StreamPoint { stream: "s".into(), seq: 3, hash: [9; 32] }],
        ..epoch(2, Some(3), &[(0, 5, 5), (1, 7, 7)], 3)
    };
    assert_eq!(apply(&mut begun(), &ClusterRecord::Epoch(other)), Err("cluster_stream"));
    let hidden = Epoch { streams: Vec::new(), ..epoch(2, Some(3), &[(0, 5, 5), (1, 7, 7)], 4) };
    assert_eq!(apply(&mut begun(), &ClusterRecord::Epoch(hidden)), Err("cluster_stream"));
    assert_eq!(apply(&mut begun(), &genesis()), Err("cluster_record"));
    assert_eq!(apply(&mut begun(), &added(1)), Err("cluster_shard"));
    assert_eq!(apply(&mut ClusterState::default(), &added(1)), Err("cluster_record"));
    let foreign = ClusterRecord::ShardAdded { shard: 2, key: key("c/0003"), stream: "s".into() };
    assert_eq!(apply(&mut begun(), &foreign), Err("cluster_key"));
}

#[test]
fn damaged_leaves_are_refused_and_never_panic() {
    let leaf =
        ClusterRecord::Epoch(epoch(2, Some(3), &[(0, 5, 5), (1, 9, 9)], 4)).to_leaf().unwrap();
    for at in 0..leaf.len() {
        let _cut = ClusterRecord::from_leaf(&leaf[..at]).unwrap_err();
        let mut flipped = leaf.clone();
        flipped[at] ^= 0x55;
        // What still parses is another record, and another leaf hash.
        if let Ok(record) = ClusterRecord::from_leaf(&flipped) {
            assert_eq!(record.to_leaf().unwrap(), flipped);
        }
    }
}
