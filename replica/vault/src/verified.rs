//! The verified index: which local files this vault has judged row by row.
//!
//! One line a file, appended after the file's rename. What a crash keeps out of it is judged again
//! on first use; what is in it is believed as far as its BLAKE3 still is the commit's.

use std::collections::HashSet;
use std::io;
use std::path::Path;

use parking_lot::Mutex;
use sealcast_common::durable::{AppendFile, Durable};

const FILE: &str = "verified.idx";

/// The list, on disk and in memory.
#[derive(Debug)]
pub(crate) struct VerifiedIndex {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    names: HashSet<String>,
    /// `None` after a failed write, which is never tried again: its outcome is unknown.
    file: Option<Box<dyn AppendFile>>,
}

impl VerifiedIndex {
    /// Reads the index, keeping the names for which `is_local` holds, and rewrites it compactly.
    pub(crate) fn open(
        dir: &Path,
        files: &dyn Durable,
        is_local: impl Fn(&str) -> bool,
    ) -> io::Result<Self> {
        let path = dir.join(FILE);
        let text = match std::fs::read(&path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error),
        };
        // A line that a crash has torn names no local file.
        let names: HashSet<String> =
            text.lines().filter(|name| is_local(name)).map(str::to_owned).collect();
        let mut lines: Vec<&str> = names.iter().map(String::as_str).collect();
        lines.sort_unstable();
        let mut compact = lines.join("\n");
        if !compact.is_empty() {
            compact.push('\n');
        }
        files.replace(&path, compact.as_bytes())?;
        let file = files.open_append(&path, compact.len() as u64)?;
        Ok(VerifiedIndex { state: Mutex::new(State { names, file: Some(file) }) })
    }

    pub(crate) fn holds(&self, name: &str) -> bool {
        self.state.lock().names.contains(name)
    }

    /// Best effort: without the line, the file is judged again after a restart.
    pub(crate) fn add(&self, name: &str) {
        let mut state = self.state.lock();
        state.names.insert(name.to_owned());
        let Some(file) = state.file.as_mut() else { return };
        let added = file.append(format!("{name}\n").as_bytes()).and_then(|()| file.sync());
        if let Err(error) = added {
            tracing::warn!(%error, "verified index not written; files are judged again later");
            state.file = None;
        }
    }

    pub(crate) fn remove(&self, name: &str) {
        self.state.lock().names.remove(name);
    }
}
