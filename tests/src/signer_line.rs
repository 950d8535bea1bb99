//! The line between a writer and `sealcast signer`: requests and answers are held back on order.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sealcast_faults::When;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinHandle;

use crate::Latch;

#[derive(Default)]
struct Inner {
    latch: Latch,
    state: Mutex<Line>,
}

#[derive(Default)]
struct Line {
    hold: Option<When>,
    /// What was held is not delivered.
    cut: bool,
    answers: Vec<String>,
}

/// A socket in front of a signer's; it ends when dropped.
pub struct SignerLine {
    inner: Arc<Inner>,
    accepting: JoinHandle<()>,
}

impl Drop for SignerLine {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, Line> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits if requests (or answers) are held; whether to go on.
    async fn pass(&self, when: When) -> bool {
        if self.state().hold != Some(when) {
            return true;
        }
        self.latch.pass().await;
        !self.state().cut
    }

    async fn carry(&self, client: UnixStream, target: &Path) -> io::Result<()> {
        let mut client = BufReader::new(client);
        let mut request = String::new();
        client.read_line(&mut request).await?;
        let signs = request.contains(r#""op":"sign""#);
        if signs && !self.pass(When::Before).await {
            return Ok(());
        }
        let mut signer = BufReader::new(UnixStream::connect(target).await?);
        signer.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        signer.read_line(&mut answer).await?;
        self.state().answers.push(answer.clone());
        if signs && !self.pass(When::After).await {
            return Ok(());
        }
        client.write_all(answer.as_bytes()).await
    }
}

impl SignerLine {
    /// Listens on `socket` and asks the signer behind `target`.
    pub fn start(socket: &Path, target: PathBuf) -> Self {
        let listener = UnixListener::bind(socket).expect("socket");
        let inner = Arc::new(Inner::default());
        let shared = Arc::clone(&inner);
        let accepting = tokio::spawn(async move {
            let mut open = tokio::task::JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                while open.try_join_next().is_some() {}
                let (inner, target) = (Arc::clone(&shared), target.clone());
                // Who is not answered, for whatever reason, asks again.
                open.spawn(async move { inner.carry(client, &target).await.ok() });
            }
        });
        SignerLine { inner, accepting }
    }

    /// From here on requests to sign, or the answers to them, are held.
    pub fn hold(&self, when: When) {
        self.inner.latch.close();
        let mut state = self.inner.state();
        (state.hold, state.cut) = (Some(when), false);
    }

    /// Returns once one is held.
    pub async fn reached(&self, what: &str) {
        self.inner.latch.reached(what).await;
    }

    /// Nothing is held any more; what was held is delivered.
    pub fn let_go(&self) {
        self.inner.state().hold = None;
        self.inner.latch.open();
    }

    /// Nothing is held any more; what was held is lost.
    pub fn cut(&self) {
        self.inner.state().cut = true;
        self.let_go();
    }

    /// What the signer has answered so far, delivered or not.
    pub fn answers(&self) -> Vec<String> {
        self.inner.state().answers.clone()
    }
}
