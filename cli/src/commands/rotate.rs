//! `sealcast keys rotate`: a log's next key, with a hand-over that both keys sign.

use std::path::{Path, PathBuf};

use clap::Args;
use sealcast_common::cluster::{Pending, cluster_origin};
use sealcast_common::integrity::{KeyFiles, KeyHistory, Keyring, SignedFile, shard_origin};
use sealcast_common::layout::DataDir;
use sealcast_common::seams::Seams;

use super::keys::{lock, locked, shards};
use crate::output::{Failure, failed, line, table};
use crate::verify::signed_tree;

#[derive(Debug, Args)]
#[command(after_help = "\
For example: sealcast keys rotate /var/lib/sealcast/writer prod/0000

DIR is where the secret key lies: a writer's data directory (its shards' keys with signer = \"local\",
and the cluster log's, prod/cluster, if its shipper keeps it), or the folder of `sealcast signer`.
Whoever signs there must not run: the writer, for the cluster log the shipper, or the signer.

The old key signs up to the size that was signed last, the new one from there on, for ever: nobody
who verifies needs a clock. The old secret is removed. Replicas, shippers and `verify` follow the
hand-over by themselves; a policy that names the old key stays right. Tell witnesses the new key of
the cluster log before its shipper starts again (known_log, beside the old one).")]
pub(crate) struct RotateArgs {
    /// A writer's data directory, or a signer's folder
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Origins of logs: CLUSTER/SHARD, with the shard in four hex digits, or CLUSTER/cluster
    #[arg(value_name = "LOG", required_unless_present = "all")]
    logs: Vec<String>,
    /// All logs whose keys lie there
    #[arg(long, conflicts_with = "logs")]
    all: bool,
    /// Show what would be handed over, write nothing
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn run(args: &RotateArgs) -> Result<u8, Failure> {
    let dir = DataDir::new(&args.dir);
    let mut rows = Vec::new();
    if dir.node_file().exists() {
        let found = in_writer(&dir)?;
        let logs = chosen(args, found.iter().map(|log| log.origin.clone()).collect())?;
        for log in found.iter().filter(|log| logs.contains(&log.origin)) {
            rows.push(of_writer(&dir, log, args.dry_run)?);
        }
    } else {
        let logs = chosen(args, in_signer(&args.dir)?)?;
        let keyring = Keyring::open(&args.dir, false, Seams::default()).map_err(failed)?;
        for origin in &logs {
            let signed = keyring.files_of(origin).map_err(failed)?.signed;
            if args.dry_run {
                rows.push(planned(origin, &signed)?);
            } else {
                rows.push(rotated(origin, keyring.rotate(origin).map_err(failed)?));
            }
        }
    }
    line(table(&["log", "handed over at", "key"].map(str::to_owned), &rows));
    match args.dry_run {
        true => line("nothing was written (--dry-run)"),
        false => line("done: start what was stopped; the old secret keys are gone"),
    }
    Ok(0)
}

/// A log whose secret key lies in a writer's folder.
struct Log {
    origin: String,
    /// `None`: the cluster log.
    shard: Option<u16>,
    files: KeyFiles,
}

fn in_writer(dir: &DataDir) -> Result<Vec<Log>, Failure> {
    let (cluster, shards) = shards(dir)?;
    let of = |shard: u16| {
        let origin = shard_origin(&cluster, shard);
        Log { origin, shard: Some(shard), files: dir.shard_key(shard) }
    };
    let mut logs: Vec<Log> = shards.into_iter().map(of).collect();
    let (origin, files) = (cluster_origin(&cluster), dir.cluster_key());
    logs.push(Log { origin, shard: None, files });
    logs.retain(|log| log.files.secret.exists());
    Ok(logs)
}

/// The origins in a signer's folder, which must not be made by looking at it.
fn in_signer(dir: &Path) -> Result<Vec<String>, Failure> {
    let cannot = |error| Failure::new(format!("{} cannot be read: {error}", dir.display()));
    let mut origins = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(cannot)? {
        let name = entry.map_err(cannot)?.file_name();
        let stem = name.to_str().and_then(|name| name.strip_suffix(".key"));
        origins.extend(stem.map(|stem| stem.replace('_', "/")));
    }
    origins.sort_unstable();
    Ok(origins)
}

fn chosen(args: &RotateArgs, there: Vec<String>) -> Result<Vec<String>, Failure> {
    let known = match there.as_slice() {
        [] => "no key lies there; with `signer = \"unix:…\"` the keys are in the signer's folder"
            .into(),
        there => format!("keys of these logs lie there: {}", there.join(", ")),
    };
    match args.logs.iter().find(|log| !there.contains(log)) {
        Some(log) => {
            Err(Failure::new(format!("no key of {log} in {}", args.dir.display())).hint(known))
        }
        None if there.is_empty() => {
            Err(Failure::new(format!("nothing to rotate in {}", args.dir.display())).hint(known))
        }
        None if args.all => Ok(there),
        None => Ok(args.logs.clone()),
    }
}

fn of_writer(dir: &DataDir, log: &Log, dry_run: bool) -> Result<Vec<String>, Failure> {
    let _lock = match log.shard {
        Some(shard) => {
            let lock = locked(dir)?;
            verified(dir, log, shard)?;
            lock
        }
        None => {
            let lock = lock(&dir.ship_lock_file(), "shipper")?;
            published(dir, &log.origin)?;
            lock
        }
    };
    match dry_run {
        true => planned(&log.origin, &log.files.signed),
        false => {
            let done = log.files.rotate(&log.origin, &Seams::default());
            Ok(rotated(&log.origin, done.map_err(failed)?))
        }
    }
}

/// The hand-over names a root for ever: only one that the folder's rows have.
fn verified(dir: &DataDir, log: &Log, shard: u16) -> Result<(), Failure> {
    let cluster = log.origin.rsplit_once('/').map_or("", |(cluster, _)| cluster);
    let (report, _) = signed_tree(dir, cluster, shard, &|_| {});
    if let Some(found) = report.findings.first() {
        return Err(
            failed(found).hint("only a log that verifies is handed over; nothing was written")
        );
    }
    match report.unchecked.first() {
        Some(why) => Err(Failure::new(format!("{} cannot be checked: {why}", log.origin))),
        None => Ok(()),
    }
}

/// Leaves that were written down and not published would be signed by a key that no reader knows yet.
fn published(dir: &DataDir, origin: &str) -> Result<(), Failure> {
    let path = dir.cluster_pending_file();
    let place = path.display().to_string();
    let pending = match std::fs::read(&path) {
        Ok(text) => Pending::parse(&text).map_err(|found| failed(found.in_object(place)))?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Failure::new(format!("{place}: {error}"))),
    };
    if pending.leaves.is_empty() {
        return Ok(());
    }
    let what = format!("{origin} has leaves up to {} that are not published yet", pending.end());
    Err(Failure::new(what)
        .hint("start the shipper until an epoch is published, then stop it again"))
}

fn planned(origin: &str, signed: &Path) -> Result<Vec<String>, Failure> {
    let state = SignedFile::read(signed, origin).map_err(failed)?.unwrap_or_default();
    Ok(vec![origin.to_owned(), state.size().to_string(), "a new one".to_owned()])
}

fn rotated(origin: &str, (keys, size): (KeyHistory, u64)) -> Vec<String> {
    vec![origin.to_owned(), size.to_string(), keys.newest().to_text()]
}
