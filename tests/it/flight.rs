//! Programs that people have, over Arrow Flight SQL: they see the rows that HTTP gives.

use std::path::Path;

use sealcast_tests::{Cluster, REPLICA, Roles, python, run, skip};

#[tokio::test(flavor = "multi_thread")]
async fn real_clients_see_what_http_gives() {
    let test = "real_clients_see_what_http_gives";
    let Some(python) = python(test) else { return };
    let cluster = Cluster::start(Roles::Dev).await;
    let line = |i: usize| {
        let tenant = if i.is_multiple_of(3) { "acme" } else { "globex" };
        format!(
            "{{\"tenant\":\"{tenant}\",\"action\":\"file.read\",\"message\":\"{i}\",\"attributes\":{{\"n\":{i}}}}}\n"
        )
    };
    assert!(cluster.post((0..900).map(line).collect()).await.status().is_success());
    let token = cluster.flush().await;
    let all = cluster.count(Some(&token)).await;
    let own = "select count(*) from events where tenant = 'acme'";
    let own = cluster.rows(own, Some(&token)).await[0][0].as_u64().unwrap();
    assert_eq!((all, own), (900, 300));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("it/flight.py").display().to_string();
    let address = cluster.url(REPLICA).trim_start_matches("http://").to_owned();
    let (all, own) = (all.to_string(), own.to_string());
    let shown = run(&python, &[&script, &address, &all, "acme", &own]).await;
    let said = String::from_utf8_lossy(&shown.stdout).into_owned();
    let errors = String::from_utf8_lossy(&shown.stderr);
    assert!(shown.status.success(), "{said}\n{errors}\n{}", cluster.logs());
    for line in said.lines().filter_map(|line| line.strip_prefix("skipped: ")) {
        skip(test, line);
    }
}
