//! Reading the data directory: whole files, footers only, and what lies in a folder.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use arrow_buffer::{Buffer, MutableBuffer};
use sealcast_common::durable::{Durable, temporary_name};

/// Bytes at the start of an Arrow file that a footer's reader looks at.
const HEAD_BYTES: usize = 64;
/// Footer length and magic at the end.
const END_BYTES: usize = 10;
/// What is compared at once.
const PIECE_BYTES: usize = 256 * 1024;

/// A whole file in memory, aligned as Arrow wants it.
pub(crate) fn read_aligned(path: &Path) -> io::Result<Buffer> {
    let mut file = File::open(path)?;
    let len = length(&file)?;
    let mut buffer = MutableBuffer::from_len_zeroed(len);
    file.read_exact(buffer.as_slice_mut())?;
    Ok(buffer.into())
}

/// Whether a file holds exactly these bytes; read piece by piece.
pub(crate) fn holds(path: &Path, bytes: &[u8]) -> io::Result<bool> {
    let mut file = File::open(path)?;
    if length(&file)? != bytes.len() {
        return Ok(false);
    }
    let mut piece = vec![0; PIECE_BYTES.min(bytes.len())];
    for expected in bytes.chunks(PIECE_BYTES) {
        let found = &mut piece[..expected.len()];
        match file.read_exact(found) {
            Ok(()) if found == expected => {}
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => return Err(error),
            _ => return Ok(false),
        }
    }
    Ok(true)
}

/// A segment file of which only head and footer are read; the rows between are zero pages, which
/// cost neither disk nor memory. Enough for `SegmentView::parse`, and for nothing else.
pub(crate) fn read_footer(path: &Path) -> io::Result<Buffer> {
    let mut file = File::open(path)?;
    let len = length(&file)?;
    let mut bytes = vec![0; len];
    let head = HEAD_BYTES.min(len);
    file.read_exact(&mut bytes[..head])?;
    let end = len.saturating_sub(END_BYTES);
    file.seek(SeekFrom::Start(end as u64))?;
    file.read_exact(&mut bytes[end..])?;
    let size = bytes[end..].first_chunk::<4>().map_or(0, |size| u32::from_le_bytes(*size));
    let start = end.saturating_sub(size as usize);
    file.seek(SeekFrom::Start(start as u64))?;
    file.read_exact(&mut bytes[start..end])?;
    Ok(Buffer::from_vec(bytes))
}

fn length(file: &File) -> io::Result<usize> {
    usize::try_from(file.metadata()?.len()).map_err(io::Error::other)
}

/// The plain files of a folder by name, sorted; links and folders are not followed.
pub(crate) fn files_in(dir: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_file()
            && let Ok(name) = entry.file_name().into_string()
        {
            found.push((name, entry.path()));
        }
    }
    found.sort();
    Ok(found)
}

/// Whether a disk that was full takes `bytes` again: they are written, synced and removed. Asking
/// the system for its free blocks says less: quotas, reserves and delayed allocation lie between.
pub(crate) fn has_space(dir: &Path, bytes: usize, files: &dyn Durable) -> io::Result<()> {
    let probe = temporary_name(&dir.join("space"));
    let written = files.write_new(&probe, &vec![0; bytes]);
    let removed = files.remove(&probe);
    written.and(removed)
}

/// Removes what a crash left half-written.
pub(crate) fn remove_leftovers(dir: &Path, files: &dyn Durable) -> io::Result<()> {
    for (name, path) in files_in(dir)? {
        if name.ends_with(".tmp") {
            files.remove(&path)?;
        }
    }
    Ok(())
}
