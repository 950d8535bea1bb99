//! Listings of `cargo tree` that disagree.

use super::places;
use crate::rules::features;

#[test]
fn drift_is_found() {
    let own =
        "sealcast-cli v0.1.0 (somewhere) [default]\nmio v1.0.0 [net]\nhttp v1.0.0 [std] (*)\n";
    let whole = "sealcast-cli v0.1.0 (somewhere) []\nmio v1.0.0 [fs,net]\nhttp v1.0.0 [std]\n\n";
    let findings = features::drift("-p sealcast-cli", own, "--workspace", whole);
    assert_eq!(places(&findings), ["Cargo.toml:1 `mio v1.0.0 [net]` with -p sealcast-cli"]);
    assert!(findings[0].expected.contains("mio v1.0.0 [fs,net]"), "{}", findings[0]);
    assert!(features::drift("-p sealcast-cli", whole, "--workspace", whole).is_empty());
}

#[test]
fn a_version_of_its_own_is_found() {
    let findings =
        features::drift("-p x", "rand v0.9.1 [std]\n", "--workspace", "rand v0.8.5 []\n");
    assert!(findings[0].expected.contains("no such version"), "{}", findings[0]);
}

#[test]
fn a_heavy_contract_is_found() {
    let listing = "sealcast-common v0.1.0 (somewhere) []\nbytes v1.0.0 []\ntokio-util v0.7.0 []\n";
    let found = places(&features::heavy(listing));
    assert_eq!(found, ["common/Cargo.toml:1 `tokio-util v0.7.0 []`"]);
}
