//! `bench concurrency`: many clients ask small questions with changing parameters.

use std::sync::Arc;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::args::ConcurrencyArgs;
use super::data::{DataSet, open_replica};
use super::events::Generator;
use super::http::Http;
use super::report::Report;
use super::stats::{Times, Watch};
use crate::output::{Failure, failed, note};

/// What clients ask.
#[derive(Clone, Copy, Debug)]
enum Ask {
    Page,
    Point,
    Actor,
    Mix,
}

const ASKS: [(&str, Ask); 4] = [
    ("page: a tenant's newest 100 before a time", Ask::Page),
    ("point: a row by its id", Ask::Point),
    ("actor: a tenant's actor's newest 50", Ask::Actor),
    ("mix of the three", Ask::Mix),
];

const PAGE: &str = "select event_id, time, action, actor_id, outcome, message from events \
                    where tenant = $1 and time < $2 order by time desc limit 100";
const POINT: &str = "select * from events where event_id = $1";
const ACTOR: &str = "select event_id, time, action, outcome, message from events \
                     where tenant = $1 and actor_id = $2 order by time desc limit 50";

pub(super) async fn run(args: ConcurrencyArgs) -> Result<(), Failure> {
    let set = DataSet::open(&args.data)?;
    let events = Arc::new(Generator::new(set.seed));
    let replica = open_replica(&args.data, set.rows).await?;
    let http = Http::new(&replica.url())?;
    let mut report = Report::new("concurrency", set.rows, set.seed);
    for (name, ask) in ASKS {
        let watch = Arc::new(Watch::default());
        let end = Duration::from_secs(args.seconds);
        let mut clients = JoinSet::new();
        for client in 0..args.clients {
            let (http, events) = (http.clone(), Arc::clone(&events));
            let (watch, rows) = (Arc::clone(&watch), set.rows);
            clients.spawn(async move {
                let mut rng = StdRng::seed_from_u64(client);
                let mut asked = Asked::default();
                while watch.elapsed() < end {
                    let body = question(ask, &mut rng, &events, rows);
                    let one = Watch::default();
                    match http.query(&body).await {
                        Ok(_) => asked.times.push(one.elapsed()),
                        Err(failure) => asked.refuse(failure),
                    }
                }
                asked
            });
        }
        let mut all = Asked::default();
        while let Some(ended) = clients.join_next().await {
            all.merge(ended.map_err(failed)?);
        }
        report.figure(name, watch.rate(all.times.count()), "queries/s");
        report.figure("    p50", all.times.quantile_ms(0.5), "ms");
        report.figure("    p99", all.times.quantile_ms(0.99), "ms");
        if let Some(failure) = &all.first {
            report.goal("    not answered", all.refused as f64, "queries", "0");
            note(format!("{name}: {} not answered, first: {}", all.refused, failure.message));
        }
    }
    replica.stop().await?;
    report.figure("clients", args.clients as f64, "");
    report.print();
    report.save(args.json.as_deref())
}

/// What came of one client's questions.
#[derive(Debug, Default)]
struct Asked {
    times: Times,
    refused: u64,
    first: Option<Failure>,
}

impl Asked {
    fn refuse(&mut self, failure: Failure) {
        self.refused += 1;
        self.first.get_or_insert(failure);
    }

    fn merge(&mut self, other: Asked) {
        self.times.merge(other.times);
        self.refused += other.refused;
        self.first = self.first.take().or(other.first);
    }
}

/// A statement with parameters of some row, so that hot tenants are asked for most.
fn question(ask: Ask, rng: &mut StdRng, events: &Generator, rows: u64) -> Value {
    let event = events.event(rng.random_range(0..rows));
    let ask = match ask {
        Ask::Mix => [Ask::Page, Ask::Point, Ask::Actor][rng.random_range(0..3)],
        ask => ask,
    };
    let (sql, params) = match ask {
        Ask::Page => (PAGE, json!([event.tenant, event.time.to_rfc3339()])),
        Ask::Actor => (ACTOR, json!([event.tenant, event.actor_id])),
        Ask::Point | Ask::Mix => {
            (POINT, json!([uuid::Uuid::from_bytes(event.event_id).to_string()]))
        }
    };
    json!({ "sql": sql, "params": params, "format": "json" })
}
