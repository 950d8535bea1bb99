//! One `.tlog-proof`: what is left of a log when a row is handed to somebody else.

use std::path::{Path, PathBuf};

use sealcast_common::event::position_of;
use sealcast_common::fault::Corruption;
use sealcast_common::integrity::{
    Checkpoint, Distrust, KeyHistory, Note, Policy, ProofError, TlogProof, TlogProofError,
    leaf_hash, verify_inclusion,
};
use sealcast_common::limits::LEAF_BYTES_MAX;

use super::Report;
use super::files::{Unread, read, read_text};

/// Judges a proof and the leaf that it is about: `leaf`, or the file `X.leaf.cbor` beside
/// `X.tlog-proof`. Every part is judged, whatever the others say: the path leads from the leaf to
/// the checkpoint's root, the leaf is of this row and log, and the checkpoint is signed and cosigned
/// as `policy` asks; `keys` may tell of hand-overs from a key that it names. Without a policy nobody knows whose checkpoint it is: `cannot check`.
pub(super) fn verify(
    path: &Path,
    leaf: Option<&Path>,
    (policy, keys): (Option<&Policy>, Option<&KeyHistory>),
) -> Report {
    let mut report = Report::default();
    if let Err(why) = judge(path, leaf, (policy, keys), &mut report) {
        report.book(Err(why));
    }
    report
}

fn judge(
    path: &Path,
    leaf: Option<&Path>,
    (policy, keys): (Option<&Policy>, Option<&KeyHistory>),
    report: &mut Report,
) -> Result<(), Unread> {
    let place = path.display().to_string();
    let form = |found: TlogProofError| {
        let expected = "a C2SP tlog-proof with a checkpoint";
        Corruption::new("proof_form", None, expected, found.to_string()).in_object(&place)
    };
    let text = read_text(path, "a proof")?;
    report.bytes += text.len() as u64;
    let proof = TlogProof::parse(&text).map_err(form)?;
    let note = Note::parse(&proof.checkpoint).map_err(|error| form(error.into()))?;
    let checkpoint = Checkpoint::parse(&note.text).map_err(|error| form(error.into()))?;
    let by = signed(&note, &checkpoint.origin, policy, keys);
    report.book(by.map_err(|why| named(why, &place)));
    let leaf_path = leaf.map_or_else(|| beside(path), Path::to_owned);
    if leaf.is_none() && !leaf_path.exists() {
        let why = format!("{place}: no {} beside it; name the leaf by --leaf", leaf_path.display());
        return Err(Unread::Cannot(why));
    }
    let leaf_place = leaf_path.display().to_string();
    let leaf = read(&leaf_path, LEAF_BYTES_MAX as u64, "a leaf")?;
    report.bytes += leaf.len() as u64;
    let row = position_of(&leaf).and_then(|at| at.check(&checkpoint.origin, proof.index));
    report.book(row.map_err(|found| found.in_object(leaf_place).into()));
    let included = included(&proof, &leaf, &checkpoint);
    report.book(included.map_err(|found| found.in_object(&place).into()));
    if report.findings.is_empty() {
        report.rows += 1;
    }
    Ok(())
}

/// `X.leaf.cbor` beside `X.tlog-proof`.
fn beside(path: &Path) -> PathBuf {
    path.with_extension("leaf.cbor")
}

fn named(why: Unread, place: &str) -> Unread {
    match why {
        Unread::Tampered(found) => found.in_object(place).into(),
        Unread::Cannot(why) => Unread::Cannot(format!("{place}: {why}")),
    }
}

