//! Death by SIGKILL, at random, again and again, while clients send.

use std::time::Duration;

use sealcast_tests::{
    Checked, Checker, Cluster, Load, REPLICA, Roles, SHIPPER, WRITER, below, number, random, until,
};

/// Kills between two full checks.
const CHECK_EVERY: u64 = 20;

#[tokio::test(flavor = "multi_thread")]
async fn random_kills_under_load_lose_and_double_nothing() {
    let test = "random_kills_under_load_lose_and_double_nothing";
    let (kills, random) = (number("SEALCAST_KILLS", 6), random(test));
    let env = [("SEALCAST_WRITER_SEAL_AGE_MS", "300")];
    let mut cluster = Cluster::start_with(Roles::Apart, &env).await;
    let (mut checker, mut done, mut round) = (Checker::default(), Checked::default(), 0);
    for kill in 0..kills {
        let load = Load::start(&cluster, checker, 2, round << 8);
        round += 1;
        let last = (kill + 1) % CHECK_EVERY == 0 || kill + 1 == kills;
        let before = load.count().await;
        until("clients get on", || async { (load.count().await > before + 16).then_some(()) })
            .await;
        load.keep_checkpoints(&cluster).await;
        // Anywhere within a seal's period: before, in and after seal, upload, commit and fetch.
        tokio::time::sleep(Duration::from_millis(below(&random, 350))).await;
        match below(&random, 8) {
            0..3 => restart(&mut cluster, &[WRITER]),
            3..5 => restart(&mut cluster, &[SHIPPER]),
            5..7 => restart(&mut cluster, &[REPLICA]),
            _ => restart(&mut cluster, &[WRITER, SHIPPER, REPLICA]),
        }
        checker = load.stop().await;
        for place in ["writer", "store"] {
            let (code, report) = cluster.verify(&cluster.path(place).display().to_string()).await;
            assert_eq!(code, Some(0), "{place} after kill {kill}: {report}");
        }
        if last {
            cluster.ready().await;
            done = checker.check(&cluster).await;
            println!("{} kills: {done:?}", kill + 1);
        }
    }
    assert_eq!(done.acknowledged, checker.count());
    // A root was kept in every round, before its kill, and each at another size.
    assert!(done.checkpoints as u64 > kills && done.acknowledged > 0, "{done:?}");
}

/// SIGKILL to all of `roles` at once, then all of them are started.
fn restart(cluster: &mut Cluster, roles: &[usize]) {
    roles.iter().for_each(|role| cluster.kill_role(*role));
    roles.iter().for_each(|role| cluster.start_role(*role));
}
