//! `sealcast demo`: the whole path in one command, on real files or on generated events.

use std::path::{Path, PathBuf};

use sealcast_common::clock::{Clock as _, WallClock};
use sealcast_common::serve::access::TokenText;
use sealcast_common::wire::FlushResponse;
use serde_json::json;

use super::access::{everything, locks};
use super::import::{Options, import_paths};
use super::local::{Addresses, Local};
use super::roles::stop_on_signal;
use super::sql::{Rows, query};
use crate::args::{ConnectArgs, DemoArgs, FlushWait};
use crate::client::Client;
use crate::demo::Generator;
use crate::output::{Failure, Progress, failed, line, table};
use crate::verify::verify;

/// The generator's seed: every demo shows the same events.
const SEED: u64 = 2026;
const BATCH: usize = 1_000;
/// How long the replica may take to hold what was flushed, milliseconds.
const WAIT_MS: u64 = 60_000;
/// How long the demo's own token is good for.
const DAY_MICROS: i64 = 24 * 3_600 * 1_000_000;

/// What the demo asks: title and statement.
const QUERIES: [(&str, &str); 6] = [
    (
        "Who sent events, and from when to when",
        "select tenant, count(*) as events, min(time) as first, max(time) as last \
         from events group by tenant order by events desc limit 5",
    ),
    (
        "What happens most, and how often it fails",
        "select action, count(*) as events, \
         count(*) filter (where outcome <> 'success') as not_ok \
         from events group by action order by events desc limit 8",
    ),
    (
        "By hour and outcome",
        "select date_trunc('hour', time) as hour, outcome, count(*) as events \
         from events group by hour, outcome order by hour, outcome limit 12",
    ),
    (
        "Hunt: who was refused most often, and from where",
        "select coalesce(actor_name, actor_id) as actor, source_ip, count(*) as refused \
         from events where outcome = 'denied' group by 1, 2 order by refused desc, actor limit 5",
    ),
    (
        "The newest events (read from the end, the rest is not touched)",
        "select time, tenant, action, outcome, actor_name \
         from events order by time desc limit 5",
    ),
    (
        "Where every row can be proved: shard, leaves, tree root",
        "select shard, size, segments, root from sealcast.shards order by shard",
    ),
];

pub(crate) async fn run(args: DemoArgs) -> Result<u8, Failure> {
    let stop = stop_on_signal();
    let (dir, _temporary) = data_dir(args.dir.as_deref())?;
    let store = dir.join("store").display().to_string();
    let (access, _) = locks(&dir)?;
    let token = everything(&access, "demo", Some(DAY_MICROS))?;
    let connect =
        ConnectArgs { access_token: Some(token.reveal().to_owned()), ..ConnectArgs::default() };
    let starting = Local::start_locked(&dir, &store, addresses(args.exit), access);
    let local = Box::pin(starting).await?;
    line(format!(
        "writer {}  shipper {}  replica {}",
        local.writer_url(),
        local.shipper_url(),
        local.replica_url()
    ));
    let shown = show(&args, &dir, &local, &connect).await;
    let ended = match &shown {
        Ok(last) if !args.exit => {
            go_on(&local, &dir, &token);
            line(last);
            stop.cancelled().await;
            local.stop().await
        }
        _ => local.stop().await,
    };
    let last = shown.map_err(|failure| Failure {
        message: format!("demo failed: {}", failure.message),
        ..failure
    })?;
    ended?;
    if args.exit {
        line(last);
    }
    Ok(0)
}

/// Loads, flushes, asks, verifies; answers the last line.
async fn show(
    args: &DemoArgs,
    dir: &Path,
    local: &Local,
    connect: &ConnectArgs,
) -> Result<String, Failure> {
    let writer = Client::open(&local.writer_url(), connect)?;
    let replica = Client::open(&local.replica_url(), connect)?;
    let clock = WallClock::default();
    let started = clock.monotonic();
    let sent = if args.from.is_empty() {
        generate(&writer, args.events, clock.now().0).await?
    } else {
        let options = Options { batch: BATCH, skip_bad: false, state: None };
        let done = import_paths(&writer, &args.from, &options).await?;
        line(format!(
            "{} events from {} files ({} known already)",
            done.sent, done.files, done.duplicates
        ));
        done.sent
    };
    let loaded = clock.monotonic();
    let flushed = writer.flush(FlushWait::Shipped).await?;
    let shipped = clock.monotonic();
    let first = json!({ "sql": "select count(*) from events", "min": flushed.token,
        "wait_ms": WAIT_MS });
    let counted = query(&replica, first).await?;
    line(format!(
        "{sent} events durable after {} ms, sealed and shipped {} ms later, on the replica {} ms \
         after that",
        (loaded - started).as_millis(),
        (shipped - loaded).as_millis(),
        (clock.monotonic() - shipped).as_millis(),
    ));
    let count = expect_count(&counted, &flushed)?;
    for (title, sql) in QUERIES {
        let asked = clock.monotonic();
        let rows = query(&replica, json!({ "sql": sql })).await?;
        let took = (clock.monotonic() - asked).as_millis();
        line(format!("\n{title}\n  {sql}"));
        line(table(&rows.header, &rows.rows));
        line(format!(
            "  {} rows, {took} ms, lag {} ms, complete {}",
            rows.rows.len(),
            rows.lag,
            rows.complete
        ));
    }
    let segments = query(&replica, json!({ "sql": "select count(*) from sealcast.segments" }));
    let segments = single(&segments.await?)?;
    line("");
    let target = dir.display().to_string();
    let report = verify(&target, &|_, _, _| {}).await;
    line(format!(
        "verify {target} (the writer's files and the store's objects): {}, {}",
        report.verdict(),
        super::verify::summary(&report)
    ));
    if report.exit_code() != 0 {
        let first = report.findings.first().map(ToString::to_string);
        let why = first.or_else(|| report.unchecked.first().cloned()).unwrap_or_default();
        return Err(Failure::new(format!("verification says {}: {why}", report.verdict())));
    }
    Ok(format!("demo ok: {count} events, {segments} segments, verified"))
}

