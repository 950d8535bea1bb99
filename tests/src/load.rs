//! Constant load from several clients, all of it kept by one [`Checker`].

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::checker::deliver;
use crate::{Checker, Cluster, WRITER};

/// Clients that send until they are told to stop.
pub struct Load {
    checker: Arc<Mutex<Checker>>,
    stop: CancellationToken,
    clients: TaskTracker,
}

/// Events in one request.
const BATCH: u64 = 8;

/// A client's pause between two requests: the load is constant, not as much as possible.
const PAUSE: Duration = Duration::from_millis(20);

impl Load {
    /// Starts `clients` on the cluster's writer, going on from what `checker` knows.
    pub fn start(cluster: &Cluster, checker: Checker, clients: u64, seed: u64) -> Self {
        let load = Load {
            checker: Arc::new(Mutex::new(checker)),
            stop: CancellationToken::new(),
            clients: TaskTracker::new(),
        };
        for client in 0..clients {
            let (checker, stop) = (Arc::clone(&load.checker), load.stop.clone());
            load.clients.spawn(send(checker, stop, cluster.url(WRITER), seed + client));
        }
        load
    }

    /// Acknowledged events so far.
    pub async fn count(&self) -> usize {
        self.checker.lock().await.count()
    }

    /// Keeps the writer's roots of now.
    pub async fn keep_checkpoints(&self, cluster: &Cluster) {
        let mut kept = Checker::default();
        kept.keep_checkpoints(&cluster.url(WRITER)).await;
        self.checker.lock().await.take_checkpoints(kept);
    }

    /// Lets every client end its batch, and gives the book back.
    pub async fn stop(self) -> Checker {
        self.stop.cancel();
        self.clients.close();
        self.clients.wait().await;
        let mut checker = self.checker.lock().await;
        std::mem::take(&mut *checker)
    }
}

async fn send(checker: Arc<Mutex<Checker>>, stop: CancellationToken, writer: String, seed: u64) {
    let http = reqwest::Client::new();
    while !stop.is_cancelled() {
        let batch = checker.lock().await.batch(seed, BATCH);
        let answer = deliver(&http, &writer, &batch).await;
        checker.lock().await.acknowledged(&answer);
        tokio::time::sleep(PAUSE).await;
    }
}
