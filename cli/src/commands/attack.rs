//! `sealcast attack-demo`: attacks on copies, and what finds them.

use serde_json::json;

use crate::attack::{Attack, AttackDemoArgs, Scene, Stolen, attacks};
use crate::output::{Failure, Progress, failed, line, table};
use crate::verify::Report;

pub(crate) async fn run(args: AttackDemoArgs) -> Result<u8, Failure> {
    let temporary = tempfile::tempdir().map_err(failed)?;
    let root = args.keep.as_deref().unwrap_or(temporary.path());
    if root.join("cluster").exists() {
        return Err(Failure::new(format!("{} holds an attacked cluster already", root.display()))
            .hint("name another folder with --keep"));
    }
    let chosen: Vec<Attack> =
        attacks().into_iter().filter(|attack| attack.name.contains(&args.only)).collect();
    if chosen.is_empty() {
        return Err(Failure::new(format!("no attack is named {:?}", args.only)));
    }
    let scene = Scene::make(&root.join("cluster")).await?;
    let progress = Progress::new("attack", chosen.len() as u64, false);
    let (mut rows, mut missed) = (Vec::new(), 0);
    for (i, attack) in chosen.iter().enumerate() {
        progress.set(i as u64, attack.name);
        let copy = root.join(format!("{i:02}-{}", attack.name));
        let attacked = scene.copy_to(&copy)?;
        attack.perform(&attacked).await?;
        let report = attacked.judge(attack.target).await?;
        missed += usize::from(attack.found_by(&report).is_none());
        rows.push(told(attack, &report));
        if args.json {
            line(document(attack, &report));
        }
        if args.keep.is_none() {
            std::fs::remove_dir_all(&copy).map_err(failed)?;
        }
    }
    progress.finish();
    if !args.json {
        let header = ["attacker has", "attack", "found by", "where"].map(str::to_owned);
        line(table(&header, &rows));
        line(
            "No check finds: an event that was never sent or never taken; a wrong time or a lie that",
        );
        line(
            "the client itself sent; rows that a server leaves out of an answer, unless a range is",
        );
        line(
            "exported with its proof; a forgery from the first day on, by all keys, before anybody",
        );
        line(
            "else has looked: a policy, a trust state kept elsewhere and witnesses are against that.",
        );
        line(format!("{} of {} attacks found", rows.len() - missed, rows.len()));
    }
    Ok(u8::from(missed > 0))
}

fn told(attack: &Attack, report: &Report) -> Vec<String> {
    let (check, place) = match attack.found_by(report) {
        Some(found) => (found.check.to_owned(), found.object.clone()),
        None => (format!("NOT FOUND ({})", report.verdict()), String::new()),
    };
    let place = place.rsplit('/').take(3).collect::<Vec<_>>();
    let place = place.into_iter().rev().collect::<Vec<_>>().join("/");
    vec![holds(attack.stolen).to_owned(), attack.what.to_owned(), check, place]
}

fn holds(stolen: Stolen) -> &'static str {
    match stolen {
        Stolen::Nothing => "the files",
        Stolen::Shipper => "+ shipper's key",
        Stolen::Shards => "+ shards' keys",
        Stolen::Everything => "+ cluster log's key",
    }
}

fn document(attack: &Attack, report: &Report) -> String {
    let found = attack.found_by(report);
    json!({
        "attack": attack.name,
        "what": attack.what,
        "attacker_has": holds(attack.stolen),
        "verdict": report.verdict(),
        "check": found.map(|found| found.check),
        "object": found.map(|found| &found.object),
        "findings": report.findings.len(),
    })
    .to_string()
}
