//! Tenant → shard: a consistent-hash ring that writer and replica compute alike.

use std::collections::BTreeMap;

/// Virtual nodes of a shard on the ring.
pub const VIRTUAL_NODES: u32 = 256;
/// The routing version before any routing decision has been made.
pub const FIRST_ROUTING_VERSION: u64 = 1;

/// A ring of shards, keyed by the cluster's name. The same cluster and shards give the same ring.
#[derive(Clone, Debug)]
pub struct Ring {
    points: BTreeMap<u64, u16>,
    key: [u8; 32],
}

impl Ring {
    /// A ring of `shards`, with [`VIRTUAL_NODES`] points each.
    pub fn new(cluster: &str, shards: impl IntoIterator<Item = u16>) -> Self {
        let key = crate::integrity::keyed_digest("routing ring", cluster.as_bytes());
        let mut points = BTreeMap::new();
        for shard in shards {
            for node in 0..VIRTUAL_NODES {
                let mut name = [0; 7];
                name[0] = b's';
                name[1..3].copy_from_slice(&shard.to_be_bytes());
                name[3..].copy_from_slice(&node.to_be_bytes());
                // On a collision the lower shard wins, whatever the order of insertion.
                let at = point(&key, &name);
                points.entry(at).and_modify(|s: &mut u16| *s = shard.min(*s)).or_insert(shard);
            }
        }
        Ring { points, key }
    }

    /// The tenant's shard; `None` only when the ring has no shard.
    pub fn shard(&self, tenant: &str) -> Option<u16> {
        let name = [b"t", tenant.as_bytes()].concat();
        let at = point(&self.key, &name);
        self.points.range(at..).next().or_else(|| self.points.iter().next()).map(|(_, s)| *s)
    }
}

fn point(key: &[u8; 32], name: &[u8]) -> u64 {
    let mut hasher = blake3::Hasher::new_keyed(key);
    hasher.update(name);
    let digest = hasher.finalize();
    digest.as_bytes().iter().take(8).fold(0, |value, byte| (value << 8) | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adding_a_shard_moves_tenants_only_to_it() {
        let before = Ring::new("c", 0..4);
        let after = Ring::new("c", 0..5);
        let mut moved = 0;
        for i in 0..10_000 {
            let tenant = format!("tenant-{i}");
            let (old, new) = (before.shard(&tenant), after.shard(&tenant));
            if old != new {
                assert_eq!(new, Some(4));
                moved += 1;
            }
        }
        assert!((1_200..2_800).contains(&moved), "{moved} of 10000 moved");
    }

    #[test]
    fn shards_share_the_tenants_evenly() {
        let ring = Ring::new("c", 0..8);
        let mut counts = [0u32; 8];
        for i in 0..80_000 {
            counts[ring.shard(&format!("tenant-{i}")).unwrap() as usize] += 1;
        }
        assert!(counts.iter().all(|count| (8_000..12_500).contains(count)), "{counts:?}");
    }
}
