//! Writer, shipper and replica: as `sealcast dev`, or each as its own process.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{Process, files_under, free_port, run_with, sealcast, until};

/// How the roles run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Roles {
    /// `sealcast dev`: one process.
    Dev,
    /// `sealcast-writer`, `sealcast-shipper`, `sealcast-replica`: three.
    Apart,
}

/// The writer among a cluster's roles; the process itself under [`Roles::Dev`].
pub const WRITER: usize = 0;
/// The shipper.
pub const SHIPPER: usize = 1;
/// The replica.
pub const REPLICA: usize = 2;

/// A running cluster in a temporary folder.
pub struct Cluster {
    /// Its folder: writer/, store/, replica/.
    pub dir: TempDir,
    /// The store's location.
    pub store: String,
    ports: [u16; 3],
    processes: [Option<Process>; 3],
    roles: Roles,
    env: Vec<(String, String)>,
    http: reqwest::Client,
}

impl Cluster {
    /// Starts all roles on a local store.
    pub async fn start(roles: Roles) -> Self {
        Self::start_with(roles, &[]).await
    }

    /// Starts all roles on a local store, with more in their environment.
    pub async fn start_with(roles: Roles, env: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().expect("folder");
        let store = dir.path().join("store").display().to_string();
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Self::start_on(roles, dir, store, env.collect()).await
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
        let processes = [None, None, None];
        let mut cluster = Cluster { dir, store, ports, processes, roles, env, http };
        cluster.resume().await;
        cluster
    }

    /// The same roles and settings on a copy of the folder, not started, with ports of their own.
    pub fn parked_at(&self, dir: TempDir) -> Self {
        Cluster {
            store: dir.path().join("store").display().to_string(),
            dir,
            ports: [free_port(), free_port(), free_port()],
            processes: [None, None, None],
            roles: self.roles,
            env: self.env.clone(),
            http: self.http.clone(),
        }
    }

    /// Starts the roles again after [`Cluster::kill`] or [`Cluster::terminate`].
    pub async fn resume(&mut self) {
        self.start_processes();
        self.ready().await;
    }

    /// Starts the roles without waiting for them.
    pub fn start_processes(&mut self) {
        let programs = if self.roles == Roles::Dev { 1 } else { 3 };
        (0..programs).for_each(|role| self.start_role(role));
    }

    /// Starts one role's process without waiting for it.
    pub fn start_role(&mut self, role: usize) {
        let (program, args) = self.command(role);
        let log = self.path(&format!("{program}.log"));
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let process = Process::start(&sealcast(program), &args, &log, &self.env());
        self.processes[role] = Some(process);
    }

    /// The program of a role and its arguments.
    pub fn command(&self, role: usize) -> (&'static str, Vec<String>) {
        let path = |name: &str| self.path(name).display().to_string();
        let http = |role: usize| format!("127.0.0.1:{}", self.ports[role]);
        let (program, args) = match (self.roles, role) {
            (Roles::Dev, _) => (
                "sealcast",
                vec![
                    "dev".to_owned(),
                    "--no-auth".to_owned(),
                    format!("--dir={}", self.dir.path().display()),
                    format!("--store={}", self.store),
                    format!("--writer-http={}", http(WRITER)),
                    format!("--shipper-http={}", http(SHIPPER)),
                    format!("--replica-http={}", http(REPLICA)),
                    "--flight=none".to_owned(),
                    "--postgres=none".to_owned(),
                ],
            ),
            (Roles::Apart, WRITER) => {
                ("sealcast-writer", vec![format!("--dir={}", path("writer"))])
            }
            (Roles::Apart, SHIPPER) => (
                "sealcast-shipper",
                vec![format!("--dir={}", path("writer")), format!("--store={}", self.store)],
            ),
            (Roles::Apart, _) => (
                "sealcast-replica",
                vec![
                    format!("--dir={}", path("replica")),
                    format!("--store={}", self.store),
                    format!("--shipper={}", self.url(SHIPPER)),
                ],
            ),
        };
        let address = (self.roles == Roles::Apart).then(|| format!("--http={}", http(role)));
        (program, args.into_iter().chain(address).collect())
    }

    /// What the processes have in their environment beside the test's own.
    pub fn env(&self) -> Vec<(&str, &str)> {
        self.env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }

