//! `sealcast verify`: the verdict, for people or as JSON; of what is tampered with, the evidence.

use crate::output::{Failure, Progress, failed, line, note};
use crate::verify::{Report, Trusting, VerifyArgs, evidence, verify_by};

/// Findings shown one by one.
const FINDINGS_SHOWN: usize = 50;

pub(crate) async fn run(args: VerifyArgs) -> Result<u8, Failure> {
    let policy = (args.policy.as_deref(), args.vkey.as_deref());
    let state = args.trust_state.as_deref();
    let trusting = Trusting::read(policy, state, args.trust_on_first_use)?
        .with_proof(args.leaf, args.keys.as_deref())?;
    let progress = Progress::new("verify", 0, false);
    let report = verify_by(&args.target, trusting, &|done, total, what| {
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
    if !report.findings.is_empty() && !args.no_evidence {
        let folder = args.evidence.unwrap_or_else(evidence::folder);
        let saved = evidence::save(&folder, &args.target, &report).await.map_err(failed)?;
        note(format!("evidence: {} with {saved} of the objects named", folder.display()));
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
    if (report.segments, report.rows) == (0, 1) {
        return format!("1 row proved, {} bytes read", report.bytes);
    }
    let anchored = match report.cluster_leaves {
        0 => String::new(),
        _ => format!(" ({} in the cluster log)", report.anchored_rows),
    };
    format!(
        "{} segments, {} rows{anchored}, {} commits, {} unsealed events, {} bytes read",
        report.segments, report.rows, report.commits, report.tail_events, report.bytes
    )
}
