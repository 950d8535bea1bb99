//! The loop's one turn: reconcile → judge and upload → commit → publish. Idempotent at every step.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use sealcast_common::catalog::{Catalog, CommitKind, ShardCatalog};
use sealcast_common::clock::Micros;
use sealcast_common::integrity::{Edge, Policy, empty_root};

use crate::cluster::{KeepError, Keeper};
use crate::commit::{Batch, Offer, Settled};
use crate::error::ShipError;
use crate::fault::Fault;
use crate::place::{Place, blocking};
use crate::publish::Publisher;
use crate::scan::{Plan, Stamp, reconcile, scan_shard, segment_file};
use crate::status::{Board, ShardShipping, Shipped};
use crate::upload::{Uploaded, Work, upload};

/// Shards whose segments are judged and uploaded at the same time.
const UPLOADS_AT_ONCE: usize = 4;

/// Everything that a turn changes.
#[derive(Debug)]
pub(crate) struct Shipper {
    pub(crate) place: Arc<Place>,
    pub(crate) board: Board,
    pub(crate) publisher: Publisher,
    /// The cluster log, if it is ours to keep.
    pub(crate) keeper: Keeper,
    /// The state after the last commit that is known to stand.
    pub(crate) catalog: Catalog,
    /// A record whose fate is not known yet. Nothing else is offered before it is.
    pub(crate) offer: Option<Offer>,
    pub(crate) booted: bool,
    pub(crate) tailed: bool,
    pub(crate) owned: bool,
    /// When the last commit was last seen in the store (monotonic).
    pub(crate) confirmed_at: Option<Duration>,
    faults: BTreeMap<u16, Fault>,
    /// The edges of the shards' tiles, as the last uploads left them.
    edges: BTreeMap<u16, Edge>,
    /// The cluster log was kept without contradiction, as far as it was last tried.
    kept: bool,
    done: Shipped,
}

impl Shipper {
    pub(crate) fn new(place: Arc<Place>, board: Board, policy: Option<Policy>) -> Self {
        Shipper {
            board,
            keeper: Keeper::new(Arc::clone(&place), policy),
            publisher: Publisher::new(Arc::clone(&place)),
            catalog: place.empty_catalog(),
            place,
            offer: None,
            booted: false,
            tailed: false,
            owned: false,
            confirmed_at: None,
            faults: BTreeMap::new(),
            edges: BTreeMap::new(),
            kept: true,
            done: Shipped::default(),
        }
    }

    /// Ships everything that is sealed when it begins, and whatever is sealed meanwhile. After an
    /// error the next turn goes on where this one stopped.
    pub(crate) async fn turn(&mut self) -> Result<Shipped, ShipError> {
        self.done = Shipped::default();
        self.settle().await?;
        if !self.tailed {
            self.tail().await?;
        }
        let mut plans = self.plan().await?;
        // `--once` with nothing to ship does not take the stream from anybody.
        let wanted = !self.place.config.once || plans.values().any(|p| !p.ready.is_empty());
        if wanted && !self.owned {
            self.claim().await?;
        }
        self.publish().await?;
        while self.owned && !self.place.stop.is_cancelled() {
            self.confirm(plans.values().any(|plan| !plan.ready.is_empty())).await?;
            let batch = self.upload(plans).await?;
            if batch.adds.is_empty() {
                break;
            }
            self.offer = Some(Offer::add(&self.place, &self.catalog, batch)?);
            self.settle().await?;
            self.publish().await?;
            plans = self.plan().await?;
        }
        self.done.seq = self.catalog.seq;
        self.done.blocked =
            self.faults.iter().map(|(shard, fault)| (*shard, fault.finding.to_string())).collect();
        Ok(self.done.clone())
    }

