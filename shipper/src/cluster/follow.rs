//! The cluster log as a shipper follows it that does not keep it: what it has trusted stays so.
//!
//! The same judge, and the same form of file, as replicas and auditors have (`common::trust`). Whoever
//! keeps the log needs none of it: what it has signed is its memory.

use sealcast_common::bucket::ClusterLog;
use sealcast_common::catalog::{Catalog, CommitRecord};
use sealcast_common::integrity::Policy;
use sealcast_common::trust::{Look, Trust, TrustError};

use super::KeepError;
use crate::error::ShipError;
use crate::place::{Place, blocking};

/// What is trusted, and its file.
#[derive(Debug)]
pub(super) struct Follower {
    trust: Trust,
}

impl Follower {
    /// The first look believes the keys of the policy, or else the log that is there: this shipper
    /// writes into the store, and has nobody else to ask.
    pub(super) async fn open(place: &Place, policy: Option<Policy>) -> Result<Self, KeepError> {
        let (path, files) = (place.dir.cluster_trust_file(), place.seams.files.clone());
        let folder = place.dir.cluster_dir();
        let opened = blocking(move || {
            files.create_dir(&folder).map_err(|source| TrustError::File {
                path: folder.display().to_string(),
                source,
            })?;
            Trust::open(&path, files, policy, true)
        });
        Ok(Follower { trust: opened.await?? })
    }

    /// Log and own stream contradict nothing that was trusted, and are trusted from now on.
    pub(super) async fn turn(
        &mut self,
        place: &Place,
        log: &ClusterLog,
        own: &Catalog,
    ) -> Result<(), KeepError> {
        if let Look::News(news) = self.trust.look(log).await? {
            self.trust.adopt(*news);
        }
        let named = self.trust.state().cluster.streams.get(&own.stream).map(|(seq, _)| *seq);
        let mut hash = None;
        if let Some(seq) = named.filter(|seq| *seq < own.seq)
            && let Some(object) = place.log.read(seq).await.map_err(ShipError::from)?
        {
            hash = Some((seq, CommitRecord::from_object(&object)?.1));
        }
        let hash_at = |seq| hash.filter(|(known, _)| *known == seq).map(|(_, hash)| hash);
        self.trust.hold(own, true, hash_at)?;
        self.trust.accept(own);
        Ok(self.trust.save()?)
    }
}
