//! Single flight: whoever wants an object that is being fetched already waits for that answer.
//!
//! Objects keep their content, so an answer that began before the question is as good as a new
//! one, except "absent": that one is asked for again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use bytes::Bytes;
use tokio::sync::OnceCell;

use super::StoreError;

/// How a flight ended, for those who came along.
#[derive(Clone, Debug)]
enum Landed {
    Found(Bytes),
    Absent,
    Failed(String),
}

type Cell = OnceCell<Landed>;

/// Keys on their way.
#[derive(Debug, Default)]
pub(super) struct Flights {
    running: Mutex<HashMap<String, Weak<Cell>>>,
}

impl Flights {
    fn running(&self) -> MutexGuard<'_, HashMap<String, Weak<Cell>>> {
        match self.running.lock() {
            Ok(guard) => guard,
            Err(poisoned) => poisoned.into_inner(),
        }
    }

    fn board(&self, key: &str) -> Arc<Cell> {
        let mut running = self.running();
        if let Some(cell) = running.get(key).and_then(Weak::upgrade) {
            return cell;
        }
        // What was given up half-way leaves its name behind.
        running.retain(|_, cell| cell.strong_count() > 0);
        let cell = Arc::new(Cell::new());
        running.insert(key.to_owned(), Arc::downgrade(&cell));
        cell
    }

    /// The answer of `fetch`, or of a running flight for the same key.
    pub(super) async fn join<F>(
        &self,
        key: &str,
        fetch: impl Fn() -> F,
    ) -> Result<Option<Bytes>, StoreError>
    where
        F: Future<Output = Result<Option<Bytes>, StoreError>>,
    {
        let cell = self.board(key);
        let mut own = None;
        let landed = cell.get_or_init(async || {
            let answer = fetch().await;
            let landed = match &answer {
                Ok(Some(bytes)) => Landed::Found(bytes.clone()),
                Ok(None) => Landed::Absent,
                Err(error) => Landed::Failed(error.to_string()),
            };
            own = Some(answer);
            self.running().remove(key);
            landed
        });
        let landed = landed.await.clone();
        if let Some(answer) = own {
            return answer;
        }
        match landed {
            Landed::Found(bytes) => Ok(Some(bytes)),
            Landed::Absent => fetch().await,
            Landed::Failed(reason) => {
                let source = object_store::Error::Generic { store: "store", source: reason.into() };
                Err(super::failure("get", key)(source))
            }
        }
    }
}
