//! Death by SIGKILL of real processes between two given steps of sealing, shipping and anchoring:
//! whoever starts again signs no second history and loses and doubles nothing.
//!
//! A step is reached without any hook in the roles: a store that holds a put, a line to the signer
//! that holds a request or an answer, a named pipe in the place of the next file.

mod shipper;
mod writer;

use std::path::PathBuf;

use sealcast_common::durable::{Durable as _, RealFiles};
use sealcast_tests::{
    Bucket, Checker, Cluster, Notes, REPLICA, Roles, SHIPPER, WRITER, deliver, files_under, until,
};
use serde_json::Value;

/// Events of one request.
const BATCH: u64 = 8;

/// A cluster on a bucket of its own, and everybody who would notice.
struct Stage {
    cluster: Cluster,
    bucket: Bucket,
    checker: Checker,
    notes: Notes,
    /// What the keeper remembered at its last death.
    signed: Option<Value>,
    http: reqwest::Client,
}

impl Stage {
    /// All roles run and nothing has happened yet.
    async fn start(bucket: Bucket, more: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("sealcast.toml");
        let quick = "[replica]\npoll_min_ms = 10\npoll_max_ms = 50\n";
        RealFiles.write_new(&config, quick.as_bytes()).unwrap();
        let config = config.display().to_string();
        let mut env = bucket.env();
        let settings = [
            ("SEALCAST_WRITER_SHARDS", "1"),
            ("SEALCAST_SHIPPER_CLUSTER_EVERY_MS", "0"),
            ("SEALCAST_SHIPPER_SNAPSHOT_EVERY", "1"),
            ("SEALCAST_SHIPPER_SCAN_MS", "200"),
            ("SEALCAST_CONFIG", &config),
        ];
        let all = settings.iter().chain(more);
        env.extend(all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let cluster = Cluster::start_on(Roles::Apart, dir, bucket.url(), env).await;
        let (checker, notes) = (Checker::default(), Notes::default());
        Stage { cluster, bucket, checker, notes, signed: None, http: reqwest::Client::new() }
    }

    /// One more batch, acknowledged.
    async fn send(&mut self) {
        let batch = self.checker.batch(0, BATCH);
        let answer = deliver(&self.http, &self.cluster.url(WRITER), &batch).await;
        self.checker.acknowledged(&answer);
    }

    /// One more batch, on its way into a segment. Nobody waits for the answer: the writer may die.
    async fn begin(&mut self) {
        self.send().await;
        let flush = self.http.post(format!("{}/v1/admin/flush", self.cluster.url(WRITER)));
        tokio::spawn(flush.send());
    }

    /// What is signed by now, also if nobody was told.
    fn look(&mut self) {
        self.notes.keep_folder(self.cluster.dir.path());
        self.notes.keep_objects(&self.bucket.objects(""));
    }

    async fn restart(&mut self, role: usize) {
        self.cluster.start_role(role);
        self.cluster.ready_role(role).await;
    }

    /// Goes on where it was broken off, and is as if nothing had happened.
    async fn whole(&mut self, what: &str) {
        self.look();
        self.send().await;
        let token = self.cluster.flush().await;
        let checked = self.checker.check_replica(&self.cluster, &token).await;
        assert_eq!(checked.acknowledged, self.checker.count(), "{what}");
        assert_eq!(checked.unacknowledged, 0, "{what}");
        self.anchored(what).await;
        self.audited(what).await;
        self.look();
    }

    /// The replica has found every row that it serves in the cluster log, and never anything else.
    async fn anchored(&self, what: &str) {
        let rows = self.checker.count() as u64;
        until(&format!("{what}: anchored"), || async {
            let waits = self.gauge("sealcast_replica_trust_unanchored_seconds").await?;
            let (code, report) = match waits == 0.0 {
                true => self.verify_store().await,
                false => return None,
            };
            assert_eq!(code, Some(0), "{what}: {report}\n{}", self.cluster.logs());
            (report["anchored_rows"] == rows).then_some(())
        })
        .await;
        let ready = self.cluster.get(REPLICA, "/readyz").await;
        assert!(ready["reasons"]["trust_broken"].is_null(), "{what}: {ready}");
        assert_eq!(self.gauge("sealcast_replica_trust_broken").await, Some(0.0), "{what}");
        assert!(!self.cluster.output(REPLICA).contains("trust broken"), "{what}");
    }

    async fn audited(&self, what: &str) {
        let dir = self.cluster.path("writer").display().to_string();
        let (code, report) = self.cluster.verify(&dir).await;
        assert_eq!(code, Some(0), "{what}: {report}");
        let ready = self.cluster.get(SHIPPER, "/readyz").await;
        assert!(ready["notes"]["cluster"].is_null(), "{what}: {ready}");
    }

    /// The store as an auditor sees it who has looked after every kill before this one.
    async fn verify_store(&self) -> (Option<i32>, Value) {
        let file = self.cluster.path("auditor.json");
        let state = file.display().to_string();
        let first_use = if file.exists() { None } else { Some("--trust-on-first-use") };
        let more: Vec<&str> = ["--trust-state", &state].into_iter().chain(first_use).collect();
        self.cluster.verify_with(&self.cluster.store, &more).await
    }

    async fn gauge(&self, name: &str) -> Option<f64> {
        let url = format!("{}/metrics", self.cluster.url(REPLICA));
        let text = self.http.get(url).send().await.ok()?.text().await.ok()?;
        let line = text.lines().find(|line| line.split(' ').next() == Some(name))?;
        line.rsplit(' ').next()?.parse().ok()
    }

    /// Files of the writer's folder whose names end so.
    fn files(&self, name: &str, suffix: &str) -> Vec<PathBuf> {
        files_under(&self.cluster.path("writer").join(name), suffix)
    }
}

/// A member of a small JSON file; `None` if there is no such file, or a pipe in its place.
fn member(path: &std::path::Path, name: &str) -> Option<Value> {
    let text = path.is_file().then(|| std::fs::read(path).ok()).flatten()?;
    serde_json::from_slice::<Value>(&text).ok().map(|file| file[name].clone())
}
