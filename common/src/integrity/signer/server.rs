//! `sealcast signer`: the keys of many logs in a process and a user of their own.
//!
//! ```text
//! lock              one signer at a time
//! <name>.key        32 secret bytes, hex, mode 0600
//! <name>.signed     what was signed last
//! <name>.pub        the key's history, once it was rotated
//! ```
//! A name is the log's origin with `_` for `/`, which origins here cannot contain.

use std::collections::HashMap;
use std::fs::{File, OpenOptions, Permissions, TryLockError};
use std::io::{self, BufReader, Write as _};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use super::super::key_history::KeyHistory;
use super::protocol::{PATIENCE, Request, Response, growth, line, next_line};
use super::{
    KeyFiles, LogSigner as _, RememberingSigner, RotateError, SeedError, SignedFile, SignerError,
};
use crate::durable::temporary_name;
use crate::seams::Seams;

/// Connections served at one time; another is told to come later.
const CONNECTIONS_MAX: usize = 64;
/// Logs that `new_keys` may bring into being: whoever may ask must not fill the disk.
const ORIGINS_MAX: usize = 4_096;
/// Bytes of an origin.
const ORIGIN_BYTES_MAX: usize = 128;

/// Why a signer does not start.
#[derive(Debug, thiserror::Error)]
pub enum SignerStartError {
    /// Two signers with one memory would each forget what the other signed.
    #[error("signer's folder {dir} is in use by another signer; stop it, or use another folder")]
    Locked {
        /// The folder.
        dir: String,
    },
    /// Somebody answers on the socket.
    #[error("socket {socket} is in use by another signer; stop it, or use another path")]
    InUse {
        /// Its path.
        socket: String,
    },
    /// Not a name of a log.
    #[error("origin {origin:?} has other characters than a-z, 0-9, `-`, `.` and `/`")]
    Origin {
        /// As given.
        origin: String,
    },
    /// A key.
    #[error(transparent)]
    Key(#[from] SeedError),
    /// The file system refused.
    #[error("{file} cannot be used: {source}")]
    Io {
        /// Its path.
        file: String,
        /// The system's word.
        source: io::Error,
    },
}

fn failed(path: &Path) -> impl Fn(io::Error) -> SignerStartError {
    move |source| SignerStartError::Io { file: path.display().to_string(), source }
}

/// The keys and memories of one folder, locked.
#[derive(Debug)]
pub struct Keyring {
    dir: PathBuf,
    new_keys: bool,
    seams: Seams,
    open: Mutex<HashMap<String, Arc<RememberingSigner>>>,
    _lock: File,
}

impl Keyring {
    /// Makes the folder if it is new (mode 0700) and locks it. `new_keys`: whoever asks for the key
    /// of an unknown log gets a new one.
    pub fn open(dir: &Path, new_keys: bool, seams: Seams) -> Result<Self, SignerStartError> {
        seams.files.create_dir(dir).map_err(failed(dir))?;
        std::fs::set_permissions(dir, Permissions::from_mode(0o700)).map_err(failed(dir))?;
        let path = dir.join("lock");
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let lock = lock.map_err(failed(&path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(SignerStartError::Locked { dir: dir.display().to_string() });
            }
            Err(TryLockError::Error(error)) => return Err(failed(&path)(error)),
        }
        let open = Mutex::new(HashMap::new());
        Ok(Keyring { dir: dir.to_owned(), new_keys, seams, open, _lock: lock })
    }

    /// Makes the key of `origin`, unless there is one. Answers its public half.
    pub fn create(&self, origin: &str) -> Result<String, SignerStartError> {
        let name = file_name(origin)
            .ok_or_else(|| SignerStartError::Origin { origin: origin.to_owned() })?;
        let files = self.files(&name);
        // A memory without its key is a lost key: a new one must not go on in its place.
        let signer = files.signer(origin, !files.signed.exists(), &self.seams)?;
        Ok(signer.key().to_text())
    }

