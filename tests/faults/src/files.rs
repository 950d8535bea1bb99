//! Durable files that fail on order: full disks, bad disks, and death between two operations.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sealcast_common::durable::{AppendFile, Durable, RealFiles};

use crate::ledger::{Ledger, Verdict, When};

/// What is done with a file or folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileOp {
    /// `create_append`.
    Create,
    /// `open_append`, which may cut.
    Open,
    /// `append` on an open file.
    Append,
    /// `sync` of an open file.
    Sync,
    /// `write_new`.
    Write,
    /// `rename`; the path is the target.
    Rename,
    /// `remove`.
    Remove,
    /// `sync_dir`.
    SyncDir,
    /// `create_dir`.
    CreateDir,
}

/// One operation, as a plan sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileCall {
    /// How many came before it.
    pub number: usize,
    /// What is done.
    pub op: FileOp,
    /// To what.
    pub path: PathBuf,
}

impl FileCall {
    /// Whether the path ends so: a suffix of the text, not of components.
    pub fn ends(&self, suffix: &str) -> bool {
        self.path.to_string_lossy().ends_with(suffix)
    }
}

/// How an operation fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFault {
    /// With this error number, before or after its effect.
    Error(i32, When),
    /// With this error number after half of the bytes: a short write.
    Torn(i32),
    /// The process dies here: this operation and every later one fail.
    Crash(When),
}

impl FileFault {
    /// The disk is full; half of the bytes fitted.
    pub const FULL: FileFault = FileFault::Torn(28);
    /// The disk is full before anything was written.
    pub const NO_SPACE: FileFault = FileFault::Error(28, When::Before);
    /// The disk is broken.
    pub const BROKEN: FileFault = FileFault::Error(5, When::Before);
    /// The file system has become read-only.
    pub const READ_ONLY: FileFault = FileFault::Error(30, When::Before);
    /// The process has too many open files.
    pub const TOO_MANY_OPEN: FileFault = FileFault::Error(24, When::Before);
}

/// Files behind a plan; clones share it.
#[derive(Clone, Debug)]
pub struct FaultyFiles {
    inner: Arc<dyn Durable>,
    ledger: Arc<Ledger<FileCall, FileFault>>,
}

impl Default for FaultyFiles {
    fn default() -> Self {
        FaultyFiles::over(Arc::new(RealFiles))
    }
}

impl FaultyFiles {
    /// Wraps other files; nothing fails until a plan is made.
    pub fn over(inner: Arc<dyn Durable>) -> Self {
        FaultyFiles { inner, ledger: Arc::default() }
    }

    /// Asks `plan` about every call from now on.
    pub fn plan(&self, plan: impl FnMut(&FileCall) -> Option<FileFault> + Send + 'static) {
        self.ledger.plan(plan);
    }

    /// The call with this number fails so, once.
    pub fn fail_nth(&self, number: usize, fault: FileFault) {
        self.plan(move |call| (call.number == number).then_some(fault));
    }

    /// The next call that `of` picks fails so, once.
    pub fn fail_once(&self, fault: FileFault, of: impl Fn(&FileCall) -> bool + Send + 'static) {
        let mut once = Some(fault);
        self.plan(move |call| if of(call) { once.take() } else { None });
    }

    /// Every call that `of` picks fails so until [`FaultyFiles::heal`].
    pub fn fail_always(&self, fault: FileFault, of: impl Fn(&FileCall) -> bool + Send + 'static) {
        self.plan(move |call| of(call).then_some(fault));
    }

    /// Space returns, the disk is replaced, the plan is forgotten; the calls stay counted.
    pub fn heal(&self) {
        self.ledger.heal();
    }

    /// Every call so far, failed ones included.
    pub fn calls(&self) -> Vec<FileCall> {
        self.ledger.calls()
    }

    /// How many calls `of` picks.
    pub fn count(&self, of: impl Fn(&FileCall) -> bool) -> usize {
        self.ledger.count(of)
    }

    /// Runs `act` as the plan wants; `half` is what a short write leaves behind.
    fn run<T>(
        &self,
        (op, path): (FileOp, &Path),
        half: impl FnOnce() -> io::Result<()>,
        act: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        let verdict = self.ledger.enter(|number| FileCall { number, op, path: path.to_path_buf() });
        let fault = match verdict {
            Verdict::Done => return act(),
            Verdict::Dead => return Err(dead()),
            Verdict::Fault(fault) => fault,
        };
        match fault {
            FileFault::Error(_, When::After) | FileFault::Crash(When::After) => {
                act()?;
            }
            FileFault::Torn(_) => half()?,
            FileFault::Error(_, When::Before) | FileFault::Crash(When::Before) => {}
        }
        match fault {
            FileFault::Error(code, _) | FileFault::Torn(code) => {
                Err(io::Error::from_raw_os_error(code))
            }
            FileFault::Crash(_) => {
                self.ledger.die();
                Err(dead())
            }
        }
    }

    fn whole<T>(
        &self,
        call: (FileOp, &Path),
        act: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        self.run(call, || Ok(()), act)
    }

    fn appending(&self, path: &Path, inner: Box<dyn AppendFile>) -> Box<dyn AppendFile> {
        Box::new(FaultyAppend { files: self.clone(), path: path.to_owned(), inner })
    }
}

fn dead() -> io::Error {
    io::Error::other("the plan has let the process die here")
}

fn half_of(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len() / 2]
}

#[derive(Debug)]
struct FaultyAppend {
    files: FaultyFiles,
    path: PathBuf,
    inner: Box<dyn AppendFile>,
}

impl AppendFile for FaultyAppend {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let inner = std::cell::RefCell::new(&mut self.inner);
        self.files.run(
            (FileOp::Append, &self.path),
            || inner.borrow_mut().append(half_of(bytes)),
            || inner.borrow_mut().append(bytes),
        )
    }

    fn sync(&mut self) -> io::Result<()> {
        self.files.whole((FileOp::Sync, &self.path), || self.inner.sync())
    }
}

impl Durable for FaultyFiles {
    fn create_append(&self, path: &Path) -> io::Result<Box<dyn AppendFile>> {
        let made = self.whole((FileOp::Create, path), || self.inner.create_append(path))?;
        Ok(self.appending(path, made))
    }

    fn open_append(&self, path: &Path, len: u64) -> io::Result<Box<dyn AppendFile>> {
        let opened = self.whole((FileOp::Open, path), || self.inner.open_append(path, len))?;
        Ok(self.appending(path, opened))
    }

    fn write_new(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.run(
            (FileOp::Write, path),
            || self.inner.write_new(path, half_of(bytes)),
            || self.inner.write_new(path, bytes),
        )
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.whole((FileOp::Rename, to), || self.inner.rename(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.whole((FileOp::Remove, path), || self.inner.remove(path))
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.whole((FileOp::SyncDir, path), || self.inner.sync_dir(path))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.whole((FileOp::CreateDir, path), || self.inner.create_dir(path))
    }
}
