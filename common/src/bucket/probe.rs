//! Whether a store keeps the promises that commits rest on, tried on scratch objects.
//!
//! Never trust a vendor's name: gateways, caches and "compatible" servers differ by version and
//! setting. Everything is tried under `cap/<id>/`, and removed again as far as possible.

use std::fmt;

use bytes::Bytes;
use futures::StreamExt as _;
use object_store::path::Path as Key;
use object_store::{GetOptions, ObjectStoreExt as _};
use serde::Serialize;

use super::{Created, Store, StoreError};
use crate::clock::Random;
use crate::fault::hex;

/// Creates that race for one key.
const RACERS: usize = 8;

/// One promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Check {
    /// A second create is refused, and the first content stays.
    CreateOnly,
    /// Of eight creates at one moment one wins, and its bytes are there.
    Race,
    /// An object is there, and whole, right after its put.
    ReadAfterWrite,
    /// An object is there after its create, also if it was looked for before.
    NoNegativeCaching,
    /// A get of what is known already costs no body. Not needed.
    ConditionalGet,
    /// A listing shows what was just put. Not needed.
    ListAfterWrite,
}

impl Check {
    /// In the order in which they are tried.
    const ALL: [Check; 6] = [
        Check::CreateOnly,
        Check::Race,
        Check::ReadAfterWrite,
        Check::NoNegativeCaching,
        Check::ConditionalGet,
        Check::ListAfterWrite,
    ];

    /// As in metrics, JSON and documentation.
    pub fn word(self) -> &'static str {
        match self {
            Check::CreateOnly => "create_only",
            Check::Race => "race",
            Check::ReadAfterWrite => "read_after_write",
            Check::NoNegativeCaching => "no_negative_caching",
            Check::ConditionalGet => "conditional_get",
            Check::ListAfterWrite => "list_after_write",
        }
    }

    /// Whether one owner at a time rests on it: what `fencing = "external"` replaces.
    pub fn is_fencing(self) -> bool {
        matches!(self, Check::CreateOnly | Check::Race)
    }

    /// Whether a store without it is still fit.
    pub fn is_optional(self) -> bool {
        matches!(self, Check::ConditionalGet | Check::ListAfterWrite)
    }

    fn expected(self) -> &'static str {
        match self {
            Check::CreateOnly => "a second create refused and the first content kept",
            Check::Race => "one of 8 creates at one moment wins and its bytes are there",
            Check::ReadAfterWrite => "an object right after its put, with the bytes that were put",
            Check::NoNegativeCaching => "an object found that was absent before its create",
            Check::ConditionalGet => "\"not modified\" for an ETag that is known",
            Check::ListAfterWrite => "objects in a listing right after their put",
        }
    }
}

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// As expected.
    Kept,
    /// Otherwise.
    Broken,
    /// The store gave no answer.
    Unknown,
}

/// One check, what was expected and what was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Which promise.
    pub check: Check,
    /// How it ended.
    pub verdict: Verdict,
    /// What a fit store does.
    pub expected: &'static str,
    /// What this one did.
    pub found: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: found {}, expected {}", self.check.word(), self.found, self.expected)
    }
}

/// What all of it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fitness {
    /// Commits can rest on it.
    Fit,
    /// They cannot.
    Unfit,
    /// It did not answer: ask again.
    Unknown,
}

/// Every finding about one store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProbeReport {
    /// The store's location, without credentials.
    pub store: String,
    /// In the order of the checks.
    pub findings: Vec<Finding>,
}

impl ProbeReport {
    /// Whether commits can rest on the store; with `external`, somebody else guarantees one owner.
    pub fn fitness(&self, external: bool) -> Fitness {
        let counts = |finding: &&Finding| {
            let check = finding.check;
            !(check.is_optional() || external && check.is_fencing())
        };
        let any = |verdict| self.findings.iter().filter(counts).any(|f| f.verdict == verdict);
        if any(Verdict::Broken) {
            Fitness::Unfit
        } else if any(Verdict::Unknown) {
            Fitness::Unknown
        } else {
            Fitness::Fit
        }
    }

    /// What is not as expected and matters, in one line.
    pub fn reason(&self) -> String {
        let bad = self.findings.iter();
        let bad = bad.filter(|f| f.verdict != Verdict::Kept && !f.check.is_optional());
        bad.map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }
}

/// Either what was found wrong, or nothing.
type Tried = Result<Result<String, String>, StoreError>;

fn kept(found: &str) -> Tried {
    Ok(Ok(found.to_owned()))
}

fn broken(found: impl Into<String>) -> Tried {
    Ok(Err(found.into()))
}

/// Tries every promise.
pub async fn probe(store: &Store, random: &dyn Random) -> ProbeReport {
    let scratch = Scratch { store, folder: format!("cap/{}", hex(&random.bytes16())) };
    let content = || Bytes::from(random.bytes32().to_vec());
    let (first, second) = (content(), content());
    let racers: Vec<Bytes> = (0..RACERS).map(|_| content()).collect();
    let mut findings = Vec::new();
    for check in Check::ALL {
        let tried = match check {
            Check::CreateOnly => scratch.create_only(&first, &second).await,
            Check::Race => scratch.race(&racers).await,
            Check::ReadAfterWrite => scratch.read_after_write(&first).await,
            Check::NoNegativeCaching => scratch.no_negative_caching(&first).await,
            Check::ConditionalGet => scratch.conditional_get().await,
            Check::ListAfterWrite => scratch.list_after_write().await,
        };
        let finding = finding(check, tried);
        let silent = finding.verdict == Verdict::Unknown && !check.is_optional();
        findings.push(finding);
        if silent {
            // A store that does not answer is asked no more than it must be.
            return ProbeReport { store: store.name().to_owned(), findings };
        }
    }
    scratch.remove().await;
    ProbeReport { store: store.name().to_owned(), findings }
}

