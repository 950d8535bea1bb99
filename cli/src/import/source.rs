//! Finds the files to import and opens one: plain, gzip or zstd by its first bytes, never by its name.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::error::{At, Place, SourceError};

/// Extensions that are looked into when a folder is walked; a file that is named outright is always read.
const EXTENSIONS: [&str; 5] = ["json", "ndjson", "jsonl", "gz", "zst"];
/// Files of one import: the list is held in memory.
const FILES_MAX: usize = 1_000_000;
/// Folders inside folders.
const FOLDER_DEPTH_MAX: usize = 64;
const BUFFER_BYTES: usize = 128 * 1024;
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// What an import will read, in order, and what it found beside it.
#[derive(Debug, Default)]
pub struct Sources {
    pub files: Vec<PathBuf>,
    pub ignored: Vec<Ignored>,
}

/// An entry of a folder that is not read.
#[derive(Debug, PartialEq, Eq)]
pub struct Ignored {
    pub path: PathBuf,
    pub reason: Reason,
}

/// Why an entry is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    Extension,
    SymbolicLink,
    NotAFile,
    TooDeep,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Extension => write!(f, "its name ends in none of .{}", EXTENSIONS.join(", .")),
            Reason::SymbolicLink => f.write_str("it is a symbolic link"),
            Reason::NotAFile => f.write_str("it is not a regular file"),
            Reason::TooDeep => write!(f, "it lies more than {FOLDER_DEPTH_MAX} folders deep"),
        }
    }
}

/// Lists the files behind the paths: a folder's by name and depth first, a file as it is given.
pub fn discover(paths: &[PathBuf]) -> Result<Sources, SourceError> {
    let mut sources = Sources::default();
    for path in paths {
        let metadata = fs::metadata(path).map_err(|source| unreadable(path, "opened", source))?;
        if metadata.is_dir() {
            walk(path, 0, &mut sources)?;
        } else {
            sources.files.push(path.clone());
        }
    }
    Ok(sources)
}

fn walk(folder: &Path, depth: usize, sources: &mut Sources) -> Result<(), SourceError> {
    let listed = fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let mut entries = listed.map_err(|source| unreadable(folder, "listed", source))?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        // The entry's own type: a link could lead out of the folder, or round in a circle.
        let kind = entry.file_type().map_err(|source| unreadable(&path, "opened", source))?;
        let reason = if kind.is_dir() {
            if depth < FOLDER_DEPTH_MAX {
                walk(&path, depth + 1, sources)?;
                continue;
            }
            Reason::TooDeep
        } else if kind.is_symlink() {
            Reason::SymbolicLink
        } else if !kind.is_file() {
            Reason::NotAFile
        } else if has_known_extension(&path) {
            sources.files.push(path);
            continue;
        } else {
            Reason::Extension
        };
        sources.ignored.push(Ignored { path, reason });
    }
    let found = sources.files.len() + sources.ignored.len();
    if found > FILES_MAX {
        return Err(SourceError::TooManyFiles { place: whole(folder), found, limit: FILES_MAX });
    }
    Ok(())
}

fn has_known_extension(path: &Path) -> bool {
    path.extension()
        .is_some_and(|found| EXTENSIONS.iter().any(|known| found.eq_ignore_ascii_case(known)))
}

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    None,
    Gzip,
    Zstd,
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Compression::None => "uncompressed",
            Compression::Gzip => "gzip",
            Compression::Zstd => "zstd",
        })
    }
}

/// How much of a file was read, in its own (compressed) bytes: what a progress bar shows.
#[derive(Clone, Debug)]
pub struct Progress {
    read: Arc<AtomicU64>,
    pub bytes_total: u64,
}

impl Progress {
    pub fn bytes_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }
}

/// An open file and its decompressed content.
pub(super) struct Source {
    pub(super) file: Arc<Path>,
    pub(super) compression: Compression,
    pub(super) progress: Progress,
    pub(super) content: Box<dyn BufRead + Send>,
}

impl Source {
    pub(super) fn open(path: &Path) -> Result<Source, SourceError> {
        let opened = File::open(path).and_then(|file| Ok((file.metadata()?.len(), file)));
        let (bytes_total, file) = opened.map_err(|source| unreadable(path, "opened", source))?;
        let progress = Progress { read: Arc::default(), bytes_total };
        let mut raw = Counting { file, read: Arc::clone(&progress.read) };
        let mut magic = Vec::with_capacity(ZSTD_MAGIC.len());
        (&mut raw)
            .take(ZSTD_MAGIC.len() as u64)
            .read_to_end(&mut magic)
            .map_err(|source| unreadable(path, "read", source))?;
        let compression = if magic.starts_with(&GZIP_MAGIC) {
            Compression::Gzip
        } else if magic == ZSTD_MAGIC {
            Compression::Zstd
        } else {
            Compression::None
        };
        let raw = BufReader::with_capacity(BUFFER_BYTES, Cursor::new(magic).chain(raw));
        let content: Box<dyn BufRead + Send> = match compression {
            Compression::None => Box::new(raw),
            Compression::Gzip => buffered(flate2::bufread::MultiGzDecoder::new(raw)),
            Compression::Zstd => buffered(
                zstd::stream::read::Decoder::with_buffer(raw)
                    .map_err(|source| unreadable(path, "read", source))?,
            ),
        };
        Ok(Source { file: path.into(), compression, progress, content })
    }
}

fn buffered(decoder: impl Read + Send + 'static) -> Box<dyn BufRead + Send> {
    Box::new(BufReader::with_capacity(BUFFER_BYTES, decoder))
}

/// Counts what is read from the file itself.
struct Counting {
    file: File,
    read: Arc<AtomicU64>,
}

impl Read for Counting {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.file.read(buffer)?;
        self.read.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(bytes)
    }
}

fn whole(path: &Path) -> Place {
    Place { file: path.into(), at: At::File }
}

fn unreadable(path: &Path, wanted: &'static str, source: io::Error) -> SourceError {
    SourceError::Unreadable { place: whole(path), wanted, source }
}
