//! Whom an auditor believes, and what they have seen before.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sealcast_common::bucket::{ClusterLog, Store};
use sealcast_common::catalog::Catalog;
use sealcast_common::durable::RealFiles;
use sealcast_common::integrity::{KeyHistory, Policy};
use sealcast_common::trust::{Look, Trust, TrustError};

use super::Report;
use super::files::Unread;
use super::stream::Followed;
use crate::output::{Failure, failed};

/// A policy that names keys and witnesses, and a trust state; both may be missing.
#[derive(Debug, Default)]
pub(crate) struct Trusting {
    pub(super) policy: Option<Policy>,
    state: Option<Trust>,
    /// The leaf of a proof, if it is not beside it.
    pub(super) leaf: Option<PathBuf>,
    /// Of the log that a proof is from: hand-overs from a key that the policy names.
    pub(super) keys: Option<KeyHistory>,
    /// The cluster log of this store continues what was trusted.
    looked: bool,
}

impl Trusting {
    /// Reads both files; `key` stands for a policy that names it alone. A trust state is begun with the policy's keys, or on `first_use`.
    pub(crate) fn read(
        (policy, key): (Option<&Path>, Option<&str>),
        state: Option<&Path>,
        first_use: bool,
    ) -> Result<Self, Failure> {
        let mut policy = policy.map(read_policy).transpose()?;
        if let Some(key) = key {
            let text = format!("log {key}\nquorum none\n");
            let parsed = Policy::parse(&text).map_err(|error| {
                Failure::new(format!("--vkey {key:?}: {error}"))
                    .hint("expected NAME+HASH+BASE64, as `sealcast keys show` prints it")
            });
            policy = Some(parsed?);
        }
        let open = |path| Trust::open(path, Arc::new(RealFiles), policy.clone(), first_use);
        let state = state.map(open).transpose().map_err(failed)?;
        Ok(Trusting { policy, state, leaf: None, keys: None, looked: false })
    }

    /// The same, with the leaf of a proof and the file of its log's keys.
    pub(crate) fn with_proof(
        self,
        leaf: Option<PathBuf>,
        keys: Option<&Path>,
    ) -> Result<Self, Failure> {
        Ok(Trusting { leaf, keys: keys.map(read_keys).transpose()?, ..self })
    }

    /// To be asked before the streams are followed.
    pub(super) async fn look(&mut self, store: &Store, report: &mut Report) {
        let Some(trust) = &mut self.state else { return };
        let looked = trust.look(&ClusterLog::new(store.clone())).await;
        self.looked = looked.is_ok();
        report.book(looked.map_err(unread).map(|look| {
            if let Look::News(news) = look {
                trust.adopt(*news);
            }
        }));
    }

    /// What lies in the store continues what was trusted, and is trusted from now on if nothing at
    /// all was found.
    pub(super) fn conclude(&mut self, streams: &[Followed], report: &mut Report) {
        let Some(trust) = self.state.as_mut().filter(|_| self.looked) else { return };
        if !streams.iter().all(|stream| stream.whole) {
            return;
        }
        let catalogs: BTreeMap<String, Catalog> =
            streams.iter().map(|s| (s.catalog.stream.clone(), s.catalog.clone())).collect();
        let hash_at = |name: &str, seq: u64| {
            streams.iter().find(|stream| stream.catalog.stream == name)?.hash_at(seq)
        };
        if report.exit_code() == 0 {
            report.book(trust.conclude(&catalogs, hash_at).map_err(unread));
            return;
        }
        for (name, catalog) in &catalogs {
            let held = trust.hold(catalog, true, |seq| hash_at(name, seq));
            report.book(held.map_err(unread));
        }
    }
}

fn read_keys(path: &Path) -> Result<KeyHistory, Failure> {
    let place = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::new(format!("--keys {place} cannot be read: {error}")))?;
    KeyHistory::parse(&text).map_err(|error| {
        Failure::new(format!("--keys {place}: {error}"))
            .hint("expected a writer's keys/<shard>.pub: a key, and the hand-overs from it")
    })
}

fn read_policy(path: &Path) -> Result<Policy, Failure> {
    let place = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::new(format!("policy {place} cannot be read: {error}")))?;
    Policy::parse(&text).map_err(|error| {
        Failure::new(format!("{place}: {error}"))
            .hint("a C2SP tlog-policy: `log KEY`, with the key that `sealcast keys show` prints")
    })
}

/// Only what contradicts what was trusted is a finding.
fn unread(error: TrustError) -> Unread {
    match error {
        TrustError::Contradiction { finding, .. } => Unread::Tampered(*finding),
        other => Unread::Cannot(other.to_string()),
    }
}
