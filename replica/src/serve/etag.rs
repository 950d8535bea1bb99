//! `ETag`: the same one means that the answer held would be right to give again.
//!
//! It is a weak one: two runs of a statement may order rows differently where the statement leaves
//! it open, and a JSON answer carries its query's id. Snapshots never change, so that nothing else
//! can differ.

use sealcast_common::fault::hex;
use sealcast_common::integrity::keyed_digest;
use sealcast_common::serve::access::Role;
use sealcast_vault::VaultSnapshot;

use super::params::QueryRequest;

/// Counts up when answers of the same rows get other bytes.
const ANSWERS_VERSION: u32 = 1;

/// The tag of what `statement` answers on `snapshot` to those who may see what the caller may.
pub(super) fn tag(snapshot: &VaultSnapshot, statement: &str, request: &QueryRequest) -> String {
    let said = serde_json::json!([
        ANSWERS_VERSION,
        env!("CARGO_PKG_VERSION"),
        hex(&snapshot.digest),
        statement,
        request.params,
        request.format.media_type(),
        request.end_marker,
        hex(&request.grant.tenants.digest()),
        request.grant.has(Role::Admin),
    ]);
    let digest = keyed_digest("replica answer", said.to_string().as_bytes());
    format!("W/\"{}\"", hex(&digest[..16]))
}

/// Whether an `If-None-Match` header names `tag`.
pub(crate) fn matches(stated: &str, tag: &str) -> bool {
    let opaque = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    stated.split(',').any(|one| one.trim() == "*" || opaque(one) == opaque(tag))
}
