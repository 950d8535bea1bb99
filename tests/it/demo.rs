//! The command that a newcomer runs first.

use sealcast_tests::{run, sealcast};

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_ends_in_its_verdict() {
    let shown = run(&sealcast("sealcast"), &["demo", "--events", "3000", "--exit"]).await;
    let text = String::from_utf8_lossy(&shown.stdout);
    assert!(shown.status.success(), "{text}{}", String::from_utf8_lossy(&shown.stderr));
    let last = text.lines().last().unwrap_or_default();
    assert!(
        last.starts_with("demo ok: 3000 events, ") && last.ends_with(" segments, verified"),
        "{last}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_demo_that_cannot_load_says_why_and_exits_with_1() {
    let shown = run(&sealcast("sealcast"), &["demo", "--from", "no/such/folder", "--exit"]).await;
    assert_eq!(shown.status.code(), Some(1));
    let text = String::from_utf8_lossy(&shown.stderr);
    assert!(text.contains("demo failed") && text.contains("no/such/folder"), "{text}");
}
