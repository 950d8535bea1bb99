//! Tickets and handles: they say everything about a query, and nobody but replicas can make, change
//! or read them. Whichever replica has the key serves them; none keeps anything.
//!
//! A sealed text is `version ‖ tag ‖ text ⊕ stream`, where `tag` is the text's keyed BLAKE3 and
//! `stream` the keyed output that the tag selects: a synthetic IV, which never repeats for two texts.

use std::io;
use std::path::Path;

use sealcast_common::clock::{Micros, Random};
use sealcast_common::fault::{Kind, hex};
use sealcast_common::serve::Problem;
use sealcast_common::serve::access::Grant;
use serde::{Deserialize, Serialize};

use super::asked::Asked;
use crate::sql::Params;

const VERSION: u8 = 1;
const TAG_BYTES: usize = 32;
/// Of a key file: less is not a secret.
const KEY_BYTES_MIN: usize = 32;
/// A ticket is for an answer that somebody is about to fetch.
const TICKET_MICROS: i64 = 3_600 * 1_000_000;
/// A prepared statement may lie in a pool of connections.
const HANDLE_MICROS: i64 = 7 * 24 * 3_600 * 1_000_000;

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum TicketsError {
    /// The file system.
    #[error("ticket key {file} cannot be read: {source}")]
    Read {
        /// Its path.
        file: String,
        /// The system's word.
        source: io::Error,
    },
    /// Too easy to guess.
    #[error("ticket key {file} has {found} bytes; expected at least 32 random ones")]
    Short {
        /// Its path.
        file: String,
        /// Without white space at its ends.
        found: usize,
    },
}

/// What a sealed text is for.
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
struct Sealed {
    purpose: For,
    /// Whose events the maker may see: nobody else's token opens it.
    tenants: String,
    expires: i64,
    said: Said,
}

/// The keys.
pub(crate) struct Tickets {
    tag: [u8; 32],
    stream: [u8; 32],
}

impl std::fmt::Debug for Tickets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tickets")
    }
}

impl Tickets {
    /// From the secret in `file`, which replicas share; without one, from chance: then a ticket is
    /// good at the process that made it.
    pub(crate) fn open(file: Option<&Path>, random: &dyn Random) -> Result<Self, TicketsError> {
        let Some(path) = file else { return Ok(Tickets::new(&random.bytes32())) };
        let file = path.display().to_string();
        let secret = std::fs::read(path)
            .map_err(|source| TicketsError::Read { file: file.clone(), source })?;
        let secret = secret.trim_ascii();
        if secret.len() < KEY_BYTES_MIN {
            return Err(TicketsError::Short { file, found: secret.len() });
        }
        Ok(Tickets::new(secret))
    }

    fn new(secret: &[u8]) -> Self {
        Tickets {
            tag: blake3::derive_key("sealcast 2026-12 flight ticket tag v1", secret),
            stream: blake3::derive_key("sealcast 2026-12 flight ticket stream v1", secret),
        }
    }

    /// Seals what `grant`'s owner said, and tells until when it is good.
    pub(super) fn seal(
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
        let sealed = Sealed { purpose, tenants: hex(&grant.tenants.digest()), expires, said };
        let mut text = serde_json::to_vec(&sealed)?;
        let tag = blake3::keyed_hash(&self.tag, &text);
        self.mask(&tag, &mut text);
        let mut bytes = vec![VERSION];
        bytes.extend_from_slice(tag.as_bytes());
        bytes.append(&mut text);
        Ok((bytes, Micros(expires)))
    }

    /// Opens what a replica with the same key has sealed for somebody with the same rights.
    pub(super) fn open_sealed(
        &self,
        purpose: For,
        bytes: &[u8],
        grant: &Grant,
        now: Micros,
    ) -> Result<Said, Problem> {
        let sealed = self.read(bytes).ok_or_else(|| unknown("is not one of this cluster"))?;
        if sealed.purpose != purpose {
            return Err(unknown("is for something else"));
        }
        if sealed.tenants != hex(&grant.tenants.digest()) {
            return Err(unknown("was made for a token of other tenants"));
        }
        if sealed.expires <= now.0 {
            return Err(unknown("has expired"));
        }
        Ok(sealed.said)
    }

    fn read(&self, bytes: &[u8]) -> Option<Sealed> {
        let (version, rest) = bytes.split_first()?;
        let (tag, text) = rest.split_at_checked(TAG_BYTES)?;
        let tag = blake3::Hash::from_bytes(tag.try_into().ok()?);
        let mut text = text.to_vec();
        self.mask(&tag, &mut text);
        // Compared in constant time.
        let good = *version == VERSION && blake3::keyed_hash(&self.tag, &text) == tag;
        good.then(|| serde_json::from_slice(&text).ok()).flatten()
    }

    fn mask(&self, tag: &blake3::Hash, text: &mut [u8]) {
        let mut stream = vec![0; text.len()];
        let mut hasher = blake3::Hasher::new_keyed(&self.stream);
        hasher.update(tag.as_bytes()).finalize_xof().fill(&mut stream);
        text.iter_mut().zip(stream).for_each(|(byte, mask)| *byte ^= mask);
    }
}

fn unknown(why: &str) -> Problem {
    let detail = format!("ticket or prepared statement {why}");
    Problem::new(Kind::Invalid, "ticket_invalid", detail).hint(
        "ask for it again (GetFlightInfo, CreatePreparedStatement); replicas behind one address share ticket_key_file",
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
        let (tickets, now) = (Tickets::new(&[1; 32]), Micros(1_000));
        let (bytes, until) =
            tickets.seal(For::Ticket, said("select marker"), &of("acme"), now).unwrap();
        assert!(!bytes.windows(6).any(|part| part == b"marker"));
        let open = |tickets: &Tickets, purpose, grant: &Grant, at| {
            tickets.open_sealed(purpose, &bytes, grant, at).map(|said| said.sql)
        };
        assert_eq!(open(&tickets, For::Ticket, &of("acme"), now).unwrap(), "select marker");
        assert!(open(&tickets, For::Handle, &of("acme"), now).is_err(), "for something else");
        assert!(open(&tickets, For::Ticket, &of("globex"), now).is_err(), "of somebody else");
        assert!(open(&tickets, For::Ticket, &Grant::open(), now).is_err(), "of more rights");
        assert!(open(&tickets, For::Ticket, &of("acme"), until).is_err(), "too late");
        assert!(open(&Tickets::new(&[2; 32]), For::Ticket, &of("acme"), now).is_err(), "key");
    }

    #[test]
    fn no_changed_bit_and_no_shorter_text_is_opened() {
        let (tickets, now) = (Tickets::new(&[1; 32]), Micros(0));
        let (bytes, _) = tickets.seal(For::Handle, said("select 1"), &of("acme"), now).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(tickets.open_sealed(For::Handle, &changed, &of("acme"), now).is_err(), "{bit}");
        }
        for length in 0..bytes.len() {
            let cut = &bytes[..length];
            assert!(tickets.open_sealed(For::Handle, cut, &of("acme"), now).is_err(), "{length}");
        }
    }
}
