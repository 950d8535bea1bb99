//! `deploy/notebook/audit.ipynb`, executed against running roles.

use std::path::Path;

use sealcast_tests::{Cluster, REPLICA, Roles, python, run_with, skip};
use serde_json::{Value, json};

/// Ordinary reads, and an address that was refused nine times before it got in.
fn events() -> String {
    let read = (0..50).map(|i| {
        json!({
            "tenant": "acme",
            "action": "file.read",
            "actor_id": format!("user-{}", i % 7),
            "time": format!("2026-03-01T{:02}:10:00Z", i % 24),
            "outcome": "success",
        })
    });
    let guessed = (0..10).map(|i| {
        json!({
            "tenant": "acme",
            "action": "user.login",
            "actor_id": "admin",
            "source_ip": "203.0.113.9",
            "time": format!("2026-03-01T03:02:{:02}Z", i * 5),
            "outcome": if i < 9 { "denied" } else { "success" },
        })
    });
    read.chain(guessed).map(|event| format!("{event}\n")).collect()
}

/// What the cells have printed and shown.
fn shown(notebook: &Value) -> String {
    let cells = notebook["cells"].as_array().unwrap();
    let outputs = cells.iter().filter_map(|cell| cell["outputs"].as_array());
    outputs.flatten().map(Value::to_string).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_notebook_finds_the_attack_and_proves_it() {
    let test = "the_notebook_finds_the_attack_and_proves_it";
    let Some(python) = python(test) else { return };
    let execute = python.with_file_name("jupyter-execute");
    if !execute.exists() {
        return skip(test, "nbclient is not installed (run scripts/setup)");
    }
    let cluster = Cluster::start(Roles::Dev).await;
    assert!(cluster.post(events()).await.status().is_success());
    let token = cluster.flush().await;
    assert_eq!(cluster.count(Some(&token)).await, 60);
    let notebook = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/notebook/audit.ipynb");
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("executed.ipynb");
    let output = format!("--output={}", out.display());
    let args = ["--timeout=120", output.as_str(), notebook.to_str().unwrap()];
    let http = cluster.url(REPLICA);
    let flight = http.replace("http://", "grpc://");
    let env = [
        ("SEALCAST_HTTP", http.as_str()),
        ("SEALCAST_FLIGHT", flight.as_str()),
        ("SEALCAST_TOKEN", "open"),
        ("IPYTHONDIR", folder.path().to_str().unwrap()),
    ];
    let ran = run_with(&execute, &args, &env).await;
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{errors}\n{}", cluster.logs());
    let executed: Value = serde_json::from_slice(&std::fs::read(&out).unwrap()).unwrap();
    let shown = shown(&executed);
    for expected in
        ["203.0.113.9", "image/png", "user-0", "whose key has signed", "refused: another root"]
    {
        assert!(shown.contains(expected), "{expected}: {shown}");
    }
}