fn finding(check: Check, tried: Tried) -> Finding {
    let (verdict, found) = match tried {
        Ok(Ok(found)) => (Verdict::Kept, found),
        Ok(Err(found)) => (Verdict::Broken, found),
        Err(error) if error.is_unsupported() => (Verdict::Broken, error.to_string()),
        Err(error) => (Verdict::Unknown, error.to_string()),
    };
    Finding { check, verdict, expected: check.expected(), found }
}

struct Scratch<'a> {
    store: &'a Store,
    folder: String,
}

const NAMES: [&str; 4] = ["create", "race", "write", "absent"];

impl Scratch<'_> {
    fn key(&self, name: &str) -> String {
        format!("{}/{name}", self.folder)
    }

    async fn create_only(&self, first: &Bytes, second: &Bytes) -> Tried {
        let key = self.key("create");
        // "Exists" may be ours from a lost answer: only the bytes tell.
        self.store.create(&key, first.clone()).await?;
        let again = self.store.create(&key, second.clone()).await?;
        let found = self.store.get(&key).await?;
        match (again, found) {
            (_, None) => broken("no object after its create"),
            (Created::New, Some(bytes)) if bytes == *second => {
                broken("the second create succeeded and replaced the first content")
            }
            (Created::New, Some(_)) => broken("the second create was said to succeed"),
            (Created::Exists, Some(bytes)) if bytes == *first => {
                kept("the second create was refused")
            }
            (Created::Exists, Some(_)) => {
                broken("the second create was refused, and yet the first content is gone")
            }
        }
    }

    async fn race(&self, racers: &[Bytes]) -> Tried {
        let key = self.key("race");
        let creates = racers.iter().map(|bytes| self.store.create(&key, bytes.clone()));
        let outcomes = futures::future::join_all(creates).await;
        let found = self.store.get(&key).await?;
        let won = |outcome: &Result<Created, _>| matches!(outcome, Ok(Created::New));
        let winners = outcomes.iter().filter(|outcome| won(outcome)).count();
        if winners > 1 {
            return broken(format!("{winners} of {} were told that they won", racers.len()));
        }
        let winner = outcomes.iter().position(won).and_then(|at| racers.get(at));
        match (winner, found) {
            (_, Some(bytes)) if !racers.contains(&bytes) => broken("bytes that nobody has put"),
            (Some(winner), Some(bytes)) if *winner != bytes => {
                broken("the bytes of another than the one who was told that it won")
            }
            (Some(_), None) => broken("a winner and no object"),
            // Whoever won did not hear of it: its answer was lost.
            (_, Some(_)) => kept("one winner, with its bytes"),
            (None, None) => match outcomes.into_iter().find_map(Result::err) {
                Some(error) => Err(error),
                None => broken("no winner and no object"),
            },
        }
    }

    async fn read_after_write(&self, bytes: &Bytes) -> Tried {
        let key = self.key("write");
        self.store.put(&key, bytes.clone()).await?;
        match self.store.get(&key).await? {
            Some(found) if found == *bytes => kept("the object, whole"),
            Some(found) => broken(format!("{} other bytes", found.len())),
            None => broken("no object"),
        }
    }

    async fn no_negative_caching(&self, bytes: &Bytes) -> Tried {
        let key = self.key("absent");
        if self.store.get(&key).await?.is_some() {
            return broken("an object that nobody has put");
        }
        self.store.create(&key, bytes.clone()).await?;
        match self.store.get(&key).await? {
            Some(found) if found == *bytes => kept("the object"),
            Some(_) => broken("other bytes"),
            None => broken("\"absent\" remembered: a cache lies in front of the store"),
        }
    }

    async fn conditional_get(&self) -> Tried {
        let (key, failed) = (self.key("write"), super::failure("get", "cap"));
        let path = Key::from(key);
        let meta = self.store.inner().head(&path).await.map_err(&failed)?;
        let Some(etag) = meta.e_tag else { return broken("no ETag") };
        let options = GetOptions { if_none_match: Some(etag), ..GetOptions::default() };
        match self.store.inner().get_opts(&path, options).await {
            Err(object_store::Error::NotModified { .. }) => kept("\"not modified\""),
            Ok(_) => broken("the object's bytes again"),
            Err(error) => Err(failed(error)),
        }
    }

    async fn list_after_write(&self) -> Tried {
        let listed = self.store.list_all(&self.folder).await?;
        let missing = NAMES.iter().find(|name| {
            let key = self.key(name);
            !listed.iter().any(|(listed, _)| *listed == key)
        });
        match missing {
            None => kept("all of them"),
            Some(name) => broken(format!("no {name} among {} objects", listed.len())),
        }
    }

    /// A leftover costs a few bytes and no correctness.
    async fn remove(&self) {
        let keys = NAMES.map(|name| Ok(Key::from(self.key(name))));
        let gone = self.store.inner().delete_stream(futures::stream::iter(keys).boxed());
        let _left_over = gone.collect::<Vec<_>>().await;
    }
}
