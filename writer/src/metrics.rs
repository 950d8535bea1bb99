//! The writer's metrics: names in one place, labels from closed sets.

use std::time::Duration;

use metrics::{counter, gauge, histogram};

/// A request to `POST /v1/events` has been answered.
pub(crate) fn answered(status: u16) {
    let class = match status {
        200..=299 => "2xx",
        400..=499 => "4xx",
        _ => "5xx",
    };
    counter!("sealcast_writer_requests_total", "status" => class).increment(1);
}

/// Events of an answered request.
pub(crate) fn events(accepted: usize, duplicates: usize, rejected: usize) {
    let name = "sealcast_writer_events_total";
    let fresh = accepted.saturating_sub(duplicates);
    counter!(name, "result" => "accepted").increment(fresh as u64);
    counter!(name, "result" => "duplicate").increment(duplicates as u64);
    counter!(name, "result" => "rejected").increment(rejected as u64);
}

/// A body has been received.
pub(crate) fn received(bytes: usize) {
    counter!("sealcast_writer_received_bytes_total").increment(bytes as u64);
}

/// A group of requests has been committed.
pub(crate) fn grouped(requests: usize, events: usize, bytes: usize) {
    histogram!("sealcast_writer_group_requests").record(requests as f64);
    histogram!("sealcast_writer_group_events").record(events as f64);
    histogram!("sealcast_writer_group_bytes").record(bytes as f64);
}

/// A sync has returned.
pub(crate) fn synced(took: Duration) {
    histogram!("sealcast_writer_sync_seconds").record(took.as_secs_f64());
}

/// A segment has been sealed.
pub(crate) fn sealed(took: Duration, bytes: u64) {
    histogram!("sealcast_writer_seal_seconds").record(took.as_secs_f64());
    counter!("sealcast_writer_segments_sealed_total").increment(1);
    counter!("sealcast_writer_sealed_bytes_total").increment(bytes);
}

/// A shard's tail has changed.
pub(crate) fn tail(shard: u16, rows: usize, bytes: u64) {
    let shard = format!("{shard:04x}");
    gauge!("sealcast_writer_tail_rows", "shard" => shard.clone()).set(rows as f64);
    gauge!("sealcast_writer_tail_bytes", "shard" => shard).set(bytes as f64);
}

/// A seal has failed; it is made again if the disk is to blame.
pub(crate) fn seal_failed() {
    counter!("sealcast_writer_seal_failures_total").increment(1);
}

/// A shard has stopped taking events, or takes them again.
pub(crate) fn faulty(shard: u16, faulty: bool) {
    let shard = format!("{shard:04x}");
    gauge!("sealcast_writer_shard_faulty", "shard" => shard).set(if faulty { 1.0 } else { 0.0 });
}

/// A request was refused before anything of it was written.
pub(crate) fn refused(limit: &'static str) {
    counter!("sealcast_writer_refused_total", "limit" => limit).increment(1);
}
