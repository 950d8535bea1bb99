//! Limits of the process and of the machine: files, maps, address space, memory.
//!
//! They are this process's; a role that systemd starts has those of its unit (`deploy/`).

use super::{Finding, Subjects, Use};

const FILES_FEW: u64 = 65_536;
const FILES_LEAST: u64 = 1_024;
/// One map per segment that is open, and those of threads and libraries.
const MAPS_FEW: u64 = 65_530;
const KIB: u64 = 1_024;

pub(super) fn examine(subjects: &Subjects) -> Vec<Finding> {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let cache = subjects.folders.iter().any(|folder| folder.use_ == Use::Cache);
    let mut findings: Vec<Finding> = files(&limits).into_iter().collect();
    if cache {
        findings.extend(maps());
        findings.extend(address_space(&limits));
    }
    findings.extend(subjects.memory_bytes.and_then(memory));
    findings
}

/// The soft limit of a line of `/proc/self/limits`; `u64::MAX` is unlimited.
pub(super) fn limit(limits: &str, name: &str) -> Option<u64> {
    let word =
        limits.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?;
    if word == "unlimited" { Some(u64::MAX) } else { word.parse().ok() }
}

fn files(limits: &str) -> Option<Finding> {
    let files = limit(limits, "Max open files")?;
    let (name, found) = ("open files", format!("{files} (RLIMIT_NOFILE)"));
    let advice = "set LimitNOFILE=1048576 in the unit, or `ulimit -n`: a quarter is for clients";
    Some(match files {
        ..FILES_LEAST => Finding::fail("limits", name, found).advice(advice),
        FILES_LEAST..FILES_FEW => Finding::warn("limits", name, found).advice(advice),
        _ => Finding::ok("limits", name, found),
    })
}

fn maps() -> Option<Finding> {
    let text = std::fs::read_to_string("/proc/sys/vm/max_map_count").ok()?;
    let maps: u64 = text.trim().parse().ok()?;
    let (name, found) = ("memory maps", format!("{maps} (vm.max_map_count)"));
    Some(if maps < MAPS_FEW {
        let advice = "sysctl -w vm.max_map_count=262144: every open segment is a map";
        Finding::warn("limits", name, found).advice(advice)
    } else {
        Finding::ok("limits", name, found)
    })
}

fn address_space(limits: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    match limit(limits, "Max address space") {
        Some(u64::MAX) | None => {}
        Some(bytes) => {
            let found = format!("{} MiB (RLIMIT_AS)", bytes / (KIB * KIB));
            let advice = "lift it (`ulimit -v unlimited`): maps of segments take address space, \
                          not memory; bound memory by memory_bytes and MemoryMax";
            findings.push(Finding::warn("limits", "address space", found).advice(advice));
        }
    }
    if let Some(bytes) = limit(limits, "Max locked memory") {
        let found = match bytes {
            u64::MAX => "unlimited".to_owned(),
            bytes => format!("{} KiB", bytes / KIB),
        };
        let found = format!("{found} (RLIMIT_MEMLOCK); nothing is locked");
        findings.push(Finding::ok("limits", "locked memory", found));
    }
    findings
}

/// What the machine or the control group gives, against what queries may take.
fn memory(wanted: u64) -> Option<Finding> {
    let info = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = info.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let available = line.split_whitespace().next()?.parse::<u64>().ok()? * KIB;
    let group = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    let group = group.and_then(|text| text.trim().parse::<u64>().ok()).unwrap_or(u64::MAX);
    let most = available.min(group);
    let mib = |bytes: u64| bytes / (KIB * KIB);
    let found = format!("{} MiB available, queries may take {}", mib(most), mib(wanted));
    Some(if most < wanted {
        let advice = "lower memory_bytes of the replica, or give the machine more memory";
        Finding::warn("memory", "replica", found).advice(advice)
    } else {
        Finding::ok("memory", "replica", found)
    })
}
