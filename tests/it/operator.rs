//! What an operator types before and while it runs: config, doctor, health, metrics.

use sealcast_tests::{Cluster, Roles, said};
use serde_json::Value;

fn settings(dir: &std::path::Path, text: &str) -> String {
    let file = dir.join("sealcast.toml");
    #[expect(clippy::disallowed_methods, reason = "a test's own file needs no durability")]
    std::fs::write(&file, text).unwrap();
    file.display().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn config_tells_all_that_is_wrong_and_where_values_come_from() {
    let dir = tempfile::tempdir().unwrap();
    let wrong = settings(dir.path(), "[writer]\nseal_bytes = 5\n[replica]\nstor = \"x\"\n");
    let (code, text) = said(&["config", "check", "--config", &wrong]).await;
    assert_eq!(code, Some(1), "{text}");
    for words in ["sealcast.toml:2", "4096", "sealcast.toml:4", "did you mean `store`?", "2 errors"]
    {
        assert!(text.contains(words), "{words} in {text}");
    }
    let (code, text) = said(&["config", "check", "--config", "no/such/file"]).await;
    assert_eq!(code, Some(2), "{text}");
    let right = settings(dir.path(), "[writer]\nshards = 3\n");
    let (code, text) = said(&["config", "check", "--config", &right]).await;
    assert_eq!(code, Some(0), "{text}");
    let show = ["config", "show", "--origin", "--config", &right, "--role", "writer", "--"];
    let (code, text) = said(&[&show[..], &["--seal-age-ms", "77"]].concat()).await;
    assert_eq!(code, Some(0), "{text}");
    let line = |key: &str| text.lines().find(|line| line.starts_with(key)).unwrap().to_owned();
    assert!(line("shards = 3").contains("sealcast.toml:2"), "{text}");
    assert!(line("seal_age_ms = 77").ends_with("# flag --seal-age-ms"), "{text}");
    assert!(line("http =").ends_with("# default"), "{text}");
    // What is shown can be given back, and nothing that can be set is left out.
    let (_, shown) = said(&["config", "show"]).await;
    assert!(shown.lines().any(|line| line == "# max_rows = (none)"), "{shown}");
    let again = settings(dir.path(), &shown);
    let (code, text) = said(&["config", "check", "--config", &again]).await;
    assert_eq!(code, Some(0), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_and_health_look_at_running_roles() {
    let cluster = Cluster::start(Roles::Dev).await;
    let dir = tempfile::tempdir().unwrap();
    let address = |role: usize| cluster.url(role).replace("http://", "");
    let text = format!(
        "[writer]\ndir = {writer:?}\nhttp = \"{}\"\n[shipper]\ndir = {writer:?}\nstore = {store:?}\n\
         http = \"{}\"\n[replica]\ndir = {replica:?}\nstore = {store:?}\nhttp = \"{}\"\n\
         shipper = [\"{}\"]\n",
        address(0),
        address(1),
        address(2),
        cluster.url(1),
        writer = cluster.path("writer"),
        store = cluster.path("store").display().to_string(),
        replica = cluster.path("replica"),
    );
    let file = settings(dir.path(), &text);
    let (code, text) = said(&["doctor", "--config", &file, "--json"]).await;
    let report: Value = serde_json::from_str(text.trim()).unwrap_or_else(|_| panic!("{text}"));
    let found = |check: &str, words: &str| {
        let findings = report["findings"].as_array().unwrap();
        let of = findings.iter().filter(|finding| finding["check"] == check);
        let told = of.map(|finding| finding["found"].as_str().unwrap_or_default());
        assert!(told.into_iter().any(|told| told.contains(words)), "{check}: {words} in {text}");
    };
    found("lock", "a writer works here");
    found("lock", "a shipper works here");
    found("address", "in use by a ready role");
    found("server", "reachable and ready");
    found("store", "reachable");
    found("sync", "rename");
    // The scratch folder of a test may lie in memory: that fails, and nothing else does.
    let failed = report["findings"].as_array().unwrap().iter().filter(|f| f["health"] == "fail");
    let failed: Vec<_> = failed.filter(|f| f["check"] != "filesystem").collect();
    assert!(failed.is_empty(), "{failed:?}");
    assert!(code == Some(0) || text.contains("tmpfs"), "{text}");
    for role in 0..3 {
        let (code, text) = said(&["health", &cluster.url(role)]).await;
        assert_eq!((code, text.trim()), (Some(0), "ready"));
    }
    let (code, text) = said(&["health", "http://127.0.0.1:9"]).await;
    assert_eq!(code, Some(1), "{text}");
    for role in 0..3 {
        let got = reqwest::get(format!("{}/metrics", cluster.url(role))).await.unwrap();
        let text = got.text().await.unwrap();
        assert!(text.contains("sealcast_build_info{version="), "{text}");
        let names = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        for name in names.filter_map(|line| line.split(' ').next()) {
            assert!(text.contains(&format!("# HELP {name} ")), "{name} has no HELP");
        }
    }
}
