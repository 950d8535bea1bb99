//! What proves that nothing changed: the row tree, byte hashes, signed notes.
//!
//! Rows are hashed with SHA-256 in an RFC 6962 tree, so that third parties can verify them; bytes
//! with CRC32 per block and BLAKE3 per file, because that costs less than the copy.

mod key_history;
mod merkle;
mod note;
mod policy;
mod proof;
mod signer;
mod tile;
mod tlog_proof;
mod witness;

#[cfg(test)]
mod key_history_tests;
#[cfg(test)]
mod proof_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod witness_tests;

pub use key_history::{HandOver, KeyHistory, check_hand_over, check_keys, shown_key};
pub use merkle::{CompactRange, Hash, empty_root, leaf_hash, node_hash, range_digest};
pub use note::{
    Checkpoint, CosignerKey, NamedKey, Note, NoteError, NoteSignature, VerifyKey, parse_signatures,
};
pub use policy::{Distrust, KnownLog, Policy, PolicyError, Witness};
pub use proof::{
    ProofError, consistency_runs, verify_consistency, verify_growth, verify_inclusion,
    verify_range, verify_subtree_consistency, verify_subtree_inclusion,
};
pub use signer::{
    Growth, GrowthRefusal, KeyFiles, Keyring, LocalSigner, LogSigner, RememberingSigner,
    RemoteSigner, RotateError, RunningSigner, SeedError, SignedFile, SignedState, Signer,
    SignerError, SignerServer, SignerStartError, is_allowed, load_or_make_seed, load_seed, own_uid,
    verify_detached,
};
pub use tile::{
    Edge, HASH_BYTES, Question, TILE_WIDTH, TileId, Tiles, hashes, index_path, parse_index,
};
pub use tlog_proof::{TlogProof, TlogProofError};
pub use witness::{
    AddCheckpoint, Admitted, Refusal, SIZE_MEDIA_TYPE, origin_hash, parse_size, size_text,
};

use std::sync::LazyLock;

use blake3::hazmat::{ContextKey, HasherExt as _, hash_derive_key_context};
use sha2::{Digest as _, Sha256};

/// BLAKE3 of a whole file or object.
pub fn file_hash(bytes: &[u8]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(bytes);
    *hasher.finalize().as_bytes()
}

/// CRC32 (IEEE) of a block.
pub fn crc32(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

/// Domain-separated 64-bit digest, for lookups that a full comparison follows or that only guard
/// against accidents.
pub fn short_digest(domain: &str, bytes: &[u8]) -> u64 {
    let digest = keyed_digest(domain, bytes);
    u64::from_be_bytes([
        digest[0], digest[1], digest[2], digest[3], digest[4], digest[5], digest[6], digest[7],
    ])
}

/// Domain-separated 256-bit digest.
pub fn keyed_digest(domain: &str, bytes: &[u8]) -> [u8; 32] {
    // Made anew from its key: to copy a hasher is to copy two kilobytes.
    static KEY: LazyLock<ContextKey> =
        LazyLock::new(|| hash_derive_key_context("sealcast 2026-12 digest v1"));
    let mut hasher = blake3::Hasher::new_from_context_key(&KEY);
    let parts = [&(domain.len() as u64).to_le_bytes(), domain.as_bytes(), bytes];
    // What fits into a block, as ids do, goes there in one piece.
    let (mut block, mut end) = ([0; 64], 0);
    let fits = parts.iter().all(|part| {
        let room = block.get_mut(end..end + part.len());
        end += part.len();
        room.map(|room| room.copy_from_slice(part)).is_some()
    });
    if fits {
        hasher.update(&block[..end]);
    } else {
        for part in parts {
            hasher.update(part);
        }
    }
    *hasher.finalize().as_bytes()
}

/// The log id that binds a leaf to its shard: first 16 bytes of SHA-256 of the origin.
pub fn log_id(origin: &str) -> [u8; 16] {
    let digest = Sha256::digest(origin.as_bytes());
    let mut id = [0; 16];
    id.copy_from_slice(&digest[..16]);
    id
}

/// The origin of a shard's log: `<cluster>/<shard in four hex digits>`.
pub fn shard_origin(cluster: &str, shard: u16) -> String {
    format!("{cluster}/{shard:04x}")
}
