//! C2SP tiles: the tree as files of 256 hashes, from which anybody makes any proof.
//!
//! Source: C2SP `tlog-tiles`. Tile (level, index) holds the roots of the whole subtrees of
//! `256^level` leaves from `index * 256` on; the last one of a level may be partial.

use std::collections::{BTreeMap, BTreeSet};

use super::merkle::{CompactRange, Hash, node_hash};
use super::proof::{consistency_runs, inclusion_runs, nodes_of, root_of};
use crate::fault::Corruption;

/// Hashes in a full tile.
pub const TILE_WIDTH: u64 = 256;
/// Bytes of a hash in a tile.
pub const HASH_BYTES: usize = 32;
const HEIGHT: u32 = 8;

/// A tile's place in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TileId {
    /// 0 for leaf hashes.
    pub level: u32,
    /// From the left.
    pub index: u64,
}

impl TileId {
    /// The tile that holds what the subtree's root is made of.
    fn of_node(level: u32, index: u64) -> (Self, usize, usize) {
        let height = level % HEIGHT;
        let first = index << height;
        let id = TileId { level: level / HEIGHT, index: first / TILE_WIDTH };
        // Less than 256 both.
        (id, (first % TILE_WIDTH) as usize, 1 << height)
    }

    /// How many hashes it has in a tree of `size` leaves.
    pub fn width(self, size: u64) -> u64 {
        let entries = size.checked_shr(self.level * HEIGHT).unwrap_or(0);
        entries.saturating_sub(self.index.saturating_mul(TILE_WIDTH)).min(TILE_WIDTH)
    }

    /// The leaves below the first hashes of the tile, with these hashes as their roots.
    pub fn covers(self, bytes: &[u8]) -> Result<CompactRange, Corruption> {
        let rows = 1u64.checked_shl(self.level * HEIGHT).unwrap_or(0);
        let first = self.index.saturating_mul(TILE_WIDTH).saturating_mul(rows);
        let mut range = CompactRange::empty(first);
        for hash in hashes(bytes) {
            let (from, to) = (range.end(), range.end().saturating_add(rows));
            range.merge(&CompactRange::from_nodes(from, to, vec![hash])?)?;
        }
        Ok(range)
    }

    /// `<L>/<N>[.p/<W>]`, behind `tile/`.
    pub fn path(self, width: u64) -> String {
        let partial = if width == TILE_WIDTH { String::new() } else { format!(".p/{width}") };
        format!("{}/{}{partial}", self.level, index_path(self.index))
    }

    /// Parses what [`TileId::path`] gives: the tile and its width.
    pub fn parse(path: &str) -> Option<(Self, u64)> {
        let (level, rest) = path.split_once('/')?;
        let level = decimal(level).filter(|level| *level <= 63)?;
        let (index, width) = parse_index(rest)?;
        Some((TileId { level: u32::try_from(level).ok()?, index }, width))
    }
}

/// `1234067` as `x001/x234/067`.
pub fn index_path(index: u64) -> String {
    let mut path = format!("{:03}", index % 1000);
    let mut rest = index / 1000;
    while rest > 0 {
        path = format!("x{:03}/{path}", rest % 1000);
        rest /= 1000;
    }
    path
}

/// `<N>[.p/<W>]` as tile index and width.
pub fn parse_index(path: &str) -> Option<(u64, u64)> {
    let (path, width) = match path.split_once(".p/") {
        Some((path, width)) => (path, decimal(width).filter(|w| (1..TILE_WIDTH).contains(w))?),
        None => (path, TILE_WIDTH),
    };
    let mut index = 0u64;
    let mut elements = path.split('/').peekable();
    while let Some(element) = elements.next() {
        let digits = match (element.strip_prefix('x'), elements.peek()) {
            (Some(digits), Some(_)) => digits,
            (None, None) => element,
            _ => return None,
        };
        if digits.len() != 3 || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        index = index.checked_mul(1000)?.checked_add(digits.parse().ok()?)?;
    }
    // One name per tile: no leading `x000`.
    (index_path(index) == path).then_some((index, width))
}

fn decimal(text: &str) -> Option<u64> {
    let canonical = text == "0" || !text.starts_with(['0', '+']);
    text.parse().ok().filter(|_| canonical)
}

/// What somebody wants to know of a tree of a given size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// The inclusion proof of this leaf.
    Inclusion(u64),
    /// The consistency proof from a tree of this many leaves.
    Consistency(u64),
    /// The compact range of `[begin, end)`.
    Range(u64, u64),
}

impl Question {
    fn runs(self, size: u64) -> Vec<(u64, u64)> {
        match self {
            Question::Inclusion(index) => inclusion_runs(index, size),
            Question::Consistency(old) => consistency_runs(old, size),
            Question::Range(begin, end) => nodes_of((begin, end))
                .into_iter()
                .map(|(level, index)| (index << level, (index + 1) << level))
                .collect(),
        }
    }

    /// The tiles that answer it.
    pub fn tiles(self, size: u64) -> BTreeSet<TileId> {
        let nodes = self.runs(size).into_iter().flat_map(nodes_of);
        nodes.map(|(level, index)| TileId::of_node(level, index).0).collect()
    }
}

