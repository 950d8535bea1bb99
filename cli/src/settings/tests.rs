//! Settings: every mistake at once with its line, every value with its origin.

use std::path::Path;

use super::{Origin, Section, SettingsFile, given, in_force, shown};

fn faults(role: Section, text: &str) -> Vec<(String, String)> {
    let file = SettingsFile::parse(Path::new("s.toml"), text);
    let mut faults = file.faults.clone();
    let all = given(role, Some(&file), &[]).unwrap();
    faults.extend(in_force(role, &all).err().unwrap_or_default());
    faults.into_iter().map(|fault| (fault.place, fault.message)).collect()
}

#[test]
fn every_mistake_is_told_at_once_with_its_line() {
    let text = "[writer]\nseal_bytes = 5\nshard = 2\nfsync = \"never\"\ndrain_ms = \"x\"\n\
                group_bytes = 1\nhttp = \"127.0.0.1:1\"\n\n[writr]\n";
    let found = faults(Section::Writer, text);
    let told = |place: &str, words: &[&str]| {
        let told = found.iter().find(|(found, _)| found == place);
        let (_, message) = told.unwrap_or_else(|| panic!("{place} in {found:?}"));
        for word in words {
            assert!(message.contains(word), "{message}");
        }
    };
    assert_eq!(found.len(), 6, "{found:?}");
    told("s.toml:2", &["seal_bytes", "5", "4096"]);
    told("s.toml:3", &["unknown field", "did you mean `shards`?"]);
    told("s.toml:4", &["never", "always"]);
    told("s.toml:5", &["string", "drain_ms"]);
    told("s.toml:6", &["group_bytes", "4096"]);
    told("s.toml:9", &["writr", "did you mean [writer]?"]);
}

#[test]
fn one_mistake_is_no_other_ones_excuse() {
    let text = "[shipper]\nscan_ms = 1\nflush_every_ms = 1000\n[replica]\nstreams = [\"A\"]\n\
                poll_min_ms = 9000\n";
    assert_eq!(faults(Section::Shipper, text).len(), 2);
    let found = faults(Section::Replica, text);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found.iter().any(|(place, _)| place == "s.toml:5"), "{found:?}");
}

#[test]
fn broken_toml_is_told_with_its_line() {
    let found = faults(Section::Writer, "[writer]\nhttp = \n");
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].0, "s.toml:2");
}

#[test]
fn flags_win_over_the_file_and_origins_are_told() {
    let file = SettingsFile::parse(Path::new("s.toml"), "[writer]\nshards = 4\nhttp = \"x:1\"\n");
    let flags = ["--shards".to_owned(), "8".to_owned()];
    let all = given(Section::Writer, Some(&file), &flags).unwrap();
    let settings = in_force(Section::Writer, &all).unwrap();
    let of = |key: &str| {
        let found = settings.iter().find(|(found, ..)| found == key).unwrap();
        (found.1.to_string(), found.2.clone())
    };
    assert_eq!(of("shards"), ("8".into(), Origin::Flag("shards".into())));
    let line = Origin::File { path: "s.toml".into(), line: 3 };
    assert_eq!(of("http"), ("\"x:1\"".into(), line));
    assert_eq!(of("drain_ms").1, Origin::Default);
    assert!(given(Section::Writer, None, &["--nonsense".to_owned()]).is_err());
}

#[test]
fn credentials_are_not_shown() {
    let store = toml::Value::from("s3://key:secret@bucket/path");
    assert!(!shown(&store).contains("secret") && !shown(&store).contains("key:"));
    assert_eq!(shown(&toml::Value::from("s3://bucket")), "\"s3://bucket\"");
    let peers = toml::Value::from(vec!["http://plain:1", "http://me:secret@peer:7071"]);
    assert_eq!(shown(&peers), r#"["http://plain:1", "http://…@peer:7071"]"#);
}

#[test]
fn the_deployed_example_lists_every_setting_and_no_other() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/sealcast.toml");
    let text = std::fs::read_to_string(file).unwrap();
    // A setting without a default is commented out: `# id = "replica-1"`.
    let is_setting = |line: &&str| {
        let key = line.split_once(" = ").map(|(key, _)| key);
        key.is_some_and(|key| key.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'))
    };
    for section in Section::ALL {
        let head = format!("[{}]\n", section.name());
        let (_, body) = text.split_once(&head).unwrap();
        let body = body.split("\n[").next().unwrap();
        let lines = body.lines().map(|line| line.trim_start_matches("# ")).filter(is_setting);
        let mut listed: Vec<&str> = lines.filter_map(|line| line.split(" = ").next()).collect();
        let defaults = section.defaults();
        let mut known: Vec<&str> = defaults.keys().map(String::as_str).collect();
        listed.sort_unstable();
        known.sort_unstable();
        assert_eq!(listed, known, "[{}]", section.name());
    }
}
