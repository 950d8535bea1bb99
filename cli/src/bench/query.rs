//! `bench query`: the sixteen queries over a data set, hot, through HTTP and in this process.

use sealcast_common::durable::{Durable as _, RealFiles};
use serde_json::json;

use super::args::{QueryArgs, Via};
use super::data::{DataSet, Replica, open_replica};
use super::events::Generator;
use super::http::Http;
use super::queries::{Parameters, Query, queries};
use super::report::{Report, grouped};
use super::stats::{Times, Watch};
use crate::output::{Failure, failed, line, note, table};

/// Runs that are not counted.
const WARMING: u64 = 2;

pub(super) async fn run(args: QueryArgs) -> Result<(), Failure> {
    let set = DataSet::open(&args.data)?;
    let parameters = Parameters::new(&set, &Generator::new(set.seed));
    let chosen = match &args.sql {
        Some(sql) => vec![Query { name: "sql", what: "as stated", sql: sql.clone() }],
        None => choose(queries(&parameters), &args.only)?,
    };
    if args.list {
        let sql: Vec<_> = chosen
            .iter()
            .map(|query| json!({ "name": query.name, "what": query.what, "sql": query.sql }))
            .collect();
        let list = json!({ "rows": set.rows, "parameters": parameters.to_json(), "queries": sql });
        line(serde_json::to_string_pretty(&list).map_err(failed)?);
        return Ok(());
    }
    let replica = open_replica(&args.data, set.rows).await?;
    let measured = measure_all(&args, &chosen, &replica).await;
    replica.stop().await?;
    let mut report = Report::new("query", set.rows, set.seed);
    let mut lines = Vec::new();
    for (query, mut times) in chosen.iter().zip(measured?) {
        let mut cells = vec![query.name.to_owned(), query.what.to_owned()];
        for (via, times) in [("process", &mut times.process), ("http", &mut times.http)] {
            for (which, share) in [("min", 0.0), ("median", 0.5)] {
                let value = times.quantile_ms(share);
                if times.count() > 0 {
                    report.figure(format!("{} {via} {which}", query.name), value, "ms");
                }
                cells.push(if times.count() > 0 { grouped(value) } else { "–".to_owned() });
            }
        }
        cells.push(grouped(times.rows as f64));
        lines.push(cells);
    }
    let header =
        ["query", "what", "in process: min ms", "median", "http: min ms", "median", "rows"];
    line(table(&header.map(str::to_owned), &lines));
    report.print_machine();
    report.save(args.json.as_deref())
}

fn choose(all: Vec<Query>, only: &[String]) -> Result<Vec<Query>, Failure> {
    if let Some(unknown) = only.iter().find(|name| !all.iter().any(|query| query.name == **name)) {
        let names: Vec<&str> = all.iter().map(|query| query.name).collect();
        return Err(Failure::new(format!("query {unknown:?} is unknown"))
            .hint(format!("expected some of {}", names.join(","))));
    }
    let wanted = |query: &Query| only.is_empty() || only.iter().any(|name| name == query.name);
    Ok(all.into_iter().filter(wanted).collect())
}

/// What one query took.
#[derive(Debug, Default)]
struct Measured {
    process: Times,
    http: Times,
    rows: usize,
}

async fn measure_all(
    args: &QueryArgs,
    chosen: &[Query],
    replica: &Replica,
) -> Result<Vec<Measured>, Failure> {
    let http = Http::new(&replica.url())?;
    let mut all = Vec::with_capacity(chosen.len());
    for query in chosen {
        let mut measured = Measured::default();
        for run in 0..WARMING + args.runs {
            if args.via != Via::Http {
                let watch = Watch::default();
                let answer = replica.handle.collect(&query.sql).await;
                let took = watch.elapsed();
                let batches = answer.map_err(|error| refused(query, &error.to_string()))?;
                measured.rows = batches.iter().map(|batch| batch.num_rows()).sum();
                if run >= WARMING {
                    measured.process.push(took);
                }
            }
        }
        for run in 0..WARMING + args.runs {
            if args.via != Via::Process {
                let watch = Watch::default();
                let answer = http.ask(&query.sql).await;
                answer.map_err(|failure| refused(query, &failure.message))?;
                if run >= WARMING {
                    measured.http.push(watch.elapsed());
                }
            }
        }
        if let Some(dir) = &args.answers {
            RealFiles.create_dir(dir).map_err(failed)?;
            let answer = http.ask(&query.sql).await?;
            let file = dir.join(format!("{}.arrow", query.name));
            RealFiles.write_new(&file, &answer).map_err(failed)?;
        }
        note(format!("{} done", query.name));
        all.push(measured);
    }
    Ok(all)
}

fn refused(query: &Query, reason: &str) -> Failure {
    Failure::new(format!("{} ({}) was not answered: {reason}", query.name, query.what))
        .hint(query.sql.clone())
}
