//! Starting a shard from what is on disk: cut a torn end, seal what was being sealed, refuse the
//! rest.
//!
//! Nothing acknowledged is ever cut: only the last log may have a torn end, only where
//! `wal::scan` proves that it can be one, and never below a signed size.

use std::io;
use std::path::{Path, PathBuf};

use sealcast_common::clock::Micros;
use sealcast_common::event::{decode_full, leaf_of};
use sealcast_common::fault::Corruption;
use sealcast_common::integrity::{Checkpoint, CompactRange, Hash, SignerError};
use sealcast_common::layout::parse_wal_name;
use sealcast_common::segment::{RequestEntry, Row};
use sealcast_common::wal::{self, HEADER_BYTES, WalScan};

use crate::context::ShardContext;
use crate::disk::{files_in, remove_leftovers};
use crate::sealed::{SealedChain, check_root};
use crate::sealer::SealError;
use crate::signed::{Discord, Signed};
use crate::tail::{Acknowledged, ActiveTail, ClosedTail, TailContents};
use crate::window::Window;

/// Why a shard does not start.
#[derive(Debug, thiserror::Error)]
pub enum RecoveryError {
    /// Bytes are not what was written; nothing was changed.
    #[error("{0}")]
    Corrupt(#[from] Corruption),
    /// A directory without `node.json` holds a shard's data.
    #[error("file {file} holds data, but the directory has no node.json")]
    Orphaned {
        /// Its path.
        file: String,
    },
    /// The folder is another copy than the one that was signed; nothing was changed.
    #[error("{finding}")]
    Signed {
        /// What was compared.
        finding: Corruption,
        /// In which way they differ.
        discord: Discord,
    },
    /// What was signed is not known.
    #[error("what was signed is not known: {0}")]
    Signer(#[from] SignerError),
    /// A log that was being sealed cannot be sealed now.
    #[error("log cannot be sealed: {0}")]
    Seal(#[from] SealError),
    /// The file system refused.
    #[error("file {file} cannot be used: {source}")]
    Io {
        /// Its path.
        file: String,
        /// The system's word.
        source: io::Error,
    },
}

impl RecoveryError {
    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        RecoveryError::Io { file: path.display().to_string(), source }
    }
}

/// A shard ready to take events.
#[derive(Debug)]
pub(crate) struct Recovered {
    pub(crate) tail: ActiveTail,
    pub(crate) window: Window,
    /// Leaves in sealed segments.
    pub(crate) sealed: u64,
}

/// A log file, read.
struct Log {
    path: PathBuf,
    start: u64,
    bytes: Vec<u8>,
    scan: WalScan,
}

/// A log whose rows lie in no segment yet.
struct Unsealed {
    log: Log,
    frontier: CompactRange,
    contents: TailContents,
    /// Ingest time of the last row before it.
    before: Micros,
}

/// Its rows, their leaves one by one.
struct Replayed {
    contents: TailContents,
    leaves: Vec<Hash>,
}

/// Recovers one shard. `fresh`: the directory has no identity yet, hence no data.
pub(crate) fn recover(ctx: &ShardContext, fresh: bool) -> Result<Recovered, RecoveryError> {
    for dir in [ctx.dir.wal_dir(ctx.shard), ctx.dir.sealed_dir(ctx.shard)] {
        let failed = |error| RecoveryError::io(&dir, error);
        ctx.files.create_dir(&dir).map_err(failed)?;
        remove_leftovers(&dir, &*ctx.files).map_err(failed)?;
        // A rename that a crash kept from being synced is seen here, and must last from here on.
        ctx.files.sync_dir(&dir).map_err(failed)?;
        dir.parent().map_or(Ok(()), |parent| ctx.files.sync_dir(parent)).map_err(failed)?;
    }
    let chain = SealedChain::read(ctx)?;
    let logs = read_logs(ctx)?;
    let signed = Signed::read(ctx)?;
    if fresh {
        signed.is_reached(0)?;
        return start_fresh(ctx, &chain, &logs);
    }
    signed.covers(&chain)?;
    logs.iter().try_for_each(|log| check_header(ctx, log))?;
    let now = ctx.clock.now();
    let mut window = Window::default();
    chain.fill(&mut window, now)?;
    let (mut tree, mut latest) = (chain.tree.clone(), chain.latest_ingest);
    let (mut covered, mut unsealed) = (Vec::new(), Vec::new());
    let count = logs.len();
    for (i, log) in logs.into_iter().enumerate() {
        if log.start < chain.end() {
            check_covered(ctx, &chain, &log)?;
            covered.push(log);
            continue;
        }
        let last = i + 1 == count;
        let replayed = replay(ctx, &log, &tree, latest, last)?;
        check_unpublished(&chain, &tree, &replayed.leaves)?;
        signed.is_continued(&tree, &replayed.leaves)?;
        let (frontier, before) = (tree.clone(), latest);
        tree.merge(&replayed.contents.range)?;
        latest = replayed.contents.rows.last().map_or(latest, |row| row.ingested_at);
        window.insert_rows(&replayed.contents.rows);
        for request in &replayed.contents.requests {
            window.insert_request(request.clone());
        }
        unsealed.push(Unsealed { log, frontier, contents: replayed.contents, before });
    }
    window.evict(now);
    let Some(active) = unsealed.pop() else {
        let expected = format!("a log that begins at seq {}", tree.end());
        let missing = Corruption::new("wal_missing", None, expected, "no such file");
        return Err(missing.in_object(ctx.dir.wal_dir(ctx.shard).display().to_string()).into());
    };
    signed.is_reached(tree.end())?;
    check_signed(&chain, tree.end())?;
    // Everything has been judged. Only now is anything changed or signed.
    for log in covered {
        ctx.files.remove(&log.path).map_err(|error| RecoveryError::io(&log.path, error))?;
    }
    unsealed.into_iter().try_for_each(|old| seal_again(ctx, old))?;
    remove_unpublished(ctx, &chain)?;
    let sealed = active.frontier.end();
    Ok(Recovered { tail: go_on(ctx, active)?, window, sealed })
}

/// The last log becomes the tail. What was read may never have reached the disk (a process that
/// was killed before its sync, a sync that failed): a retry would be answered from it, so the good
/// part is written anew, in other blocks, and synced.
fn go_on(ctx: &ShardContext, active: Unsealed) -> Result<ActiveTail, RecoveryError> {
    let Unsealed { log, frontier, contents, before } = active;
    let failed = |error| RecoveryError::io(&log.path, error);
    if log.scan.torn_bytes > 0 {
        let (file, bytes) = (log.path.display().to_string(), log.scan.torn_bytes);
        tracing::warn!(shard = ctx.shard, file, bytes, "torn tail cut");
    }
    if log.bytes.len() > HEADER_BYTES {
        let good = usize::try_from(contents.bytes).ok().and_then(|good| log.bytes.get(..good));
        ctx.files.replace(&log.path, good.unwrap_or(&log.bytes)).map_err(failed)?;
    }
    ActiveTail::open(ctx, frontier, contents, before).map_err(failed)
}

/// The same log again after one of its operations failed. It must hold every acknowledged frame,
/// whole and in its place; whatever follows was never acknowledged and is cut. No failed sync is
/// retried: if one has failed, the frames are written anew, in other blocks, and in any case they
/// are synced through a new descriptor before anything counts on them.
pub(crate) fn reopen(
    ctx: &ShardContext,
    known: &Acknowledged,
) -> Result<ActiveTail, RecoveryError> {
    let failed = |error| RecoveryError::io(&known.path, error);
    let named = |c: Corruption| c.in_object(known.path.display().to_string());
    let mut bytes = std::fs::read(&known.path).map_err(failed)?;
    let length = usize::try_from(known.bytes).unwrap_or(usize::MAX);
    if bytes.len() < length {
        let expected = format!("{length} acknowledged bytes");
        let missing = Corruption::new("length", bytes.len() as u64, expected, "the end");
        return Err(named(missing).into());
    }
    bytes.truncate(length);
    let scan = wal::scan(&bytes).map_err(named)?;
    if scan.torn_bytes > 0 {
        let expected = "whole frames: they were acknowledged";
        let torn = Corruption::new("wal_frame", scan.good_bytes, expected, "a torn frame");
        return Err(named(torn).into());
    }
    let log = Log { path: known.path.clone(), start: known.range.begin(), bytes, scan };
    check_header(ctx, &log)?;
    let contents = replay(ctx, &log, &known.frontier, known.ingest_before, true)?.contents;
    if contents.range.end() != known.range.end() {
        let expected = format!("rows up to {}, as acknowledged", known.range.end());
        let found = format!("rows up to {}", contents.range.end());
        return Err(named(Corruption::new("leaves", None, expected, found)).into());
    }
    known.range.check_nodes(contents.range.nodes()).map_err(named)?;
    remove_next(ctx, known)?;
    if known.rewrite {
        ctx.files.replace(&log.path, &log.bytes).map_err(failed)?;
    }
    let mut tail = ActiveTail::open(ctx, known.frontier.clone(), contents, known.ingest_before)
        .map_err(failed)?;
    tail.sync().map_err(failed)?;
    Ok(tail)
}

/// A next log that was being made when the disk failed: empty, or not this shard's doing.
fn remove_next(ctx: &ShardContext, known: &Acknowledged) -> Result<(), RecoveryError> {
    let next = ctx.dir.wal_file(ctx.shard, known.range.end());
    let failed = |error| RecoveryError::io(&next, error);
    if next == known.path {
        return Ok(());
    }
    match std::fs::metadata(&next) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
        Ok(found) if found.len() > HEADER_BYTES as u64 => {
            let expected = "no log after the one that takes events";
            let found = format!("{} bytes", found.len());
            let object = next.display().to_string();
            let foreign = Corruption::new("contiguity", None, expected, found);
            return Err(foreign.in_object(object).into());
        }
        Ok(_) => {}
    }
    ctx.files.remove(&next).map_err(failed)?;
    ctx.files.sync_dir(&ctx.dir.wal_dir(ctx.shard)).map_err(failed)
}

/// Logs that hold nothing but a header are leftovers of a first start that did not finish.
fn start_fresh(
    ctx: &ShardContext,
    chain: &SealedChain,
    logs: &[Log],
) -> Result<Recovered, RecoveryError> {
    let orphaned = |file: String| RecoveryError::Orphaned { file };
    if chain.end() > 0 || !chain.unpublished.is_empty() {
        return Err(orphaned(ctx.dir.sealed_dir(ctx.shard).display().to_string()));
    }
    for log in logs {
        if log.scan.good_bytes > HEADER_BYTES as u64 || log.scan.torn_bytes > 0 {
            return Err(orphaned(log.path.display().to_string()));
        }
        ctx.files.remove(&log.path).map_err(|error| RecoveryError::io(&log.path, error))?;
    }
    let tail = ActiveTail::create(ctx, CompactRange::empty(0), Micros(i64::MIN));
    let tail = tail.map_err(|error| RecoveryError::io(&ctx.dir.wal_dir(ctx.shard), error))?;
    Ok(Recovered { tail, window: Window::default(), sealed: 0 })
}

fn read_logs(ctx: &ShardContext) -> Result<Vec<Log>, RecoveryError> {
    let dir = ctx.dir.wal_dir(ctx.shard);
    let mut logs = Vec::new();
    for (name, path) in files_in(&dir).map_err(|error| RecoveryError::io(&dir, error))? {
        let Some(start) = parse_wal_name(&name) else {
            tracing::warn!(shard = ctx.shard, file = name, "unknown file ignored");
            continue;
        };
        let bytes = std::fs::read(&path).map_err(|error| RecoveryError::io(&path, error))?;
        let named = |corruption: Corruption| corruption.in_object(path.display().to_string());
        let scan = wal::scan(&bytes).map_err(named)?;
        logs.push(Log { path, start, bytes, scan });
    }
    Ok(logs)
}

/// A log belongs to its shard and begins where its name says.
fn check_header(ctx: &ShardContext, log: &Log) -> Result<(), Corruption> {
    let header = &log.scan.header;
    if (header.shard, header.start, header.log_id) == (ctx.shard, log.start, ctx.log_id) {
        return Ok(());
    }
    let expected = format!("shard {} of {} from seq {}", ctx.shard, ctx.origin, log.start);
    let found = wal::describe(&log.scan);
    let object = log.path.display().to_string();
    Err(Corruption::new("wal_header", 0, expected, found).in_object(object))
}

/// Decodes a log's events; each must stand exactly where the tree expects the next leaf.
fn replay(
    ctx: &ShardContext,
    log: &Log,
    tree: &CompactRange,
    latest: Micros,
    last: bool,
) -> Result<Replayed, RecoveryError> {
    let object = log.path.display().to_string();
    let corrupt = |check, offset: u64, expected: String, found: String| {
        Corruption::new(check, offset, expected, found).in_object(&object)
    };
    if log.start != tree.end() {
        let expected = format!("a log that begins at seq {}", tree.end());
        return Err(corrupt("contiguity", 0, expected, log.start.to_string()).into());
    }
    if log.scan.torn_bytes > 0 && !last {
        let found = format!("{} bytes that are no frame", log.scan.torn_bytes);
        let expected = "whole frames: another log follows".to_owned();
        return Err(corrupt("wal_frame", log.scan.good_bytes, expected, found).into());
    }
    let mut range = CompactRange::empty(log.start);
    let (mut rows, mut leaves, mut latest) = (Vec::new(), Vec::new(), latest);
    for (offset, batch) in &log.scan.batches {
        for bytes in &batch.events {
            let (event, position) = decode_full(bytes, "wal_event").map_err(|corruption| {
                Corruption { offset: Some(*offset), ..corruption }.in_object(&object)
            })?;
            let (seq, at) = (range.end(), position.ingested_at);
            if (position.seq, position.log_id) != (seq, ctx.log_id) {
                let expected = format!("seq {seq} of {}", ctx.origin);
                return Err(
                    corrupt("contiguity", *offset, expected, position.seq.to_string()).into()
                );
            }
            if at < latest {
                let expected = format!("an ingest time not before {latest}");
                return Err(corrupt("ingest_time", *offset, expected, at.to_string()).into());
            }
            let leaf = leaf_of(bytes, &event.as_ref(), &position).map_err(|error| {
                corrupt("wal_event", *offset, "canonical attributes".into(), error.to_string())
            })?;
            latest = at;
            range.append(leaf);
            leaves.push(leaf);
            rows.push(Row { event, seq, ingested_at: at });
        }
    }
    let requests: Vec<RequestEntry> =
        log.scan.batches.iter().filter_map(|(_, batch)| batch.request.clone()).collect();
    let contents = TailContents { rows, requests, range, bytes: log.scan.good_bytes };
    Ok(Replayed { contents, leaves })
}

/// A log that was sealed but not removed may go if the sealed file holds the same leaves.
fn check_covered(ctx: &ShardContext, chain: &SealedChain, log: &Log) -> Result<(), RecoveryError> {
    let object = log.path.display().to_string();
    let at = CompactRange::empty(log.start);
    let replayed = replay(ctx, log, &at, Micros(i64::MIN), false)?;
    let range = &replayed.contents.range;
    let Some((end, nodes)) = chain.range_from(log.start) else {
        let expected = format!("a sealed segment from seq {}", log.start);
        let found = format!("a log inside sealed rows up to {}", chain.end());
        return Err(Corruption::new("contiguity", 0, expected, found).in_object(object).into());
    };
    if range.end() != end {
        let expected = format!("rows up to {end}, as sealed");
        let found = format!("rows up to {}", range.end());
        return Err(Corruption::new("contiguity", 0, expected, found).in_object(object).into());
    }
    range
        .check_nodes(nodes)
        .map_err(|corruption| Corruption { check: "leaves", ..corruption }.in_object(object).into())
}

/// A log that a crash found between rotation and the end of its seal.
fn seal_again(ctx: &ShardContext, old: Unsealed) -> Result<(), RecoveryError> {
    let Unsealed { log, frontier, contents, .. } = old;
    let sealed = ClosedTail::new(ctx, log.path, frontier, contents).seal(ctx)?;
    let (start, rows) = (sealed.name().start, sealed.name().rows);
    tracing::info!(shard = ctx.shard, start, rows, bytes = sealed.bytes(), "segment sealed");
    Ok(())
}

/// What was signed without being published must be what the log holds.
fn check_unpublished(
    chain: &SealedChain,
    tree: &CompactRange,
    leaves: &[Hash],
) -> Result<(), RecoveryError> {
    let end = tree.end() + leaves.len() as u64;
    let within = |note: &&(PathBuf, Checkpoint)| (tree.end() + 1..=end).contains(&note.1.size);
    for (path, checkpoint) in chain.unpublished.iter().filter(within) {
        let mut at = tree.clone();
        let rows = usize::try_from(checkpoint.size - tree.end()).unwrap_or(usize::MAX);
        leaves.iter().take(rows).for_each(|leaf| at.append(*leaf));
        check_root(checkpoint, at.end(), &at.root()?)
            .map_err(|corruption| corruption.in_object(path.display().to_string()))?;
    }
    Ok(())
}

/// A signed size beyond the data is a lost or restored disk: refused.
fn check_signed(chain: &SealedChain, size: u64) -> Result<(), RecoveryError> {
    for (path, checkpoint) in &chain.unpublished {
        let object = path.display().to_string();
        if checkpoint.size > size {
            let expected = format!("at least {} leaves, as signed", checkpoint.size);
            let found = format!("{size} leaves");
            return Err(Corruption::new("signed_size", None, expected, found)
                .in_object(object)
                .into());
        }
        if checkpoint.size <= chain.end() {
            let root = chain.root_at(checkpoint.size).unwrap_or_default();
            check_root(checkpoint, checkpoint.size, &root).map_err(|c| c.in_object(object))?;
        }
    }
    Ok(())
}

/// Notes that have been compared and are replaced by their segments' own.
fn remove_unpublished(ctx: &ShardContext, chain: &SealedChain) -> Result<(), RecoveryError> {
    for (path, _) in &chain.unpublished {
        if !path.with_extension("seg").exists() {
            ctx.files.remove(path).map_err(|error| RecoveryError::io(path, error))?;
        }
    }
    Ok(())
}
