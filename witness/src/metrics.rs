//! Names of the witness's metrics, one function each.

use metrics::{counter, gauge};

/// A request to cosign was answered.
pub(crate) fn answered(status: u16) {
    counter!("sealcast_witness_requests_total", "status" => status.to_string()).increment(1);
}

/// A log showed two histories.
pub(crate) fn forked() {
    counter!("sealcast_witness_forks_total").increment(1);
}

/// Logs that it cosigns.
pub(crate) fn logs(known: usize) {
    gauge!("sealcast_witness_logs").set(known as f64);
}
