//! Tokens of `dev` and `demo`: a file in their folder, one token for the roles among themselves.

use std::path::Path;

use sealcast_common::clock::Micros;
use sealcast_common::durable::replace_secret;
use sealcast_common::seams::Seams;
use sealcast_common::serve::access::{
    AccessConfig, Role, Tenants, TokenText, create_token, list_tokens,
};

use crate::output::{Failure, failed};

/// Locks for the roles under `dir`, and whether the tokens file is new.
pub(crate) fn locks(dir: &Path) -> Result<(AccessConfig, bool), Failure> {
    let (tokens, peer) = (dir.join("tokens.toml"), dir.join("roles.token"));
    let fresh = !tokens.exists();
    if !fresh {
        // A broken file is told before anything starts.
        list_tokens(&tokens).map_err(failed)?;
    }
    if fresh || !peer.exists() {
        let granted = ("roles of this folder", [Role::Admin].into(), Tenants::Only([].into()));
        let seams = Seams::default();
        let token = create_token(&tokens, granted, None, &seams).map_err(failed)?;
        let text = format!("{}\n", token.reveal());
        replace_secret(&*seams.files, &peer, text.as_bytes()).map_err(failed)?;
    }
    let access = AccessConfig {
        tokens: Some(tokens),
        peer_token_file: Some(peer),
        ..AccessConfig::default()
    };
    Ok((access, fresh))
}

/// A token for the person at the keyboard: all roles, all tenants.
pub(crate) fn everything(
    access: &AccessConfig,
    name: &str,
    period_micros: Option<i64>,
) -> Result<TokenText, Failure> {
    let tokens = access.tokens.as_deref().unwrap_or(Path::new("tokens.toml"));
    let seams = Seams::default();
    let end = period_micros.map(|micros| Micros(seams.clock.now().0.saturating_add(micros)));
    create_token(tokens, (name, Role::ALL.into(), Tenants::All), end, &seams).map_err(failed)
}
