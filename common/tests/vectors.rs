//! Other people's test vectors: RFC 6962 proofs, a Tessera log, Ed25519's edge cases.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::io::Write as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use sealcast_common::fault::unhex;
use sealcast_common::integrity::{
    Checkpoint, Edge, Hash, Note, Question, TILE_WIDTH, TileId, Tiles, VerifyKey, leaf_hash,
    verify_consistency, verify_detached, verify_inclusion, verify_subtree_consistency,
    verify_subtree_inclusion,
};
use serde_json::Value;

#[expect(clippy::disallowed_methods, reason = "a test has no config to ask")]
fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// The vectors, or the test is skipped by name, here and in the summary of `scripts/test`.
fn vectors(test: &str, name: &str) -> Option<PathBuf> {
    let found = variable("SEALCAST_DATA").map(|data| data.join("vectors").join(name));
    let found = found.filter(|path| path.exists());
    if found.is_none() {
        let line = format!("SKIPPED: {test}: SEALCAST_DATA/vectors/{name} is absent\n");
        if let Some(file) = variable("SEALCAST_SKIP_FILE") {
            let mut file = std::fs::OpenOptions::new().append(true).open(file).unwrap();
            file.write_all(line.as_bytes()).unwrap();
        }
        std::io::stderr().write_all(line.as_bytes()).unwrap();
    }
    found
}

fn json_files(folder: &Path) -> Vec<Value> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(json_files(&path));
        } else {
            found.push(serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap());
        }
    }
    found
}

fn number(case: &Value, name: &str) -> u64 {
    case[name].as_u64().unwrap()
}

/// Roots in the vectors need not be hashes. Shorter ones are filled up, so that equal ones stay
/// equal and ours is asked about them too; nothing, or more than a hash, cannot be asked about.
fn hash(case: &Value) -> Option<Hash> {
    let mut bytes = BASE64.decode(case.as_str().unwrap_or_default()).unwrap();
    if !bytes.is_empty() {
        bytes.resize(bytes.len().max(32), 0);
    }
    Hash::try_from(bytes).ok()
}

fn proof(case: &Value) -> Option<Vec<Hash>> {
    case["proof"].as_array().map_or(Some(Vec::new()), |list| list.iter().map(hash).collect())
}

/// Runs every case of a folder; answers how many there were.
fn run(folder: &Path, accepts: impl Fn(&Value) -> Option<bool>) -> usize {
    let cases = json_files(folder);
    for case in &cases {
        let wanted = !case["wantErr"].as_bool().unwrap();
        let found = accepts(case).unwrap_or(false);
        assert_eq!(found, wanted, "{folder:?} {case}");
    }
    cases.len()
}

#[test]
fn all_518_vectors_of_transparency_dev_merkle() {
    let Some(dir) = vectors("518 merkle vectors", "merkle/testdata") else { return };
    let inclusion = run(&dir.join("inclusion"), |case| {
        let (leaf, root) = (hash(&case["leafHash"])?, hash(&case["root"])?);
        let (index, size) = (number(case, "leafIdx"), number(case, "treeSize"));
        Some(verify_inclusion(&leaf, index, size, &proof(case)?, &root).is_ok())
    });
    let consistency = run(&dir.join("consistency"), |case| {
        let (old, new) = (number(case, "size1"), number(case, "size2"));
        let (one, two) = (hash(&case["root1"])?, hash(&case["root2"])?);
        Some(verify_consistency((old, &one), (new, &two), &proof(case)?).is_ok())
    });
    let subtree_inclusion = run(&dir.join("subtreeinclusion"), |case| {
        let (leaf, root) = (hash(&case["leafHash"])?, hash(&case["root"])?);
        let range = (number(case, "start"), number(case, "end"));
        let index = number(case, "leafIdx");
        Some(verify_subtree_inclusion(&leaf, index, range, &proof(case)?, &root).is_ok())
    });
    let subtree_consistency = run(&dir.join("subtreeconsistency"), |case| {
        let (one, two) = (hash(&case["root1"])?, hash(&case["root2"])?);
        let range = (number(case, "start"), number(case, "end"));
        let tree = (number(case, "size"), &two);
        Some(verify_subtree_consistency(range, &one, tree, &proof(case)?).is_ok())
    });
    let counts = [inclusion, consistency, subtree_inclusion, subtree_consistency];
    assert_eq!(counts, [98, 98, 204, 118]);
}

