//! The checkout as the rules see it: every file that git would keep, with its text.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Folders that hold no sources, skipped when git is absent and the disk is walked instead.
const SKIPPED_DIRS: [&str; 6] = [".git", "target", "node_modules", "__pycache__", ".venv", "venv"];

/// A snapshot of the repository's files. Paths are relative to the root, with `/`.
#[derive(Debug)]
pub struct Tree {
    root: PathBuf,
    /// No text for what is not UTF-8.
    files: BTreeMap<String, Option<String>>,
    tracked: bool,
}

impl Tree {
    /// Reads the checkout at `root`: the files that git tracks or would track, or, without git,
    /// everything outside build folders.
    pub fn read(root: &Path) -> io::Result<Self> {
        let listed = git_files(root);
        let tracked = listed.is_some();
        let names = match listed {
            Some(names) => names,
            None => walk(root)?,
        };
        let mut files = BTreeMap::new();
        for name in names {
            let path = root.join(&name);
            // Deleted but still in git's index, or a link: not a file of this tree.
            if path.symlink_metadata().is_ok_and(|found| found.is_file()) {
                files.insert(name, String::from_utf8(std::fs::read(path)?).ok());
            }
        }
        Ok(Self { root: root.to_owned(), files, tracked })
    }

    /// A tree that exists only in memory, for examples.
    pub fn of(files: &[(&str, &str)]) -> Self {
        let files = files.iter().map(|(path, text)| ((*path).to_owned(), Some((*text).to_owned())));
        Self { root: PathBuf::new(), files: files.collect(), tracked: true }
    }

    /// Where the tree was read from; empty for a tree in memory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whether git listed the files. Without git, files of the developer's own are among them.
    pub fn tracked(&self) -> bool {
        self.tracked
    }

    /// The text of a file.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path)?.as_deref()
    }

    /// Every text file with its path.
    pub fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().filter_map(|(path, text)| Some((path.as_str(), text.as_deref()?)))
    }

    /// Every text file whose name ends in `suffix`.
    pub fn ending(&self, suffix: &str) -> impl Iterator<Item = (&str, &str)> {
        self.texts().filter(move |(path, _)| path.ends_with(suffix))
    }

    /// Whether a file, or a folder with a file in it, has this path.
    pub fn exists(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let inside = format!("{path}/");
        let next = self.files.range(inside.clone()..).next();
        self.files.contains_key(path) || next.is_some_and(|(name, _)| name.starts_with(&inside))
    }
}

/// What git tracks or would track, or nothing when git or its repository is missing.
fn git_files(root: &Path) -> Option<Vec<String>> {
    let output = Command::new("git")
        .arg("-C")
        .arg(root)
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .output()
        .ok()?;
    let names = String::from_utf8(output.stdout).ok()?;
    let names: Vec<String> = names.split_terminator('\0').map(str::to_owned).collect();
    // A folder inside somebody else's repository lists nothing; then the disk is the truth.
    (output.status.success() && !names.is_empty()).then_some(names)
}

/// Every file below `root` outside [`SKIPPED_DIRS`].
pub(crate) fn walk(root: &Path) -> io::Result<Vec<String>> {
    let (mut names, mut pending) = (Vec::new(), vec![String::new()]);
    while let Some(dir) = pending.pop() {
        for entry in std::fs::read_dir(root.join(&dir))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if dir.is_empty() { name.clone() } else { format!("{dir}/{name}") };
            if !entry.file_type()?.is_dir() {
                names.push(path);
            } else if !SKIPPED_DIRS.contains(&name.as_str()) {
                pending.push(path);
            }
        }
    }
    Ok(names)
}
