//! The text of a token: `sc_<id>_<secret>`. Only its SHA-256 is ever stored.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

use crate::clock::Random;
use crate::fault::hex;

const PREFIX: &str = "sc_";
/// Of an id, hexadecimal digits of random bytes.
const ID_BYTES: usize = 6;

/// A token as its owner holds it. Neither `Debug` nor an error shows the secret.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenText {
    text: String,
    id_end: usize,
}

impl TokenText {
    /// A fresh one: 32 random bytes are the secret.
    pub fn fresh(random: &dyn Random) -> Self {
        let mut id = [0; ID_BYTES];
        random.fill(&mut id);
        let secret = URL_SAFE_NO_PAD.encode(random.bytes32());
        let id = hex(&id);
        TokenText { text: format!("{PREFIX}{id}_{secret}"), id_end: PREFIX.len() + id.len() }
    }

    /// Reads the form; whether it is anybody's token, the tokens file says.
    pub fn parse(text: &str) -> Option<Self> {
        let (id, secret) = text.strip_prefix(PREFIX)?.split_once('_')?;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        (is_id(id) && !secret.is_empty() && secret.bytes().all(plain))
            .then(|| TokenText { text: text.to_owned(), id_end: PREFIX.len() + id.len() })
    }

    /// The public part: names the token in lists and logs.
    pub fn id(&self) -> &str {
        self.text.get(PREFIX.len()..self.id_end).unwrap_or_default()
    }

    /// What is stored.
    pub fn sha256(&self) -> [u8; 32] {
        Sha256::digest(self.text.as_bytes()).into()
    }

    /// Whether `stored` is its hash; takes as long either way.
    #[cfg(feature = "serve")]
    pub(super) fn matches(&self, stored: &[u8; 32]) -> bool {
        subtle::ConstantTimeEq::ct_eq(self.sha256().as_slice(), stored).into()
    }

    /// The secret text itself, for its owner.
    pub fn reveal(&self) -> &str {
        &self.text
    }
}

impl fmt::Debug for TokenText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}_…", self.id())
    }
}

/// 1 to 32 lower-case letters and digits.
pub(super) fn is_id(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    (1..=32).contains(&text.len()) && text.bytes().all(plain)
}
