//! The active tail: the unsealed end of a shard, as a log file and as rows in memory.
//!
//! Nothing outside the writer reads it. [`ActiveTail::close`] consumes it: what is sealed can take
//! no more rows, by construction.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use sealcast_common::clock::Micros;
use sealcast_common::durable::AppendFile;
use sealcast_common::integrity::{CompactRange, Hash};
use sealcast_common::routing::FIRST_ROUTING_VERSION;
use sealcast_common::segment::{RequestEntry, Row, SealRequest};
use sealcast_common::wal::{HEADER_BYTES, WalHeader};

use crate::config::Fsync;
use crate::context::ShardContext;
use crate::sealer::{SealError, SealedFile, seal_rows};
use crate::stage::Batch;

/// The unsealed rows `[start, end)` of one shard.
#[derive(Debug)]
pub(crate) struct ActiveTail {
    file: Box<dyn AppendFile>,
    path: PathBuf,
    bytes: u64,
    rows: Vec<Row>,
    requests: Vec<RequestEntry>,
    /// The tree `[0, start)`.
    frontier: CompactRange,
    /// The rows' own range: what the sealed file must give again.
    range: CompactRange,
    /// Ingest time of the last row before these.
    ingest_before: Micros,
    /// Monotonic time of the oldest row.
    oldest_row: Option<Duration>,
}

/// What recovery found in a log file.
#[derive(Debug)]
pub(crate) struct TailContents {
    pub(crate) rows: Vec<Row>,
    pub(crate) requests: Vec<RequestEntry>,
    pub(crate) range: CompactRange,
    /// Length of the good part of the file.
    pub(crate) bytes: u64,
}

/// What was acknowledged of a tail whose file has failed: all that is kept of it in memory, to
/// judge by it what the disk holds.
#[derive(Debug)]
pub(crate) struct Acknowledged {
    pub(crate) path: PathBuf,
    /// Length of the acknowledged part of the file.
    pub(crate) bytes: u64,
    pub(crate) frontier: CompactRange,
    pub(crate) range: CompactRange,
    pub(crate) ingest_before: Micros,
    /// A sync has failed: the kernel may have dropped what was written, so nothing that is read
    /// counts as durable before it lies in other blocks.
    pub(crate) rewrite: bool,
}

/// Rows that take no more company, on their way into a segment. They stay in memory and in their
/// log until the segment is published, so that a seal can be made again.
#[derive(Debug)]
pub(crate) struct ClosedTail {
    path: PathBuf,
    rows: Vec<Row>,
    request: SealRequest,
}

impl ClosedTail {
    /// The rows of a whole log file.
    pub(crate) fn new(
        ctx: &ShardContext,
        path: PathBuf,
        frontier: CompactRange,
        contents: TailContents,
    ) -> Self {
        let request = SealRequest {
            origin: ctx.origin.clone(),
            shard: ctx.shard,
            frontier,
            range: contents.range,
            routing_version: FIRST_ROUTING_VERSION,
            // Of the rows, not of the try: the same seal twice is the same file.
            sealed_at: ctx.clock.now(),
            requests: contents.requests,
        };
        ClosedTail { path, rows: contents.rows, request }
    }

    /// Seals the rows, then removes the log file.
    pub(crate) fn seal(&self, ctx: &ShardContext) -> Result<SealedFile, SealError> {
        let sealed = seal_rows(&self.rows, &self.request, ctx)?;
        // A log that outlives its seal is harmless: the next start compares and removes it.
        if let Err(error) = ctx.files.remove(&self.path) {
            tracing::warn!(shard = ctx.shard, %error, "sealed log not removed");
        }
        Ok(sealed)
    }
}

impl ActiveTail {
    /// A new log file after the leaves of `frontier`. The file appears whole, with its header, so
    /// that a shorter one is never a leftover of a crash.
    pub(crate) fn create(
        ctx: &ShardContext,
        frontier: CompactRange,
        ingest_before: Micros,
    ) -> io::Result<Self> {
        let start = frontier.end();
        let header = WalHeader { shard: ctx.shard, start, log_id: ctx.log_id };
        let path = ctx.dir.wal_file(ctx.shard, start);
        ctx.files.replace(&path, &header.to_bytes())?;
        let range = CompactRange::empty(start);
        let (rows, requests, bytes) = (Vec::new(), Vec::new(), HEADER_BYTES as u64);
        let contents = TailContents { rows, requests, range, bytes };
        Self::open(ctx, frontier, contents, ingest_before)
    }

