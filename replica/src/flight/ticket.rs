//! Tickets and handles: they say everything about a query, and are opaque ([`crate::opaque`]).
//! Whichever replica has the secret serves them; none keeps anything.

use sealcast_common::clock::Micros;
use sealcast_common::fault::{Kind, hex};
use sealcast_common::serve::Problem;
use sealcast_common::serve::access::Grant;
use serde::{Deserialize, Serialize};

use super::asked::Asked;
use crate::opaque::{OpaqueKey, Secret};
use crate::sql::Params;

/// A ticket is for an answer that somebody is about to fetch.
const TICKET_MICROS: i64 = 3_600 * 1_000_000;
/// A prepared statement may lie in a pool of connections.
const HANDLE_MICROS: i64 = 7 * 24 * 3_600 * 1_000_000;

/// What a text is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum For {
    Ticket,
    Handle,
}

/// A statement, and how its answer is wanted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Said {
    pub(super) sql: String,
    pub(super) params: Option<Params>,
    /// Names of the parameters, in the order in which clients bind them.
    pub(super) places: Vec<String>,
    pub(super) asked: Asked,
}

#[derive(Serialize, Deserialize)]
struct Wrapped {
    purpose: For,
    /// Whose events the maker may see: nobody else's token opens it.
    tenants: String,
    expires: i64,
    said: Said,
}

/// What tickets and handles are wrapped with.
#[derive(Debug)]
pub(crate) struct Tickets {
    key: OpaqueKey,
}

impl Tickets {
    pub(crate) fn new(secret: &Secret) -> Self {
        Tickets { key: secret.key("sealcast 2026-12 flight ticket v1") }
    }

    /// Wraps what `grant`'s owner said, and tells until when it is good.
    pub(super) fn wrap(
        &self,
        purpose: For,
        said: Said,
        grant: &Grant,
        now: Micros,
    ) -> Result<(Vec<u8>, Micros), serde_json::Error> {
        let lasts = match purpose {
            For::Ticket => TICKET_MICROS,
            For::Handle => HANDLE_MICROS,
        };
        let expires = now.0.saturating_add(lasts);
        let wrapped = Wrapped { purpose, tenants: hex(&grant.tenants.digest()), expires, said };
        Ok((self.key.wrap(serde_json::to_vec(&wrapped)?), Micros(expires)))
    }

    /// Opens what a replica with the same secret has wrapped for somebody with the same rights.
    pub(super) fn open(
        &self,
        purpose: For,
        bytes: &[u8],
        grant: &Grant,
        now: Micros,
    ) -> Result<Said, Problem> {
        let wrapped = self.read(bytes).ok_or_else(|| unknown("is not one of this cluster"))?;
        if wrapped.purpose != purpose {
            return Err(unknown("is for something else"));
        }
        if wrapped.tenants != hex(&grant.tenants.digest()) {
            return Err(unknown("was made for a token of other tenants"));
        }
        if wrapped.expires <= now.0 {
            return Err(unknown("has expired"));
        }
        Ok(wrapped.said)
    }

    fn read(&self, bytes: &[u8]) -> Option<Wrapped> {
        serde_json::from_slice(&self.key.unwrap_text(bytes)?).ok()
    }
}

fn unknown(why: &str) -> Problem {
    let detail = format!("ticket or prepared statement {why}");
    Problem::new(Kind::Invalid, "ticket_invalid", detail).hint(
        "ask for it again (GetFlightInfo, CreatePreparedStatement); replicas behind one address share opaque_key_file",
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use sealcast_common::serve::access::Tenants;

    use super::*;

    fn said(sql: &str) -> Said {
        let params = Some(Params::Positional(vec![1.into(), "x".into()]));
        Said { sql: sql.into(), params, places: vec!["$1".into()], asked: Asked::default() }
    }

    fn of(tenant: &str) -> Grant {
        let names = BTreeSet::from([tenant.to_owned()]);
        Grant { tenants: Tenants::Only(names), ..Grant::open() }
    }

    #[test]
    fn opens_for_the_same_rights_within_its_time_and_hides_what_it_says() {
        let (tickets, now) = (Tickets::new(&Secret::of(1)), Micros(1_000));
        let (bytes, until) =
            tickets.wrap(For::Ticket, said("select marker"), &of("acme"), now).unwrap();
        assert!(!bytes.windows(6).any(|part| part == b"marker"));
        let open = |tickets: &Tickets, purpose, grant: &Grant, at| {
            tickets.open(purpose, &bytes, grant, at).map(|said| said.sql)
        };
        assert_eq!(open(&tickets, For::Ticket, &of("acme"), now).unwrap(), "select marker");
        assert!(open(&tickets, For::Handle, &of("acme"), now).is_err(), "for something else");
        assert!(open(&tickets, For::Ticket, &of("globex"), now).is_err(), "of somebody else");
        assert!(open(&tickets, For::Ticket, &Grant::open(), now).is_err(), "of more rights");
        assert!(open(&tickets, For::Ticket, &of("acme"), until).is_err(), "too late");
        assert!(open(&Tickets::new(&Secret::of(2)), For::Ticket, &of("acme"), now).is_err(), "key");
    }
}
