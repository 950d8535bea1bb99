//! Named pipes in the place of files: whoever opens one waits there. So a real process stops
//! between two of its own steps, without knowing of it, until it is killed or let go.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, open};
use sealcast_common::durable::{Durable as _, RealFiles, temporary_name};

use crate::until;

fn make(path: &Path) {
    let mode = Mode::RUSR | Mode::WUSR;
    mknodat(CWD, path, FileType::Fifo, mode, 0).expect("a named pipe");
}

fn is_pipe(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_fifo())
}

/// In the place of a file: who reads it waits, and gets its content when let go.
pub struct ReadPipe {
    path: PathBuf,
    aside: PathBuf,
    writer: Option<File>,
}

impl ReadPipe {
    /// Takes the place of `path`, which is kept as `aside` in the same file system.
    pub fn instead_of(path: &Path, aside: &Path) -> Self {
        std::fs::hard_link(path, aside).expect("a second name");
        let pipe = temporary_name(aside);
        make(&pipe);
        RealFiles.rename(&pipe, path).expect("rename");
        ReadPipe { path: path.to_owned(), aside: aside.to_owned(), writer: None }
    }

    /// Returns once somebody reads.
    pub async fn reached(&mut self, what: &str) {
        // Without a reader it cannot be opened for writing.
        let flags = OFlags::WRONLY | OFlags::NONBLOCK;
        let opened = until(what, || async { open(&self.path, flags, Mode::empty()).ok() }).await;
        self.writer = Some(File::from(opened));
    }

    /// The reader gets what the file held, and goes on.
    pub fn let_go(&mut self) {
        let mut writer = self.writer.take().expect("a reader that waits");
        writer.write_all(&std::fs::read(&self.aside).expect("content")).expect("reader");
    }

    /// After the reader's death: the file is back, unless another has taken its place since.
    pub fn end(self) {
        match is_pipe(&self.path) {
            true => RealFiles.rename(&self.aside, &self.path).expect("rename"),
            false => RealFiles.remove(&self.aside).expect("remove"),
        }
    }
}

/// Under the temporary name of a file: who replaces that file waits for ever.
pub struct WritePipe(PathBuf);

impl WritePipe {
    /// In the way of whoever replaces `path`.
    pub fn before(path: &Path) -> Self {
        let temporary = temporary_name(path);
        make(&temporary);
        WritePipe(temporary)
    }

    /// After the death of whoever waits.
    pub fn end(self) {
        assert!(is_pipe(&self.0), "{} was passed", self.0.display());
        RealFiles.remove(&self.0).expect("remove");
    }
}
