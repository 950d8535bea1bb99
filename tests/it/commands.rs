//! The tools: exit codes and words at the command line.

use sealcast_tests::{Cluster, Roles, said, sealcast};

#[tokio::test(flavor = "multi_thread")]
async fn verify_tells_nothing_found_from_tampered() {
    let dir = tempfile::tempdir().unwrap();
    let (code, text) = said(&["verify", &dir.path().display().to_string()]).await;
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("cannot check") && text.contains("SEALCAST.json"), "{text}");
    let (code, _) = said(&["verify", "no/such/folder"]).await;
    assert_eq!(code, Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn unreachable_servers_and_unknown_settings_say_what_to_do() {
    let (code, text) = said(&["sql", "--replica", "http://127.0.0.1:9", "select 1"]).await;
    assert_eq!(code, Some(1));
    assert!(text.contains("cannot be reached") && text.contains("sealcast dev"), "{text}");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("sealcast.toml");
    #[expect(clippy::disallowed_methods, reason = "a test's own file needs no durability")]
    std::fs::write(&file, "[writer]\nseal_byte = 5\n").unwrap();
    let (code, text) = said(&["writer", "--config", &file.display().to_string()]).await;
    assert_eq!(code, Some(1));
    assert!(text.contains("seal_byte") && text.contains("did you mean `seal_bytes`?"), "{text}");
    let (code, text) = said(&["dev", "--no-auth", "--writer-http", "0.0.0.0:0"]).await;
    assert_eq!(code, Some(1));
    assert!(text.contains("loopback"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tools_work_on_a_running_cluster() {
    let cluster = Cluster::start(Roles::Dev).await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("events.ndjson");
    let lines = "{\"tenant\":\"a\",\"action\":\"x\"}\n{\"tenant\":\"a\"}\n{\"tenant\":\"b\",\"action\":\"y\"}\n";
    #[expect(clippy::disallowed_methods, reason = "a test's own file needs no durability")]
    std::fs::write(&file, lines).unwrap();
    let (file, writer, replica) = (file.display().to_string(), cluster.url(0), cluster.url(2));
    let (code, text) = said(&["import", &file, "--writer", &writer]).await;
    assert_eq!(code, Some(1), "a bad line stops the import: {text}");
    assert!(text.contains("events.ndjson") && text.contains("action"), "{text}");
    let (code, text) = said(&["import", &file, "--writer", &writer, "--skip-bad"]).await;
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("imported 2 events") && text.contains("1 refused"), "{text}");
    let (code, token) = said(&["flush", "--writer", &writer, "--wait", "shipped", "--token"]).await;
    assert_eq!(code, Some(0), "{token}");
    let token = token.trim();
    let select = "select tenant, action from events where tenant = $1";
    let args = ["sql", "--replica", &replica, "--min", token, "--format", "csv", "-p", "b", select];
    let (code, text) = said(&args).await;
    assert_eq!((code, text.trim()), (Some(0), "tenant,action\nb,y"));
    let (code, text) = said(&["sql", "--replica", &replica, "drop table events"]).await;
    assert_eq!(code, Some(1));
    assert!(text.contains("statement_not_allowed"), "{text}");
    for file in cluster.files("writer/sealed", "").iter().chain(&cluster.files("store/sh", "")) {
        let (code, text) = said(&["inspect", &file.display().to_string()]).await;
        assert_eq!(code, Some(0), "{}: {text}", file.display());
        // A note or bare hashes prove nothing alone.
        if file.extension().is_none_or(|extension| extension != "note" && extension != "pack") {
            let (code, text) = said(&["verify", &file.display().to_string()]).await;
            assert_eq!(code, Some(0), "{}: {text}", file.display());
        }
    }
}

/// As the README types it: a bare name, a file in the working folder.
#[test]
fn a_file_may_be_named_without_a_folder() {
    let dir = tempfile::tempdir().unwrap();
    let mut create = std::process::Command::new(sealcast("sealcast"));
    create.args(["token", "create", "--tokens", "tokens.toml", "--name", "x", "--role", "query"]);
    let output = create.arg("--all-tenants").current_dir(dir.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("\nsc_"));
}

#[test]
fn the_deployed_example_states_the_defaults() {
    use sealcast_common::serve::load_section;
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let file = root.join("deploy/sealcast.toml");
    let none = serde_json::json!({});
    let writer: sealcast_writer::Config = load_section("writer", Some(&file), &none).unwrap();
    assert_eq!(format!("{writer:?}"), format!("{:?}", sealcast_writer::Config::default()));
    let shipper: sealcast_shipper::Config = load_section("shipper", Some(&file), &none).unwrap();
    assert_eq!(format!("{shipper:?}"), format!("{:?}", sealcast_shipper::Config::default()));
    let replica: sealcast_replica::Config = load_section("replica", Some(&file), &none).unwrap();
    assert_eq!(format!("{replica:?}"), format!("{:?}", sealcast_replica::Config::default()));
}