/// Tiles at hand. Nothing in them is believed: a proof made from them is checked.
#[derive(Clone, Debug, Default)]
pub struct Tiles(BTreeMap<TileId, Vec<u8>>);

impl Tiles {
    /// Adds a tile; one that is already there is replaced.
    pub fn insert(&mut self, id: TileId, bytes: Vec<u8>) {
        self.0.insert(id, bytes);
    }

    /// A tile.
    pub fn get(&self, id: TileId) -> Option<&[u8]> {
        self.0.get(&id).map(Vec::as_slice)
    }

    /// The answer in a tree of `size` leaves; the tiles that it needs must be there.
    pub fn answer(&self, question: Question, size: u64) -> Result<Vec<Hash>, Corruption> {
        let roots = question.runs(size).into_iter().map(|run| {
            let nodes = nodes_of(run).into_iter().map(|(level, index)| self.node(level, index));
            Ok(root_of(&nodes.collect::<Result<Vec<_>, _>>()?))
        });
        roots.collect()
    }

    /// The root of the whole subtree (level, index).
    fn node(&self, level: u32, index: u64) -> Result<Hash, Corruption> {
        let (id, first, count) = TileId::of_node(level, index);
        let bytes = self.get(id).unwrap_or_default();
        let part =
            bytes.get(first * HASH_BYTES..(first + count) * HASH_BYTES).ok_or_else(|| {
                let expected = format!("at least {} hashes", first + count);
                let found = format!("{} bytes", bytes.len());
                Corruption::new("tile", None, expected, found).in_object(id.path(TILE_WIDTH))
            })?;
        Ok(complete_root(hashes(part)))
    }
}

/// A tile's bytes as hashes; a rest of fewer than 32 bytes is no hash.
pub fn hashes(bytes: &[u8]) -> Vec<Hash> {
    bytes.as_chunks::<HASH_BYTES>().0.to_vec()
}

/// The root over a power of two of hashes.
fn complete_root(mut row: Vec<Hash>) -> Hash {
    while row.len() > 1 {
        row = row.as_chunks::<2>().0.iter().map(|[left, right]| node_hash(left, right)).collect();
    }
    row.first().copied().unwrap_or_default()
}

/// The right edge of a tree's tiles: grows leaf by leaf and gives each tile as it fills.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edge {
    size: u64,
    /// The partial tile of each level; each has fewer than 256 hashes.
    levels: Vec<Vec<Hash>>,
}

impl Edge {
    /// Of a tree of `size` leaves; every level must have the number of hashes that it needs.
    pub fn new(size: u64, levels: Vec<Vec<Hash>>) -> Result<Self, Corruption> {
        let edge = Edge { size, levels };
        let wanted = edge_widths(size);
        let found: Vec<u64> = edge.levels.iter().map(|level| level.len() as u64).collect();
        if found == wanted {
            return Ok(edge);
        }
        let expected = format!("{wanted:?} hashes at the right edge of {size} leaves");
        Err(Corruption::new("tile", None, expected, format!("{found:?}")))
    }

    /// Leaves.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The partial tiles, leaf hashes first.
    pub fn levels(&self) -> &[Vec<Hash>] {
        &self.levels
    }

    /// Appends a leaf's hash. Tiles that it fills go to `full`, the lowest first.
    pub fn append(&mut self, leaf: Hash, full: &mut Vec<(TileId, Vec<u8>)>) {
        let mut hash = leaf;
        for level in 0.. {
            if self.levels.len() == level {
                self.levels.push(Vec::new());
            }
            let row = &mut self.levels[level];
            row.push(hash);
            if (row.len() as u64) < TILE_WIDTH {
                break;
            }
            let row = std::mem::take(row);
            let level = u32::try_from(level).unwrap_or(u32::MAX);
            let index = self.size >> ((level + 1) * HEIGHT);
            full.push((TileId { level, index }, row.concat()));
            hash = complete_root(row);
        }
        self.size += 1;
    }

    /// The partial tile of the tree's own size, or nothing where it is empty or full.
    pub fn partial(&self, id: TileId) -> Option<Vec<u8>> {
        let row = self.levels.get(usize::try_from(id.level).ok()?)?;
        let entries = self.size.checked_shr(id.level * HEIGHT).unwrap_or(0);
        (!row.is_empty() && id.index == entries / TILE_WIDTH).then(|| row.concat())
    }

    /// The compact range of all leaves.
    pub fn tree(&self) -> Result<CompactRange, Corruption> {
        let mut nodes = Vec::new();
        for row in self.levels.iter().rev() {
            let mut rest = row.as_slice();
            while !rest.is_empty() {
                let (whole, after) = rest.split_at(1 << rest.len().ilog2());
                nodes.push(complete_root(whole.to_vec()));
                rest = after;
            }
        }
        CompactRange::from_nodes(0, self.size, nodes)
    }
}

/// How many hashes the partial tile of each level has.
fn edge_widths(size: u64) -> Vec<u64> {
    let mut widths = Vec::new();
    let mut rest = size;
    while rest > 0 {
        widths.push(rest % TILE_WIDTH);
        rest /= TILE_WIDTH;
    }
    widths
}