    /// Waits until all three answer `/readyz` with 200.
    pub async fn ready(&self) {
        for role in [WRITER, SHIPPER, REPLICA] {
            self.ready_role(role).await;
        }
    }

    /// Waits until one role answers `/readyz` with 200.
    pub async fn ready_role(&self, role: usize) {
        let url = format!("{}/readyz", self.url(role));
        let ready =
            || async { self.http.get(&url).send().await.ok()?.status().is_success().then_some(()) };
        // Before `until` gives up, which knows no logs.
        let waited = tokio::time::timeout(Duration::from_secs(55), until(&url, ready));
        if waited.await.is_err() {
            panic!("{url} not ready\n{}", self.logs());
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

    /// A role's process.
    pub fn process(&mut self, role: usize) -> &mut Process {
        self.processes[role].as_mut().unwrap_or_else(|| panic!("role {role} does not run"))
    }

    /// Everything that a role's process printed.
    pub fn output(&self, role: usize) -> String {
        self.processes[role].as_ref().map(Process::output).unwrap_or_default()
    }

    /// SIGKILL to one process.
    pub fn kill_role(&mut self, role: usize) {
        self.processes[role].take().into_iter().for_each(Process::kill);
    }

    /// SIGKILL to every process.
    pub fn kill(&mut self) {
        [WRITER, SHIPPER, REPLICA].into_iter().for_each(|role| self.kill_role(role));
    }

    /// SIGTERM to every process, in order; all must end with 0.
    pub async fn terminate(&mut self) {
        for process in self.processes.iter_mut().filter_map(Option::take) {
            let status = process.terminate().await;
            assert!(status.success(), "{status}");
        }
    }

    /// Everything that the processes printed.
    pub fn logs(&self) -> String {
        self.processes.iter().flatten().map(Process::output).collect()
    }

    /// Posts NDJSON events.
    pub async fn post(&self, ndjson: String) -> reqwest::Response {
        let request = self.http.post(format!("{}/v1/events", self.url(WRITER)));
        let request = request.header("content-type", "application/x-ndjson").body(ndjson);
        request.send().await.expect("writer")
    }

    /// Flushes and waits for the shipper; answers the token.
    pub async fn flush(&self) -> String {
        let url = format!("{}/v1/admin/flush?wait=shipped", self.url(WRITER));
        let answer = self.http.post(url).send().await.expect("writer");
        let status = answer.status();
        let answer: Value = answer.json().await.expect("json");
        assert!(status.is_success(), "{answer}\n{}", self.logs());
        answer["token"].as_str().expect("token").to_owned()
    }

    /// A JSON document from one of a role's routes.
    pub async fn get(&self, role: usize, path: &str) -> Value {
        let answer = self.http.get(format!("{}{path}", self.url(role))).send().await;
        answer.expect("answer").json().await.expect("json")
    }

    /// Runs SQL at `min`, answers status and document.
    pub async fn sql_at(&self, sql: &str, min: Option<&str>) -> (u16, Value) {
        let mut body = json!({ "sql": sql });
        if let Some(token) = min {
            body["min"] = json!(token);
            body["wait_ms"] = json!(30_000);
        }
        let url = format!("{}/v1/sql", self.url(REPLICA));
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

    /// `sealcast verify` of `targets`: exit code and report of each.
    pub async fn verify(&self, target: &str) -> (Option<i32>, Value) {
        self.verify_with(target, &[]).await
    }

    /// The same with more arguments.
    pub async fn verify_with(&self, target: &str, more: &[&str]) -> (Option<i32>, Value) {
        let args = [&["verify", target, "--json", "--no-evidence"], more].concat();
        let verified = run_with(&sealcast("sealcast"), &args, &self.env()).await;
        let text = String::from_utf8_lossy(&verified.stdout);
        let report = serde_json::from_str(&text);
        let report = report.unwrap_or_else(|error| panic!("{target}: {error}: {text}"));
        (verified.status.code(), report)
    }

    /// Every file under `name` whose name ends in `suffix`.
    pub fn files(&self, name: &str, suffix: &str) -> Vec<PathBuf> {
        files_under(&self.path(name), suffix)
    }
}
