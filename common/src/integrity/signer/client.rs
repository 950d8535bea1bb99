//! A log's signer in another process: asked over a Unix socket, believed in nothing.

use std::io::{self, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use super::super::key_history::KeyHistory;
use super::super::note::{Checkpoint, Note};
use super::protocol::{PATIENCE, Request, Response, line, next_line};
use super::{Growth, LogSigner, SignedState, SignerError};

/// Asks `sealcast signer`. A connection per request: a signer that was restarted is just there.
#[derive(Clone, Debug)]
pub struct RemoteSigner {
    socket: PathBuf,
    keys: KeyHistory,
}

impl RemoteSigner {
    /// The signer of log `origin` behind `socket`; asks for its keys.
    pub fn connect(socket: &Path, origin: &str) -> Result<Self, SignerError> {
        let answer = ask(socket, &Request::Key { origin: origin.to_owned() })?;
        let Response::Key(text) = answer else { return Err(unexpected(socket, "a key")) };
        let keys = KeyHistory::parse(&text).map_err(|error| SignerError::Key(error.to_string()))?;
        if keys.origin() != origin {
            let theirs = keys.origin();
            let found = format!("the signer's key is that of {theirs}, expected {origin}");
            return Err(SignerError::Key(found));
        }
        Ok(RemoteSigner { socket: socket.to_owned(), keys })
    }
}

impl LogSigner for RemoteSigner {
    fn keys(&self) -> &KeyHistory {
        &self.keys
    }

    fn state(&self) -> Result<Option<SignedState>, SignerError> {
        let origin = self.keys.origin();
        match ask(&self.socket, &Request::State { origin: origin.to_owned() })? {
            Response::State(Some(file)) => {
                let named = |found: crate::fault::Corruption| {
                    SignerError::Memory(Box::new(
                        found.in_object(self.socket.display().to_string()),
                    ))
                };
                file.state(origin).map(Some).map_err(named)
            }
            Response::State(None) => Ok(None),
            _ => Err(unexpected(&self.socket, "a state")),
        }
    }

    fn sign_growth(&self, growth: &Growth) -> Result<Note, SignerError> {
        let origin = self.keys.origin();
        let answer = ask(&self.socket, &Request::sign(origin, growth))?;
        let Response::Note(text) = answer else { return Err(unexpected(&self.socket, "a note")) };
        let wrong = |found: String| SignerError::Key(format!("the signer's note: {found}"));
        let note = Note::parse(&text).map_err(|error| wrong(error.to_string()))?;
        let asked = Checkpoint { origin: origin.to_owned(), size: growth.to, root: growth.root };
        if note.text != asked.to_text() {
            return Err(wrong("it signs another text than was asked for".to_owned()));
        }
        // Also if its key was replaced meanwhile: whoever asks has to publish the new one first.
        self.keys.verify(&note).map_err(|error| wrong(error.to_string()))?;
        Ok(note)
    }
}

/// One request, one answer.
fn ask(socket: &Path, request: &Request) -> Result<Response, SignerError> {
    let talk = || -> io::Result<Vec<u8>> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.write_all(&line(request)?)?;
        let answer = next_line(&mut BufReader::new(stream))?;
        answer.ok_or_else(|| io::Error::other("connection closed without an answer"))
    };
    let unavailable =
        |why: String| SignerError::Unavailable(format!("{}: {why}", socket.display()));
    let answer = talk().map_err(|error| unavailable(error.to_string()))?;
    match serde_json::from_slice(&answer).map_err(|error| unavailable(error.to_string()))? {
        Response::Refused(why) => Err(SignerError::Refused(why)),
        Response::Error(why) => Err(unavailable(why)),
        answer => Ok(answer),
    }
}

fn unexpected(socket: &Path, expected: &str) -> SignerError {
    SignerError::Unavailable(format!("{}: another answer than {expected}", socket.display()))
}
