//! Settings of a connection: what clients set, and the few that mean something here.

use std::collections::BTreeMap;

use sealcast_common::wire::Token;

use super::state::Refusal;
use super::words::writes;
use crate::serve::{bounded_wait, token};
use crate::sql::SETTINGS;

/// Settings that one connection may hold, and the characters of one.
const SETTINGS_MAX: usize = 200;
const CHARS_MAX: usize = 4_096;
/// Told at the start, and when they change.
const REPORTED: [&str; 12] = [
    "application_name",
    "client_encoding",
    "DateStyle",
    "default_transaction_read_only",
    "in_hot_standby",
    "integer_datetimes",
    "IntervalStyle",
    "is_superuser",
    "server_encoding",
    "server_version",
    "standard_conforming_strings",
    "TimeZone",
];

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings {
    set: BTreeMap<String, String>,
    pub(super) asked: Asked,
}

/// What statements take from settings.
#[derive(Clone, Debug, Default)]
pub(super) struct Asked {
    pub(super) timeout_ms: Option<u64>,
    pub(super) max_rows: Option<u64>,
    pub(super) min: Option<Token>,
    pub(super) wait_ms: Option<u64>,
    pub(super) allow_partial: bool,
    pub(super) allow_stale: bool,
}

fn bad(name: &str, expected: &str) -> Refusal {
    Refusal::new("22023", format!("setting {name} is not {expected}"))
}

fn flag(name: &str, value: &str) -> Result<bool, Refusal> {
    match value.to_ascii_lowercase().as_str() {
        "on" | "true" | "yes" | "1" => Ok(true),
        "off" | "false" | "no" | "0" => Ok(false),
        _ => Err(bad(name, "on or off")),
    }
}

/// Milliseconds, also with a unit.
fn millis(name: &str, value: &str) -> Result<u64, Refusal> {
    let end = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
    let (number, unit) = value.split_at(end);
    let factor = match unit.trim() {
        "" | "ms" => 1,
        "s" => 1_000,
        "min" => 60_000,
        "h" => 3_600_000,
        _ => return Err(bad(name, "a time such as 30s")),
    };
    let number: u64 = number.parse().map_err(|_| bad(name, "a time such as 30s"))?;
    Ok(number.saturating_mul(factor))
}

impl Settings {
    /// Sets one. Gives what there is to warn of.
    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<Option<&'static str>, Refusal> {
        let name = name.to_lowercase();
        let number = || value.parse().map_err(|_| bad(&name, "a whole number"));
        let mut warning = None;
        match name.as_str() {
            "statement_timeout" => {
                self.asked.timeout_ms = Some(millis(&name, value)?).filter(|timeout| *timeout > 0);
            }
            "sealcast.max_rows" => self.asked.max_rows = Some(number()?),
            "sealcast.wait_ms" => self.asked.wait_ms = Some(bounded_wait(number()?)?),
            "sealcast.allow_partial" => self.asked.allow_partial = flag(&name, value)?,
            "sealcast.allow_stale" => self.asked.allow_stale = flag(&name, value)?,
            "sealcast.min" if value.is_empty() => self.asked.min = None,
            "sealcast.min" => self.asked.min = Some(token(value)?),
            other if other.starts_with("sealcast.") => {
                return Err(Refusal::new("42704", format!("setting {other} is not known")).hint(
                    "sealcast.min, sealcast.wait_ms, sealcast.max_rows, sealcast.allow_partial, sealcast.allow_stale",
                ));
            }
            "client_encoding" => {
                let plain: String = value.chars().filter(char::is_ascii_alphanumeric).collect();
                if !["utf8", "unicode", "sqlascii"].contains(&plain.to_lowercase().as_str()) {
                    return Err(bad(&name, "UTF8, the one encoding that is spoken here"));
                }
                return Ok(None);
            }
            "transaction_read_only" | "default_transaction_read_only" if !flag(&name, value)? => {
                return Err(writes());
            }
            "timezone" => {
                if !["utc", "gmt", "etc/utc", "default"].contains(&value.to_lowercase().as_str()) {
                    warning = Some("times are given in UTC, whatever the time zone is set to");
                }
                return Ok(warning);
            }
            "datestyle" if !value.to_lowercase().starts_with("iso") => {
                return Ok(Some("dates are given as ISO has them, whatever the style is set to"));
            }
            _ => {}
        }
        if self.set.len() >= SETTINGS_MAX || name.len() + value.len() > CHARS_MAX {
            return Err(Refusal::new("54000", "connection has too many or too long settings"));
        }
        let fixed = ["server_version", "server_version_num", "is_superuser", "in_hot_standby"];
        if fixed.contains(&name.as_str()) {
            return Err(Refusal::new("55P02", format!("setting {name} cannot be changed")));
        }
        self.set.insert(name, value.to_owned());
        Ok(warning)
    }

    /// Takes one back, or all.
    pub(super) fn reset(&mut self, name: Option<&str>) {
        match name {
            None => *self = Settings::default(),
            Some(name) => {
                let name = name.to_lowercase();
                self.set.remove(&name);
                match name.as_str() {
                    "statement_timeout" => self.asked.timeout_ms = None,
                    "sealcast.max_rows" => self.asked.max_rows = None,
                    "sealcast.wait_ms" => self.asked.wait_ms = None,
                    "sealcast.allow_partial" => self.asked.allow_partial = false,
                    "sealcast.allow_stale" => self.asked.allow_stale = false,
                    "sealcast.min" => self.asked.min = None,
                    _ => {}
                }
            }
        }
    }

    /// What one is.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let name = name.to_lowercase();
        let usual =
            || SETTINGS.into_iter().find(|(known, _)| *known == name).map(|(_, value)| value);
        self.set.get(&name).map(String::as_str).or_else(usual)
    }

    /// All that have a value.
    pub(super) fn all(&self) -> BTreeMap<&str, &str> {
        let set = self.set.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        SETTINGS.into_iter().chain(set).collect()
    }

    /// Those that clients are told unasked.
    pub(super) fn reported(&self) -> impl Iterator<Item = (&'static str, &str)> {
        REPORTED.into_iter().filter_map(|name| Some((name, self.get(name)?)))
    }

    /// How `name` is written where it is told unasked.
    pub(super) fn reported_as(name: &str) -> Option<&'static str> {
        REPORTED.into_iter().find(|known| known.eq_ignore_ascii_case(name))
    }
}
