//! A create-only log of numbered objects: knows nothing of what they mean.
//!
//! The only primitive is "put if absent". After any outcome but a clean success the object is read
//! back: the same bytes (they hold a nonce) are ours, other bytes are somebody else's, none means
//! try the same bytes again, an unreadable object means unknown: keep everything and ask again.

use bytes::Bytes;

use super::{Created, Store, StoreError};

/// Rounds of create and read; the second and later ones cost a retry of the store's budget each.
const ATTEMPTS: u32 = 4;

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
    careful: bool,
}

impl CreateOnlyLog {
    /// A log named `name`.
    pub fn new(store: Store, name: &str, key_of: fn(&str, u64) -> String) -> Self {
        CreateOnlyLog { store, key_of, name: name.to_owned(), careful: false }
    }

    /// For a store whose creates may replace: looks before every append, and reads back after it.
    /// That finds what another has put before or since, not what he puts in between.
    #[must_use]
    pub fn careful(self) -> Self {
        CreateOnlyLog { careful: true, ..self }
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
        let mut last = None;
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                let Some(pause) = self.store.retry.pause(attempt) else { break };
                tokio::time::sleep(pause).await;
            }
            match self.attempt(seq, bytes).await {
                Ok(Some(outcome)) => return outcome,
                Ok(None) => {}
                Err(error) => last = Some(error),
            }
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

    /// One create, judged by what stands there afterwards; `None` if nothing does.
    async fn attempt(&self, seq: u64, bytes: &Bytes) -> Result<Option<AppendOutcome>, StoreError> {
        if self.careful
            && let Some(found) = self.read(seq).await?
        {
            return Ok(Some(judged(found, bytes)));
        }
        let created = self.store.create(&self.key(seq), bytes.clone()).await;
        if matches!(created, Ok(Created::New)) && !self.careful {
            return Ok(Some(AppendOutcome::Committed));
        }
        let found = self.read(seq).await?;
        match (found, created) {
            (Some(found), _) => Ok(Some(judged(found, bytes))),
            (None, Err(error)) => Err(error),
            (None, Ok(_)) => Ok(None),
        }
    }
}

fn judged(found: Bytes, ours: &Bytes) -> AppendOutcome {
    if found == *ours { AppendOutcome::Committed } else { AppendOutcome::Taken(found) }
}
