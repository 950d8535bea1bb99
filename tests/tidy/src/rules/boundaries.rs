//! Who may name whom: the roles meet in `common` and in files, never in each other's code.

use crate::Finding;
use crate::lex::{self, Kind};
use crate::manifest;
use crate::tree::Tree;

/// A crate of the workspace and the siblings that it may depend on.
struct Crate {
    dir: &'static str,
    name: &'static str,
    sees: &'static [&'static str],
}

/// The dependency table. A folder inside another comes first.
const CRATES: [Crate; 10] = [
    Crate { dir: "common", name: "sealcast-common", sees: &[] },
    Crate { dir: "writer", name: "sealcast-writer", sees: &CONTRACT },
    Crate { dir: "shipper", name: "sealcast-shipper", sees: &CONTRACT },
    Crate { dir: "replica/vault", name: "sealcast-vault", sees: &CONTRACT },
    Crate {
        dir: "replica",
        name: "sealcast-replica",
        sees: &["sealcast-common", "sealcast-vault", FAULTS],
    },
    Crate { dir: "witness", name: "sealcast-witness", sees: &CONTRACT },
    Crate { dir: "cli", name: "sealcast-cli", sees: &ROLES },
    Crate { dir: "tests/tidy", name: "sealcast-tidy", sees: &[] },
    Crate { dir: "tests/faults", name: FAULTS, sees: &["sealcast-common"] },
    Crate { dir: "tests", name: "sealcast-tests", sees: &ALL },
];

/// Only tests may name it: rule [`faults`].
const FAULTS: &str = "sealcast-faults";

const CONTRACT: [&str; 2] = ["sealcast-common", FAULTS];

const ROLES: [&str; 6] = [
    "sealcast-common",
    "sealcast-writer",
    "sealcast-shipper",
    "sealcast-vault",
    "sealcast-replica",
    "sealcast-witness",
];

const ALL: [&str; 8] = [
    "sealcast-common",
    FAULTS,
    "sealcast-writer",
    "sealcast-shipper",
    "sealcast-vault",
    "sealcast-replica",
    "sealcast-witness",
    "sealcast-cli",
];

/// The only crate that links the SQL engine.
const ENGINE_HOME: &str = "sealcast-replica";

/// No crate names a sibling that the table does not give it, in its manifest or in its code.
pub fn siblings(tree: &Tree) -> Vec<Finding> {
    named(tree, |krate, package| {
        let sibling = package.starts_with("sealcast-") && package != krate.name;
        (sibling && !krate.sees.contains(&package)).then(|| match krate.sees {
            [] => format!("{} to depend on no sibling", krate.name),
            sees => format!("{} to name at most {}", krate.name, sees.join(", ")),
        })
    })
}

/// Only the replica names `datafusion` or one of its crates.
pub fn engine(tree: &Tree) -> Vec<Finding> {
    named(tree, |krate, package| {
        let engine = package.starts_with("datafusion") && krate.name != ENGINE_HOME;
        engine.then(|| format!("datafusion named only by {ENGINE_HOME}"))
    })
}

/// What injects faults is linked into tests only.
pub fn faults(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in manifests(tree).filter(|(path, _)| !path.starts_with("tests/")) {
        let dependencies = manifest::dependencies(text);
        let linked =
            |it: &&manifest::Dependency| it.package() == FAULTS && it.table != "dev-dependencies";
        for dependency in dependencies.iter().filter(linked) {
            let found = format!("`{FAULTS}` in [{}]", dependency.table);
            findings.push(Finding::new(path, dependency.line, found, "[dev-dependencies]"));
        }
    }
    findings
}

/// Every member stands in the table, so that a new crate has to say whom it may see.
pub fn members(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, _) in manifests(tree) {
        let dir = path.trim_end_matches("/Cargo.toml");
        if !CRATES.iter().any(|krate| krate.dir == dir) {
            let expected = "a line in CRATES of tests/tidy/src/rules/boundaries.rs";
            findings.push(Finding::new(path, 1, "a crate without a rule", expected));
        }
    }
    findings
}

/// The members' manifests: not the root's, not those of workspaces apart such as fuzz targets.
pub(crate) fn manifests(tree: &Tree) -> impl Iterator<Item = (&str, &str)> {
    tree.ending("/Cargo.toml").filter(|(_, text)| !manifest::is_workspace(text))
}

/// Runs `judge` on every package that a crate names; it answers what was expected instead.
fn named(tree: &Tree, judge: impl Fn(&Crate, &str) -> Option<String>) -> Vec<Finding> {
    let root = manifest::dependencies(tree.text("Cargo.toml").unwrap_or_default());
    let mut findings = Vec::new();
    for (path, text) in manifests(tree) {
        let Some(krate) = owner(path) else { continue };
        for dependency in manifest::dependencies(text) {
            // An alias is resolved where it stands, or in the workspace's list.
            let alias = root.iter().find(|entry| entry.name == dependency.name);
            let package = match dependency.package() {
                package if package == dependency.name => alias.map_or(package, |it| it.package()),
                package => package,
            };
            if let Some(expected) = judge(krate, package) {
                let found = format!("dependency `{package}`");
                findings.push(Finding::new(path, dependency.line, found, expected));
            }
        }
    }
    for (path, text) in tree.ending(".rs") {
        let Some(krate) = owner(path) else { continue };
        for word in lex::words(&lex::only(text, Kind::Code)) {
            if let Some(expected) = judge(krate, &word.text.replace('_', "-")) {
                let found = format!("`{}` in code", word.text);
                findings.push(Finding::new(path, word.line, found, expected));
            }
        }
    }
    findings
}

/// The crate that a file belongs to.
fn owner(path: &str) -> Option<&'static Crate> {
    CRATES
        .iter()
        .find(|krate| path.strip_prefix(krate.dir).is_some_and(|inside| inside.starts_with('/')))
}
