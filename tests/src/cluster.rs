//! Writer, shipper and replica: as `sealcast dev`, or each as its own process.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{Process, free_port, sealcast, until};

/// How the roles run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Roles {
    /// `sealcast dev`: one process.
    Dev,
    /// `sealcast-writer`, `sealcast-shipper`, `sealcast-replica`: three.
    Apart,
}

/// A running cluster in a temporary folder.
pub struct Cluster {
    /// Its folder: writer/, store/, replica/.
    pub dir: TempDir,
    /// The store's location.
    pub store: String,
    ports: [u16; 3],
    processes: Vec<Process>,
    roles: Roles,
    env: Vec<(String, String)>,
    http: reqwest::Client,
}

impl Cluster {
    /// Starts all roles on a local store.
    pub async fn start(roles: Roles) -> Self {
        let dir = tempfile::tempdir().expect("folder");
        let store = dir.path().join("store").display().to_string();
        Self::start_on(roles, dir, store, Vec::new()).await
    }

    /// Starts all roles on `store`.
    pub async fn start_on(
        roles: Roles,
        dir: TempDir,
        store: String,
        env: Vec<(String, String)>,
    ) -> Self {
        let ports = [free_port(), free_port(), free_port()];
        let http = reqwest::Client::new();
        let mut cluster = Cluster { dir, store, ports, processes: Vec::new(), roles, env, http };
        cluster.resume().await;
        cluster
    }

    /// Starts the roles again after [`Cluster::kill`] or [`Cluster::terminate`].
    pub async fn resume(&mut self) {
        self.start_processes();
        self.ready().await;
    }

    /// Starts the roles without waiting for them.
    pub fn start_processes(&mut self) {
        let dir = self.dir.path().display().to_string();
        let [writer, shipper, replica] = self.ports.map(|port| format!("127.0.0.1:{port}"));
        let (wdir, rdir) = (format!("{dir}/writer"), format!("{dir}/replica"));
        let hint = self.url(1);
        let env: Vec<(&str, &str)> =
            self.env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let mut start = |program: &str, args: &[&str]| {
            let log = self.dir.path().join(format!("{program}.log"));
            self.processes.push(Process::start(&sealcast(program), args, &log, &env));
        };
        match self.roles {
            Roles::Dev => start(
                "sealcast",
                &[
                    "dev",
                    "--no-auth",
                    "--dir",
                    &dir,
                    "--store",
                    &self.store,
                    "--writer-http",
                    &writer,
                    "--shipper-http",
                    &shipper,
                    "--replica-http",
                    &replica,
                ],
            ),
            Roles::Apart => {
                start("sealcast-writer", &["--dir", &wdir, "--http", &writer]);
                start(
                    "sealcast-shipper",
                    &["--dir", &wdir, "--store", &self.store, "--http", &shipper],
                );
                start(
                    "sealcast-replica",
                    &[
                        "--dir",
                        &rdir,
                        "--store",
                        &self.store,
                        "--http",
                        &replica,
                        "--shipper",
                        &hint,
                    ],
                );
            }
        }
    }

    /// Waits until all three answer `/readyz` with 200.
    pub async fn ready(&self) {
        for role in 0..3 {
            let url = format!("{}/readyz", self.url(role));
            let ready = || async {
                self.http.get(&url).send().await.ok()?.status().is_success().then_some(())
            };
            let waited =
                tokio::time::timeout(std::time::Duration::from_secs(60), until(&url, ready));
            if waited.await.is_err() {
                panic!("{url} not ready\n{}", self.logs());
            }
        }
    }

    /// Base URL: 0 writer, 1 shipper, 2 replica.
    pub fn url(&self, role: usize) -> String {
        format!("http://127.0.0.1:{}", self.ports[role])
    }

    /// A path in the cluster's folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// SIGKILL to every process.
    pub fn kill(&mut self) {
        self.processes.drain(..).for_each(Process::kill);
    }

    /// SIGTERM to every process, in order; all must end with 0.
    pub async fn terminate(&mut self) {
        for process in self.processes.drain(..) {
            let status = process.terminate().await;
            assert!(status.success(), "{status}");
        }
    }

    /// Everything that the processes printed.
    pub fn logs(&self) -> String {
        self.processes.iter().map(Process::output).collect()
    }

    /// Posts NDJSON events.
    pub async fn post(&self, ndjson: String) -> reqwest::Response {
        let request = self.http.post(format!("{}/v1/events", self.url(0)));
        let request = request.header("content-type", "application/x-ndjson").body(ndjson);
        request.send().await.expect("writer")
    }

    /// Flushes and waits for the shipper; answers the token.
    pub async fn flush(&self) -> String {
        let url = format!("{}/v1/admin/flush?wait=shipped", self.url(0));
        let answer = self.http.post(url).send().await.expect("writer");
        let status = answer.status();
        let answer: Value = answer.json().await.expect("json");
        assert!(status.is_success(), "{answer}");
        answer["token"].as_str().expect("token").to_owned()
    }

    /// Runs SQL at `min`, answers status and document.
    pub async fn sql_at(&self, sql: &str, min: Option<&str>) -> (u16, Value) {
        let mut body = json!({ "sql": sql });
        if let Some(token) = min {
            body["min"] = json!(token);
            body["wait_ms"] = json!(30_000);
        }
        let url = format!("{}/v1/sql", self.url(2));
        let answer = self.http.post(url).json(&body).send().await.expect("replica");
        (answer.status().as_u16(), answer.json().await.expect("json"))
    }

    /// Rows of a statement that must succeed.
    pub async fn rows(&self, sql: &str, min: Option<&str>) -> Vec<Value> {
        let (status, document) = self.sql_at(sql, min).await;
        assert_eq!(status, 200, "{sql}: {document}");
        document["rows"].as_array().expect("rows").clone()
    }

    /// `count(*)` of events.
    pub async fn count(&self, min: Option<&str>) -> u64 {
        self.rows("select count(*) from events", min).await[0][0].as_u64().expect("count")
    }

    /// Every file under `name` whose name ends in `suffix`.
    pub fn files(&self, name: &str, suffix: &str) -> Vec<PathBuf> {
        let mut found = Vec::new();
        collect(&self.path(name), suffix, &mut found);
        found.sort();
        found
    }
}

fn collect(folder: &Path, suffix: &str, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, suffix, found);
        } else if path.to_string_lossy().ends_with(suffix) {
            found.push(path);
        }
    }
}
