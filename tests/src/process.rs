//! One child process with its output kept; killed by its pid when dropped.

use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::{sealcast, until};

/// A running program.
pub struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `program`, output appended to `log`.
    pub fn start(program: &Path, args: &[&str], log: &Path, env: &[(&str, &str)]) -> Self {
        let out = File::options().create(true).append(true).open(log).expect("log");
        let err = out.try_clone().expect("log");
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::null()).stdout(out).stderr(err);
        command.envs(env.iter().copied());
        let child = command.spawn().unwrap_or_else(|e| panic!("{}: {e}", program.display()));
        Process { child, log: log.to_owned() }
    }

    /// Everything printed so far.
    pub fn output(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// SIGKILL, at once.
    pub fn kill(mut self) {
        self.child.kill().expect("kill");
        self.child.wait().expect("wait");
    }

    /// Any signal by name, such as `STOP` and `CONT`.
    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([&format!("-{name}"), &pid]).status();
        assert!(sent.expect("kill").success(), "SIG{name} to {pid}");
    }

    /// SIGTERM, then the exit status.
    pub async fn terminate(mut self) -> ExitStatus {
        self.signal("TERM");
        self.ended().await
    }

    /// Waits for the end.
    pub async fn ended(&mut self) -> ExitStatus {
        let child = std::sync::Mutex::new(&mut self.child);
        until("process ends", || async { child.lock().expect("child").try_wait().expect("wait") })
            .await
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("wait").is_none()
    }

    /// Anonymous memory in use, bytes: mapped segments are the page cache's and not counted.
    pub fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
        kib.map_or(0, |kib| kib * 1024)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail if it has ended already, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a program to its end.
pub async fn run(program: &Path, args: &[&str]) -> Output {
    run_with(program, args, &[]).await
}

/// Runs a program to its end with more in its environment.
pub async fn run_with(program: &Path, args: &[&str], env: &[(&str, &str)]) -> Output {
    let mut command = tokio::process::Command::new(program);
    command.args(args).envs(env.iter().copied()).stdin(Stdio::null()).kill_on_drop(true);
    command.output().await.unwrap_or_else(|error| panic!("{}: {error}", program.display()))
}

/// Exit code of `sealcast` with these arguments, and all that it printed.
pub async fn said(args: &[&str]) -> (Option<i32>, String) {
    said_with(args, &[]).await
}

/// The same with more in its environment.
pub async fn said_with(args: &[&str], env: &[(&str, &str)]) -> (Option<i32>, String) {
    let output = run_with(&sealcast("sealcast"), args, env).await;
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).trim().to_owned())
}

/// A port that was free a moment ago, and that no outgoing connection takes meanwhile: systems take
/// those from 32768 on. Another test's process begins elsewhere.
pub fn free_port() -> u16 {
    static ASKED: AtomicU32 = AtomicU32::new(0);
    const FIRST: u32 = 20_000;
    const COUNT: u32 = 12_000;
    let start = std::process::id().wrapping_mul(97);
    let mut ports = (0..COUNT).map(|_| {
        let nth = start.wrapping_add(ASKED.fetch_add(1, Ordering::Relaxed));
        (FIRST + nth % COUNT) as u16
    });
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    ports.find(is_free).expect("a free port")
}
