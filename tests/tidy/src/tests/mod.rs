//! The rules on the real tree, and on bad examples that each of them must refuse.

mod boundaries;
mod documents;
mod features;
mod lex;
mod manifests;
mod portable;
mod real_tree;
mod sources;

use crate::Finding;

/// What the findings say, as `file:line found`, for short assertions.
fn places(findings: &[Finding]) -> Vec<String> {
    findings
        .iter()
        .map(|finding| format!("{}:{} {}", finding.file, finding.line, finding.found))
        .collect()
}
