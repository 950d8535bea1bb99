//! Every answer of a witness, by its status.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::tests::{leaves, range, reference_root};
use super::*;

const ORIGIN: &str = "example.com/log";

fn signer() -> LocalSigner {
    LocalSigner::from_seed(ORIGIN, &[7; 32])
}

fn key() -> VerifyKey {
    VerifyKey { name: ORIGIN.into(), public_key: signer().public_key() }
}

fn root(size: u64) -> Hash {
    range(0, &leaves(usize::try_from(size).unwrap())).root().unwrap()
}

fn checkpoint(size: u64) -> Checkpoint {
    Checkpoint { origin: ORIGIN.into(), size, root: root(size) }
}

fn signed(checkpoint: &Checkpoint) -> String {
    Note::sign(checkpoint.to_text(), &signer()).unwrap().to_text()
}

fn proof(old: u64, new: u64) -> Vec<Hash> {
    let all = leaves(usize::try_from(new).unwrap());
    let run = |(begin, end): (u64, u64)| {
        let (begin, end) = (usize::try_from(begin).unwrap(), usize::try_from(end).unwrap());
        reference_root(&all[begin..end])
    };
    consistency_runs(old, new).into_iter().map(run).collect()
}

fn request(old: u64, new: u64) -> AddCheckpoint {
    AddCheckpoint { old, proof: proof(old, new), checkpoint: signed(&checkpoint(new)) }
}

/// The witness's answer to the text of a request.
fn answer(request: &AddCheckpoint, last: Option<&Checkpoint>) -> Result<(), Refusal> {
    let parsed = AddCheckpoint::parse(&request.to_text())?;
    assert_eq!(parsed, *request);
    let keys = [key()];
    let admitted = parsed.admit(|origin| (origin == ORIGIN).then_some(&keys[..]))?;
    admitted.decide(&parsed, last)
}

#[test]
fn growth_is_cosigned_from_nothing_and_from_every_size() {
    for new in 0..20 {
        assert_eq!(answer(&request(0, new), None), Ok(()));
        for old in 0..=new {
            let last = checkpoint(old);
            assert_eq!(answer(&request(old, new), Some(&last)), Ok(()), "{old} to {new}");
        }
    }
}

#[test]
fn text_is_strict() {
    let good = request(3, 7).to_text();
    assert!(AddCheckpoint::parse(&good).is_ok());
    let hash = format!("{}\n", BASE64.encode([1; 32]));
    let many = format!("old 3\n{}\n{}", hash.repeat(64), signed(&checkpoint(7)));
    let bad = [
        good.replacen("old 3\n", "", 1),
        good.replacen("old 3", "old 03", 1),
        good.replacen("old 3", "old +3", 1),
        good.replacen("old 3", "old  3", 1),
        good.replacen("old 3", "old 3 ", 1),
        good.replacen("old 3", "old 18446744073709551616", 1),
        good.replacen("old 3\n", "old 3\r\n", 1),
        good.replacen("=\n", "\n", 1),
        good.replacen("\n\n", "\n", 1).split("\n\n").next().unwrap().to_owned(),
        many,
        String::new(),
    ];
    for text in bad {
        let status = AddCheckpoint::parse(&text).map_err(|refusal| refusal.status());
        assert_eq!(status, Err(400), "{text}");
    }
    let most = format!("old 3\n{}\n{}", hash.repeat(63), signed(&checkpoint(7)));
    assert!(AddCheckpoint::parse(&most).is_ok());
    assert_eq!(parse_size("12\n"), Some(12));
    for text in ["12", "012\n", "+1\n", "\n", "", "1\n\n", "1 \n"] {
        assert_eq!(parse_size(text), None, "{text:?}");
    }
}

