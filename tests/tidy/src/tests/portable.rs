//! Paths of one machine, and what only looks like them.

use super::places;
use crate::rules::portable;
use crate::tree::Tree;

#[test]
fn an_absolute_path_is_found() {
    let slash = |text: &str| text.replace('|', "/");
    let bad = slash("a\ncd |work|main && ls\nopen(\"|root|.cache|x\")\nfile:|||home|ann|x\n");
    let good = slash("https:||example.org|work|x ~|work| $HOME|work|x ${A}|home|x |workspace|\n");
    let tree = Tree::of(&[("docs/a.md", &bad), ("docs/b.md", &good)]);
    let found = places(&portable::absolute_paths(&tree));
    let expected = ["2 `|work|main`", "3 `|root|.cache|x`", "4 `|home|ann|x`"];
    assert_eq!(found, expected.map(|place| format!("docs/a.md:{}", slash(place))));
}
