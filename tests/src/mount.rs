//! A small file system of its own, so that a disk can be full without hurting the machine.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::skip;

/// A tmpfs, unmounted when dropped.
pub struct Mount {
    path: PathBuf,
}

/// Bytes that the filler takes at once; small enough that little is left.
const PIECE: usize = 64 * 1024;

impl Mount {
    /// Mounts `mib` MiB at a new folder, or names `test` as skipped: mounting wants root.
    pub fn new(test: &str, path: &Path, mib: u32) -> Option<Self> {
        std::fs::create_dir_all(path).expect("folder");
        let size = format!("size={mib}m");
        let mut mount = Command::new("mount");
        let output = mount.args(["-t", "tmpfs", "-o", &size, "sealcast-test"]).arg(path).output();
        let refused = match output {
            Ok(output) if output.status.success() => return Some(Mount { path: path.to_owned() }),
            Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            Err(error) => error.to_string(),
        };
        skip(test, &format!("no small disk can be mounted here: {refused}"));
        None
    }

    fn filler(&self) -> PathBuf {
        self.path.join("filler")
    }

    /// Takes all space that is left but about `spare` bytes.
    pub fn fill(&self, spare: usize) {
        let mut file = std::fs::File::options().create(true).append(true).open(self.filler());
        let file = file.as_mut().expect("filler");
        while file.write_all(&[7; PIECE]).is_ok() {}
        let len = file.metadata().expect("filler").len();
        file.set_len(len.saturating_sub(spare as u64)).expect("filler");
    }

    /// Space returns.
    pub fn free(&self) {
        std::fs::remove_file(self.filler()).expect("filler");
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
