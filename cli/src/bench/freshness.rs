//! `bench freshness`: from the request to flush until a replica answers with the rows in it.

use serde_json::json;

use super::args::FreshnessArgs;
use super::events::{Generator, write_json};
use super::http::Http;
use super::report::Report;
use super::stats::{Times, Watch};
use crate::args::FlushWait;
use crate::client::Client;
use crate::commands::local::{Addresses, Local};
use crate::output::{Failure, failed};

/// Events before each flush, unless stated.
const ROWS: u64 = 1_000;
/// Rounds that are not counted.
const WARMING: u64 = 3;

pub(super) async fn run(args: FreshnessArgs) -> Result<(), Failure> {
    let folder = tempfile::Builder::new().prefix("sealcast-bench-").tempdir_in(&args.dir);
    let folder = folder.map_err(failed)?;
    let of_folder = folder.path().join("store").display().to_string();
    let store = args.store.clone().unwrap_or(of_folder);
    let any = || "127.0.0.1:0".to_owned();
    let addresses = Addresses {
        writer: any(),
        shipper: any(),
        replica: any(),
        flight: "none".into(),
        postgres: "none".into(),
    };
    let local = Local::start(folder.path(), &store, addresses).await?;
    let measured = rounds(&args, &local).await;
    local.stop().await?;
    let (mut sealed, mut visible) = measured?;
    let rows = args.common.rows.unwrap_or(ROWS);
    let mut report = Report::new("freshness", rows, args.common.seed);
    let (p50, p99) = (visible.quantile_ms(0.5), visible.quantile_ms(0.99));
    report.goal("flush to visible, p50", p50, "ms", "≤ 250");
    report.goal("flush to visible, p99", p99, "ms", "≤ 1,000");
    report.figure("flush to visible, longest", visible.quantile_ms(1.0), "ms");
    report.figure("of it, flush answered, p50", sealed.quantile_ms(0.5), "ms");
    report.figure("rounds", args.rounds as f64, "");
    report.print();
    report.save(args.common.json.as_deref())
}

async fn rounds(args: &FreshnessArgs, local: &Local) -> Result<(Times, Times), Failure> {
    let (writer, replica) = (Http::new(&local.writer_url())?, Http::new(&local.replica_url())?);
    let client = Client::new(&local.writer_url())?;
    let events = Generator::new(args.common.seed);
    let rows = args.common.rows.unwrap_or(ROWS);
    let (mut sealed, mut visible) = (Times::default(), Times::default());
    for round in 0..WARMING + args.rounds {
        let mut body = String::new();
        for index in round * rows..(round + 1) * rows {
            write_json(&events.event(index), &mut body);
        }
        writer.send(body.into()).await?;
        let watch = Watch::default();
        let token = client.flush(FlushWait::Sealed).await?.token;
        let flushed = watch.elapsed();
        let ask = json!({ "sql": "select count(*) as n from events", "format": "json",
                          "min": token, "wait_ms": 60_000 });
        let answer = replica.query(&ask).await?;
        let took = watch.elapsed();
        let answer: serde_json::Value = serde_json::from_slice(&answer).map_err(failed)?;
        if answer["rows"][0][0].as_u64() != Some((round + 1) * rows) {
            return Err(Failure::new(format!("a replica answered {answer} after a wait")));
        }
        if round >= WARMING {
            sealed.push(flushed);
            visible.push(took);
        }
    }
    Ok((sealed, visible))
}
