//! Answers of the optimised table against a plain scan of the same rows, by random statements.

mod grammar;
mod world;

use std::fmt::Write as _;

use arrow::array::{Array as _, AsArray as _, RecordBatch};
use arrow::datatypes::DataType;
use arrow::ipc::reader::StreamReader;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::prelude::SessionContext;
use serde_json::json;
use uuid::Uuid;

use self::grammar::{Question, question};
pub(super) use self::world::Dice;
use self::world::World;
use super::kit::Replica;

/// Statements for each small world; `SEALCAST_PLAN_CASES` for hand runs.
const CASES: u64 = 50;
const WORLDS: u64 = 6;
/// Wrong answers that are shown before a run gives up.
const SHOWN_MAX: usize = 5;

fn cases() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "for runs by hand")]
    let given = std::env::var("SEALCAST_PLAN_CASES").ok();
    given.and_then(|text| text.parse().ok()).unwrap_or(CASES)
}

/// Rows as text, one line each.
fn lines(batches: &[RecordBatch]) -> Vec<String> {
    let options = FormatOptions::default().with_null("∅");
    let mut lines = Vec::new();
    for batch in batches {
        let formatters: Vec<_> = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column.as_ref(), &options).unwrap())
            .collect();
        for row in 0..batch.num_rows() {
            let mut line = String::new();
            for (column, formatter) in batch.columns().iter().zip(&formatters) {
                match column.data_type() {
                    DataType::FixedSizeBinary(16) if column.is_valid(row) => {
                        let bytes = column.as_fixed_size_binary().value(row);
                        write!(line, "{}|", Uuid::from_slice(bytes).unwrap()).unwrap();
                    }
                    _ => write!(line, "{}|", formatter.value(row)).unwrap(),
                }
            }
            lines.push(line);
        }
    }
    lines
}

async fn ours(replica: &Replica, sql: &str) -> Result<Vec<String>, String> {
    let response = replica.post(&json!({ "sql": sql, "format": "arrow" })).await;
    let status = response.status();
    let bytes = response.bytes().await.map_err(|error| error.to_string())?;
    if status != 200 {
        return Err(String::from_utf8_lossy(&bytes).into_owned());
    }
    let reader = StreamReader::try_new(std::io::Cursor::new(bytes), None).unwrap();
    Ok(lines(&reader.map(Result::unwrap).collect::<Vec<_>>()))
}

async fn plain(context: &SessionContext, sql: &str) -> Result<Vec<String>, String> {
    let frame = context.sql(sql).await.map_err(|error| error.to_string())?;
    Ok(lines(&frame.collect().await.map_err(|error| error.to_string())?))
}

/// Compares; a statement without a total order is compared as a set of rows.
async fn compare(replica: &Replica, context: &SessionContext, asked: &Question) -> Option<String> {
    let (found, wanted) = (ours(replica, &asked.sql).await, plain(context, &asked.sql).await);
    let (mut found, mut wanted) = match (found, wanted) {
        (Ok(found), Ok(wanted)) => (found, wanted),
        (found, wanted) => {
            return Some(format!("{}\n  found {found:?}\n  wanted {wanted:?}", asked.sql));
        }
    };
    if !asked.ordered {
        found.sort();
        wanted.sort();
    }
    if found == wanted {
        return None;
    }
    let differs = found.iter().zip(&wanted).position(|(a, b)| a != b);
    let at = differs.unwrap_or_else(|| found.len().min(wanted.len()));
    Some(format!(
        "{}\n  found {} rows, wanted {}; row {at}: found {:?}, wanted {:?}",
        asked.sql,
        found.len(),
        wanted.len(),
        found.get(at),
        wanted.get(at),
    ))
}

async fn run(world: World, seed: u64, cases: u64) {
    let replica = world.replica().await;
    let context = world.plain();
    let mut wrong = Vec::new();
    for case in 0..cases {
        let mut dice = Dice::new(seed * 1_000_003 + case);
        let asked = question(&mut dice, &world);
        wrong.extend(compare(&replica, &context, &asked).await);
        if wrong.len() >= SHOWN_MAX {
            break;
        }
    }
    replica.stop().await;
    assert!(wrong.is_empty(), "seed {seed} ({world}):\n{}", wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn optimised_plans_answer_as_plain_scans_do() {
    for seed in 0..WORLDS {
        run(World::small(seed).await, seed, cases()).await;
    }
}

/// Segments of several batches, split over partitions; tenants beyond what a directory lists.
#[tokio::test(flavor = "multi_thread")]
async fn split_segments_answer_as_plain_scans_do() {
    run(World::large(1_000).await, 1_000, cases() / 2).await;
}
