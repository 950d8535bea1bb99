//! Every role's settings as tables: where each value came from, and everything that is wrong.
//!
//! Nothing is judged here: each role's own `Config` reads the table and checks it.

mod file;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args as _};
use sealcast_common::bucket::without_secret;
use sealcast_common::serve::access::{AccessArgs, AccessConfig};
use sealcast_common::serve::with_suggestion;
use serde::Serialize;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

pub(crate) use file::SettingsFile;

/// A section of `sealcast.toml`: a role's, or what all roles share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Section {
    Writer,
    Shipper,
    Replica,
    Witness,
    Access,
}

impl Section {
    pub(crate) const ALL: [Section; 5] =
        [Section::Writer, Section::Shipper, Section::Replica, Section::Witness, Section::Access];

    /// Its section.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Section::Writer => "writer",
            Section::Shipper => "shipper",
            Section::Replica => "replica",
            Section::Witness => "witness",
            Section::Access => "access",
        }
    }

    fn command(self) -> clap::Command {
        let command = clap::Command::new(self.name());
        match self {
            Section::Writer => sealcast_writer::Args::augment_args(command),
            Section::Shipper => sealcast_shipper::Args::augment_args(command),
            Section::Replica => sealcast_replica::Args::augment_args(command),
            Section::Witness => sealcast_witness::Args::augment_args(command),
            Section::Access => AccessArgs::augment_args(command),
        }
    }

    fn stated(self, matches: &ArgMatches) -> Result<Table, String> {
        match self {
            Section::Writer => stated::<sealcast_writer::Args>(matches),
            Section::Shipper => stated::<sealcast_shipper::Args>(matches),
            Section::Replica => stated::<sealcast_replica::Args>(matches),
            Section::Witness => stated::<sealcast_witness::Args>(matches),
            Section::Access => stated::<AccessArgs>(matches),
        }
    }

    /// Every setting with its default, absent ones too: as JSON they are null, TOML has no word
    /// for them.
    pub(crate) fn defaults(self) -> serde_json::Map<String, serde_json::Value> {
        let defaults = match self {
            Section::Writer => serde_json::to_value(sealcast_writer::Config::default()),
            Section::Shipper => serde_json::to_value(sealcast_shipper::Config::default()),
            Section::Replica => serde_json::to_value(sealcast_replica::Config::default()),
            Section::Witness => serde_json::to_value(sealcast_witness::Config::default()),
            Section::Access => serde_json::to_value(AccessConfig::default()),
        };
        match defaults {
            Ok(serde_json::Value::Object(defaults)) => defaults,
            _ => serde_json::Map::new(),
        }
    }

    /// The settings in force with `given`, or the first thing that is wrong.
    fn judge(self, given: Table) -> Result<Table, String> {
        match self {
            Section::Writer => judge(given, |config: &sealcast_writer::Config| {
                config.check().map_err(|error| error.to_string())
            }),
            Section::Shipper => judge(given, |config: &sealcast_shipper::Config| {
                config.check().map_err(|error| error.to_string())
            }),
            Section::Replica => judge(given, |config: &sealcast_replica::Config| {
                config.check().map_err(|error| error.to_string())
            }),
            Section::Witness => judge(given, |config: &sealcast_witness::Config| {
                config.check().map_err(|error| error.to_string())
            }),
            // Whether its files can be used is for the doctor.
            Section::Access => judge(given, |_: &AccessConfig| Ok(())),
        }
    }
}

fn stated<A: clap::FromArgMatches + Serialize>(matches: &ArgMatches) -> Result<Table, String> {
    let args = A::from_arg_matches(matches).map_err(|error| error.to_string())?;
    Table::try_from(&args).map_err(|error| error.to_string())
}

