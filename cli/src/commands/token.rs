//! `sealcast token create | list | revoke`: who may do what. Secrets are shown once, never stored.

use std::path::Path;

use sealcast_common::clock::Micros;
use sealcast_common::seams::Seams;
use sealcast_common::serve::access::{
    Role, Tenants, TokenEntry, create_token, list_tokens, revoke_token,
};

use crate::args::{TokenCommand, TokenCreateArgs};
use crate::output::{Failure, failed, line, table};

pub(crate) fn run(command: &TokenCommand) -> Result<u8, Failure> {
    match command {
        TokenCommand::Create(args) => create(args),
        TokenCommand::List { tokens } => list(tokens),
        TokenCommand::Revoke { tokens, id } => {
            let revoked = revoke_token(tokens, id, &*Seams::default().files).map_err(failed)?;
            line(format!("revoked {} ({}): servers refuse it within seconds", id, revoked.name));
            Ok(0)
        }
    }
}

fn create(args: &TokenCreateArgs) -> Result<u8, Failure> {
    let tenants = match args.all_tenants {
        true => Tenants::All,
        false => Tenants::Only(args.tenant.iter().cloned().collect()),
    };
    let seams = Seams::default();
    let expires_at = args.expires.map(|micros| Micros(seams.clock.now().0.saturating_add(micros)));
    let granted = (args.name.as_str(), args.role.iter().copied().collect(), tenants);
    let token = create_token(&args.tokens, granted, expires_at, &seams).map_err(failed)?;
    // On a line of its own, so that scripts can take the last one.
    line(format!("token {} for {}, shown this once:", token.id(), args.name));
    line(token.reveal());
    Ok(0)
}

fn list(tokens: &Path) -> Result<u8, Failure> {
    let (tokens, now) = (list_tokens(tokens).map_err(failed)?, Seams::default().clock.now());
    let header = ["id", "name", "roles", "tenants", "created", "expires", "state"];
    let rows: Vec<Vec<String>> = tokens.iter().map(|token| row(token, now)).collect();
    line(table(&header.map(str::to_owned), &rows));
    Ok(0)
}

fn row(token: &TokenEntry, now: Micros) -> Vec<String> {
    let roles: Vec<&str> = token.roles.iter().map(|role: &Role| role.word()).collect();
    let tenants = match token.tenants.limited() {
        None => "*".to_owned(),
        Some(names) => names.iter().cloned().collect::<Vec<_>>().join(", "),
    };
    let end = token.expires_at.as_deref().and_then(Micros::parse_rfc3339);
    let state = if end.is_some_and(|end| end <= now) { "expired" } else { "valid" };
    vec![
        token.id.clone(),
        token.name.clone(),
        roles.join(", "),
        tenants,
        token.created_at.clone(),
        token.expires_at.clone().unwrap_or_else(|| "never".to_owned()),
        state.to_owned(),
    ]
}

/// `30d`, `12h`, `90m`, `3600s` as microseconds.
pub(crate) fn period(text: &str) -> Result<i64, String> {
    let expected = || "expected a number with d, h, m or s, such as 30d".to_owned();
    let unit = text.chars().last().ok_or_else(expected)?;
    let seconds: i64 = match unit {
        'd' => 24 * 3_600,
        'h' => 3_600,
        'm' => 60,
        's' => 1,
        _ => return Err(expected()),
    };
    let count = text.strip_suffix(unit).filter(|count| count.bytes().all(|b| b.is_ascii_digit()));
    let count: i64 = count.and_then(|count| count.parse().ok()).ok_or_else(expected)?;
    let micros = count.checked_mul(seconds * 1_000_000).filter(|micros| *micros > 0);
    micros.ok_or_else(expected)
}

#[cfg(test)]
mod tests {
    use super::period;

    #[test]
    fn a_period_is_one_number_and_one_unit() {
        assert_eq!(period("1s"), Ok(1_000_000));
        assert_eq!(period("30d"), Ok(30 * 24 * 3_600 * 1_000_000));
        for wrong in ["", "d", "30", "30dd", "3d0d", "+3d", "-3d", "0s", "30 d", "999999999999d"] {
            assert!(period(wrong).is_err(), "{wrong}");
        }
    }
}