    /// Hands a log over to a new key ([`KeyFiles::rotate`]).
    pub fn rotate(&self, origin: &str) -> Result<(KeyHistory, u64), RotateError> {
        self.files_of(origin)?.rotate(origin, &self.seams)
    }

    /// Where the key of `origin` lies, or would lie.
    pub fn files_of(&self, origin: &str) -> Result<KeyFiles, SignerError> {
        let unknown = || SignerError::Refused(format!("{origin:?} is no origin of a log"));
        Ok(self.files(&file_name(origin).ok_or_else(unknown)?))
    }

    fn files(&self, name: &str) -> KeyFiles {
        let file = |kind: &str| self.dir.join(format!("{name}.{kind}"));
        KeyFiles { secret: file("key"), public: file("pub"), signed: file("signed") }
    }

    /// The signer of `origin`; one for all who ask, so that they take turns.
    fn find(&self, origin: &str, may_make: bool) -> Result<Arc<RememberingSigner>, SignerError> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(signer) = open.get(origin) {
            return Ok(Arc::clone(signer));
        }
        let refused = |why: String| SignerError::Refused(why);
        let name = file_name(origin).ok_or_else(|| refused(format!("{origin:?} is no origin")))?;
        let files = self.files(&name);
        if !files.secret.exists() {
            if !(may_make && self.new_keys && self.count()? < ORIGINS_MAX) {
                let hint = format!("start the signer with --create {origin}, or with --new-keys");
                return Err(refused(format!("there is no key of {origin} here; {hint}")));
            }
            self.create(origin).map_err(|error| refused(error.to_string()))?;
            tracing::info!(origin, "key made");
        }
        let signer = files.signer(origin, false, &self.seams);
        let signer = Arc::new(signer.map_err(|error| SignerError::Key(error.to_string()))?);
        open.insert(origin.to_owned(), Arc::clone(&signer));
        Ok(signer)
    }

    fn count(&self) -> Result<usize, SignerError> {
        let listed = std::fs::read_dir(&self.dir);
        listed.map(Iterator::count).map_err(|error| SignerError::Unavailable(error.to_string()))
    }

    fn answer(&self, request: &Request) -> Result<Response, SignerError> {
        Ok(match request {
            Request::Key { origin } => Response::Key(self.find(origin, true)?.keys().to_text()),
            Request::State { origin } => {
                let state = self.find(origin, false)?.state()?;
                Response::State(state.map(|state| SignedFile::new(origin, &state)))
            }
            Request::Sign { origin, from, to, root, nodes } => {
                let growth = growth(*from, *to, root, nodes)
                    .ok_or_else(|| SignerError::Refused("a hash is no hash".to_owned()))?;
                let signed = self.find(origin, false)?.sign_growth(&growth);
                match &signed {
                    Ok(_) => tracing::info!(origin, size = to, "checkpoint signed"),
                    Err(error) => tracing::error!(origin, from, to, %error, "not signed"),
                }
                Response::Note(signed?.to_text())
            }
        })
    }
}

/// The file name of an origin, one for each.
fn file_name(origin: &str) -> Option<String> {
    let plain = |part: &str| {
        let known = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || b"-.".contains(&c);
        !part.is_empty() && !part.starts_with('.') && part.bytes().all(known)
    };
    let good = origin.len() <= ORIGIN_BYTES_MAX && origin.split('/').all(plain);
    good.then(|| origin.replace('/', "_"))
}

/// The user of this process.
pub fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Whether a caller with `uid` is answered.
pub fn is_allowed(uid: u32, allowed: &[u32]) -> bool {
    allowed.contains(&uid)
}

/// A keyring behind a socket.
#[derive(Debug)]
pub struct SignerServer {
    keyring: Keyring,
    listener: UnixListener,
    socket: PathBuf,
    allowed: Vec<u32>,
    busy: AtomicUsize,
    stopped: AtomicBool,
}

/// A server on threads of its own; stops when dropped.
#[derive(Debug)]
pub struct RunningSigner {
    server: Arc<SignerServer>,
    accepting: Option<JoinHandle<()>>,
}

