//! Random sets of segments, and the same rows as a plain table.

use std::fmt;
use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef, AsArray as _, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::datasource::MemTable;
use datafusion::prelude::{SessionConfig, SessionContext};
use sealcast_common::clock::Micros;
use sealcast_common::event::Event;
use sealcast_common::segment::schema::logical_schema;
use uuid::Uuid;

use crate::tests::kit::{Bucket, EPOCH, Replica, event, event_id};

/// Seeded randomness (SplitMix64).
pub(in crate::tests) struct Dice(u64);

impl Dice {
    pub(in crate::tests) fn new(seed: u64) -> Self {
        // One step first: neighbouring seeds must not give shifted sequences.
        let mut dice = Dice(seed);
        dice.0 = dice.below(u64::MAX) ^ seed.rotate_left(32);
        dice
    }

    pub(in crate::tests) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound.max(1)
    }

    pub(in crate::tests) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(super) fn pick<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.below(of.len() as u64) as usize]
    }
}

/// A filled store.
pub(super) struct World {
    bucket: Bucket,
    partitions: usize,
    pub(super) shards: u16,
    /// Times that rows have.
    pub(super) times: Vec<i64>,
    pub(super) rows: u64,
    segments: usize,
}

impl fmt::Display for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let World { shards, segments, rows, partitions, .. } = self;
        write!(f, "{shards} shards, {segments} segments, {rows} rows, {partitions} partitions")
    }
}

/// How one segment's events are.
struct Habit {
    tenants: u64,
    tenant_first: u64,
    time: u64,
    nulls: u64,
    jump: i64,
}

impl Habit {
    fn roll(dice: &mut Dice) -> Self {
        Habit {
            tenants: 1 + dice.below(4),
            tenant_first: dice.below(4),
            time: dice.below(4),
            nulls: [0, 20, 100][dice.below(3) as usize],
            jump: dice.below(200) as i64 - 100,
        }
    }

    fn event(&self, dice: &mut Dice, shard: u16, seq: u64) -> Event {
        let mut event = event(shard, seq);
        event.tenant = format!("tenant-{}", self.tenant_first + dice.below(self.tenants));
        let seconds = match self.time {
            0 => seq as i64,
            1 => dice.below(100) as i64,
            2 => 42,
            _ => -(seq as i64),
        };
        event.time = Micros(EPOCH + (self.jump + seconds) * 1_000_000 + dice.below(2) as i64);
        event.action = ["file.read", "user.login", "z"][dice.below(3) as usize].into();
        event.actor_id = (!dice.chance(self.nulls)).then(|| format!("actor-{}", dice.below(7)));
        event.severity = (!dice.chance(self.nulls)).then(|| dice.below(24) as u8 + 1);
        if dice.chance(self.nulls) {
            event.outcome = None;
        }
        event
    }
}

impl World {
    pub(super) async fn small(seed: u64) -> Self {
        let mut dice = Dice::new(seed + 77);
        let mut world = World::empty(1 + dice.below(4) as usize, 1 + dice.below(3) as u16).await;
        // The first one is empty: no segment, no row.
        for _ in 0..if seed == 0 { 0 } else { 1 + dice.below(9) } {
            let (shard, habit) = (dice.below(world.shards.into()) as u16, Habit::roll(&mut dice));
            let rows = 1 + dice.below(60);
            world.ship(&mut dice, shard, &habit, rows).await;
        }
        world
    }

    pub(super) async fn large(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let mut world = World::empty(4, 2).await;
        let habit = Habit { tenants: 3, tenant_first: 0, time: 1, nulls: 20, jump: 0 };
        world.ship(&mut dice, 0, &habit, 66_000).await;
        let many = Habit { tenants: 6_000, tenant_first: 0, time: 0, nulls: 0, jump: -3_000 };
        world.ship(&mut dice, 1, &many, 20_000).await;
        world
    }

    async fn empty(partitions: usize, shards: u16) -> Self {
        let (bucket, times) = (Bucket::new().await, Vec::new());
        World { bucket, partitions, shards, times, rows: 0, segments: 0 }
    }

    async fn ship(&mut self, dice: &mut Dice, shard: u16, habit: &Habit, rows: u64) {
        let start = self.bucket.size(shard);
        let events: Vec<Event> =
            (start..start + rows).map(|seq| habit.event(dice, shard, seq)).collect();
        let times = events.iter().map(|event| event.time.0);
        self.times.extend(times.step_by((rows / 16).max(1) as usize));
        self.rows += rows;
        self.segments += 1;
        self.bucket.ship(shard, events).await;
    }

    pub(super) async fn replica(&self) -> Replica {
        let partitions = self.partitions;
        let replica = self.bucket.replica_with(|config| config.partitions = partitions).await;
        replica.wait(&self.bucket.token()).await;
        replica.wait_begun().await;
        replica
    }

    /// An id that an event has, or could have.
    pub(super) fn id(&self, dice: &mut Dice) -> Uuid {
        event_id(dice.below(self.shards.into()) as u16, dice.below(80))
    }

    /// The same rows in memory: labels and ids as plain text, nothing known beforehand.
    pub(super) fn plain(&self) -> SessionContext {
        let schema = plain_schema();
        let batches = self.bucket.rows.iter().map(|batch| plain(batch, &schema));
        let table = MemTable::try_new(Arc::clone(&schema), vec![batches.collect()]).unwrap();
        let config = SessionConfig::new().with_target_partitions(1);
        let mut context = SessionContext::new_with_config(config);
        datafusion_functions_json::register_all(&mut context).unwrap();
        context.register_table("events", Arc::new(table)).unwrap();
        context
    }
}

fn plain_schema() -> Arc<Schema> {
    let plain = |field: &Arc<Field>| {
        let kind = match field.data_type() {
            DataType::Dictionary(..) | DataType::FixedSizeBinary(_) => DataType::Utf8,
            other => other.clone(),
        };
        Field::new(field.name(), kind, field.is_nullable())
    };
    Arc::new(Schema::new(logical_schema().fields().iter().map(plain).collect::<Vec<_>>()))
}

fn plain(batch: &RecordBatch, schema: &Arc<Schema>) -> RecordBatch {
    let column = |(column, field): (&ArrayRef, &Arc<Field>)| -> ArrayRef {
        let Some(ids) = column.as_fixed_size_binary_opt() else {
            return cast(column, field.data_type()).unwrap();
        };
        let text = |row| Uuid::from_slice(ids.value(row)).unwrap().to_string();
        Arc::new(StringArray::from_iter_values((0..ids.len()).map(text)))
    };
    let columns = batch.columns().iter().zip(schema.fields()).map(column).collect();
    RecordBatch::try_new(Arc::clone(schema), columns).unwrap()
}
