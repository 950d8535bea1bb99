//! Pages and their cursors tell a caller of one tenant nothing of others.

use serde_json::{Value, json};

use super::bucket::{MARK, OWN_ROWS, filled};
use super::{Locked, told};

const PATHS: [&str; 14] = [
    "/v1/events",
    "/v1/events?limit=7",
    "/v1/events?limit=7&order=asc",
    "/v1/events?limit=1000",
    "/v1/events?tenant=globex",
    "/v1/events?tenant=aaa&order=asc",
    "/v1/events?tenant=acme&limit=3",
    "/v1/events?q=zzmark",
    "/v1/events?outcome=denied",
    "/v1/events?q=zz&tenant=globex",
    "/v1/events?actor=3&limit=2",
    "/v1/events?from=2023-11-14T22:13:30Z&to=2023-11-14T22:13:50Z",
    "/v1/events/01890000-0000-7000-0000-000000000003",
    "/v1/events/01890000-0000-7000-0000-000000000063",
];

/// Everything that a walk gets to see: every page, with its cursor's length for the cursor.
async fn walked(locked: &Locked, path: &str) -> Vec<Value> {
    let mut seen = Vec::new();
    let mut next = path.to_owned();
    loop {
        let answer = locked.get(&locked.acme, &next).await;
        let (status, headers) = (answer.status().as_u16(), told(answer.headers()));
        let text = answer.text().await.unwrap();
        assert!(!text.contains(MARK), "{path}: {text}");
        let mut document: Value = serde_json::from_str(&text).unwrap();
        let cursor = document["next_cursor"].take();
        document.as_object_mut().unwrap().remove("query_id");
        let cursor = cursor.as_str();
        seen.push(json!([status, headers, document, cursor.map(str::len)]));
        let Some(cursor) = cursor else { return seen };
        next = format!("{path}{}cursor={cursor}", if path.contains('?') { '&' } else { '?' });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn other_tenants_change_no_page() {
    let alone = Locked::start(filled(false).await).await;
    let crowded = Locked::start(filled(true).await).await;
    let mut rows = 0;
    for path in PATHS {
        let (expected, found) = (walked(&alone, path).await, walked(&crowded, path).await);
        assert_eq!(expected, found, "{path}");
        rows += expected.iter().filter_map(|page| page[2]["events"].as_array()).flatten().count();
    }
    assert!(rows as u64 > 8 * OWN_ROWS, "{rows}");
    alone.replica.stop().await;
    crowded.replica.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_is_of_use_to_the_same_tenants_only() {
    let locked = Locked::start(filled(true).await).await;
    let first: Value = locked.get(&locked.acme, "/v1/events?limit=5").await.json().await.unwrap();
    let cursor = first["next_cursor"].as_str().unwrap();
    let path = format!("/v1/events?limit=5&cursor={cursor}");
    assert_eq!(locked.get(&locked.acme_too, &path).await.status(), 200);
    for token in [&locked.others, &locked.all] {
        let refused = locked.get(token, &path).await;
        assert_eq!(refused.status(), 400);
        assert_eq!(refused.json::<Value>().await.unwrap()["code"], "cursor_mismatch");
    }
    let empty: Value = locked.get(&locked.nobody, "/v1/events").await.json().await.unwrap();
    assert_eq!((&empty["events"], &empty["next_cursor"]), (&json!([]), &Value::Null));
    let all: Value = locked.get(&locked.all, "/v1/events?limit=1000").await.json().await.unwrap();
    assert!(all.to_string().contains(MARK));
    locked.replica.stop().await;
}
