//! The tree's own rules as ordinary tests, so that no rule exists "in CI only".
//!
//! [`tree`] reads the checkout once, [`rules`] are pure functions from it to findings, and the
//! crate's tests run them twice: on the real tree, which must be clean, and on small bad examples,
//! which must not be. Function length and forbidden calls are clippy's (`clippy.toml`).

pub mod lex;
pub mod manifest;
pub mod rules;
pub mod tree;

#[cfg(test)]
mod tests;

use std::fmt;

/// One place that breaks a rule: where, what is there, and what the rule wants instead.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Path from the root of the checkout, with `/`.
    pub file: String,
    /// One-based; line 1 when the whole file is meant.
    pub line: usize,
    /// What is there.
    pub found: String,
    /// What the rule wants.
    pub expected: String,
}

impl Finding {
    /// A finding at `file:line`.
    pub fn new(
        file: &str,
        line: usize,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) -> Self {
        Self { file: file.to_owned(), line, found: found.into(), expected: expected.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: found {}; expected {}", self.file, self.line, self.found, self.expected)
    }
}

/// All findings as one text, a line each, for a test's failure message.
pub fn report(findings: &[Finding]) -> String {
    let mut text = format!("{} finding(s):\n", findings.len());
    for finding in findings {
        text.push_str("  ");
        text.push_str(&finding.to_string());
        text.push('\n');
    }
    text
}
