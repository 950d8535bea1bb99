//! One leaf of the cluster log: deterministic CBOR `[version 1, kind, …]`.

use crate::cbor::{Reader, Writer};
use crate::clock::Micros;
use crate::fault::Corruption;
use crate::integrity::Hash;
use crate::limits::LEAF_BYTES_MAX;

const RECORD_VERSION: u64 = 1;
/// An active shard; others come with resharding and retention.
const ACTIVE: u64 = 0;

/// What the cluster log can say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterRecord {
    /// Kind 0, the first leaf and only that: `[1, 0, cluster, store id, log key, time µs]`.
    Genesis {
        /// The cluster.
        cluster: String,
        /// The store that it lies in.
        store_id: [u8; 16],
        /// Key of the cluster log (C2SP vkey).
        key: String,
        /// The keeper's clock.
        time: Micros,
    },
    /// Kind 1: `[1, 1, shard, shard key, stream]`. From here on the shard is in every epoch.
    ShardAdded {
        /// The shard.
        shard: u16,
        /// Key of its row log (C2SP vkey).
        key: String,
        /// The stream that ships it.
        stream: String,
    },
    /// Kind 2.
    Epoch(Epoch),
    /// Kind 3: `[1, 3, shard or null, keys]`. From here on the key is the newest of these; null for
    /// this log's own.
    KeyRotated {
        /// The shard.
        shard: Option<u16>,
        /// All keys of its log, with the hand-overs.
        keys: String,
    },
}

/// The whole cluster at one moment: `[1, 2, number, index of the epoch before or null, time µs,
/// [[shard, state 0, size, root, min index 0]…], [[stream, seq, hash]…]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Epoch {
    /// From 1, without gaps.
    pub number: u64,
    /// Leaf of the epoch before.
    pub previous: Option<u64>,
    /// The keeper's clock; never decreases.
    pub time: Micros,
    /// Every shard, ascending.
    pub shards: Vec<ShardPoint>,
    /// Every stream, ascending.
    pub streams: Vec<StreamPoint>,
}

/// How far a shard has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardPoint {
    /// The shard.
    pub shard: u16,
    /// Committed rows.
    pub size: u64,
    /// Root of its row log at that size.
    pub root: Hash,
}

/// How far a stream has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamPoint {
    /// The stream.
    pub stream: String,
    /// Its last commit.
    pub seq: u64,
    /// The hash of that record.
    pub hash: [u8; 32],
}

impl ClusterRecord {
    /// The leaf's bytes.
    pub fn to_leaf(&self) -> Result<Vec<u8>, Corruption> {
        let mut out = Writer::new();
        match self {
            ClusterRecord::Genesis { cluster, store_id, key, time } => {
                out.array(6).uint(RECORD_VERSION).uint(0).text(cluster).bytes(store_id);
                out.text(key).int(time.0);
            }
            ClusterRecord::ShardAdded { shard, key, stream } => {
                out.array(5).uint(RECORD_VERSION).uint(1).uint((*shard).into());
                out.text(key).text(stream);
            }
            ClusterRecord::Epoch(epoch) => epoch.write(&mut out),
            ClusterRecord::KeyRotated { shard, keys } => {
                out.array(4).uint(RECORD_VERSION).uint(3);
                match shard {
                    Some(shard) => out.uint((*shard).into()),
                    None => out.null(),
                };
                out.text(keys);
            }
        }
        let leaf = out.finish();
        if leaf.len() <= LEAF_BYTES_MAX {
            return Ok(leaf);
        }
        let expected = format!("a leaf of at most {LEAF_BYTES_MAX} bytes");
        Err(Corruption::new("cluster_record", None, expected, format!("{} bytes", leaf.len())))
    }

    /// Reads a leaf.
    pub fn from_leaf(leaf: &[u8]) -> Result<Self, Corruption> {
        let mut reader = Reader::new(leaf, "cluster_record");
        let r = &mut reader;
        let (fields, version, kind) = (r.array()?, r.uint()?, r.uint()?);
        let record = match (version, kind, fields) {
            (RECORD_VERSION, 0, 6) => ClusterRecord::Genesis {
                cluster: r.text()?.to_owned(),
                store_id: r.bytes_exact()?,
                key: r.text()?.to_owned(),
                time: Micros(r.int()?),
            },
            (RECORD_VERSION, 1, 5) => ClusterRecord::ShardAdded {
                shard: r.narrow()?,
                key: r.text()?.to_owned(),
                stream: r.text()?.to_owned(),
            },
            (RECORD_VERSION, 2, 7) => ClusterRecord::Epoch(Epoch::read(r)?),
            (RECORD_VERSION, 3, 4) => {
                let shard = if r.null()? { None } else { Some(r.narrow()?) };
                ClusterRecord::KeyRotated { shard, keys: r.text()?.to_owned() }
            }
            _ => {
                let expected = "a record of version 1, kind 0 to 3; use a newer sealcast";
                let found = format!("version {version}, kind {kind}, {fields} fields");
                return Err(Corruption::new("cluster_record", None, expected, found));
            }
        };
        r.end()?;
        Ok(record)
    }
}

impl Epoch {
    fn write(&self, out: &mut Writer) {
        out.array(7).uint(RECORD_VERSION).uint(2).uint(self.number);
        match self.previous {
            Some(index) => out.uint(index),
            None => out.null(),
        };
        out.int(self.time.0).array(self.shards.len());
        for point in &self.shards {
            out.array(5).uint(point.shard.into()).uint(ACTIVE).uint(point.size);
            out.bytes(&point.root).uint(0);
        }
        out.array(self.streams.len());
        for point in &self.streams {
            out.array(3).text(&point.stream).uint(point.seq).bytes(&point.hash);
        }
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Corruption> {
        let number = r.uint()?;
        let previous = if r.null()? { None } else { Some(r.uint()?) };
        let time = Micros(r.int()?);
        let shards = (0..r.array()?).map(|_| ShardPoint::read(r)).collect::<Result<_, _>>()?;
        let streams = (0..r.array()?).map(|_| StreamPoint::read(r)).collect::<Result<_, _>>()?;
        Ok(Epoch { number, previous, time, shards, streams })
    }
}

impl ShardPoint {
    fn read(r: &mut Reader<'_>) -> Result<Self, Corruption> {
        r.array_exact(5)?;
        let (shard, state) = (r.narrow()?, r.uint()?);
        let point = ShardPoint { shard, size: r.uint()?, root: r.bytes_exact()? };
        let least = r.uint()?;
        if (state, least) == (ACTIVE, 0) {
            return Ok(point);
        }
        let expected = "an active shard with all its rows; use a newer sealcast";
        let found = format!("state {state}, rows from {least} on");
        Err(Corruption::new("cluster_record", None, expected, found))
    }
}

impl StreamPoint {
    fn read(r: &mut Reader<'_>) -> Result<Self, Corruption> {
        r.array_exact(3)?;
        Ok(StreamPoint { stream: r.text()?.to_owned(), seq: r.uint()?, hash: r.bytes_exact()? })
    }
}
