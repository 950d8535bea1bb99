//! What `sealcast doctor` looks at: `clock`, `files` (folders), `machine` (limits, memory),
//! `network` (addresses, TLS), `certificate`, `store`.
//!
//! Nothing here repairs anything; the only traces are scratch files and objects, removed at once.

mod certificate;
mod clock;
mod files;
mod machine;
mod network;
mod store;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use sealcast_common::clock::Clock;
use sealcast_common::serve::access::AccessConfig;
use serde::Serialize;

use crate::settings::{Fault, Section, SettingsFile, given, in_force};

/// How a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Health {
    Ok,
    Warn,
    Fail,
}

impl Health {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Health::Ok => "ok",
            Health::Warn => "warn",
            Health::Fail => "fail",
        }
    }
}

/// One line of the report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    pub(crate) health: Health,
    /// What was looked at: a word from a closed list.
    pub(crate) check: &'static str,
    /// Which folder, store, address.
    pub(crate) subject: String,
    pub(crate) found: String,
    /// What to do.
    pub(crate) advice: Option<String>,
}

impl Finding {
    fn new(
        health: Health,
        check: &'static str,
        subject: impl ToString,
        found: impl ToString,
    ) -> Self {
        let (subject, found) = (subject.to_string(), found.to_string());
        Finding { health, check, subject, found, advice: None }
    }

    pub(super) fn ok(check: &'static str, subject: impl ToString, found: impl ToString) -> Self {
        Self::new(Health::Ok, check, subject, found)
    }

    pub(super) fn warn(check: &'static str, subject: impl ToString, found: impl ToString) -> Self {
        Self::new(Health::Warn, check, subject, found)
    }

    pub(super) fn fail(check: &'static str, subject: impl ToString, found: impl ToString) -> Self {
        Self::new(Health::Fail, check, subject, found)
    }

    pub(super) fn advice(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }
}

/// A folder that a role uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Folder {
    pub(crate) path: PathBuf,
    pub(crate) use_: Use,
}

/// What a folder is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// A writer's data: losing it loses events.
    Data,
    /// A replica's cache: mapped into memory.
    Cache,
}

/// A server that a setting names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Server {
    pub(crate) role: &'static str,
    pub(crate) address: String,
    pub(crate) speaks: Speaks,
}

/// By which protocol a server tells that it is one of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaks {
    Http,
    Postgres,
}

/// Everything to look at.
#[derive(Clone, Debug, Default)]
pub(crate) struct Subjects {
    pub(crate) folders: Vec<Folder>,
    pub(crate) stores: Vec<String>,
    pub(crate) servers: Vec<Server>,
    /// Servers of others that a role calls.
    pub(crate) called: Vec<String>,
    /// Memory that running queries may take, if a replica is meant.
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) access: AccessConfig,
}

impl Subjects {
    /// One folder or store: a folder with `SEALCAST.json` is a store, any other one is data.
    pub(crate) fn one(target: &str) -> Self {
        let path = PathBuf::from(target);
        let is_store = target.contains("://") || path.join("SEALCAST.json").is_file();
        let mut subjects = Subjects::default();
        if is_store {
            subjects.stores.push(target.to_owned());
        } else {
            subjects.folders.push(Folder { path, use_: Use::Data });
        }
        subjects
    }

    /// What the settings name; wrong settings are told instead.
    pub(crate) fn configured(
        sections: &[Section],
        file: Option<&SettingsFile>,
    ) -> Result<Self, Vec<Fault>> {
        let mut faults = file.map_or_else(Vec::new, |file| file.faults.clone());
        let mut subjects = Subjects::default();
        // Certificates are everybody's.
        let all = Section::ALL.into_iter();
        for section in all.filter(|s| sections.contains(s) || *s == Section::Access) {
            let given = given(section, file, &[]).map_err(|fault| vec![fault])?;
            // A witness stands apart from the cluster: one that nobody speaks of is not here.
            if section == Section::Witness && given.is_empty() && sections.len() > 1 {
                continue;
            }
            match in_force(section, &given) {
                Ok(in_force) => {
                    let settings = in_force.into_iter().map(|(key, value, _)| (key, value));
                    subjects.take(section, settings.collect());
                }
                Err(found) => faults.extend(found),
            }
        }
        if faults.is_empty() { Ok(subjects) } else { Err(faults) }
    }

    fn take(&mut self, section: Section, settings: toml::Table) {
        let text = |key: &str| settings.get(key).and_then(|value| value.as_str());
        let number = |key: &str| settings.get(key).and_then(|value| value.as_integer());
        if section == Section::Access {
            // It was read as such a moment ago.
            self.access = settings.try_into().unwrap_or_default();
            return;
        }
        let use_ = if section == Section::Replica { Use::Cache } else { Use::Data };
        if let Some(dir) = text("dir").or_else(|| text("data")) {
            let folder = Folder { path: dir.into(), use_ };
            if !self.folders.contains(&folder) {
                self.folders.push(folder);
            }
        }
        if let Some(store) = text("store").map(|store| store.trim_start_matches("./").to_owned())
            && !self.stores.contains(&store)
        {
            self.stores.push(store);
        }
        // The port of Flight has the probes of HTTP.
        let ports =
            [("http", Speaks::Http), ("flight", Speaks::Http), ("postgres", Speaks::Postgres)];
        for (key, speaks) in ports {
            if let Some(address) = text(key).filter(|address| !["", "none"].contains(address)) {
                let (role, address) = (section.name(), address.to_owned());
                self.servers.push(Server { role, address, speaks });
            }
        }
        let called = settings.get("shipper").and_then(|value| value.as_array());
        let called = called.into_iter().flatten().filter_map(|url| url.as_str());
        self.called.extend(called.chain(text("writer")).map(str::to_owned));
        if section == Section::Replica {
            self.memory_bytes = number("memory_bytes").and_then(|bytes| u64::try_from(bytes).ok());
        }
    }
}

/// Looks at everything, in the order of the report.
pub(crate) async fn examine(subjects: &Subjects, clock: &dyn Clock) -> Vec<Finding> {
    let mut findings = clock::examine(subjects, clock);
    for folder in &subjects.folders {
        findings.extend(files::examine(folder, clock));
    }
    findings.extend(machine::examine(subjects));
    for store in &subjects.stores {
        findings.extend(store::examine(store, clock).await);
    }
    findings.extend(network::certificate(&subjects.access, clock.now()));
    findings.extend(network::examine(subjects).await);
    findings
}
