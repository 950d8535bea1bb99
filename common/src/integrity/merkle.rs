//! RFC 6962 history tree as compact ranges: the few hashes that stand for a run of leaves.
//!
//! A compact range `[begin, end)` holds the roots of the maximal aligned subtrees that tile it
//! (at most 2·log2 n). Ranges that touch merge without the leaves, so a segment's range nodes and
//! the frontier before it give the root after it. Source: RFC 6962 §2.1 and the compact range
//! notes of transparency-dev.

use sha2::{Digest as _, Sha256};

use crate::fault::{Corruption, hex};

/// A node of the tree.
pub type Hash = [u8; 32];

/// Hash of a leaf: SHA-256(0x00 ‖ leaf).
pub fn leaf_hash(leaf: &[u8]) -> Hash {
    let mut hasher = Sha256::new();
    hasher.update([0]);
    hasher.update(leaf);
    hasher.finalize().into()
}

/// Hash of an inner node: SHA-256(0x01 ‖ left ‖ right).
pub fn node_hash(left: &Hash, right: &Hash) -> Hash {
    let mut bytes = [1; 65];
    bytes[1..33].copy_from_slice(left);
    bytes[33..].copy_from_slice(right);
    Sha256::digest(bytes).into()
}

/// Root of the tree with no leaves: SHA-256 of nothing.
pub fn empty_root() -> Hash {
    Sha256::digest([]).into()
}

/// One hash over a list of range nodes: what a descriptor carries instead of the list.
pub fn range_digest(nodes: &[Hash]) -> Hash {
    let mut hasher = Sha256::new();
    for node in nodes {
        hasher.update(node);
    }
    hasher.finalize().into()
}

/// The maximal aligned subtrees that tile `[begin, end)`, left to right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactRange {
    begin: u64,
    end: u64,
    nodes: Vec<Hash>,
}

impl CompactRange {
    /// The range with no leaves at `at`.
    pub fn empty(at: u64) -> Self {
        CompactRange { begin: at, end: at, nodes: Vec::new() }
    }

    /// A range from stored nodes; their number must be what `[begin, end)` needs.
    pub fn from_nodes(begin: u64, end: u64, nodes: Vec<Hash>) -> Result<Self, Corruption> {
        let expected = subtrees(begin, end).len();
        if begin > end || nodes.len() != expected {
            let expected = format!("{expected} nodes for [{begin}, {end})");
            return Err(Corruption::new("range_nodes", None, expected, nodes.len().to_string()));
        }
        Ok(CompactRange { begin, end, nodes })
    }

    /// First leaf.
    pub fn begin(&self) -> u64 {
        self.begin
    }

    /// One past the last leaf; the tree's size when `begin` is zero.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// The subtree roots, left to right.
    pub fn nodes(&self) -> &[Hash] {
        &self.nodes
    }

    /// Appends one leaf's hash.
    pub fn append(&mut self, leaf: Hash) {
        self.append_subtree(leaf, 0);
    }

    /// Appends the range that begins where this one ends.
    pub fn merge(&mut self, next: &CompactRange) -> Result<(), Corruption> {
        if next.begin != self.end {
            let expected = format!("a range that begins at {}", self.end);
            return Err(Corruption::new("contiguity", None, expected, next.begin.to_string()));
        }
        for ((_, level), hash) in subtrees(next.begin, next.end).into_iter().zip(&next.nodes) {
            self.append_subtree(*hash, level);
        }
        Ok(())
    }

    fn append_subtree(&mut self, hash: Hash, level: u32) {
        let mut hash = hash;
        let mut level = level;
        let end = self.end + (1u64 << level);
        loop {
            let size = 1u64 << level;
            let begin = end - size;
            // The subtree [begin, end) is a right child exactly if its index is odd.
            if begin & size == 0 || begin < size || begin - size < self.begin {
                break;
            }
            match self.nodes.pop() {
                Some(left) => hash = node_hash(&left, &hash),
                None => break,
            }
            level += 1;
        }
        self.nodes.push(hash);
        self.end = end;
    }

    /// Root of the tree; only a range that begins at zero has one.
    pub fn root(&self) -> Result<Hash, Corruption> {
        if self.begin != 0 {
            return Err(Corruption::new("root", None, "a range from 0", self.begin.to_string()));
        }
        Ok(super::proof::root_of(&self.nodes))
    }

    /// Compares with what a seal claims.
    pub fn check_nodes(&self, claimed: &[Hash]) -> Result<(), Corruption> {
        if self.nodes == claimed {
            return Ok(());
        }
        let show = |nodes: &[Hash]| hex(&range_digest(nodes)[..8]);
        Err(Corruption::new("range_nodes", None, show(claimed), show(&self.nodes)))
    }
}

/// The aligned subtrees of `[begin, end)`, left to right, as (first leaf, level).
pub(super) fn subtrees(begin: u64, end: u64) -> Vec<(u64, u32)> {
    let mut at = begin;
    let mut list = Vec::new();
    while at < end {
        let alignment = if at == 0 { 63 } else { at.trailing_zeros().min(63) };
        let level = alignment.min((end - at).ilog2());
        list.push((at, level));
        at += 1u64 << level;
    }
    list
}
