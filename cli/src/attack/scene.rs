//! What is attacked: a small cluster that real roles made, a backup of it from before its last
//! events, and an auditor who has seen its end.

use std::path::{Path, PathBuf};

use sealcast_common::clock::{Clock as _, WallClock};
use sealcast_common::durable::{Durable as _, RealFiles};
use sealcast_common::layout::DataDir;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::demo::Generator;
use crate::output::{Failure, failed};
use crate::verify::{Report, Trusting, verify_by};

/// Events of each round; three rounds make three segments of each shard.
const ROUND: usize = 60;
const SHARDS: u16 = 2;
/// An honest shipper is far quicker.
const SHIP_MS: u64 = 10_000;

/// A folder with `writer`, `store`, `before/…` and `auditor/…`.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    root: PathBuf,
}

impl Scene {
    /// Makes one in `root`, which must not exist or be empty.
    pub(crate) async fn make(root: &Path) -> Result<Scene, Failure> {
        let scene = Scene { root: root.to_owned() };
        let events: Vec<Value> =
            Generator::new(7, 3 * ROUND, WallClock::default().now().0).collect();
        let mut rounds = events.chunks(ROUND);
        scene.rounds(rounds.by_ref().take(2)).await?;
        for part in ["writer", "store"] {
            copy(&scene.path(part), &scene.path("before").join(part)).map_err(failed)?;
        }
        scene.rounds(rounds).await?;
        let key = DataDir::new(scene.path("writer")).cluster_public_key_file();
        let key = std::fs::read_to_string(key).map_err(failed)?;
        RealFiles.create_dir(&scene.path("auditor")).map_err(failed)?;
        let policy = format!("log {key}quorum none\n");
        RealFiles.replace(&scene.policy(), policy.as_bytes()).map_err(failed)?;
        let report = scene.judge("").await?;
        if report.exit_code() != 0 {
            return Err(Failure::new(format!(
                "the cluster to be attacked is not sound: {report:?}"
            )));
        }
        Ok(scene)
    }

    /// A path below the scene.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn policy(&self) -> PathBuf {
        self.path("auditor/policy.txt")
    }

    /// A copy, to be attacked.
    pub(crate) fn copy_to(&self, root: &Path) -> Result<Scene, Failure> {
        copy(&self.root, root).map_err(failed)?;
        Ok(Scene { root: root.to_owned() })
    }

    /// What the auditor says of a part of the scene, or of `""`: writer and store together. What
    /// holds is remembered.
    pub(crate) async fn judge(&self, target: &str) -> Result<Report, Failure> {
        let trusting = Trusting::read(
            (Some(&self.policy()), None),
            Some(&self.path("auditor/trust.json")),
            false,
        )?;
        let target = self.path(target).display().to_string();
        Ok(verify_by(target.trim_end_matches('/'), trusting, &|_, _, _| {}).await)
    }

    /// Starts writer and shipper, sends the rounds, each sealed and shipped, and stops them when
    /// the cluster log covers all rows.
    async fn rounds<'e>(&self, rounds: impl Iterator<Item = &'e [Value]>) -> Result<(), Failure> {
        let running = Roles::start(&self.path("writer"), &self.path("store")).await?;
        for round in rounds {
            running.send(round, SHIP_MS).await?;
        }
        let rows = running.rows().await?;
        let store = self.path("store").display().to_string();
        loop {
            let report = verify_by(&store, Trusting::default(), &|_, _, _| {}).await;
            if report.anchored_rows >= rows || report.exit_code() == 1 {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        running.stop().await
    }
}

/// A writer and a shipper in this process, on free ports.
pub(crate) struct Roles {
    writer: sealcast_writer::Handle,
    shipper: sealcast_shipper::Handle,
    stops: [CancellationToken; 2],
    http: reqwest::Client,
}

impl Roles {
    /// Starts both.
    pub(crate) async fn start(dir: &Path, store: &Path) -> Result<Roles, Failure> {
        let stops = [CancellationToken::new(), CancellationToken::new()];
        let config = sealcast_writer::Config {
            dir: dir.to_owned(),
            http: "127.0.0.1:0".into(),
            shards: Some(SHARDS),
            ..sealcast_writer::Config::default()
        };
        let writer = sealcast_writer::start(config, Default::default(), stops[0].clone());
        let writer = writer.await.map_err(failed)?;
        let config = sealcast_shipper::Config {
            dir: dir.to_owned(),
            store: store.display().to_string(),
            http: "127.0.0.1:0".into(),
            cluster_every_ms: 1,
            ..sealcast_shipper::Config::default()
        };
        let shipper = sealcast_shipper::start(config, Default::default(), stops[1].clone());
        match shipper.await {
            Ok(shipper) => Ok(Roles { writer, shipper, stops, http: reqwest::Client::new() }),
            Err(error) => {
                stops[0].cancel();
                let _ended = writer.join().await;
                Err(failed(error))
            }
        }
    }

    /// Sends events, seals them, and ships them within so many milliseconds.
    pub(crate) async fn send(&self, events: &[Value], wait_ms: u64) -> Result<(), Failure> {
        let base = format!("http://{}/v1", self.writer.http);
        let sent = self.http.post(format!("{base}/events")).json(&events).send().await;
        sent.and_then(reqwest::Response::error_for_status).map_err(failed)?;
        let flush = format!("{base}/admin/flush?wait=shipped&timeout_ms={wait_ms}");
        let flushed = self.http.post(flush).send().await.map_err(failed)?;
        flushed.error_for_status().map(drop).map_err(failed)
    }

    async fn rows(&self) -> Result<u64, Failure> {
        let url = format!("http://{}/v1/shards", self.writer.http);
        let asked = self.http.get(url).send().await.map_err(failed)?;
        let told: sealcast_common::wire::ShardsResponse = asked.json().await.map_err(failed)?;
        Ok(told.shards.iter().map(|shard| shard.sealed).sum())
    }

    /// Stops both.
    pub(crate) async fn stop(self) -> Result<(), Failure> {
        self.stops.iter().for_each(CancellationToken::cancel);
        let (writer, shipper) = (self.writer.join().await, self.shipper.join().await);
        writer.map_err(failed)?;
        shipper.map(drop).map_err(failed)
    }
}

/// Copies a folder with everything below it.
pub(crate) fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    RealFiles.create_dir(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
