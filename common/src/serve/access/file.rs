//! The tokens file: TOML, mode 0600, edited under a lock and replaced as a whole.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::token::is_id;
use super::{Grant, Role, Tenants, TokenText};
use crate::clock::Micros;
use crate::durable::{Durable, replace_secret};
use crate::fault::{hex, unhex};
use crate::limits::{TENANT_BYTES_MAX, TOKEN_TENANTS_MAX, TOKENS_FILE_BYTES_MAX, TOKENS_MAX};
use crate::seams::Seams;

const HEADER: &str = "\
# Tokens of Sealcast, by their SHA-256; edit with `sealcast token create | revoke`.
# Servers take a change within seconds. A token that is not listed is refused.
";
/// Letters and digits in a row that are taken for a secret; no word of ours is so long.
const SECRET_CHARS_MIN: usize = 20;
/// The longest name, characters.
const NAME_CHARS_MAX: usize = 100;

/// Why a tokens file cannot be read or edited.
#[derive(Debug, thiserror::Error)]
pub enum TokensError {
    /// The file system.
    #[error("tokens file {file} cannot be used: {source}")]
    Io {
        /// Its path.
        file: String,
        /// The system's word.
        source: io::Error,
    },
    /// Others could add tokens of their own.
    #[error("tokens file {file} has mode {mode:03o}; expected 600 (chmod 600)")]
    Mode {
        /// Its path.
        file: String,
        /// As found.
        mode: u32,
    },
    /// Its content.
    #[error("tokens file {file} is invalid: {reason}")]
    Invalid {
        /// Its path.
        file: String,
        /// What was found and what is expected.
        reason: String,
    },
    /// A token to revoke that is not there.
    #[error("token {id:?} is not in tokens file {file}")]
    Unknown {
        /// Its path.
        file: String,
        /// As given.
        id: String,
    },
}

impl TokensError {
    fn io(path: &Path) -> impl Fn(io::Error) -> TokensError {
        let file = path.display().to_string();
        move |source| TokensError::Io { file: file.clone(), source }
    }

    pub(super) fn invalid(path: &Path, reason: impl Into<String>) -> Self {
        TokensError::Invalid { file: path.display().to_string(), reason: veil(&reason.into()) }
    }

