//! `sealcast keys show | generate | adopt`: keys, and what they have signed (`rotate` beside it).

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use sealcast_common::checked;
use sealcast_common::cluster::cluster_origin;
use sealcast_common::fault::hex;
use sealcast_common::integrity::{
    KeyHistory, LocalSigner, SignedFile, SignedState, Signer as _, VerifyKey, load_or_make_seed,
    shard_origin, shown_key,
};
use sealcast_common::layout::DataDir;
use sealcast_common::seams::Seams;
use sealcast_common::wire::NodeFile;

use crate::args::KeysCommand;
use crate::output::{Failure, failed, line, table};
use crate::verify::signed_tree;

pub(crate) fn run(command: &KeysCommand) -> Result<u8, Failure> {
    match command {
        KeysCommand::Show { dir, policy } => show(&DataDir::new(dir), *policy),
        KeysCommand::Generate { name, out } => generate(name, out.as_deref()),
        KeysCommand::Rotate(args) => super::rotate::run(args),
        KeysCommand::Adopt { dir, shard, dry_run } => adopt(&DataDir::new(dir), *shard, *dry_run),
    }
}

/// The cluster of a writer's folder, and its shards.
pub(super) fn shards(dir: &DataDir) -> Result<(String, Vec<u16>), Failure> {
    let path = dir.node_file();
    let text = std::fs::read(&path).map_err(|error| {
        let what = format!("{} cannot be read: {error}", path.display());
        Failure::new(what).hint("expected a writer's data directory")
    })?;
    let node: NodeFile = checked::parse("node_file", &text)
        .map_err(|found| failed(found.in_object(path.display().to_string())))?;
    let shards = (0..node.shards).filter_map(|i| node.shard_first.checked_add(i));
    Ok((node.cluster, shards.collect()))
}

fn show(dir: &DataDir, policy: bool) -> Result<u8, Failure> {
    let (cluster, shards) = shards(dir)?;
    let log = |shard: u16| {
        let (signed, public) = (dir.signed_file(shard), dir.public_key_file(shard));
        (format!("{shard:04x}"), shard_origin(&cluster, shard), signed, public)
    };
    let mut logs: Vec<_> = shards.into_iter().map(log).collect();
    // Kept by one of a cluster's shippers.
    if dir.cluster_public_key_file().exists() {
        let (signed, public) = (dir.cluster_signed_file(), dir.cluster_public_key_file());
        logs.push(("cluster".to_owned(), cluster_origin(&cluster), signed, public));
    }
    let mut rows = Vec::new();
    for (name, origin, signed, public) in logs {
        let text = std::fs::read_to_string(&public);
        if policy {
            let failed = |why: String| Failure::new(format!("{}: {why}", public.display()));
            let keys = KeyHistory::parse(&text.map_err(|error| failed(error.to_string()))?);
            let keys = keys.map_err(|error| failed(error.to_string()))?;
            line(format!("log {}", keys.newest().to_text()));
            continue;
        }
        let state = SignedFile::read(&signed, &origin).map_err(failed)?;
        let (size, root) = match state {
            Some(state) => (state.size().to_string(), hex(state.root())),
            None => ("-".to_owned(), "nothing signed here".to_owned()),
        };
        let key = text.map_or_else(|error| error.to_string(), |text| shown_key(&text));
        rows.push(vec![name, size, root, key]);
    }
    if policy {
        line("quorum none");
    } else {
        line(table(&["log", "signed size", "root", "public key"].map(str::to_owned), &rows));
    }
    Ok(0)
}

fn generate(name: &str, out: Option<&Path>) -> Result<u8, Failure> {
    if name.is_empty() || name.contains(|c: char| c.is_whitespace() || c.is_control() || c == '+') {
        let expected = "expected some text without blanks and `+`, such as prod/0000";
        return Err(Failure::new(format!("{name:?} is no name of a key; {expected}")));
    }
    let default = || PathBuf::from(format!("{}.key", name.replace('/', "_")));
    let path = out.map_or_else(default, Path::to_owned);
    if path.symlink_metadata().is_ok() {
        return Err(Failure::new(format!("{} exists already", path.display()))
            .hint("a key is never replaced: give another file with --out"));
    }
    let seams = Seams::default();
    let seed = load_or_make_seed(&path, &*seams.files, &*seams.random).map_err(failed)?;
    let signer = LocalSigner::from_seed(name, &seed);
    let key = VerifyKey { name: name.to_owned(), public_key: signer.public_key() };
    line(key.to_text());
    Ok(0)
}

fn adopt(dir: &DataDir, only: Option<u16>, dry_run: bool) -> Result<u8, Failure> {
    let (cluster, all) = shards(dir)?;
    if let Some(shard) = only.filter(|shard| !all.contains(shard)) {
        return Err(Failure::new(format!("{} has no shard {shard}", dir.root().display())));
    }
    let _lock = locked(dir)?;
    let mut adopted = 0;
    for shard in all.into_iter().filter(|shard| only.is_none_or(|only| only == *shard)) {
        let (origin, path) = (shard_origin(&cluster, shard), dir.signed_file(shard));
        if path.symlink_metadata().is_ok() {
            if only.is_some() {
                return Err(Failure::new(format!("{} exists already", path.display()))
                    .hint("what a signer remembers is never replaced; see `sealcast keys show`"));
            }
            continue;
        }
        let (report, tree) = signed_tree(dir, &cluster, shard, &|_| {});
        if let Some(found) = report.findings.first() {
            return Err(
                failed(found).hint("only what verifies can be adopted; nothing was written")
            );
        }
        if let Some(why) = report.unchecked.first() {
            return Err(Failure::new(format!("shard {shard:04x} cannot be checked: {why}")));
        }
        if tree.end() == 0 {
            continue;
        }
        let state = SignedState::of(&tree).map_err(failed)?;
        let (size, root, segments) = (state.size(), hex(state.root()), report.segments);
        line(format!("{origin}: size {size}, root {root}, {segments} segments verified"));
        if !dry_run {
            let file = SignedFile::new(&origin, &state);
            file.write(&path, &*Seams::default().files).map_err(failed)?;
        }
        adopted += 1;
    }
    match (adopted, dry_run) {
        (0, _) => line("nothing to adopt: every shard with segments has its memory"),
        (_, true) => line("nothing was written (--dry-run)"),
        _ => line(format!("{adopted} adopted: the writer goes on from here")),
    }
    Ok(0)
}

/// The writer's own lock: nobody seals meanwhile.
pub(super) fn locked(dir: &DataDir) -> Result<File, Failure> {
    lock(&dir.lock_file(), "writer")
}

/// The lock of `who`, taken.
pub(super) fn lock(path: &Path, who: &str) -> Result<File, Failure> {
    let file = File::options().read(true).write(true).create(true).truncate(false).open(path);
    let file = file.map_err(|error| failed(format!("{}: {error}", path.display())))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            let what = format!("{} is in use by a {who}", path.display());
            Err(Failure::new(what).hint(format!("stop the {who} first")))
        }
        Err(TryLockError::Error(error)) => Err(failed(format!("{}: {error}", path.display()))),
    }
}
