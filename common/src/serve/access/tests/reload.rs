//! Tokens in force: changes, deletion, broken files, expiry, and how a token is shown.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderValue, header};

use super::*;
use crate::serve::Health;

impl Kit {
    fn access(&self) -> (Access, Health) {
        let health = Health::default();
        let clock = Arc::<ManualClock>::clone(&self.clock);
        (Access::from_file(self.path(), clock, health.clone()).unwrap(), health)
    }
}

fn shown(values: &[&str]) -> HeaderMap {
    let values = values.iter().map(|value| HeaderValue::from_bytes(value.as_bytes()).unwrap());
    values.map(|value| (header::AUTHORIZATION, value)).collect()
}

fn ask(access: &Access, token: &TokenText) -> Result<String, Denied> {
    let asked = access.authenticate(&shown(&[&format!("Bearer {}", token.reveal())]));
    asked.map(|grant| grant.id.clone())
}

#[test]
fn a_change_is_taken_within_a_second() {
    let kit = Kit::new();
    let first = kit.query();
    let (access, health) = kit.access();
    assert_eq!(ask(&access, &first), Ok(first.id().to_owned()));
    let second = kit.query();
    kit.revoke(&first);
    // Looks are paced: within a second nobody touches the disk.
    assert_eq!(ask(&access, &second), Err(Denied::TokenInvalid));
    kit.clock.advance(SECOND);
    assert_eq!(ask(&access, &second), Ok(second.id().to_owned()));
    assert_eq!(ask(&access, &first), Err(Denied::TokenInvalid));
    assert!(health.reasons().is_empty());
}

#[test]
fn without_its_file_nobody_is_let_in() {
    let kit = Kit::new();
    let (access, health) = kit.access();
    let forged = TokenText::fresh(&SeededRandom::new(9));
    assert_eq!(ask(&access, &forged), Err(Denied::TokenInvalid));
    assert!(health.reasons()["tokens"].contains("nobody is let in"));
    let token = kit.query();
    kit.clock.advance(SECOND);
    assert_eq!(ask(&access, &token), Ok(token.id().to_owned()));
    assert!(health.reasons().is_empty());
    std::fs::remove_file(kit.path()).unwrap();
    kit.clock.advance(SECOND);
    assert_eq!(ask(&access, &token), Err(Denied::TokenInvalid));
    assert!(health.reasons().contains_key("tokens"));
}

#[test]
fn a_broken_file_keeps_what_was_read_before_and_is_told() {
    let kit = Kit::new();
    let token = kit.query();
    let good = std::fs::read_to_string(kit.path()).unwrap();
    let (access, health) = kit.access();
    for broken in ["[[token", "", "[[token]]\nid = \"x\"\n"] {
        kit.write(broken);
        kit.clock.advance(SECOND);
        // An empty file is a valid one: it lists nobody.
        let expected = if broken.is_empty() { Err(Denied::TokenInvalid) } else { Ok(()) };
        assert_eq!(ask(&access, &token).map(drop), expected, "{broken:?}");
        assert!(health.reasons().is_empty(), "others are still served");
        kit.write(&good);
        kit.clock.advance(SECOND);
        assert_eq!(ask(&access, &token).map(drop), Ok(()));
    }
    kit.write("[[token");
    let clock = Arc::<ManualClock>::clone(&kit.clock);
    Access::from_file(kit.path(), clock, Health::default()).unwrap_err();
}

#[test]
fn a_token_ends_at_its_end() {
    let kit = Kit::new();
    let token = kit.create(&[Role::Query], Tenants::All, Some(Micros(EPOCH + 10 * SECOND)));
    let (access, _) = kit.access();
    kit.clock.advance(10 * SECOND - 1);
    assert_eq!(ask(&access, &token), Ok(token.id().to_owned()));
    kit.clock.advance(1);
    assert_eq!(ask(&access, &token), Err(Denied::TokenExpired));
    // Who only knows the id does not learn that it was one.
    let guess = TokenText::parse(&format!("sc_{}_guess", token.id())).unwrap();
    assert_eq!(ask(&access, &guess), Err(Denied::TokenInvalid));
}

#[test]
fn a_token_is_shown_in_one_header_as_bearer_or_as_password() {
    let kit = Kit::new();
    let token = kit.query();
    let text = token.reveal();
    let (access, _) = kit.access();
    let basic = |pair: String| format!("Basic {}", STANDARD.encode(pair));
    for good in [
        format!("Bearer {text}"),
        format!("bearer   {text} "),
        basic(format!("grafana:{text}")),
        basic(format!(":{text}")),
        basic(format!(":{text}")).trim_end_matches('=').to_owned(),
        basic(format!("ab:{text}")).trim_end_matches('=').to_owned(),
    ] {
        let known = access.authenticate(&shown(&[&good])).map(|grant| grant.id.clone());
        assert_eq!(known, Ok(token.id().to_owned()), "{good}");
    }
    let bearer = format!("Bearer {text}");
    let last = if text.ends_with('A') { "B" } else { "A" };
    let wrong = format!("Bearer {}{last}", &text[..text.len() - 1]);
    for bad in [
        vec![text],
        vec!["Bearer"],
        vec!["Bearer "],
        vec!["Digest x"],
        vec!["Basic ?"],
        vec![&wrong],
        vec![&bearer, &bearer],
        vec!["Bearer nothing", &bearer],
        vec![&basic(format!("{text}:"))],
        vec![&basic(text.to_owned())],
        vec![&format!("Bearer {text}{}", "x".repeat(2_000))],
        vec![&format!("Bearer {text}\u{e9}")],
        vec![&format!("Bearer {text},{text}")],
    ] {
        let denied = access.authenticate(&shown(&bad)).unwrap_err();
        assert_eq!(denied, Denied::TokenInvalid, "{bad:?}");
    }
    assert_eq!(access.authenticate(&HeaderMap::new()).unwrap_err(), Denied::TokenMissing);
    assert_eq!(Access::open().authenticate(&HeaderMap::new()).unwrap().id, "open");
}
