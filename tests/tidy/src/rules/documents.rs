//! Documents stay true and short: what they name exists, and what must exist does.

use std::collections::BTreeMap;

use crate::Finding;
use crate::tree::Tree;

/// An architecture page that one person still reads to the end.
pub const ARCHITECTURE_LINES_MAX: usize = 350;
/// A decision is an argument, not a manual.
pub const DECISION_LINES_MAX: usize = 150;

/// What a checkout cannot do without.
pub const REQUIRED: [&str; 4] = ["ARCHITECTURE.md", "README.md", "LICENSE", ".ci/run"];

/// First components that make a back-ticked text a path of this repository.
const ROOTS: [&str; 11] = [
    "common", "writer", "shipper", "replica", "witness", "cli", "tests", "deploy", "docs", ".ci",
    "scripts",
];

/// The required files exist.
pub fn required(tree: &Tree) -> Vec<Finding> {
    let missing = REQUIRED.iter().filter(|path| !tree.exists(path));
    missing.map(|path| Finding::new(path, 1, "no such file", "this file to exist")).collect()
}

/// Every path that a document names in back ticks exists.
pub fn paths(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in documents(tree) {
        for (line, named) in named_paths(text) {
            if !tree.exists(&named) {
                let expected = "a path that exists";
                findings.push(Finding::new(path, line, format!("`{named}`"), expected));
            }
        }
    }
    findings
}

/// The architecture page and the decisions keep to their lengths.
pub fn lengths(tree: &Tree) -> Vec<Finding> {
    let architecture = tree.text("ARCHITECTURE.md").map(|text| ("ARCHITECTURE.md", text));
    let limited = architecture.into_iter().map(|file| (file, ARCHITECTURE_LINES_MAX));
    let limited = limited.chain(decisions(tree).map(|file| (file, DECISION_LINES_MAX)));
    let counted = limited.map(|((path, text), most)| (path, text.lines().count(), most));
    let long = counted.filter(|(_, lines, most)| lines > most);
    long.map(|(path, lines, most)| {
        Finding::new(path, lines, format!("{lines} lines"), format!("at most {most} lines"))
    })
    .collect()
}

/// Decisions are called `NNNN-title.md`, and no number is used twice.
pub fn decision_names(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut taken: BTreeMap<&str, &str> = BTreeMap::new();
    for (path, _) in decisions(tree) {
        let name = path.trim_start_matches(DECISIONS);
        let Some((number, _)) = name.split_once('-').filter(|_| is_decision_name(name)) else {
            let expected = "NNNN-title.md: four digits, lower case, hyphens";
            findings.push(Finding::new(path, 1, format!("`{name}`"), expected));
            continue;
        };
        if let Some(other) = taken.insert(number, path) {
            let found = format!("number {number}, which {other} has");
            findings.push(Finding::new(path, 1, found, "a number of its own"));
        }
    }
    findings
}

const DECISIONS: &str = "docs/decisions/";

fn decisions(tree: &Tree) -> impl Iterator<Item = (&str, &str)> {
    tree.texts().filter(|(path, _)| path.starts_with(DECISIONS))
}

fn documents(tree: &Tree) -> impl Iterator<Item = (&str, &str)> {
    tree.ending(".md").filter(|(path, _)| {
        matches!(*path, "ARCHITECTURE.md" | "README.md") || path.starts_with("docs/")
    })
}

fn is_decision_name(name: &str) -> bool {
    let Some((number, title)) = name.strip_suffix(".md").and_then(|stem| stem.split_once('-'))
    else {
        return false;
    };
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    number.len() == 4
        && number.chars().all(|c| c.is_ascii_digit())
        && title.starts_with(|c: char| c.is_ascii_alphanumeric())
        && title.chars().all(plain)
}

/// Paths of the repository in the inline code of a document; fenced blocks are examples.
fn named_paths(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (at, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            let spans = line.split('`').skip(1).step_by(2);
            let paths = spans.flat_map(str::split_whitespace).filter_map(repository_path);
            found.extend(paths.map(|path| (at + 1, path)));
        }
    }
    found
}

/// The path behind a word, without a line number, an anchor or a pattern's open end.
fn repository_path(word: &str) -> Option<String> {
    let word = word.trim_start_matches("./").trim_matches([',', ';', ':', '(', ')', '"', '\'']);
    let (first, _) = word.split_once('/')?;
    if !ROOTS.contains(&first) {
        return None;
    }
    let word = word.split(['#', ':']).next().unwrap_or(word).trim_end_matches(['.', '/']);
    let is_pattern = |part: &str| {
        part.contains(['*', '<', '>', '{', '}', '…', '$', '?']) || part.contains("NNNN")
    };
    let parts: Vec<&str> = word.split('/').take_while(|part| !is_pattern(part)).collect();
    Some(parts.join("/"))
}
