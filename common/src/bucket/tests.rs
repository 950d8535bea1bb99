//! The local store and the create-only log.

use super::*;

fn key_of(name: &str, seq: u64) -> String {
    format!("{name}/{seq:04}")
}

#[tokio::test]
async fn create_is_exclusive_and_put_replaces() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().to_str().unwrap()).unwrap();
    assert_eq!(store.get("a/b").await.unwrap(), None);
    assert_eq!(store.create("a/b", Bytes::from_static(b"1")).await.unwrap(), Created::New);
    assert_eq!(store.create("a/b", Bytes::from_static(b"2")).await.unwrap(), Created::Exists);
    assert_eq!(store.get("a/b").await.unwrap().unwrap(), Bytes::from_static(b"1"));
    store.put("a/b", Bytes::from_static(b"3")).await.unwrap();
    assert_eq!(store.get("a/b").await.unwrap().unwrap(), Bytes::from_static(b"3"));
    assert_eq!(store.list_all("").await.unwrap(), [("a/b".to_owned(), 1)]);
}

#[tokio::test]
async fn a_race_on_one_entry_has_one_winner() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().to_str().unwrap()).unwrap();
    for seq in 0..20 {
        let racers = (0..8u8).map(|racer| {
            let log = CreateOnlyLog::new(store.clone(), "log", key_of);
            async move { log.append(seq, &Bytes::from(vec![racer; 3])).await }
        });
        let outcomes = futures::future::join_all(racers).await;
        let won = outcomes.iter().filter(|outcome| matches!(outcome, AppendOutcome::Committed));
        assert_eq!(won.count(), 1);
    }
}

#[tokio::test]
async fn the_same_bytes_again_are_ours() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().to_str().unwrap()).unwrap();
    let log = CreateOnlyLog::new(store, "log", key_of);
    let bytes = Bytes::from_static(b"nonce");
    assert!(matches!(log.append(1, &bytes).await, AppendOutcome::Committed));
    assert!(matches!(log.append(1, &bytes).await, AppendOutcome::Committed));
}

#[test]
fn an_unknown_scheme_says_what_is_expected() {
    let error = Store::open("ftp://host/x").unwrap_err().to_string();
    assert!(error.contains("ftp") && error.contains("s3://"), "{error}");
}
