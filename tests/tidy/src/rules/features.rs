//! One feature set per dependency, whatever is built: `-p` and `--workspace` must agree.
//!
//! Cargo unifies features over what one command selects. If `cargo run` and the tests select
//! different sets for one small crate, everything above it, DataFusion first, is compiled again.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::Finding;

/// The packages that are built on their own: what a newcomer runs, and what links DataFusion.
pub const SELECTED: [&str; 3] = ["sealcast-cli", "sealcast-replica", "sealcast-tests"];

/// Crates that the contract does without by default, so that every role can afford it.
const HEAVY: [&str; 3] = ["tokio", "axum", "datafusion"];

/// How the compared commands select dependencies: builds and runs leave out what only tests need.
const BUILD: &str = "normal,build";
const TEST: &str = "normal,build,dev";

/// Feature sets of the packages that are built apart are among those of the whole workspace, and
/// these are among those of its tests, so that a run after the tests compiles nothing again.
pub fn equal_sets(root: &Path) -> Vec<Finding> {
    let compared = || {
        let build = cargo_tree(root, &["--workspace", "-e", BUILD])?;
        let test = cargo_tree(root, &["--workspace", "-e", TEST])?;
        let mut findings = drift("--workspace", &build, "the tests of --workspace", &test);
        for package in SELECTED {
            let own = cargo_tree(root, &["-p", package, "-e", BUILD])?;
            findings.extend(drift(&format!("-p {package}"), &own, "--workspace", &build));
        }
        Ok(findings)
    };
    compared().unwrap_or_else(failed)
}

/// `sealcast-common` without features pulls no runtime, web server or SQL engine.
pub fn light_contract(root: &Path) -> Vec<Finding> {
    let listed = cargo_tree(root, &["-p", "sealcast-common", "-e", "normal"]);
    listed.map_or_else(failed, |listing| heavy(&listing))
}

/// Third-party lines of `own` that `whole` does not have.
pub(crate) fn drift(selection: &str, own: &str, against: &str, whole: &str) -> Vec<Finding> {
    let whole = third_party(whole);
    let missing = third_party(own).into_iter().filter(|line| !whole.contains(line));
    missing
        .map(|line| {
            let crate_of = |line: &str| line.split(" [").next().unwrap_or_default().to_owned();
            let others = whole.iter().filter(|other| crate_of(other) == crate_of(line));
            let others: Vec<&str> = others.copied().collect();
            let found = format!("`{line}` with {selection}");
            let expected = format!(
                "as with {against} ({}): state the features in [workspace.dependencies], or name \
                 the crate where it is missing",
                if others.is_empty() { "no such version".to_owned() } else { others.join(" | ") }
            );
            Finding::new("Cargo.toml", 1, found, expected)
        })
        .collect()
}

/// Lines of a listing that the contract must not have.
pub(crate) fn heavy(listing: &str) -> Vec<Finding> {
    let is_heavy = |line: &&str| HEAVY.iter().any(|name| line.starts_with(name));
    let found = third_party(listing).into_iter().filter(is_heavy);
    let expected = "no tokio, axum or datafusion without a feature";
    found.map(|line| Finding::new("common/Cargo.toml", 1, format!("`{line}`"), expected)).collect()
}

/// The listing's lines without our own crates and without the mark of a repeated subtree.
fn third_party(listing: &str) -> BTreeSet<&str> {
    let lines = listing.lines().map(|line| line.trim_end_matches(" (*)").trim());
    lines.filter(|line| !line.is_empty() && !line.starts_with("sealcast-")).collect()
}

/// `cargo tree` as lines `name version [features]`. The network is asked only when the registry
/// has not been downloaded yet; the lock file is never written.
fn cargo_tree(root: &Path, selection: &[&str]) -> Result<String, Finding> {
    let mut stderr = String::new();
    for network in [Some("--offline"), None] {
        let output = Command::new(cargo())
            .current_dir(root)
            .args(["tree", "--locked", "--prefix", "none", "-f", "{p} [{f}]"])
            .args(network)
            .args(selection)
            .output()
            .map_err(|error| Finding::new("Cargo.toml", 1, error.to_string(), "cargo to run"))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        stderr = String::from_utf8_lossy(&output.stderr).trim().replace('\n', " ");
    }
    let found = format!("`cargo tree --locked {}`: {stderr}", selection.join(" "));
    Err(Finding::new("Cargo.lock", 1, found, "a lock file that fits the manifests"))
}

/// The cargo that runs the tests, whichever toolchain that is.
#[expect(clippy::disallowed_methods, reason = "cargo itself says where it is; this is no setting")]
fn cargo() -> std::ffi::OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

fn failed(finding: Finding) -> Vec<Finding> {
    vec![finding]
}
