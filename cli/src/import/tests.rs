//! Finding, opening, cutting and recognising: every shape, every way to be broken, and ids.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::records::EVENT_BYTES_MAX;
use super::*;

const EVENT: &str =
    r#"{"event_id":"0198c0de-0000-7000-8000-000000000001","tenant":"acme","action":"user.login"}"#;

fn put(folder: &Path, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.join(name);
    let mut file = File::options().write(true).create_new(true).open(&path).unwrap();
    file.write_all(content.as_ref()).unwrap();
    path
}

/// Imports one file with this content.
fn import(content: impl AsRef<[u8]>) -> Vec<Result<SourceEvent, SourceError>> {
    let folder = TempDir::new().unwrap();
    match open(&put(folder.path(), "file", content)) {
        Ok(events) => events.collect(),
        Err(error) => vec![Err(error)],
    }
}

/// The events as values; the content must have no fault.
pub(super) fn imported(content: impl AsRef<[u8]>) -> Vec<Value> {
    import(content)
        .into_iter()
        .map(|event| serde_json::from_str(&event.unwrap().json).unwrap())
        .collect()
}

/// What was imported, in short: `ok`, or the message behind the file's path.
pub(super) fn outcomes(content: impl AsRef<[u8]>) -> Vec<String> {
    let outcome = |event: Result<SourceEvent, SourceError>| match event {
        Ok(_) => "ok".to_owned(),
        Err(error) => {
            assert!(!error.hint().is_empty());
            let path = error.place().file.display().to_string();
            error.to_string().strip_prefix(&path).unwrap().trim_start_matches(", ").to_owned()
        }
    };
    import(content).into_iter().map(outcome).collect()
}