#[test]
fn each_refusal_has_its_status() {
    let last = checkpoint(5);
    let status =
        |request: &AddCheckpoint| answer(request, Some(&last)).map_err(|refusal| refusal.status());
    assert_eq!(status(&request(5, 9)), Ok(()));
    // 400: no checkpoint; the old size is beyond it; lines that no checkpoint has.
    let text = |checkpoint: &str| AddCheckpoint { checkpoint: checkpoint.into(), ..request(5, 9) };
    assert_eq!(status(&text("nothing")), Err(400));
    assert_eq!(status(&AddCheckpoint { old: 10, ..request(5, 9) }), Err(400));
    let odd = Note::sign(format!("{}a\tb\n", checkpoint(9).to_text()), &signer()).unwrap();
    assert_eq!(status(&text(&odd.to_text())), Err(400));
    let extended = Note::sign(format!("{}extension\n", checkpoint(9).to_text()), &signer());
    assert_eq!(status(&text(&extended.unwrap().to_text())), Ok(()));
    // 404: another origin, whoever signs.
    let other = Checkpoint { origin: "example.com/other".into(), ..checkpoint(9) };
    assert_eq!(status(&text(&signed(&other))), Err(404));
    // 403: signed by somebody else, by nobody known, or wrongly.
    let thief = LocalSigner::from_seed(ORIGIN, &[8; 32]);
    let stolen = Note::sign(checkpoint(9).to_text(), &thief).unwrap();
    assert_eq!(status(&text(&stolen.to_text())), Err(403));
    let mut spoilt = Note::sign(checkpoint(9).to_text(), &signer()).unwrap();
    let mut second = spoilt.signatures[0].clone();
    second.2[3] ^= 1;
    spoilt.signatures.push(second);
    assert_eq!(status(&text(&spoilt.to_text())), Err(403));
    // 409: from elsewhere, with the size to start from.
    assert_eq!(answer(&request(4, 9), Some(&last)), Err(Refusal::Conflict { size: 5 }));
    assert_eq!(answer(&request(4, 9), None), Err(Refusal::Conflict { size: 0 }));
    // 422: no proof, a wrong one, one too many; another root; an empty tree that is not.
    assert_eq!(status(&AddCheckpoint { proof: vec![], ..request(5, 9) }), Err(422));
    assert_eq!(status(&AddCheckpoint { proof: proof(5, 10), ..request(5, 9) }), Err(422));
    let first = AddCheckpoint { proof: vec![[1; 32]], ..request(0, 9) };
    assert_eq!(answer(&first, None).map_err(|refusal| refusal.status()), Err(422));
    let fork = Checkpoint { root: [9; 32], ..checkpoint(5) };
    let forked = AddCheckpoint { checkpoint: signed(&fork), ..request(5, 5) };
    assert_eq!(answer(&forked, Some(&last)), Err(Refusal::Fork { size: 5 }));
    let full = Checkpoint { size: 0, ..checkpoint(5) };
    let full = AddCheckpoint { checkpoint: signed(&full), ..request(0, 0) };
    assert_eq!(answer(&full, None), Err(Refusal::EmptyRoot));
}

#[test]
fn two_roots_of_one_size_are_evidence_whatever_the_request_says_beside() {
    let last = checkpoint(5);
    let fork = Checkpoint { root: [9; 32], ..checkpoint(5) };
    let request = AddCheckpoint { checkpoint: signed(&fork), ..request(3, 5) };
    let keys = [key()];
    let admitted = request.admit(|_| Some(&keys)).unwrap();
    assert_eq!(admitted.decide(&request, Some(&last)), Err(Refusal::Conflict { size: 5 }));
    assert!(admitted.contradicts(Some(&last)));
    assert!(!admitted.contradicts(Some(&checkpoint(6))) && !admitted.contradicts(None));
}

#[test]
fn signatures_of_unknown_keys_are_ignored_and_not_kept() {
    let mut note = Note::sign(checkpoint(5).to_text(), &signer()).unwrap();
    note.signatures.insert(0, ("stranger".into(), [1; 4], vec![2; 64]));
    note.signatures.push((ORIGIN.into(), [1; 4], vec![2; 64]));
    let request = AddCheckpoint { checkpoint: note.to_text(), ..request(0, 5) };
    let second = LocalSigner::from_seed(ORIGIN, &[9; 32]);
    let second = VerifyKey { name: ORIGIN.into(), public_key: second.public_key() };
    let keys = [second, key()];
    let admitted = request.admit(|_| Some(&keys)).unwrap();
    assert_eq!(admitted.note.to_text(), signed(&checkpoint(5)));
    assert_eq!(request.admit(|_| Some(&[])).unwrap_err().status(), 404);
}
