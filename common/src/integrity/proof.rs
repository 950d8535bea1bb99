//! Proofs over an RFC 6962 tree: which hashes they hold, and how a stranger checks them.
//!
//! Sources: RFC 9162 §2.1.3.2 (inclusion) and §2.1.4.2 (consistency); for subtrees
//! draft-ietf-plants-merkle-tree-certs §4.3 and §4.4, of which the two are the case `start = 0`.

use super::merkle::{CompactRange, Hash, empty_root, node_hash, subtrees};

/// Why a proof is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProofError {
    /// The positions contradict each other: no proof could help.
    #[error("proof is about positions that cannot be: {0}")]
    Positions(String),
    /// More or fewer hashes than these positions need.
    #[error("proof has {0} hashes, more or fewer than these positions need")]
    Length(usize),
    /// The hashes lead elsewhere.
    #[error("proof does not lead to the {0}")]
    Root(&'static str),
}

/// Leaf `index` with this hash is in the tree of `size` leaves and root `root`.
pub fn verify_inclusion(
    leaf: &Hash,
    index: u64,
    size: u64,
    proof: &[Hash],
    root: &Hash,
) -> Result<(), ProofError> {
    verify_subtree_inclusion(leaf, index, (0, size), proof, root)
}

/// Leaf `index` with this hash is in the subtree `[start, end)` with root `root`.
pub fn verify_subtree_inclusion(
    leaf: &Hash,
    index: u64,
    (start, end): (u64, u64),
    proof: &[Hash],
    root: &Hash,
) -> Result<(), ProofError> {
    check_subtree(start, end)?;
    if !(start..end).contains(&index) {
        let found = format!("leaf {index} of [{start}, {end})");
        return Err(ProofError::Positions(found));
    }
    let (mut at, mut last) = (index - start, end - start - 1);
    let mut hash = *leaf;
    for step in proof {
        if last == 0 {
            return Err(ProofError::Length(proof.len()));
        }
        if at & 1 == 1 || at == last {
            hash = node_hash(step, &hash);
            while at & 1 == 0 {
                at >>= 1;
                last >>= 1;
            }
        } else {
            hash = node_hash(&hash, step);
        }
        at >>= 1;
        last >>= 1;
    }
    match (last, hash == *root) {
        (0, true) => Ok(()),
        (0, false) => Err(ProofError::Root("root")),
        _ => Err(ProofError::Length(proof.len())),
    }
}

/// The tree of `new` leaves continues the tree of `old` leaves; equal sizes need equal roots.
/// Everything continues the empty tree: about size 0 there is no proof, and asking is refused
/// ([`verify_growth`] takes it).
pub fn verify_consistency(
    old: (u64, &Hash),
    new: (u64, &Hash),
    proof: &[Hash],
) -> Result<(), ProofError> {
    if old.0 == 0 || old.0 > new.0 {
        let found = format!("from {} to {} leaves", old.0, new.0);
        return Err(ProofError::Positions(found));
    }
    verify_subtree_consistency((0, old.0), old.1, new, proof)
}

/// As [`verify_consistency`], for who may not have seen anything yet: the empty tree needs its own
/// root and no proof.
pub fn verify_growth(
    old: (u64, &Hash),
    new: (u64, &Hash),
    proof: &[Hash],
) -> Result<(), ProofError> {
    match old {
        (0, root) => verify_subtree_consistency((0, 0), root, new, proof),
        _ => verify_consistency(old, new, proof),
    }
}

/// The subtree `[start, end)` with root `node` is part of the tree of `tree.0` leaves and root
/// `tree.1`. A subtree of nothing is part of every tree that reaches so far: the draft asks for its
/// own root only.
pub fn verify_subtree_consistency(
    (start, end): (u64, u64),
    node: &Hash,
    tree: (u64, &Hash),
    proof: &[Hash],
) -> Result<(), ProofError> {
    if end > tree.0 {
        let found = format!("[{start}, {end}) of {} leaves", tree.0);
        return Err(ProofError::Positions(found));
    }
    if start == end {
        return match (proof.is_empty(), *node == empty_root()) {
            (true, true) => Ok(()),
            (false, _) => Err(ProofError::Length(proof.len())),
            _ => Err(ProofError::Root("old root")),
        };
    }
    check_subtree(start, end)?;
    let (mut first, mut last, mut tail) = (start, end - 1, tree.0 - 1);
    while first != last && (last == tail || last & 1 == 1) {
        (first, last, tail) = (first >> 1, last >> 1, tail >> 1);
    }
    let mut steps = proof.iter();
    let seed =
        if first == last { node } else { steps.next().ok_or(ProofError::Length(proof.len()))? };
    let (mut part, mut whole) = (*seed, *seed);
    for step in steps {
        if tail == 0 {
            return Err(ProofError::Length(proof.len()));
        }
        if last & 1 == 1 || last == tail {
            if first < last {
                part = node_hash(step, &part);
            }
            whole = node_hash(step, &whole);
            while last & 1 == 0 {
                (first, last, tail) = (first >> 1, last >> 1, tail >> 1);
            }
        } else {
            whole = node_hash(&whole, step);
        }
        (first, last, tail) = (first >> 1, last >> 1, tail >> 1);
    }
    if tail != 0 {
        return Err(ProofError::Length(proof.len()));
    }
    if part != *node {
        return Err(ProofError::Root("old root"));
    }
    if whole == *tree.1 { Ok(()) } else { Err(ProofError::Root("root")) }
}

