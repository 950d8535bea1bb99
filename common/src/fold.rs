//! A fast hash for tables in memory: keyed by chance at every start, stored nowhere.
//!
//! Sixteen bytes at a time are multiplied by secret numbers and folded (as wyhash and its kin do).
//! Without the numbers nobody can choose texts that collide; it is no proof of anything.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::LazyLock;

/// The secret numbers of this process.
static KEYS: LazyLock<[u64; 2]> = LazyLock::new(|| {
    let random = RandomState::new();
    [random.hash_one(0), random.hash_one(1)]
});

/// For `HashMap`.
#[derive(Clone, Copy, Debug)]
pub struct Fold([u64; 2]);

impl Default for Fold {
    fn default() -> Self {
        Fold(*KEYS)
    }
}

impl BuildHasher for Fold {
    type Hasher = Folder;

    fn build_hasher(&self) -> Folder {
        Folder { state: self.0[0], keys: self.0 }
    }
}

/// One hash under way.
#[derive(Clone, Debug)]
pub struct Folder {
    state: u64,
    keys: [u64; 2],
}

/// The hash of `bytes` in this process.
pub fn fold(bytes: &[u8]) -> u64 {
    let mut folder = Fold::default().build_hasher();
    folder.write(bytes);
    folder.finish()
}

fn multiply(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ (product >> 64) as u64
}

impl Folder {
    fn take(&mut self, low: u64, high: u64) {
        self.state = multiply(self.state ^ low, self.keys[1] ^ high);
    }
}

impl Hasher for Folder {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let (pairs, rest) = bytes.as_chunks::<16>();
        let word = |bytes: &[u8]| bytes.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        for pair in pairs {
            self.take(word(pair), word(&pair[8..]));
        }
        // The length tells a shorter text from one that goes on in zeros. It lies in the byte that
        // a rest of at most 15 leaves free: elsewhere it would be mistaken for text.
        let mut last = [0; 16];
        last[..rest.len()].copy_from_slice(rest);
        self.take(word(&last), word(&last[8..]) ^ (bytes.len() as u64).rotate_right(8));
    }

    fn write_u8(&mut self, value: u8) {
        self.take(u64::from(value), 0);
    }

    fn write_u64(&mut self, value: u64) {
        self.take(value, 0);
    }

    fn write_usize(&mut self, value: usize) {
        self.take(value as u64, 0);
    }

    fn finish(&self) -> u64 {
        multiply(self.state ^ self.keys[1], self.keys[0])
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn texts_that_differ_differ_in_all_bits() {
        let (mut seen, mut low) = (HashSet::new(), HashSet::new());
        for length in 0..70 {
            for at in 0..length {
                for byte in [1, 2, 128] {
                    let mut bytes = vec![0; length];
                    bytes[at] = byte;
                    seen.insert(fold(&bytes));
                    low.insert(fold(&bytes) & 0xf_ffff);
                }
            }
            seen.insert(fold(&vec![0; length]));
        }
        let count = 70 * 69 / 2 * 3 + 70;
        assert_eq!(seen.len(), count);
        assert!(low.len() > count - 200, "{}", low.len());
        let ends: HashSet<u64> = (0..100_000).map(|i| fold(format!("u-{i}").as_bytes())).collect();
        assert_eq!(ends.len(), 100_000);
    }
}
