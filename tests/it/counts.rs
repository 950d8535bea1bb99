//! CloudTrail records, counted in every way that there is to ask: all agree.

use std::collections::BTreeMap;

use sealcast_tests::{
    Cluster, REPLICA, Roles, WRITER, data_dir, free_port, python_with, run, sealcast,
};
use serde_json::Value;

use super::flight::script;
use super::pages::walk;

/// Events by tenant, action and outcome.
type Counts = BTreeMap<[String; 3], u64>;

const SQL: &str = "select tenant, action, outcome, count(*) from events group by 1, 2, 3";

/// A way to ask. Another protocol is another variant here, and another function in `counts.py`.
#[derive(Clone, Copy, Debug)]
enum Way {
    Http,
    Pages,
    /// By a client of `counts.py`, and the module that it needs.
    Client(&'static str, &'static str),
}

const WAYS: [Way; 4] = [
    Way::Http,
    Way::Pages,
    Way::Client("flight", "adbc_driver_flightsql"),
    Way::Client("postgres", "psycopg"),
];

/// A text as it is, NULL as nothing.
fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn of_rows(rows: &[Value]) -> Counts {
    let count = |row: &Value| {
        ([text(&row[0]), text(&row[1]), text(&row[2])], row[3].as_u64().expect("a count"))
    };
    rows.iter().map(count).collect()
}

/// What `way` counts; nothing if its client is not there.
async fn counted(test: &str, way: Way, cluster: &Cluster, postgres: &str) -> Option<Counts> {
    match way {
        Way::Http => Some(of_rows(&cluster.rows(SQL, None).await)),
        Way::Pages => {
            let mut counts = Counts::new();
            for event in walk(cluster, &[("limit", "1000")], async || {}).await {
                let key = [&event["tenant"], &event["action"], &event["outcome"]].map(text);
                *counts.entry(key).or_default() += 1;
            }
            Some(counts)
        }
        Way::Client(name, module) => {
            let python = python_with(test, &[module])?;
            let url = cluster.url(REPLICA);
            let address = match name {
                "postgres" => postgres,
                _ => url.trim_start_matches("http://"),
            };
            let said = script(&python, "counts.py", &[name, address, SQL], &[]).await;
            Some(of_rows(&serde_json::from_str::<Vec<Value>>(&said).unwrap()))
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cloudtrail_counts_are_the_same_in_every_way() {
    let test = "cloudtrail_counts_are_the_same_in_every_way";
    let Some(data) = data_dir(test, "cloudtrail") else { return };
    let data = data.display().to_string();
    let postgres = format!("127.0.0.1:{}", free_port());
    let env = [("SEALCAST_WRITER_SHARDS", "4"), ("SEALCAST_REPLICA_POSTGRES", postgres.as_str())];
    let cluster = Cluster::start_with(Roles::Apart, &env).await;
    let args = ["import", &data, "--writer", &cluster.url(WRITER)];
    let imported = run(&sealcast("sealcast"), &args).await;
    assert!(imported.status.success(), "{}", String::from_utf8_lossy(&imported.stderr));
    let token = cluster.flush().await;
    assert_eq!(cluster.count(Some(&token)).await, 2_900);
    let mut all = Vec::new();
    for way in WAYS {
        let counts = counted(test, way, &cluster, &postgres).await;
        all.extend(counts.map(|counts| (way, counts)));
    }
    let (_, expected) = &all[0];
    assert!(expected.len() > 100, "{expected:?}");
    for (way, found) in &all {
        assert_eq!(found.values().sum::<u64>(), 2_900, "{way:?}");
        assert_eq!(found, expected, "{way:?}");
    }
}