const TESSERA_KEY: &str =
    "example.com/log/testdata+33d7b496+AeHTu4Q3hEIMHNqc6fASMsq3rKNx280NI+oO5xCFkkSx";

/// Entries of a C2SP bundle: length u16 big endian, bytes.
fn entries(mut bundle: &[u8]) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    while let Some((len, rest)) = bundle.split_first_chunk::<2>() {
        let (entry, rest) = rest.split_at(usize::from(u16::from_be_bytes(*len)));
        found.push(entry.to_vec());
        bundle = rest;
    }
    found
}

#[test]
fn the_tessera_log_verifies_and_its_tiles_are_ours() {
    let Some(dir) = vectors("Tessera log", "tessera/testdata/log") else { return };
    let key = VerifyKey::parse(TESSERA_KEY).unwrap();
    let mut trees = Vec::new();
    for i in 0..16 {
        let text = std::fs::read_to_string(dir.join(format!("checkpoint.{i}"))).unwrap();
        let note = Note::parse(&text).unwrap();
        note.verify(&key).unwrap();
        trees.push(Checkpoint::parse(&note.text).unwrap());
    }
    let mut edge = Edge::default();
    for tree in &trees {
        let (id, width) = (TileId { level: 0, index: 0 }, tree.size);
        if width == 0 {
            continue;
        }
        let tile = std::fs::read(dir.join("tile").join(id.path(width))).unwrap();
        let bundle = std::fs::read(dir.join("tile/entries/000.p").join(width.to_string())).unwrap();
        let leaves = entries(&bundle);
        for leaf in &leaves[usize::try_from(edge.size()).unwrap()..] {
            edge.append(leaf_hash(leaf), &mut Vec::new());
        }
        assert_eq!(edge.partial(id).unwrap(), tile);
        assert_eq!(edge.tree().unwrap().root().unwrap(), tree.root);
        let mut tiles = Tiles::default();
        tiles.insert(id, tile);
        for (index, leaf) in leaves.iter().enumerate() {
            let index = index as u64;
            let proof = tiles.answer(Question::Inclusion(index), tree.size).unwrap();
            verify_inclusion(&leaf_hash(leaf), index, tree.size, &proof, &tree.root).unwrap();
        }
        for old in trees.iter().filter(|old| (1..=tree.size).contains(&old.size)) {
            let proof = tiles.answer(Question::Consistency(old.size), tree.size).unwrap();
            verify_consistency((old.size, &old.root), (tree.size, &tree.root), &proof).unwrap();
        }
    }
    assert!(edge.size() > 0 && edge.size() < TILE_WIDTH);
}

/// Only what every strict verifier accepts may pass: nothing of low order, nothing malleable.
#[test]
fn ed25519_is_strict() {
    let Some(file) = vectors("Ed25519 edge cases", "ed25519/ed25519vectors.json") else { return };
    let cases: Vec<Value> = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let (mut accepted, mut refused) = (0, 0);
    for case in &cases {
        let key = unhex::<32>(case["key"].as_str().unwrap()).unwrap();
        let signature = unhex::<64>(case["sig"].as_str().unwrap()).unwrap();
        let message = case["msg"].as_str().unwrap().as_bytes();
        let flags = case["flags"].as_array().map_or(&[][..], |flags| flags);
        let has = |flag: &str| flags.iter().any(|found| found == flag);
        let low = has("low_order_A") || has("low_order_R");
        let odd = has("non_canonical_A") || has("non_canonical_R") || has("low_order_residue");
        if verify_detached(&key, message, &signature) {
            accepted += 1;
            assert!(!low && !odd, "accepted {case}");
        } else {
            refused += 1;
            assert!(!flags.is_empty(), "refused {case}");
        }
    }
    assert!(accepted > 0 && refused > 0, "{accepted} accepted, {refused} refused");
}
