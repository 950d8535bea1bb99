//! Who may do what: tokens as hashes in a file, roles, tenants, and the guard before every route.
//!
//! Reading order: this file (grants), `token` (text → hash), `file` (the tokens file), `live`
//! (reloading it), `guard` (HTTP), `config` (settings), `peer` (the token that a role itself
//! shows to another).

#[cfg(feature = "serve")]
mod config;
mod file;
#[cfg(feature = "serve")]
mod guard;
#[cfg(feature = "serve")]
mod live;
mod peer;
mod token;

#[cfg(test)]
#[cfg(feature = "serve")]
mod tests;

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::clock::Micros;
use crate::integrity::keyed_digest;

#[cfg(feature = "serve")]
pub use config::{AccessArgs, AccessConfig, AccessError};
pub use file::{TokenEntry, TokensError, create_token, list_tokens, revoke_token};
#[cfg(feature = "serve")]
pub use guard::{Caller, Denied, ShowToken, only};
#[cfg(feature = "serve")]
pub(super) use guard::{Strangers, guard};
#[cfg(feature = "serve")]
pub use live::Access;
pub use peer::{Peer, PeerError};
pub use token::TokenText;

/// What a token is for. Closed: a role that this version does not know makes the file invalid.
/// None implies another: who operates a cluster need not read what its tenants did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Sends events.
    Ingest,
    /// Runs SQL.
    Query,
    /// Flushes, ships, reads states, metrics and the list of all queries.
    Admin,
}

impl Role {
    /// All of them.
    pub const ALL: [Role; 3] = [Role::Ingest, Role::Query, Role::Admin];

    /// As files, flags and problems write it.
    pub fn word(self) -> &'static str {
        match self {
            Role::Ingest => "ingest",
            Role::Query => "query",
            Role::Admin => "admin",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Role::ALL.into_iter().find(|role| role.word() == text);
        found.ok_or_else(|| "expected ingest, query or admin".to_owned())
    }
}

/// Whose events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Stated", into = "Stated")]
pub enum Tenants {
    /// Everybody's, also of tenants that come later. Written `"*"`.
    All,
    /// Those of these tenants. Written as a list, so that a tenant called `*` is one like others.
    Only(BTreeSet<String>),
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Stated {
    Word(String),
    List(BTreeSet<String>),
}

impl TryFrom<Stated> for Tenants {
    type Error = String;

    fn try_from(stated: Stated) -> Result<Self, String> {
        match stated {
            Stated::Word(word) if word == "*" => Ok(Tenants::All),
            Stated::Word(_) => Err("tenants is a text; expected \"*\" or a list".to_owned()),
            Stated::List(list) => Ok(Tenants::Only(list)),
        }
    }
}

impl From<Tenants> for Stated {
    fn from(tenants: Tenants) -> Self {
        match tenants {
            Tenants::All => Stated::Word("*".to_owned()),
            Tenants::Only(list) => Stated::List(list),
        }
    }
}

impl Tenants {
    /// Whether events of `tenant` are among them.
    pub fn holds(&self, tenant: &str) -> bool {
        match self {
            Tenants::All => true,
            Tenants::Only(names) => names.contains(tenant),
        }
    }

    /// The names, where they are limited.
    pub fn limited(&self) -> Option<&BTreeSet<String>> {
        match self {
            Tenants::All => None,
            Tenants::Only(names) => Some(names),
        }
    }

    /// Tells apart what two grants may see: for whatever is kept per answer, such as an `ETag`.
    pub fn digest(&self) -> [u8; 32] {
        let mut bytes = Vec::new();
        for name in self.limited().into_iter().flatten() {
            bytes.extend((name.len() as u64).to_le_bytes());
            bytes.extend(name.as_bytes());
        }
        match self {
            Tenants::All => keyed_digest("all tenants", b""),
            Tenants::Only(_) => keyed_digest("tenants", &bytes),
        }
    }
}

/// What one caller may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The token's public part, or `open`.
    pub id: String,
    /// For people.
    pub name: String,
    /// What for.
    pub roles: BTreeSet<Role>,
    /// Whose events.
    pub tenants: Tenants,
    /// From when on it is refused.
    pub expires_at: Option<Micros>,
}

impl Grant {
    /// Everything: what a server without tokens gives to everybody.
    pub fn open() -> Self {
        Grant {
            id: "open".to_owned(),
            name: "everybody".to_owned(),
            roles: Role::ALL.into(),
            tenants: Tenants::All,
            expires_at: None,
        }
    }

    /// Whether it has the role.
    pub fn has(&self, role: Role) -> bool {
        self.roles.contains(&role)
    }

    /// Whether some tenants' events are kept from it: then nothing may tell of them, not even a
    /// number.
    pub fn is_limited(&self) -> bool {
        self.tenants.limited().is_some()
    }

    /// Whether it may see or write events of `tenant`.
    pub fn allows(&self, tenant: &str) -> bool {
        self.tenants.holds(tenant)
    }

    /// Whether it may see the state of the node in detail, which tells of all tenants.
    pub fn sees_details(&self) -> bool {
        self.has(Role::Admin) || !self.is_limited()
    }
}