    /// Goes on with a log file that recovery has read; bytes after the good part are cut.
    pub(crate) fn open(
        ctx: &ShardContext,
        frontier: CompactRange,
        contents: TailContents,
        ingest_before: Micros,
    ) -> io::Result<Self> {
        let path = ctx.dir.wal_file(ctx.shard, frontier.end());
        let file = ctx.files.open_append(&path, contents.bytes)?;
        Ok(ActiveTail {
            file,
            path,
            bytes: contents.bytes,
            oldest_row: (!contents.rows.is_empty()).then(|| ctx.clock.monotonic()),
            rows: contents.rows,
            requests: contents.requests,
            frontier,
            range: contents.range,
            ingest_before,
        })
    }

    /// Appends a group and makes it durable; only then do rows and leaves count. After an error
    /// nobody knows what is on disk: the caller gives the tail up and never calls this again.
    pub(crate) fn append(&mut self, batch: Batch, ctx: &ShardContext) -> Result<(), AppendFailed> {
        self.file.append(&batch.frame).map_err(|error| AppendFailed {
            step: "append",
            error,
            rewrite: false,
        })?;
        if ctx.fsync == Fsync::Always {
            let before = ctx.clock.monotonic();
            self.file.sync().map_err(|error| AppendFailed {
                step: "sync",
                error,
                rewrite: true,
            })?;
            crate::metrics::synced(ctx.clock.monotonic().saturating_sub(before));
        }
        self.bytes += batch.frame.len() as u64;
        if !batch.rows.is_empty() {
            self.oldest_row.get_or_insert_with(|| ctx.clock.monotonic());
        }
        self.rows.extend(batch.rows);
        self.requests.extend(batch.requests);
        for leaf in batch.leaves {
            self.range.append(leaf);
        }
        Ok(())
    }

    /// Puts everything on stable storage, also where `fsync = "os"` has not done so yet.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        self.file.sync()
    }

    /// The next tail, empty, after this one.
    pub(crate) fn next(&self, ctx: &ShardContext) -> io::Result<Self> {
        ActiveTail::create(ctx, self.tree(), self.latest_ingest())
    }

    /// No more rows: what is left to do is a seal.
    pub(crate) fn close(self, ctx: &ShardContext) -> ClosedTail {
        let (rows, requests, range) = (self.rows, self.requests, self.range);
        let contents = TailContents { rows, requests, range, bytes: self.bytes };
        ClosedTail::new(ctx, self.path, self.frontier, contents)
    }

    /// Given up after a failure: rows and file are dropped.
    pub(crate) fn acknowledged(self, rewrite: bool) -> Acknowledged {
        Acknowledged {
            path: self.path,
            bytes: self.bytes,
            frontier: self.frontier,
            range: self.range,
            ingest_before: self.ingest_before,
            rewrite,
        }
    }

    /// One past the last durable leaf.
    pub(crate) fn end(&self) -> u64 {
        self.range.end()
    }

    /// Unsealed rows.
    pub(crate) fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Bytes of the log file.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Monotonic time of the oldest row.
    pub(crate) fn oldest_row(&self) -> Option<Duration> {
        self.oldest_row
    }

    /// No row may be older than this.
    pub(crate) fn latest_ingest(&self) -> Micros {
        self.rows.last().map_or(self.ingest_before, |row| row.ingested_at)
    }

    /// The whole tree `[0, end)`.
    pub(crate) fn tree(&self) -> CompactRange {
        let mut tree = self.frontier.clone();
        if let Err(error) = tree.merge(&self.range) {
            // Both ranges are built to touch; a tree that is cut short fails every later check.
            tracing::error!(%error, "tail does not follow its frontier");
        }
        tree
    }

    /// Root of the whole tree.
    pub(crate) fn root(&self) -> Hash {
        self.tree().root().unwrap_or_default()
    }
}

/// A group that did not become durable.
#[derive(Debug)]
pub(crate) struct AppendFailed {
    /// `append` or `sync`.
    pub(crate) step: &'static str,
    pub(crate) error: io::Error,
    /// [`Acknowledged::rewrite`].
    pub(crate) rewrite: bool,
}
