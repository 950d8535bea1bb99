//! One flipped byte, one missing file: found by a named check with its place, nothing cut.

use std::path::Path;

use super::support::{
    Found, Writer, copy_dir, event, files_under, logs, refused_start, sealed_rows, write,
};
use crate::Discord;

/// Three acknowledged requests in one log, as a crash leaves them.
async fn crashed_with_three_frames() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let writer = Writer::start(dir.path()).await;
    for action in ["one", "two", "three"] {
        writer.post_json(&event("acme", action)).await.json();
    }
    let crashed = tempfile::tempdir().unwrap();
    copy_dir(dir.path(), crashed.path());
    writer.stop().await.unwrap();
    crashed
}

/// What keeps acme's shard from starting, by the problem that a client gets.
async fn refusal(dir: &Path) -> Found {
    let writer = Writer::start(dir).await;
    let found = writer.corrupt_shard().await;
    assert!(writer.stop().await.is_err(), "an end with a corrupt shard is no success");
    found
}

/// Offsets of the frames of a log.
fn frames(bytes: &[u8]) -> Vec<usize> {
    sealcast_common::wal::scan(bytes).unwrap().batches.iter().map(|(at, _)| *at as usize).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_flipped_byte_of_a_log_is_refused_with_its_place() {
    let dir = crashed_with_three_frames().await;
    let [log] = logs(dir.path()).try_into().unwrap();
    let good = std::fs::read(&log).unwrap();
    let at = frames(&good);
    assert_eq!(at.len(), 3);
    let mut places = vec![
        ("magic", 0, "wal_header"),
        ("shard", 8, "wal_header"),
        ("start", 12, "wal_header"),
        ("log id", 25, "wal_header"),
        ("header crc", 37, "wal_header"),
    ];
    for frame in &at {
        places.extend([
            ("length, low byte", *frame, "wal_frame"),
            ("length, high byte", frame + 3, "wal_frame"),
            ("crc", frame + 5, "wal_frame"),
            ("kind", frame + 8, "wal_frame"),
            ("payload", frame + 60, "wal_frame"),
        ]);
    }
    for (class, offset, check) in places {
        let mut bytes = good.clone();
        bytes[offset] ^= 0x10;
        write(&log, &bytes);
        let corruption = refusal(dir.path()).await;
        assert_eq!(corruption.check, check, "{class} at {offset}: {corruption:?}");
        assert!(corruption.file.ends_with(".wal"), "{corruption:?}");
        let found = corruption.offset.unwrap() as usize;
        let frame = at.iter().rev().find(|frame| **frame <= offset).copied().unwrap_or(0);
        assert_eq!(found, frame, "{class} at {offset}: {corruption:?}");
        assert_eq!(std::fs::read(&log).unwrap(), bytes, "{class}: the log was changed");
    }
    write(&log, &good);
    Writer::start(dir.path()).await.stop().await.unwrap();
    assert_eq!(sealed_rows(dir.path()).len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_corrupt_log_keeps_no_other_shard_from_its_work() {
    let dir = crashed_with_three_frames().await;
    let [log] = logs(dir.path()).try_into().unwrap();
    let mut bytes = std::fs::read(&log).unwrap();
    bytes[90] ^= 1;
    write(&log, &bytes);
    let writer = Writer::start(dir.path()).await;
    let shards = writer.get("/v1/shards").await.json();
    let states: Vec<&str> =
        shards["shards"].as_array().unwrap().iter().map(|s| s["state"].as_str().unwrap()).collect();
    assert!(states.contains(&"corrupt") && states.contains(&"active"), "{states:?}");
    let ready = writer.get("/readyz").await;
    assert!(ready.status == 503 && ready.text.contains("corrupt"), "{}", ready.text);
    let mut statuses = Vec::new();
    for tenant in ["acme", "globex", "initech", "umbrella", "hooli", "stark"] {
        statuses.push(writer.post_json(&event(tenant, "b")).await.status);
    }
    assert!(statuses.contains(&200) && statuses.contains(&503), "{statuses:?}");
    assert_eq!(writer.flush("").await.code(), (503, "shard_corrupt".into()));
    assert!(writer.stop().await.is_err());
    assert_eq!(std::fs::read(&log).unwrap(), bytes, "nothing was cut");
    // Both logs are bad: nothing to serve.
    let other =
        files_under(&dir.path().join("wal"), ".wal").into_iter().find(|l| *l != log).unwrap();
    write(&other, b"nonsense");
    let refused = Writer::start_with(super::support::config(dir.path()), crate::Seams::default());
    assert!(matches!(refused.await, Err(crate::StartError::Shard { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_torn_end_is_cut_and_the_rest_lives() {
    let dir = crashed_with_three_frames().await;
    let [log] = logs(dir.path()).try_into().unwrap();
    let good = std::fs::read(&log).unwrap();
    let last = *frames(&good).last().unwrap();
    for kept in [last + 1, last + 9, last + 40, good.len() - 1] {
        let copy = tempfile::tempdir().unwrap();
        copy_dir(dir.path(), copy.path());
        let log = copy.path().join(log.strip_prefix(dir.path()).unwrap());
        write(&log, &good[..kept]);
        let writer = Writer::start(copy.path()).await;
        writer.post_json(&event("acme", "four")).await.json();
        writer.stop().await.unwrap();
        let mut actions: Vec<(u64, String)> =
            sealed_rows(copy.path()).into_iter().map(|row| (row.seq, row.action)).collect();
        actions.sort();
        let expected = [(0, "one"), (1, "two"), (2, "four")].map(|(seq, a)| (seq, a.to_owned()));
        assert_eq!(actions, expected, "cut at {kept} of {}", good.len());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_or_swapped_log_is_noticed() {
    let dir = crashed_with_three_frames().await;
    let [log] = logs(dir.path()).try_into().unwrap();
    let bytes = std::fs::read(&log).unwrap();
    std::fs::remove_file(&log).unwrap();
    assert_eq!(refusal(dir.path()).await.check, "wal_missing");
    // A log of the other shard in its place.
    let all = files_under(&dir.path().join("wal"), ".wal");
    let other = std::fs::read(&all[0]).unwrap();
    write(&log, &other);
    assert_eq!(refusal(dir.path()).await.check, "wal_header");
    // The right log under a name that begins later.
    std::fs::remove_file(&log).unwrap();
    write(&log.with_file_name("0000000000000003.wal"), &bytes);
    assert_eq!(refusal(dir.path()).await.check, "wal_header");
}

/// Two sealed segments in one shard.
async fn sealed_twice() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let writer = Writer::start(dir.path()).await;
    for action in ["one", "two"] {
        writer.post_json(&event("acme", action)).await.json();
        writer.flush("").await.json();
    }
    writer.stop().await.unwrap();
    dir
}

#[tokio::test(flavor = "multi_thread")]
async fn sealed_files_are_a_signed_chain() {
    let dir = sealed_twice().await;
    let segments = files_under(&dir.path().join("sealed"), ".seg");
    let notes = files_under(&dir.path().join("sealed"), ".note");
    assert_eq!((segments.len(), notes.len()), (2, 2));
    let flip = |path: &Path, at: usize| {
        let good = std::fs::read(path).unwrap();
        let mut bytes = good.clone();
        bytes[at] ^= 0x10;
        write(path, &bytes);
        good
    };
    // The last one is verified whole: a byte of its rows.
    let good = flip(&segments[1], 4_000);
    let corruption = refusal(dir.path()).await;
    assert!(["crc32", "blake3"].contains(&corruption.check.as_str()), "{corruption:?}");
    assert!(corruption.file.ends_with(".seg"), "{corruption:?}");
    write(&segments[1], &good);
    // A byte of the first one's footer.
    let len = std::fs::metadata(&segments[0]).unwrap().len() as usize;
    let good = flip(&segments[0], len - 200);
    assert!(refusal(dir.path()).await.file.ends_with(".seg"));
    write(&segments[0], &good);
    // A note whose size, root or signature was changed; a note that is gone.
    for at in [12, 20, 90] {
        let good = flip(&notes[1], at);
        let corruption = refusal(dir.path()).await;
        assert_eq!(corruption.check, "note", "byte {at}: {corruption:?}");
        write(&notes[1], &good);
    }
    let good = std::fs::read(&notes[0]).unwrap();
    std::fs::remove_file(&notes[0]).unwrap();
    assert_eq!(refusal(dir.path()).await.check, "note");
    write(&notes[0], &good);
    Writer::start(dir.path()).await.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn data_behind_a_signed_size_is_refused() {
    let dir = sealed_twice().await;
    let segments = files_under(&dir.path().join("sealed"), ".seg");
    let log = files_under(&dir.path().join("wal"), "0000000000000002.wal");
    // The newest segment is gone, its note is not: a restored backup.
    std::fs::remove_file(&segments[1]).unwrap();
    assert_eq!(refusal(dir.path()).await.check, "contiguity");
    let name = log[0].with_file_name("0000000000000001.wal");
    let shard =
        u16::from_str_radix(log[0].parent().unwrap().file_name().unwrap().to_str().unwrap(), 16)
            .unwrap();
    let log_id = sealcast_common::integrity::log_id(&format!("test/{shard:04x}"));
    let header = sealcast_common::wal::WalHeader { shard, start: 1, log_id };
    std::fs::remove_file(&log[0]).unwrap();
    write(&name, &header.to_bytes());
    assert_eq!(refused_start(dir.path()).await, ("signed_size", Discord::Behind));
    // Retention of the oldest file is no such thing.
    let dir = sealed_twice().await;
    let first = &files_under(&dir.path().join("sealed"), ".seg")[0];
    std::fs::remove_file(first).unwrap();
    std::fs::remove_file(first.with_extension("note")).unwrap();
    Writer::start(dir.path()).await.stop().await.unwrap();
}
