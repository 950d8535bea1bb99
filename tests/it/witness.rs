//! The shipper's client of witnesses against the real witness, each behind its own door.

use std::path::Path;

use sealcast_common::integrity::{
    Checkpoint, CompactRange, Hash, LocalSigner, Note, Policy, Signer as _, VerifyKey,
    consistency_runs, leaf_hash,
};
use sealcast_shipper::cosign::{CosignError, WitnessOutcome, Witnesses};
use sealcast_witness::{Config, Handle, Seams};
use tokio_util::sync::CancellationToken;

const ORIGIN: &str = "example.com/log";

fn signer() -> LocalSigner {
    LocalSigner::from_seed(ORIGIN, &[7; 32])
}

/// Root of a run of leaves as a tree of its own; `salt` makes another history.
fn root(salt: u64, begin: u64, end: u64) -> Hash {
    let mut range = CompactRange::empty(0);
    (begin..end)
        .for_each(|leaf| range.append(leaf_hash(&[leaf, salt].map(u64::to_be_bytes).concat())));
    range.root().unwrap()
}

fn note(salt: u64, size: u64) -> Note {
    let checkpoint = Checkpoint { origin: ORIGIN.into(), size, root: root(salt, 0, size) };
    Note::sign(checkpoint.to_text(), &signer()).unwrap()
}

async fn asked(witnesses: &mut Witnesses, note: &mut Note, salt: u64) -> Vec<WitnessOutcome> {
    let size = Checkpoint::parse(&note.text).unwrap().size;
    let prove = |old| async move {
        let runs = consistency_runs(old, size).into_iter();
        Ok::<Vec<Hash>, String>(runs.map(|(begin, end)| root(salt, begin, end)).collect())
    };
    witnesses.cosign(note, prove).await
}

async fn witness(folder: &Path, name: &str) -> (Handle, CancellationToken) {
    let key = VerifyKey { name: ORIGIN.into(), public_key: signer().public_key() };
    let config = Config {
        data: folder.join(name),
        http: "127.0.0.1:0".into(),
        name: Some(name.into()),
        known_log: vec![key.to_text()],
        ..Config::default()
    };
    let stop = CancellationToken::new();
    let handle = sealcast_witness::start(config, Seams::default(), stop.clone()).await.unwrap();
    (handle, stop)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quorum_of_witnesses_cosigns_and_a_second_history_gets_none() {
    let folder = tempfile::tempdir().unwrap();
    let (first, stop_first) = witness(folder.path(), "w1.example").await;
    let (second, stop_second) = witness(folder.path(), "w2.example").await;
    let (third, stop_third) = witness(folder.path(), "w3.example").await;
    // The policy has another key for the third: what it answers is nobody's.
    let stranger = LocalSigner::from_seed("w3.example", &[9; 32]);
    let mut wrong = third.key.clone();
    wrong.public_key = stranger.public_key();
    let text = format!(
        "witness a {} http://{}\nwitness b {} http://{}/\nwitness c {} http://{}\n\
         group two 2 a b c\nquorum two\n",
        first.key.to_text(),
        first.http,
        second.key.to_text(),
        second.http,
        wrong.to_text(),
        third.http
    );
    let policy = Policy::parse(&text).unwrap();
    let mut witnesses = Witnesses::new(&policy, reqwest::Client::new());
    let mut cosigned = note(0, 5);
    let outcomes = asked(&mut witnesses, &mut cosigned, 0).await;
    assert!(outcomes[0].result.is_ok() && outcomes[1].result.is_ok(), "{outcomes:?}");
    assert!(matches!(outcomes[2].result, Err(CosignError::Signature(_))), "{outcomes:?}");
    assert_eq!(policy.cosigned(&cosigned).unwrap().len(), 2);
    assert_eq!(cosigned.signatures.len(), 3);
    // A client that remembers nothing recovers by what they tell it.
    let mut witnesses = Witnesses::new(&policy, reqwest::Client::new());
    let mut grown = note(0, 9);
    asked(&mut witnesses, &mut grown, 0).await;
    assert_eq!(policy.cosigned(&grown).unwrap().len(), 2);
    // Another history of the same size, and of a greater one, and an older state.
    for (salt, size) in [(1, 9), (1, 12), (0, 7)] {
        let mut other = note(salt, size);
        for outcome in &asked(&mut witnesses, &mut other, salt).await[..2] {
            match &outcome.result {
                Err(CosignError::Refused { status: 422, .. }) if size > 7 => {}
                Err(CosignError::Ahead { theirs: 9, ours: 7 }) if size == 7 => {}
                result => panic!("size {size} of history {salt}: {result:?}"),
            }
        }
        policy.cosigned(&other).unwrap_err();
    }
    for (handle, stop) in [(first, stop_first), (second, stop_second), (third, stop_third)] {
        stop.cancel();
        handle.join().await.unwrap();
    }
}
