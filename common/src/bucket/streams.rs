//! The index of streams: numbered objects that name one stream each, so that a replica learns of
//! a new one by a single get and nobody needs to LIST.
//!
//! A hint like a listing: it says that a stream may exist. What the stream holds is believed by
//! its own log only.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::{AppendOutcome, CreateOnlyLog, Store, StoreError};
use crate::catalog::names::{is_stream_name, stream_index_key};

/// One entry.
#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    stream: String,
}

/// Followed by replicas, appended to by shippers.
#[derive(Clone, Debug)]
pub struct StreamIndex {
    log: CreateOnlyLog,
}

impl StreamIndex {
    /// The store's index.
    pub fn new(store: Store) -> Self {
        StreamIndex { log: CreateOnlyLog::new(store, "", |_, number| stream_index_key(number)) }
    }

    /// The streams named after entry `seen` (0 at first), which moves forward. One get when there
    /// is nothing new. An entry that names nothing (damaged, or from a newer version) is passed
    /// over: it must not hide the ones behind it. After an error, what was found before it comes
    /// again.
    pub async fn follow(&self, seen: &mut u64) -> Result<Vec<String>, StoreError> {
        let mut streams = Vec::new();
        let mut number = *seen;
        while let Some(bytes) = self.log.read(number + 1).await? {
            number += 1;
            match Self::stream_of(&bytes) {
                Some(stream) => streams.push(stream),
                None => tracing::warn!(object = self.log.key(number), "stream index entry skipped"),
            }
        }
        *seen = number;
        Ok(streams)
    }

    /// Makes sure that an entry names `stream`. Two entries for one stream would do no harm.
    pub async fn announce(&self, stream: &str) -> Result<(), StoreError> {
        let mut seen = 0;
        if self.follow(&mut seen).await?.iter().any(|known| known == stream) {
            return Ok(());
        }
        let entry = serde_json::to_vec(&Entry { stream: stream.to_owned() });
        let entry = Bytes::from(entry.unwrap_or_default());
        loop {
            seen += 1;
            match self.log.append(seen, &entry).await {
                AppendOutcome::Committed => return Ok(()),
                AppendOutcome::Taken(_) => {}
                AppendOutcome::Unknown(error) => return Err(error),
            }
        }
    }

    /// The stream that an entry names.
    pub fn stream_of(entry: &[u8]) -> Option<String> {
        let entry: Entry = serde_json::from_slice(entry).ok()?;
        is_stream_name(&entry.stream).then_some(entry.stream)
    }
}
