//! A writer's data directory: the folder through which writer and shipper meet.
//!
//! ```text
//! node.json                      identity, written once        (writer → shipper)
//! lock                           one writer at a time
//! keys/<shard>.key               32 secret bytes, hex, mode 0600
//! keys/<shard>.pub               the public half, C2SP text, with the hand-overs to it (writer → shipper)
//! keys/<shard>.signed            what the key has signed last; absent with a signer elsewhere
//! wal/<shard>/<start>.wal        the tail: nobody else reads it
//! sealed/<shard>/<name>.seg      sealed segments               (writer → shipper)
//! sealed/<shard>/<name>.note     the signed checkpoint at the segment's end
//! shipped.json                   what is committed             (shipper → writer)
//! ship.key                       the shipper's secret bytes, hex, mode 0600
//! cluster/log.key, .pub, .signed the cluster log's key, and what it has signed last
//! cluster/pending.json           the leaves that were to be signed last
//! cluster/trust.json             instead of these, of a shipper that does not keep the log: what it trusts of it
//! ```
//! Shards are four hex digits, starts sixteen. Files ending in `.tmp` are leftovers of a crash.

use std::path::{Path, PathBuf};

use crate::integrity::KeyFiles;

/// Version in `node.json`.
pub const DATA_FORMAT: u32 = 1;

/// The paths under a writer's data directory.
#[derive(Clone, Debug)]
pub struct DataDir {
    root: PathBuf,
}

impl DataDir {
    /// The layout under `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        DataDir { root: root.into() }
    }

    /// The directory itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// `node.json`.
    pub fn node_file(&self) -> PathBuf {
        self.root.join("node.json")
    }

    /// `lock`.
    pub fn lock_file(&self) -> PathBuf {
        self.root.join("lock")
    }

    /// `ship.lock`: one shipper at a time on this directory.
    pub fn ship_lock_file(&self) -> PathBuf {
        self.root.join("ship.lock")
    }

    /// `ship.key`.
    pub fn ship_key_file(&self) -> PathBuf {
        self.root.join("ship.key")
    }

    /// `cluster`: key and memory of the cluster log's keeper.
    pub fn cluster_dir(&self) -> PathBuf {
        self.root.join("cluster")
    }

    /// `cluster/log.key`: 32 secret bytes, hex, mode 0600.
    pub fn cluster_key_file(&self) -> PathBuf {
        self.cluster_dir().join("log.key")
    }

    /// `cluster/log.pub`: the public half, C2SP text.
    pub fn cluster_public_key_file(&self) -> PathBuf {
        self.cluster_dir().join("log.pub")
    }

    /// `cluster/log.signed`: what the keeper has signed last.
    pub fn cluster_signed_file(&self) -> PathBuf {
        self.cluster_dir().join("log.signed")
    }

    /// `cluster/trust.json`: what a shipper trusts that does not keep the cluster log.
    pub fn cluster_trust_file(&self) -> PathBuf {
        self.cluster_dir().join("trust.json")
    }

    /// `cluster/pending.json`: the leaves that it was to sign last.
    pub fn cluster_pending_file(&self) -> PathBuf {
        self.cluster_dir().join("pending.json")
    }

    /// `shipped.json`.
    pub fn shipped_file(&self) -> PathBuf {
        self.root.join("shipped.json")
    }

    /// The three files of a shard's key.
    pub fn shard_key(&self, shard: u16) -> KeyFiles {
        KeyFiles {
            secret: self.key_file(shard),
            public: self.public_key_file(shard),
            signed: self.signed_file(shard),
        }
    }

    /// The three files of the cluster log's key.
    pub fn cluster_key(&self) -> KeyFiles {
        KeyFiles {
            secret: self.cluster_key_file(),
            public: self.cluster_public_key_file(),
            signed: self.cluster_signed_file(),
        }
    }

    /// `keys/<shard>.key`.
    pub fn key_file(&self, shard: u16) -> PathBuf {
        self.root.join("keys").join(format!("{shard:04x}.key"))
    }

    /// `keys/<shard>.pub`.
    pub fn public_key_file(&self, shard: u16) -> PathBuf {
        self.root.join("keys").join(format!("{shard:04x}.pub"))
    }

    /// `keys/<shard>.signed`.
    pub fn signed_file(&self, shard: u16) -> PathBuf {
        self.root.join("keys").join(format!("{shard:04x}.signed"))
    }

    /// `wal/<shard>`.
    pub fn wal_dir(&self, shard: u16) -> PathBuf {
        self.root.join("wal").join(format!("{shard:04x}"))
    }

    /// `wal/<shard>/<start>.wal`.
    pub fn wal_file(&self, shard: u16, start: u64) -> PathBuf {
        self.wal_dir(shard).join(format!("{start:016x}.wal"))
    }

    /// `sealed`.
    pub fn sealed_root(&self) -> PathBuf {
        self.root.join("sealed")
    }

    /// `sealed/<shard>`.
    pub fn sealed_dir(&self, shard: u16) -> PathBuf {
        self.sealed_root().join(format!("{shard:04x}"))
    }
}

/// The start seq of a `.wal` file's name.
pub fn parse_wal_name(file_name: &str) -> Option<u64> {
    let hex = file_name.strip_suffix(".wal")?;
    (hex.len() == 16).then(|| u64::from_str_radix(hex, 16).ok()).flatten()
}