impl SignerServer {
    /// Binds `socket` (mode 0660); users in `allowed` are answered, root too only if it is among
    /// them. A socket that a killed signer left behind is replaced.
    pub fn bind(
        keyring: Keyring,
        socket: &Path,
        allowed: Vec<u32>,
    ) -> Result<Self, SignerStartError> {
        if std::fs::symlink_metadata(socket).is_ok_and(|found| found.file_type().is_socket()) {
            if UnixStream::connect(socket).is_ok() {
                return Err(SignerStartError::InUse { socket: socket.display().to_string() });
            }
            keyring.seams.files.remove(socket).map_err(failed(socket))?;
        }
        // Nobody finds it before it has its mode.
        let hidden = temporary_name(socket);
        keyring.seams.files.remove(&hidden).map_err(failed(&hidden))?;
        let listener = UnixListener::bind(&hidden).map_err(failed(&hidden))?;
        let mode = Permissions::from_mode(0o660);
        std::fs::set_permissions(&hidden, mode).map_err(failed(&hidden))?;
        keyring.seams.files.rename(&hidden, socket).map_err(failed(socket))?;
        Ok(SignerServer {
            keyring,
            listener,
            socket: socket.to_owned(),
            allowed,
            busy: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
        })
    }

    /// Serves until the answer is dropped.
    pub fn start(self) -> io::Result<RunningSigner> {
        let server = Arc::new(self);
        let serving = Arc::clone(&server);
        let accepting =
            thread::Builder::new().name("signer".into()).spawn(move || serving.run())?;
        Ok(RunningSigner { server, accepting: Some(accepting) })
    }

    /// Returns when stopped and every connection has ended.
    fn run(&self) {
        thread::scope(|scope| {
            for stream in self.listener.incoming() {
                if self.stopped.load(Ordering::SeqCst) {
                    return;
                }
                match stream {
                    Ok(stream) if self.busy.fetch_add(1, Ordering::SeqCst) < CONNECTIONS_MAX => {
                        scope.spawn(move || {
                            if let Err(error) = self.serve(&stream) {
                                tracing::debug!(%error, "connection ended");
                            }
                            self.busy.fetch_sub(1, Ordering::SeqCst);
                        });
                    }
                    // Closed at once: the caller tries again later.
                    Ok(_) => {
                        self.busy.fetch_sub(1, Ordering::SeqCst);
                        tracing::warn!("connection refused: too many at one time");
                    }
                    Err(error) => tracing::warn!(%error, "connection not accepted"),
                }
            }
        });
    }

    fn serve(&self, mut stream: &UnixStream) -> io::Result<()> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let uid = rustix::net::sockopt::socket_peercred(stream)?.uid.as_raw();
        let mut reader = BufReader::new(stream);
        while let Some(text) = next_line(&mut reader)? {
            let response = match is_allowed(uid, &self.allowed) {
                true => self.respond(&text),
                false => {
                    tracing::warn!(uid, "caller refused");
                    Response::Refused(format!("user {uid} may not sign here (--allow-uid)"))
                }
            };
            stream.write_all(&line(&response)?)?;
        }
        Ok(())
    }

    fn respond(&self, text: &[u8]) -> Response {
        let request: Request = match serde_json::from_slice(text) {
            Ok(request) => request,
            Err(error) => return Response::Refused(format!("request is malformed: {error}")),
        };
        self.keyring.answer(&request).unwrap_or_else(|error| match error {
            SignerError::Refused(why) => Response::Refused(why),
            error if error.passes() => Response::Error(error.to_string()),
            error => Response::Refused(error.to_string()),
        })
    }
}

impl Drop for RunningSigner {
    fn drop(&mut self) {
        self.server.stopped.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts.
        let _gone = UnixStream::connect(&self.server.socket);
        if let Some(accepting) = self.accepting.take() {
            let _broken_off = accepting.join();
        }
        let _best_effort = self.server.keyring.seams.files.remove(&self.server.socket);
    }
}
