//! Hand-overs: which key signs at which size, and who cannot pretend.

use super::key_history::{KeyHistory, check_hand_over, check_keys};
use super::note::{Checkpoint, Note, VerifyKey};
use super::signer::{LocalSigner, Signer as _};

const ORIGIN: &str = "dev/0000";

fn signer(seed: u8) -> LocalSigner {
    LocalSigner::from_seed(ORIGIN, &[seed; 32])
}

fn key(seed: u8) -> VerifyKey {
    VerifyKey { name: ORIGIN.into(), public_key: signer(seed).public_key() }
}

fn at(size: u64) -> Checkpoint {
    Checkpoint { origin: ORIGIN.into(), size, root: [size as u8; 32] }
}

fn note(size: u64, seed: u8) -> Note {
    Note::sign(at(size).to_text(), &signer(seed)).unwrap()
}

/// Key 1 up to 10, key 2 up to 30, then key 3.
fn history() -> KeyHistory {
    let mut keys = KeyHistory::from(key(1));
    keys.hand_over(&at(10), &signer(1), &signer(2)).unwrap();
    keys.hand_over(&at(30), &signer(2), &signer(3)).unwrap();
    keys
}

#[test]
fn a_key_that_never_changed_is_its_vkey() {
    let keys = KeyHistory::from(key(1));
    assert_eq!(keys.to_text(), key(1).to_text());
    assert_eq!(KeyHistory::parse(&format!("{}\n", key(1).to_text())).unwrap(), keys);
    assert_eq!(keys.verify(&note(u64::MAX, 1)).unwrap(), at(u64::MAX));
}

#[test]
fn each_key_signs_its_own_sizes_and_both_where_it_changes() {
    let keys = history();
    let valid = [(0, 1), (10, 1), (10, 2), (11, 2), (30, 2), (30, 3), (31, 3), (900, 3)];
    for size in [0, 9, 10, 11, 29, 30, 31, 900] {
        for seed in 1..=4 {
            let verdict = keys.verify(&note(size, seed));
            let expected =
                valid.contains(&(size, seed)) || (size, seed) == (9, 1) || (size, seed) == (29, 2);
            assert_eq!(verdict.is_ok(), expected, "size {size}, key {seed}: {verdict:?}");
        }
    }
    // At a hand-over there is one root.
    let other = Checkpoint { root: [99; 32], ..at(10) };
    for seed in [1, 2] {
        let note = Note::sign(other.to_text(), &signer(seed)).unwrap();
        assert!(keys.verify(&note).unwrap_err().to_string().contains("another root"));
    }
    let elsewhere = Checkpoint { origin: "dev/0001".into(), ..at(31) };
    let elsewhere = Note::sign(elsewhere.to_text(), &signer(3)).unwrap();
    assert!(keys.verify(&elsewhere).is_err());
}

#[test]
fn what_was_known_then_is_the_shortest_history_that_verifies() {
    let keys = history();
    for (size, seed, hand_overs) in [(5, 1, 0), (10, 1, 0), (10, 2, 1), (30, 2, 1), (31, 3, 2)] {
        let then = keys.as_of(&note(size, seed)).unwrap();
        assert_eq!(then.hand_overs().len(), hand_overs, "size {size}, key {seed}");
        assert!(keys.continues(&then) && then.verify(&note(size, seed)).is_ok());
    }
    assert!(keys.as_of(&note(31, 1)).is_err());
}

#[test]
fn the_text_is_read_back_and_no_changed_byte_of_it() {
    let text = history().to_text();
    assert_eq!(KeyHistory::parse(&text).unwrap(), history());
    for place in 0..text.len() {
        let mut bytes = text.clone().into_bytes();
        bytes[place] ^= 1;
        let Ok(changed) = String::from_utf8(bytes) else { continue };
        let parsed = KeyHistory::parse(&changed);
        assert!(parsed.is_err(), "byte {place} may be changed: {parsed:?}");
    }
    // Nothing behind it, nothing left out, no order but this one.
    let lines: Vec<&str> = text.lines().collect();
    let without = |from: usize, to: usize| [&lines[..from], &lines[to..]].concat().join("\n");
    assert!(KeyHistory::parse(&without(1, 10)).is_err(), "the first hand-over left out");
    assert!(KeyHistory::parse(&without(9, 10)).is_err(), "a signature left out");
    assert!(KeyHistory::parse(&format!("{text}\n{}", note(31, 3).to_text())).is_err());
    assert_eq!(KeyHistory::parse(&without(10, 19)).unwrap().hand_overs().len(), 1);
}

#[test]
fn a_hand_over_needs_both_keys_and_never_goes_back() {
    let refused = |keys: &mut KeyHistory, at: &Checkpoint, old: u8, new: u8| {
        keys.hand_over(at, &signer(old), &signer(new)).is_err()
    };
    let mut keys = history();
    assert!(refused(&mut keys, &at(40), 1, 4), "a thief of the first key");
    assert!(refused(&mut keys, &at(29), 3, 4), "before the last hand-over");
    assert!(refused(&mut keys, &at(40), 3, 1), "a key that was thrown away");
    let elsewhere = Checkpoint { origin: "dev/0001".into(), ..at(40) };
    assert!(refused(&mut keys, &elsewhere, 3, 4), "of another log");
    assert_eq!(keys, history());
    // Again where it happened last: nothing was signed in between.
    keys.hand_over(&at(30), &signer(3), &signer(4)).unwrap();
    assert!(keys.verify(&note(30, 3)).is_ok() && keys.verify(&note(31, 3)).is_err());
    for seed in 5..=18 {
        assert_eq!(refused(&mut keys, &at(40), seed - 1, seed), seed == 18, "key {seed}");
    }
}

#[test]
fn keys_change_by_hand_over_alone() {
    let (first, whole) = (key(1).to_text(), history().to_text());
    assert_eq!(check_keys("shard_key", &whole, &whole).unwrap(), []);
    let news = check_keys("shard_key", &first, &whole).unwrap();
    assert_eq!(news.iter().map(|next| next.at.size).collect::<Vec<_>>(), [10, 30]);
    let mut stolen = KeyHistory::from(key(1));
    stolen.hand_over(&at(12), &signer(1), &signer(9)).unwrap();
    for (known, found) in [
        (&whole, &first),
        (&whole, &stolen.to_text()),
        (&first, &key(2).to_text()),
        (&first, &"no key".to_owned()),
    ] {
        assert_eq!(check_keys("shard_key", known, found).unwrap_err().check, "shard_key");
    }
    assert!(check_hand_over("shard_key", &news[0], Some([10; 32])).is_ok());
    for root in [None, Some([11; 32])] {
        let found = check_hand_over("shard_key", &news[0], root).unwrap_err();
        assert!(found.to_string().contains("dev/0000 handed over at 10"), "{found}");
    }
    let named = history();
    assert!(named.has_one_of([&key(2)]) && !named.has_one_of([&key(4)]));
}
