//! `sealcast verify`: the verdict, for people or as JSON.

use crate::args::VerifyArgs;
use crate::output::{Failure, Progress, line};
use crate::verify::{Report, verify};

/// Findings shown one by one.
const FINDINGS_SHOWN: usize = 50;

pub(crate) async fn run(args: VerifyArgs) -> Result<u8, Failure> {
    let progress = Progress::new("verify", 0, false);
    let report = verify(&args.target, &|done, total, what| {
        progress.set_total(total);
        progress.set(done, what);
    })
    .await;
    progress.finish();
    if args.json {
        let mut document = serde_json::to_value(&report).unwrap_or_default();
        document["verdict"] = report.verdict().into();
        line(document.to_string());
    } else {
        show(&report);
    }
    Ok(report.exit_code())
}

fn show(report: &Report) {
    for found in report.findings.iter().take(FINDINGS_SHOWN) {
        line(format!("tampered: {found}"));
    }
    for why in report.unchecked.iter().take(FINDINGS_SHOWN) {
        line(format!("cannot check: {why}"));
    }
    line(format!("verdict {}: {}", report.verdict(), summary(report)));
}

/// What was checked, in one line.
pub(crate) fn summary(report: &Report) -> String {
    format!(
        "{} segments, {} rows, {} commits, {} unsealed events, {} bytes read",
        report.segments, report.rows, report.commits, report.tail_events, report.bytes
    )
}
