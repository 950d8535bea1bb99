//! The local store and the create-only log.

use super::*;
use crate::durable::{Durable as _, RealFiles};

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

#[tokio::test]
async fn the_index_names_every_stream_once_and_survives_damage() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().to_str().unwrap()).unwrap();
    let index = StreamIndex::new(store.clone());
    let mut seen = 0;
    assert!(index.follow(&mut seen).await.unwrap().is_empty());
    let names: Vec<String> = (0..6).map(|n| format!("node-{n}")).collect();
    let all = names.iter().map(|name| index.announce(name));
    futures::future::join_all(all).await.into_iter().collect::<Result<Vec<()>, _>>().unwrap();
    let mut found = index.follow(&mut seen).await.unwrap();
    found.sort();
    assert_eq!((found, seen), (names, 6));
    store.create(&crate::catalog::names::stream_index_key(7), "damage".into()).await.unwrap();
    index.announce("node-3").await.unwrap();
    index.announce("late").await.unwrap();
    assert_eq!(index.follow(&mut seen).await.unwrap(), ["late"]);
    assert_eq!(seen, 8, "what is known is not named again");
}

#[tokio::test]
async fn unfinished_puts_are_swept_when_old_and_where_told() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().to_str().unwrap()).unwrap();
    let leave = |key: &str, seconds: u64| {
        let path = dir.path().join(key);
        RealFiles.create_dir(path.parent().unwrap()).unwrap();
        RealFiles.write_new(&path, b"half").unwrap();
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
        std::fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    };
    let now = 2_000_000_000;
    leave("st/a/log/00001#123", now - 7_200);
    leave("st/a/log/00002#123", now - 60);
    leave("st/a/log/00003", now - 7_200);
    leave("st/a/log/notes#1a", now - 7_200);
    leave("st/b/log/00001#123", now - 7_200);
    let clock = crate::clock::ManualClock::new(i64::try_from(now).unwrap() * 1_000_000);
    assert_eq!(store.sweep(vec!["st/a".into(), "st/none".into()], &clock).await, 1);
    let left = |key: &str| dir.path().join(key).exists();
    assert!(!left("st/a/log/00001#123"));
    for kept in ["a/log/00002#123", "a/log/00003", "a/log/notes#1a", "b/log/00001#123"] {
        assert!(left(&format!("st/{kept}")), "{kept}");
    }
}

#[tokio::test]
async fn a_careful_log_looks_before_it_puts() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().to_str().unwrap()).unwrap();
    store.put("log/0001", Bytes::from_static(b"theirs")).await.unwrap();
    let log = CreateOnlyLog::new(store, "log", key_of).careful();
    let ours = Bytes::from_static(b"ours");
    assert!(matches!(log.append(1, &ours).await, AppendOutcome::Taken(_)));
    assert!(matches!(log.append(2, &ours).await, AppendOutcome::Committed));
    assert!(matches!(log.append(2, &ours).await, AppendOutcome::Committed));
}

#[test]
fn retries_are_a_tenth_of_the_calls_and_the_reserve() {
    let retry = Retry::new(Arc::new(crate::clock::SeededRandom::new(1)));
    let mut retries = 0;
    for _ in 0..1_000 {
        retry.earn();
        retries += (0..2).take_while(|number| retry.pause(*number).is_some()).count();
    }
    assert_eq!(retries, 100 + RESERVE as usize - 1);
    // A store that asks for a moment gets it; one that asks for an hour is left to the next round.
    (0..200).for_each(|_| retry.earn());
    retry.wish(std::time::Duration::from_secs(3));
    assert!(retry.pause(0).unwrap() >= std::time::Duration::from_secs(3));
    retry.wish(std::time::Duration::from_secs(3_600));
    assert_eq!(retry.pause(0), None);
    assert!(retry.pause(0).is_some(), "a wish is granted once");
}

#[tokio::test]
async fn who_asks_for_an_object_on_its_way_shares_the_answer() {
    let (flights, asked) = (Flights::default(), std::sync::atomic::AtomicUsize::new(0));
    let fetch = |answer: Option<Bytes>| {
        let asked = &asked;
        move || {
            let answer = answer.clone();
            async move {
                asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                tokio::task::yield_now().await;
                Ok(answer)
            }
        }
    };
    let bytes = Some(Bytes::from_static(b"x"));
    let all = (0..8).map(|_| flights.join("k", fetch(bytes.clone())));
    let found = futures::future::join_all(all).await;
    assert!(found.into_iter().all(|found| found.unwrap() == bytes));
    assert_eq!(asked.swap(0, std::sync::atomic::Ordering::SeqCst), 1);
    // An absence that was asked for before is not believed now.
    let all = (0..3).map(|_| flights.join("k", fetch(None)));
    futures::future::join_all(all).await;
    assert_eq!(asked.load(std::sync::atomic::Ordering::SeqCst), 3);
}

#[test]
fn a_location_is_refused_without_its_password() {
    for location in ["gopher://key:hush@host/path", "s3://key:hush@", "https://key:hush@/"] {
        let refused = Store::open(location).map(|_| ()).unwrap_err().to_string();
        assert!(!refused.contains("hush"), "{refused}");
    }
}
