//! `sealcast store probe`: whether a store keeps the promises that commits rest on. `store mend`: what
//! proofs are made of, made again.

use sealcast_common::bucket::Store;
use sealcast_common::bucket::probe::{Fitness, ProbeReport, Verdict, probe};
use sealcast_common::clock::OsRandom;

use crate::args::{StoreCommand, StoreProbeArgs};
use crate::export::mend;
use crate::output::{Failure, Progress, failed, line};

/// Exit code for "the store gave no clear answer".
const CANNOT_TELL: u8 = 2;

pub(crate) async fn run(command: StoreCommand) -> Result<u8, Failure> {
    match command {
        StoreCommand::Probe(args) => run_probe(args).await,
        StoreCommand::Mend { store, dry_run } => run_mend(&store, dry_run).await,
    }
}

async fn run_mend(url: &str, dry_run: bool) -> Result<u8, Failure> {
    let store = Store::open(url).map_err(|error| Failure { code: CANNOT_TELL, ..failed(error) })?;
    let progress = Progress::new("mend", 0, false);
    let mended = mend(&store, dry_run, &|done, total| {
        progress.set_total(total);
        progress.set(done, "segments");
    })
    .await?;
    progress.finish();
    mended.missing.iter().for_each(|key| line(format!("missing  {key}")));
    mended.damaged.iter().for_each(|key| line(format!("damaged  {key}")));
    let found = mended.missing.len() + mended.damaged.len();
    let objects = mended.objects;
    line(match (found, dry_run) {
        (0, _) => format!("{objects} objects compared: every one is what the rows give"),
        (_, true) => {
            format!("{objects} objects compared, {found} differ; nothing was written (--dry-run)")
        }
        _ => format!("{objects} objects compared, {found} made again"),
    });
    Ok(if found > 0 && dry_run { crate::FAILED } else { 0 })
}

async fn run_probe(args: StoreProbeArgs) -> Result<u8, Failure> {
    let store =
        Store::open(&args.store).map_err(|error| Failure { code: CANNOT_TELL, ..failed(error) })?;
    let report = probe(&store, &OsRandom).await;
    let fitness = report.fitness(false);
    if args.json {
        let mut document = serde_json::to_value(&report).unwrap_or_default();
        document["fitness"] = serde_json::to_value(fitness).unwrap_or_default();
        line(document.to_string());
    } else {
        show(&report, fitness);
    }
    Ok(match fitness {
        Fitness::Fit => 0,
        Fitness::Unfit => crate::FAILED,
        Fitness::Unknown => CANNOT_TELL,
    })
}

fn show(report: &ProbeReport, fitness: Fitness) {
    for finding in &report.findings {
        let (check, found) = (finding.check.word(), &finding.found);
        let optional = if finding.check.is_optional() { " (not needed)" } else { "" };
        match finding.verdict {
            Verdict::Kept => line(format!("kept     {check}: {found}")),
            Verdict::Broken => {
                line(format!("broken   {check}{optional}: {found}; expected {}", finding.expected));
            }
            Verdict::Unknown => line(format!("unknown  {check}{optional}: {found}")),
        }
    }
    line(match fitness {
        Fitness::Fit => format!("verdict fit: {} can hold a stream", report.store),
        Fitness::Unfit if report.fitness(true) == Fitness::Fit => format!(
            "verdict unfit: {} does not keep two shippers apart; use another store, or read about \
             fencing = \"external\" in docs/operating.md",
            report.store
        ),
        Fitness::Unfit => format!("verdict unfit: {} cannot hold a stream", report.store),
        Fitness::Unknown => {
            format!("verdict unknown: {} did not answer; check URL and credentials", report.store)
        }
    });
}
