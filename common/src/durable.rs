//! The only home of file writes that must survive a crash: write, sync, rename, sync the folder.
//!
//! Behind a trait, so that tests can record every operation, replay any prefix of them with
//! unsynced bytes lost, or fail one of them.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, chown};
use std::path::{Path, PathBuf};

/// An append-only file.
pub trait AppendFile: Send + fmt::Debug {
    /// Appends; a short write is an error.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Returns when everything appended is on stable storage. Never retried after an error: the
    /// kernel may have dropped the dirty pages (the fsyncgate lesson).
    fn sync(&mut self) -> io::Result<()>;
}

/// Durable file operations.
pub trait Durable: Send + Sync + fmt::Debug {
    /// Creates a new file for appending; it must not exist. The folder entry is not yet durable.
    fn create_append(&self, path: &Path) -> io::Result<Box<dyn AppendFile>>;
    /// Opens an existing file for appending after its first `len` bytes, cutting the rest.
    fn open_append(&self, path: &Path, len: u64) -> io::Result<Box<dyn AppendFile>>;
    /// Writes a whole new file (replacing a leftover of the same name) and syncs it; a failure
    /// leaves none.
    fn write_new(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;
    /// Renames within one file system and syncs the target's folder.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file; a missing one is fine.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes the folder's entries durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// Makes a folder and its parents.
    fn create_dir(&self, path: &Path) -> io::Result<()>;

    /// Writes under a temporary name, syncs, renames, syncs the folder: all or nothing.
    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let temporary = temporary_name(path);
        self.write_new(&temporary, bytes)?;
        self.rename(&temporary, path)
    }
}

/// As [`Durable::replace`], readable for the owner alone from its first byte. A file that is there
/// keeps owner and mode: whoever reads it may be somebody else than who replaces it.
pub fn replace_secret(files: &dyn Durable, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = temporary_name(path);
    match files.remove(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    if let Ok(old) = fs::metadata(path) {
        let ours = fs::metadata(&temporary)?;
        if (old.uid(), old.gid()) != (ours.uid(), ours.gid()) {
            chown(&temporary, Some(old.uid()), Some(old.gid()))?;
        }
        fs::set_permissions(&temporary, old.permissions())?;
    }
    files.write_new(&temporary, bytes)?;
    files.rename(&temporary, path)
}

/// The name under which a file is written before it is renamed; leftovers end in `.tmp`.
pub fn temporary_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    PathBuf::from(name)
}

/// The real file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealFiles;

#[derive(Debug)]
struct RealAppend {
    file: File,
}

impl AppendFile for RealAppend {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }
}

impl Durable for RealFiles {
    fn create_append(&self, path: &Path) -> io::Result<Box<dyn AppendFile>> {
        let file = OpenOptions::new().append(true).create_new(true).open(path)?;
        Ok(Box::new(RealAppend { file }))
    }

    fn open_append(&self, path: &Path, len: u64) -> io::Result<Box<dyn AppendFile>> {
        let file = OpenOptions::new().append(true).open(path)?;
        if file.metadata()?.len() > len {
            file.set_len(len)?;
            file.sync_all()?;
        }
        Ok(Box::new(RealAppend { file }))
    }

    fn write_new(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
        file.write_all(bytes).and_then(|()| file.sync_all()).inspect_err(|_| {
            // Half a file helps nobody, and would keep a full disk full.
            let _best_effort = fs::remove_file(path);
        })
    }

    #[expect(clippy::disallowed_methods, reason = "the seam's one home")]
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)?;
        match to.parent() {
            // A bare name lies in the working folder.
            Some(parent) if parent.as_os_str().is_empty() => self.sync_dir(Path::new(".")),
            Some(parent) => self.sync_dir(parent),
            None => Ok(()),
        }
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        match fs::remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_replaced_secret_keeps_its_readers() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        replace_secret(&RealFiles, &path, b"one").unwrap();
        assert_eq!(mode(&path), 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        // Only root may give files away.
        let given = chown(&path, Some(65_534), Some(65_534)).is_ok();
        replace_secret(&RealFiles, &path, b"two").unwrap();
        assert_eq!((mode(&path), fs::read(&path).unwrap()), (0o640, b"two".to_vec()));
        assert_eq!(given, fs::metadata(&path).unwrap().uid() == 65_534);
    }

    #[test]
    fn a_full_disk_keeps_no_half_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("half");
        std::os::unix::fs::symlink("/dev/full", &path).unwrap();
        let failed = RealFiles.write_new(&path, b"bytes").unwrap_err();
        assert_eq!(failed.kind(), io::ErrorKind::StorageFull);
        assert!(path.symlink_metadata().is_err());
    }
}
