//! A small file system of its own, so that a disk can be full without hurting the machine.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::skip;

/// What the small disk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disk {
    /// Memory: what it refuses, it refuses at once.
    Tmpfs,
    /// ext4 in a file: space is reserved at the write and taken later.
    Loop,
}

/// A mounted disk, unmounted when dropped.
pub struct Mount {
    path: PathBuf,
}

/// Bytes that the filler takes at once; small enough that little is left.
const PIECE: usize = 64 * 1024;

impl Mount {
    /// Mounts `mib` MiB at a new folder, or names `test` as skipped: mounting wants root.
    pub fn new(test: &str, path: &Path, disk: Disk, mib: u32) -> Option<Self> {
        std::fs::create_dir_all(path).expect("folder");
        let mounted = match disk {
            Disk::Tmpfs => {
                let size = format!("size={mib}m");
                done(Command::new("mount").args(["-t", "tmpfs", "-o", &size, "test"]).arg(path))
            }
            Disk::Loop => {
                let image = path.with_extension("image");
                let file = std::fs::File::options().create_new(true).write(true).open(&image);
                let file = file.expect("image");
                file.set_len(u64::from(mib) * 1024 * 1024).expect("image");
                // Without the share that is kept for root: it would never be full.
                done(Command::new("mkfs.ext4").args(["-q", "-F", "-m", "0"]).arg(&image)).and_then(
                    |()| done(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(path)),
                )
            }
        };
        match mounted {
            Ok(()) => Some(Mount { path: path.to_owned() }),
            Err(refused) => {
                skip(test, &format!("no small disk ({disk:?}) can be mounted here: {refused}"));
                None
            }
        }
    }

    fn filler(&self) -> PathBuf {
        self.path.join("filler")
    }

    /// Takes all space that is left.
    pub fn fill(&self) {
        let mut file = std::fs::File::options().create(true).append(true).open(self.filler());
        let file = file.as_mut().expect("filler");
        while file.write_all(&[7; PIECE]).is_ok() {}
    }

    /// Space returns.
    pub fn free(&self) {
        std::fs::remove_file(self.filler()).expect("filler");
    }
}

/// Runs a command; the reason if it fails.
fn done(command: &mut Command) -> Result<(), String> {
    match command.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Err(format!("{}: {error}", command.get_program().display())),
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Lazily: whatever still has a file open there loses it with its process.
        let unmounted = Command::new("umount").arg("--lazy").arg(&self.path).status();
        if !unmounted.is_ok_and(|status| status.success()) && !std::thread::panicking() {
            panic!("{} is still mounted", self.path.display());
        }
    }
}
