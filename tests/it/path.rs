//! CloudTrail records through the whole path, against an independent count.

use sealcast_tests::{Cluster, Roles, data_dir, python, run, sealcast, until};
use serde_json::Value;

/// Counts by action, actor and hour straight from the files, and checks that pyarrow and polars
/// read the same from every sealed segment.
const STRANGER: &str = include_str!("stranger.py");

async fn import(cluster: &Cluster, files: &str) -> std::process::Output {
    run(&sealcast("sealcast"), &["import", files, "--writer", &cluster.url(0)]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn cloudtrail_counts_equal_an_independent_count() {
    let test = "cloudtrail_counts_equal_an_independent_count";
    let (Some(data), Some(python)) = (data_dir(test, "cloudtrail"), python(test)) else { return };
    let data = data.display().to_string();
    let cluster = Cluster::start(Roles::Dev).await;
    let imported = import(&cluster, &data).await;
    assert!(imported.status.success(), "{}", String::from_utf8_lossy(&imported.stderr));
    let token = cluster.flush().await;
    assert_eq!(cluster.count(Some(&token)).await, 2_900);

    let mut answers = serde_json::Map::new();
    for (name, sql) in [
        ("action", "select action, count(*) from events group by 1"),
        ("actor", "select actor_id, count(*) from events group by 1"),
        ("hour", "select date_trunc('hour', time), count(*) from events group by 1"),
    ] {
        answers.insert(name.to_owned(), Value::from(cluster.rows(sql, Some(&token)).await));
    }
    let answers = Value::Object(answers).to_string();
    let sealed = cluster.path("writer/sealed").display().to_string();
    let script = cluster.path("stranger.py");
    #[expect(clippy::disallowed_methods, reason = "a test's own file needs no durability")]
    std::fs::write(&script, STRANGER).unwrap();
    let script = script.display().to_string();
    let checked = run(&python, &[&script, &data, &sealed, &answers]).await;
    assert!(
        checked.status.success(),
        "{}{}",
        String::from_utf8_lossy(&checked.stdout),
        String::from_utf8_lossy(&checked.stderr)
    );

    let again = import(&cluster, &data).await;
    assert!(again.status.success());
    let said = String::from_utf8_lossy(&again.stdout);
    assert!(said.contains("(2900 of them were there already)"), "{said}");
    let token = cluster.flush().await;
    assert_eq!(cluster.count(Some(&token)).await, 2_900);
    let (code, report) = cluster.verify(&cluster.dir.path().display().to_string()).await;
    assert_eq!(code, Some(0), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_9_during_an_import_loses_and_doubles_nothing() {
    let test = "kill_9_during_an_import_loses_and_doubles_nothing";
    let Some(data) = data_dir(test, "cloudtrail") else { return };
    let data = data.display().to_string();
    let mut cluster = Cluster::start(Roles::Dev).await;
    let url = cluster.url(0);
    let importing = tokio::spawn({
        let (data, url) = (data.clone(), url.clone());
        async move {
            let args = ["import", &data, "--writer", &url, "--batch", "20"];
            run(&sealcast("sealcast"), &args).await
        }
    });
    // Somewhere in the middle: some events are durable, more are to come.
    let shards = format!("{url}/v1/shards");
    until("some events are durable", || async {
        let shards: Value = reqwest::get(&shards).await.ok()?.json().await.ok()?;
        let sizes = shards["shards"].as_array()?.iter().filter_map(|s| s["size"].as_u64());
        (sizes.sum::<u64>() > 300).then_some(())
    })
    .await;
    cluster.kill();
    importing.abort();
    let _ = importing.await;
    cluster.resume().await;
    let imported = import(&cluster, &data).await;
    assert!(imported.status.success(), "{}", String::from_utf8_lossy(&imported.stderr));
    let token = cluster.flush().await;
    assert_eq!(cluster.count(Some(&token)).await, 2_900);
    let distinct = "select count(distinct event_id) from events";
    assert_eq!(cluster.rows(distinct, Some(&token)).await[0][0], 2_900);
    let (code, report) = cluster.verify(&cluster.dir.path().display().to_string()).await;
    assert_eq!(code, Some(0), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_makes_the_next_query_see_its_rows() {
    let cluster = Cluster::start(Roles::Dev).await;
    for i in 1..=5u64 {
        let event = format!(r#"{{"tenant":"t{i}","action":"read","attributes":{{"i":{i}}}}}"#);
        assert_eq!(cluster.post(event).await.status(), 200);
        let token = cluster.flush().await;
        assert_eq!(cluster.count(Some(&token)).await, i);
    }
    let rows = cluster.rows("select attributes->>'i' from events order by time", None).await;
    assert_eq!(rows.len(), 5);
}
