//! One commit record: numbered, create-only, hash-chained, signed.
//!
//! Object = CBOR `[payload, signature, blake3]`: the payload's bytes, an Ed25519 signature over
//! them by the author named inside, and BLAKE3 over payload and signature, which tells damage from
//! forgery. The chain's hash is BLAKE3 of the whole object.

use std::collections::BTreeMap;

use super::descriptor::{Descriptor, SegmentId};
use crate::cbor::{Reader, Writer};
use crate::clock::Micros;
use crate::fault::{Corruption, hex};
use crate::integrity::{Hash, KeyHistory, Signer, SignerError, file_hash, verify_detached};
use crate::limits::{COMMIT_ADDS_MAX, COMMIT_BYTES_MAX};

const RECORD_VERSION: u64 = 1;

/// What a commit does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitKind {
    /// Claims the stream for a new epoch.
    Fence,
    /// Adds segments.
    Add,
}

/// A shard's signed state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointEntry {
    /// Leaves.
    pub size: u64,
    /// Root.
    pub root: Hash,
    /// The signed note.
    pub note: String,
    /// The shard's public key (C2SP text form), with its history if it was ever another.
    pub key: String,
}

impl CheckpointEntry {
    /// The one key (C2SP text form) under which the note verifies: the newest that the entry tells of.
    pub fn vkey(&self) -> String {
        let keys = KeyHistory::parse(&self.key);
        keys.map_or_else(|_| self.key.clone(), |keys| keys.newest().to_text())
    }
}

/// A commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitRecord {
    /// The store it was made for.
    pub store_id: [u8; 16],
    /// The cluster whose shards it ships.
    pub cluster: String,
    /// The stream.
    pub stream: String,
    /// Its number; the first is 1.
    pub seq: u64,
    /// The owner's epoch.
    pub epoch: u64,
    /// The owner's public key.
    pub author: [u8; 32],
    /// Tells this attempt from every other.
    pub nonce: [u8; 16],
    /// Hash of the record before; zeros for the first.
    pub previous: [u8; 32],
    /// What it does.
    pub kind: CommitKind,
    /// Segments added, per shard in order.
    pub adds: Vec<Descriptor>,
    /// Segments removed (by rewriting and retention, later).
    pub removes: Vec<SegmentId>,
    /// State after it of every shard that it touches.
    pub checkpoints: BTreeMap<u16, CheckpointEntry>,
    /// The shipper's clock; informational.
    pub committed_at: Micros,
}

impl CommitRecord {
    fn payload(&self) -> Vec<u8> {
        let mut out = Writer::new();
        out.map(14).uint(0).uint(RECORD_VERSION);
        out.uint(1).bytes(&self.store_id);
        out.uint(2).text(&self.cluster);
        out.uint(3).text(&self.stream);
        out.uint(4).uint(self.seq);
        out.uint(5).uint(self.epoch);
        out.uint(6).bytes(&self.author);
        out.uint(7).bytes(&self.nonce);
        out.uint(8).bytes(&self.previous);
        out.uint(9).uint(match self.kind {
            CommitKind::Fence => 0,
            CommitKind::Add => 1,
        });
        out.uint(10).array(self.adds.len());
        for descriptor in &self.adds {
            descriptor.write(&mut out);
        }
        out.uint(11).array(self.removes.len());
        for id in &self.removes {
            out.array(4).uint(id.shard.into()).uint(id.start).uint(id.rows.into());
            out.bytes(&id.hash);
        }
        out.uint(12);
        write_checkpoints(&self.checkpoints, &mut out);
        out.uint(13).int(self.committed_at.0);
        out.finish()
    }

    /// The object's bytes, signed by the author.
    pub fn to_object(&self, signer: &dyn Signer) -> Result<Vec<u8>, SignerError> {
        seal_envelope(&self.payload(), signer)
    }

    /// Parses and verifies an object; answers the record and its hash.
    pub fn from_object(object: &[u8]) -> Result<(Self, [u8; 32]), Corruption> {
        if object.len() > COMMIT_BYTES_MAX {
            let expected = format!("at most {COMMIT_BYTES_MAX} bytes");
            return Err(Corruption::new("commit", None, expected, object.len().to_string()));
        }
        let (payload, signature) = unseal_envelope(object, "commit")?;
        let record = Self::read(payload)?;
        if !verify_detached(&record.author, payload, &signature) {
            let expected = format!("a signature by {}", hex(&record.author));
            return Err(Corruption::new("commit_signature", None, expected, "another"));
        }
        Ok((record, file_hash(object)))
    }

