//! The clock: sane, monotonic, and not before what has been sealed.

use std::path::Path;

use sealcast_common::clock::{Clock, Micros};
use sealcast_common::layout::DataDir;
use sealcast_common::segment::SegmentView;

use super::{Finding, Folder, Subjects, Use};

/// 2025-01-01: before any release of this program.
const RELEASED: Micros = Micros(1_735_689_600_000_000);
/// 2100-01-01.
const FAR: Micros = Micros(4_102_444_800_000_000);
const ADVICE: &str = "run chronyd or systemd-timesyncd; event times rest on this clock";

pub(super) fn examine(subjects: &Subjects, clock: &dyn Clock) -> Vec<Finding> {
    let now = clock.now();
    let mut findings = vec![if (RELEASED..FAR).contains(&now) {
        Finding::ok("clock", "wall time", now)
    } else {
        Finding::fail("clock", "wall time", format!("{now} cannot be")).advice(ADVICE)
    }];
    let (first, second) = (clock.monotonic(), clock.monotonic());
    if second < first {
        let advice = "do not run on this machine: its hypervisor or kernel is broken";
        findings.push(Finding::fail("clock", "monotonic time", "it went back").advice(advice));
    }
    for Folder { path, .. } in subjects.folders.iter().filter(|f| f.use_ == Use::Data) {
        if let Some(sealed) = newest_seal(path) {
            findings.push(if sealed <= now {
                Finding::ok("clock", path.display(), format!("newest seal is of {sealed}"))
            } else {
                let found = format!("newest seal is of {sealed}, later than now");
                Finding::fail("clock", path.display(), found).advice(ADVICE)
            });
        }
    }
    findings
}

/// When the newest segment of every shard says that it was sealed, the latest of them.
fn newest_seal(data: &Path) -> Option<Micros> {
    let shards = std::fs::read_dir(DataDir::new(data).sealed_root()).ok()?.flatten();
    shards.filter_map(|shard| sealed_last(&shard.path())).max()
}

fn sealed_last(shard: &Path) -> Option<Micros> {
    let files = std::fs::read_dir(shard).ok()?.flatten().map(|entry| entry.path());
    // Names begin with the start seq in sixteen digits: the greatest name is the newest segment.
    let newest = files.filter(|path| path.extension().is_some_and(|e| e == "seg")).max()?;
    let bytes = std::fs::read(newest).ok()?;
    let view = SegmentView::parse(arrow_buffer::Buffer::from(bytes)).ok()?;
    Some(view.seal().sealed_at)
}
