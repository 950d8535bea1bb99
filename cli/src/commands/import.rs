//! `sealcast import`: log files to a writer, resumable and idempotent.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use sealcast_common::durable::{Durable as _, RealFiles};

use crate::args::ImportArgs;
use crate::client::Client;
use crate::import::{self, Place, SourceError};
use crate::output::{Failure, Progress, failed, note};

/// Bytes of one request's body, well below the writer's bound.
const BATCH_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Problems shown one by one.
const PROBLEMS_SHOWN: usize = 20;

/// What an import did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Imported {
    pub(crate) files: usize,
    pub(crate) sent: usize,
    pub(crate) duplicates: usize,
    pub(crate) refused: usize,
}

/// How an import is to be done.
pub(crate) struct Options {
    pub(crate) batch: usize,
    pub(crate) skip_bad: bool,
    pub(crate) state: Option<PathBuf>,
}

pub(crate) async fn run(args: ImportArgs) -> Result<u8, Failure> {
    let client = Client::open(&args.writer, &args.connect)?;
    let options =
        Options { batch: args.batch as usize, skip_bad: args.skip_bad, state: args.state };
    let done = import_paths(&client, &args.paths, &options).await?;
    crate::output::line(format!(
        "imported {} events from {} files ({} of them were there already), {} refused",
        done.sent, done.files, done.duplicates, done.refused
    ));
    Ok(if done.refused == 0 { 0 } else { crate::FAILED })
}

/// Sends everything under `paths` in order.
pub(crate) async fn import_paths(
    client: &Client,
    paths: &[PathBuf],
    options: &Options,
) -> Result<Imported, Failure> {
    let found = import::discover(paths).map_err(|error| source_failure(&error))?;
    for ignored in &found.ignored {
        note(format!("ignored {}: {}", ignored.path.display(), ignored.reason));
    }
    if found.files.is_empty() {
        let hint = "expected .json, .ndjson, .jsonl, .gz or .zst files";
        return Err(Failure::new("nothing to import was found").hint(hint));
    }
    let total = found.files.iter().filter_map(|file| std::fs::metadata(file).ok());
    let progress = Progress::new("import", total.map(|meta| meta.len()).sum(), true);
    let mut state = State::load(options.state.as_deref())?;
    let mut import = Import { client, options, done: Imported::default(), pending: Vec::new() };
    let mut bytes_before = 0;
    for file in &found.files {
        let size = std::fs::metadata(file).map_or(0, |meta| meta.len());
        if !state.is_done(file) {
            import
                .file(file, |read, done| {
                    progress.set(bytes_before + read, &format!("{} events", done.sent));
                })
                .await?;
            state.mark(file)?;
        }
        import.done.files += 1;
        bytes_before += size;
    }
    progress.finish();
    Ok(import.done)
}

struct Import<'a> {
    client: &'a Client,
    options: &'a Options,
    done: Imported,
    pending: Vec<(Place, String)>,
}

impl Import<'_> {
    async fn file(&mut self, file: &Path, show: impl Fn(u64, Imported)) -> Result<(), Failure> {
        let events = match import::open(file) {
            Ok(events) => events,
            Err(error) => return self.bad_record(&error),
        };
        let progress = events.progress();
        let mut bytes = 0;
        for event in events {
            match event {
                Ok(event) => {
                    bytes += event.json.len() + 1;
                    self.pending.push((event.place, event.json));
                }
                Err(error) => self.bad_record(&error)?,
            }
            if self.pending.len() >= self.options.batch || bytes >= BATCH_BYTES_MAX {
                self.send().await?;
                bytes = 0;
                show(progress.bytes_read(), self.done);
            }
        }
        self.send().await?;
        show(progress.bytes_read(), self.done);
        Ok(())
    }

    fn bad_record(&mut self, error: &SourceError) -> Result<(), Failure> {
        if !self.options.skip_bad {
            let failure = source_failure(error);
            let hint = failure.hint.unwrap_or_default();
            let hint = format!("{hint}; or go on without it: --skip-bad");
            return Err(Failure::new(failure.message).hint(hint));
        }
        self.refuse(&error.to_string());
        Ok(())
    }

    fn refuse(&mut self, why: &str) {
        self.done.refused += 1;
        if self.done.refused <= PROBLEMS_SHOWN {
            note(format!("refused: {why}"));
        } else if self.done.refused == PROBLEMS_SHOWN + 1 {
            note("refused: more, no longer listed");
        }
    }

    async fn send(&mut self) -> Result<(), Failure> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let batch = std::mem::take(&mut self.pending);
        let lines: Vec<&str> = batch.iter().map(|(_, json)| json.as_str()).collect();
        let sent = self.client.send_events(lines.join("\n"), self.options.skip_bad).await?;
        match sent {
            Ok(accepted) => {
                self.done.sent += accepted.accepted;
                self.done.duplicates += accepted.duplicates;
                for rejected in &accepted.rejected {
                    let place = batch.get(rejected.index).map(|(place, _)| place.to_string());
                    let place = place.unwrap_or_default();
                    self.refuse(&format!("{place}: {}", rejected.error));
                }
                self.done.refused += accepted.rejected_count - accepted.rejected.len();
                Ok(())
            }
            Err(refusal) => {
                let index = refusal.problem.pointer("/errors/0/index").and_then(|i| i.as_u64());
                let place = index.and_then(|i| batch.get(i as usize)).map(|(place, _)| place);
                let what = place.map_or("events were refused".to_owned(), ToString::to_string);
                let failure = refusal.into_failure(&what);
                Err(failure.hint("correct the record, or go on without it: --skip-bad"))
            }
        }
    }
}

fn source_failure(error: &SourceError) -> Failure {
    Failure::new(error.to_string()).hint(error.hint())
}

/// Finished files, one path a line: path, size and modification time must agree.
struct State {
    file: Option<PathBuf>,
    done: BTreeSet<String>,
}

impl State {
    fn load(file: Option<&Path>) -> Result<Self, Failure> {
        let done = match file.map(std::fs::read_to_string) {
            Some(Ok(text)) => text.lines().map(str::to_owned).collect(),
            Some(Err(error)) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Failure::new(format!("--state cannot be read: {error}")));
            }
            _ => BTreeSet::new(),
        };
        Ok(State { file: file.map(Path::to_owned), done })
    }

    fn entry(path: &Path) -> Option<String> {
        let meta = std::fs::metadata(path).ok()?;
        let modified = meta.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
        let path = path.canonicalize().ok()?;
        Some(format!("{} {} {}", meta.len(), modified.as_micros(), path.display()))
    }

    fn is_done(&self, path: &Path) -> bool {
        Self::entry(path).is_some_and(|entry| self.done.contains(&entry))
    }

    fn mark(&mut self, path: &Path) -> Result<(), Failure> {
        let (Some(file), Some(entry)) = (&self.file, Self::entry(path)) else { return Ok(()) };
        self.done.insert(entry);
        let text: String = self.done.iter().flat_map(|line| [line, "\n"]).collect();
        RealFiles.replace(file, text.as_bytes()).map_err(failed)
    }
}
