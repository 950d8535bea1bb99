//! Documents that name what is gone, run long or are misnamed.

use super::places;
use crate::rules::documents;
use crate::tree::Tree;

#[test]
fn a_dead_path_in_a_document_is_found() {
    let text = concat!(
        "`writer/src/gone.rs` and `writer/src/tail.rs:12`, `docs/` and `./docs/format.md#seal`.\n",
        "`docs/decisions/NNNN-title.md`, `tests/{a,b}`, `replica/none/*.rs`\n",
        "```\ncat writer/src/not-checked.rs `writer/src/not-checked.rs`\n```\n",
        "`application/json`, `writer`, `scripts/test --quick`, `scripts/none -x`\n",
    );
    let tree = Tree::of(&[
        ("README.md", text),
        ("docs/format.md", "`common/src/segment.rs`\n"),
        ("deploy/notes.md", "`common/not/checked.rs`\n"),
        ("writer/src/tail.rs", "//! x\n"),
        ("docs/decisions/0001-a.md", "x\n"),
        ("tests/it/main.rs", "//! x\n"),
        ("scripts/test", "#!/bin/sh\n"),
    ]);
    let found = places(&documents::paths(&tree));
    let expected = [
        "README.md:1 `writer/src/gone.rs`",
        "README.md:2 `replica/none`",
        "README.md:6 `scripts/none`",
        "docs/format.md:1 `common/src/segment.rs`",
    ];
    assert_eq!(found, expected);
}

#[test]
fn long_documents_are_found() {
    let lines = |count: usize| "x\n".repeat(count);
    let tree = Tree::of(&[
        ("ARCHITECTURE.md", &lines(351)),
        ("docs/decisions/0001-fits.md", &lines(150)),
        ("docs/decisions/0002-long.md", &lines(151)),
        ("docs/format.md", &lines(900)),
    ]);
    let found = places(&documents::lengths(&tree));
    let expected = ["ARCHITECTURE.md:351 351 lines", "docs/decisions/0002-long.md:151 151 lines"];
    assert_eq!(found, expected);
}

#[test]
fn misnamed_decisions_are_found() {
    let dir = |name: &str| format!("docs/decisions/{name}");
    let names = ["0001-one.md", "0001-uno.md", "12-short.md", "0003-Upper.md", "0004-.md", "x.txt"];
    let paths = names.map(dir);
    let files: Vec<(&str, &str)> = paths.iter().map(|path| (path.as_str(), "x\n")).collect();
    let found = places(&documents::decision_names(&Tree::of(&files)));
    let expected = [
        "0001-uno.md:1 number 0001, which docs/decisions/0001-one.md has",
        "0003-Upper.md:1 `0003-Upper.md`",
        "0004-.md:1 `0004-.md`",
        "12-short.md:1 `12-short.md`",
        "x.txt:1 `x.txt`",
    ];
    assert_eq!(found, expected.map(dir));
}

#[test]
fn a_missing_required_file_is_found() {
    let tree = Tree::of(&[("README.md", "x"), ("LICENSE", "x"), (".ci/run", "x")]);
    assert_eq!(places(&documents::required(&tree)), ["ARCHITECTURE.md:1 no such file"]);
}
