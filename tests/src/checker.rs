//! The checker: what was sent and acknowledged, against what SQL and the files say in the end.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use arrow::buffer::Buffer;
use sealcast_common::event::{Position, encode_leaf};
use sealcast_common::fault::hex;
use sealcast_common::integrity::{CompactRange, leaf_hash};
use sealcast_common::segment::columns::EventColumns;
use sealcast_common::segment::{Expectation, SegmentName, verify_segment};
use sealcast_common::wire::{IngestResponse, ShardsResponse};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{Cluster, REPLICA, WRITER, until};

/// An event as it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sent {
    tenant: String,
    message: String,
    /// Shard and index, once acknowledged.
    place: Option<(u16, u64)>,
}

/// A writer's word about one of its trees: (shard, size, root).
type Checkpoint = (u16, u64, String);

/// Everything that clients know; events have their own ids, so that a repeat is one event.
#[derive(Clone, Debug, Default)]
pub struct Checker {
    events: BTreeMap<String, Sent>,
    checkpoints: Vec<Checkpoint>,
}

/// What a check found, for a test's last line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Acknowledged events, each found exactly once.
    pub acknowledged: usize,
    /// Found though their acknowledgement was lost.
    pub unacknowledged: usize,
    /// Earlier roots that the final trees were shown to contain.
    pub checkpoints: usize,
}

impl Checker {
    /// A batch of events that nobody has sent before, as NDJSON; `seed` makes them repeatable.
    pub fn batch(&mut self, seed: u64, events: u64) -> String {
        let first = self.events.len() as u64;
        let lines = (first..first + events).map(|number| {
            let tenant = format!("t{}", (number ^ seed) % 23);
            let message = format!("event {number} of {seed}");
            // A UUID of version 8: ours to number.
            let id = format!("{seed:08x}-0000-8000-8000-{number:012x}");
            let line = json!({
                "tenant": tenant, "event_id": id, "action": "write", "message": message,
                "attributes": { "number": number },
            });
            self.events.insert(id, Sent { tenant, message, place: None });
            line.to_string()
        });
        let lines: Vec<String> = lines.collect();
        lines.join("\n")
    }

    /// Books an acknowledgement; a second one must name the same places.
    pub fn acknowledged(&mut self, answer: &IngestResponse) {
        assert_eq!(answer.rejected_count, 0, "{answer:?}");
        for event in &answer.events {
            let sent = self.events.get_mut(&event.event_id).expect("an event that was sent");
            let place = (event.shard, event.seq);
            assert_eq!(*sent.place.get_or_insert(place), place, "{} has moved", event.event_id);
        }
    }

    /// Keeps the writer's roots of now, if it answers: later trees must contain them.
    pub async fn keep_checkpoints(&mut self, writer: &str) {
        if let Some(shards) = shards(writer).await {
            let kept = shards.shards.into_iter().map(|it| (it.shard, it.size, it.root));
            self.checkpoints.extend(kept);
        }
    }

    /// Takes over the roots that another has kept.
    pub fn take_checkpoints(&mut self, other: Checker) {
        self.checkpoints.extend(other.checkpoints);
    }

    /// Acknowledged events so far.
    pub fn count(&self) -> usize {
        self.events.values().filter(|sent| sent.place.is_some()).count()
    }

    /// Flushes, waits for the replica, and judges everything; panics with what is wrong.
    pub async fn check(&mut self, cluster: &Cluster) -> Checked {
        let token = cluster.flush().await;
        let mut checked = self.check_replica(cluster, &token).await;
        for target in [cluster.path("writer").display().to_string(), cluster.store.clone()] {
            let (code, report) = cluster.verify(&target).await;
            assert_eq!(code, Some(0), "{target}: {report}");
        }
        checked.checkpoints = self.check_trees(cluster).await;
        checked
    }

    /// What SQL answers at `token`: every acknowledged event once, in place, and nothing else
    /// but events whose acknowledgement was lost.
    pub async fn check_replica(&self, cluster: &Cluster, token: &str) -> Checked {
        let sql = "select cast(event_id as varchar), tenant, message, _shard, _seq from events";
        let rows = cluster.rows(sql, Some(token)).await;
        let mut found = BTreeMap::new();
        for row in &rows {
            let text = |at: usize| row[at].as_str().expect("text").to_owned();
            let place = row[3].as_u64().zip(row[4].as_u64()).expect("place");
            let place = (u16::try_from(place.0).expect("shard"), place.1);
            let seen = Sent { tenant: text(1), message: text(2), place: Some(place) };
            let doubled = found.insert(text(0), seen);
            assert_eq!(doubled, None, "{} is there twice", text(0));
        }
        let mut checked = Checked::default();
        for (id, sent) in self.events.iter().filter(|(_, sent)| sent.place.is_some()) {
            assert_eq!(found.get(id), Some(sent), "{id} was acknowledged");
            checked.acknowledged += 1;
        }
        for (id, seen) in &found {
            let sent = self.events.get(id).unwrap_or_else(|| panic!("{id} was never sent"));
            assert_eq!((&sent.tenant, &sent.message), (&seen.tenant, &seen.message), "{id}");
            checked.unacknowledged += usize::from(sent.place.is_none());
        }
        let shards = shards(&cluster.url(WRITER)).await.expect("writer");
        let by_shard = "select _shard, count(*), min(_seq), max(_seq) from events group by 1";
        let counted = cluster.rows(by_shard, Some(token)).await;
        for shard in &shards.shards {
            let row = counted.iter().find(|row| row[0] == json!(shard.shard));
            let expected = match shard.size {
                0 => None,
                size => Some(json!([shard.shard, size, 0, size - 1])),
            };
            assert_eq!(row, expected.as_ref(), "shard {}", shard.shard);
        }
        checked
    }

