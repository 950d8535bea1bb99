//! Dependencies in every form that TOML allows, pinned and not.

use super::places;
use crate::manifest;
use crate::rules::manifests;
use crate::tree::Tree;

#[test]
fn a_version_in_a_member_is_found() {
    let member = concat!(
        "[package]\nname = \"x\"\nversion = \"0.1.0\"\n",
        "[dependencies]\n",
        "a.workspace = true\n",
        "b = { workspace = true, features = [\n  \"x\", # \"y\"\n  \"z\",\n] }\n",
        "c = \"1\" # workspace = true\n",
        "d = { path = \"../d\" }\n",
        "e.workspace = true\ne.features = [\"x\"]\n",
        "f = { workspace = true, version = \"1\" }\n",
        "[dev-dependencies]\na = \"2\"\n",
        "[dependencies.g]\nversion = \"1\"\nfeatures = [\"x\"]\n",
        "[target.'cfg(unix)'.dependencies]\nh = { git = \"https://example.org\" }\n",
        "[features]\ndefault = [\"dep:a\"]\n",
    );
    let tree = Tree::of(&[("Cargo.toml", "[workspace]\n"), ("writer/Cargo.toml", member)]);
    let found = places(&manifests::pinned_once(&tree));
    let expected = [
        "10 `c = \"1\"`",
        "11 `d = {path=\"../d\"}`",
        "14 `f = {workspace=true,version=\"1\"}`",
        "16 `a = \"2\"`",
        "18 `g = version=\"1\",features=[\"x\"]`",
        "21 `h = {git=\"https://example.org\"}`",
    ];
    assert_eq!(found, expected.map(|place| format!("writer/Cargo.toml:{place}")));
}

#[test]
fn the_root_states_versions_for_others_only() {
    let shared = "[workspace]\n[workspace.dependencies]\na = \"1\"\nb = { path = \"b\" }\n";
    assert!(manifests::pinned_once(&Tree::of(&[("Cargo.toml", shared)])).is_empty());
    let own = format!("{shared}[dependencies]\na.workspace = true\n");
    let found = places(&manifests::pinned_once(&Tree::of(&[("Cargo.toml", &own)])));
    assert_eq!(found, ["Cargo.toml:6 dependency `a` of the root itself"]);
}

#[test]
fn a_workspace_apart_pins_for_itself() {
    let fuzz = "[package]\n[workspace]\n[dependencies]\nlibfuzzer-sys = \"0.4\"\n";
    assert!(manifests::pinned_once(&Tree::of(&[("tests/fuzz/Cargo.toml", fuzz)])).is_empty());
}

#[test]
fn an_alias_is_seen_through() {
    let found =
        manifest::dependencies("[dependencies]\nx = { package = \"y\", workspace = true }\n");
    assert_eq!((found[0].name.as_str(), found[0].package()), ("x", "y"));
}