    /// Learns the fate of the record on offer. The only place where the catalog moves by our hand.
    pub(crate) async fn settle(&mut self) -> Result<(), ShipError> {
        let Some(offer) = self.offer.take() else { return Ok(()) };
        let theirs = match offer.settle(&self.place.log).await {
            Ok(Settled::Ours) => {
                self.adopt(offer);
                return Ok(());
            }
            Ok(Settled::Theirs(theirs)) => theirs,
            Err(error) => {
                self.offer = Some(offer);
                return Err(error);
            }
        };
        let (seq, epoch) = (offer.next.seq, offer.next.epoch);
        if offer.kind == CommitKind::Fence {
            self.tailed = false;
            return Err(ShipError::ClaimLost { epoch });
        }
        if theirs > epoch {
            return Err(ShipError::Fenced { seq, epoch, by: theirs });
        }
        Err(ShipError::Split { seq, epoch, found: theirs })
    }

    /// The cluster log's turn: whatever happens to it, rows are shipped.
    pub(crate) async fn keep(&mut self, now: bool) {
        let health = &self.place.health;
        match self.keeper.turn(&self.catalog, now).await {
            Ok(()) => {
                health.clear("cluster");
                self.kept = true;
            }
            Err(KeepError::Contradiction(finding)) => {
                // Told once: the turn comes again every few seconds.
                if std::mem::take(&mut self.kept) {
                    let check = finding.check;
                    tracing::error!(check, %finding, "cluster log contradicted: no epoch is signed");
                }
                crate::metrics::failed("cluster_contradiction");
                health.not_ready("cluster", finding.to_string());
            }
            Err(error) => {
                tracing::warn!(%error, "cluster epoch not published");
                crate::metrics::failed("cluster");
                health.note("cluster", error.to_string());
            }
        }
    }

    /// After a failed turn: what is sealed meanwhile still counts as lag.
    pub(crate) async fn look(&mut self) {
        if self.tailed
            && let Err(error) = self.plan().await
        {
            tracing::warn!(%error, "sealed directory not scanned");
        }
    }

    /// The store has our last commit, at this moment.
    pub(crate) fn seen(&mut self) {
        self.confirmed_at = Some(self.place.seams.clock.monotonic());
        self.board.store_seen(self.place.seams.clock.now());
    }

    fn adopt(&mut self, offer: Offer) {
        let now = self.place.seams.clock.monotonic();
        let took = now.saturating_sub(offer.since);
        self.seen();
        crate::metrics::committed(took);
        let (seq, epoch) = (offer.next.seq, offer.next.epoch);
        match offer.kind {
            CommitKind::Fence => {
                self.owned = true;
                tracing::info!(stream = offer.next.stream, seq, epoch, "stream claimed");
            }
            CommitKind::Add => {
                self.done.commits += 1;
                self.done.segments += offer.adds.len();
                for add in &offer.adds {
                    tracing::info!(
                        segment = add.id.to_text(),
                        seq,
                        object_bytes = add.object_bytes,
                        "segment shipped"
                    );
                }
            }
        }
        self.catalog = offer.next;
        self.board.committed(&self.catalog);
    }

    /// S6 and S7: what is committed is told, by order of importance.
    async fn publish(&mut self) -> Result<(), ShipError> {
        self.publisher.mark_shipped(&self.catalog).await?;
        if self.owned {
            self.publisher.snapshot(&self.catalog, self.place.config.snapshot_every).await;
            self.publisher.put_head(&self.catalog, false).await;
            self.publisher.announce(&self.catalog).await;
        }
        Ok(())
    }

    /// S3: what every shard has, compared with what is committed.
    async fn plan(&mut self) -> Result<BTreeMap<u16, Plan>, ShipError> {
        let place = Arc::clone(&self.place);
        let shipped = self.catalog.shards.clone();
        let scan = move || {
            let mut plans = BTreeMap::new();
            for shard in place.shards() {
                let sealed_dir = place.dir.sealed_dir(shard);
                let local = scan_shard(&place.dir, shard).map_err(ShipError::file(&sealed_dir))?;
                let none = ShardCatalog::default();
                let shipped = shipped.get(&shard).map_or(&none, |shipped| &**shipped);
                let plan = reconcile(&place.dir, shard, &local, shipped);
                let oldest = local.iter().find(|name| name.end() > shipped.size());
                let written = oldest
                    .and_then(|name| Stamp::of(&segment_file(&place.dir, shard, name)))
                    .map(|stamp| stamp.written);
                plans.insert(shard, (plan, written));
            }
            Ok::<_, ShipError>(plans)
        };
        let scanned = blocking(scan).await??;
        self.board.scanned(scanned.iter().map(|(shard, (plan, oldest))| {
            let shipped = self.catalog.shards.get(shard).map_or(0, |shipped| shipped.size());
            self.shard_status(*shard, plan, shipped, *oldest)
        }));
        let mut plans = BTreeMap::new();
        for (shard, (plan, _)) in scanned {
            // Where something is ready, the judge of its bytes has the first word.
            if plan.ready.is_empty() {
                self.note_fault(shard, plan.fault.clone());
            }
            plans.insert(shard, plan);
        }
        Ok(plans)
    }

