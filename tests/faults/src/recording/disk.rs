//! A model of a disk under power loss: inodes with a stable part, folders with stable entries.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::Step;

/// How much more than the promised minimum a power loss spares. Real file systems may keep any
/// part of what was not synced; these are the corners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The process died, the machine did not: everything is there.
    Process,
    /// Nothing that was not synced is there: neither bytes nor names.
    Everything,
    /// Names are there; of bytes that were not synced the first half.
    Torn,
    /// Names are there; files are as long as they were, with zeros where bytes were not synced.
    Zeros,
}

#[derive(Clone, Debug, Default)]
struct Inode {
    bytes: Vec<u8>,
    /// How much is on stable storage. Appends are the only unsynced writes.
    stable: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    Folder,
    File(usize),
}

/// See the module. The root folder is the empty path and always there.
#[derive(Debug, Default)]
pub(super) struct Disk {
    inodes: Vec<Inode>,
    now: BTreeMap<PathBuf, Entry>,
    stable: BTreeMap<PathBuf, Entry>,
}

impl Disk {
    pub(super) fn apply(&mut self, step: &Step) {
        match step {
            Step::Create(path) => self.link(path, Vec::new()),
            Step::Open(path, len) => {
                if let Some(inode) = self.inode(path) {
                    let len = usize::try_from(*len).unwrap_or(usize::MAX);
                    if len < inode.bytes.len() {
                        // Cutting syncs the whole file.
                        inode.bytes.truncate(len);
                        inode.stable = len;
                    }
                }
            }
            Step::Append(path, bytes) => {
                if let Some(inode) = self.inode(path) {
                    inode.bytes.extend_from_slice(bytes);
                }
            }
            Step::Sync(path) => {
                if let Some(inode) = self.inode(path) {
                    inode.stable = inode.bytes.len();
                }
            }
            Step::Write(path, bytes) => self.link(path, bytes.clone()),
            Step::Rename(from, to) => {
                if let Some(entry) = self.now.remove(from) {
                    self.now.insert(to.clone(), entry);
                }
            }
            Step::Remove(path) => {
                self.now.remove(path);
            }
            Step::SyncDir(folder) => self.sync_folder(folder),
            Step::CreateDir(path) => {
                for folder in path.ancestors().filter(|folder| *folder != Path::new("")) {
                    self.now.entry(folder.to_owned()).or_insert(Entry::Folder);
                }
            }
            Step::Object(path, bytes) => {
                self.link(path, bytes.clone());
                for folder in path.ancestors().skip(1).filter(|it| *it != Path::new("")) {
                    self.now.insert(folder.to_owned(), Entry::Folder);
                    self.stable.insert(folder.to_owned(), Entry::Folder);
                }
                if let Some(parent) = path.parent() {
                    self.sync_folder(parent);
                }
            }
        }
    }

    /// A name for new, stable bytes. A file that is replaced under its name keeps its inode, so
    /// that an unsynced name never brings old bytes back: writing in place is not atomic.
    fn link(&mut self, path: &Path, bytes: Vec<u8>) {
        let stable = bytes.len();
        let inode = Inode { bytes, stable };
        if let Some(Entry::File(at)) = self.now.get(path) {
            self.inodes[*at] = inode;
            return;
        }
        self.inodes.push(inode);
        self.now.insert(path.to_owned(), Entry::File(self.inodes.len() - 1));
    }

    fn inode(&mut self, path: &Path) -> Option<&mut Inode> {
        match self.now.get(path) {
            Some(Entry::File(at)) => self.inodes.get_mut(*at),
            _ => None,
        }
    }

    fn sync_folder(&mut self, folder: &Path) {
        let inside = |path: &PathBuf| path.parent() == Some(folder);
        self.stable.retain(|path, _| !inside(path));
        let entries = self.now.iter().filter(|(path, _)| inside(path));
        self.stable.extend(entries.map(|(path, entry)| (path.clone(), *entry)));
    }

    /// Folders and files that are there after the loss.
    pub(super) fn after(&self, loss: Loss) -> (Vec<PathBuf>, BTreeMap<PathBuf, Vec<u8>>) {
        let names = if loss == Loss::Everything { &self.stable } else { &self.now };
        let reachable = |path: &Path| {
            let mut parents = path.ancestors().skip(1).filter(|it| *it != Path::new(""));
            parents.all(|folder| names.get(folder) == Some(&Entry::Folder))
        };
        let (mut folders, mut files) = (Vec::new(), BTreeMap::new());
        for (path, entry) in names.iter().filter(|(path, _)| reachable(path)) {
            match entry {
                Entry::Folder => folders.push(path.clone()),
                Entry::File(at) => {
                    files.insert(path.clone(), self.inodes[*at].after(loss));
                }
            }
        }
        (folders, files)
    }
}

impl Inode {
    fn after(&self, loss: Loss) -> Vec<u8> {
        let (len, stable) = (self.bytes.len(), self.stable);
        match loss {
            Loss::Process => self.bytes.clone(),
            Loss::Everything => self.bytes[..stable].to_vec(),
            Loss::Torn => self.bytes[..stable + (len - stable) / 2].to_vec(),
            Loss::Zeros => {
                let mut bytes = self.bytes[..stable].to_vec();
                bytes.resize(len, 0);
                bytes
            }
        }
    }
}
