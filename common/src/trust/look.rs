//! A look at the cluster log: its newest checkpoint is by the key that is trusted, cosigned as the
//! policy asks, not smaller than before, and continues what was trusted.

use super::{Trust, TrustError};
use crate::bucket::{ClusterLog, RowLogError, check_cluster_note};
use crate::catalog::names::{CLUSTER_HEAD_KEY, cluster_checkpoint_key, cluster_record_key};
use crate::cluster::{ClusterState, cluster_origin};
use crate::fault::{Corruption, hex};
use crate::integrity::{
    Checkpoint, CompactRange, Distrust, Hash, KeyHistory, Note, NoteError, empty_root, leaf_hash,
    shown_key,
};

/// What a look has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look {
    /// No cluster log is there, and none was before.
    Absent,
    /// What is trusted already.
    Same,
    /// An older head than what is trusted, which still stands: hints lag.
    Behind,
    /// More, verified: to be adopted ([`Trust::adopt`]).
    News(Box<News>),
}

/// A verified checkpoint beyond the trusted one, or the same with other cosignatures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News {
    state: ClusterState,
    note: String,
}

impl Trust {
    /// Looks; changes nothing. Reads one object if nothing is new, else the new leaves. The trusted
    /// tree with the new leaves appended has the signed root: that is the consistency proof.
    pub async fn look(&self, log: &ClusterLog) -> Result<Look, TrustError> {
        let head = log.head().await?;
        // A head that is no note is a hint that is gone.
        let read = head.as_deref().and_then(|head| {
            let note = Note::parse(head).ok()?;
            let checkpoint = Checkpoint::parse(&note.text).ok()?;
            Some((note, checkpoint))
        });
        let trusted = self.state.cluster.size();
        let Some((note, checkpoint)) = read else { return self.behind(log, "").await };
        if checkpoint.size < trusted {
            return self.behind(log, &note.to_text()).await;
        }
        let judged = self.judge(&note, &self.state.cluster.key);
        if let Err(error) = judged {
            // By another key: the new leaves may tell of a hand-over to it, or it stays refused.
            if checkpoint.size > trusted
                && error.check() == Some("cluster_key")
                && let Ok(state) = self.grown(log, &note, &checkpoint).await
            {
                return Ok(news(state, &note));
            }
            return Err(self.with_evidence(error, &note));
        }
        if checkpoint.size > trusted {
            return Ok(news(self.grown(log, &note, &checkpoint).await?, &note));
        }
        let same = self.same_size(&checkpoint);
        same.map_err(|error| self.with_evidence(error, &note))?;
        // Judged all the same: the policy may be newer than the state.
        if note.to_text() == self.state.note {
            return Ok(Look::Same);
        }
        // The same tree; more witnesses, or later ones.
        Ok(news(self.state.cluster.clone(), &note))
    }

    /// Takes what a look has verified; in memory, until [`Trust::save`].
    pub fn adopt(&mut self, news: News) {
        if news.state.size() >= self.state.cluster.size() {
            self.state.cluster = news.state;
            self.state.note = news.note;
        }
    }

    /// The head is older than what is trusted, or gone. What was trusted must still stand.
    async fn behind(&self, log: &ClusterLog, shown: &str) -> Result<Look, TrustError> {
        let cluster = &self.state.cluster;
        let size = cluster.size();
        if size == 0 {
            return Ok(Look::Absent);
        }
        let root = cluster.tree.root()?;
        let expected = format!("a cluster log of {size} leaves with root {}", hex(&root));
        let found = match log.checkpoint(size, &cluster.cluster).await {
            Ok(Some(object)) if object.entry.root == root => return Ok(Look::Behind),
            Ok(Some(object)) => {
                let found = format!("root {}", hex(&object.entry.root));
                let finding = Corruption::new("cluster_fork", None, expected, found);
                let finding = finding.in_object(cluster_checkpoint_key(size));
                return Err(self.convict(finding, &object.entry.note));
            }
            Ok(None) => match shown {
                "" => "none".to_owned(),
                _ => "a smaller one, and no checkpoint at that size".to_owned(),
            },
            // Whatever stands there is not what stood there.
            Err(RowLogError::Corrupt(found)) => found.to_string(),
            Err(error) => return Err(error.into()),
        };
        let finding = Corruption::new("cluster_rollback", None, expected, found);
        Err(self.convict(finding.in_object(CLUSTER_HEAD_KEY), shown))
    }

