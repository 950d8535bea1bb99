//! What a role shows to another one: its own token, and whose certificate it believes.

use std::io;
use std::path::{Path, PathBuf};

use super::TokenText;

const PEM_BEGIN: &[u8] = b"-----BEGIN CERTIFICATE-----";

/// Why the token or the certificate of a peer cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// The file system.
    #[error("peer file {file} cannot be read: {source}")]
    Read {
        /// Its path.
        file: String,
        /// The system's word.
        source: io::Error,
    },
    /// It holds something else.
    #[error("peer file {file} holds no token; expected one line sc_…")]
    NoToken {
        /// Its path.
        file: String,
    },
}

/// Settings of outgoing requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// File with the token, one line; read for every connection, so that it can be replaced.
    pub token_file: Option<PathBuf>,
    /// Certificates (PEM) that are believed beside the system's.
    pub ca: Option<PathBuf>,
}

impl Peer {
    /// The value of `Authorization`, if a token is set.
    pub fn authorization(&self) -> Result<Option<String>, PeerError> {
        let Some(path) = &self.token_file else { return Ok(None) };
        let text = std::fs::read_to_string(path).map_err(failed(path))?;
        match TokenText::parse(text.trim()) {
            Some(token) => Ok(Some(format!("Bearer {}", token.reveal()))),
            None => Err(PeerError::NoToken { file: path.display().to_string() }),
        }
    }

    /// The certificates, if some are set.
    pub fn ca_pem(&self) -> Result<Option<Vec<u8>>, PeerError> {
        let Some(path) = &self.ca else { return Ok(None) };
        let pem = std::fs::read(path).map_err(failed(path))?;
        if !pem.windows(PEM_BEGIN.len()).any(|bytes| bytes == PEM_BEGIN) {
            let found = "no certificate in it; expected PEM with -----BEGIN CERTIFICATE-----";
            return Err(failed(path)(io::Error::other(found)));
        }
        Ok(Some(pem))
    }
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> PeerError {
    let file = path.display().to_string();
    move |source| PeerError::Read { file, source }
}
