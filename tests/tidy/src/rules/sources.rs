//! Rules about single Rust files: their opening, length, `unsafe`, silenced lints, loose ends.

use crate::Finding;
use crate::lex::{self, Kind};
use crate::tree::Tree;

/// A file that passes this is two files.
pub const FILE_LINES_MAX: usize = 500;

/// The files that may say `unsafe`: mapping a verified segment, and surviving the loss of its pages.
pub const UNSAFE_HOMES: [&str; 2] = ["replica/vault/src/mmap.rs", "replica/vault/src/sigbus.rs"];

/// Every file says in its first line what it is.
pub fn openings(tree: &Tree) -> Vec<Finding> {
    let expected = "a `//!` line that says what the file is";
    let bad = tree.ending(".rs").filter(|(_, text)| !text.starts_with("//!"));
    bad.map(|(path, text)| Finding::new(path, 1, quoted(first_line(text)), expected)).collect()
}

/// No file runs away.
pub fn lengths(tree: &Tree) -> Vec<Finding> {
    let expected = format!("at most {FILE_LINES_MAX} lines: split it");
    let counted = tree.ending(".rs").map(|(path, text)| (path, text.lines().count()));
    let long = counted.filter(|(_, lines)| *lines > FILE_LINES_MAX);
    long.map(|(path, lines)| Finding::new(path, lines, format!("{lines} lines"), &expected))
        .collect()
}

/// `unsafe` as a keyword stays in [`UNSAFE_HOMES`]; lints and comments may name it.
pub fn unsafe_code(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.ending(".rs").filter(|(path, _)| !UNSAFE_HOMES.contains(path)) {
        for word in lex::words(&lex::only(text, Kind::Code)) {
            if word.text == "unsafe" {
                let expected = format!("`unsafe` only in {}", UNSAFE_HOMES.join(" and "));
                findings.push(Finding::new(path, word.line, "`unsafe`", expected));
            }
        }
    }
    findings
}

/// Lints are silenced by `expect` with a reason, which reports itself when it is no longer needed.
pub fn allows(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.ending(".rs") {
        let code = lex::only(text, Kind::Code);
        for (start, attribute) in attributes(&code) {
            for word in lex::words(attribute) {
                if word.text == "allow" && attribute[word.end..].trim_start().starts_with('(') {
                    let line = lex::line_of(&code, start) + word.line - 1;
                    let expected = "`#[expect(lint, reason = \"…\")]`";
                    findings.push(Finding::new(path, line, "`allow(…)` in an attribute", expected));
                }
            }
        }
    }
    findings
}

/// Nothing is left for later: neither in code nor in comments nor in scripts.
pub fn loose_ends(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts() {
        let rust = path.ends_with(".rs");
        if !rust && !is_script(path) {
            continue;
        }
        let searched = if rust { lex::without_literals(text) } else { text.to_owned() };
        for word in lex::words(&searched) {
            let marker = matches!(word.text, "TODO" | "FIXME");
            let is_macro = searched[word.end..].starts_with('!');
            if marker || (is_macro && matches!(word.text, "todo" | "unimplemented")) {
                let expected = "finished work, or an issue";
                findings.push(Finding::new(path, word.line, quoted(word.text), expected));
            }
        }
    }
    findings
}

/// Files other than Rust that hold work of ours. Prose may speak of markers, data may contain them.
fn is_script(path: &str) -> bool {
    let endings = ["toml", "sh", "py", "js", "css", "html", "yml", "yaml", "sql", "justfile"];
    let named = endings.iter().any(|ending| path.rsplit(['.', '/']).next() == Some(*ending));
    named || path.starts_with("scripts/") || path.starts_with(".ci/")
}

/// The inside of every `#[…]` and `#![…]` with its byte offset.
fn attributes(code: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices('#') {
        let rest = &code[at + 1..];
        let inner = rest.strip_prefix('!').unwrap_or(rest).trim_start();
        if !inner.starts_with('[') {
            continue;
        }
        let start = code.len() - inner.len();
        let mut depth = 0_usize;
        let end = inner.find(|c| {
            depth = match c {
                '[' => depth + 1,
                ']' => depth - 1,
                _ => depth,
            };
            depth == 0
        });
        found.push((start, end.map_or(inner, |end| &inner[..end])));
    }
    found
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

fn quoted(text: &str) -> String {
    format!("`{text}`")
}
