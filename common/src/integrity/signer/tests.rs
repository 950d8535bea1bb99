//! Growth alone, then the promise of both signers.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;

use super::super::{Checkpoint, CompactRange, Hash, leaf_hash};
use super::*;
use crate::durable::RealFiles;
use crate::seams::Seams;

const ORIGIN: &str = "c/0001";

fn leaves(word: &str, from: u64, to: u64) -> CompactRange {
    let mut range = CompactRange::empty(from);
    (from..to).for_each(|i| range.append(leaf_hash(format!("{word}{i}").as_bytes())));
    range
}

fn root(word: &str, to: u64) -> Hash {
    leaves(word, 0, to).root().unwrap()
}

/// Growth of the log whose leaves are `word` with their numbers.
fn growth(word: &str, from: u64, to: u64) -> Growth {
    Growth::new(&leaves(word, from, to), root(word, to))
}

fn state(to: u64) -> SignedState {
    SignedState::of(&leaves("a", 0, to)).unwrap()
}

#[test]
fn every_split_of_a_log_grows_to_the_same_state() {
    for to in 0..40 {
        for from in 0..=to {
            assert_eq!(state(from).grow(&growth("a", from, to)), Ok(state(to)), "{from} {to}");
        }
    }
}

#[test]
fn only_what_follows_is_signed() {
    let signed = state(7);
    let refused = |growth: &Growth| signed.grow(growth).unwrap_err();
    assert!(matches!(refused(&growth("b", 0, 7)), GrowthRefusal::Fork { size: 7, .. }));
    assert_eq!(refused(&growth("a", 0, 5)), GrowthRefusal::Smaller { signed: 7, found: 5 });
    assert_eq!(refused(&growth("a", 5, 9)), GrowthRefusal::Behind { signed: 7, from: 5 });
    assert_eq!(refused(&growth("a", 9, 12)), GrowthRefusal::Ahead { signed: 7, from: 9 });
    // Rewritten and grown: the nodes fit, the root is another history's.
    let rewritten = Growth { root: root("b", 9), ..growth("b", 7, 9) };
    assert!(matches!(refused(&rewritten), GrowthRefusal::Root { .. }));
    let mut short = growth("a", 7, 12);
    short.nodes.pop();
    assert!(matches!(refused(&short), GrowthRefusal::Nodes { .. }));
    let endless = Growth { to: u64::MAX, ..growth("a", 7, 12) };
    assert!(matches!(refused(&endless), GrowthRefusal::Nodes { .. }));
    let text = refused(&growth("a", 5, 9)).to_string();
    assert!(text.contains("data ended before what was signed"), "{text}");
}

fn remembering(dir: &Path) -> RememberingSigner {
    let public_key = LocalSigner::from_seed(ORIGIN, &[3; 32]).public_key();
    let key = VerifyKey { name: ORIGIN.into(), public_key };
    RememberingSigner::new(key.into(), &[3; 32], dir.join("s.signed"), Arc::new(RealFiles))
}

/// What both signers promise.
fn keeps_its_promise(open: impl Fn() -> Box<dyn LogSigner>) {
    let signer = open();
    assert_eq!(signer.state(), Ok(None));
    let note = signer.sign_growth(&growth("a", 0, 5)).unwrap();
    note.verify(signer.key()).unwrap();
    let said = Checkpoint { origin: ORIGIN.into(), size: 5, root: root("a", 5) };
    assert_eq!(Checkpoint::parse(&note.text), Ok(said));
    // Another process goes on where this one ended; the same again is the same signature.
    let signer = open();
    assert_eq!(signer.state(), Ok(Some(state(5))));
    assert_eq!(signer.sign_growth(&growth("a", 0, 5)), Ok(note));
    for forbidden in [growth("b", 0, 5), growth("a", 0, 4), growth("a", 3, 8), growth("b", 6, 8)] {
        let refused = signer.sign_growth(&forbidden).unwrap_err();
        assert!(matches!(refused, SignerError::Refused(_)) && !refused.passes(), "{refused}");
    }
    assert_eq!(signer.state(), Ok(Some(state(5))));
    signer.sign_growth(&growth("a", 5, 9)).unwrap();
    assert_eq!(open().state(), Ok(Some(state(9))));
}

