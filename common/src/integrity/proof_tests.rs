//! Proofs made from tiles against the definition; every byte of a proof counts.

use proptest::prelude::*;

use super::tests::{leaves, range, reference_root};
use super::*;

/// All tiles of a tree of these leaves, the partial ones too.
fn tiles_of(leaves: &[Hash]) -> (Tiles, Edge) {
    let (mut edge, mut full, mut tiles) = (Edge::default(), Vec::new(), Tiles::default());
    leaves.iter().for_each(|leaf| edge.append(*leaf, &mut full));
    full.into_iter().for_each(|(id, bytes)| tiles.insert(id, bytes));
    for level in 0..edge.levels().len() as u32 {
        let index = (leaves.len() as u64 >> (8 * level)) / TILE_WIDTH;
        let id = TileId { level, index };
        if let Some(bytes) = edge.partial(id) {
            assert_eq!(bytes.len() as u64, id.width(leaves.len() as u64) * 32);
            tiles.insert(id, bytes);
        }
    }
    (tiles, edge)
}

#[test]
fn small_trees_prove_every_leaf_and_every_growth() {
    for size in 1..70usize {
        let all = leaves(size);
        let ((tiles, edge), root) = (tiles_of(&all), reference_root(&all));
        let n = size as u64;
        assert_eq!(edge.tree().unwrap(), range(0, &all));
        for (index, leaf) in (0..).zip(&all) {
            let proof = tiles.answer(Question::Inclusion(index), n).unwrap();
            verify_inclusion(leaf, index, n, &proof, &root).unwrap();
        }
        for old in 0..=size {
            let proof = tiles.answer(Question::Consistency(old as u64), n).unwrap();
            let before = reference_root(&all[..old]);
            let grown = verify_consistency((old as u64, &before), (n, &root), &proof);
            assert_eq!(grown.is_ok(), old > 0, "everything continues the empty tree");
            let left = tiles.answer(Question::Range(0, old as u64), n).unwrap();
            let right = tiles.answer(Question::Range(old as u64, n), n).unwrap();
            assert_eq!(left, range(0, &all[..old]).nodes());
            verify_range(&range(0, &all[..old]), &[], &right, (n, &root)).unwrap();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn large_trees_too(size in 1usize..70_000, a in 0usize..70_000, b in 0usize..70_000) {
        let all = leaves(size);
        let ((tiles, edge), n) = (tiles_of(&all), size as u64);
        let root = range(0, &all).root().unwrap();
        prop_assert_eq!(edge.tree().unwrap().root().unwrap(), root);
        let again = Edge::new(n, edge.levels().to_vec()).unwrap();
        prop_assert_eq!(again, edge);
        let (low, high) = ((a % size).min(b % size), (a % size).max(b % size));
        let proof = tiles.answer(Question::Inclusion(low as u64), n).unwrap();
        verify_inclusion(&all[low], low as u64, n, &proof, &root).unwrap();
        let before = range(0, &all[..high]).root().unwrap();
        let proof = tiles.answer(Question::Consistency(high as u64), n).unwrap();
        let grown = verify_consistency((high as u64, &before), (n, &root), &proof);
        prop_assert_eq!(grown.is_ok(), high > 0);
        let left = tiles.answer(Question::Range(0, low as u64), n).unwrap();
        let right = tiles.answer(Question::Range(high as u64, n), n).unwrap();
        let mut rows = CompactRange::empty(low as u64);
        all[low..high].iter().for_each(|leaf| rows.append(*leaf));
        verify_range(&rows, &left, &right, (n, &root)).unwrap();
        // One row fewer is not the whole range.
        if low < high {
            let mut fewer = CompactRange::empty(low as u64);
            all[low..high - 1].iter().for_each(|leaf| fewer.append(*leaf));
            prop_assert!(verify_range(&fewer, &left, &right, (n, &root)).is_err());
        }
    }
}

/// The leaf, the index and every hash of 200 proofs, byte by byte, and the text form with them.
#[test]
fn no_mutated_proof_is_accepted() {
    let signer = LocalSigner::from_seed("c/0001", &[5; 32]);
    let key = VerifyKey { name: "c/0001".into(), public_key: signer.public_key() };
    let judge = |note: &Note, _: &Checkpoint| note.verify(&key).map_err(TlogProofError::from);
    for case in 0..200usize {
        let size = 1 + case * 37 % 1_500;
        let bytes: Vec<Vec<u8>> = (0..size).map(|i| format!("leaf {i}").into_bytes()).collect();
        let all: Vec<Hash> = bytes.iter().map(|leaf| leaf_hash(leaf)).collect();
        let (index, n) = (case * 7919 % size, size as u64);
        let root = range(0, &all).root().unwrap();
        let hashes = tiles_of(&all).0.answer(Question::Inclusion(index as u64), n).unwrap();
        let checkpoint = Checkpoint { origin: "c/0001".into(), size: n, root };
        let checkpoint = Note::sign(checkpoint.to_text(), &signer).unwrap().to_text();
        let proof = TlogProof { index: index as u64, hashes, checkpoint };
        let text = proof.to_text();
        assert_eq!(TlogProof::parse(&text).unwrap(), proof);
        proof.verify(&bytes[index], judge).unwrap();
        for at in 0..text.len() {
            let mut mutated = text.clone().into_bytes();
            mutated[at] ^= 1 << (at % 7);
            let Ok(mutated) = String::from_utf8(mutated) else { continue };
            let accepted = TlogProof::parse(&mutated)
                .is_ok_and(|proof| proof.verify(&bytes[index], judge).is_ok());
            assert!(!accepted, "size {size}, leaf {index}: byte {at} changed and accepted");
        }
        for at in 0..bytes[index].len() {
            let mut leaf = bytes[index].clone();
            leaf[at] ^= 1;
            assert!(proof.verify(&leaf, judge).is_err());
        }
    }
}

#[test]
fn tile_paths_have_one_form() {
    for (level, index, width, path) in [
        (0, 0, 256, "0/000"),
        (1, 7, 3, "1/007.p/3"),
        (2, 1_234_067, 256, "2/x001/x234/067"),
        (0, 1_000, 255, "0/x001/000.p/255"),
    ] {
        let id = TileId { level, index };
        assert_eq!(id.path(width), path);
        assert_eq!(TileId::parse(path), Some((id, width)));
    }
    for bad in [
        "",
        "0",
        "0/",
        "00/000",
        "64/000",
        "0/0",
        "0/0000",
        "0/x000/001",
        "0/001/002",
        "0/x001",
        "0/000.p/0",
        "0/000.p/256",
        "0/000.p/01",
        "0/-01",
        "0/000/",
        "+1/000",
        "0/000.p/",
        "0/x999/x999/x999/x999/x999/x999/x999/999",
    ] {
        assert_eq!(TileId::parse(bad), None, "{bad}");
    }
}

fn witness(name: &str, seed: u8) -> (LocalSigner, CosignerKey) {
    let signer = LocalSigner::from_seed(name, &[seed; 32]);
    let key = CosignerKey { name: name.to_owned(), public_key: signer.public_key() };
    (signer, key)
}

#[test]
fn a_policy_counts_witnesses() {
    let log = LocalSigner::from_seed("c/cluster", &[1; 32]);
    let key = VerifyKey { name: "c/cluster".into(), public_key: log.public_key() };
    let witnesses: Vec<_> = (0..3).map(|i| witness(&format!("w{i}"), 10 + i)).collect();
    let mut text = format!("# who counts\n\tlog {}  https://log.example/\n", key.to_text());
    for (i, (_, key)) in witnesses.iter().enumerate() {
        text += &format!("witness w{i} {}\n", key.to_text());
    }
    text += "group two 2 w0 w1 w2\nquorum two\n";
    let policy = Policy::parse(&text).unwrap();
    let checkpoint = Checkpoint { origin: "c/cluster".into(), size: 1, root: [3; 32] };
    let mut note = Note::sign(checkpoint.to_text(), &log).unwrap();
    assert!(
        matches!(policy.judge(&note), Err(Distrust::Quorum { cosigned, .. }) if cosigned.is_empty())
    );
    note.cosign(&witnesses[0].0, 1_800_000_000).unwrap();
    assert!(matches!(policy.judge(&note), Err(Distrust::Quorum { .. })));
    let line = note.cosign(&witnesses[2].0, 1_800_000_001).unwrap();
    assert_eq!(parse_signatures(&line).unwrap()[0], note.signatures[2]);
    let seen = policy.judge(&Note::parse(&note.to_text()).unwrap()).unwrap();
    assert_eq!(seen, [("w0".to_owned(), 1_800_000_000), ("w2".to_owned(), 1_800_000_001)]);
    // A wrong signature by a key that is known spoils the note.
    let mut forged = note.clone();
    forged.signatures[1].2[20] ^= 1;
    assert!(matches!(policy.judge(&forged), Err(Distrust::Note(NoteError::BadSignature(_)))));
    let mut other = note.clone();
    other.text = other.text.replace("c/cluster", "d/cluster");
    assert!(matches!(policy.judge(&other), Err(Distrust::UnknownLog(_))));
    // Unknown keys are passed over.
    note.cosign(&witness("stranger", 99).0, 1).unwrap();
    policy.judge(&note).unwrap();
}

#[test]
fn bad_policies_name_their_line() {
    let (_, key) = witness("w", 1);
    let key = key.to_text();
    for (text, line) in [
        ("", 0),
        ("quorum none\nquorum none\n", 2),
        ("quorum w\n", 1),
        ("witness none KEY\nquorum none\n", 1),
        ("witness w KEY\nwitness w2 KEY\nquorum none\n", 2),
        ("witness w KEY\ngroup g 2 w\nquorum g\n", 2),
        ("witness w KEY\ngroup g any w\ngroup h any w\nquorum h\n", 3),
        ("witness w KEY\ngroup g 01 w\nquorum g\n", 2),
        ("log KEY\nquorum none\n", 1),
        ("logs x\nquorum none\n", 1),
        ("\rquorum none\n", 1),
    ] {
        let error = Policy::parse(&text.replace("KEY", &key)).unwrap_err();
        assert_eq!(error.line, line, "{text:?}: {error}");
    }
    assert!(!Policy::parse(" quorum\tnone ").unwrap().wants_witnesses());
}
