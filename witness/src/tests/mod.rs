//! The witness through what its users touch: HTTP, its folder, how it starts.

mod folder;
mod protocol;

use std::path::Path;

use sealcast_common::integrity::{
    AddCheckpoint, Checkpoint, CompactRange, Hash, LocalSigner, Note, Signer as _, VerifyKey,
    consistency_runs, leaf_hash,
};
use tokio_util::sync::CancellationToken;

use crate::{Config, Handle, Seams, StartError, start};

const ORIGIN: &str = "example.com/log";

/// A log with a leaf per number.
#[derive(Clone, Debug)]
struct Log {
    origin: String,
    seed: [u8; 32],
    /// Changes every leaf: another history.
    salt: u64,
}

impl Log {
    fn new() -> Self {
        Log { origin: ORIGIN.into(), seed: [7; 32], salt: 0 }
    }

    fn signer(&self) -> LocalSigner {
        LocalSigner::from_seed(&self.origin, &self.seed)
    }

    fn key(&self) -> VerifyKey {
        VerifyKey { name: self.origin.clone(), public_key: self.signer().public_key() }
    }

    fn root_of(&self, begin: u64, end: u64) -> Hash {
        // RFC 6962 §2.1 of a run that begins where a tree may: as if it were a tree of its own.
        let mut range = CompactRange::empty(0);
        for leaf in begin..end {
            range.append(leaf_hash(&(leaf + (self.salt << 32)).to_be_bytes()));
        }
        range.root().unwrap()
    }

    fn checkpoint(&self, size: u64) -> Checkpoint {
        Checkpoint { origin: self.origin.clone(), size, root: self.root_of(0, size) }
    }

    fn note(&self, size: u64) -> Note {
        Note::sign(self.checkpoint(size).to_text(), &self.signer()).unwrap()
    }

    fn proof(&self, old: u64, new: u64) -> Vec<Hash> {
        consistency_runs(old, new).into_iter().map(|(a, b)| self.root_of(a, b)).collect()
    }

    fn request(&self, old: u64, new: u64) -> AddCheckpoint {
        let checkpoint = self.note(new).to_text();
        AddCheckpoint { old, proof: self.proof(old, new), checkpoint }
    }
}

fn config(folder: &Path, logs: &[&Log]) -> Config {
    Config {
        data: folder.to_owned(),
        http: "127.0.0.1:0".into(),
        name: Some("witness.example/w1".into()),
        known_log: logs.iter().map(|log| log.key().to_text()).collect(),
        ..Config::default()
    }
}

/// A running witness and a client of it.
struct Running {
    handle: Handle,
    stop: CancellationToken,
    http: reqwest::Client,
}

impl Running {
    async fn start(config: Config, seams: Seams) -> Result<Self, StartError> {
        let stop = CancellationToken::new();
        let handle = start(config, seams, stop.clone()).await?;
        Ok(Running { handle, stop, http: reqwest::Client::new() })
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.handle.http)
    }

    /// Status, content type, body.
    async fn post(&self, body: impl Into<reqwest::Body>) -> (u16, String, String) {
        let sent = self.http.post(self.url("add-checkpoint")).body(body).send().await.unwrap();
        let status = sent.status().as_u16();
        let kind = sent.headers()["content-type"].to_str().unwrap().to_owned();
        (status, kind, sent.text().await.unwrap())
    }

    async fn status(&self, request: &AddCheckpoint) -> u16 {
        self.post(request.to_text()).await.0
    }

    async fn get(&self, path: &str) -> (u16, String) {
        let got = self.http.get(self.url(path)).send().await.unwrap();
        (got.status().as_u16(), got.text().await.unwrap())
    }

    async fn stop(self) {
        self.stop.cancel();
        self.handle.join().await.unwrap();
    }
}

async fn running(folder: &Path, logs: &[&Log]) -> Running {
    Running::start(config(folder, logs), Seams::default()).await.unwrap()
}
