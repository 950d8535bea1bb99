//! Ties `docs/format.md` and `docs/http.md` to the code: check names, leaf keys, problem codes.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use sealcast_common::clock::Micros;
use sealcast_common::event::{ParseContext, Position, encode_leaf, parse_event};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn document() -> String {
    std::fs::read_to_string(root().join("docs/format.md")).unwrap()
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") && !path.ends_with("tests.rs") {
            found.push(path);
        }
    }
}

fn is_test(file: &Path) -> bool {
    file.components().any(|part| part.as_os_str() == "tests") || file.ends_with("testkit.rs")
}

/// The string literals that come next after `call` and `skip` other arguments.
fn words(files: &[PathBuf], call: &str, skip: usize) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for file in files {
        let text = std::fs::read_to_string(file).unwrap();
        for rest in text.split(call).skip(1) {
            let argument = rest.splitn(skip + 1, ',').nth(skip).unwrap_or_default().trim_start();
            if let Some(word) = argument.strip_prefix('"').and_then(|w| w.split('"').next()) {
                found.insert(word.to_owned());
            }
        }
    }
    found
}

#[test]
fn every_problem_code_is_documented() {
    let document = std::fs::read_to_string(root().join("docs/http.md")).unwrap();
    let mut files = Vec::new();
    for folder in ["common/src/serve", "writer/src", "shipper/src", "replica/src", "witness/src"] {
        sources(&root().join(folder), &mut files);
    }
    files.retain(|file| !is_test(file));
    sources(&root().join("common/src/event"), &mut files);
    // Beside `Problem::new` also where kind and code are chosen together, or stand in a list.
    let mut codes = words(&files, "Kind::", 1);
    for call in ["late(", "FieldError::new("] {
        codes.extend(words(&files, call, 0));
    }
    for code in ["overloaded", "disk_full", "not_sealed_in_time", "refused_before", "too_deep"] {
        assert!(codes.contains(code), "{code} is not found: {codes:?}");
    }
    let missing: Vec<_> =
        codes.iter().filter(|code| !document.contains(&format!("`{code}`"))).collect();
    assert!(missing.is_empty(), "docs/http.md lacks {missing:?}");
}

#[test]
fn every_check_that_the_code_names_is_documented() {
    let document = document();
    let mut files = Vec::new();
    let roles = ["writer/src", "shipper/src", "replica", "witness/src"];
    for folder in ["common/src", "cli/src/verify"].into_iter().chain(roles) {
        sources(&root().join(folder), &mut files);
    }
    files.retain(|file| !is_test(file));
    let names = words(&files, "Corruption::new(", 0);
    assert!(names.len() > 30, "{names:?}");
    let missing: Vec<_> =
        names.iter().filter(|name| !document.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "docs/format.md section 7 lacks {missing:?}");
}

#[test]
fn every_leaf_key_is_documented_with_its_number() {
    let large = "y".repeat(9_000);
    let text = format!(
        r#"{{"tenant":"t","action":"a","category":"c","actor_type":"u","actor_id":"1",
        "actor_name":"n","targets":[{{"id":"x"}}],"outcome":"denied","outcome_reason":"r",
        "severity":1,"source_ip":"i","user_agent":"u","service":"s","request_id":"r",
        "session_id":"s","trace_id":"t","message":"{large}","attributes":{{"a":1,"b":"{large}"}}}}"#
    );
    let event = parse_event(&text, &ParseContext::new(Micros(0), [0; 16])).unwrap();
    let position = Position { log_id: [0; 16], seq: 1, ingested_at: Micros(2) };
    let leaf = encode_leaf(&event.as_ref(), &position).unwrap();
    let value: ciborium::Value = ciborium::from_reader(leaf.as_slice()).unwrap();
    let keys: BTreeSet<i128> =
        value.as_map().unwrap().iter().map(|(k, _)| k.as_integer().unwrap().into()).collect();
    // The message is out of line here, the reserved keys are unused.
    let expected: BTreeSet<i128> = (0..=27).filter(|key| ![16, 17, 26].contains(key)).collect();
    assert_eq!(keys, expected);
    // Two keys a row, in the table of that section alone.
    let document = document();
    let section = document.split("\n## ").find(|section| section.starts_with("2. Leaf")).unwrap();
    let cells = section.lines().flat_map(|line| line.split('|').map(str::trim));
    let listed: BTreeSet<i128> = cells.filter_map(|cell| cell.parse().ok()).collect();
    assert_eq!(listed, (0..=15).chain(18..=27).collect());
}
