//! Every MUST of C2SP `tlog-witness` over real HTTP.

use std::sync::Arc;

use sealcast_common::clock::{Clock as _, ManualClock, WallClock};
use sealcast_common::integrity::{
    AddCheckpoint, Checkpoint, LocalSigner, Note, origin_hash, parse_signatures,
};

use super::{Log, ORIGIN, Running, config, running};
use crate::Seams;

#[tokio::test(flavor = "multi_thread")]
async fn growth_is_cosigned_and_shown() {
    let (folder, log) = (tempfile::tempdir().unwrap(), Log::new());
    let witness = running(folder.path(), &[&log]).await;
    let path = format!("{}/checkpoint", origin_hash(ORIGIN));
    assert_eq!(witness.get(&path).await.0, 404);
    for (old, new) in [(0, 5), (5, 5), (5, 12)] {
        let (status, _, lines) = witness.post(log.request(old, new).to_text()).await;
        assert_eq!(status, 200, "{lines}");
        let text = log.checkpoint(new).to_text();
        let cosigned = Note { text: text.clone(), signatures: parse_signatures(&lines).unwrap() };
        let time = cosigned.verify_cosignature(&witness.handle.key).unwrap();
        let now = u64::try_from(WallClock::default().now().0 / 1_000_000).unwrap();
        assert!(now.abs_diff(time) < 60, "{time} at {now}");
        // The same line is in what monitors read, beside the log's own signature.
        let (status, shown) = witness.get(&path).await;
        let note = Note::parse(&shown).unwrap();
        assert_eq!((status, &note.text), (200, &text));
        assert!(shown.ends_with(&lines));
        note.verify(&log.key()).unwrap();
        assert_eq!(note.verify_cosignature(&witness.handle.key), Ok(time));
    }
    assert_eq!(witness.get("nonsense/checkpoint").await.0, 404);
    assert_eq!(witness.get("readyz").await.0, 200);
    witness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_have_the_statuses_of_the_specification() {
    let (folder, log) = (tempfile::tempdir().unwrap(), Log::new());
    let witness = running(folder.path(), &[&log]).await;
    assert_eq!(witness.status(&log.request(0, 5)).await, 200);
    let with =
        |checkpoint: Note| AddCheckpoint { checkpoint: checkpoint.to_text(), ..log.request(5, 9) };
    let stranger = Log { origin: "example.com/other".into(), ..Log::new() };
    let thief = Log { seed: [8; 32], ..Log::new() };
    let mut spoilt = log.note(9);
    spoilt.signatures[0].2[0] ^= 1;
    let mut unsigned = log.note(9);
    unsigned.signatures[0].1[0] ^= 1;
    let empty = Checkpoint { size: 0, ..log.checkpoint(3) };
    let empty = Note::sign(empty.to_text(), &log.signer()).unwrap();
    let cases = [
        (404, stranger.request(0, 5)),
        (403, thief.request(5, 9)),
        (403, with(spoilt)),
        (403, with(unsigned)),
        (400, AddCheckpoint { old: 10, ..log.request(5, 9) }),
        (409, log.request(0, 9)),
        (409, AddCheckpoint { old: 0, proof: vec![], checkpoint: empty.to_text() }),
        (422, AddCheckpoint { proof: vec![], ..log.request(5, 9) }),
        (422, AddCheckpoint { proof: log.proof(5, 10), ..log.request(5, 9) }),
        (422, AddCheckpoint { proof: vec![[0; 32]], ..log.request(5, 5) }),
    ];
    for (expected, request) in cases {
        let (status, _, body) = witness.post(request.to_text()).await;
        assert_eq!(status, expected, "{body} for {request:?}");
    }
    for body in ["", "old 5\n", "old 05\n\nx", "old 5\n\nnot a note\n"] {
        assert_eq!(witness.post(body).await.0, 400, "{body:?}");
    }
    assert_eq!(witness.post(vec![0xff; 9]).await.0, 400);
    assert_eq!(witness.post(vec![b'a'; 65 * 1024]).await.0, 413);
    let conflict = witness.post(log.request(3, 9).to_text()).await;
    assert_eq!(conflict, (409, "text/x.tlog.size".into(), "5\n".into()));
    let method = witness.http.get(witness.url("add-checkpoint")).send().await.unwrap();
    assert_eq!(method.status(), 405);
    // None of it moved the witness.
    assert_eq!(witness.status(&log.request(5, 9)).await, 200);
    witness.stop().await;
    // Nothing was cosigned before: 0 is the size, no proof is the proof.
    let (folder, fresh) = (tempfile::tempdir().unwrap(), Log::new());
    let witness = running(folder.path(), &[&fresh]).await;
    let conflict = witness.post(fresh.request(3, 9).to_text()).await;
    assert_eq!(conflict, (409, "text/x.tlog.size".into(), "0\n".into()));
    let proved = AddCheckpoint { proof: vec![[0; 32]], ..fresh.request(0, 9) };
    assert_eq!(witness.status(&proved).await, 422);
    let rooted = AddCheckpoint { old: 0, proof: vec![], checkpoint: empty.to_text() };
    assert_eq!(witness.status(&rooted).await, 422);
    assert_eq!(witness.status(&fresh.request(0, 0)).await, 200);
    witness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_histories_are_refused_and_both_notes_kept() {
    let (folder, log) = (tempfile::tempdir().unwrap(), Log::new());
    let witness = running(folder.path(), &[&log]).await;
    assert_eq!(witness.status(&log.request(0, 5)).await, 200);
    let other = Log { salt: 1, ..log.clone() };
    assert_eq!(witness.status(&other.request(5, 5)).await, 422);
    // Again, and with another old size: the same evidence.
    assert_eq!(witness.status(&other.request(5, 5)).await, 422);
    assert_eq!(witness.status(&other.request(3, 5)).await, 409);
    let evidence = folder.path().join("evidence").join(origin_hash(ORIGIN));
    let mut roots = Vec::new();
    for entry in std::fs::read_dir(&evidence).unwrap() {
        let note = Note::parse(&std::fs::read_to_string(entry.unwrap().path()).unwrap()).unwrap();
        note.verify(&log.key()).unwrap();
        let checkpoint = Checkpoint::parse(&note.text).unwrap();
        assert_eq!((checkpoint.origin.as_str(), checkpoint.size), (ORIGIN, 5));
        roots.push(checkpoint.root);
    }
    roots.sort_unstable();
    let mut expected = [log.checkpoint(5).root, other.checkpoint(5).root];
    expected.sort_unstable();
    assert_eq!(roots, expected);
    assert!(witness.get("readyz").await.1.contains("evidence"));
    // The history that was cosigned first goes on.
    assert_eq!(witness.status(&log.request(5, 6)).await, 200);
    witness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_at_one_time_never_take_a_log_back() {
    let (folder, log) = (tempfile::tempdir().unwrap(), Log::new());
    let witness = Arc::new(running(folder.path(), &[&log]).await);
    assert_eq!(witness.status(&log.request(0, 5)).await, 200);
    for round in 0..8 {
        let from = 5 + round * 10;
        let asked: Vec<_> = (1..=8)
            .map(|more| {
                let (witness, request) = (Arc::clone(&witness), log.request(from, from + more));
                tokio::spawn(async move { (more, witness.status(&request).await) })
            })
            .collect();
        let mut cosigned = Vec::new();
        for task in asked {
            match task.await.unwrap() {
                (more, 200) => cosigned.push(from + more),
                (_, status) => assert_eq!(status, 409),
            }
        }
        // All started from one size: exactly one could be first.
        let [size] = cosigned[..] else { panic!("cosigned from {from}: {cosigned:?}") };
        let (_, shown) = witness.get(&format!("{}/checkpoint", origin_hash(ORIGIN))).await;
        assert_eq!(Note::parse(&shown).unwrap().text, log.checkpoint(size).to_text());
        assert_eq!(witness.status(&log.request(size, from + 10)).await, 200);
    }
    Arc::into_inner(witness).unwrap().stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn signatures_of_others_are_ignored_and_the_time_is_never_zero() {
    let (folder, log) = (tempfile::tempdir().unwrap(), Log::new());
    let clock = Arc::new(ManualClock::new(999_999));
    let seams = Seams { clock: clock.clone(), ..Seams::default() };
    let witness = Running::start(config(folder.path(), &[&log]), seams).await.unwrap();
    let mut note = log.note(5);
    note.cosign(&LocalSigner::from_seed("other.example/w", &[3; 32]), 17).unwrap();
    let request = AddCheckpoint { checkpoint: note.to_text(), ..log.request(0, 5) };
    assert_eq!(witness.status(&request).await, 503);
    clock.advance(1);
    assert_eq!(witness.status(&request).await, 200);
    let (_, shown) = witness.get(&format!("{}/checkpoint", origin_hash(ORIGIN))).await;
    let shown = Note::parse(&shown).unwrap();
    assert_eq!(shown.signatures.len(), 2);
    assert_eq!(shown.verify_cosignature(&witness.handle.key), Ok(1));
    witness.stop().await;
}
