//! What `scripts/test` prepared, and what is skipped by name when it is missing.

use std::io::Write as _;
use std::path::PathBuf;

use sealcast_common::clock::{Random, SeededRandom};

#[expect(clippy::disallowed_methods, reason = "the harness's one reading of the environment")]
fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Names a test as skipped, here and in the summary of `scripts/test`.
pub fn skip(test: &str, reason: &str) {
    let line = format!("SKIPPED: {test}: {reason}\n");
    let file = variable("SEALCAST_SKIP_FILE");
    let file = file.and_then(|file| std::fs::OpenOptions::new().append(true).open(file).ok());
    if let Some(mut file) = file {
        file.write_all(line.as_bytes()).expect("skip file");
    }
    std::io::stderr().write_all(line.as_bytes()).expect("stderr");
}

/// A file or folder of the shared data, or the test is skipped.
pub fn data_dir(test: &str, name: &str) -> Option<PathBuf> {
    let found = variable("SEALCAST_DATA").map(|data| data.join(name)).filter(|path| path.exists());
    if found.is_none() {
        skip(test, &format!("SEALCAST_DATA/{name} is absent"));
    }
    found
}

/// A Python with pyarrow and polars, or the test is skipped.
pub fn python(test: &str) -> Option<PathBuf> {
    let found = variable("SEALCAST_PYTHON");
    if found.is_none() {
        skip(test, "SEALCAST_PYTHON is not set (run scripts/test)");
    }
    found
}

/// A Python with these modules, or the test is skipped.
pub fn python_with(test: &str, modules: &[&str]) -> Option<PathBuf> {
    let python = python(test)?;
    let import = format!("import {}", modules.join(", "));
    let tried = std::process::Command::new(&python).args(["-c", &import]).output();
    let there = tried.is_ok_and(|tried| tried.status.success());
    if !there {
        skip(test, &format!("Python has not all of {} (run scripts/setup)", modules.join(", ")));
    }
    there.then_some(python)
}

/// The folder of Node's packages, or the test is skipped; `node` itself is in the path then.
pub fn node_modules(test: &str) -> Option<PathBuf> {
    let found = variable("SEALCAST_NODE_MODULES");
    if found.is_none() {
        skip(test, "SEALCAST_NODE_MODULES is not set (install nodejs and npm, run scripts/test)");
    }
    found
}

/// SeaweedFS, or the test is skipped.
pub fn weed(test: &str) -> Option<PathBuf> {
    let found = variable("SEALCAST_WEED");
    if found.is_none() {
        skip(test, "SEALCAST_WEED is not set (run scripts/test)");
    }
    found
}

/// A number for runs by hand that are longer than the gate's, such as `SEALCAST_KILLS`.
pub fn number(name: &str, default: u64) -> u64 {
    let text = variable(name).map(|value| value.display().to_string());
    text.map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text}")))
}

/// rclone, whose S3 server ignores conditions, or the test is skipped.
pub fn rclone(test: &str) -> Option<PathBuf> {
    let found = variable("SEALCAST_RCLONE");
    if found.is_none() {
        skip(test, "SEALCAST_RCLONE is not set (run scripts/test)");
    }
    found
}

/// Random numbers that `SEALCAST_SEED` repeats; the seed is printed, so that a failure names it.
pub fn random(test: &str) -> SeededRandom {
    let seed = number("SEALCAST_SEED", 1);
    std::io::stderr().write_all(format!("{test}: SEALCAST_SEED={seed}\n").as_bytes()).ok();
    SeededRandom::new(seed)
}

/// A number below `end`.
pub fn below(random: &dyn Random, end: u64) -> u64 {
    let mut bytes = [0; 8];
    random.fill(&mut bytes);
    u64::from_le_bytes(bytes) % end
}

/// Lets this process and the ones it starts have so many files open, or the test is skipped.
pub fn open_files(test: &str, needed: u64) -> bool {
    let soft = || {
        let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
        let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
        let word = line.and_then(|line| line.split_whitespace().next()).unwrap_or_default();
        if word == "unlimited" { u64::MAX } else { word.parse().unwrap_or(0) }
    };
    if soft() < needed {
        let (pid, limit) = (std::process::id().to_string(), format!("--nofile={needed}:"));
        // Whether it helped is looked at, not believed.
        let _raised = std::process::Command::new("prlimit").args(["--pid", &pid, &limit]).output();
    }
    let found = soft();
    if found < needed {
        skip(test, &format!("{found} open files are allowed, {needed} are needed (ulimit -n)"));
    }
    found >= needed
}

/// A program of this workspace, built beside the test's own executable.
pub fn sealcast(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("own path");
    let folder = test.parent().and_then(|deps| deps.parent()).expect("target folder");
    let program = folder.join(name);
    assert!(program.is_file(), "{} is not built: run scripts/test", program.display());
    program
}
