//! Files of a folder that somebody else may have prepared: bounded, regular, and never followed.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use sealcast_common::fault::Corruption;

use super::Report;

/// Notes, keys and the small JSON files, bytes.
pub(super) const SMALL_BYTES_MAX: u64 = 64 * 1024;

/// Why a file gave no bytes.
#[derive(Debug)]
pub(super) enum Unread {
    /// It is gone, or no file of ours.
    Tampered(Corruption),
    /// The system does not let us: nothing is known about it.
    Cannot(String),
}

impl From<Corruption> for Unread {
    fn from(found: Corruption) -> Self {
        Unread::Tampered(found)
    }
}

impl Report {
    /// Books what stopped a check.
    pub(super) fn book(&mut self, result: Result<(), Unread>) {
        match result {
            Ok(()) => {}
            Err(Unread::Tampered(found)) => self.findings.push(found),
            Err(Unread::Cannot(why)) => self.unchecked.push(why),
        }
    }
}

/// The bytes of a regular file of at most `max` bytes. A link, a pipe or a device in its place
/// could name anything, block for ever or never end.
pub(super) fn read(path: &Path, max: u64, expected: &str) -> Result<Vec<u8>, Unread> {
    let place = path.display().to_string();
    let foreign = |found: String| Corruption::new("readable", None, expected, found);
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => foreign(error.to_string()).in_object(&place).into(),
        _ => Unread::Cannot(format!("{place}: {error}")),
    };
    let meta = std::fs::symlink_metadata(path).map_err(failed)?;
    if !meta.is_file() {
        return Err(foreign("no regular file".into()).in_object(&place).into());
    }
    if meta.len() > max {
        return Err(foreign(format!("{} bytes", meta.len())).in_object(&place).into());
    }
    let mut bytes = Vec::new();
    File::open(path).map_err(failed)?.take(max).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

/// [`read`], as text.
pub(super) fn read_text(path: &Path, expected: &str) -> Result<String, Unread> {
    let bytes = read(path, SMALL_BYTES_MAX, expected)?;
    String::from_utf8(bytes).map_err(|error| {
        let found = Corruption::new("readable", None, expected, error.to_string());
        found.in_object(path.display().to_string()).into()
    })
}

/// (name, path) of everything in a folder, in order; a folder that is missing has nothing.
pub(super) fn list(folder: &Path) -> Result<Vec<(String, PathBuf)>, Unread> {
    let failed = |error: io::Error| Unread::Cannot(format!("{}: {error}", folder.display()));
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        found.extend(entry.file_name().into_string().ok().map(|name| (name, entry.path())));
    }
    found.sort_unstable();
    Ok(found)
}
