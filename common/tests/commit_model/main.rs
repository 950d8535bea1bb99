//! The commit protocol's exhaustive model: every interleaving of two shippers, a trimmer and a reader, breadth first.
//!
//! Any process may stall for ever between two requests, and any create may land while its answer is
//! lost. The variants that were rejected are kept beside the one that is used: each must fail in the
//! way that the store study found, so that nobody "simplifies" the protocol back into one of them.

mod explore;
mod reader;
mod shipper;
mod store;
mod variant;

use explore::{Outcome, explore};
use store::Violation;
use variant::Variant;

/// Every reachable state was visited and none breaks an invariant.
fn assert_safe(variant: &Variant, states: usize) {
    let outcome = explore(variant);
    assert_eq!(outcome, Outcome::Safe { states }, "{}\n{outcome}", variant.name);
}

/// The shortest run that breaks an invariant breaks this one, after this many steps.
fn assert_violated(variant: &Variant, violation: Violation, steps: usize) {
    let outcome = explore(variant);
    let found = outcome.violation().map(|(violation, trace)| (violation, trace.len()));
    assert_eq!(found, Some((violation, steps)), "{}\n{outcome}", variant.name);
}

#[test]
fn a_create_only_log_that_is_never_trimmed_is_safe() {
    assert_safe(&variant::A, 2_410);
}

#[test]
fn a_prime_absence_of_the_next_record_proves_freshness_when_nothing_is_trimmed() {
    assert_safe(&variant::A_PRIME, 5_406);
}

#[test]
fn b_without_conditional_put_a_reader_diverges() {
    assert_violated(&variant::B, Violation::ReaderDiverged, 5);
}

#[test]
fn c_without_comparing_nonces_a_lost_answer_commits_a_segment_twice() {
    assert_violated(&variant::C, Violation::SegmentsNotInOrder, 6);
}

#[test]
fn d_deleting_old_records_lets_a_stalled_owner_lose_an_acknowledged_segment() {
    assert_violated(&variant::D, Violation::AckedSegmentNotInLineage, 12);
}

#[test]
fn e_a_boundary_that_only_shippers_check_lets_a_slow_reader_diverge() {
    assert_violated(&variant::E, Violation::ReaderDiverged, 10);
}

#[test]
fn f_a_boundary_that_shippers_and_readers_check_is_safe() {
    assert_safe(&variant::F, 62_468);
}

#[test]
fn g_with_deletion_absence_of_the_next_record_does_not_prove_freshness() {
    assert_violated(&variant::G, Violation::FreshnessOverstated, 10);
}

#[test]
fn h_absence_and_then_the_boundary_prove_freshness() {
    assert_safe(&variant::H, 114_080);
}

#[test]
fn i_trimming_by_tombstones_is_safe() {
    assert_safe(&variant::I, 20_176);
}

#[test]
fn j_with_tombstones_absence_proves_freshness_again() {
    assert_safe(&variant::J, 45_988);
}

#[test]
fn the_trace_of_a_violation_tells_the_whole_story() {
    let outcome = explore(&variant::C).to_string();
    let story = "\
        violated after 6 steps: segments of the lineage are not 0, 1, … once each\n\
        \x20 1. shipper 0: found no record, claims the stream, at 1\n\
        \x20 2. shipper 0: created a fence, at 1\n\
        \x20 3. shipper 0: owns the stream, at 1\n\
        \x20 4. shipper 0: created a segment's record, answer lost, at 2\n\
        \x20 5. shipper 0: takes the record for a conflict, tries the next number, at 2\n\
        \x20 6. shipper 0: created a segment's record, at 3\n";
    assert_eq!(outcome, story);
}
