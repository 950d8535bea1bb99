//! One turn of the keeper: follow → compare → write down → claim → sign → cosign → publish.
//!
//! A leaf is claimed by creating its object before it is signed: two shippers on copies of one folder
//! have one key, and must not sign two histories. Whoever comes second follows the first.

use std::sync::Arc;
use std::time::Duration;

use sealcast_common::bucket::{Addition, ClusterLog, RowLogError, check_cluster_note};
use sealcast_common::catalog::Catalog;
use sealcast_common::catalog::names::cluster_record_key;
use sealcast_common::clock::Micros;
use sealcast_common::cluster::{ClusterRecord, ClusterState, Pending, cluster_origin};
use sealcast_common::fault::{Corruption, hex};
use sealcast_common::integrity::{
    CompactRange, Edge, Growth, LogSigner as _, Note, Policy, Question, RememberingSigner,
    SignerError, TILE_WIDTH, TileId, Tiles, check_keys, leaf_hash,
};
use sealcast_common::trust::TrustError;

use super::follow::Follower;
use super::gather::{Gathered, records};
use super::pending::Folder;
use crate::cosign::Witnesses;
use crate::error::ShipError;
use crate::place::{Place, blocking};

/// An epoch at least this often, so that an old view is seen to be old.
const HEARTBEAT: Duration = Duration::from_secs(3_600);
/// How often other shippers' streams are followed while nothing happens in ours.
const OTHERS_PAUSE: Duration = Duration::from_secs(60);

/// Why an epoch was not published.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeepError {
    /// What lies in the store contradicts what was signed.
    #[error(transparent)]
    Contradiction(#[from] Corruption),
    /// The key.
    #[error("key of the cluster log: {0}")]
    Key(String),
    /// The signer.
    #[error("cluster log is not signed: {0}")]
    Sign(#[from] SignerError),
    /// Another shipper with our key has claimed the next leaf, or somebody without it put one there.
    #[error(
        "leaf {0} of the cluster log is another's, and the streams do not confirm it: looking again"
    )]
    Overtaken(u64),
    /// Too few witnesses.
    #[error("cluster log is not published: {0}")]
    Quorum(String),
    /// The keeper's folder.
    #[error("file {file} cannot be used: {source}")]
    File {
        /// Its path.
        file: String,
        /// The system's word.
        source: std::io::Error,
    },
    /// The store, or a stream's log in it.
    #[error(transparent)]
    Ship(#[from] ShipError),
    /// The cluster log in the store.
    #[error(transparent)]
    Log(RowLogError),
    /// What this shipper trusts of another one's cluster log.
    #[error("cluster log is not followed: {0}")]
    Trust(TrustError),
}

impl From<TrustError> for KeepError {
    fn from(error: TrustError) -> Self {
        match error {
            TrustError::Contradiction { finding, .. } => KeepError::Contradiction(*finding),
            other => KeepError::Trust(other),
        }
    }
}