    fn shard_status(
        &self,
        shard: u16,
        plan: &Plan,
        shipped: u64,
        oldest: Option<Micros>,
    ) -> ShardShipping {
        let lag_rows = plan.sealed.saturating_sub(shipped);
        ShardShipping { shard, sealed: plan.sealed, shipped, lag_rows, oldest, fault: None }
    }

    /// S4: up to `commit_adds` segments of all shards, a fair share each.
    async fn upload(&mut self, plans: BTreeMap<u16, Plan>) -> Result<Batch, ShipError> {
        let busy = plans.values().filter(|plan| !plan.ready.is_empty()).count();
        let most = self.place.config.commit_adds;
        let share = (most / busy.max(1)).max(1);
        let works = plans.into_iter().filter(|(_, plan)| !plan.ready.is_empty()).take(most);
        let works: Vec<(Work, Option<Fault>)> =
            works.map(|(shard, plan)| (self.work(shard, &plan, share), plan.fault)).collect();
        let uploads = works.into_iter().map(|(work, fault)| {
            let place = Arc::clone(&self.place);
            async move { Ok::<_, ShipError>((upload(place, work).await?, fault)) }
        });
        let uploads: Vec<(Uploaded, Option<Fault>)> =
            futures::stream::iter(uploads).buffered(UPLOADS_AT_ONCE).try_collect().await?;
        let mut batch = Batch::default();
        for (uploaded, later) in uploads {
            self.note_fault(uploaded.shard, uploaded.fault.or(later));
            batch.adds.extend(uploaded.adds);
            self.edges.extend(uploaded.edge.map(|edge| (uploaded.shard, edge)));
            batch.checkpoints.extend(uploaded.checkpoint.map(|entry| (uploaded.shard, entry)));
        }
        Ok(batch)
    }

    fn work(&self, shard: u16, plan: &Plan, share: usize) -> Work {
        let shipped = self.catalog.shards.get(&shard);
        let last = shipped.and_then(|shipped| shipped.segments.last());
        let checkpoint = shipped.and_then(|shipped| shipped.checkpoint.as_ref());
        Work {
            shard,
            names: plan.ready.iter().take(share).cloned().collect(),
            root_before: last.map_or_else(empty_root, |segment| segment.root_after),
            known_key: checkpoint.map(|entry| entry.key.clone()),
            shipped: shipped.cloned(),
            edge: self.edges.get(&shard).cloned(),
            fault: self.faults.get(&shard).cloned(),
        }
    }

    /// Says once what stops a shard, and once that nothing does any more.
    fn note_fault(&mut self, shard: u16, fault: Option<Fault>) {
        let reason = format!("shard_{shard:04x}");
        self.board.fault(shard, fault.as_ref());
        match fault {
            Some(fault) => {
                self.place.health.not_ready(&reason, fault.finding.to_string());
                if self.faults.get(&shard).is_none_or(|known| known.finding != fault.finding) {
                    let (kind, finding) = (fault.kind.word(), &fault.finding);
                    tracing::error!(
                        shard,
                        kind,
                        check = finding.check,
                        object = finding.object,
                        offset = finding.offset,
                        expected = finding.expected,
                        found = finding.found,
                        "shard stopped"
                    );
                    crate::metrics::failed(kind);
                }
                self.faults.insert(shard, fault);
            }
            None => {
                self.place.health.clear(&reason);
                if self.faults.remove(&shard).is_some() {
                    tracing::info!(shard, "shard resumed");
                }
            }
        }
    }
}
