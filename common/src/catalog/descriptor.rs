//! One shipped segment, as the catalog knows it: enough to prune and to verify without opening it.

use crate::cbor::{Reader, Writer};
use crate::clock::Micros;
use crate::fault::Corruption;
use crate::integrity::{Hash, range_digest, short_digest};
use crate::limits::{SEGMENT_BYTES_MAX, SEGMENT_ROWS_MAX};
use crate::segment::{Seal, SegmentName};

/// Tenants are listed up to this number; above it the list is absent.
const TENANTS_LISTED_MAX: usize = 64;

/// Names a segment for ever: rows and bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SegmentId {
    /// The shard.
    pub shard: u16,
    /// First leaf.
    pub start: u64,
    /// Rows.
    pub rows: u32,
    /// BLAKE3 of the uncompressed file.
    pub hash: [u8; 32],
}

impl SegmentId {
    /// `<shard>/<start>.<rows>.<hash>` as in file names.
    pub fn to_text(&self) -> String {
        let name = SegmentName::new(self.start, self.rows, &self.hash);
        format!("{:04x}/{}", self.shard, name.stem())
    }
}

/// What a commit says about one segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// Which segment.
    pub id: SegmentId,
    /// Length of the uncompressed file.
    pub bytes: u64,
    /// Length of the object.
    pub object_bytes: u64,
    /// BLAKE3 of the object.
    pub object_hash: [u8; 32],
    /// SHA-256 over the range nodes.
    pub range_digest: Hash,
    /// Root of the shard's tree after it.
    pub root_after: Hash,
    /// Least and greatest `time`.
    pub time: (Micros, Micros),
    /// Least and greatest `ingested_at`.
    pub ingested_at: (Micros, Micros),
    /// When the writer sealed it.
    pub sealed_at: Micros,
    /// Version of the columns.
    pub schema_version: u64,
    /// Sorted digests of its tenants, when they are few.
    pub tenants: Option<Vec<u64>>,
}

impl Descriptor {
    /// Describes a verified segment file and its object.
    pub fn new(seal: &Seal, file: (&[u8; 32], u64), object: (&[u8; 32], u64)) -> Self {
        let tenants = seal.facts.tenants.as_ref().filter(|list| list.len() <= TENANTS_LISTED_MAX);
        let tenants = tenants.map(|list| {
            let mut digests: Vec<u64> =
                list.iter().map(|run| Self::tenant_digest(&run.tenant)).collect();
            digests.sort_unstable();
            digests
        });
        Descriptor {
            id: SegmentId {
                shard: seal.shard,
                start: seal.start,
                rows: seal.facts.rows,
                hash: *file.0,
            },
            bytes: file.1,
            object_bytes: object.1,
            object_hash: *object.0,
            range_digest: range_digest(&seal.range_nodes),
            root_after: seal.root_after,
            time: seal.facts.time,
            ingested_at: seal.facts.ingested_at,
            sealed_at: seal.sealed_at,
            schema_version: seal.schema_version,
            tenants,
        }
    }

    /// How tenants are listed.
    pub fn tenant_digest(tenant: &str) -> u64 {
        short_digest("descriptor tenant", tenant.as_bytes())
    }

    /// False only if no row of `tenant` can be inside.
    pub fn may_hold_tenant(&self, tenant: &str) -> bool {
        self.tenants
            .as_ref()
            .is_none_or(|list| list.binary_search(&Self::tenant_digest(tenant)).is_ok())
    }

    /// One past the last leaf.
    pub fn end(&self) -> u64 {
        self.id.start + u64::from(self.id.rows)
    }

    /// The object's key.
    pub fn key(&self) -> String {
        super::names::segment_key(self.id.shard, self.id.start, self.id.rows, &self.id.hash)
    }

    pub(super) fn write(&self, out: &mut Writer) {
        out.array(16).uint(self.id.shard.into()).uint(self.id.start).uint(self.id.rows.into());
        out.bytes(&self.id.hash).uint(self.bytes).uint(self.object_bytes).bytes(&self.object_hash);
        out.bytes(&self.range_digest).bytes(&self.root_after);
        for time in [self.time.0, self.time.1, self.ingested_at.0, self.ingested_at.1] {
            out.int(time.0);
        }
        out.int(self.sealed_at.0).uint(self.schema_version);
        match &self.tenants {
            Some(list) => {
                out.array(list.len());
                for digest in list {
                    out.uint(*digest);
                }
            }
            None => {
                out.null();
            }
        }
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Corruption> {
        reader.array_exact(16)?;
        let at = reader.position() as u64;
        let id = SegmentId {
            shard: reader.narrow()?,
            start: reader.uint()?,
            rows: reader.narrow()?,
            hash: reader.bytes_exact()?,
        };
        let descriptor = Descriptor {
            id,
            bytes: reader.uint()?,
            object_bytes: reader.uint()?,
            object_hash: reader.bytes_exact()?,
            range_digest: reader.bytes_exact()?,
            root_after: reader.bytes_exact()?,
            time: (Micros(reader.int()?), Micros(reader.int()?)),
            ingested_at: (Micros(reader.int()?), Micros(reader.int()?)),
            sealed_at: Micros(reader.int()?),
            schema_version: reader.uint()?,
            tenants: if reader.null()? {
                None
            } else {
                Some((0..reader.array()?).map(|_| reader.uint()).collect::<Result<_, _>>()?)
            },
        };
        let bounded = (1..=SEGMENT_ROWS_MAX).contains(&(descriptor.id.rows as usize))
            && descriptor.bytes <= SEGMENT_BYTES_MAX
            && descriptor.object_bytes <= SEGMENT_BYTES_MAX
            && descriptor.id.start.checked_add(u64::from(descriptor.id.rows)).is_some();
        if bounded {
            return Ok(descriptor);
        }
        let expected = "rows and bytes within the bounds";
        Err(Corruption::new(reader.check(), at, expected, format!("{:?}", descriptor.id)))
    }
}
