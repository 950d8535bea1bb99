//! CloudTrail records by the page: the same counts as SQL's, while more arrive.

use std::collections::{BTreeMap, BTreeSet};

use sealcast_tests::{Cluster, Roles, data_dir, run, sealcast};
use serde_json::Value;

/// All events of a walk, page by page; `between` is done after the first one.
pub(super) async fn walk(
    cluster: &Cluster,
    query: &[(&str, &str)],
    between: impl AsyncFn(),
) -> Vec<Value> {
    let (client, url) = (reqwest::Client::new(), format!("{}/v1/events", cluster.url(2)));
    let (mut events, mut cursor) = (Vec::new(), None);
    loop {
        let mut request = client.get(&url).query(query);
        if let Some(cursor) = &cursor {
            request = request.query(&[("cursor", cursor)]);
        }
        let response = request.send().await.unwrap();
        let status = response.status();
        let mut page: Value = response.json().await.unwrap();
        assert!(status == 200 && page["complete"] == true, "{status} {page}");
        if events.is_empty() {
            between().await;
        }
        events.append(page["events"].as_array_mut().unwrap());
        match page["next_cursor"].take() {
            Value::String(next) => cursor = Some(next),
            _ => return events,
        }
    }
}

fn counts<'a>(of: impl Iterator<Item = &'a Value>) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for value in of {
        *counts.entry(value.as_str().unwrap_or_default().to_owned()).or_default() += 1;
    }
    counts
}

#[tokio::test(flavor = "multi_thread")]
async fn cloudtrail_by_the_page_counts_like_sql() {
    let Some(data) = data_dir("cloudtrail_by_the_page_counts_like_sql", "cloudtrail") else {
        return;
    };
    let data = data.display().to_string();
    let cluster = Cluster::start_with(Roles::Dev, &[("SEALCAST_WRITER_SHARDS", "4")]).await;
    let args = ["import", &data, "--writer", &cluster.url(0)];
    let imported = run(&sealcast("sealcast"), &args).await;
    assert!(imported.status.success(), "{}", String::from_utf8_lossy(&imported.stderr));
    let token = cluster.flush().await;
    let more = async || {
        let late = r#"{"tenant":"late","action":"late","time":"2000-01-01T00:00:00Z"}"#;
        assert_eq!(cluster.post(late.to_owned()).await.status(), 200);
        let token = cluster.flush().await;
        assert!(cluster.count(Some(&token)).await > 2_900);
    };
    let events = walk(&cluster, &[("min", &token), ("limit", "170")], more).await;
    assert_eq!(events.len(), 2_900);
    let distinct: BTreeSet<String> =
        events.iter().map(|event| format!("{}:{}", event["_shard"], event["_seq"])).collect();
    assert_eq!(distinct.len(), 2_900);
    let order: Vec<_> = events
        .iter()
        .map(|event| (event["time"].as_str().unwrap(), event["event_id"].as_str().unwrap()))
        .collect();
    assert!(order.is_sorted_by(|before, after| before >= after));
    for name in ["action", "actor_id", "outcome"] {
        let sql =
            format!("select {name}, count(*) from events where tenant <> 'late' group by {name}");
        let rows = cluster.rows(&sql, Some(&token)).await;
        let expected: BTreeMap<String, u64> = rows
            .iter()
            .map(|row| (row[0].as_str().unwrap_or_default().to_owned(), row[1].as_u64().unwrap()))
            .collect();
        assert_eq!(counts(events.iter().map(|event| &event[name])), expected, "{name}");
    }
    let sql = "select action, count(*) from events group by 1 order by 2 desc limit 1";
    let most = cluster.rows(sql, None).await;
    let action = most[0][0].as_str().unwrap();
    let filtered = walk(&cluster, &[("action", action), ("order", "asc")], async || {}).await;
    assert_eq!(filtered.len() as u64, most[0][1].as_u64().unwrap());
}