fn judge<C: DeserializeOwned + Serialize>(
    given: Table,
    check: impl Fn(&C) -> Result<(), String>,
) -> Result<Table, String> {
    let config: C = given.try_into().map_err(|error: toml::de::Error| {
        // Which key is told on a second line, which the setting's own place makes superfluous.
        with_suggestion(&error.to_string()).replace('\n', "; ")
    })?;
    check(&config)?;
    Table::try_from(&config).map_err(|error| error.to_string())
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Default,
    File { path: PathBuf, line: usize },
    Variable(String),
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File { path, line } => write!(f, "{}:{line}", path.display()),
            Origin::Variable(name) => write!(f, "environment variable {name}"),
            Origin::Flag(name) => write!(f, "flag --{name}"),
        }
    }
}

/// A value that somebody stated.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    pub(crate) key: String,
    pub(crate) value: Value,
    pub(crate) origin: Origin,
}

/// Something that is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) place: String,
    pub(crate) message: String,
}

/// What file, environment and `flags` state for `role`, the winner last.
pub(crate) fn given(
    role: Section,
    file: Option<&SettingsFile>,
    flags: &[String],
) -> Result<Vec<Given>, Fault> {
    let mut all = file.map_or_else(Vec::new, |file| file.section(role.name()));
    let command = role.command().no_binary_name(true);
    let refused = |message: String| Fault { place: "flags and environment".into(), message };
    let matches = command.clone().try_get_matches_from(flags).map_err(|error| {
        let text = error.to_string();
        refused(text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned())
    })?;
    for (key, value) in role.stated(&matches).map_err(refused)? {
        let argument = command.get_arguments().find(|argument| argument.get_id() == key.as_str());
        let origin = match matches.value_source(&key) {
            Some(ValueSource::EnvVariable) => {
                let name = argument.and_then(clap::Arg::get_env).unwrap_or_default();
                Origin::Variable(name.to_string_lossy().into_owned())
            }
            _ => Origin::Flag(key.replace('_', "-")),
        };
        all.push(Given { key, value, origin });
    }
    Ok(all)
}

/// The settings in force and their origins, or everything that is wrong: what has been blamed is
/// taken away, until the rest is right.
pub(crate) fn in_force(
    role: Section,
    given: &[Given],
) -> Result<Vec<(String, Value, Origin)>, Vec<Fault>> {
    let pairs = given.iter().map(|given| (given.key.clone(), given.value.clone()));
    let mut table: Table = pairs.collect();
    let mut faults = Vec::new();
    loop {
        match role.judge(table.clone()) {
            Ok(settings) if faults.is_empty() => {
                let origin = |key: &str| {
                    let stated = given.iter().rev().find(|given| given.key == key);
                    stated.map_or(Origin::Default, |given| given.origin.clone())
                };
                let settings = settings.into_iter();
                return Ok(settings.map(|(k, v)| (k.clone(), v, origin(&k))).collect());
            }
            Ok(_) => return Err(faults),
            Err(message) => {
                let blamed = blamed(&message, &table);
                let by = |key: &String| given.iter().rev().find(|given| given.key == *key);
                let place = blamed.as_ref().and_then(by).map(|given| given.origin.to_string());
                let place = place.unwrap_or_else(|| format!("[{}]", role.name()));
                faults.push(Fault { place, message });
                match blamed {
                    Some(key) => table.remove(&key),
                    None => return Err(faults),
                };
            }
        }
    }
}

/// The key that a message is about: the one it ends with (`in key`), or names first.
fn blamed(message: &str, table: &Table) -> Option<String> {
    let keys = || table.keys().cloned();
    let within = keys().find(|key| message.ends_with(&format!("in `{key}`")));
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = || message.split(|c| !is_word(c));
    within.or_else(|| {
        keys()
            .filter_map(|key| Some((words().position(|w| w == key)?, key)))
            .min()
            .map(|(_, key)| key)
    })
}

/// A value as TOML; the credentials of a URL are not shown.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => Value::from(without_secret(text)).to_string(),
        Value::Array(values) => {
            let values: Vec<_> = values.iter().map(shown).collect();
            format!("[{}]", values.join(", "))
        }
        _ => value.to_string(),
    }
}
