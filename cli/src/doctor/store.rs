//! The object store: is it there, does it keep its promises, and what time does it think it is?

use std::time::Duration;

use sealcast_common::bucket::probe::{Fitness, probe};
use sealcast_common::bucket::{Store, without_secret};
use sealcast_common::clock::{Clock, Micros, OsRandom};

use super::Finding;

/// How long the store may take.
const PATIENCE: Duration = Duration::from_secs(30);
const ADVICE: &str = "check URL, credentials and network; `sealcast store probe` says more";
/// Stores refuse signatures of clocks that differ by fifteen minutes.
const DIFFERENCE_MS_MAX: u64 = 60_000;

pub(super) async fn examine(location: &str, clock: &dyn Clock) -> Vec<Finding> {
    let is_folder = !location.contains("://");
    if is_folder && !std::path::Path::new(location).is_dir() {
        let finding = Finding::warn("store", location, "the folder does not exist yet");
        return vec![finding.advice("the shipper makes it; is the path right?")];
    }
    let store = match Store::open(location) {
        Ok(store) => store,
        Err(error) => {
            return vec![Finding::fail("store", without_secret(location), error).advice(ADVICE)];
        }
    };
    let began = clock.monotonic();
    let read = tokio::time::timeout(PATIENCE, store.get("SEALCAST.json")).await;
    let took = (clock.monotonic() - began).as_millis();
    let name = store.name();
    let reached = match read {
        Err(_) => {
            let found = format!("no answer within {} s", PATIENCE.as_secs());
            return vec![Finding::fail("store", name, found).advice(ADVICE)];
        }
        Ok(Err(error)) => return vec![Finding::fail("store", name, error).advice(ADVICE)],
        Ok(Ok(None)) => Finding::warn("store", name, format!("reachable in {took} ms, empty"))
            .advice("right for a new store only: the first shipper puts SEALCAST.json"),
        Ok(Ok(Some(_))) => Finding::ok("store", name, format!("reachable in {took} ms")),
    };
    let mut findings = vec![reached, promises(&store).await];
    findings.extend(time_of(location, clock).await);
    findings
}

async fn promises(store: &Store) -> Finding {
    let name = store.name();
    let Ok(report) = tokio::time::timeout(PATIENCE, probe(store, &OsRandom)).await else {
        let found = format!("not probed within {} s", PATIENCE.as_secs());
        return Finding::warn("store", name, found).advice(ADVICE);
    };
    match report.fitness(false) {
        Fitness::Fit => Finding::ok("store", name, "keeps what commits rest on"),
        Fitness::Unknown => Finding::warn("store", name, report.reason())
            .advice("a replica needs no right to write: then this is as it should be"),
        Fitness::Unfit => Finding::fail("store", name, report.reason())
            .advice("use another store; or fencing = \"external\", with your word"),
    }
}

/// The store's clock by its `Date` header, where it has one.
async fn time_of(location: &str, clock: &dyn Clock) -> Option<Finding> {
    let url = endpoint(location)?;
    let client = reqwest::Client::builder().timeout(PATIENCE).build().ok()?;
    // Any answer will do, a refusal too.
    let response = client.head(&url).send().await.ok()?;
    let date = response.headers().get("date")?.to_str().ok()?;
    let told = jiff::fmt::rfc2822::parse(date).ok()?.timestamp().as_microsecond();
    let (told, now, url) = (Micros(told), clock.now(), without_secret(&url));
    let apart = told.millis_since(now).max(now.millis_since(told));
    Some(if apart <= DIFFERENCE_MS_MAX {
        Finding::ok("clock", url, format!("{apart} ms apart from the store's"))
    } else {
        Finding::fail("clock", url, format!("the store says {told}, this machine {now}"))
            .advice("run chronyd or systemd-timesyncd; stores refuse signatures of wrong clocks")
    })
}

#[expect(clippy::disallowed_methods, reason = "the store's own variable, as its client reads it")]
fn endpoint(location: &str) -> Option<String> {
    let (scheme, _) = location.split_once("://")?;
    match scheme {
        "http" | "https" => Some(location.to_owned()),
        "s3" | "s3a" => {
            let named = ["AWS_ENDPOINT", "AWS_ENDPOINT_URL"].into_iter();
            let stated = named.filter_map(|name| std::env::var(name).ok()).next();
            Some(stated.unwrap_or_else(|| "https://s3.amazonaws.com".to_owned()))
        }
        "gs" => Some("https://storage.googleapis.com".to_owned()),
        _ => None,
    }
}