/// A wrong signature, or none by the key that is known, is a finding; a log that nobody has named
/// and too few witnesses are no evidence against anybody.
fn signed(
    note: &Note,
    origin: &str,
    policy: Option<&Policy>,
    keys: Option<&KeyHistory>,
) -> Result<(), Unread> {
    let Some(policy) = policy else {
        let how = "give --vkey, or a --policy that names its log";
        return Err(Unread::Cannot(format!("nobody said whose key {origin} has: {how}")));
    };
    let keys = keys.filter(|keys| keys.origin() == origin);
    match keys.map_or_else(|| policy.judge(note), |keys| policy.judge_log(note, keys)) {
        Ok(_) => Ok(()),
        Err(Distrust::Note(error)) => {
            let expected = format!("a checkpoint of {origin} by a key that is trusted");
            Err(Corruption::new("proof_signature", None, expected, error.to_string()).into())
        }
        Err(other) => Err(Unread::Cannot(other.to_string())),
    }
}

fn included(proof: &TlogProof, leaf: &[u8], checkpoint: &Checkpoint) -> Result<(), Corruption> {
    let (hash, size) = (leaf_hash(leaf), checkpoint.size);
    let checked = verify_inclusion(&hash, proof.index, size, &proof.hashes, &checkpoint.root);
    checked.map_err(|error: ProofError| {
        let expected = format!("a path from leaf {} to the root of {size} rows", proof.index);
        Corruption::new("proof_inclusion", None, expected, error.to_string())
    })
}

#[cfg(test)]
mod tests {
    use sealcast_common::clock::Micros;
    use sealcast_common::event::{Event, Position, encode_leaf};
    use sealcast_common::integrity::{
        CompactRange, Hash, LocalSigner, Signer as _, VerifyKey, log_id, node_hash,
    };

    use super::*;

    const ORIGIN: &str = "prod/0003";

    fn leaf(origin: &str, seq: u64) -> Vec<u8> {
        let position = Position { log_id: log_id(origin), seq, ingested_at: Micros(9) };
        let event =
            Event { tenant: "acme".into(), action: "user.login".into(), ..Event::default() };
        encode_leaf(&event.as_ref(), &position).unwrap()
    }

    /// A tree of four leaves; the proof of its third.
    struct Case {
        dir: tempfile::TempDir,
        proof: TlogProof,
        leaf: Vec<u8>,
        key: VerifyKey,
    }

    impl Case {
        fn new(leaf_of_third: Vec<u8>) -> Self {
            let leaves: Vec<Vec<u8>> = (0..4)
                .map(|seq| if seq == 2 { leaf_of_third.clone() } else { leaf(ORIGIN, seq) })
                .collect();
            let hashes: Vec<Hash> = leaves.iter().map(|leaf| leaf_hash(leaf)).collect();
            let mut tree = CompactRange::empty(0);
            hashes.iter().for_each(|hash| tree.append(*hash));
            let root = tree.root().unwrap();
            let checkpoint = Checkpoint { origin: ORIGIN.into(), size: 4, root };
            let signer = LocalSigner::from_seed(ORIGIN, &[5; 32]);
            let note = Note::sign(checkpoint.to_text(), &signer).unwrap();
            let path = vec![hashes[3], node_hash(&hashes[0], &hashes[1])];
            let proof = TlogProof { index: 2, hashes: path, checkpoint: note.to_text() };
            let key = VerifyKey { name: ORIGIN.into(), public_key: signer.public_key() };
            Case { dir: tempfile::tempdir().unwrap(), proof, leaf: leaf_of_third, key }
        }

        fn policy(&self) -> Policy {
            Policy::parse(&format!("log {}\nquorum none\n", self.key.to_text())).unwrap()
        }

        fn judged(&self, text: &[u8], leaf: &[u8], policy: Option<&Policy>) -> Report {
            let path = self.dir.path().join("row.tlog-proof");
            #[expect(clippy::disallowed_methods, reason = "a test's own file")]
            for (path, bytes) in [(&path, text), (&self.dir.path().join("row.leaf.cbor"), leaf)] {
                std::fs::write(path, bytes).unwrap();
            }
            verify(&path, None, (policy, None))
        }
    }

    fn checks(report: &Report) -> Vec<&str> {
        report.findings.iter().map(|found| found.check).collect()
    }

