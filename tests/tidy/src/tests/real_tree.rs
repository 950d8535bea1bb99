//! Every rule on this checkout, a test each, so that a failure names the rule.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::rules::{boundaries, documents, features, manifests, portable, sources};
use crate::tree::{self, Tree};
use crate::{Finding, report};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn clean(rule: impl Fn(&Tree) -> Vec<Finding>) {
    let findings = rule(&Tree::read(&root()).unwrap());
    assert!(findings.is_empty(), "{}", report(&findings));
}

fn clean_at(rule: impl Fn(&Path) -> Vec<Finding>) {
    let findings = rule(&root());
    assert!(findings.is_empty(), "{}", report(&findings));
}

/// Names a test that could not run, for the last lines of `scripts/test`.
#[expect(clippy::disallowed_methods, reason = "the test script's file is no setting of a role")]
fn skipped(name: &str, reason: &str) {
    println!("SKIPPED: {name}: {reason}");
    if let Some(path) = std::env::var_os("SEALCAST_SKIP_FILE") {
        let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
        writeln!(file, "SKIPPED: {name}: {reason}").unwrap();
    }
}

#[test]
fn every_file_opens_with_its_purpose() {
    clean(sources::openings);
}

#[test]
fn no_file_is_too_long() {
    clean(sources::lengths);
}

#[test]
fn unsafe_stays_at_home() {
    clean(sources::unsafe_code);
}

#[test]
fn no_lint_is_silenced_by_allow() {
    clean(sources::allows);
}

#[test]
fn nothing_is_left_for_later() {
    clean(sources::loose_ends);
}

#[test]
fn crates_name_only_whom_they_may_see() {
    clean(boundaries::siblings);
}

#[test]
fn only_the_replica_names_datafusion() {
    clean(boundaries::engine);
}

#[test]
fn faults_are_linked_into_tests_only() {
    clean(boundaries::faults);
}

#[test]
fn every_crate_stands_in_the_table() {
    clean(boundaries::members);
}

#[test]
fn versions_are_pinned_once() {
    clean(manifests::pinned_once);
}

#[test]
fn required_files_exist() {
    clean(documents::required);
}

#[test]
fn paths_in_documents_exist() {
    clean(documents::paths);
}

#[test]
fn documents_keep_their_lengths() {
    clean(documents::lengths);
}

#[test]
fn decisions_are_named_and_numbered() {
    clean(documents::decision_names);
}

#[test]
fn no_path_of_a_developers_machine() {
    let tree = Tree::read(&root()).unwrap();
    if !tree.tracked() {
        // Without git's list, a developer's own notes would be judged too.
        skipped("no_path_of_a_developers_machine", "git lists no files here");
        return;
    }
    let findings = portable::absolute_paths(&tree);
    assert!(findings.is_empty(), "{}", report(&findings));
}

#[test]
fn feature_sets_are_equal() {
    clean_at(features::equal_sets);
}

#[test]
fn the_contract_is_light() {
    clean_at(features::light_contract);
}

#[test]
fn reading_finds_this_file_with_and_without_git() {
    let tree = Tree::read(&root()).unwrap();
    assert!(tree.exists("tests/tidy/src/tests/real_tree.rs") && tree.exists("tests/tidy"));
    assert!(!tree.exists("tests/tid"), "a prefix of a name is not a folder");
    let walked = tree::walk(&root().join("tests/tidy")).unwrap();
    assert!(walked.iter().any(|path| path == "src/tests/real_tree.rs"), "{walked:?}");
}
