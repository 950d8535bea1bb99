//! Durable operations recorded in order, and what a power loss after any prefix leaves of them.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use sealcast_common::durable::{AppendFile, Durable, RealFiles};

mod disk;
mod store;

pub use disk::Loss;
pub use store::RecordingStore;

use disk::Disk;

/// One operation; paths are relative to the recording's root.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Create(PathBuf),
    Open(PathBuf, u64),
    Append(PathBuf, Vec<u8>),
    Sync(PathBuf),
    Write(PathBuf, Vec<u8>),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
    SyncDir(PathBuf),
    CreateDir(PathBuf),
    /// An object: whole and durable when it is there.
    Object(PathBuf, Vec<u8>),
}

/// Everything that was done under one root, by however many roles.
#[derive(Clone, Debug)]
pub struct Recording {
    root: PathBuf,
    steps: Arc<Mutex<Vec<Step>>>,
}

impl Recording {
    /// Records what happens under `root`, an empty folder.
    pub fn of(root: &Path) -> Self {
        Recording { root: root.to_owned(), steps: Arc::default() }
    }

    /// How many operations so far: note it when something was promised.
    #[expect(clippy::len_without_is_empty, reason = "a position, not a container")]
    pub fn len(&self) -> usize {
        self.steps.lock().len()
    }

    /// Real files that are recorded here.
    pub fn files(&self) -> RecordingFiles {
        RecordingFiles { recording: self.clone(), inner: Arc::new(RealFiles) }
    }

    /// Writes into the empty folder `into` what stands on disk if power fails after the first
    /// `prefix` operations.
    pub fn replay(&self, prefix: usize, loss: Loss, into: &Path) -> io::Result<()> {
        let mut disk = Disk::default();
        self.steps.lock().iter().take(prefix).for_each(|step| disk.apply(step));
        let (folders, files): (Vec<PathBuf>, BTreeMap<PathBuf, Vec<u8>>) = disk.after(loss);
        for folder in folders {
            RealFiles.create_dir(&into.join(folder))?;
        }
        for (path, bytes) in files {
            let path = into.join(path);
            RealFiles.write_new(&path, &bytes)?;
            // Modes are not recorded; secret keys are refused when others can read them.
            std::fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        }
        Ok(())
    }

    /// What the last operation before `prefix` was: names a failing replay.
    pub fn describe(&self, prefix: usize) -> String {
        let steps = self.steps.lock();
        let step = prefix.checked_sub(1).and_then(|last| steps.get(last));
        step.map_or_else(|| "nothing".to_owned(), Step::describe)
    }

    /// Runs an operation and records it as one: nobody sees the two apart.
    fn run<T>(&self, steps: &[Step], act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let mut recorded = self.steps.lock();
        let done = act()?;
        recorded.extend_from_slice(steps);
        Ok(done)
    }

    fn place(&self, path: &Path) -> io::Result<PathBuf> {
        let inside = path.strip_prefix(&self.root).map_err(|_| {
            let (path, root) = (path.display(), self.root.display());
            io::Error::other(format!("{path} is outside the recorded folder {root}"))
        });
        inside.map(Path::to_owned)
    }
}

impl Step {
    fn describe(&self) -> String {
        match self {
            Step::Create(path) => format!("create {}", path.display()),
            Step::Open(path, len) => format!("open {} at {len}", path.display()),
            Step::Append(path, bytes) => format!("append {} to {}", bytes.len(), path.display()),
            Step::Sync(path) => format!("sync {}", path.display()),
            Step::Write(path, bytes) => format!("write {} to {}", bytes.len(), path.display()),
            Step::Rename(from, to) => format!("rename {} to {}", from.display(), to.display()),
            Step::Remove(path) => format!("remove {}", path.display()),
            Step::SyncDir(path) => format!("sync folder {}", path.display()),
            Step::CreateDir(path) => format!("create folder {}", path.display()),
            Step::Object(path, bytes) => format!("object {} of {}", path.display(), bytes.len()),
        }
    }
}

/// Real files whose every durable operation is recorded.
#[derive(Clone, Debug)]
pub struct RecordingFiles {
    recording: Recording,
    inner: Arc<dyn Durable>,
}

#[derive(Debug)]
struct RecordingAppend {
    recording: Recording,
    path: PathBuf,
    inner: Box<dyn AppendFile>,
}

impl AppendFile for RecordingAppend {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let step = Step::Append(self.path.clone(), bytes.to_vec());
        self.recording.run(&[step], || self.inner.append(bytes))
    }

    fn sync(&mut self) -> io::Result<()> {
        let step = Step::Sync(self.path.clone());
        self.recording.run(&[step], || self.inner.sync())
    }
}

impl RecordingFiles {
    fn appending(&self, path: PathBuf, inner: Box<dyn AppendFile>) -> Box<dyn AppendFile> {
        Box::new(RecordingAppend { recording: self.recording.clone(), path, inner })
    }
}

impl Durable for RecordingFiles {
    fn create_append(&self, path: &Path) -> io::Result<Box<dyn AppendFile>> {
        let place = self.recording.place(path)?;
        let step = Step::Create(place.clone());
        let made = self.recording.run(&[step], || self.inner.create_append(path))?;
        Ok(self.appending(place, made))
    }

    fn open_append(&self, path: &Path, len: u64) -> io::Result<Box<dyn AppendFile>> {
        let place = self.recording.place(path)?;
        let step = Step::Open(place.clone(), len);
        let opened = self.recording.run(&[step], || self.inner.open_append(path, len))?;
        Ok(self.appending(place, opened))
    }

    fn write_new(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let step = Step::Write(self.recording.place(path)?, bytes.to_vec());
        self.recording.run(&[step], || self.inner.write_new(path, bytes))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from_place, to_place) = (self.recording.place(from)?, self.recording.place(to)?);
        let folder = to_place.parent().unwrap_or(Path::new("")).to_owned();
        let steps = [Step::Rename(from_place, to_place), Step::SyncDir(folder)];
        self.recording.run(&steps, || self.inner.rename(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let step = Step::Remove(self.recording.place(path)?);
        self.recording.run(&[step], || self.inner.remove(path))
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let step = Step::SyncDir(self.recording.place(path)?);
        self.recording.run(&[step], || self.inner.sync_dir(path))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let step = Step::CreateDir(self.recording.place(path)?);
        self.recording.run(&[step], || self.inner.create_dir(path))
    }
}
