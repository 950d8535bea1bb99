//! A create-only log of numbered objects: knows nothing of what they mean.
//!
//! The only primitive is "put if absent". After any outcome but a clean success the object is read
//! back: the same bytes (they hold a nonce) are ours, other bytes are somebody else's, none means
//! try the same bytes again, an unreadable object means unknown: keep everything and ask again.

use std::time::Duration;

use bytes::Bytes;

use super::{Created, Store, StoreError};

const ATTEMPTS: u32 = 5;

/// How an append ended.
#[derive(Debug)]
pub enum AppendOutcome {
    /// Our bytes stand under the key.
    Committed,
    /// Other bytes stand there.
    Taken(Bytes),
    /// Not known: the caller keeps everything and appends the same bytes again later.
    Unknown(StoreError),
}

/// The log whose entry `n` has the key that `key_of(n)` gives.
#[derive(Clone, Debug)]
pub struct CreateOnlyLog {
    store: Store,
    key_of: fn(&str, u64) -> String,
    name: String,
}

impl CreateOnlyLog {
    /// A log named `name`.
    pub fn new(store: Store, name: &str, key_of: fn(&str, u64) -> String) -> Self {
        CreateOnlyLog { store, key_of, name: name.to_owned() }
    }

    /// The key of entry `seq`.
    pub fn key(&self, seq: u64) -> String {
        (self.key_of)(&self.name, seq)
    }

    /// Entry `seq`; `None` means that nothing newer was there when the store answered.
    pub async fn read(&self, seq: u64) -> Result<Option<Bytes>, StoreError> {
        self.store.get(&self.key(seq)).await
    }

    /// Appends `bytes`, which must hold a nonce of this attempt, as entry `seq`.
    pub async fn append(&self, seq: u64, bytes: &Bytes) -> AppendOutcome {
        let mut delay = Duration::from_millis(50);
        let mut last = None;
        for _ in 0..ATTEMPTS {
            match self.store.create(&self.key(seq), bytes.clone()).await {
                Ok(Created::New) => return AppendOutcome::Committed,
                Ok(Created::Exists) => {}
                Err(error) => last = Some(error),
            }
            match self.read(seq).await {
                Ok(Some(found)) if found == *bytes => return AppendOutcome::Committed,
                Ok(Some(found)) => return AppendOutcome::Taken(found),
                Ok(None) => {}
                Err(error) => last = Some(error),
            }
            tokio::time::sleep(delay).await;
            delay *= 2;
        }
        AppendOutcome::Unknown(last.unwrap_or_else(|| StoreError::Operation {
            operation: "create",
            key: self.key(seq),
            source: object_store::Error::Generic {
                store: "sealcast",
                source: "the store says that the object exists, and does not show it".into(),
            },
        }))
    }
}