/// Not empty, and begins where a subtree that holds it may begin.
fn check_subtree(start: u64, end: u64) -> Result<(), ProofError> {
    let aligned = end.checked_sub(start).filter(|rows| *rows > 0).is_some_and(|rows| {
        // The power of two that holds them may itself be beyond u64.
        start == 0
            || rows.checked_next_power_of_two().is_some_and(|ceil| start.is_multiple_of(ceil))
    });
    if aligned { Ok(()) } else { Err(ProofError::Positions(format!("subtree [{start}, {end})"))) }
}

/// The leaves `range` are all of `[range.begin, range.end)` in the tree of this size and root:
/// `left` is the compact range of what is before, `right` of what is after.
pub fn verify_range(
    range: &CompactRange,
    left: &[Hash],
    right: &[Hash],
    (size, root): (u64, &Hash),
) -> Result<(), ProofError> {
    let positions = || {
        let found = format!("[{}, {}) of {size} leaves", range.begin(), range.end());
        ProofError::Positions(found)
    };
    if range.end() > size {
        return Err(positions());
    }
    let length = |_| ProofError::Length(left.len() + right.len());
    let mut tree = CompactRange::from_nodes(0, range.begin(), left.to_vec()).map_err(length)?;
    let after = CompactRange::from_nodes(range.end(), size, right.to_vec()).map_err(length)?;
    tree.merge(range).and_then(|()| tree.merge(&after)).map_err(|_| positions())?;
    match tree.root() {
        Ok(found) if found == *root => Ok(()),
        _ => Err(ProofError::Root("root")),
    }
}

/// The runs of leaves whose roots are the inclusion proof of `index`, in the proof's order.
pub(super) fn inclusion_runs(index: u64, size: u64) -> Vec<(u64, u64)> {
    let (mut begin, mut end, mut runs) = (0, size, Vec::new());
    while end - begin > 1 && (begin..end).contains(&index) {
        let middle = begin + split(end - begin);
        if index < middle {
            runs.push((middle, end));
            end = middle;
        } else {
            runs.push((begin, middle));
            begin = middle;
        }
    }
    runs.reverse();
    runs
}

/// The runs of leaves whose roots are the consistency proof from `old` to `new` leaves.
pub fn consistency_runs(old: u64, new: u64) -> Vec<(u64, u64)> {
    if old == 0 || old >= new {
        return Vec::new();
    }
    let (mut begin, mut end, mut runs) = (0, new, Vec::new());
    // RFC 6962 §2.1.2: down to where the old tree is one whole subtree.
    while end != old {
        let middle = begin + split(end - begin);
        if old <= middle {
            runs.push((middle, end));
            end = middle;
        } else {
            runs.push((begin, middle));
            begin = middle;
        }
    }
    if begin > 0 {
        runs.push((begin, end));
    }
    runs.reverse();
    runs
}

/// The largest power of two below `count`, which is at least 2.
fn split(count: u64) -> u64 {
    1 << (count - 1).ilog2()
}

/// The whole subtrees, as (level, index), that give the root of the run `[begin, end)`.
pub(super) fn nodes_of((begin, end): (u64, u64)) -> Vec<(u32, u64)> {
    subtrees(begin, end).into_iter().map(|(first, level)| (level, first >> level)).collect()
}

/// The root of a run from the roots of its subtrees, left to right.
pub(super) fn root_of(nodes: &[Hash]) -> Hash {
    let mut nodes = nodes.iter().rev();
    let Some(last) = nodes.next() else { return empty_root() };
    nodes.fold(*last, |right, left| node_hash(left, &right))
}
