//! Bad Rust files, and good ones that look bad.

use super::places;
use crate::rules::sources;
use crate::tree::Tree;

#[test]
fn a_file_without_a_purpose_is_found() {
    let tree = Tree::of(&[
        ("writer/src/a.rs", "use std::io;\n//! Too late.\n"),
        ("writer/src/b.rs", "//! Says what it is.\n"),
        ("writer/src/empty.rs", ""),
    ]);
    let found = places(&sources::openings(&tree));
    assert_eq!(found, ["writer/src/a.rs:1 `use std::io;`", "writer/src/empty.rs:1 ``"]);
}

#[test]
fn a_long_file_is_found() {
    let lines = |count: usize| "//! x\n".repeat(count);
    let tree = Tree::of(&[("common/a.rs", &lines(500)), ("common/b.rs", &lines(501))]);
    assert_eq!(places(&sources::lengths(&tree)), ["common/b.rs:501 501 lines"]);
}

#[test]
fn unsafe_is_found_outside_its_home_only() {
    let block = "//! x\nfn f() { unsafe { g() } }\n";
    let harmless = "//! unsafe\n#![deny(unsafe_code)] // unsafe\nconst A: &str = \"unsafe\";\n";
    let tree = Tree::of(&[
        (sources::UNSAFE_HOMES[0], block),
        ("replica/vault/src/admit.rs", block),
        ("common/src/lib.rs", harmless),
        ("cli/src/main.rs", "//! x\n#[unsafe(no_mangle)]\nfn f() {}\n"),
    ]);
    let found = places(&sources::unsafe_code(&tree));
    assert_eq!(found, ["cli/src/main.rs:2 `unsafe`", "replica/vault/src/admit.rs:2 `unsafe`"]);
}

#[test]
fn allow_in_an_attribute_is_found() {
    let tree = Tree::of(&[
        ("common/a.rs", "//! x\n#[allow(dead_code)]\nfn f() {}\n"),
        ("common/b.rs", "//! x\n#![allow(\n    unused,\n    reason = \"r\"\n)]\n"),
        ("common/c.rs", "//! x\n#[cfg_attr(\n    test,\n    allow(unused)\n)]\nfn f() {}\n"),
        ("common/d.rs", "//! x\n// #[allow(a)]\n#[expect(a, reason = \"b\")]\nfn allow() {}\n"),
        ("common/e.rs", "//! x\nfn f() { policy.allow(x); let s = \"#[allow(y)]\"; }\n"),
    ]);
    let found = places(&sources::allows(&tree));
    let allow = "`allow(…)` in an attribute";
    let expected = [("a", 2), ("b", 2), ("c", 4)];
    assert_eq!(found, expected.map(|(file, line)| format!("common/{file}.rs:{line} {allow}")));
}

#[test]
fn loose_ends_are_found() {
    let tree = Tree::of(&[
        ("common/a.rs", "//! x\nfn f() { todo!() }\nfn g() { unimplemented!(\"x\") }\n"),
        ("common/b.rs", "//! x\n// TODO: later\n/* FIXME */\n"),
        ("common/c.rs", "//! x\nconst A: &str = \"TODO\"; // a mastodon\nfn todo() {}\n"),
        ("scripts/test", "#!/bin/sh\n# TODO\n"),
        ("deploy/compose.yaml", "# FIXME\n"),
        ("docs/a.md", "`TODO` is refused.\n"),
    ]);
    let found = places(&sources::loose_ends(&tree));
    let expected = [
        "common/a.rs:2 `todo`",
        "common/a.rs:3 `unimplemented`",
        "common/b.rs:2 `TODO`",
        "common/b.rs:3 `FIXME`",
        "deploy/compose.yaml:1 `FIXME`",
        "scripts/test:2 `TODO`",
    ];
    assert_eq!(found, expected);
}
