//! Crates that reach over their boundaries.

use super::places;
use crate::rules::boundaries;
use crate::tree::Tree;

#[test]
fn a_sibling_in_a_manifest_is_found() {
    let tree = Tree::of(&[
        ("common/Cargo.toml", "[dev-dependencies]\nsealcast-writer.workspace = true\n"),
        ("shipper/Cargo.toml", "[dependencies]\nsealcast-common = { workspace = true }\n"),
        ("replica/Cargo.toml", "[dependencies]\nsealcast-vault.workspace = true\n"),
        ("replica/vault/Cargo.toml", "[dependencies.sealcast-replica]\nworkspace = true\n"),
        ("tests/Cargo.toml", "[dependencies]\nsealcast-cli.workspace = true\n"),
    ]);
    let found = places(&boundaries::siblings(&tree));
    let expected = [
        "common/Cargo.toml:2 dependency `sealcast-writer`",
        "replica/vault/Cargo.toml:2 dependency `sealcast-replica`",
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_sibling_in_code_is_found() {
    let tree = Tree::of(&[
        ("writer/src/main.rs", "//! x\nuse sealcast_writer::run;\nuse sealcast_common::ids;\n"),
        ("writer/src/a.rs", "//! like sealcast_shipper\nuse sealcast_shipper::scan;\n"),
        ("common/src/a.rs", "//! x\nfn f() { sealcast_vault::admit(); }\n"),
        ("tests/it/main.rs", "//! x\nuse sealcast_replica::sql;\n"),
        ("cli/src/main.rs", "//! x\nuse sealcast_replica::run;\n"),
    ]);
    let found = places(&boundaries::siblings(&tree));
    let expected = [
        "common/src/a.rs:2 `sealcast_vault` in code",
        "writer/src/a.rs:2 `sealcast_shipper` in code",
    ];
    assert_eq!(found, expected);
}

#[test]
fn the_engine_outside_the_replica_is_found() {
    let root = "[workspace]\n[workspace.dependencies]\ndf = { package = \"datafusion\" }\n";
    let tree = Tree::of(&[
        ("Cargo.toml", root),
        ("replica/Cargo.toml", "[dependencies]\ndatafusion.workspace = true\n"),
        ("replica/src/sql/scan.rs", "//! x\nuse datafusion::prelude::*;\n"),
        ("replica/vault/Cargo.toml", "[dependencies]\ndf.workspace = true\n"),
        (
            "replica/vault/src/lib.rs",
            "//! No DataFusion, no datafusion.\nuse datafusion_expr::x;\n",
        ),
        ("cli/Cargo.toml", "[dependencies]\ndatafusion-functions-json.workspace = true\n"),
    ]);
    let found = places(&boundaries::engine(&tree));
    let expected = [
        "cli/Cargo.toml:2 dependency `datafusion-functions-json`",
        "replica/vault/Cargo.toml:2 dependency `datafusion`",
        "replica/vault/src/lib.rs:2 `datafusion_expr` in code",
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_crate_without_a_rule_is_found() {
    let tree = Tree::of(&[
        ("Cargo.toml", "[workspace]\n"),
        ("writer/Cargo.toml", "[package]\n"),
        ("extra/Cargo.toml", "[package]\n"),
        ("tests/fuzz/Cargo.toml", "[package]\n[workspace]\n"),
    ]);
    let found = places(&boundaries::members(&tree));
    assert_eq!(found, ["extra/Cargo.toml:1 a crate without a rule"]);
}

#[test]
fn faults_in_a_build_are_found() {
    let tree = Tree::of(&[
        ("writer/Cargo.toml", "[dependencies]\nsealcast-faults.workspace = true\n"),
        ("shipper/Cargo.toml", "[dev-dependencies]\nsealcast-faults.workspace = true\n"),
        ("tests/Cargo.toml", "[dependencies]\nsealcast-faults.workspace = true\n"),
    ]);
    let found = places(&boundaries::faults(&tree));
    assert_eq!(found, ["writer/Cargo.toml:2 `sealcast-faults` in [dependencies]"]);
}
