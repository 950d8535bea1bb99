//! Files that fail on order, and a clock that jumps.

use std::sync::Arc;

use sealcast_common::clock::{Clock as _, ManualClock};
use sealcast_common::durable::Durable as _;

use crate::{FaultyFiles, FileFault, FileOp, SkewedClock, When};

#[test]
fn a_full_disk_takes_half_an_append_once_and_everything_after_healing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let files = FaultyFiles::default();
    let mut log = files.create_append(&path).unwrap();
    log.append(b"whole ").unwrap();
    files.fail_always(FileFault::FULL, |call| call.op == FileOp::Append && call.ends("log"));
    let error = log.append(b"12345678").unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    assert_eq!(std::fs::read(&path).unwrap(), b"whole 1234");
    files.heal();
    log.append(b"!").unwrap();
    log.sync().unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"whole 1234!");
    let ops: Vec<FileOp> = files.calls().into_iter().map(|call| call.op).collect();
    assert_eq!(ops, [FileOp::Create, FileOp::Append, FileOp::Append, FileOp::Append, FileOp::Sync]);
}

#[test]
fn an_error_after_the_effect_leaves_the_effect() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let files = FaultyFiles::default();
    files.fail_nth(1, FileFault::Error(5, When::After));
    files.write_new(&path, b"old").unwrap();
    assert_eq!(files.write_new(&path, b"new").unwrap_err().raw_os_error(), Some(5));
    assert_eq!(std::fs::read(&path).unwrap(), b"new");
    files.fail_once(FileFault::BROKEN, |call| call.op == FileOp::Remove);
    files.remove(&path).unwrap_err();
    files.remove(&path).unwrap();
}

#[test]
fn nothing_happens_after_a_crash() {
    let dir = tempfile::tempdir().unwrap();
    let files = FaultyFiles::default();
    files.fail_nth(1, FileFault::Crash(When::After));
    files.write_new(&dir.path().join("0"), b"").unwrap();
    files.write_new(&dir.path().join("1"), b"").unwrap_err();
    files.write_new(&dir.path().join("2"), b"").unwrap_err();
    assert!(dir.path().join("1").exists() && !dir.path().join("2").exists());
    assert_eq!(files.count(|call| call.op == FileOp::Write), 3);
}

#[test]
fn a_skewed_clock_jumps_on_the_wall_only() {
    let true_time = Arc::new(ManualClock::new(1_000_000));
    let clock = SkewedClock::new(true_time.clone(), -500);
    true_time.advance(10);
    clock.jump(-1_000);
    assert_eq!((clock.now().0, clock.monotonic().as_micros()), (998_510, 10));
}
