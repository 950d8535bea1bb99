//! Names of the shipper's metrics, one function each.

use std::time::Duration;

use metrics::{counter, gauge, histogram};
use sealcast_common::bucket::probe::Verdict;

/// An object was put.
pub(crate) fn uploaded(bytes: u64) {
    counter!("sealcast_shipper_uploaded_segments_total").increment(1);
    counter!("sealcast_shipper_uploaded_bytes_total").increment(bytes);
}

/// A commit stands; `took` from the first attempt to certainty.
pub(crate) fn committed(took: Duration) {
    counter!("sealcast_shipper_commits_total").increment(1);
    histogram!("sealcast_shipper_commit_seconds").record(took.as_secs_f64());
}

/// Age of the oldest sealed segment that is not committed.
pub(crate) fn lag(millis: u64) {
    gauge!("sealcast_shipper_lag_seconds").set(Duration::from_millis(millis).as_secs_f64());
}

/// How long ago the store last gave the answer that a turn needed.
pub(crate) fn store_age(millis: u64) {
    gauge!("sealcast_shipper_store_age_seconds").set(Duration::from_millis(millis).as_secs_f64());
}

/// What the probe at start found: 1 kept, 0 broken, -1 no answer.
pub(crate) fn store_check(check: &'static str, verdict: Verdict) {
    let value = match verdict {
        Verdict::Kept => 1.0,
        Verdict::Broken => 0.0,
        Verdict::Unknown => -1.0,
    };
    gauge!("sealcast_shipper_store_check_state", "check" => check).set(value);
}

/// Something failed; `kind` is from a closed list.
pub(crate) fn failed(kind: &'static str) {
    counter!("sealcast_shipper_errors_total", "kind" => kind).increment(1);
}

/// The cluster log grew.
pub(crate) fn cluster(size: u64, epoch: u64) {
    gauge!("sealcast_shipper_cluster_size").set(size as f64);
    gauge!("sealcast_shipper_cluster_epoch").set(epoch as f64);
}
