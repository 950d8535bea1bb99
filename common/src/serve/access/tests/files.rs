//! The text of a token, and the file that lists its hash.

use std::os::unix::fs::PermissionsExt as _;

use super::*;
use crate::clock::OsRandom;
use crate::limits::TOKENS_FILE_BYTES_MAX;

#[test]
fn a_token_shows_its_id_and_nothing_else() {
    let token = TokenText::fresh(&OsRandom);
    let read = TokenText::parse(token.reveal()).unwrap();
    assert_eq!((read.id(), read.sha256()), (token.id(), token.sha256()));
    // The secret may have the separator in it, too.
    let secret = token.reveal().splitn(3, '_').nth(2).unwrap();
    assert!(secret.len() >= 20 && !format!("{token:?}").contains(secret), "{token:?}");
    assert_ne!(TokenText::fresh(&OsRandom).reveal(), token.reveal());
    let long = format!("sc_{}_x", "a".repeat(33));
    for text in ["", "sc_", "sc__x", "sc_ab", "sc_ab_", "sc_AB_x", "sc_ab_x y", "x_ab_x", &long] {
        assert_eq!(TokenText::parse(text).map(|_| text), None);
    }
}

#[test]
fn the_file_lists_hashes_for_its_owner_only() {
    let kit = Kit::new();
    let end = Some(Micros(EPOCH + SECOND));
    let first = kit.create(&[Role::Ingest, Role::Query], only_tenants(&["*", "acme"]), end);
    let second = kit.create(&[Role::Admin], only_tenants(&[]), None);
    let mode = std::fs::metadata(kit.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let text = std::fs::read_to_string(kit.path()).unwrap();
    for token in [&first, &second] {
        let secret = token.reveal().splitn(3, '_').last().unwrap();
        assert!(text.contains(token.id()) && !text.contains(secret), "{text}");
    }
    let listed = list_tokens(&kit.path()).unwrap();
    assert_eq!(listed[0].tenants, only_tenants(&["*", "acme"]), "a tenant called * is no wildcard");
    assert_eq!(listed[0].expires_at.as_deref(), Some("2023-11-14T22:13:21.000000Z"));
    assert_eq!((listed[1].expires_at.as_deref(), listed.len()), (None, 2));
    kit.revoke(&first);
    assert_eq!(list_tokens(&kit.path()).unwrap(), listed[1..]);
    let again = revoke_token(&kit.path(), first.reveal(), &RealFiles).unwrap_err().to_string();
    assert!(again.contains("is not in tokens file") && !again.contains(first.reveal()), "{again}");
}

const GOOD: &str = "[[token]]\nid = \"ab\"\nname = \"n\"\nsha256 = \"HASH\"\nroles = [\"query\"]\n\
                    tenants = \"*\"\ncreated_at = \"2026-01-01T00:00:00Z\"\n";

#[test]
fn a_broken_file_is_told_by_line_and_never_echoed() {
    let kit = Kit::new();
    let secret = kit.query().reveal().to_owned();
    let good = GOOD.replace("HASH", &"0".repeat(64));
    kit.write(&good);
    assert_eq!(list_tokens(&kit.path()).unwrap().len(), 1);
    let with = |old: &str, new: &str| {
        assert!(good.contains(old));
        good.replacen(old, &new.replace("SECRET", &secret), 1)
    };
    let many: Vec<String> = (0..=4_096).map(|i| format!("\"t{i}\"")).collect();
    let cases = [
        (with("id = \"ab\"", "SECRET"), "line 2"),
        (with("id = \"ab\"", "id = \"SECRET\""), "lower-case letters and digits"),
        (with("id = \"ab\"", "id = \"\""), "lower-case letters and digits"),
        (with("name = \"n\"", "SECRET = 1"), "unknown field"),
        (with("name = \"n\"", "name = \"n\"\ntoken = \"SECRET\""), "unknown field"),
        (with("name = \"n\"", &format!("name = \"{}\"", "n".repeat(101))), "100 characters"),
        (with("\"query\"", "\"SECRET\""), "unknown variant"),
        (with("\"query\"", "\"root\""), "line 5: unknown variant `root`"),
        (with("[\"query\"]", "\"SECRET\""), "line 5"),
        (with("[\"query\"]", "[]"), "at least one of"),
        (with("\"*\"", "\"SECRET\""), "expected \"*\" or a list"),
        (with("\"*\"", "[\"\"]"), "tenants: expected"),
        (with("\"*\"", &format!("[{}]", many.join(","))), "tenants: expected"),
        (with("000", "00g"), "64 hexadecimal digits"),
        (with(&"0".repeat(64), "SECRET"), "64 hexadecimal digits"),
        (with("2026-01-01T00:00:00Z", "SECRET"), "created_at: expected a time"),
        (format!("{good}expires_at = \"tomorrow\"\n"), "expires_at: expected a time"),
        (format!("{good}{good}"), "listed twice"),
        (format!("{good}[other]\n"), "unknown field"),
        (format!("{good}# {}", "x".repeat(TOKENS_FILE_BYTES_MAX as usize)), "more than"),
    ];
    for (text, words) in cases {
        kit.write(&text);
        let told = list_tokens(&kit.path()).unwrap_err().to_string();
        assert!(told.contains(words), "{words}: {told}");
        assert!(!told.contains(&secret) && !told.contains(&secret[16..]), "{told}");
        assert!(told.len() < 700, "{told}");
        // What cannot be read is not overwritten either.
        let granted = ("n", [Role::Query].into(), Tenants::All);
        create_token(&kit.path(), granted, None, &kit.seams).unwrap_err();
        assert_eq!(std::fs::read_to_string(kit.path()).unwrap(), text);
    }
}

#[test]
fn others_may_neither_write_nor_read_it() {
    let kit = Kit::new();
    kit.query();
    for (mode, is_good) in [
        (0o600, true),
        (0o400, true),
        (0o640, true),
        (0o644, false),
        (0o660, false),
        (0o602, false),
    ] {
        std::fs::set_permissions(kit.path(), std::fs::Permissions::from_mode(mode)).unwrap();
        let read = list_tokens(&kit.path());
        assert_eq!(read.is_ok(), is_good, "{mode:o}");
        if let Err(error) = read {
            assert!(error.to_string().contains("chmod 600"), "{error}");
        }
    }
}

#[test]
fn edits_at_the_same_time_lose_nothing() {
    let kit = Kit::new();
    let first = kit.query();
    let kept: Vec<String> = std::thread::scope(|scope| {
        let editors: Vec<_> = (0..6)
            .map(|_| {
                scope.spawn(|| {
                    let seams = Seams { random: Arc::new(OsRandom), ..kit.seams.clone() };
                    let create = || {
                        let granted = ("n", [Role::Query].into(), Tenants::All);
                        create_token(&kit.path(), granted, None, &seams).unwrap()
                    };
                    let mut made: Vec<TokenText> = (0..5).map(|_| create()).collect();
                    kit.revoke(&made.pop().unwrap());
                    made.into_iter().map(|token| token.id().to_owned()).collect::<Vec<_>>()
                })
            })
            .collect();
        editors.into_iter().flat_map(|editor| editor.join().unwrap()).collect()
    });
    let listed: BTreeSet<_> = list_tokens(&kit.path()).unwrap().into_iter().map(|t| t.id).collect();
    assert_eq!(listed, kept.into_iter().chain([first.id().to_owned()]).collect());
}

#[test]
fn grants_tell_apart_who_sees_what() {
    let (all, none) = (Tenants::All, only_tenants(&[]));
    let (one, two) = (only_tenants(&["a"]), only_tenants(&["a", "b"]));
    assert!(all.holds("x") && !none.holds("x") && one.holds("a") && !one.holds("b"));
    let digests: BTreeSet<_> =
        [&all, &none, &one, &two, &only_tenants(&["ab"])].map(Tenants::digest).into();
    assert_eq!(digests.len(), 5);
    let grant = |roles: &[Role], tenants: &Tenants| Grant {
        roles: roles.iter().copied().collect(),
        tenants: tenants.clone(),
        ..Grant::open()
    };
    assert!(grant(&[Role::Query], &all).sees_details());
    assert!(grant(&[Role::Admin], &none).sees_details());
    assert!(!grant(&[Role::Query, Role::Ingest], &two).sees_details());
}
