//! What a log's signer remembers, and the only step it takes from there. Pure.

use super::super::merkle::{CompactRange, Hash, empty_root};
use crate::fault::{Corruption, hex};

/// A tree that was signed: enough to tell whether another one continues it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedState {
    size: u64,
    root: Hash,
    frontier: Vec<Hash>,
}

/// Leaves `[from, to)` that are to follow what was signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Growth {
    /// Where they begin: the size signed last.
    pub from: u64,
    /// RFC 6962 compact range of `[from, to)`, left to right.
    pub nodes: Vec<Hash>,
    /// The size to sign.
    pub to: u64,
    /// The root to sign.
    pub root: Hash,
}

/// Why growth is not signed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrowthRefusal {
    /// One log, two trees of one size.
    #[error(
        "size {size} was signed with root {}, not {}: the log would show two histories",
        hex(signed),
        hex(offered)
    )]
    Fork {
        /// The size of both.
        size: u64,
        /// As signed.
        signed: Hash,
        /// As offered.
        offered: Hash,
    },
    /// The whole tree is smaller than a signed one.
    #[error("data ends before what was signed: found size {found}, signed was {signed}")]
    Smaller {
        /// As signed.
        signed: u64,
        /// As offered.
        found: u64,
    },
    /// The leaves begin inside the signed tree: a restored copy that went on.
    #[error(
        "data ended before what was signed: leaves follow {from}, expected them to follow {signed}"
    )]
    Behind {
        /// As signed.
        signed: u64,
        /// Where the leaves begin.
        from: u64,
    },
    /// The leaves begin after the signed tree: signed by somebody else, or an old memory.
    #[error(
        "data is ahead of what was signed: leaves follow {from}, expected them to follow {signed}"
    )]
    Ahead {
        /// As signed.
        signed: u64,
        /// Where the leaves begin.
        from: u64,
    },
    /// The nodes are no compact range of `[from, to)`.
    #[error("nodes are no compact range: found {found}, expected {expected}")]
    Nodes {
        /// As offered.
        found: String,
        /// What `[from, to)` needs.
        expected: String,
    },
    /// What was signed and the nodes give another root.
    #[error(
        "root {} does not follow: the signed tree and the nodes give {}",
        hex(offered),
        hex(computed)
    )]
    Root {
        /// As offered.
        offered: Hash,
        /// As computed.
        computed: Hash,
    },
}

impl Growth {
    /// The leaves of `range`, after which the tree has `root`.
    pub fn new(range: &CompactRange, root: Hash) -> Self {
        Growth { from: range.begin(), nodes: range.nodes().to_vec(), to: range.end(), root }
    }
}

impl Default for SignedState {
    /// Of a log that has signed nothing.
    fn default() -> Self {
        SignedState { size: 0, root: empty_root(), frontier: Vec::new() }
    }
}

impl SignedState {
    /// The state of a tree `[0, size)`.
    pub fn of(tree: &CompactRange) -> Result<Self, Corruption> {
        let (size, root) = (tree.end(), tree.root()?);
        Ok(SignedState { size, root, frontier: tree.nodes().to_vec() })
    }

    /// Leaves.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Root of the tree with that many leaves.
    pub fn root(&self) -> &Hash {
        &self.root
    }

    /// RFC 6962 compact range of `[0, size)`.
    pub fn frontier(&self) -> &[Hash] {
        &self.frontier
    }

    /// The state after `growth`, or why there is none. The same size and root again are the state
    /// itself: whoever lost the signature in a crash asks for it again.
    pub fn grow(&self, growth: &Growth) -> Result<SignedState, GrowthRefusal> {
        let (signed, from) = (self.size, growth.from);
        if growth.to == signed {
            if growth.root == self.root {
                return Ok(self.clone());
            }
            let (signed, offered) = (self.root, growth.root);
            return Err(GrowthRefusal::Fork { size: growth.to, signed, offered });
        }
        if growth.to < signed {
            return Err(GrowthRefusal::Smaller { signed, found: growth.to });
        }
        if from < signed {
            return Err(GrowthRefusal::Behind { signed, from });
        }
        if from > signed {
            return Err(GrowthRefusal::Ahead { signed, from });
        }
        let nodes = |Corruption { found, expected, .. }| GrowthRefusal::Nodes { found, expected };
        let mut tree = CompactRange::from_nodes(0, signed, self.frontier.clone()).map_err(nodes)?;
        let range = CompactRange::from_nodes(from, growth.to, growth.nodes.clone());
        tree.merge(&range.map_err(nodes)?).map_err(nodes)?;
        let grown = SignedState::of(&tree).map_err(nodes)?;
        if grown.root != growth.root {
            let (offered, computed) = (growth.root, grown.root);
            return Err(GrowthRefusal::Root { offered, computed });
        }
        Ok(grown)
    }
}