    /// Rows that the replica serves now: each must be as it was sent, none doubled. `0` if it
    /// refuses or does not run.
    pub async fn judge_rows(&self, cluster: &Cluster, what: &str) -> usize {
        let sql = "select cast(event_id as varchar), tenant, message, _shard, _seq from events";
        let url = format!("{}/v1/sql", cluster.url(REPLICA));
        let asked = reqwest::Client::new().post(url).json(&json!({ "sql": sql })).send().await;
        let Ok(answer) = asked else { return 0 };
        if answer.status() != 200 {
            return 0;
        }
        let document: Value = answer.json().await.expect("json");
        let rows = document["rows"].as_array().expect("rows");
        let mut seen = BTreeSet::new();
        for row in rows {
            let id = row[0].as_str().expect("id");
            assert!(seen.insert(id.to_owned()), "{what}: {id} is served twice");
            let sent = self.events.get(id).unwrap_or_else(|| panic!("{what}: {id} is invented"));
            assert_eq!((&row[1], &row[2]), (&json!(sent.tenant), &json!(sent.message)), "{what}");
            if let Some((shard, seq)) = sent.place {
                assert_eq!((&row[3], &row[4]), (&json!(shard), &json!(seq)), "{what}: {id}");
            }
        }
        rows.len()
    }

    /// Derives every leaf again from the sealed files and compares each root that was kept.
    async fn check_trees(&mut self, cluster: &Cluster) -> usize {
        self.keep_checkpoints(&cluster.url(WRITER)).await;
        let mut trees: BTreeMap<u16, CompactRange> = BTreeMap::new();
        let mut roots: BTreeMap<(u16, u64), String> = BTreeMap::new();
        let empty = CompactRange::empty(0);
        let root_of = |tree: &CompactRange| hex(&tree.root().expect("a tree from 0"));
        for path in cluster.files("writer/sealed", ".seg") {
            for row in sealed_rows(&path) {
                let tree = trees.entry(row.shard).or_insert_with(|| empty.clone());
                assert_eq!(tree.end(), row.seq, "{}", path.display());
                tree.append(leaf_hash(&row.leaf));
                let place = (row.shard, tree.end());
                if self.checkpoints.iter().any(|(shard, size, _)| (*shard, *size) == place) {
                    roots.insert(place, root_of(tree));
                }
            }
        }
        for (shard, size, root) in self.checkpoints.iter().filter(|(_, size, _)| *size > 0) {
            let found = roots.get(&(*shard, *size));
            assert_eq!(found, Some(root), "shard {shard} at {size} is another history");
        }
        roots.len()
    }
}

/// A row of a sealed file, read without any server.
#[derive(Clone, Debug)]
pub struct SealedRow {
    /// The shard.
    pub shard: u16,
    /// Index in its tree.
    pub seq: u64,
    /// UUID text.
    pub event_id: String,
    /// The leaf, derived again.
    pub leaf: Vec<u8>,
}

/// Every row of a sealed file in the tree's order; the file must verify.
pub fn sealed_rows(path: &Path) -> Vec<SealedRow> {
    let name = path.file_name().and_then(|name| name.to_str()).and_then(SegmentName::parse);
    let name = name.expect("a segment's name");
    let expect = Expectation {
        file_hash: Some(name.hash.to_vec()),
        range: Some((name.start, name.end())),
        ..Expectation::default()
    };
    let bytes = Buffer::from(std::fs::read(path).expect("segment"));
    let (view, batches) = verify_segment(bytes, &expect).expect("a valid segment");
    let log_id = sealcast_common::integrity::log_id(&view.seal().origin);
    let mut found = Vec::new();
    for batch in &batches {
        let columns = EventColumns::new(batch).expect("columns");
        for row in 0..columns.rows() {
            let (seq, ingested_at) = (columns.seq(row), columns.ingested_at(row));
            let event = columns.event(row);
            let position = Position { log_id, seq, ingested_at };
            found.push(SealedRow {
                shard: columns.shard(row),
                seq,
                event_id: Uuid::from_bytes(event.event_id).to_string(),
                leaf: encode_leaf(&event, &position).expect("leaf"),
            });
        }
    }
    // Within a file rows are sorted for queries.
    found.sort_by_key(|row| row.seq);
    found
}

async fn shards(writer: &str) -> Option<ShardsResponse> {
    reqwest::get(format!("{writer}/v1/shards")).await.ok()?.json().await.ok()
}

/// Sends one batch until it is acknowledged, as a client with patience: refusals of overload,
/// shutdown and connection are repeated with the same ids, any other is a defect.
pub async fn deliver(http: &reqwest::Client, writer: &str, ndjson: &str) -> IngestResponse {
    until("a batch is acknowledged", || async {
        let request = http.post(format!("{writer}/v1/events"));
        let request = request.header("content-type", "application/x-ndjson");
        let answer = request.body(ndjson.to_owned()).send().await.ok()?;
        let (status, text) = (answer.status().as_u16(), answer.text().await.ok()?);
        match status {
            200 => Some(serde_json::from_str(&text).expect("an acknowledgement")),
            429 | 503 | 507 => None,
            _ => panic!("{status}: {text}: {}", Value::from(ndjson)),
        }
    })
    .await
}
