//! A role's folder: file system, syncing, space, permissions, locks.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use sealcast_common::clock::Clock;
use sealcast_common::durable::{Durable as _, RealFiles};
use sealcast_common::layout::DataDir;

use super::{Finding, Folder, Use};

/// Less space than this is a failure: one full tail and its segment.
const SPACE_BYTES_LEAST: u64 = 256 * 1024 * 1024;
/// Less than this is a warning.
const SPACE_BYTES_FEW: u64 = 4 * 1024 * 1024 * 1024;
const INODES_FEW: u64 = 10_000;
/// Syncs slower than this bound every acknowledgement.
const SYNC_MS_SLOW: u128 = 50;
const SYNCS: usize = 5;

/// File systems over a network: locks and syncs are promises of somebody else.
const NETWORK: [&str; 12] = [
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "9p",
    "ceph",
    "glusterfs",
    "fuse.sshfs",
    "fuse.s3fs",
    "lustre",
    "afs",
];
/// File systems that forget.
const VOLATILE: [&str; 2] = ["tmpfs", "ramfs"];

pub(super) fn examine(folder: &Folder, clock: &dyn Clock) -> Vec<Finding> {
    let (path, name) = (&folder.path, folder.path.display().to_string());
    if !path.is_dir() {
        let there = existing_parent(path);
        let found = format!("it does not exist yet; {} does", there.display());
        let mut findings = vec![
            Finding::warn("folder", &name, found)
                .advice("the role makes it at its first start; is the path right?"),
        ];
        findings.push(file_system(&there, folder.use_));
        findings.extend(space(&there));
        return findings;
    }
    let mut findings = vec![file_system(path, folder.use_)];
    findings.extend(space(path));
    findings.extend(permissions(path, &name));
    findings.extend(keys(path));
    findings.extend(locks(path));
    findings.push(syncs(path, &name, folder.use_, clock));
    findings
}

fn existing_parent(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let there = absolute.ancestors().find(|ancestor| ancestor.is_dir());
    there.unwrap_or(Path::new("/")).to_owned()
}

fn file_system(path: &Path, use_: Use) -> Finding {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let Some(kind) = mounted(&mounts, &real) else {
        return Finding::warn("filesystem", path.display(), "its type is not known");
    };
    if NETWORK.contains(&kind) {
        let found = format!("{kind}, over a network");
        let finding = Finding::warn("filesystem", path.display(), found);
        return finding.advice("use a local disk: locks, syncs and maps rest on it");
    }
    if VOLATILE.contains(&kind) && use_ == Use::Data {
        let finding = Finding::fail("filesystem", path.display(), format!("{kind}, in memory"));
        return finding.advice("use a disk: a restart of the machine loses acknowledged events");
    }
    Finding::ok("filesystem", path.display(), kind)
}

/// The type of the file system that holds `path`: the longest mount point above it, the last one
/// where several are mounted on each other.
pub(super) fn mounted<'m>(mounts: &'m str, path: &Path) -> Option<&'m str> {
    let entries = mounts.lines().filter_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let point = left.split(' ').nth(4)?.replace("\\040", " ");
        let depth = path.starts_with(&point).then(|| Path::new(&point).components().count())?;
        Some((depth, right.split(' ').next()?))
    });
    entries.max_by_key(|(depth, _)| *depth).map(|(_, kind)| kind)
}

fn space(path: &Path) -> Vec<Finding> {
    let name = path.display();
    let stat = match rustix::fs::statvfs(path) {
        Ok(stat) => stat,
        Err(error) => return vec![Finding::fail("space", name, error)],
    };
    let bytes = stat.f_bavail.saturating_mul(stat.f_frsize);
    let found = format!("{} MiB free", bytes / (1024 * 1024));
    let advice = "make space: a full disk ends taking events (507) and fetching segments";
    let mut findings = vec![match bytes {
        ..SPACE_BYTES_LEAST => Finding::fail("space", &name, found).advice(advice),
        SPACE_BYTES_LEAST..SPACE_BYTES_FEW => Finding::warn("space", &name, found).advice(advice),
        _ => Finding::ok("space", &name, found),
    }];
    // Some file systems have no fixed number of inodes and tell zero.
    if stat.f_files > 0 && stat.f_favail < INODES_FEW {
        let found = format!("{} inodes free", stat.f_favail);
        findings
            .push(Finding::warn("space", &name, found).advice("every segment is a file or two"));
    }
    findings
}