    /// Signed by one of `keys`, as far as they are known, whom we trust, and cosigned.
    fn judge(&self, note: &Note, keys: &str) -> Result<(), TrustError> {
        let key_finding = |expected: &str, found: String| {
            Corruption::new("cluster_key", None, expected, found).in_object(CLUSTER_HEAD_KEY)
        };
        let keys = match keys {
            "" => None,
            known => {
                let signed = KeyHistory::parse(known).and_then(|keys| {
                    keys.verify(note)?;
                    Ok(keys)
                });
                let expected = format!("a checkpoint signed by {}, as before", shown_key(known));
                Some(signed.map_err(|error| key_finding(&expected, error.to_string()))?)
            }
        };
        let Some(policy) = &self.policy else { return Ok(()) };
        let expected = "a cluster log whose key the policy names";
        match keys.map_or_else(|| policy.judge(note), |keys| policy.judge_log(note, &keys)) {
            Ok(_) => Ok(()),
            Err(error @ Distrust::Quorum { .. }) => {
                let expected = "as many witnesses as the policy asks for";
                let found = Corruption::new("cluster_quorum", None, expected, error.to_string());
                Err(TrustError::Unproven(Box::new(found.in_object(CLUSTER_HEAD_KEY))))
            }
            Err(error) => Err(key_finding(expected, error.to_string()).into()),
        }
    }

    fn same_size(&self, shown: &Checkpoint) -> Result<(), TrustError> {
        let root = self.state.cluster.tree.root()?;
        if shown.root == root {
            return Ok(());
        }
        Err(fork(shown.size, &root, &shown.root).into())
    }

    /// The trusted state with the new leaves.
    async fn grown(
        &self,
        log: &ClusterLog,
        note: &Note,
        checkpoint: &Checkpoint,
    ) -> Result<ClusterState, TrustError> {
        let folded = log.fold(self.state.cluster.clone(), checkpoint.size).await;
        let broken = match folded {
            Ok(state) => match self.signed(note, &state) {
                Ok(()) => return self.judge(note, &state.key).map(|()| state),
                Err(finding) => finding,
            },
            Err(RowLogError::Corrupt(finding)) => finding,
            Err(error) => return Err(error.into()),
        };
        let finding = self.explain(log, checkpoint, broken).await?;
        Err(self.convict(finding, &note.to_text()))
    }

    /// The leaves are those that the note signed, by the key that the leaves themselves name and, if
    /// there is one, the policy.
    fn signed(&self, note: &Note, state: &ClusterState) -> Result<(), Corruption> {
        let bad =
            |error: NoteError| Corruption::new("cluster_key", None, "a key", error.to_string());
        let keys = KeyHistory::parse(&state.key).map_err(bad)?;
        if let Some(policy) = &self.policy {
            let known =
                policy.check_keys("cluster_key", &cluster_origin(&state.cluster), &state.key);
            known.map_err(|found| found.in_object(cluster_record_key(0)))?;
        }
        check_cluster_note(note, &keys, state).map_err(|found| found.in_object(CLUSTER_HEAD_KEY))
    }

    /// Damage or another history? It is one if all leaves are what was signed, and the first of them
    /// are not those that we trusted.
    async fn explain(
        &self,
        log: &ClusterLog,
        shown: &Checkpoint,
        broken: Corruption,
    ) -> Result<Corruption, TrustError> {
        let trusted = self.state.cluster.size();
        let leaves = match log.leaves(shown.size).await {
            Ok(leaves) => leaves,
            Err(RowLogError::Store(error)) => return Err(error.into()),
            Err(_) => return Ok(broken),
        };
        let (mut tree, mut then) = (CompactRange::empty(0), empty_root());
        for leaf in leaves {
            tree.append(leaf_hash(&leaf));
            if tree.end() == trusted {
                then = tree.root()?;
            }
        }
        let ours = self.state.cluster.tree.root()?;
        let other_history = tree.root()? == shown.root && trusted > 0 && then != ours;
        Ok(if other_history { fork(trusted, &ours, &then) } else { broken })
    }

    fn with_evidence(&self, error: TrustError, note: &Note) -> TrustError {
        match error {
            TrustError::Contradiction { finding, evidence: None } => {
                self.convict(*finding, &note.to_text())
            }
            other => other,
        }
    }
}

fn news(state: ClusterState, note: &Note) -> Look {
    Look::News(Box::new(News { state, note: note.to_text() }))
}

fn fork(size: u64, ours: &Hash, theirs: &Hash) -> Corruption {
    let expected = format!("root {} at {size} leaves, as before", hex(ours));
    Corruption::new("cluster_fork", None, expected, format!("root {}", hex(theirs)))
        .in_object(CLUSTER_HEAD_KEY)
}