impl From<RowLogError> for KeepError {
    fn from(error: RowLogError) -> Self {
        match error {
            RowLogError::Corrupt(finding) => KeepError::Contradiction(finding),
            other => KeepError::Log(other),
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Keeper {
    place: Arc<Place>,
    log: ClusterLog,
    folder: Folder,
    role: Role,
    gathered: Gathered,
    policy: Option<Policy>,
    witnesses: Option<Witnesses>,
    /// When the last epoch was published (monotonic).
    last: Option<Duration>,
    /// Our last commit when all streams were last followed, and when that was.
    looked: Option<(u64, Duration)>,
    /// The last turn came before its time.
    early: bool,
    /// Leaves that were written down and are not published yet. Some may be claimed, or signed: until
    /// they stand nothing else may take their place.
    begun: Vec<Vec<u8>>,
    /// While another shipper keeps the log.
    follower: Option<Follower>,
}

#[derive(Debug)]
enum Role {
    /// Not known yet.
    Unopened,
    /// Another shipper wrote the first leaf.
    Elsewhere,
    Ours(Box<Log>),
}

/// The log, as far as it is published.
#[derive(Debug)]
struct Log {
    signer: Arc<RememberingSigner>,
    state: ClusterState,
    tiles: Tiles,
    edge: Edge,
    /// Leaves that are in no full bundle yet.
    open: Vec<Vec<u8>>,
}

impl Keeper {
    pub(crate) fn new(place: Arc<Place>, policy: Option<Policy>) -> Self {
        let witnesses = policy.as_ref().map(|p| Witnesses::new(p, reqwest::Client::new()));
        Keeper {
            log: ClusterLog::new(place.store.clone()),
            folder: Folder::new(&place.dir, Arc::clone(&place.seams.files)),
            place,
            role: Role::Unopened,
            gathered: Gathered::default(),
            policy,
            witnesses: witnesses.filter(|witnesses| !witnesses.is_empty()),
            last: None,
            looked: None,
            early: false,
            begun: Vec::new(),
            follower: None,
        }
    }

    /// How long until a turn is due that came too early before.
    pub(crate) fn due(&self) -> Option<Duration> {
        let clock = self.place.seams.clock.monotonic();
        self.early.then(|| self.wait(clock))
    }

    fn wait(&self, clock: Duration) -> Duration {
        let pause = Duration::from_millis(self.place.config.cluster_every_ms);
        self.last.map_or(Duration::ZERO, |last| (last + pause).saturating_sub(clock))
    }

    /// Publishes an epoch if there is something new to say and it is time, or `now`.
    pub(crate) async fn turn(&mut self, own: &Catalog, now: bool) -> Result<(), KeepError> {
        let clock = self.place.seams.clock.monotonic();
        let looked = self
            .looked
            .is_some_and(|(seq, at)| seq == own.seq && clock.saturating_sub(at) < OTHERS_PAUSE);
        if looked && !now && !self.early {
            return Ok(());
        }
        self.early = !now && !self.wait(clock).is_zero();
        if self.early {
            return Ok(());
        }
        let said = self.say(own, clock).await;
        if said.is_err() {
            // The next turn looks again.
            self.looked = None;
        }
        said
    }

    async fn say(&mut self, own: &Catalog, clock: Duration) -> Result<(), KeepError> {
        if matches!(self.role, Role::Unopened) {
            self.role = self.open().await?;
        }
        if !self.begun.is_empty() {
            self.add(self.begun.clone()).await?;
        }
        self.adopt().await?;
        if matches!(self.role, Role::Elsewhere) {
            return self.follow(own, clock).await;
        }
        let Role::Ours(log) = &mut self.role else { return Ok(()) };
        let catalogs = self.gathered.follow(&self.place, own, &log.state).await?.clone();
        if let Some(finding) = self.gathered.contradictions(&log.state).into_iter().next() {
            return Err(finding.into());
        }
        self.looked = Some((own.seq, clock));
        if catalogs.values().all(|catalog| catalog.seq == 0) {
            return Ok(());
        }
        let (mut state, now) = (log.state.clone(), self.place.seams.clock.now());
        let (mut leaves, keys) = (Vec::new(), log.signer.keys().to_text());
        if state.size() == 0 {
            let Some(genesis) = self.begin(keys.clone(), now).await? else {
                self.role = Role::Elsewhere;
                return Ok(());
            };
            state.apply(&genesis)?;
            leaves.push(genesis);
        }
        // The first leaf under a new key says so.
        let rotated = state.key != keys;
        if rotated {
            leaves.push(ClusterRecord::KeyRotated { shard: None, keys }.to_leaf()?);
        } else {
            self.take_up(&mut state, &mut leaves, now).await?;
        }
        let overdue = self.last.is_some_and(|last| clock.saturating_sub(last) >= HEARTBEAT);
        let records = records(&state, &catalogs, now, overdue || rotated);
        if records.is_empty() && leaves.is_empty() {
            return Ok(());
        }
        for record in &records {
            leaves.push(record.to_leaf()?);
        }
        self.add(leaves).await?;
        self.gathered.forget();
        self.last = Some(clock);
        Ok(())
    }

    async fn follow(&mut self, own: &Catalog, clock: Duration) -> Result<(), KeepError> {
        let follower = match &mut self.follower {
            Some(follower) => follower,
            None => {
                let opened = Follower::open(&self.place, self.policy.clone()).await?;
                self.follower.insert(opened)
            }
        };
        follower.turn(&self.place, &self.log, own).await?;
        self.looked = Some((own.seq, clock));
        self.last = Some(clock);
        Ok(())
    }

    /// Leaves that stand in the store and nobody has signed: whoever claimed them died, or his claim
    /// arrived after his death. They are signed before anything else, whoever wrote them, if they say
    /// nothing but the truth.
    async fn take_up(
        &mut self,
        state: &mut ClusterState,
        leaves: &mut Vec<Vec<u8>>,
        now: Micros,
    ) -> Result<(), KeepError> {
        loop {
            let index = state.size();
            let found = self.place.store.get(&cluster_record_key(index)).await;
            let Some(leaf) = found.map_err(ShipError::from)? else { return Ok(()) };
            let mut next = state.clone();
            let may_be = next.apply(&leaf).is_ok() && next.time <= now.max(state.time);
            if !may_be || !self.gathered.confirms(&self.place, &next).await? {
                return Err(KeepError::Overtaken(index));
            }
            *state = next;
            leaves.push(leaf.to_vec());
        }
    }

    /// The first leaf, ours; `None` if another shipper's stands. Whoever comes first keeps the log.
    async fn begin(&self, key: String, time: Micros) -> Result<Option<Vec<u8>>, KeepError> {
        let (cluster, store_id) = (self.place.node.cluster.clone(), self.place.store_id);
        let genesis = ClusterRecord::Genesis { cluster, store_id, key, time };
        let leaf = genesis.to_leaf()?;
        let at = cluster_record_key(0);
        // The answer may have been lost: what stands there decides.
        let created = self.place.store.create(&at, leaf.into()).await;
        let Some(found) = self.log.genesis().await.map_err(ShipError::from)? else {
            created.map_err(ShipError::from)?;
            let found = Corruption::new("cluster_missing", None, "the first leaf", "none");
            return Err(found.in_object(at).into());
        };
        match (ClusterRecord::from_leaf(&found)?, genesis) {
            (
                ClusterRecord::Genesis { cluster, store_id, key, .. },
                ClusterRecord::Genesis { cluster: c, store_id: s, key: k, .. },
            ) if (&cluster, store_id, &key) == (&c, s, &k) => Ok(Some(found.to_vec())),
            _ => Ok(None),
        }
    }

    /// What was signed before, published again if a crash kept it back.
    async fn open(&mut self) -> Result<Role, KeepError> {
        let cluster = self.place.node.cluster.clone();
        let (folder, seams) = (self.folder.clone(), self.place.seams.clone());
        let origin = cluster_origin(&cluster);
        let opened = blocking(move || {
            let signer = folder.signer(&origin, &seams)?;
            let signed = signer.state()?.unwrap_or_default();
            Ok::<_, KeepError>((signer, signed, folder.pending()?))
        });
        let (signer, signed, pending) = opened.await??;
        let genesis = self.log.genesis().await.map_err(ShipError::from)?;
        let ours = signer.keys().to_text();
        if let Some(leaf) = genesis {
            let mut state = ClusterState::default();
            state.apply(&leaf)?;
            if check_keys("cluster_key", &state.key, &ours).is_err() {
                tracing::info!(key = state.key, "cluster log is kept by another shipper");
                return Ok(Role::Elsewhere);
            }
        }
        let mut log = Log {
            signer: Arc::new(signer),
            state: ClusterState::default(),
            tiles: Tiles::default(),
            edge: Edge::default(),
            open: Vec::new(),
        };
        // Leaves that were written down and neither claimed nor signed are forgotten.
        let is_signed = !pending.leaves.is_empty()
            && (pending.end() == signed.size()
                || (pending.first == signed.size() && self.claimed(&pending).await?));
        let published = if is_signed { pending.first } else { signed.size() };
        for leaf in self.log.leaves(published).await? {
            log.append(leaf)?;
        }
        self.role = Role::Ours(Box::new(log));
        if is_signed {
            self.add(pending.leaves).await?;
        }
        let Role::Ours(log) = std::mem::replace(&mut self.role, Role::Unopened) else {
            return Ok(Role::Unopened);
        };
        let root = log.state.tree.root()?;
        let grown = is_signed && log.state.size() > signed.size();
        if !grown && (log.state.size(), root) != (signed.size(), *signed.root()) {
            let expected = format!("{} leaves with root {}", signed.size(), hex(signed.root()));
            let found = format!("{} with root {}", log.state.size(), hex(&root));
            return Err(Corruption::new("cluster_root", None, expected, found).into());
        }
        Ok(Role::Ours(log))
    }

    /// Whether the first of these leaves stands in the store.
    async fn claimed(&self, pending: &Pending) -> Result<bool, KeepError> {
        let key = cluster_record_key(pending.first);
        let found = self.place.store.get(&key).await.map_err(ShipError::from)?;
        Ok(found.is_some_and(|found| pending.leaves.first().is_some_and(|leaf| *leaf == found)))
    }

    /// Goes on from what another shipper with our key has signed and published.
    async fn adopt(&mut self) -> Result<(), KeepError> {
        let Role::Ours(log) = &self.role else { return Ok(()) };
        let head = self.log.head().await.map_err(ShipError::from)?;
        let Some(note) = head.and_then(|text| Note::parse(&text).ok()) else { return Ok(()) };
        let Ok(found) = log.signer.keys().verify(&note) else { return Ok(()) };
        let (size, ours) = (log.state.size(), log.state.clone());
        if found.size <= size {
            return Ok(());
        }
        let state = self.log.fold(ours, found.size).await?;
        check_cluster_note(&note, log.signer.keys(), &state)?;
        let leaves = self.log.leaves(found.size).await?;
        let skipped = usize::try_from(size).unwrap_or(usize::MAX);
        tracing::info!(from = size, to = found.size, "cluster log goes on from another shipper's");
        self.add(leaves.into_iter().skip(skipped).collect()).await
    }

    /// Creates the leaves' objects, or finds that they stand already.
    async fn claim(&self, first: u64, leaves: &[Vec<u8>]) -> Result<(), KeepError> {
        for (index, leaf) in (first..).zip(leaves) {
            let key = cluster_record_key(index);
            // The answer may have been lost: what stands there decides.
            let created = self.place.store.create(&key, leaf.clone().into()).await;
            match self.place.store.get(&key).await.map_err(ShipError::from)? {
                Some(found) if found == *leaf => {}
                Some(_) => return Err(KeepError::Overtaken(index)),
                None => {
                    created.map_err(ShipError::from)?;
                    let found = Corruption::new("cluster_missing", None, "the leaf", "none");
                    return Err(found.in_object(key).into());
                }
            }
        }
        Ok(())
    }

    /// Claims, signs and publishes leaves. After a failure the next turn goes on with the same, but
    /// for those in whose place another's stand.
    async fn add(&mut self, leaves: Vec<Vec<u8>>) -> Result<(), KeepError> {
        let added = self.publish(leaves).await;
        if matches!(added, Ok(()) | Err(KeepError::Overtaken(_))) {
            self.begun.clear();
        }
        added
    }

    /// Idempotent as long as the leaves stay the same.
    async fn publish(&mut self, leaves: Vec<Vec<u8>>) -> Result<(), KeepError> {
        let Role::Ours(log) = &mut self.role else { return Ok(()) };
        let (first, mut next) = (log.state.size(), log.state.clone());
        for leaf in &leaves {
            next.apply(leaf)?;
        }
        let mut range = CompactRange::empty(first);
        leaves.iter().for_each(|leaf| range.append(leaf_hash(leaf)));
        let growth = Growth::new(&range, next.tree.root()?);
        let pending = Pending { first, leaves: leaves.clone() };
        let (folder, signer) = (self.folder.clone(), Arc::clone(&log.signer));
        blocking(move || folder.write(&pending)).await??;
        self.begun.clone_from(&leaves);
        self.claim(first, &leaves).await?;
        let signed = blocking(move || signer.sign_growth(&growth));
        let mut note = signed.await??;
        let Role::Ours(log) = &mut self.role else { return Ok(()) };
        let mut grown = log.edge.clone();
        let mut tiles = log.tiles.clone();
        let mut full = Vec::new();
        leaves.iter().for_each(|leaf| grown.append(leaf_hash(leaf), &mut full));
        full.into_iter().for_each(|(id, bytes)| tiles.insert(id, bytes));
        cosign(&mut self.witnesses, self.policy.as_ref(), &mut note, &tiles, &grown).await?;
        let addition = Addition {
            first,
            leaves: &leaves,
            before: &log.open,
            edge: log.edge.clone(),
            note: &note,
            keys: log.signer.keys(),
        };
        self.log.publish(addition).await?;
        for leaf in leaves {
            log.append(leaf)?;
        }
        self.begun.clear();
        // A key may be rotated from here on: nothing waits for the old one's signature.
        let (folder, done) =
            (self.folder.clone(), Pending { first: log.state.size(), leaves: vec![] });
        blocking(move || folder.write(&done)).await??;
        let (size, epoch) = (log.state.size(), log.state.epoch.map_or(0, |(number, _)| number));
        crate::metrics::cluster(size, epoch);
        tracing::info!(
            epoch,
            size,
            cosigned = note.signatures.len() - 1,
            "cluster epoch published"
        );
        Ok(())
    }
}

impl Log {
    fn append(&mut self, leaf: Vec<u8>) -> Result<(), Corruption> {
        self.state.apply(&leaf)?;
        let mut full = Vec::new();
        self.edge.append(leaf_hash(&leaf), &mut full);
        full.into_iter().for_each(|(id, bytes)| self.tiles.insert(id, bytes));
        self.open.push(leaf);
        if self.edge.size().is_multiple_of(TILE_WIDTH) {
            self.open.clear();
        }
        Ok(())
    }
}

/// Asks the witnesses, if the policy has any, and holds the note back until there are enough.
async fn cosign(
    witnesses: &mut Option<Witnesses>,
    policy: Option<&Policy>,
    note: &mut Note,
    tiles: &Tiles,
    edge: &Edge,
) -> Result<(), KeepError> {
    let Some(policy) = policy else { return Ok(()) };
    if let Some(witnesses) = witnesses {
        let mut all = tiles.clone();
        for level in 0..edge.levels().len() {
            let level = u32::try_from(level).unwrap_or(u32::MAX);
            let index = (edge.size() >> (8 * level)) / TILE_WIDTH;
            let id = TileId { level, index };
            edge.partial(id).into_iter().for_each(|bytes| all.insert(id, bytes));
        }
        let (all, size) = (&all, edge.size());
        let prove = |old| async move { all.answer(Question::Consistency(old), size) };
        for outcome in witnesses.cosign(note, prove).await {
            if let Err(error) = outcome.result {
                tracing::warn!(witness = outcome.name, %error, "witness did not cosign");
            }
        }
    }
    policy.cosigned(note).map(|_| ()).map_err(|error| KeepError::Quorum(error.to_string()))
}