    /// There is no such file.
    pub(super) fn is_missing(&self) -> bool {
        matches!(self, TokensError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

/// `text` without what may be a secret: somebody has put one into the wrong place.
fn veil(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let mut told = String::new();
    for part in text.split_inclusive(|c| !plain(c)) {
        let run = part.trim_end_matches(|c| !plain(c));
        let shown = if run.len() < SECRET_CHARS_MIN { run } else { "…" };
        told.push_str(shown);
        told.push_str(part.get(run.len()..).unwrap_or_default());
    }
    told
}

/// One token as the file lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenEntry {
    /// The public part.
    pub id: String,
    /// For people.
    pub name: String,
    /// Of the whole text, hexadecimal.
    pub sha256: String,
    /// What for.
    pub roles: BTreeSet<Role>,
    /// Whose events.
    pub tenants: Tenants,
    /// RFC 3339.
    pub created_at: String,
    /// RFC 3339; absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
}

impl TokenEntry {
    /// What it grants, with the hash that proves it.
    pub(super) fn grant(&self) -> Result<([u8; 32], Grant), String> {
        let about = |what: &str| format!("token {:?}: {what}", self.id);
        if !is_id(&self.id) {
            return Err(about("id: expected 1 to 32 lower-case letters and digits"));
        }
        let hash = unhex::<32>(&self.sha256)
            .ok_or_else(|| about("sha256: expected 64 hexadecimal digits"))?;
        if self.roles.is_empty() {
            return Err(about("roles: expected at least one of ingest, query, admin"));
        }
        if self.name.chars().count() > NAME_CHARS_MAX {
            return Err(about(&format!("name: expected at most {NAME_CHARS_MAX} characters")));
        }
        let names = self.tenants.limited().into_iter().flatten();
        if names.clone().any(|name| name.is_empty() || name.len() > TENANT_BYTES_MAX)
            || names.count() > TOKEN_TENANTS_MAX
        {
            let expected = format!(
                "tenants: expected at most {TOKEN_TENANTS_MAX} of 1 to {TENANT_BYTES_MAX} bytes"
            );
            return Err(about(&expected));
        }
        let time = |name: &str, text: &str| {
            Micros::parse_rfc3339(text)
                .ok_or_else(|| about(&format!("{name}: expected a time as 2026-01-31T00:00:00Z")))
        };
        time("created_at", &self.created_at)?;
        let expires_at = self.expires_at.as_deref().map(|text| time("expires_at", text));
        let grant = Grant {
            id: self.id.clone(),
            name: self.name.clone(),
            roles: self.roles.clone(),
            tenants: self.tenants.clone(),
            expires_at: expires_at.transpose()?,
        };
        Ok((hash, grant))
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    token: Vec<TokenEntry>,
}

/// The tokens of `path`, all of them valid.
pub fn list_tokens(path: &Path) -> Result<Vec<TokenEntry>, TokensError> {
    let file = File::open(path).map_err(TokensError::io(path))?;
    read(path, file)
}

pub(super) fn read(path: &Path, file: File) -> Result<Vec<TokenEntry>, TokensError> {
    let failed = TokensError::io(path);
    let mode = file.metadata().map_err(&failed)?.permissions().mode() & 0o777;
    // Its hashes are no secrets, and a mounted secret may be readable by its group.
    if mode & 0o037 != 0 {
        return Err(TokensError::Mode { file: path.display().to_string(), mode });
    }
    let mut text = String::new();
    file.take(TOKENS_FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(&failed)?;
    if text.len() as u64 > TOKENS_FILE_BYTES_MAX {
        let reason = format!("more than {TOKENS_FILE_BYTES_MAX} bytes");
        return Err(TokensError::invalid(path, reason));
    }
    let document: Document = toml::from_str(&text).map_err(|error| {
        // Without the line itself: somebody may have put a secret there.
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        TokensError::invalid(path, format!("line {line}: {}", error.message()))
    })?;
    check(&document.token).map_err(|reason| TokensError::invalid(path, reason))?;
    Ok(document.token)
}

fn check(tokens: &[TokenEntry]) -> Result<(), String> {
    if tokens.len() > TOKENS_MAX {
        return Err(format!("{} tokens; expected at most {TOKENS_MAX}", tokens.len()));
    }
    let mut ids = BTreeSet::new();
    for token in tokens {
        token.grant()?;
        if !ids.insert(&token.id) {
            return Err(format!("token {:?} is listed twice", token.id));
        }
    }
    Ok(())
}

/// Adds a token to `path`, which is made if it is missing. The secret is in what comes back and
/// nowhere else.
pub fn create_token(
    path: &Path,
    (name, roles, tenants): (&str, BTreeSet<Role>, Tenants),
    expires_at: Option<Micros>,
    seams: &Seams,
) -> Result<TokenText, TokensError> {
    let text = TokenText::fresh(&*seams.random);
    let entry = TokenEntry {
        id: text.id().to_owned(),
        name: name.to_owned(),
        sha256: hex(&text.sha256()),
        roles,
        tenants,
        created_at: seams.clock.now().to_rfc3339(),
        expires_at: expires_at.map(Micros::to_rfc3339),
    };
    edit(path, &*seams.files, |tokens| {
        tokens.push(entry);
        Ok(())
    })?;
    Ok(text)
}

/// Takes the token `id` out of `path`: servers refuse it within seconds.
pub fn revoke_token(path: &Path, id: &str, files: &dyn Durable) -> Result<TokenEntry, TokensError> {
    edit(path, files, |tokens| match tokens.iter().position(|token| token.id == id) {
        Some(at) => Ok(tokens.remove(at)),
        None => Err(TokensError::Unknown { file: path.display().to_string(), id: veil(id) }),
    })
}

/// One edit at a time: whoever comes second waits for the lock, then reads what the first wrote.
fn edit<T>(
    path: &Path,
    files: &dyn Durable,
    change: impl FnOnce(&mut Vec<TokenEntry>) -> Result<T, TokensError>,
) -> Result<T, TokensError> {
    let failed = TokensError::io(path);
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        files.create_dir(folder).map_err(&failed)?;
    }
    let lock = OpenOptions::new().create(true).truncate(false).write(true).open(lock_name(path));
    let lock = lock.and_then(|lock| lock.lock().map(|()| lock)).map_err(&failed)?;
    let mut tokens = match list_tokens(path) {
        Err(error) if error.is_missing() => Vec::new(),
        found => found?,
    };
    let changed = change(&mut tokens)?;
    check(&tokens).map_err(|reason| TokensError::invalid(path, reason))?;
    let text = toml::to_string(&Document { token: tokens })
        .map_err(|error| TokensError::invalid(path, error.to_string()))?;
    replace_secret(files, path, format!("{HEADER}\n{text}").as_bytes()).map_err(&failed)?;
    drop(lock);
    Ok(changed)
}

fn lock_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    PathBuf::from(name)
}
