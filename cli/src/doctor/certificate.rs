//! A certificate's dates and names, as findings.

use sealcast_common::clock::Micros;
use sealcast_common::serve::CertificateText;

use super::Finding;

const DAY_MICROS: i64 = 24 * 3600 * 1_000_000;
/// Renewals that come later than this before the end have failed.
const DAYS_LEFT_FEW: i64 = 14;

/// Dates and names, as findings about `file`.
pub(super) fn findings(certificate: &CertificateText, file: &str, now: Micros) -> Vec<Finding> {
    let CertificateText { from, until, names } = certificate;
    let days = (until.0 - now.0).div_euclid(DAY_MICROS);
    let found = format!("valid from {from} until {until}");
    let advice = "renew it; roles read the new files by themselves";
    let dates = if !certificate.is_valid(now) {
        Finding::fail("tls", file, format!("{found}, not now")).advice(advice)
    } else if days < DAYS_LEFT_FEW {
        Finding::warn("tls", file, format!("{found}: {days} days left")).advice(advice)
    } else {
        Finding::ok("tls", file, found)
    };
    let names = if names.is_empty() {
        let advice = "make one with the names that clients use (subjectAltName)";
        Finding::warn("tls", file, "it is for no name").advice(advice)
    } else {
        Finding::ok("tls", file, format!("for {}", names.join(", ")))
    };
    vec![dates, names]
}