#[test]
fn the_signer_in_this_process_keeps_its_promise() {
    let dir = tempfile::tempdir().unwrap();
    keeps_its_promise(|| Box::new(remembering(dir.path())));
    let mode = std::fs::metadata(dir.path().join("s.signed")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test damages its own file")]
fn a_damaged_or_foreign_memory_signs_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let signer = remembering(dir.path());
    signer.sign_growth(&growth("a", 0, 5)).unwrap();
    let path = dir.path().join("s.signed");
    let good = std::fs::read(&path).unwrap();
    let other = SignedFile::new("c/0002", &state(5));
    let mut lying = SignedFile::new(ORIGIN, &state(5));
    lying.root = crate::fault::hex(&root("b", 5));
    let texts = [
        good[..20].to_vec(),
        String::from_utf8(good.clone()).unwrap().replace("\"size\": 5", "\"size\": 4").into(),
        crate::checked::to_text(&other),
        crate::checked::to_text(&lying),
    ];
    for text in texts {
        std::fs::write(&path, &text).unwrap();
        let refused = signer.sign_growth(&growth("a", 5, 6)).unwrap_err();
        assert!(matches!(&refused, SignerError::Memory(_)) && !refused.passes(), "{refused}");
        assert_eq!(std::fs::read(&path).unwrap(), text, "nothing is guessed at");
    }
}

fn serve(dir: &Path, new_keys: bool, allowed: Vec<u32>) -> RunningSigner {
    let keyring = Keyring::open(&dir.join("keys"), new_keys, Seams::default()).unwrap();
    SignerServer::bind(keyring, &dir.join("socket"), allowed).unwrap().start().unwrap()
}

#[test]
fn the_signer_behind_a_socket_keeps_its_promise() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("socket");
    let running = serve(dir.path(), true, vec![own_uid()]);
    keeps_its_promise(|| Box::new(RemoteSigner::connect(&socket, ORIGIN).unwrap()));
    let signer = RemoteSigner::connect(&socket, ORIGIN).unwrap();
    let again = Keyring::open(&dir.path().join("keys"), false, Seams::default());
    assert!(matches!(again, Err(SignerStartError::Locked { .. })));
    drop(running);
    assert!(!socket.exists());
    assert!(signer.sign_growth(&growth("a", 9, 11)).unwrap_err().passes());
    // A restart without permission to make keys: old ones go on, others are refused.
    let _running = serve(dir.path(), false, vec![own_uid()]);
    signer.sign_growth(&growth("a", 9, 11)).unwrap();
    for unknown in ["c/0002", "../keys/c/0001", "c_0001", "/", ""] {
        let refused = RemoteSigner::connect(&socket, unknown).unwrap_err();
        assert!(matches!(refused, SignerError::Refused(_)), "{unknown}: {refused}");
    }
    let file = |name: &str| std::fs::metadata(dir.path().join(name)).unwrap().permissions().mode();
    assert_eq!(file("keys") & 0o777, 0o700);
    assert_eq!(file("socket") & 0o777, 0o660);
    assert_eq!(file("keys/c_0001.key") & 0o777, 0o600);
}

#[test]
fn a_memory_without_its_key_gets_no_new_one() {
    let dir = tempfile::tempdir().unwrap();
    let running = serve(dir.path(), true, vec![own_uid()]);
    let signer = RemoteSigner::connect(&dir.path().join("socket"), ORIGIN).unwrap();
    signer.sign_growth(&growth("a", 0, 5)).unwrap();
    drop(running);
    std::fs::remove_file(dir.path().join("keys/c_0001.key")).unwrap();
    let _running = serve(dir.path(), true, vec![own_uid()]);
    let refused = RemoteSigner::connect(&dir.path().join("socket"), ORIGIN).unwrap_err();
    assert!(refused.to_string().contains("is missing"), "{refused}");
}

#[test]
fn strangers_and_nonsense_are_refused() {
    assert!(is_allowed(7, &[1, 7]) && !is_allowed(0, &[1, 7]) && !is_allowed(0, &[]));
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("socket");
    let stranger = serve(dir.path(), true, vec![own_uid() + 1]);
    let refused = RemoteSigner::connect(&socket, ORIGIN).unwrap_err();
    assert!(refused.to_string().contains("may not sign here"), "{refused}");
    assert!(!dir.path().join("keys/c_0001.key").exists());
    drop(stranger);
    let _running = serve(dir.path(), true, vec![own_uid()]);
    let mut stream = UnixStream::connect(&socket).unwrap();
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    for nonsense in [
        "",
        "[]",
        r#"{"op":"guess","origin":"c/0001"}"#,
        r#"{"op":"sign","origin":"c/0001","from":0,"to":-1,"root":"","nodes":[]}"#,
        r#"{"op":"sign","origin":"c/0001","from":0,"to":1,"root":"00","nodes":["zz"]}"#,
        r#"{"op":"key","origin":"c/0001","text":"anything"}"#,
    ] {
        writeln!(stream, "{nonsense}").unwrap();
        let answer = lines.next().unwrap().unwrap();
        assert!(answer.starts_with(r#"{"refused":"#), "{nonsense}: {answer}");
    }
    writeln!(stream, r#"{{"op":"state","origin":"c/0001"}}"#).unwrap();
    assert!(lines.next().unwrap().unwrap().contains("no key of c/0001"));
    // A line without an end is not read to its end.
    let endless = vec![b'x'; 64 * 1024];
    let _closed = stream.write_all(&endless);
    assert!(lines.next().is_none_or(|line| line.is_err()));
}
