//! Nothing in the repository depends on where one developer keeps it.

use crate::Finding;
use crate::tree::Tree;

/// Folders of a machine; written apart, so that this file passes its own rule.
const MACHINE_DIRS: [&str; 3] =
    [concat!("/", "root/"), concat!("/", "home/"), concat!("/", "work/")];

/// No text file names an absolute path of a developer's machine.
pub fn absolute_paths(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts() {
        for (at, line) in text.lines().enumerate() {
            if let Some(found) = MACHINE_DIRS.iter().find_map(|dir| machine_path(line, dir)) {
                let expected = "a relative path, a variable or a setting";
                findings.push(Finding::new(path, at + 1, format!("`{found}`"), expected));
            }
        }
    }
    findings
}

/// The path of the line that starts with `dir`, unless `dir` stands inside a longer path or URL.
fn machine_path<'a>(line: &'a str, dir: &str) -> Option<&'a str> {
    let starts = line.match_indices(dir).map(|(at, _)| at);
    let mut absolute = starts.filter(|&at| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "._-~}*)".contains(c))
    });
    let path = &line[absolute.next()?..];
    let end = path.find(|c: char| c.is_whitespace() || "\"'`,;)]}>".contains(c));
    Some(&path[..end.unwrap_or(path.len())])
}
