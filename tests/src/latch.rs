//! A place where somebody is kept until he is let go.

use tokio::sync::watch;

use crate::PATIENCE;

/// Open at first.
#[derive(Debug)]
pub struct Latch {
    open: watch::Sender<bool>,
    waiting: watch::Sender<usize>,
}

impl Default for Latch {
    fn default() -> Self {
        Latch { open: watch::Sender::new(true), waiting: watch::Sender::new(0) }
    }
}

impl Latch {
    /// From here on nobody passes.
    pub fn close(&self) {
        self.waiting.send_replace(0);
        self.open.send_replace(false);
    }

    /// Everybody passes.
    pub fn open(&self) {
        self.open.send_replace(true);
    }

    /// Returns once it is open.
    pub async fn pass(&self) {
        let mut open = self.open.subscribe();
        if !*open.borrow_and_update() {
            self.waiting.send_modify(|waiting| *waiting += 1);
            open.wait_for(|open| *open).await.expect("open or closed");
        }
    }

    /// Returns once somebody waits here.
    pub async fn reached(&self, what: &str) {
        let mut waiting = self.waiting.subscribe();
        let waited = tokio::time::timeout(PATIENCE, waiting.wait_for(|waiting| *waiting > 0));
        assert!(waited.await.is_ok(), "never reached: {what}");
    }
}
