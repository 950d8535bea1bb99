//! Compact ranges against the definition, notes against their own wire form.

use proptest::prelude::*;

use super::*;

/// RFC 6962 §2.1, literally.
pub(super) fn reference_root(leaves: &[Hash]) -> Hash {
    match leaves {
        [] => empty_root(),
        [leaf] => *leaf,
        _ => {
            let split = (leaves.len() - 1).checked_ilog2().map_or(1, |log| 1 << log);
            node_hash(&reference_root(&leaves[..split]), &reference_root(&leaves[split..]))
        }
    }
}

pub(super) fn leaves(count: usize) -> Vec<Hash> {
    (0..count).map(|i| leaf_hash(&i.to_be_bytes())).collect()
}

pub(super) fn range(begin: u64, leaves: &[Hash]) -> CompactRange {
    let mut range = CompactRange::empty(begin);
    for leaf in leaves {
        range.append(*leaf);
    }
    range
}

#[test]
fn roots_are_those_of_rfc_6962() {
    assert_eq!(
        crate::fault::hex(&empty_root()),
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    );
    assert_eq!(
        crate::fault::hex(&leaf_hash(b"")),
        "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"
    );
    for count in 0..130 {
        let leaves = leaves(count);
        assert_eq!(range(0, &leaves).root().unwrap(), reference_root(&leaves), "{count}");
    }
}

proptest! {
    #[test]
    fn merging_ranges_equals_appending_leaves(a in 0usize..300, b in 0usize..300, c in 0usize..300) {
        let all = leaves(a + b + c);
        let mut merged = range(0, &all[..a]);
        merged.merge(&range(a as u64, &all[a..a + b])).unwrap();
        merged.merge(&range((a + b) as u64, &all[a + b..])).unwrap();
        prop_assert_eq!(&merged, &range(0, &all));
        let middle = range(a as u64, &all[a..a + b]);
        let again = CompactRange::from_nodes(a as u64, (a + b) as u64, middle.nodes().to_vec());
        prop_assert_eq!(again.unwrap(), middle);
    }
}

#[test]
fn ranges_with_gaps_or_missing_nodes_are_refused() {
    let all = leaves(10);
    let mut head = range(0, &all[..4]);
    assert_eq!(head.merge(&range(5, &all[5..])).unwrap_err().check, "contiguity");
    assert!(CompactRange::from_nodes(0, 7, vec![[0; 32]; 2]).is_err());
}

#[test]
fn a_note_verifies_and_any_change_is_refused() {
    let signer = LocalSigner::from_seed("c/0001", &[5; 32]);
    let key = VerifyKey { name: "c/0001".into(), public_key: signer.public_key() };
    let checkpoint = Checkpoint { origin: "c/0001".into(), size: 7, root: [9; 32] };
    let wire = Note::sign(checkpoint.to_text(), &signer).unwrap().to_text();
    let note = Note::parse(&wire).unwrap();
    note.verify(&key).unwrap();
    assert_eq!(Checkpoint::parse(&note.text).unwrap(), checkpoint);
    assert_eq!(VerifyKey::parse(&key.to_text()).unwrap(), key);
    for at in 0..wire.len() {
        let mut bytes = wire.clone().into_bytes();
        bytes[at] ^= 1;
        let Ok(text) = String::from_utf8(bytes) else { continue };
        let accepted = Note::parse(&text).is_ok_and(|note| note.verify(&key).is_ok());
        assert!(!accepted, "byte {at} changed and accepted");
    }
}

#[test]
fn a_digest_is_the_same_whether_it_fits_into_a_block_or_not() {
    for domain in ["", "d", "event id index"] {
        for length in 0..150 {
            let bytes = vec![7; length];
            let mut hasher = blake3::Hasher::new_derive_key("sealcast 2026-12 digest v1");
            hasher.update(&(domain.len() as u64).to_le_bytes());
            hasher.update(domain.as_bytes()).update(&bytes);
            assert_eq!(keyed_digest(domain, &bytes), *hasher.finalize().as_bytes(), "{length}");
        }
    }
}
