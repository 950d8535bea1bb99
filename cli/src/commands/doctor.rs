//! `sealcast doctor`: what on this machine would make trouble, and what to do about it.

use std::path::Path;

use sealcast_common::clock::WallClock;
use serde_json::json;

use crate::args::DoctorArgs;
use crate::doctor::{Finding, Health, Subjects, examine};
use crate::output::{Failure, failed, line, note};
use crate::settings::{Section, SettingsFile};

pub(crate) async fn run(args: DoctorArgs, file: Option<&Path>) -> Result<u8, Failure> {
    let subjects = match &args.target {
        Some(target) => Subjects::one(target),
        None => {
            let file = file.map(SettingsFile::read).transpose().map_err(failed)?;
            let sections = if args.role.is_empty() { &Section::ALL[..] } else { &args.role };
            Subjects::configured(sections, file.as_ref()).map_err(|faults| {
                for fault in &faults {
                    note(format!("{}: {}", fault.place, fault.message));
                }
                Failure::new("the settings are wrong").hint("see `sealcast config check`")
            })?
        }
    };
    let findings = Box::pin(examine(&subjects, &WallClock::default())).await;
    let failed = findings.iter().any(|finding| finding.health == Health::Fail);
    if args.json {
        line(json!({ "ok": !failed, "findings": findings }).to_string());
    } else {
        findings.iter().for_each(show);
        let count = |health| findings.iter().filter(|f| f.health == health).count();
        line(format!(
            "{} ok, {} warnings, {} failures",
            count(Health::Ok),
            count(Health::Warn),
            count(Health::Fail)
        ));
    }
    Ok(if failed { crate::FAILED } else { 0 })
}

fn show(finding: &Finding) {
    let Finding { health, check, subject, found, advice } = finding;
    line(format!("{:<5} {check:<12} {subject}: {found}", health.word()));
    if let Some(advice) = advice {
        line(format!("      {:<12} → {advice}", ""));
    }
}