/// The replica must count exactly the leaves of all trees.
fn expect_count(counted: &Rows, flushed: &FlushResponse) -> Result<u64, Failure> {
    let leaves: u64 = flushed.vector.values().sum();
    let count = single(counted)?;
    if count == leaves {
        return Ok(count);
    }
    Err(Failure::new(format!("the replica counts {count} events, the trees have {leaves} leaves")))
}

fn single(rows: &Rows) -> Result<u64, Failure> {
    let value = rows.rows.first().and_then(|row| row.first());
    let value = value.and_then(|value| value.parse().ok());
    value.ok_or_else(|| Failure::new("the replica answered no number"))
}

async fn generate(writer: &Client, events: usize, now: i64) -> Result<usize, Failure> {
    let progress = Progress::new("generate", events as u64, false);
    let mut sent = 0;
    let mut batch: Vec<String> = Vec::with_capacity(BATCH);
    let mut generator = Generator::new(SEED, events, now).peekable();
    while let Some(event) = generator.next() {
        batch.push(event.to_string());
        if batch.len() == BATCH || generator.peek().is_none() {
            let answer = writer.send_events(batch.join("\n"), false).await?;
            let answer = answer.map_err(|refusal| refusal.into_failure("events were refused"))?;
            sent += answer.accepted;
            batch.clear();
            progress.set(sent as u64, "events");
        }
    }
    progress.finish();
    line(format!("{sent} events generated (seed {SEED})"));
    Ok(sent)
}

/// The given folder, or a temporary one that is removed at the end.
fn data_dir(given: Option<&Path>) -> Result<(PathBuf, Option<tempfile::TempDir>), Failure> {
    if let Some(dir) = given {
        return Ok((dir.to_owned(), None));
    }
    let temporary = tempfile::Builder::new().prefix("sealcast-demo-").tempdir().map_err(failed)?;
    Ok((temporary.path().to_owned(), Some(temporary)))
}

/// The usual ports for going on by hand, if they are free; any free ones otherwise.
fn addresses(exit: bool) -> Addresses {
    let usual = [7070, 7071, 7080, 7081, 7082].map(|port| format!("127.0.0.1:{port}"));
    let free = !exit && usual.iter().all(|address| std::net::TcpListener::bind(address).is_ok());
    let [writer, shipper, replica, flight, postgres] =
        usual.map(|address| if free { address } else { "127.0.0.1:0".to_owned() });
    Addresses { writer, shipper, replica, flight, postgres }
}

fn go_on(local: &Local, dir: &Path, token: &TokenText) {
    let (writer, replica) = (local.writer_url(), local.replica_url());
    let flight = local.flight_url();
    let postgres = local.postgres_url().unwrap_or_default();
    line(format!(
        r#"
Go on, while this runs (data in {}; the token is good for a day):
  export SEALCAST_TOKEN={}
  auth="authorization: Bearer $SEALCAST_TOKEN"
  curl -s {writer}/v1/events -H "$auth" -H 'content-type: application/json' \
    -d '{{"tenant":"acme","action":"user.login","actor_id":"alice","outcome":"success"}}'
  curl -s -H "$auth" -X POST '{writer}/v1/admin/flush?wait=shipped'
  curl -s {replica}/v1/sql -H "$auth" -H 'content-type: text/plain' \
    -d "select time, action, outcome from events where tenant = 'acme' and actor_id = 'alice'"
  sealcast sql --replica {replica}
  # any client of Arrow Flight SQL, such as ADBC (docs/flight.md): {flight}, the token as password
  PGPASSWORD=$SEALCAST_TOKEN psql '{postgres}' -c 'select outcome, count(*) from events group by 1'
  python3 -c "import json,os,urllib.request as u; print(json.load(u.urlopen(u.Request(
    '{replica}/v1/sql', b'select outcome, count(*) from events group by 1',
    {{'content-type': 'text/plain', 'authorization': 'Bearer ' + os.environ['SEALCAST_TOKEN']}})))['rows'])"
Ctrl-C ends it.
"#,
        dir.display(),
        token.reveal()
    ));
}
