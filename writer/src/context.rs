//! What everything inside one shard needs: its names, its signer, the seams.

use std::sync::Arc;

use sealcast_common::clock::Clock;
use sealcast_common::durable::Durable;
use sealcast_common::integrity::{LogSigner, log_id, shard_origin};
use sealcast_common::layout::DataDir;

use crate::config::Fsync;

/// One shard's surroundings.
#[derive(Debug)]
pub(crate) struct ShardContext {
    pub(crate) cluster: String,
    pub(crate) shard: u16,
    /// `<cluster>/<shard>`.
    pub(crate) origin: String,
    pub(crate) log_id: [u8; 16],
    pub(crate) dir: DataDir,
    pub(crate) signer: Arc<dyn LogSigner>,
    pub(crate) fsync: Fsync,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) files: Arc<dyn Durable>,
}

impl ShardContext {
    /// The surroundings of `shard`; its signer carries the shard's origin as name.
    pub(crate) fn new(
        cluster: &str,
        shard: u16,
        dir: DataDir,
        signer: Arc<dyn LogSigner>,
        fsync: Fsync,
        seams: &crate::Seams,
    ) -> Self {
        let origin = shard_origin(cluster, shard);
        ShardContext {
            cluster: cluster.to_owned(),
            shard,
            log_id: log_id(&origin),
            origin,
            dir,
            signer,
            fsync,
            clock: Arc::clone(&seams.clock),
            files: Arc::clone(&seams.files),
        }
    }
}