    fn read(payload: &[u8]) -> Result<Self, Corruption> {
        let mut reader = Reader::new(payload, "commit");
        let r = &mut reader;
        let bad = |expected: &str, found: String| Corruption::new("commit", None, expected, found);
        let keys = r.map()?;
        r.key(0)?;
        let version = r.uint()?;
        if (keys, version) != (14, RECORD_VERSION) {
            return Err(bad("a commit of version 1", format!("version {version}, {keys} keys")));
        }
        r.key(1)?;
        let store_id = r.bytes_exact()?;
        r.key(2)?;
        let cluster = r.text()?.to_owned();
        r.key(3)?;
        let stream = r.text()?.to_owned();
        r.key(4)?;
        let seq = r.uint()?;
        r.key(5)?;
        let epoch = r.uint()?;
        r.key(6)?;
        let author = r.bytes_exact()?;
        r.key(7)?;
        let nonce = r.bytes_exact()?;
        r.key(8)?;
        let previous = r.bytes_exact()?;
        r.key(9)?;
        let kind = match r.uint()? {
            0 => CommitKind::Fence,
            1 => CommitKind::Add,
            other => return Err(bad("a known kind; use a newer sealcast", other.to_string())),
        };
        r.key(10)?;
        let count = r.array()?;
        if count > COMMIT_ADDS_MAX {
            return Err(bad("at most 1024 adds", count.to_string()));
        }
        let adds = (0..count).map(|_| Descriptor::read(r)).collect::<Result<_, _>>()?;
        r.key(11)?;
        let removes = (0..r.array()?).map(|_| read_id(r)).collect::<Result<_, _>>()?;
        r.key(12)?;
        let checkpoints = read_checkpoints(r)?;
        r.key(13)?;
        let committed_at = Micros(r.int()?);
        r.end()?;
        Ok(CommitRecord {
            store_id,
            cluster,
            stream,
            seq,
            epoch,
            author,
            nonce,
            previous,
            kind,
            adds,
            removes,
            checkpoints,
            committed_at,
        })
    }
}

fn read_id(reader: &mut Reader<'_>) -> Result<SegmentId, Corruption> {
    reader.array_exact(4)?;
    Ok(SegmentId {
        shard: reader.narrow()?,
        start: reader.uint()?,
        rows: reader.narrow()?,
        hash: reader.bytes_exact()?,
    })
}

pub(super) fn write_checkpoints(map: &BTreeMap<u16, CheckpointEntry>, out: &mut Writer) {
    out.map(map.len());
    for (shard, entry) in map {
        out.uint((*shard).into()).array(4).uint(entry.size).bytes(&entry.root);
        out.text(&entry.note).text(&entry.key);
    }
}

pub(super) fn read_checkpoints(
    reader: &mut Reader<'_>,
) -> Result<BTreeMap<u16, CheckpointEntry>, Corruption> {
    let mut map = BTreeMap::new();
    for _ in 0..reader.map()? {
        let shard = reader.narrow()?;
        reader.array_exact(4)?;
        let entry = CheckpointEntry {
            size: reader.uint()?,
            root: reader.bytes_exact()?,
            note: reader.text()?.to_owned(),
            key: reader.text()?.to_owned(),
        };
        map.insert(shard, entry);
    }
    Ok(map)
}

/// `[payload, signature, blake3]`.
pub fn seal_envelope(payload: &[u8], signer: &dyn Signer) -> Result<Vec<u8>, SignerError> {
    let signature = signer.sign(payload)?;
    let digest = file_hash(&[payload, &signature].concat());
    let mut out = Writer::new();
    out.array(3).bytes(payload).bytes(&signature).bytes(&digest);
    Ok(out.finish())
}

/// The payload and its signature, after the checksum has been compared. The signature is not
/// verified here: its key stands in the payload.
pub fn unseal_envelope<'a>(
    object: &'a [u8],
    check: &'static str,
) -> Result<(&'a [u8], [u8; 64]), Corruption> {
    let mut reader = Reader::new(object, check);
    reader.array_exact(3)?;
    let at = reader.position() as u64;
    let payload = reader.bytes()?;
    let signature: [u8; 64] = reader.bytes_exact()?;
    let digest: [u8; 32] = reader.bytes_exact()?;
    reader.end()?;
    let found = file_hash(&[payload, &signature].concat());
    if found != digest {
        let name = if check == "commit" { "commit_blake3" } else { "snapshot_blake3" };
        return Err(Corruption::new(name, at, hex(&digest), hex(&found)));
    }
    Ok((payload, signature))
}