    #[test]
    fn a_proof_is_ok_under_the_key_that_is_known_and_cannot_be_checked_without() {
        let case = Case::new(leaf(ORIGIN, 2));
        let text = case.proof.to_text();
        let known = case.judged(text.as_bytes(), &case.leaf, Some(&case.policy()));
        assert_eq!((known.verdict(), known.rows), ("ok", 1), "{known:?}");
        let unknown = case.judged(text.as_bytes(), &case.leaf, None);
        assert_eq!(unknown.verdict(), "cannot check", "{unknown:?}");
        let other = Policy::parse(&format!(
            "log {}\nquorum none\n",
            VerifyKey { name: "dev/0000".into(), ..case.key.clone() }.to_text()
        ));
        let other = case.judged(text.as_bytes(), &case.leaf, Some(&other.unwrap()));
        assert_eq!(other.verdict(), "cannot check", "{other:?}");
    }

    #[test]
    fn each_part_that_was_changed_is_found_by_its_check() {
        let case = Case::new(leaf(ORIGIN, 2));
        let (text, policy) = (case.proof.to_text(), case.policy());
        let found = |text: &str, leaf: &[u8]| {
            let report = case.judged(text.as_bytes(), leaf, Some(&policy));
            assert_eq!(report.verdict(), "tampered");
            checks(&report).join(" ")
        };
        let other = TlogProof { hashes: vec![[0; 32], case.proof.hashes[1]], ..case.proof.clone() };
        assert_eq!(found(&other.to_text(), &case.leaf), "proof_inclusion");
        assert_eq!(found(&text, &leaf(ORIGIN, 3)), "proof_leaf proof_inclusion");
        let moved = TlogProof { index: 3, ..case.proof.clone() };
        assert_eq!(found(&moved.to_text(), &case.leaf), "proof_leaf proof_inclusion");
        assert_eq!(
            found(&text.replace("prod/0003\n4\n", "prod/0003\n5\n"), &case.leaf),
            "proof_signature proof_inclusion"
        );
        assert_eq!(found(&text.replace("index 2", "index two"), &case.leaf), "proof_form");
        let stranger = LocalSigner::from_seed(ORIGIN, &[6; 32]);
        let signed = Note::sign(Note::parse(&case.proof.checkpoint).unwrap().text, &stranger);
        let signed = TlogProof { checkpoint: signed.unwrap().to_text(), ..case.proof.clone() };
        assert_eq!(found(&signed.to_text(), &case.leaf), "proof_signature");
    }

    #[test]
    fn a_leaf_of_another_log_is_found_although_its_path_holds() {
        for foreign in [leaf("prod/0004", 2), leaf(ORIGIN, 7), b"no leaf".to_vec()] {
            let case = Case::new(foreign);
            let text = case.proof.to_text();
            let report = case.judged(text.as_bytes(), &case.leaf, Some(&case.policy()));
            assert_eq!(checks(&report), ["proof_leaf"]);
        }
    }

    #[test]
    fn no_flipped_bit_is_accepted() {
        let case = Case::new(leaf(ORIGIN, 2));
        let (text, policy) = (case.proof.to_text(), case.policy());
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            let report = case.judged(&bytes, &case.leaf, Some(&policy));
            assert_ne!(report.verdict(), "ok", "byte {at}");
        }
        for at in 0..case.leaf.len() {
            let mut bytes = case.leaf.clone();
            bytes[at] ^= 1;
            let report = case.judged(text.as_bytes(), &bytes, Some(&policy));
            assert_eq!(report.verdict(), "tampered", "byte {at}");
        }
    }

    #[test]
    fn without_its_leaf_a_proof_cannot_be_checked() {
        let case = Case::new(leaf(ORIGIN, 2));
        let path = case.dir.path().join("alone.tlog-proof");
        #[expect(clippy::disallowed_methods, reason = "a test's own file")]
        std::fs::write(&path, case.proof.to_text()).unwrap();
        assert_eq!(verify(&path, None, (Some(&case.policy()), None)).verdict(), "cannot check");
    }
}
