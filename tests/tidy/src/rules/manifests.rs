//! Versions are stated once, in the root manifest; members only say that they want a dependency.

use crate::Finding;
use crate::manifest::{self, Dependency};
use crate::rules::boundaries;
use crate::tree::Tree;

/// Every dependency of every member, our own crates included, is `workspace = true`.
pub fn pinned_once(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in boundaries::manifests(tree) {
        for dependency in manifest::dependencies(text) {
            if !inherits(&dependency) {
                let found = format!("`{} = {}`", dependency.name, dependency.spec);
                let expected = "`workspace = true`; versions stand in the root Cargo.toml";
                findings.push(Finding::new(path, dependency.line, found, expected));
            }
        }
    }
    let root = manifest::dependencies(tree.text("Cargo.toml").unwrap_or_default());
    for dependency in root.iter().filter(|dependency| !dependency.is_shared()) {
        let found = format!("dependency `{}` of the root itself", dependency.name);
        let expected = "only `[workspace.dependencies]` in the root Cargo.toml";
        findings.push(Finding::new("Cargo.toml", dependency.line, found, expected));
    }
    findings
}

fn inherits(dependency: &Dependency) -> bool {
    let keys = dependency.spec.trim_start_matches('{').trim_end_matches('}');
    let inherited = keys.split(',').any(|part| part == "workspace=true");
    let restated = ["version=", "path=", "git="].iter().any(|key| keys.contains(key));
    inherited && !restated
}
