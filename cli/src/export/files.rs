//! Files read that somebody else may have prepared, and files written once.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::Path;

use super::cannot;
use crate::output::Failure;

/// A regular file of at most `max` bytes: a link or a pipe in its place could name anything.
pub(super) fn read(path: &Path, max: u64) -> Result<Vec<u8>, Failure> {
    let place = path.display();
    let failed = |error: std::io::Error| cannot(format!("{place}: {error}"));
    let meta = fs::symlink_metadata(path).map_err(failed)?;
    if !meta.is_file() || meta.len() > max {
        let found = format!("{place}: found no regular file, or {} bytes", meta.len());
        return Err(cannot(format!("{found}; expected a file of at most {max} bytes")));
    }
    let mut bytes = Vec::new();
    File::open(path).map_err(failed)?.take(max).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

/// Writes a file that must not exist, and its folders. Not synced: it can be made again.
pub(crate) fn write_new(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
    let written = folder.and_then(|()| File::create_new(path)?.write_all(bytes));
    written.map_err(|error| cannot(format!("{}: {error}", path.display())))
}

/// The folder is there and nothing is in it.
pub(super) fn empty_folder(path: &Path) -> Result<(), Failure> {
    let failed = |error: std::io::Error| cannot(format!("{}: {error}", path.display()));
    fs::create_dir_all(path).map_err(failed)?;
    match fs::read_dir(path).map_err(failed)?.next() {
        None => Ok(()),
        Some(_) => Err(cannot(format!("{} is not empty", path.display()))
            .hint("an export never mixes with other files: name a new folder")),
    }
}