fn gzip(content: &str) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(content.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

fn zstd(content: &str) -> Vec<u8> {
    zstd::encode_all(content.as_bytes(), 1).unwrap()
}

/// Distinct events, one per line.
fn lines(count: usize) -> String {
    (0..count)
        .map(|n| format!("{{\"tenant\":\"acme\",\"action\":\"a\",\"message\":\"{n}\"}}\n"))
        .collect()
}

#[test]
fn a_folder_is_walked_by_name_and_names_what_it_ignores() {
    let folder = TempDir::new().unwrap();
    let root = folder.path();
    for name in ["b.json", "a.ndjson", "c.GZ", "notes.txt", "LICENSE"] {
        put(root, name, "");
    }
    std::fs::create_dir(root.join("aa")).unwrap();
    put(&root.join("aa"), "z.zst", "");
    std::os::unix::fs::symlink(root, root.join("loop.json")).unwrap();
    let named = put(root, "named.log", "");

    let sources = discover(&[root.to_owned(), named.clone()]).unwrap();
    let relative = |path: &PathBuf| path.strip_prefix(root).unwrap().display().to_string();
    let files: Vec<_> = sources.files.iter().map(relative).collect();
    assert_eq!(files, ["a.ndjson", "aa/z.zst", "b.json", "c.GZ", "named.log"]);
    let ignored: Vec<_> =
        sources.ignored.iter().map(|found| (relative(&found.path), found.reason)).collect();
    let expected = [
        ("LICENSE", Reason::Extension),
        ("loop.json", Reason::SymbolicLink),
        ("named.log", Reason::Extension),
        ("notes.txt", Reason::Extension),
    ];
    assert_eq!(ignored, expected.map(|(name, reason)| (name.to_owned(), reason)));

    let error = discover(&[root.join("missing")]).unwrap_err();
    assert!(error.to_string().contains("missing: cannot be opened"), "{error}");
}

#[test]
fn compression_is_told_by_content_and_progress_counts_the_files_own_bytes() {
    let folder = TempDir::new().unwrap();
    let text = lines(3000);
    let contents = [
        (Compression::None, text.clone().into_bytes()),
        (Compression::Gzip, gzip(&text)),
        (Compression::Zstd, zstd(&text)),
    ];
    let mut imports = Vec::new();
    for (index, (compression, content)) in contents.into_iter().enumerate() {
        // The name says gzip for all of them.
        let path = put(folder.path(), &format!("{index}.gz"), &content);
        let events = open(&path).unwrap();
        assert_eq!((events.compression(), events.shape()), (compression, Shape::Lines));
        let progress = events.progress();
        imports.push(events.map(|event| event.unwrap().json).collect::<Vec<_>>());
        assert_eq!(
            (progress.bytes_read(), progress.bytes_total),
            (content.len() as u64, content.len() as u64)
        );
    }
    assert_eq!(imports[0].len(), 3000);
    assert!(imports[0] == imports[1] && imports[0] == imports[2]);
}

#[test]
fn concatenated_compressed_files_are_read_to_the_end() {
    let (first, second) = (lines(2), lines(3));
    assert_eq!(imported([gzip(&first), gzip(&second)].concat()).len(), 5);
    assert_eq!(imported([zstd(&first), zstd(&second)].concat()).len(), 5);
}

#[test]
fn a_cut_compressed_file_gives_what_it_has_and_then_says_so() {
    for (name, whole) in [("gzip", gzip(&lines(9000))), ("zstd", zstd(&lines(9000)))] {
        let outcomes = outcomes(&whole[..whole.len() - 10]);
        let (last, before) = outcomes.split_last().unwrap();
        assert!(last.starts_with("line "), "{last}");
        assert!(last.contains("found broken compressed data"), "{last}");
        assert!(last.ends_with(&format!("expected a complete {name} stream")), "{last}");
        assert!(!before.is_empty() && before.iter().all(|outcome| outcome == "ok"));
    }
}

#[test]
fn every_shape_is_recognised_by_its_content() {
    let pretty = EVENT.replace(",\"", ",\n  \"").replace('{', "{\n  ").replace('}', "\n}");
    let shapes = [
        (String::new(), Shape::Empty, 0),
        (" \n\t\r\n".to_owned(), Shape::Empty, 0),
        (EVENT.to_owned(), Shape::Lines, 1),
        (format!("\u{feff}{EVENT}\r\n\r\n{EVENT}"), Shape::Lines, 2),
        (format!("[{EVENT},\n{EVENT}]\n"), Shape::Array, 2),
        ("[ ]".to_owned(), Shape::Array, 0),
        (pretty.clone(), Shape::Objects, 1),
        (format!("{pretty}\n{pretty}{pretty}"), Shape::Objects, 3),
        (format!("{{\"Records\":[{EVENT},{EVENT}]}}"), Shape::CloudTrail, 2),
        (format!("\u{feff}\n{{ \"Records\" :\n[\n{pretty}\n]\n}}\n"), Shape::CloudTrail, 1),
        ("{\"Records\":[]}".to_owned(), Shape::CloudTrail, 0),
        (format!("{{\"Records\":[{EVENT}],\"more\":[1]}}"), Shape::CloudTrail, 1),
    ];
    let folder = TempDir::new().unwrap();
    for (index, (content, shape, count)) in shapes.into_iter().enumerate() {
        let events = open(&put(folder.path(), &index.to_string(), &content)).unwrap();
        assert_eq!(events.shape(), shape, "{content}");
        let events: Vec<String> = events.map(|event| event.unwrap().json).collect();
        assert_eq!(events, vec![EVENT; count], "{content}");
    }
}

#[test]
fn a_bad_line_is_named_and_the_next_one_follows() {
    let big = format!("{{\"tenant\":\"{}\"}}", "x".repeat(EVENT_BYTES_MAX));
    let content = [
        EVENT.as_bytes(),
        b"{\"tenant\":",
        b"",
        b"{\"tenant\":\"a\",\"action\":\"b\",\"tenant\":\"c\"}",
        b"{\"tenant\":\"\xff\"}",
        big.as_bytes(),
        b"[1]",
        b"{\"tenant\":\"a\"}",
        b"{\"kind\":\"Event\",\"verb\":\"get\"}",
        b"{}",
        EVENT.as_bytes(),
    ]
    .join(&b'\n');
    let expected = [
        "ok",
        "line 2: found broken JSON (EOF while parsing a value at column 10), expected one JSON object, each member once",
        "line 4: found the member `tenant` twice, expected one JSON object, each member once",
        "line 5: found bytes that are not UTF-8 at offset 11, expected a JSON object in UTF-8",
        "line 6: found more than 1048576 bytes, expected at most 1048576 per event",
        "line 7: found `[`, expected one JSON object, each member once",
        "line 8: field action: found nothing, expected a string",
        "line 9: found an object with `kind`, `verb`, expected an event or a CloudTrail record",
        "line 10: found an object with no members, expected an event or a CloudTrail record",
        "ok",
    ];
    assert_eq!(outcomes(content), expected);
}

#[test]
fn a_broken_first_line_does_not_hide_the_lines_behind_it() {
    assert_eq!(outcomes(format!("{{\"tenant\":\n{EVENT}\n{EVENT}"))[1..], ["ok", "ok"]);
}

#[test]
fn brackets_and_quotes_inside_strings_do_not_cut_a_record() {
    let tricky = r#"{"tenant":"a","action":"]}\"{[\\","event_id":"e"}"#;
    assert_eq!(import(format!("[{tricky},{EVENT}]"))[0].as_ref().unwrap().json, tricky);
}

#[test]
fn a_broken_array_is_followed_as_far_as_it_goes() {
    let big = format!("{{\"tenant\":\"{}\"}}", "x".repeat(EVENT_BYTES_MAX));
    let cases = [
        (
            format!("[{EVENT},{big},{EVENT}]"),
            vec![
                "ok",
                "record [1]: found more than 1048576 bytes, expected at most 1048576 per event",
                "ok",
            ],
        ),
        (
            format!("[{EVENT},{{\"a\" 1}},{EVENT}]"),
            vec![
                "ok",
                "record [1]: found broken JSON (expected `:` at column 6), expected one JSON object, each member once",
                "ok",
            ],
        ),
        (format!("[{EVENT} {EVENT}]"), vec!["ok", "record [1]: found `{`, expected `,` or `]`"]),
        (format!("[{EVENT},7]"), vec!["ok", "record [1]: found `7`, expected a JSON object"]),
        (
            format!("[{EVENT},"),
            vec!["ok", "record [1]: found the end of the file, expected a JSON object"],
        ),
        (
            format!("[{EVENT}"),
            vec!["ok", "record [1]: found the end of the file, expected `,` or `]`"],
        ),
        (
            format!("[{EVENT},{}", &EVENT[..30]),
            vec!["ok", "record [1]: found the end of the file, expected the end of the object"],
        ),
        (
            format!("[{EVENT}]{EVENT}"),
            vec!["ok", ": found more text behind the last record, expected the end of the file"],
        ),
        (
            format!("{{\"Records\":[{EVENT}]"),
            vec![
                "ok",
                ": found the end of the file behind the last record, expected `}` and the end of the file",
            ],
        ),
        (
            "hello".to_owned(),
            vec![
                ": found a file that begins with `h`, expected JSON objects: one per line, an array, or {\"Records\": […]}",
            ],
        ),
        (
            "\u{1}".to_owned(),
            vec![
                ": found a file that begins with byte 0x01, expected JSON objects: one per line, an array, or {\"Records\": […]}",
            ],
        ),
    ];
    for (content, expected) in cases {
        assert_eq!(outcomes(&content), expected, "{}", &content[..content.len().min(120)]);
    }
}

#[test]
fn a_decompression_bomb_is_refused_without_being_held() {
    let bomb = format!("{{\"tenant\":\"{}\"}}\n{EVENT}\n", "x".repeat(8 * EVENT_BYTES_MAX));
    let outcomes = outcomes(zstd(&bomb));
    assert_eq!(
        outcomes,
        ["line 1: found more than 1048576 bytes, expected at most 1048576 per event", "ok"]
    );
}

#[test]
fn values_arrive_as_they_were_written() {
    let event = r#"{"event_id":"e","tenant":"a","action":"b","attributes":{"n":0.1000000000000000055511151231257827,"big":12345678901234567890123,"e":1e999,"s":"\u00e9\/"}}"#;
    assert_eq!(import(event)[0].as_ref().unwrap().json, event);
    let spaced = event.replace(':', " :\t").replace(",\"", " ,\r\n \"");
    assert_eq!(import(spaced)[0].as_ref().unwrap().json, event);
}

#[test]
fn missing_ids_depend_on_the_record_and_its_repetition_only() {
    let (a, b) =
        (r#"{"tenant":"t","action":"a","n":[1,{"x":1.50}]}"#, r#"{"tenant":"t","action":"b"}"#);
    let a_again = r#"{ "action":"\u0061", "event_id":null, "n":[1, {"x":1.50}], "tenant":"t"}"#;
    let ids = |content: String| -> Vec<String> {
        imported(content)
            .iter()
            .map(|event| event["event_id"].as_str().unwrap().to_owned())
            .collect()
    };
    let first = ids(format!("{a}\n{b}\n{a}\n"));
    assert_eq!(first, ids(format!("{a}\n{b}\n{a}\n")), "the same file twice");
    assert_eq!(
        [&first[1], &first[0], &first[2]].map(Clone::clone),
        *ids(format!("[{b},{a},{a}]")),
        "another order and shape"
    );
    let distinct: std::collections::HashSet<_> = first.iter().collect();
    assert_eq!(distinct.len(), 3);
    for id in &first {
        assert_eq!(uuid::Uuid::try_parse(id).unwrap().get_version_num(), 8);
    }
    // A null is another record for the hash, but members may be written in any order and spelling.
    let reordered = r#"{"action":"a","event_id":null,"n":[1,{"x":1.50}],"tenant":"t"}"#;
    assert_eq!(ids(a_again.to_owned()), ids(reordered.to_owned()));
    assert_eq!(imported(a_again)[0].as_object().unwrap().len(), 4);
}

#[test]
fn depth_is_no_danger() {
    let deep = "[".repeat(200_000) + &"]".repeat(200_000);
    let with_id =
        format!("{{\"event_id\":\"e\",\"tenant\":\"t\",\"action\":\"a\",\"attributes\":{deep}}}");
    assert_eq!(import(&with_id)[0].as_ref().unwrap().json, with_id);
    let without = outcomes(with_id.replace("\"event_id\":\"e\",", ""));
    assert_eq!(
        without,
        [
            "line 1: found values nested more than 64 deep, expected a record that an id can be derived from"
        ]
    );
}

#[test]
fn records_of_cloudtrail_are_recognised_in_any_shape() {
    let record = json!({
        "eventVersion": "1.08", "eventSource": "s3.amazonaws.com", "eventName": "GetObject",
        "eventTime": "2023-07-10T11:42:36Z", "recipientAccountId": "1", "eventID": "3c856bc0-1a07-4c18-89d9-4d9205856714",
    });
    let expected = imported(record.to_string());
    assert_eq!(expected[0]["action"], "GetObject");
    for content in [json!([record]).to_string(), json!({"Records": [record]}).to_string()] {
        assert_eq!(imported(content), expected);
    }
}
