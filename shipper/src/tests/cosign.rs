//! The client of witnesses against servers that answer as told. `tests/it/witness.rs` holds it
//! against the real one.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::post;
use sealcast_common::integrity::{
    AddCheckpoint, Checkpoint, CosignerKey, Hash, LocalSigner, Note, Policy, Signer as _,
};

use crate::cosign::{CosignError, WitnessOutcome, Witnesses};

const TIME: u64 = 1_764_720_000;

/// What a witness answers to the request with this number.
type Script = dyn Fn(usize, AddCheckpoint) -> (u16, String) + Send + Sync;

/// A server that answers by `script`, and what it was asked.
pub(super) struct Fake {
    pub(super) url: String,
    pub(super) asked: Arc<Mutex<Vec<AddCheckpoint>>>,
}

pub(super) async fn fake(
    script: impl Fn(usize, AddCheckpoint) -> (u16, String) + Send + Sync + 'static,
) -> Fake {
    let (script, asked): (Arc<Script>, _) = (Arc::new(script), Arc::new(Mutex::new(Vec::new())));
    let kept = Arc::clone(&asked);
    let answer = move |body: String| async move {
        let request = AddCheckpoint::parse(&body).unwrap();
        let number = {
            let mut asked = kept.lock().unwrap();
            asked.push(request.clone());
            asked.len()
        };
        let (status, body) = script(number, request);
        (StatusCode::from_u16(status).unwrap(), body)
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let router = Router::new().route("/add-checkpoint", post(answer));
    tokio::spawn(async move { axum::serve(listener, router).await });
    Fake { url, asked }
}

pub(super) fn signer(name: &str) -> LocalSigner {
    let mut seed = [0; 32];
    seed[..name.len()].copy_from_slice(name.as_bytes());
    LocalSigner::from_seed(name, &seed)
}

pub(super) fn line(by: &LocalSigner, request: &AddCheckpoint) -> String {
    Note::parse(&request.checkpoint).unwrap().cosign(by, TIME).unwrap()
}

fn witnesses(members: &[(&str, &str)]) -> Witnesses {
    let mut text = String::new();
    for (name, url) in members {
        let signer = signer(name);
        let key = CosignerKey { name: (*name).into(), public_key: signer.public_key() };
        text.push_str(&format!("witness {name} {} {url}\n", key.to_text()));
    }
    let policy = Policy::parse(&format!("{text}quorum none\n")).unwrap();
    Witnesses::new(&policy, reqwest::Client::new())
}

fn note(size: u64) -> Note {
    let checkpoint = Checkpoint { origin: "log".into(), size, root: [1; 32] };
    Note::sign(checkpoint.to_text(), &signer("log")).unwrap()
}

/// A proof that says from where it is.
async fn proof(old: u64) -> Result<Vec<Hash>, String> {
    let mut hash = [0; 32];
    hash[..8].copy_from_slice(&old.to_be_bytes());
    Ok(vec![hash])
}

async fn one(fake: &Fake, size: u64) -> Result<u64, CosignError> {
    let mut outcomes = witnesses(&[("w", &fake.url)]).cosign(&mut note(size), proof).await;
    assert_eq!(outcomes.len(), 1);
    outcomes.remove(0).result
}

#[tokio::test]
async fn a_conflict_tells_from_where_to_prove_and_is_remembered() {
    let fake = fake(|number, request| match number {
        1 => (409, "3\n".into()),
        _ => (200, line(&signer("w"), &request)),
    })
    .await;
    let mut witnesses = witnesses(&[("w", &fake.url)]);
    let mut first = note(7);
    let outcomes = witnesses.cosign(&mut first, proof).await;
    assert_eq!(outcomes, [WitnessOutcome { name: "w".into(), result: Ok(TIME) }]);
    let key = CosignerKey { name: "w".into(), public_key: signer("w").public_key() };
    assert_eq!(first.verify_cosignature(&key), Ok(TIME));
    // Again: no proof of a size to itself, and one cosignature in the note.
    witnesses.cosign(&mut first, proof).await;
    assert_eq!(first.signatures.len(), 2);
    witnesses.cosign(&mut note(9), proof).await;
    let (proof_3, proof_7) = (proof(3).await.unwrap(), proof(7).await.unwrap());
    let asked = fake.asked.lock().unwrap();
    let from: Vec<_> = asked.iter().map(|request| (request.old, request.proof.clone())).collect();
    assert_eq!(from, [(0, vec![]), (3, proof_3), (7, vec![]), (7, proof_7)]);
}

#[tokio::test]
async fn a_witness_that_is_ahead_tells_of_a_rollback() {
    let fake = fake(|_, _| (409, "8\n".into())).await;
    let error = one(&fake, 7).await.unwrap_err();
    assert_eq!(error, CosignError::Ahead { theirs: 8, ours: 7 });
    assert!(error.to_string().contains("rolled back"), "{error}");
}

#[tokio::test]
async fn a_witness_that_moves_is_left_to_the_next_round() {
    let fake = fake(|number, _| (409, format!("{}\n", number + 1))).await;
    assert_eq!(one(&fake, 70).await, Err(CosignError::Moving));
    assert_eq!(fake.asked.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn only_what_verifies_by_the_key_of_the_policy_is_kept() {
    let stranger = fake(|_, request| (200, line(&signer("stranger"), &request))).await;
    let unsigned =
        CosignError::Signature(sealcast_common::integrity::NoteError::Unsigned("w".into()));
    assert_eq!(one(&stranger, 7).await, Err(unsigned));
    // Its key, another text.
    let other = fake(|_, _| (200, note(6).cosign(&signer("w"), TIME).unwrap())).await;
    assert_eq!(one(&other, 7).await.unwrap_err().word(), "signature");
    // A time of zero says that nothing is said of time.
    let timeless = fake(|_, request| {
        let mut note = Note::parse(&request.checkpoint).unwrap();
        (200, note.cosign(&signer("w"), 0).unwrap())
    })
    .await;
    assert_eq!(one(&timeless, 7).await.unwrap_err().word(), "signature");
    // Beside others, the right one is found and nothing else kept.
    let both = fake(|_, request| {
        let lines = [line(&signer("stranger"), &request), line(&signer("w"), &request)];
        (200, lines.concat())
    })
    .await;
    let mut cosigned = note(7);
    let outcomes = witnesses(&[("w", &both.url)]).cosign(&mut cosigned, proof).await;
    assert_eq!((outcomes[0].result.clone(), cosigned.signatures.len()), (Ok(TIME), 2));
}

#[tokio::test]
async fn answers_outside_the_protocol_are_told() {
    let words = [
        (fake(|_, _| (200, "hello\n".into())).await, "answer"),
        (fake(|_, _| (200, "x".repeat(20_000))).await, "answer"),
        (fake(|_, _| (409, "07\n".into())).await, "answer"),
        (fake(|_, _| (409, "0\n".into())).await, "answer"),
        (fake(|_, _| (422, "size 7\nhas another root".into())).await, "refused"),
        (Fake { url: "http://127.0.0.1:1".into(), asked: Arc::default() }, "unreachable"),
        (Fake { url: "nonsense".into(), asked: Arc::default() }, "unreachable"),
    ];
    for (fake, word) in words {
        assert_eq!(one(&fake, 7).await.unwrap_err().word(), word, "{}", fake.url);
    }
    let conflict = fake(|_, _| (409, "3\n".into())).await;
    let unproved = |_| std::future::ready(Err::<Vec<Hash>, _>("no tiles"));
    let outcomes = witnesses(&[("w", &conflict.url)]).cosign(&mut note(7), unproved).await;
    let error = CosignError::Proof { old: 3, reason: "no tiles".into() };
    assert_eq!(outcomes[0].result, Err(error));
    let mut text = note(7);
    text.text = "no checkpoint\n".into();
    let outcomes = witnesses(&[("w", &conflict.url)]).cosign(&mut text, proof).await;
    assert_eq!(outcomes[0].result.clone().unwrap_err().word(), "checkpoint");
}

#[tokio::test]
async fn one_that_is_silent_does_not_keep_the_others() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent_url = format!("http://{}", silent.local_addr().unwrap());
    let good = fake(|_, request| (200, line(&signer("w"), &request))).await;
    let limit = Duration::from_secs(2);
    let mut asked = witnesses(&[("s", &silent_url), ("w", &good.url)]).within(limit);
    let mut cosigned = note(7);
    // As a task: the future may change threads.
    let outcomes = tokio::spawn(async move { asked.cosign(&mut cosigned, proof).await });
    let outcomes = outcomes.await.unwrap();
    assert_eq!(outcomes[0].result, Err(CosignError::Timeout(limit)));
    assert_eq!(outcomes[1].result, Ok(TIME));
}