fn permissions(path: &Path, name: &str) -> Vec<Finding> {
    let meta = match std::fs::metadata(path) {
        Ok(meta) => meta,
        Err(error) => return vec![Finding::fail("permissions", name, error)],
    };
    let (mode, us) = (meta.permissions().mode() & 0o7777, effective_user());
    let mut findings = vec![if mode & 0o077 == 0 {
        Finding::ok("permissions", name, format!("mode {mode:04o}"))
    } else {
        let found = format!("mode {mode:04o}, expected 0700");
        Finding::warn("permissions", name, found).advice(format!("chmod 700 {name}"))
    }];
    if us.is_some_and(|us| us != meta.uid()) {
        let found = format!("it belongs to user {}, this is user {}", meta.uid(), us.unwrap_or(0));
        let advice = "run doctor as the user that runs the roles, or chown the folder to it";
        findings.push(Finding::warn("permissions", name, found).advice(advice));
    }
    findings
}

fn effective_user() -> Option<u32> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Secret keys that others may read.
fn keys(path: &Path) -> Vec<Finding> {
    let shards = std::fs::read_dir(path.join("keys")).into_iter().flatten().flatten();
    let others = [DataDir::new(path).ship_key_file(), path.join("witness.key")];
    let files = shards.map(|entry| entry.path()).chain(others);
    let secret = files.filter(|path| path.extension().is_some_and(|extension| extension == "key"));
    let modes = secret.filter_map(|path| {
        let mode = std::fs::metadata(&path).ok()?.permissions().mode() & 0o7777;
        (mode & 0o077 != 0).then(|| {
            let found = format!("mode {mode:04o}, expected 0600: others may sign in your name");
            let advice = format!("chmod 600 {}; was it read by anybody?", path.display());
            Finding::fail("permissions", path.display(), found).advice(advice)
        })
    });
    modes.collect()
}

/// Who holds the folder's locks. They are looked up, not tried: a role that starts meanwhile must
/// not be refused because of us.
fn locks(path: &Path) -> Vec<Finding> {
    let data = DataDir::new(path);
    let held = std::fs::read_to_string("/proc/locks").unwrap_or_default();
    let witness = ("witness", path.join("witness.lock"));
    let files = [("writer", data.lock_file()), ("shipper", data.ship_lock_file()), witness];
    let there = files.into_iter().filter_map(|(role, file)| {
        let inode = std::fs::metadata(&file).ok()?.ino();
        let found = match holders(&held, inode).find(|pid| may_hold(pid, &file)) {
            Some(pid) => format!("held by process {pid}: a {role} works here"),
            None => format!("free: no {role} works here"),
        };
        Some(Finding::ok("lock", file.display(), found))
    });
    there.collect()
}

/// Processes that hold a lock on an `inode` of that number, from `/proc/locks`.
pub(super) fn holders(locks: &str, inode: u64) -> impl Iterator<Item = &str> {
    locks.lines().filter_map(move |line| {
        let mut words = line.split_whitespace().skip(4);
        let (pid, place) = (words.next()?, words.next()?);
        (place.rsplit(':').next()? == inode.to_string()).then_some(pid)
    })
}

/// Whether the process has this very file open, and not one of the same number on another file
/// system (whose device numbers differ from those of `stat` on some). Whose files may not be looked
/// at is believed.
fn may_hold(pid: &str, file: &Path) -> bool {
    let Ok(open) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return true };
    let file = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    open.flatten().any(|entry| std::fs::read_link(entry.path()).is_ok_and(|link| link == file))
}

/// Writes, syncs, renames and removes a scratch file, as the roles do.
fn syncs(path: &Path, name: &str, use_: Use, clock: &dyn Clock) -> Finding {
    let scratch = path.join(format!(".doctor-{}", std::process::id()));
    let mut slowest = 0;
    let tried = (0..SYNCS).try_for_each(|_| {
        let began = clock.monotonic();
        RealFiles.replace(&scratch, &[0; 4096])?;
        slowest = slowest.max((clock.monotonic() - began).as_millis());
        std::io::Result::Ok(())
    });
    let removed = RealFiles.remove(&scratch);
    if let Err(error) = tried.and(removed) {
        let advice = "the roles cannot work here: look at the mount options, the space, the user";
        return Finding::fail("sync", name, error).advice(advice);
    }
    let found = format!("write, sync, rename, sync the folder: {slowest} ms at most");
    if slowest > SYNC_MS_SLOW && use_ == Use::Data {
        let advice = "every acknowledgement waits for a sync: use a faster disk for low latency";
        return Finding::warn("sync", name, found).advice(advice);
    }
    Finding::ok("sync", name, found)
}
